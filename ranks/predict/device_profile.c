/* The speed of a device, as a file or measured. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/scaling.h"

typedef struct key {
    const char *name;
    size_t offset;
    int32_t needed;
    const char *what;
} key;
#define AT(field) offsetof(cli_device_profile, field)
static const key keys[] = {
    {"read_gb_s", AT(read_gb_s), 1, "reading memory, in GB/s"},
    {"gflop_s", AT(gflop_s), 1, "arithmetic, in GFLOP/s; a multiply-add counts as two"},
    {"launch_us", AT(launch_us), 1, "a launch in a row of them"},
    {"round_trip_us", AT(round_trip_us), 1, "a launch that the host waits for"},
    {"host_gb_s", AT(host_gb_s), 0, "copies between device and host; 0: they share the memory"},
    {"memory_gb", AT(memory_gb), 1, "memory for one rank"},
    {"decode_share", AT(decode_share), 0, "what a decode step reaches of read_gb_s; 0: all"},
    {"prompt_share", AT(prompt_share), 0, "what a prompt reaches of gflop_s; 0: all"},
};
enum { N_KEYS = sizeof keys / sizeof *keys };

static double *at_key(cli_device_profile *p, const key *k)
{
    return (double *)(void *)((char *)p + k->offset);
}

/* The word at `text`, without the blanks around it; cut in place. */
static char *trimmed(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t n = strlen(text);
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        n--;
    text[n] = 0;
    return text;
}

static clef_status read_line(cli_device_profile *p, const char *path, int number, char *line, int32_t *seen,
                             clef_error *err)
{
    line[strcspn(line, "#")] = 0;
    char *equals = strchr(line, '=');
    if (!*trimmed(line))
        return CLEF_OK;
    if (!equals)
        return cli_error(err, CLEF_E_FORMAT, "%s:%d: expected KEY = VALUE", path, number);
    *equals = 0;
    const char *name = trimmed(line), *value = trimmed(equals + 1);
    if (strcmp(name, "name") == 0) {
        snprintf(p->name, sizeof p->name, "%s", value);
        return CLEF_OK;
    }
    for (int32_t i = 0; i < N_KEYS; i++) {
        if (strcmp(name, keys[i].name) != 0)
            continue;
        char *end;
        const double x = strtod(value, &end);
        if (end == value || *end || !isfinite(x) || x < 0 || (keys[i].needed && x == 0 && i < 2))
            return cli_error(err, CLEF_E_FORMAT, "%s:%d: %s: expected a number, got '%s'", path, number, name,
                             value);
        *at_key(p, &keys[i]) = x;
        seen[i] = 1;
        return CLEF_OK;
    }
    return cli_error(err, CLEF_E_FORMAT, "%s:%d: there is no key '%s'", path, number, name);
}

clef_status cli_device_profile_read(const char *path, cli_device_profile *out, clef_error *err)
{
    char line[256];
    int32_t seen[N_KEYS] = {0};
    clef_status s = CLEF_OK;
    *out = (cli_device_profile){0};
    FILE *f = fopen(path, "r");
    if (!f)
        return cli_error(err, CLEF_E_IO, "%s: cannot open it: %s", path, strerror(errno));
    for (int number = 1; !s && fgets(line, sizeof line, f); number++)
        s = read_line(out, path, number, line, seen, err);
    fclose(f);
    for (int32_t i = 0; i < N_KEYS && !s; i++)
        if (keys[i].needed && !seen[i])
            s = cli_error(err, CLEF_E_FORMAT, "%s: has no %s (%s)", path, keys[i].name, keys[i].what);
    if (!s && !out->name[0])
        snprintf(out->name, sizeof out->name, "%s", cli_title_of(path));
    return s;
}

clef_status cli_device_profile_measure(clef_device *device, int32_t again, cli_device_profile *out,
                                       clef_error *err)
{
    const clef_device_info *info = clef_device_describe(device);
    clef_device_speed speed;
    clef_error unknown = {0};
    clef_status s = CLEF_OK;
    if (again || clef_device_speed_known(device, &speed, &unknown) != CLEF_OK)
        s = clef_device_measure(device, &speed, err);
    if (s)
        return s;
    *out = (cli_device_profile){.read_gb_s = speed.read_gb_s,
                                .gflop_s = speed.mad_gflop_s,
                                .launch_us = speed.launch_us,
                                .round_trip_us = speed.round_trip_us,
                                .host_gb_s = info->caps.unified_memory ? 0 : speed.copy_gb_s,
                                .memory_gb = (double)info->caps.global_bytes / 1e9};
    snprintf(out->name, sizeof out->name, "%.90s", info->name);
    return CLEF_OK;
}

void cli_device_profile_write(const cli_device_profile *profile, FILE *to)
{
    cli_device_profile p = *profile;
    fprintf(to, "# A device for clef plan --device-profile\nname = %s\n", p.name);
    for (int32_t i = 0; i < N_KEYS; i++)
        fprintf(to, "%s = %.6g  # %s\n", keys[i].name, *at_key(&p, &keys[i]), keys[i].what);
}

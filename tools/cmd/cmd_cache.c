/* clef cache: lists what the cache folder holds and what is set aside, checks the files, removes them, and
 * takes them to other machines. */
#include <inttypes.h>
#include <string.h>

#include "tools/cli/common.h"

typedef struct cache_options {
    const char *dir, *device;
} cache_options;

static const cache_options cache_defaults = {0};

static const cli_option cache_option_table[] = {
    {.names = "dir",
     .type = CLI_TEXT,
     .value = "DIR",
     .offset = offsetof(cache_options, dir),
     .env = "CLEF_CACHE_DIR",
     .help = "the cache folder [~/.cache/clef]"},
    DEVICE_OPTION(cache_options),
    {.names = NULL},
};

/* Names of the kinds for `clear`, in the order of clef_cache_kind. */
static const char *const kind_names[CLEF_CACHE_N_KINDS] = {"programs", "fused",  "proofs",   "tuning",
                                                           "speed",    "tokens", "temporary"};

/* ---- list and verify ------------------------------------------------------------------------- */

typedef struct totals {
    struct {
        int32_t n;
        uint64_t n_bytes;
        int64_t youngest, oldest;
    } kinds[CLEF_CACHE_N_KINDS];
    uint64_t n_bytes;
    int32_t n_files, n_aside, n_damaged;
} totals;

static char *age_text(int64_t seconds, char out[32])
{
    static const struct {
        int64_t seconds;
        const char *name;
    } units[] = {{24 * 3600, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    size_t i = 0;
    while (i < sizeof units / sizeof *units - 1 && seconds < 2 * units[i].seconds)
        i++;
    snprintf(out, 32, "%" PRId64 " %s", seconds > 0 ? seconds / units[i].seconds : 0, units[i].name);
    return out;
}

static void count_entry(void *user, const clef_cache_entry *e)
{
    totals *t = user;
    const int is_first = t->kinds[e->kind].n++ == 0;
    t->kinds[e->kind].n_bytes += e->n_bytes;
    if (is_first || e->age < t->kinds[e->kind].youngest)
        t->kinds[e->kind].youngest = e->age;
    if (is_first || e->age > t->kinds[e->kind].oldest)
        t->kinds[e->kind].oldest = e->age;
    t->n_bytes += e->n_bytes;
    t->n_files++;
    t->n_damaged += e->is_damaged;
    if (e->is_damaged)
        printf("damaged: %s\n", e->path);
}

static void print_aside(void *user, const clef_cache_aside *a)
{
    totals *t = user;
    char age[32];
    if (!t->n_aside++)
        printf("set aside:\n");
    printf("  %s%s%s%s%s: %s", a->op, a->variant[0] == '-' ? "" : " ", a->variant[0] == '-' ? "" : a->variant,
           a->device[0] ? " on " : "", a->device, a->why);
    if (a->n_hung)
        printf(" (on %" PRId32 " of %d starts%s)", a->n_hung, CLEF_CACHE_OCCASIONS,
               a->n_hung < CLEF_CACHE_OCCASIONS ? "; the next one tries again" : "");
    if (a->age >= 0)
        printf(", %s ago", age_text(a->age, age));
    printf("\n");
}

static void print_totals(const char *dir, uint64_t limit, const totals *t)
{
    char bytes[24], most[24], youngest[32], oldest[32];
    printf("%s: %" PRId32 " files, %s of %s\n", dir, t->n_files, cli_bytes_text(t->n_bytes, bytes),
           cli_bytes_text(limit, most));
    printf("%-10s %6s %11s  %-10s %s\n", "kind", "files", "bytes", "last used", "oldest");
    for (int k = 0; k < CLEF_CACHE_N_KINDS; k++)
        if (t->kinds[k].n)
            printf("%-10s %6" PRId32 " %11s  %-10s %s\n", kind_names[k], t->kinds[k].n,
                   cli_bytes_text(t->kinds[k].n_bytes, bytes), age_text(t->kinds[k].youngest, youngest),
                   age_text(t->kinds[k].oldest, oldest));
}

static int list_files(const char *dir, int verify)
{
    clef_error err = {0};
    totals t = {0};
    uint64_t limit;
    const clef_cache_report count = {.verify = verify, .entry = count_entry, .user = &t};
    clef_status s = clef_cache_limit(&limit, &err);
    if (!s)
        s = clef_cache_list(dir, &count, &err);
    if (!s)
        print_totals(dir, limit, &t);
    if (!s)
        s = clef_cache_list(dir, &(clef_cache_report){.aside = print_aside, .user = &t}, &err);
    if (s)
        return cli_report(&err);
    if (!t.n_aside)
        printf("Nothing is set aside.\n");
    if (verify && !t.n_damaged)
        printf("Every file is sound.\n");
    return t.n_damaged ? cli_fail(CLI_FAILED,
                                  "%" PRId32 " files are damaged; clef will replace them when it needs them",
                                  t.n_damaged)
                       : CLI_OK;
}

/* ---- clear ----------------------------------------------------------------------------------- */

static int clear_aside(const char *dir)
{
    clef_error err = {0};
    int32_t n = 0;
    if (clef_cache_clear_aside(dir, &n, &err))
        return cli_report(&err);
    printf("%" PRId32 " kernels will be tried again.\n", n);
    return CLI_OK;
}

/* Bits of the named kinds, or of all; 0 after a message. */
static uint32_t kinds_named(int32_t n_args, char **args)
{
    uint32_t kinds = 0;
    for (int32_t i = 0; i < n_args; i++) {
        int k = 0;
        while (k < CLEF_CACHE_N_KINDS && strcmp(args[i], kind_names[k]) != 0)
            k++;
        if (k == CLEF_CACHE_N_KINDS) {
            cli_fail(
                CLI_USAGE,
                "cache: clear: expected aside, programs, fused, proofs, tuning, speed, tokens or temporary, "
                "got '%s'",
                args[i]);
            return 0;
        }
        kinds |= 1u << k;
    }
    return n_args ? kinds : (1u << CLEF_CACHE_N_KINDS) - 1;
}

static int clear_files(const char *dir, int32_t n_args, char **args)
{
    clef_error err = {0};
    int32_t n = 0;
    if (n_args == 1 && strcmp(args[0], "aside") == 0)
        return clear_aside(dir);
    const uint32_t kinds = kinds_named(n_args, args);
    if (!kinds)
        return CLI_USAGE;
    if (clef_cache_clear(dir, kinds, &n, &err))
        return cli_report(&err);
    printf("%" PRId32 " files removed.\n", n);
    return CLI_OK;
}

/* ---- other machines -------------------------------------------------------------------------- */

static int export_file(const char *dir, const char *device, const char *path)
{
    clef_error err = {0};
    clef_cache_moved m;
    char bytes[24];
    if (clef_cache_export(dir, device, path, &m, &err))
        return cli_report(&err);
    printf("%s: %" PRId32 " programs of %s, %s\n", path, m.n_programs, m.device,
           cli_bytes_text(m.n_bytes, bytes));
    return CLI_OK;
}

static int import_file(const char *dir, const char *device, const char *path)
{
    clef_error err = {0};
    clef_cache_moved m;
    if (clef_cache_import(dir, device, path, &m, &err))
        return cli_report(&err);
    printf("%s: new are %" PRId32 " programs, %" PRId32 " proofs and %" PRId32 " measurements of %s\n", path,
           m.n_programs, m.n_proofs, m.n_tuned, m.device);
    if (m.other_units)
        printf("Its measurements are left out: they were made with %" PRId32 " compute units.\n",
               m.other_units);
    return CLI_OK;
}

static int print_key(const char *device)
{
    clef_error err = {0};
    char key[CLEF_CACHE_TRAVEL_KEY_BYTES];
    if (clef_cache_travel_key(device, key, &err))
        return cli_report(&err);
    puts(key);
    return CLI_OK;
}

static int cache_run(const void *options, int32_t n_args, char **args)
{
    const cache_options *o = options;
    const char *what = n_args ? args[0] : "list";
    char dir[512];
    if (o->dir && strlen(o->dir) < sizeof dir)
        strcpy(dir, o->dir);
    else if (o->dir || !clef_cache_dir(dir, sizeof dir))
        return cli_fail(CLI_FAILED,
                        "cache: expected a folder of fewer than 512 bytes (--dir, CLEF_CACHE_DIR or HOME)");
    if (strcmp(what, "clear") == 0)
        return clear_files(dir, n_args - 1, args + 1);
    if ((strcmp(what, "list") == 0 || strcmp(what, "verify") == 0) && n_args <= 1)
        return list_files(dir, strcmp(what, "verify") == 0);
    const int is_export = strcmp(what, "export") == 0;
    if (is_export || strcmp(what, "import") == 0)
        return n_args == 2
                   ? (is_export ? export_file : import_file)(dir, o->device, args[1])
                   : cli_fail(CLI_USAGE, "cache: %s: expected one file, got %d", what, (int)n_args - 1);
    if (strcmp(what, "key") == 0 && n_args == 1)
        return print_key(o->device);
    return cli_fail(CLI_USAGE,
                    "cache: expected list, verify, clear, export FILE, import FILE or key, got '%s'",
                    n_args > 1 ? args[1] : what);
}

const cli_command cli_command_cache = {
    .name = "cache",
    .usage = "[list | verify | clear [aside | KIND..] | export FILE | import FILE | key]",
    .summary = "Show what is cached and which kernels are set aside, and why; empty it, or take it to "
               "another machine",
    .notes =
        "list shows how many files of each kind there are, and which kernels are set aside on which device, "
        "and why.\n"
        "verify also reads every file and checks it. The exit code is 1 when one is damaged.\n"
        "clear removes everything, or the kinds named: programs, fused, proofs, tuning, speed, tokens, "
        "temporary.\n"
        "clear aside keeps the files, but kernels that were set aside are tried again at the next start.\n"
        "export writes what is known of one device into a file: compiled kernels, proofs, measurements. It "
        "waits for kernels that are compiled in the background.\n"
        "import adds such a file. It must be of the same device, driver, processor and kernels, and what the "
        "folder knows already stays. The file holds machine code: import only what you trust.\n"
        "key prints a name that is equal on machines that can exchange these files.\n"
        "The folder is kept to 1 GiB: tokens of texts go first, then files used longest ago. CLEF_CACHE_MAX "
        "sets another size (512M, 2G).\n",
    .options = cache_option_table,
    .max_args = 1 + CLEF_CACHE_N_KINDS,
    .defaults = &cache_defaults,
    .options_bytes = sizeof cache_defaults,
    .run = cache_run,
};

#include "tools/cli/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

int cli_utf8_length(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    const unsigned char lo = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    const unsigned char hi = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    const int n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
    if (n > 1 && (s[1] < lo || s[1] > hi))
        return 0;
    for (int i = 2; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

void cli_json_text(FILE *to, const char *text, size_t n_bytes)
{
    const unsigned char *s = (const unsigned char *)text, *end = s + n_bytes;
    fputc('"', to);
    while (s < end) {
        const int n = cli_utf8_length((const char *)s);
        if (*s == '"' || *s == '\\')
            fprintf(to, "\\%c", *s);
        else if (*s == '\n')
            fputs("\\n", to);
        else if (*s == '\t')
            fputs("\\t", to);
        else if (*s < 0x20 || *s == 0x7f)
            fprintf(to, "\\u%04x", *s);
        else if (n)
            fwrite(s, 1, (size_t)n, to);
        else
            fputs("\\ufffd", to);
        s += n ? n : 1;
    }
    fputc('"', to);
}

void cli_json_string(FILE *to, const char *text)
{
    cli_json_text(to, text, strlen(text));
}

void cli_json_ints(FILE *to, const int32_t *x, int32_t n)
{
    fputc('[', to);
    for (int32_t i = 0; i < n; i++)
        fprintf(to, "%s%" PRId32, i ? ", " : "", x[i]);
    fputc(']', to);
}

void cli_json_member(FILE *to, int32_t *n_members, const char *key)
{
    if ((*n_members)++)
        fputs(", ", to);
    cli_json_string(to, key);
    fputs(": ", to);
}

void cli_json_member_text(FILE *to, int32_t *n_members, const char *key, const char *text)
{
    cli_json_member(to, n_members, key);
    cli_json_string(to, text);
}

void cli_json_member_number(FILE *to, int32_t *n_members, const char *key, double x)
{
    cli_json_member(to, n_members, key);
    if (fabs(x) < 9e15 && x == floor(x))
        fprintf(to, "%.0f", x);
    else
        cli_json_number(to, x, 9);
}

void cli_json_number(FILE *to, double x, int digits)
{
    if (isfinite(x))
        fprintf(to, "%.*g", digits, x);
    else
        fputs("null", to);
}

#include "lab/gpu/run/scan.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t gpu_scan_line(gpu_scan *s)
{
    for (; s->counted < s->at; s->counted++)
        s->line += *s->counted == '\n';
    return s->line;
}

void gpu_scan_fail(gpu_scan *s, const char *format, ...)
{
    const int n = snprintf(s->why, GPU_MESSAGE, "line %u: ", gpu_scan_line(s));
    va_list list;
    va_start(list, format);
    vsnprintf(s->why + n, GPU_MESSAGE - (size_t)n, format, list);
    va_end(list);
    longjmp(s->failed, 1);
}

void gpu_scan_blanks(gpu_scan *s)
{
    for (;;) {
        while (s->at < s->end && isspace((unsigned char)*s->at))
            s->at++;
        if (s->end - s->at < 2 || s->at[0] != '/' || s->at[1] != '/')
            return;
        while (s->at < s->end && *s->at != '\n')
            s->at++;
    }
}

int gpu_scan_is(gpu_scan *s, char c)
{
    gpu_scan_blanks(s);
    if (s->at == s->end || *s->at != c)
        return 0;
    s->at++;
    return 1;
}

void gpu_scan_expect(gpu_scan *s, char c)
{
    if (!gpu_scan_is(s, c))
        gpu_scan_fail(s, "expected '%c', got '%.20s'", c, s->at);
}

void gpu_scan_word(gpu_scan *s, const char *more, char out[GPU_NAME])
{
    size_t n = 0;
    gpu_scan_blanks(s);
    while (s->at < s->end && (isalnum((unsigned char)*s->at) || strchr(more, *s->at)) && n < GPU_NAME - 1)
        out[n++] = *s->at++;
    out[n] = 0;
    if (!n || n == GPU_NAME - 1)
        gpu_scan_fail(s, "expected a word, got '%.20s'", s->at);
}

uint64_t gpu_scan_number(gpu_scan *s)
{
    char *end;
    gpu_scan_blanks(s);
    const int is_bits = s->at[0] == '0' && s->at[1] && strchr("fFdD", s->at[1]);
    const uint64_t x = is_bits           ? strtoull(s->at + 2, &end, 16)
                       : s->at[0] == '-' ? (uint64_t)strtoll(s->at, &end, 0)
                                         : strtoull(s->at, &end, 0);
    if (end == s->at)
        gpu_scan_fail(s, "expected a number, got '%.20s'", s->at);
    s->at = *end == 'U' ? end + 1 : end;
    return x;
}

void gpu_scan_past(gpu_scan *s, char c)
{
    while (s->at < s->end && *s->at != c)
        s->at++;
    if (s->at == s->end)
        gpu_scan_fail(s, "expected '%c', got the end", c);
    s->at++;
}

uint32_t gpu_label_find(gpu_scan *s, const gpu_label *labels, uint32_t n, const char *name)
{
    uint32_t l = 0;
    while (l < n && strcmp(labels[l].name, name) != 0)
        l++;
    if (l == n)
        gpu_scan_fail(s, "label '%s' is not there", name);
    return labels[l].at;
}

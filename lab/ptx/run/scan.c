#include "lab/ptx/run/scan.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t ptx_scan_line(ptx_scan *s)
{
    for (; s->counted < s->at; s->counted++)
        s->line += *s->counted == '\n';
    return s->line;
}

void ptx_scan_fail(ptx_scan *s, const char *format, ...)
{
    const int n = snprintf(s->why, PTX_MESSAGE, "PTX, line %u: ", ptx_scan_line(s));
    va_list list;
    va_start(list, format);
    vsnprintf(s->why + n, PTX_MESSAGE - (size_t)n, format, list);
    va_end(list);
    longjmp(s->failed, 1);
}

void ptx_scan_blanks(ptx_scan *s)
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

int ptx_scan_is(ptx_scan *s, char c)
{
    ptx_scan_blanks(s);
    if (s->at == s->end || *s->at != c)
        return 0;
    s->at++;
    return 1;
}

void ptx_scan_expect(ptx_scan *s, char c)
{
    if (!ptx_scan_is(s, c))
        ptx_scan_fail(s, "expected '%c', got '%.20s'", c, s->at);
}

void ptx_scan_word(ptx_scan *s, const char *more, char out[PTX_NAME])
{
    size_t n = 0;
    ptx_scan_blanks(s);
    while (s->at < s->end && (isalnum((unsigned char)*s->at) || strchr(more, *s->at)) && n < PTX_NAME - 1)
        out[n++] = *s->at++;
    out[n] = 0;
    if (!n || n == PTX_NAME - 1)
        ptx_scan_fail(s, "expected a word, got '%.20s'", s->at);
}

uint64_t ptx_scan_number(ptx_scan *s)
{
    char *end;
    ptx_scan_blanks(s);
    const int is_bits = s->at[0] == '0' && s->at[1] && strchr("fFdD", s->at[1]);
    const uint64_t x = is_bits           ? strtoull(s->at + 2, &end, 16)
                       : s->at[0] == '-' ? (uint64_t)strtoll(s->at, &end, 0)
                                         : strtoull(s->at, &end, 0);
    if (end == s->at)
        ptx_scan_fail(s, "expected a number, got '%.20s'", s->at);
    s->at = *end == 'U' ? end + 1 : end;
    return x;
}

void ptx_scan_past(ptx_scan *s, char c)
{
    while (s->at < s->end && *s->at != c)
        s->at++;
    if (s->at == s->end)
        ptx_scan_fail(s, "expected '%c', got the end", c);
    s->at++;
}

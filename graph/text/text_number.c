/* Writes and reads floats as text. printf and strtof follow the caller's locale, but the text forms do not,
 * so the decimal point is replaced. */
#include <stdlib.h>
#include <string.h>

#include "graph/text/text.h"

enum { MAX_NUMBER = 128 }; /* bytes of a number that is read */

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

void clef__write_float(FILE *to, double x)
{
    char text[40];
    snprintf(text, sizeof text, "%.9g", x); /* nine digits give the same float back */
    for (const char *s = text; *s;) {
        if (is_digit(*s) || strchr("+-einfa", *s)) {
            fputc(*s++, to);
            continue;
        }
        fputc('.', to); /* the locale's point, of one or more bytes */
        while (*s && !is_digit(*s))
            s++;
    }
}

/* The locale's decimal point, found in a way that other threads cannot disturb. */
static void locale_point(char point[16])
{
    char text[24];
    const int n = snprintf(text, sizeof text, "%.1f", 0.5);
    const size_t bytes = n > 2 && n < 18 ? (size_t)n - 2 : 0;
    memcpy(point, text + 1, bytes);
    point[bytes] = 0;
}

static const char *skip_digits(const char *s, int *any, int *nonzero)
{
    for (; is_digit(*s); s++) {
        *any = 1;
        *nonzero |= *s != '0';
    }
    return s;
}

int clef__read_float(const char *text, float *out)
{
    char number[MAX_NUMBER + 16], point[16];
    int any = 0, nonzero = 0, any_power = 0, unused = 0;
    const char *s = text + (*text == '-' || *text == '+');
    if (strcmp(s, "inf") == 0 || strcmp(s, "nan") == 0) {
        *out = strtof(text, NULL);
        return 1;
    }
    const char *dot = skip_digits(s, &any, &nonzero);
    s = *dot == '.' ? skip_digits(dot + 1, &any, &nonzero) : dot;
    if (any && (*s == 'e' || *s == 'E')) {
        s += 1 + (s[1] == '-' || s[1] == '+');
        s = skip_digits(s, &any_power, &unused);
        any = any_power;
    }
    if (!any || *s || s - text >= MAX_NUMBER)
        return 0;
    locale_point(point);
    snprintf(number, sizeof number, "%.*s%s%s", (int)(dot - text), text, *dot == '.' ? point : "",
             *dot == '.' ? dot + 1 : dot);
    *out = strtof(number, NULL);
    return *out - *out != 0 || (*out == 0 && nonzero) ? -1 : 1;
}

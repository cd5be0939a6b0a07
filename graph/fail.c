/* Fills the caller's clef_error, and has the texts of the statuses. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "graph/fail.h"

static const char *const status_names[] = {
#define CLEF_X(name, text) #name,
    CLEF_STATUSES(CLEF_X)
#undef CLEF_X
};

static const char *const status_texts[] = {
#define CLEF_X(name, text) text,
    CLEF_STATUSES(CLEF_X)
#undef CLEF_X
};

const char *clef_status_name(clef_status status)
{
    return (unsigned)status < CLEF_N_STATUSES ? status_names[status] : "?";
}

const char *clef_status_text(clef_status status)
{
    return (unsigned)status < CLEF_N_STATUSES ? status_texts[status] : "?";
}

/* Removes the UTF-8 character at the end of text[0..n-1] if its last bytes are missing. */
static void drop_partial_character(char *text, size_t n)
{
    size_t tail = 0; /* continuation bytes at the end */
    while (tail < n && tail < 3 && ((unsigned char)text[n - 1 - tail] & 0xC0) == 0x80)
        tail++;
    if (tail == n)
        return;
    const unsigned char lead = (unsigned char)text[n - 1 - tail];
    const size_t wanted = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
    if (tail < wanted)
        text[n - 1 - tail] = '\0';
}

static clef_status fill_error(clef_error *err, clef_status status, int32_t cl_code, const char *format,
                              va_list args) CLEF_PRINTF(4, 0);

static clef_status fill_error(clef_error *err, clef_status status, int32_t cl_code, const char *format,
                              va_list args)
{
    if (!err)
        return status;
    char text[sizeof err->text]; /* a separate buffer, because an argument may be err->text: "loading x:
                                    %s" */
    const int n = vsnprintf(text, sizeof text, format, args);
    if (n < 0)
        text[0] = '\0';
    else if ((size_t)n >= sizeof text)
        drop_partial_character(text, sizeof text - 1);
    for (char *c = text; *c; c++) /* names come from files: no escape sequence may reach a terminal */
        if (((unsigned char)*c < 0x20 && *c != '\n' && *c != '\t') || *c == 0x7F)
            *c = '?';
    memcpy(err->text, text, strlen(text) + 1);
    err->status = status;
    err->cl_code = cl_code;
    return status;
}

clef_status clef__fail(clef_error *err, clef_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fill_error(err, status, 0, format, args);
    va_end(args);
    return status;
}

clef_status clef__fail_cl(clef_error *err, clef_status status, int32_t cl_code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fill_error(err, status, cl_code, format, args);
    va_end(args);
    return status;
}

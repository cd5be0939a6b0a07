/* Reading a text of PTX. */
#ifndef CLEF_LAB_PTX_SCAN_H
#define CLEF_LAB_PTX_SCAN_H

#include <setjmp.h>

#include "lab/ptx/run/ptx.h"

typedef struct ptx_scan {
    const char *at, *end;
    const char *counted; /* lines up to here are counted */
    uint32_t line;
    char *why;
    jmp_buf failed;
} ptx_scan;

/** Ends the decoding, with a message that names the line of s->at. */
_Noreturn void ptx_scan_fail(ptx_scan *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

uint32_t ptx_scan_line(ptx_scan *s); /* of s->at */
void ptx_scan_blanks(ptx_scan *s);   /* and comments */
int ptx_scan_is(ptx_scan *s, char c); /* takes c, after blanks, if it is next */
void ptx_scan_expect(ptx_scan *s, char c);
/** Takes letters, digits and the characters of `more`; fails if there are none. */
void ptx_scan_word(ptx_scan *s, const char *more, char out[PTX_NAME]);
/** Takes an integer, 0fBITS or 0dBITS. */
uint64_t ptx_scan_number(ptx_scan *s);
/** Takes all up to c, and c. */
void ptx_scan_past(ptx_scan *s, char c);

#endif

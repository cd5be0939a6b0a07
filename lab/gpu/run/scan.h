/* Reading a text of instructions. */
#ifndef CLEF_LAB_GPU_SCAN_H
#define CLEF_LAB_GPU_SCAN_H

#include <setjmp.h>

#include "lab/gpu/run/launch.h"

typedef struct gpu_scan {
    const char *at, *end;
    const char *counted; /* lines up to here are counted */
    uint32_t line;
    char *why;
    jmp_buf failed;
} gpu_scan;

/** Ends the decoding, with a message that names the line of s->at. */
_Noreturn void gpu_scan_fail(gpu_scan *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

uint32_t gpu_scan_line(gpu_scan *s);  /* of s->at */
void gpu_scan_blanks(gpu_scan *s);    /* and comments */
int gpu_scan_is(gpu_scan *s, char c); /* takes c, after blanks, if it is next */
void gpu_scan_expect(gpu_scan *s, char c);
/** Takes letters, digits and the characters of `more`; fails if there are none. */
void gpu_scan_word(gpu_scan *s, const char *more, char out[GPU_NAME]);
/** Takes an integer, 0fBITS or 0dBITS. */
uint64_t gpu_scan_number(gpu_scan *s);
/** Takes all up to c, and c. */
void gpu_scan_past(gpu_scan *s, char c);


typedef struct gpu_label {
    char name[GPU_NAME];
    uint32_t at; /* the instruction; of a use, the branch */
} gpu_label;

/** Where the label of this name is; fails if it is none of them. */
uint32_t gpu_label_find(gpu_scan *s, const gpu_label *labels, uint32_t n, const char *name);

#endif

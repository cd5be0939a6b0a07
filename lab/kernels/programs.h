/* Programs written for compilers to try: a launch's source and build options, each once. */
#ifndef CLEF_LAB_KERNELS_PROGRAMS_H
#define CLEF_LAB_KERNELS_PROGRAMS_H

#include "graph/launch.h"

typedef struct offline_programs {
    struct offline_program *known;
    int32_t                 n, cap;
} offline_programs;

/** Prints "PROGRAM: what: text" and returns 1. offline_program_name: of the running program. */
extern const char *offline_program_name;
int  offline_stop(const char *what, const char *text);

/** Returns the number of the launch's program; where it is new, writes it to DIR/NUMBER.cl, of four digits,
 *  with its build options in the first line behind "// options: ". -1 after a message. */
int32_t offline_program(offline_programs *p, const char *dir, const clef_launch *launch);
void    offline_programs_finish(offline_programs *p);

#endif

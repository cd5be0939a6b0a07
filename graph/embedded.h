/* Files that the build puts into the library (cmake/embed.cmake). */
#ifndef CLEF_GRAPH_EMBEDDED_H
#define CLEF_GRAPH_EMBEDDED_H

#include <stddef.h>

typedef struct clef_embedded {
    const char          *name; /* path below the folder: "copy.cl", "panel/panel.h" */
    const unsigned char *text; /* NUL-terminated */
    size_t               n_bytes;
    unsigned char        sum[32]; /* SHA-256 of the text */
} clef_embedded;

/* Both lists end with a NULL name. */
extern const clef_embedded clef__embedded_cl[];    /* the kernel sources of cl/ */
extern const clef_embedded clef__embedded_cases[]; /* the cases of ops, by the names of their files */

#endif

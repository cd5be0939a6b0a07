/* FNV-1a in 64 bits (Fowler, Noll, Vo). It is for keys and file names, not for protection against attacks. */
#ifndef CLEF_GRAPH_HASH_H
#define CLEF_GRAPH_HASH_H

#include <stddef.h>
#include <stdint.h>

#define CLEF__HASH_START UINT64_C(14695981039346656037)

static inline uint64_t clef__hash(uint64_t hash, const void *data, size_t n_bytes)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < n_bytes; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

#endif

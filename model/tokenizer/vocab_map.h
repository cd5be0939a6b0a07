/* A map from byte strings to ids; the keys are borrowed. */
#ifndef CLEF_MODEL_VOCAB_MAP_H
#define CLEF_MODEL_VOCAB_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "clef/status.h"

typedef struct clef__vocab_slot {
    const char *text; /* NULL: a free slot */
    uint32_t    n_bytes;
    uint32_t    hash;
    int32_t     id;
} clef__vocab_slot;

typedef struct clef__vocab_map {
    clef__vocab_slot *slots;
    size_t            n_slots, n;
    size_t            longest; /* bytes in the longest key */
} clef__vocab_map;

/** Adds a key or replaces its id. `text` is not NULL and must outlive the map; n_bytes may be 0. A zeroed
 *  map is empty. CLEF_E_NOMEM. */
clef_status clef__vocab_map_put(clef__vocab_map *map, const char *text, size_t n_bytes, int32_t id,
                                clef_error *err);
/** The id of a key, -1 if there is none. */
int32_t clef__vocab_map_get(const clef__vocab_map *map, const char *text, size_t n_bytes);
void    clef__vocab_map_finish(clef__vocab_map *map);

#endif

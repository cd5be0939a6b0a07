/* A map from strings to ids, by open addressing with linear probing. */
#include "model/tokenizer/vocab_map.h"

#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"

/* Hashes eight bytes a step, mixed as in splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom
 * number generators, 2014). */
static uint32_t hash_of(const char *text, size_t n)
{
    uint64_t h = 0x9E3779B97F4A7C15u ^ (uint64_t)n;
    while (n > 0) {
        uint64_t word = 0;
        const size_t take = n < 8 ? n : 8;
        memcpy(&word, text, take);
        h = (h ^ word) * 0xBF58476D1CE4E5B9u;
        h ^= h >> 31;
        text += take;
        n -= take;
    }
    h *= 0x94D049BB133111EBu;
    return (uint32_t)(h >> 32);
}

static clef__vocab_slot *slot_of(const clef__vocab_map *map, const char *text, size_t n_bytes, uint32_t hash)
{
    size_t i = hash & (map->n_slots - 1);
    for (;; i = (i + 1) & (map->n_slots - 1)) {
        clef__vocab_slot *slot = &map->slots[i];
        if (!slot->text ||
            (slot->hash == hash && slot->n_bytes == n_bytes && memcmp(slot->text, text, n_bytes) == 0))
            return slot;
    }
}

static clef_status grow_slots(clef__vocab_map *map, clef_error *err)
{
    clef__vocab_map bigger = {
        .n_slots = map->n_slots ? map->n_slots * 2 : 64, .n = map->n, .longest = map->longest};
    bigger.slots = calloc(bigger.n_slots, sizeof *bigger.slots);
    if (!bigger.slots)
        return clef__fail(err, CLEF_E_NOMEM, "vocabulary: no memory for %zu entries", bigger.n_slots);
    for (size_t i = 0; i < map->n_slots; i++) {
        const clef__vocab_slot *old = &map->slots[i];
        if (old->text)
            *slot_of(&bigger, old->text, old->n_bytes, old->hash) = *old;
    }
    free(map->slots);
    *map = bigger;
    return CLEF_OK;
}

clef_status clef__vocab_map_put(clef__vocab_map *map, const char *text, size_t n_bytes, int32_t id,
                                clef_error *err)
{
    if (n_bytes > UINT32_MAX)
        return clef__fail(err, CLEF_E_LIMIT, "vocabulary: a token of %zu bytes", n_bytes);
    if (map->n >= map->n_slots / 2) {
        const clef_status st = grow_slots(map, err);
        if (st)
            return st;
    }
    const uint32_t hash = hash_of(text, n_bytes);
    clef__vocab_slot *slot = slot_of(map, text, n_bytes, hash);
    map->n += slot->text == NULL;
    *slot = (clef__vocab_slot){.text = text, .n_bytes = (uint32_t)n_bytes, .hash = hash, .id = id};
    if (n_bytes > map->longest)
        map->longest = n_bytes;
    return CLEF_OK;
}

int32_t clef__vocab_map_get(const clef__vocab_map *map, const char *text, size_t n_bytes)
{
    if (map->n == 0 || n_bytes > map->longest)
        return -1;
    const clef__vocab_slot *slot = slot_of(map, text, n_bytes, hash_of(text, n_bytes));
    return slot->text ? slot->id : -1;
}

void clef__vocab_map_finish(clef__vocab_map *map)
{
    free(map->slots);
    *map = (clef__vocab_map){0};
}

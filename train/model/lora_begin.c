/* What a new adapter begins with, and which weights it changes. */
#include "train/model/lora_begin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/hash.h"
#include "graph/philox.h"

const char *clef__ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0 ? name + n - m : NULL;
}

int clef__is_lora(const char *name)
{
    return clef__ends_with(name, CLEF__LORA_A) || clef__ends_with(name, CLEF__LORA_B);
}

int clef__lora_wants(void *targets, const char *weight)
{
    const char *at = targets;
    while (at && *at) {
        const size_t n = strcspn(at, ",");
        for (const char *w = weight; n && *w; w++)
            if (strncmp(w, at, n) == 0)
                return 1;
        at += n + (at[n] == ',');
    }
    return !targets;
}

float *clef__lora_begin(uint64_t seed, const char *name, size_t n, int32_t rank)
{
    float *x = calloc(n + 1, sizeof *x);
    const uint64_t hash = clef__hash(CLEF__HASH_START, name, strlen(name));
    const double limit = 1 / sqrt((double)n / rank);
    for (size_t i = 0; x && i < n && clef__ends_with(name, CLEF__LORA_A); i++) {
        const clef__philox_words counter = {
            {(uint32_t)(i / 4), (uint32_t)(i >> 34), (uint32_t)hash, (uint32_t)(hash >> 32)}};
        const clef__philox_words words = clef__philox(counter, (uint32_t)seed, (uint32_t)(seed >> 32));
        x[i] = (float)(limit * (2 * ((double)words.word[i % 4] + 0.5) / 4294967296.0 - 1));
    }
    return x;
}

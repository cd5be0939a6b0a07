/* Fuzzes config.json: the bytes are the config and the generation config, with its rules for a vocabulary
 * of 64, and what it says of quantised weights and of pictures. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/open/config.h"
#include "model/open/generation.h"
#include "model/open/model.h"
#include "model/packed/packed.h"
#include "model/sight/sight.h"
#include "tests/fuzz/mutator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void see(void *user, const char *key)
{
    if (!key[0] && !user)
        abort();
}

static void read_parts(const json_t *outer, json_t *root, clef_hparams *hp)
{
    const json_t *quantised = clef__packed_object(root);
    clef__packed_config packed;
    clef__sight *sight = NULL;
    clef__rules rules;
    clef_error err;
    if (quantised)
        clef__packed_read_config(quantised, "fuzz", &packed, &err);
    clef__config_unread(root, "fuzz", see, &packed);
    clef__sight_read(outer, root, hp, "fuzz", &sight, &err);
    free(sight);
    hp->n_vocab = 64;
    if (clef__rules_read(root, hp, &rules, &err) == CLEF_OK)
        clef__rules_finish(&rules);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    clef_model m;
    clef_error err;
    memset(&m, 0, sizeof m);
    if (clef__json_parse((const char *)data, n_bytes, "fuzz", &m.config, &err) != CLEF_OK)
        return 0;
    m.outer = json_incref(m.config);
    if (clef__read_vision_config(&m, m.outer, "fuzz", &err) == CLEF_OK &&
        clef__unwrap_config(&m.config, "fuzz", &err) == CLEF_OK) {
        clef__config_from_json(m.config, m.config, "fuzz", &m.hparams, &err);
        read_parts(m.outer, m.config, &m.hparams);
    }
    clef__vision_finish(&m);
    json_decref(m.config);
    json_decref(m.outer);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n_bytes, size_t most, unsigned seed)
{
    return mutate_json(data, n_bytes, most, seed);
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *data, size_t n_bytes, const uint8_t *other, size_t n_other,
                                 uint8_t *out, size_t most, unsigned seed)
{
    return cross_json(data, n_bytes, other, n_other, out, most, seed);
}

/* Fuzzes config.json: the bytes are the config and the generation config, with its rules for a vocabulary
 * of 64.
 */
#include <stdint.h>
#include <string.h>

#include "model/open/config.h"
#include "model/open/generation.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    json_t *root = NULL;
    clef_error err;
    clef_hparams hp;
    memset(&hp, 0, sizeof hp);
    if (clef__json_parse((const char *)data, n_bytes, "fuzz", &root, &err) == CLEF_OK)
        clef__config_from_json(root, root, "fuzz", &hp, &err);
    hp.n_vocab = 64;
    clef__rules rules;
    if (clef__rules_read(root, &hp, &rules, &err) == CLEF_OK)
        clef__rules_finish(&rules);
    json_decref(root);
    return 0;
}

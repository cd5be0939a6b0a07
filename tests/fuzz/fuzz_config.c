/* Fuzzes config.json: the bytes are the config and the generation config. */
#include <stdint.h>
#include <string.h>

#include "model/open/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    json_t *root = NULL;
    clef_error err;
    clef_hparams hp;
    memset(&hp, 0, sizeof hp);
    if (clef__json_parse((const char *)data, n_bytes, "fuzz", &root, &err) == CLEF_OK)
        clef__config_from_json(root, root, "fuzz", &hp, &err);
    json_decref(root);
    return 0;
}

/* Fuzzes GGUF: parses a file, then reads everything that the result points to. */
#include <stdint.h>
#include <string.h>

#include "model/file/gguf.h"
#include "model/open/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static volatile uint64_t sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    clef_gguf g;
    clef_error err;
    if (clef__gguf_parse(data, n_bytes, "fuzz", &g, &err) != CLEF_OK)
        return 0;
    for (uint64_t i = 0; i < g.n_entries; i++) {
        const clef_gguf_entry *e = &g.entries[i];
        for (uint64_t k = 0; k < e->n; k++) {
            if (e->type == CLEF_GGUF_STRING)
                sink +=
                    e->strings[k].n_bytes ? (unsigned char)e->strings[k].text[e->strings[k].n_bytes - 1] : 0;
            else
                sink += (uint64_t)clef__gguf_item_int(e, k) + (clef__gguf_item_float(e, k) > 0);
        }
    }
    for (uint64_t i = 0; i < g.n_tensors; i++)
        for (uint64_t k = 0; k < g.tensors[i].n_bytes; k += 61)
            sink += ((const unsigned char *)g.tensors[i].data)[k];
    clef_hparams hp;
    memset(&hp, 0, sizeof hp);
    clef__config_from_gguf(&g, "fuzz", &hp, &err);
    clef__gguf_close(&g);
    return 0;
}

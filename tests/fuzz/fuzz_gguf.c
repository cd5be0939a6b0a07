/* Fuzzes GGUF: parses a file, or one of whisper.cpp, then reads everything that the result points to. A file
 * whose tensors are beyond its end is read again with zeros behind it. */
#include <stdint.h>
#include <string.h>

#include "model/file/ggml.h"
#include "model/open/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static volatile uint64_t sink;

static clef_status parse(const void *data, size_t n_bytes, clef_gguf *out)
{
    clef_error err;
    return (clef__is_ggml(data, n_bytes) ? clef__ggml_parse : clef__gguf_parse)(data, n_bytes, "fuzz", out,
                                                                                &err);
}

static clef_status parse_longer(const uint8_t *data, size_t n_bytes, clef_gguf *out)
{
    static uint8_t longer[1 << 21];
    static size_t n_before;
    if (n_bytes >= sizeof longer)
        return CLEF_E_LIMIT;
    if (n_before > n_bytes)
        memset(longer + n_bytes, 0, n_before - n_bytes);
    if (n_bytes)
        memcpy(longer, data, n_bytes);
    n_before = n_bytes;
    return parse(longer, sizeof longer, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    clef_gguf g;
    clef_error err;
    const int is_whole = parse(data, n_bytes, &g) == CLEF_OK;
    if (!is_whole && parse_longer(data, n_bytes, &g) != CLEF_OK)
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
    for (uint64_t i = 0; i < g.n_tensors && is_whole; i++)
        for (uint64_t k = 0; k < g.tensors[i].n_bytes; k += 61)
            sink += ((const unsigned char *)g.tensors[i].data)[k];
    clef_hparams hp;
    memset(&hp, 0, sizeof hp);
    clef__config_from_gguf(&g, "fuzz", &hp, &err);
    clef__gguf_close(&g);
    return 0;
}

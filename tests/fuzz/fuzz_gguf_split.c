/* Fuzzes split GGUF files: cuts the bytes into parts, parses each and joins those that can be read. The first
 * two bytes say where. */
#include <stdint.h>
#include <string.h>

#include "model/file/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

enum { MAX_PARTS = 3 };

static volatile uint64_t sink;

static void read_all(const clef_gguf *g)
{
    for (uint64_t i = 0; i < g->n_entries; i++)
        sink += g->entries[i].key.n_bytes ? (unsigned char)g->entries[i].key.text[0] : 0;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        sink += strlen(g->tensors[i].name);
        for (uint64_t k = 0; k < g->tensors[i].n_bytes; k += 61)
            sink += ((const unsigned char *)g->tensors[i].data)[k];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    clef_gguf_part parts[MAX_PARTS] = {{.path = "part 1"}, {.path = "part 2"}, {.path = "part 3"}};
    clef_gguf joint;
    clef_error err;
    if (n_bytes < 2)
        return 0;
    const size_t n = n_bytes - 2, first = n * data[0] / 255, second = (n - first) * data[1] / 255;
    const size_t ends[MAX_PARTS] = {first, first + second, n};
    int32_t n_parts = 0;
    for (size_t from = 0; n_parts < MAX_PARTS; from = ends[n_parts++])
        if (clef__gguf_parse(data + 2 + from, ends[n_parts] - from, parts[n_parts].path, &parts[n_parts].gguf,
                             &err) != CLEF_OK)
            break;
    if (n_parts > 0 && clef__gguf_join(parts, n_parts, &joint, &err) == CLEF_OK) {
        read_all(&joint);
        clef__gguf_close(&joint);
    }
    return 0;
}

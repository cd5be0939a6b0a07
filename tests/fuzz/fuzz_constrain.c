/* Fuzzes constraints: the first byte is the kind, then comes the source up to a 0 byte, then a text that is
 * read byte by byte. What is read in one piece goes as far. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "clef/constrain.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    clef_constraint *c = NULL;
    clef_constraint_state whole, cut;
    if (n_bytes < 2)
        return 0;
    const char *source = (const char *)data + 1;
    const char *end = memchr(source, 0, n_bytes - 1);
    const size_t n_source = end ? (size_t)(end - source) : n_bytes - 1;
    const char *text = end ? end + 1 : "";
    const size_t n_text = end ? n_bytes - 2 - n_source : 0;
    const clef_constraint_opts opts = {.strict = data[0] >> 4 & 1, .any_order = data[0] >> 5 & 1};
    if (clef_constraint_create((clef_constraint_kind)(data[0] % 4), source, n_source, &opts, &c, NULL, NULL))
        return 0;
    size_t n_whole = 0, n_cut = 0, n = 1;
    if (!clef_constraint_begin(c, &whole, NULL) && !clef_constraint_begin(c, &cut, NULL) &&
        !clef_constraint_read(c, &whole, text, n_text, &n_whole, NULL)) {
        while (n_cut < n_text && n == 1 && !clef_constraint_read(c, &cut, text + n_cut, 1, &n, NULL))
            n_cut += n;
        if (n_cut != n_whole || clef_constraint_may_end(c, &whole) != clef_constraint_may_end(c, &cut))
            abort();
    }
    clef_constraint_destroy(c);
    return 0;
}

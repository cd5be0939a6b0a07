/* Fuzzes the reader of messages: the first byte is the format, the second how the rest is cut. However it is
 * cut, the message is the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "clef/tools.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* A checksum of all that is given: of each kind apart, as parts may be cut elsewhere. */
static clef_status add_part(void *user, const clef_reply_part *part)
{
    uint64_t *sums = user, *sum = &sums[part->kind];
    const int is_call = part->kind == CLEF_REPLY_CALL;
    const char *text = is_call ? part->call.arguments : part->text;
    const size_t n = is_call ? strlen(text) : part->n_bytes;
    for (size_t i = 0; i < n; i++)
        *sum = *sum * 1099511628211u + (uint8_t)text[i] + 1;
    return CLEF_OK;
}

static void read_all(clef_tool_format format, const char *text, size_t n, size_t size, uint64_t sums[3])
{
    clef_reply_reader *r;
    if (clef_reply_reader_create(&(clef_reply_opts){.format = format}, &r, NULL))
        return;
    for (size_t at = 0; at < n; at += size)
        clef_reply_read(r, text + at, n - at < size ? n - at : size, add_part, sums, NULL);
    clef_reply_end(r, add_part, sums, NULL);
    clef_reply_reader_destroy(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    uint64_t whole[3] = {0}, cut[3] = {0};
    if (n_bytes < 3)
        return 0;
    const clef_tool_format format = (clef_tool_format)(data[0] % CLEF_N_TOOL_FORMATS);
    read_all(format, (const char *)data + 2, n_bytes - 2, n_bytes, whole);
    read_all(format, (const char *)data + 2, n_bytes - 2, 1 + data[1] % 9, cut);
    if (memcmp(whole, cut, sizeof whole) != 0)
        abort();
    return 0;
}

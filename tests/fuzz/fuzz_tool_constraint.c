/* Fuzzes constraints on tool calls: the first two bytes are the format and the choice, and each of the others
 * chooses the next byte among those that are allowed. There always is one, or the text may end; and what ends
 * is read as calls. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "clef/tools.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static const char tools[] =
    "[{\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"n\":{\"type\":"
    "\"integer\"},"
    "\"s\":{\"type\":\"string\",\"maxLength\":3},\"e\":{\"enum\":[\"R\\u00f6m\",1,null]},\"l\":{\"type\":"
    "\"array\","
    "\"maxItems\":2,\"items\":{\"type\":\"string\",\"pattern\":\"^[a-c]*$\"}}},\"required\":[\"n\"]}}},"
    "{\"function\":{\"name\":\"noop\"}}]";

typedef struct found {
    int n_calls, has_content;
} found;

static clef_status note_part(void *user, const clef_reply_part *part)
{
    found *f = user;
    f->n_calls += part->kind == CLEF_REPLY_CALL;
    f->has_content |= part->kind == CLEF_REPLY_CONTENT;
    return CLEF_OK;
}

static clef_constraint *constraint_of(unsigned which)
{
    static clef_constraint *made[256];
    const unsigned format = 1 + which % (CLEF_N_TOOL_FORMATS - 1), choice = which / 16 % 3;
    if (!made[which]) {
        const clef_tool_constraint_opts opts = {.format = (clef_tool_format)format,
                                                .tools = tools,
                                                .tools_bytes = sizeof tools - 1,
                                                .choice = choice ? CLEF_TOOL_CHOICE_REQUIRED
                                                                 : CLEF_TOOL_CHOICE_NAMED,
                                                .name = "f",
                                                .parallel = choice == 2};
        if (clef_tool_constraint_create(&opts, &made[which], NULL, NULL))
            abort();
    }
    return made[which];
}

/* The bytes that are allowed at a place. Places recur, so what was found is kept. */
typedef struct allowed_bytes {
    const clef_constraint *of;
    clef_constraint_state state;
    uint32_t bits[8];
} allowed_bytes;

static const uint32_t *allowed_at(clef_constraint *c, const clef_constraint_state *state)
{
    static allowed_bytes kept[1 << 14];
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < sizeof *state; i++)
        hash = (hash ^ ((const uint8_t *)state)[i]) * 16777619u;
    allowed_bytes *a = &kept[(hash ^ (uint32_t)((uintptr_t)c >> 4)) % (1 << 14)];
    if (a->of == c && !memcmp(&a->state, state, sizeof *state))
        return a->bits;
    *a = (allowed_bytes){.of = c, .state = *state};
    for (int byte = 0; byte < 256; byte++) {
        clef_constraint_state next = *state;
        size_t n = 0;
        if (clef_constraint_read(c, &next, &(char){(char)byte}, 1, &n, NULL))
            abort();
        a->bits[byte / 32] |= (uint32_t)n << byte % 32;
    }
    return a->bits;
}

/* The byte that comes next: this one, or the next that is allowed; -1: none. */
static int next_byte(clef_constraint *c, clef_constraint_state *state, uint8_t first)
{
    const uint32_t *bits = allowed_at(c, state);
    for (int i = 0; i < 256; i++) {
        const uint8_t byte = (uint8_t)(first + i);
        size_t n = 0;
        if (!(bits[byte / 32] >> byte % 32 & 1))
            continue;
        if (clef_constraint_read(c, state, &(char){(char)byte}, 1, &n, NULL) || n != 1)
            abort();
        return byte;
    }
    return -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    char text[600];
    size_t n = 0;
    found f = {0};
    clef_constraint_state state;
    clef_reply_reader *reader = NULL;
    clef_constraint *c = n_bytes > 1 ? constraint_of(data[0]) : NULL;
    if (!c || clef_constraint_begin(c, &state, NULL))
        return 0;
    for (size_t i = 1; n < sizeof text && !(clef_constraint_may_end(c, &state) && data[0] & 1); i++) {
        const int byte = next_byte(c, &state, i < n_bytes ? data[i] : (uint8_t)(data[i % n_bytes] ^ i));
        if (byte < 0 && !clef_constraint_may_end(c, &state))
            abort(); /* a dead end */
        if (byte < 0)
            break;
        text[n++] = (char)byte;
    }
    if (!clef_constraint_may_end(c, &state))
        return 0;
    const clef_reply_opts opts = {.format = (clef_tool_format)(1 + data[0] % (CLEF_N_TOOL_FORMATS - 1)),
                                  .tools = tools,
                                  .tools_bytes = sizeof tools - 1};
    if (clef_reply_reader_create(&opts, &reader, NULL) ||
        clef_reply_read(reader, text, n, note_part, &f, NULL) || clef_reply_end(reader, note_part, &f, NULL))
        abort();
    clef_reply_reader_destroy(reader);
    if (!f.n_calls || f.has_content)
        abort();
    return 0;
}

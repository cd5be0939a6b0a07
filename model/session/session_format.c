/* Session files: their bytes. Numbers are little-endian; texts of fixed size are filled with zeros. */
#include "model/session/session_format.h"

#include <inttypes.h>
#include <string.h>

static const char magic[8] = {'C', 'L', 'E', 'F', 'S', 'E', 'S', 'S'};

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct cursor {
    const unsigned char *at;
    uint64_t left;
} cursor;

/* The next n bytes, NULL when fewer are left. */
static const unsigned char *take(cursor *c, uint64_t n)
{
    const unsigned char *at = c->at;
    if (n > c->left)
        return NULL;
    c->at += n;
    c->left -= n;
    return at;
}

static uint32_t u32_at(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t u64_at(const unsigned char *p)
{
    return (uint64_t)u32_at(p) | (uint64_t)u32_at(p + 4) << 32;
}

/* A text of fixed size, made fit for a message. */
static void text_at(const unsigned char *p, char *out, size_t n)
{
    memcpy(out, p, n);
    out[n - 1] = '\0';
    for (size_t i = 0; i < n && out[i]; i++)
        if ((unsigned char)out[i] < 0x20 || out[i] == 0x7f)
            out[i] = '?';
}

int32_t clef__session_id(const unsigned char *ids, uint32_t i)
{
    return (int32_t)u32_at(ids + (size_t)i * 4);
}

static clef_status check_frame(const char *path, const unsigned char *bytes, size_t n_bytes, clef_error *err)
{
    unsigned char sum[CLEF_SHA256_BYTES];
    clef_sha256 s;
    if (n_bytes < sizeof magic || memcmp(bytes, magic, sizeof magic) != 0)
        return clef__fail(err, CLEF_E_FORMAT, "%s: no session file: it does not begin with '%.8s'", path,
                          magic);
    if (n_bytes < SESSION_FIXED_BYTES)
        return clef__fail(err, CLEF_E_FORMAT, "%s: cut: %zu bytes, expected at least %d", path, n_bytes,
                          SESSION_HEADER_BYTES + CLEF_SHA256_BYTES);
    if (u32_at(bytes + 8) != SESSION_VERSION)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: version %" PRIu32 ", expected %d", path,
                          u32_at(bytes + 8), SESSION_VERSION);
    if (u32_at(bytes + 12) != 0)
        return clef__fail(err, CLEF_E_FORMAT, "%s: bytes 12 to 15 are %" PRIu32 ", expected 0", path,
                          u32_at(bytes + 12));
    const uint64_t wanted = u64_at(bytes + 16);
    if (n_bytes != wanted)
        return clef__fail(err, CLEF_E_FORMAT, "%s: %s: %zu bytes, expected %" PRIu64, path,
                          n_bytes < wanted ? "cut" : "too long", n_bytes, wanted);
    if (n_bytes < SESSION_HEADER_BYTES + CLEF_SHA256_BYTES)
        return clef__fail(err, CLEF_E_FORMAT, "%s: cut: %zu bytes, expected at least %d", path, n_bytes,
                          SESSION_HEADER_BYTES + CLEF_SHA256_BYTES);
    clef__sha256_init(&s);
    clef__sha256_add(&s, bytes, n_bytes - sizeof sum);
    clef__sha256_finish(&s, sum);
    if (memcmp(sum, bytes + n_bytes - sizeof sum, sizeof sum) != 0)
        return clef__fail(err, CLEF_E_FORMAT, "%s: checksum differs: the file is damaged", path);
    return CLEF_OK;
}

/* Reads a state; returns 0 when it does not lie in what is left. */
static int take_state(cursor *c, session_state *out)
{
    const unsigned char *p = take(c, SESSION_STATE_BYTES);
    if (!p)
        return 0;
    *out = (session_state){.rank = u32_at(p + 80), .axis = u32_at(p + 84), .n_bytes = u64_at(p + 120)};
    text_at(p, out->name, sizeof out->name);
    text_at(p + 64, out->dtype, sizeof out->dtype);
    for (int i = 0; i < CLEF_MAX_DIMS; i++)
        out->dims[i] = u64_at(p + 88 + 8 * i);
    out->data = take(c, out->n_bytes);
    return out->data && out->rank <= CLEF_MAX_DIMS;
}

clef_status clef__session_parse(const char *path, const void *bytes, size_t n_bytes, session_view *out,
                                clef_error *err)
{
    const unsigned char *p = bytes;
    session_state state;
    const clef_status s = check_frame(path, p, n_bytes, err);
    if (s)
        return s;
    *out = (session_view){.head = {.context = u32_at(p + 164),
                                   .n_past = u32_at(p + 168),
                                   .n_source = u32_at(p + 172),
                                   .n_states = u32_at(p + 176),
                                   .n_adapters = u32_at(p + 180)}};
    memcpy(out->head.fingerprint, p + SESSION_FIXED_BYTES, CLEF_SHA256_BYTES);
    text_at(p + 56, out->head.model, sizeof out->head.model);
    text_at(p + 152, out->head.kv_type, sizeof out->head.kv_type);
    cursor c = {p + SESSION_HEADER_BYTES, n_bytes - SESSION_HEADER_BYTES - CLEF_SHA256_BYTES};
    out->adapters = (const char *)take(&c, out->head.n_adapters);
    out->ids = take(&c, (uint64_t)out->head.n_past * 4);
    out->source = take(&c, (uint64_t)out->head.n_source * 4);
    out->states = c.at;
    out->states_bytes = c.left;
    if (!out->adapters || !out->ids || !out->source)
        return clef__fail(err, CLEF_E_FORMAT,
                          "%s: its header wants more bytes than the file has: the file is damaged", path);
    for (uint32_t i = 0; i < out->head.n_states; i++)
        if (!take_state(&c, &state))
            return clef__fail(err, CLEF_E_FORMAT,
                              "%s: state %" PRIu32 " of %" PRIu32
                              " does not lie in the file: the file is damaged",
                              path, i, out->head.n_states);
    return c.left
               ? clef__fail(err, CLEF_E_FORMAT,
                            "%s: %" PRIu64 " bytes after its last state: the file is damaged", path, c.left)
               : CLEF_OK;
}

int clef__session_find(const session_view *view, const char *name, session_state *out)
{
    cursor c = {view->states, view->states_bytes};
    for (uint32_t i = 0; i < view->head.n_states && take_state(&c, out); i++)
        if (strcmp(out->name, name) == 0)
            return 1;
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_u32(unsigned char *p, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(x >> 8 * i);
}

static void put_u64(unsigned char *p, uint64_t x)
{
    put_u32(p, (uint32_t)x);
    put_u32(p + 4, (uint32_t)(x >> 32));
}

clef_status clef__session_write_bytes(session_writer *w, const void *data, size_t n_bytes, clef_error *err)
{
    if (w->status || !n_bytes)
        return w->status;
    clef__sha256_add(&w->sum, data, n_bytes);
    return w->status = clef__os_file_write(w->file, data, n_bytes, err);
}

clef_status clef__session_write_head(session_writer *w, const session_header *head, const char *adapters,
                                     uint64_t n_bytes, clef_error *err)
{
    unsigned char p[SESSION_HEADER_BYTES] = {0};
    memcpy(p, magic, sizeof magic);
    put_u32(p + 8, SESSION_VERSION);
    put_u64(p + 16, n_bytes);
    memcpy(p + SESSION_FIXED_BYTES, head->fingerprint, CLEF_SHA256_BYTES);
    memcpy(p + 56, head->model, sizeof head->model);
    memcpy(p + 152, head->kv_type, sizeof head->kv_type);
    put_u32(p + 164, head->context);
    put_u32(p + 168, head->n_past);
    put_u32(p + 172, head->n_source);
    put_u32(p + 176, head->n_states);
    put_u32(p + 180, head->n_adapters);
    clef__sha256_init(&w->sum);
    clef__session_write_bytes(w, p, sizeof p, err);
    return clef__session_write_bytes(w, adapters, head->n_adapters, err);
}

clef_status clef__session_write_ids(session_writer *w, const int32_t *ids, uint32_t n, clef_error *err)
{
    enum { SOME = 256 };
    unsigned char p[4 * SOME];
    for (uint32_t i = 0; i < n && !w->status; i += SOME) {
        const uint32_t now = n - i < SOME ? n - i : SOME;
        for (uint32_t k = 0; k < now; k++)
            put_u32(p + 4 * k, (uint32_t)ids[i + k]);
        clef__session_write_bytes(w, p, (size_t)now * 4, err);
    }
    return w->status;
}

clef_status clef__session_write_state(session_writer *w, const session_state *state, clef_error *err)
{
    unsigned char p[SESSION_STATE_BYTES] = {0};
    memcpy(p, state->name, sizeof state->name);
    memcpy(p + 64, state->dtype, sizeof state->dtype);
    put_u32(p + 80, state->rank);
    put_u32(p + 84, state->axis);
    for (int i = 0; i < CLEF_MAX_DIMS; i++)
        put_u64(p + 88 + 8 * i, state->dims[i]);
    put_u64(p + 120, state->n_bytes);
    return clef__session_write_bytes(w, p, sizeof p, err);
}

clef_status clef__session_write_end(session_writer *w, clef_error *err)
{
    unsigned char sum[CLEF_SHA256_BYTES];
    clef__sha256_finish(&w->sum, sum);
    return w->status ? w->status : (w->status = clef__os_file_write(w->file, sum, sizeof sum, err));
}

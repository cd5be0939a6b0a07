/* A session's text and states, to and from a file. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/open/fingerprint.h"
#include "model/open/lora.h"
#include "model/session/session.h"
#include "model/session/session_format.h"
#include "runtime/plan/plan_state.h"

/* The most bytes that are copied from the device at a time. */
enum { PIECE_BYTES = 4 << 20 };

/* The states of a session's plan, and the memory for a piece of one. */
typedef struct state_list {
    clef__plan_state *states;
    int32_t n;
    unsigned char *piece;
} state_list;

static void free_list(state_list *l)
{
    free(l->states);
    free(l->piece);
}

static clef_status list_states(const clef_session *s, state_list *out, clef_error *err)
{
    *out = (state_list){.n = clef__plan_states(s->plan, NULL, 0)};
    out->states = calloc((size_t)out->n + 1, sizeof *out->states);
    out->piece = malloc(PIECE_BYTES);
    if (!out->states || !out->piece)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for the list of %" PRId32 " states", out->n);
    clef__plan_states(s->plan, out->states, out->n);
    return CLEF_OK;
}

static int ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), n_end = strlen(end);
    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

/* The dim of a state that counts positions; SESSION_NO_AXIS for a recurrent state. */
static uint32_t axis_of(const clef_value *v)
{
    if (ends_with(v->name, ".cache_k") || ends_with(v->name, ".cache_v"))
        return 2;
    return strcmp(v->name, "history") == 0 ? 1 : SESSION_NO_AXIS;
}

/* Where the first n positions are. */
static clef__state_rows rows_of(const clef__plan_state *state, int32_t n)
{
    const clef_value *v = state->value;
    const uint32_t axis = axis_of(v);
    clef__state_rows rows = {.n_rows = 1, .n_bytes = state->n_bytes};
    if (axis == SESSION_NO_AXIS)
        return rows;
    for (uint32_t i = 0; i < axis; i++)
        rows.n_rows *= (uint64_t)v->shape.dim[i].n;
    rows.pitch = state->n_bytes / rows.n_rows;
    rows.n_bytes = rows.pitch / (uint64_t)v->shape.dim[axis].n * (uint64_t)n;
    return rows;
}

/* A state as the file has it, at n positions. Every dim of a state is a number. */
static clef_status describe_state(const clef__plan_state *state, int32_t n, session_state *out,
                                  clef_error *err)
{
    const clef_value *v = state->value;
    const clef__state_rows rows = rows_of(state, n);
    if (strlen(v->name) >= SESSION_NAME_BYTES)
        return clef__fail(err, CLEF_E_LIMIT, "state %s: its name has more than %d bytes", v->name,
                          SESSION_NAME_BYTES - 1);
    *out = (session_state){
        .rank = (uint32_t)v->shape.rank, .axis = axis_of(v), .n_bytes = rows.n_rows * rows.n_bytes};
    snprintf(out->name, sizeof out->name, "%s", v->name);
    snprintf(out->dtype, sizeof out->dtype, "%s", clef_dtype_name(v->dtype));
    for (int32_t i = 0; i < v->shape.rank; i++)
        out->dims[i] = (uint64_t)((uint32_t)i == out->axis ? n : v->shape.dim[i].n);
    return CLEF_OK;
}

static session_header binding_of(const clef_model *model, clef_dtype kv_type,
                                 const unsigned char fingerprint[CLEF_SHA256_BYTES])
{
    session_header head = {0};
    memcpy(head.fingerprint, fingerprint, sizeof head.fingerprint);
    snprintf(head.model, sizeof head.model, "%s", clef_model_hparams(model)->name);
    snprintf(head.kv_type, sizeof head.kv_type, "%s", clef_dtype_name(kv_type));
    return head;
}

/* The context that decides RoPE's frequencies; 0: they are those of the original context. */
static uint32_t context_of(const clef_session *s)
{
    const clef_rope_params *r = &s->hp->rope;
    const int is_long = s->opts.n_context > r->original_context;
    return !is_long                        ? 0
           : r->type == CLEF_ROPE_DYNAMIC  ? (uint32_t)s->opts.n_context
           : r->type == CLEF_ROPE_LONGROPE ? (uint32_t)r->original_context + 1 /* all longer ones are alike */
                                           : 0;
}

static session_header header_of(clef_session *s)
{
    if (!s->has_fingerprint)
        clef__model_fingerprint(s->model, s->fingerprint);
    s->has_fingerprint = 1;
    session_header head = binding_of(s->model, s->opts.kv_type, s->fingerprint);
    head.context = context_of(s);
    head.n_past = (uint32_t)s->n_past;
    head.n_source = (uint32_t)s->encoder.n;
    return head;
}

static clef_status check_session(const clef_session *s, clef_error *err)
{
    if (s->hp->n_mels)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s hears its source, which files do not hold",
                          s->hp->arch);
    if (s->n_beams)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "a session made for beams has no single text to keep");
    if (!s->plan)
        return clef__fail(err, CLEF_E_ARG, "the session's device was lost and did not come back");
    if (s->opts.describe_only)
        return clef__fail(err, CLEF_E_ARG, "the session was made with describe_only: it has no memory");
    return CLEF_OK;
}

/* ---- saving ---------------------------------------------------------------------------------- */

/* Copies a state to the file: at once if it fits into the piece, else row by row in pieces. */
static clef_status write_rows(session_writer *w, const state_list *l, const clef__plan_state *state,
                              const clef__state_rows *rows, clef_error *err)
{
    clef_status status = CLEF_OK;
    if (rows->n_rows * rows->n_bytes <= PIECE_BYTES) {
        status = clef__plan_state_read(state, rows, l->piece, err);
        return status ? status
                      : clef__session_write_bytes(w, l->piece, (size_t)(rows->n_rows * rows->n_bytes), err);
    }
    for (uint64_t r = 0; r < rows->n_rows && !status; r++)
        for (uint64_t at = 0; at < rows->n_bytes && !status; at += PIECE_BYTES) {
            const uint64_t left = rows->n_bytes - at, n = left < PIECE_BYTES ? left : PIECE_BYTES;
            const clef__state_rows piece = {
                .offset = rows->offset + r * rows->pitch + at, .n_rows = 1, .n_bytes = n};
            status = clef__plan_state_read(state, &piece, l->piece, err);
            if (!status)
                status = clef__session_write_bytes(w, l->piece, (size_t)n, err);
        }
    return status;
}

static clef_status write_states(session_writer *w, const clef_session *s, const state_list *l,
                                clef_error *err)
{
    clef_status status = CLEF_OK;
    for (int32_t i = 0; i < l->n && !status; i++) {
        session_state state;
        const clef__state_rows rows = rows_of(&l->states[i], s->n_past);
        status = describe_state(&l->states[i], s->n_past, &state, err);
        if (!status)
            status = clef__session_write_state(w, &state, err);
        if (!status)
            status = write_rows(w, l, &l->states[i], &rows, err);
    }
    return status;
}

static clef_status write_file(clef_session *s, const state_list *l, const char *path, clef_error *err)
{
    session_header head = header_of(s);
    const char *adapter = clef__lora_set_identity(s->opts.loras, s->opts.lora);
    session_writer w = {0};
    head.n_adapters = (uint32_t)strlen(adapter);
    uint64_t n_bytes = SESSION_HEADER_BYTES + head.n_adapters + 4 * ((uint64_t)head.n_past + head.n_source) +
                       CLEF_SHA256_BYTES;
    head.n_states = (uint32_t)l->n;
    for (int32_t i = 0; i < l->n; i++) {
        const clef__state_rows rows = rows_of(&l->states[i], s->n_past);
        n_bytes += SESSION_STATE_BYTES + rows.n_rows * rows.n_bytes;
    }
    clef_status status = clef__os_file_begin(path, &w.file, err);
    if (status)
        return status;
    status = clef__session_write_head(&w, &head, adapter, n_bytes, err);
    if (!status)
        status = clef__session_write_ids(&w, s->seen, head.n_past, err);
    if (!status)
        status = clef__session_write_ids(&w, s->encoder.source, head.n_source, err);
    if (!status)
        status = write_states(&w, s, l, err);
    if (!status)
        status = clef__session_write_end(&w, err);
    if (!status)
        return clef__os_file_commit(w.file, err);
    clef__os_file_abort(w.file);
    return status;
}

static clef_status save_state(clef_session *s, const char *path, clef_error *err)
{
    state_list l = {0};
    clef_status status = clef__session_replay(s, err);
    if (!status)
        status = list_states(s, &l, err);
    if (!status)
        status = write_file(s, &l, path, err);
    free_list(&l);
    return status;
}

clef_status clef_session_save(clef_session *s, const char *path, clef_error *err)
{
    clef_error why = {0};
    clef_status status = check_session(s, err);
    if (status)
        return status;
    status = clef__session_end(s, &why);
    if (!status)
        status = save_state(s, path, &why);
    if (status)
        status = clef__session_recover(s, NULL, &why, err);
    return !status && why.status ? save_state(s, path, err) : status;
}

/* ---- loading --------------------------------------------------------------------------------- */

static clef_status check_model(const session_header *got, const session_header *want, const char *path,
                               clef_error *err)
{
    char hex[2][17];
    if (memcmp(got->fingerprint, want->fingerprint, sizeof want->fingerprint) == 0)
        return CLEF_OK;
    for (int i = 0; i < 8; i++) {
        snprintf(hex[0] + 2 * i, 3, "%02x", got->fingerprint[i]);
        snprintf(hex[1] + 2 * i, 3, "%02x", want->fingerprint[i]);
    }
    return clef__fail(err, CLEF_E_ARG,
                      "%s: made with model %s (fingerprint %s), expected %s (fingerprint %s)", path,
                      got->model, hex[0], want->model, hex[1]);
}

/* The name of an adapter and the start of its digest, from its identity of n bytes. */
static const char *adapter_text(const char *identity, size_t n, char out[LORA_IDENTITY_BYTES + 32])
{
    if (n <= LORA_DIGEST_CHARS)
        snprintf(out, LORA_IDENTITY_BYTES, "%s", n ? "an unknown adapter" : "no adapter");
    else
        snprintf(out, LORA_IDENTITY_BYTES + 32, "adapter%.*s [%.8s]",
                 (int)(n - LORA_DIGEST_CHARS < 80 ? n - LORA_DIGEST_CHARS : 80), identity + LORA_DIGEST_CHARS,
                 identity);
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    return out;
}

static clef_status check_adapter(const session_view *view, const char *want, const char *path,
                                 clef_error *err)
{
    const size_t n = view->head.n_adapters, n_want = strlen(want);
    char a[LORA_IDENTITY_BYTES + 32], b[LORA_IDENTITY_BYTES + 32];
    if (n_want ? n >= LORA_DIGEST_CHARS && memcmp(view->adapters, want, LORA_DIGEST_CHARS) == 0 : n == 0)
        return CLEF_OK;
    return clef__fail(err, CLEF_E_ARG, "%s: made with %s, expected %s", path,
                      adapter_text(view->adapters, n, a), adapter_text(want, n_want, b));
}

/* What a file is bound to. adapter: the identity of the one that is used, or "". */
static clef_status check_binding(const session_view *view, const session_header *want, const char *adapter,
                                 const char *path, clef_error *err)
{
    const session_header *got = &view->head;
    const clef_status status = check_model(got, want, path, err);
    if (status)
        return status;
    if (strcmp(got->kv_type, want->kv_type) != 0)
        return clef__fail(err, CLEF_E_ARG, "%s: KV type %s, expected %s", path, got->kv_type, want->kv_type);
    return check_adapter(view, adapter, path, err);
}

static clef_status check_ids(const clef_session *s, const unsigned char *ids, uint32_t n, const char *path,
                             clef_error *err)
{
    for (uint32_t i = 0; i < n; i++)
        if (clef__session_id(ids, i) < 0 || clef__session_id(ids, i) >= s->hp->n_vocab)
            return clef__fail(err, CLEF_E_FORMAT,
                              "%s: token %" PRIu32 " is %" PRId32 ", the vocabulary has 0 to %" PRId32, path,
                              i, clef__session_id(ids, i), s->hp->n_vocab - 1);
    return CLEF_OK;
}

/* What the file is bound to, and whether it fits into the session. */
static clef_status check_header(clef_session *s, const session_view *view, const char *path, clef_error *err)
{
    const session_header *head = &view->head, want = header_of(s);
    const char *adapter = clef__lora_set_identity(s->opts.loras, s->opts.lora);
    clef_status status = check_binding(view, &want, adapter, path, err);
    if (status)
        return status;
    if (head->context != want.context)
        return clef__fail(err, CLEF_E_ARG,
                          "%s: made in a context for which RoPE has other frequencies than for %" PRId32
                          " positions: expected the same context (clef run -c)",
                          path, s->opts.n_context);
    if (head->n_past > (uint32_t)s->opts.n_context)
        return clef__fail(err, CLEF_E_LIMIT, "%s: %" PRIu32 " positions, the context holds %" PRId32, path,
                          head->n_past, s->opts.n_context);
    if (!s->is_seq2seq != !head->n_source && (head->n_past || head->n_source))
        return clef__fail(err, CLEF_E_FORMAT, "%s: %" PRIu32 " tokens of a source, expected %s", path,
                          head->n_source, s->is_seq2seq ? "at least 1" : "none");
    if (s->is_seq2seq && head->n_source > (uint32_t)s->opts.n_source)
        return clef__fail(err, CLEF_E_LIMIT,
                          "%s: a source of %" PRIu32 " tokens, the session accepts %" PRId32, path,
                          head->n_source, s->opts.n_source);
    status = check_ids(s, view->ids, head->n_past, path, err);
    return status ? status : check_ids(s, view->source, head->n_source, path, err);
}

static clef_status check_states(const state_list *l, const session_view *view, const char *path,
                                clef_error *err)
{
    if (view->head.n_states != (uint32_t)l->n)
        return clef__fail(err, CLEF_E_FORMAT, "%s: %" PRIu32 " states, expected %" PRId32, path,
                          view->head.n_states, l->n);
    for (int32_t i = 0; i < l->n; i++) {
        session_state want, got;
        const clef_status status = describe_state(&l->states[i], (int32_t)view->head.n_past, &want, err);
        if (status)
            return status;
        if (!clef__session_find(view, want.name, &got))
            return clef__fail(err, CLEF_E_FORMAT, "%s: it has no state %s", path, want.name);
        if (strcmp(got.dtype, want.dtype) != 0 || got.rank != want.rank || got.axis != want.axis ||
            memcmp(got.dims, want.dims, sizeof want.dims) != 0 || got.n_bytes != want.n_bytes)
            return clef__fail(err, CLEF_E_FORMAT,
                              "%s: state %s: %s of %" PRIu64 " bytes, or a shape, that differ from %s of "
                              "%" PRIu64 " bytes",
                              path, want.name, got.dtype, got.n_bytes, want.dtype, want.n_bytes);
    }
    return CLEF_OK;
}

static void read_ids(const unsigned char *from, uint32_t n, int32_t *out)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = clef__session_id(from, i);
}

/* Everything was checked: only the device can fail. */
static clef_status restore(clef_session *s, const state_list *l, const session_view *view, clef_error *err)
{
    const int32_t n = (int32_t)view->head.n_past, n_source = (int32_t)view->head.n_source;
    clef_status status = CLEF_OK;
    s->n_past = s->encoder.n = 0;
    s->state_is_ahead = s->is_recurrent;
    if (n_source) {
        read_ids(view->source, view->head.n_source, s->encoder.source);
        status = clef__session_encode(s, s->encoder.source, n_source, err);
    }
    for (int32_t i = 0; i < l->n && !status; i++) {
        session_state state;
        const clef__state_rows rows = rows_of(&l->states[i], n);
        if (clef__session_find(view, l->states[i].value->name, &state))
            status = clef__plan_state_write(&l->states[i], &rows, state.data, err);
    }
    if (status)
        return status;
    read_ids(view->ids, view->head.n_past, s->seen);
    s->n_past = n;
    s->state_is_ahead = 0;
    return CLEF_OK;
}

/* Restoring again after the device is back: the plan and its states are new. */
static clef_status restore_again(clef_session *s, const session_view *view, clef_error *err)
{
    state_list l;
    clef_status status = list_states(s, &l, err);
    if (!status)
        status = restore(s, &l, view, err);
    free_list(&l);
    return status;
}

static clef_status load_view(clef_session *s, const session_view *view, const char *path, clef_error *err)
{
    clef_error why = {0};
    state_list l = {0};
    clef_status status = check_header(s, view, path, err);
    if (!status)
        status = list_states(s, &l, err);
    if (!status)
        status = check_states(&l, view, path, err);
    if (status) {
        free_list(&l);
        return status;
    }
    status = clef__session_end(s, &why);
    if (!status)
        status = restore(s, &l, view, &why);
    free_list(&l);
    if (status)
        status = clef__session_recover(s, NULL, &why, err);
    return !status && why.status ? restore_again(s, view, err) : status;
}

clef_status clef_session_load(clef_session *s, const char *path, clef_error *err)
{
    clef_mapping file = {0};
    session_view view;
    clef_status status = check_session(s, err);
    if (!status)
        status = clef__os_map(path, &file, err);
    if (status)
        return status;
    status = clef__session_parse(path, file.data, file.n_bytes, &view, err);
    if (!status)
        status = load_view(s, &view, path, err);
    clef__os_unmap(&file);
    return status;
}

clef_status clef_session_check(const clef_model *model, clef_dtype kv_type, const clef_lora_set *loras,
                               int32_t lora, const char *path, clef_error *err)
{
    unsigned char fingerprint[CLEF_SHA256_BYTES];
    clef_mapping file = {0};
    session_view view;
    clef_status status = clef__os_map(path, &file, err);
    if (status)
        return status;
    status = clef__session_parse(path, file.data, file.n_bytes, &view, err);
    if (!status) {
        clef__model_fingerprint(model, fingerprint);
        const session_header want = binding_of(model, kv_type, fingerprint);
        status = check_binding(&view, &want, clef__lora_set_identity(loras, lora), path, err);
    }
    clef__os_unmap(&file);
    return status;
}

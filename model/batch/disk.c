#include "model/batch/disk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clef/clef.h"
#include "clef/ranks.h"
#include "graph/fail.h"
#include "graph/value.h"
#include "model/open/arch.h"
#include "model/open/fingerprint.h"
#include "model/open/lora.h"
#include "runtime/os/os.h"

enum { DIGEST = CLEF_SHA256_BYTES, HEX = 2 * DIGEST, MOST_PATH = 1024, MOST_PAUSE = 256 };
static const char magic[8] = "CLEFKV1\n";

/* What a file holds. */
typedef enum disk_kind { BLOCK, MEMORY, N_KINDS } disk_kind;
static const char *const endings[N_KINDS] = {".kv", ".memory"};

struct clef__disk {
    char dir[MOST_PATH / 2];
    unsigned char binding[DIGEST]; /* of the model, the KV type and all else that no request chooses */
    size_t n_data[N_KINDS];        /* bytes of states in a file of each kind */
    unsigned char *file;           /* room for one */
    int32_t *blocks;               /* [n_pages], of the chain that is being brought back */
    uint64_t n_bytes;              /* of all files, about */
    int32_t pause;                 /* writes that are left out after one that failed */
};

/* The head of a file; the tokens of its last block and the states' bytes follow, and a checksum. */
typedef struct head {
    char magic[8];
    unsigned char binding[DIGEST], prefix[DIGEST];
    int32_t kind, n_tokens;
    uint64_t n_data;
} head;
enum { BEFORE_DATA = sizeof(head) + KV_BLOCK * sizeof(int32_t) };

static void tell(const clef_batch *b, const char *text)
{
    if (b->opts.disk_notice)
        b->opts.disk_notice(b->opts.disk_user, text);
}

/* ---- states ------------------------------------------------------------------------------------ */

static disk_kind kind_of(const clef_value *v)
{
    return v->role == CLEF__STATE_KEYS || v->role == CLEF__STATE_VALUES ? BLOCK : MEMORY;
}

/* Bytes of a page, or of a sequence's memory. */
static uint64_t row_bytes(const clef__plan_state *state)
{
    return state->n_bytes / (uint64_t)state->value->shape.dim[0].n;
}

/* The row of a state that a block has, or the row itself that is given for a memory. */
static int32_t row_of(const clef_batch *b, const clef__plan_state *state, disk_kind kind, int32_t at)
{
    const int slides = kind == BLOCK && clef__layer_slides(b->hp, state->value->scope.layer);
    return slides ? clef__pages_sliding(b->pages, at) : at;
}

typedef clef_status (*state_copy)(const clef__plan_state *state, const clef__state_rows *rows,
                                  unsigned char *data, clef_error *err);

static clef_status read_state(const clef__plan_state *state, const clef__state_rows *rows,
                              unsigned char *data, clef_error *err)
{
    return clef__plan_state_read(state, rows, data, err);
}

static clef_status write_state(const clef__plan_state *state, const clef__state_rows *rows,
                               unsigned char *data, clef_error *err)
{
    return clef__plan_state_write(state, rows, data, err);
}

/* Copies the states of a kind between the device and `data`. */
static clef_status copy_states(const clef_batch *b, disk_kind kind, int32_t at, unsigned char *data,
                               state_copy copy, clef_error *err)
{
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < b->n_states && !s; i++) {
        const clef__plan_state *state = &b->states[i];
        const uint64_t n = row_bytes(state);
        if (kind_of(state->value) != kind)
            continue;
        const clef__state_rows rows = {
            .offset = (uint64_t)row_of(b, state, kind, at) * n, .n_rows = 1, .n_bytes = n};
        s = copy(state, &rows, data, err);
        data += n;
    }
    return s;
}

/* ---- what files are bound to ------------------------------------------------------------------- */

/* What the bits of a page depend on, where they must be the same: --repeatable. Other texts may differ in
 * last bits anyway. */
static void bind_device(const clef_batch *b, clef_sha256 *sha)
{
    const clef_device_info *d = clef_device_describe(b->dev);
    const int32_t exact = b->opts.compile.exact;
    clef__sha256_add(sha, &exact, sizeof exact);
    clef__sha256_add(sha, &b->opts.repeatable, sizeof b->opts.repeatable);
    if (!b->opts.repeatable)
        return;
    clef__sha256_add(sha, d->name, strlen(d->name) + 1);
    clef__sha256_add(sha, d->driver, strlen(d->driver) + 1);
}

static void bind(clef_batch *b)
{
    clef__disk *d = b->disk;
    unsigned char model[DIGEST];
    clef_sha256 sha;
    char text[128];
    clef__model_fingerprint(b->model, model);
    clef__sha256_init(&sha);
    clef__sha256_add(&sha, model, sizeof model);
    snprintf(text, sizeof text, "%s %s %" PRId32, clef_version(), clef_dtype_name(b->build.kv_type),
             b->opts.n_context); /* some models scale their positions by the context */
    clef__sha256_add(&sha, text, strlen(text) + 1);
    bind_device(b, &sha);
    for (int32_t i = 0; i < b->n_states; i++) {
        const clef_value *v = b->states[i].value;
        const uint64_t n = row_bytes(&b->states[i]);
        d->n_data[kind_of(v)] += n;
        clef__sha256_add(&sha, v->name, strlen(v->name) + 1);
        clef__sha256_add(&sha, &n, sizeof n);
    }
    clef__sha256_finish(&sha, d->binding);
}

/* The digest of no tokens yet. */
static void begin_prefix(const clef_batch *b, const batch_sequence *s, unsigned char out[DIGEST])
{
    const char *adapter = clef__lora_set_identity(b->opts.loras, s->key.adapter);
    clef_sha256 sha;
    clef__sha256_init(&sha);
    clef__sha256_add(&sha, b->disk->binding, DIGEST);
    clef__sha256_add(&sha, adapter, strlen(adapter) + 1);
    clef__sha256_add(&sha, &s->key.salt, sizeof s->key.salt);
    clef__sha256_finish(&sha, out);
}

/* The digest of one more block. */
static void add_block(unsigned char prefix[DIGEST], const int32_t *tokens)
{
    clef_sha256 sha;
    clef__sha256_init(&sha);
    clef__sha256_add(&sha, prefix, DIGEST);
    clef__sha256_add(&sha, tokens, KV_BLOCK * sizeof *tokens);
    clef__sha256_finish(&sha, prefix);
}

static void path_of(const clef__disk *d, disk_kind kind, const unsigned char prefix[DIGEST],
                    char out[MOST_PATH])
{
    char hex[HEX + 1];
    for (int i = 0; i < DIGEST; i++)
        snprintf(hex + 2 * i, 3, "%02x", prefix[i]);
    snprintf(out, MOST_PATH, "%s/%s%s", d->dir, hex, endings[kind]);
}

static int is_there(const clef__disk *d, disk_kind kind, const unsigned char prefix[DIGEST])
{
    char path[MOST_PATH];
    path_of(d, kind, prefix, path);
    return clef__os_is_file(path);
}

/* ---- the size ---------------------------------------------------------------------------------- */

typedef struct old_file {
    char *path;
    uint64_t n_bytes;
    int64_t when;
} old_file;

typedef struct listing {
    old_file *files;
    size_t n, capacity;
    uint64_t n_bytes;
    int with_names;
} listing;

static int has_ending(const char *name, const char *ending)
{
    const size_t n = strlen(name), n_ending = strlen(ending);
    return n > n_ending && strcmp(name + n - n_ending, ending) == 0;
}

/* Only names that this file gives: 64 digits and an ending. */
static int is_ours(const char *name)
{
    const size_t n = strspn(name, "0123456789abcdef");
    return n == HEX && (strcmp(name + n, endings[BLOCK]) == 0 || strcmp(name + n, endings[MEMORY]) == 0);
}

static clef_status count_file(void *user, const clef__os_file_info *file)
{
    listing *l = user;
    if (!is_ours(file->name))
        return CLEF_OK;
    l->n_bytes += file->n_bytes;
    if (!l->with_names)
        return CLEF_OK;
    if (l->n == l->capacity) {
        const size_t capacity = l->capacity ? 2 * l->capacity : 256;
        old_file *files = realloc(l->files, capacity * sizeof *files);
        if (!files)
            return CLEF_E_NOMEM;
        l->files = files;
        l->capacity = capacity;
    }
    char *path = malloc(strlen(file->path) + 1);
    if (!path)
        return CLEF_E_NOMEM;
    l->files[l->n++] = (old_file){strcpy(path, file->path), file->n_bytes, file->when};
    return CLEF_OK;
}

/* Files that nobody finished writing; young ones may be another batch's, which is writing them now. */
static clef_status remove_unfinished(void *user, const clef__os_file_info *file)
{
    enum { OLD_SECONDS = 3600 };
    const int64_t *now = user;
    if (strspn(file->name, "0123456789abcdef") == HEX && has_ending(file->name, ".tmp") &&
        *now - file->when > OLD_SECONDS)
        clef__os_remove(file->path);
    return CLEF_OK;
}

static int by_age(const void *a, const void *b)
{
    const int64_t x = ((const old_file *)a)->when, y = ((const old_file *)b)->when;
    return x < y ? -1 : x > y;
}

/* Removes the files used longest ago, until a tenth of the limit is free. */
static void make_room(clef_batch *b)
{
    clef__disk *d = b->disk;
    listing l = {.with_names = 1};
    clef__os_list(d->dir, count_file, &l);
    if (l.n)
        qsort(l.files, l.n, sizeof *l.files, by_age);
    for (size_t i = 0; i < l.n; i++) {
        if (l.n_bytes > b->opts.disk_bytes - b->opts.disk_bytes / 10) {
            clef__os_remove(l.files[i].path);
            l.n_bytes -= l.files[i].n_bytes;
        }
        free(l.files[i].path);
    }
    free(l.files);
    d->n_bytes = l.n_bytes;
}

/* ---- files ------------------------------------------------------------------------------------- */

static head head_of(const clef__disk *d, disk_kind kind, const unsigned char prefix[DIGEST])
{
    head h = {.kind = (int32_t)kind, .n_tokens = KV_BLOCK, .n_data = d->n_data[kind]};
    memcpy(h.magic, magic, sizeof h.magic);
    memcpy(h.binding, d->binding, DIGEST);
    memcpy(h.prefix, prefix, DIGEST);
    return h;
}

static size_t file_bytes(const clef__disk *d, disk_kind kind)
{
    return BEFORE_DATA + d->n_data[kind] + DIGEST;
}

/* Fills the room for a file, but for its states and its checksum. */
static void begin_file(clef__disk *d, disk_kind kind, const unsigned char prefix[DIGEST],
                       const int32_t *tokens)
{
    const head h = head_of(d, kind, prefix);
    memcpy(d->file, &h, sizeof h);
    memcpy(d->file + sizeof h, tokens, KV_BLOCK * sizeof *tokens);
}

/* Writes the file under another name, then renames it. Not flushed: the checksum finds what a power cut
 * loses. */
static int write_file(const clef__disk *d, const char *path, size_t n)
{
    char temporary[MOST_PATH + 8];
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    FILE *file = fopen(temporary, "wbx");
    if (!file)
        return clef__os_is_file(temporary); /* another server is writing it */
    const int is_written = fwrite(d->file, 1, n, file) == n;
    if (fclose(file) == 0 && is_written && rename(temporary, path) == 0)
        return 1;
    clef__os_remove(temporary);
    return 0;
}

static clef_status keep_file(clef_batch *b, disk_kind kind, const unsigned char prefix[DIGEST],
                             const int32_t *tokens, int32_t at, clef_error *err)
{
    clef__disk *d = b->disk;
    const size_t n = file_bytes(d, kind);
    char path[MOST_PATH], text[MOST_PATH + 128];
    clef_sha256 sha;
    path_of(d, kind, prefix, path);
    if (clef__os_is_file(path) || d->pause > 0) {
        d->pause -= d->pause > 0;
        return CLEF_OK;
    }
    begin_file(d, kind, prefix, tokens);
    const clef_status status = copy_states(b, kind, at, d->file + BEFORE_DATA, read_state, err);
    if (status)
        return status;
    clef__sha256_init(&sha);
    clef__sha256_add(&sha, d->file, n - DIGEST);
    clef__sha256_finish(&sha, d->file + n - DIGEST);
    if (d->n_bytes + n > b->opts.disk_bytes)
        make_room(b);
    if (write_file(d, path, n)) {
        d->n_bytes += n;
        return CLEF_OK;
    }
    d->pause = MOST_PAUSE;
    snprintf(text, sizeof text, "the cache %s takes no more files: the next pages are not kept", d->dir);
    tell(b, text);
    return CLEF_OK;
}

/* Reads a file into the room for one. 0: it is not there, or not as expected, and then removed and told. */
static int read_file(clef_batch *b, disk_kind kind, const unsigned char prefix[DIGEST], const int32_t *tokens)
{
    clef__disk *d = b->disk;
    const size_t n = file_bytes(d, kind);
    const head wanted = head_of(d, kind, prefix);
    char path[MOST_PATH], text[MOST_PATH + 64];
    path_of(d, kind, prefix, path);
    FILE *file = fopen(path, "rb");
    if (!file)
        return 0;
    const int is_whole = fread(d->file, 1, n, file) == n && fgetc(file) == EOF;
    fclose(file);
    if (is_whole && memcmp(d->file, &wanted, sizeof wanted) == 0 &&
        memcmp(d->file + sizeof wanted, tokens, KV_BLOCK * sizeof *tokens) == 0 &&
        clef__sha256_is_sealed(d->file, n)) {
        clef__os_touch(path);
        return 1;
    }
    clef__os_remove(path);
    snprintf(text, sizeof text, "%s is damaged, and removed", path);
    tell(b, text);
    return 0;
}

/* ---- keeping ----------------------------------------------------------------------------------- */

/* Takes the next block of s into its digest. */
static void pass_block(const clef_batch *b, batch_sequence *s)
{
    if (!s->n_digested)
        begin_prefix(b, s, s->digest);
    add_block(s->digest, clef__batch_keys(s) + s->n_digested * KV_BLOCK);
    s->n_digested++;
}

clef_status clef__disk_keep(clef_batch *b, batch_sequence *s, clef_error *err)
{
    clef_status status = CLEF_OK;
    if (!b->disk)
        return CLEF_OK;
    while ((s->n_digested + 1) * KV_BLOCK <= s->n_past && !status) {
        const int32_t block = s->chain.blocks[s->n_digested];
        const int32_t *tokens = clef__batch_keys(s) + s->n_digested * KV_BLOCK;
        pass_block(b, s);
        if (!b->has_sliding || clef__pages_sliding(b->pages, block) >= 0)
            status = keep_file(b, BLOCK, s->digest, tokens, block, err);
    }
    const int has_memory = b->is_recurrent && !s->n_behind && s->n_past == s->n_digested * KV_BLOCK &&
                           (s->n_past % SNAPSHOT_STEP == 0 || s->n_past == s->n_prompt);
    if (!status && has_memory && s->n_past)
        status = keep_file(b, MEMORY, s->digest, clef__batch_keys(s) + s->n_past - KV_BLOCK, s->slot, err);
    return status;
}

/* ---- bringing back ----------------------------------------------------------------------------- */

/* How many blocks of s are there one after the other; of a recurrent model, up to the last memory. */
static int32_t find_blocks(clef_batch *b, const batch_sequence *s, int32_t first)
{
    const int32_t most = (s->n_tokens - 1) / KV_BLOCK;
    unsigned char prefix[DIGEST];
    int32_t n = first;
    begin_prefix(b, s, prefix);
    for (int32_t i = 0; i < most; i++) {
        add_block(prefix, clef__batch_keys(s) + i * KV_BLOCK);
        if (i >= first && !is_there(b->disk, BLOCK, prefix))
            break;
        if (i >= first && (!b->is_recurrent || is_there(b->disk, MEMORY, prefix)))
            n = i + 1;
    }
    return n;
}

/* Reads blocks from number `first` on into the chain's pages. *n: the number of blocks that it has then. */
static clef_status load_blocks(clef_batch *b, const batch_sequence *s, clef__chain *chain, int32_t *n,
                               unsigned char prefix[DIGEST], clef_error *err)
{
    const int32_t wanted = *n;
    clef_status status = CLEF_OK;
    begin_prefix(b, s, prefix);
    for (int32_t i = 0; i < chain->n; i++)
        add_block(prefix, clef__batch_keys(s) + i * KV_BLOCK);
    for (*n = chain->n; *n < wanted && !status; ++*n) {
        const int32_t i = *n, *tokens = clef__batch_keys(s) + i * KV_BLOCK;
        unsigned char next[DIGEST];
        memcpy(next, prefix, DIGEST);
        add_block(next, tokens);
        if (!read_file(b, BLOCK, next, tokens) || !clef__pages_grow(b->pages, chain, (i + 1) * KV_BLOCK))
            break;
        status = copy_states(b, BLOCK, chain->blocks[i], b->disk->file + BEFORE_DATA, write_state, err);
        if (status)
            break;
        clef__pages_note(b->pages, chain, i * KV_BLOCK, tokens, KV_BLOCK);
        clef__pages_slide(b->pages, chain, (i + 1) * KV_BLOCK);
        memcpy(prefix, next, DIGEST);
    }
    return status;
}

/* The recurrent states after the chain's blocks. */
static clef_status load_memory(clef_batch *b, const batch_sequence *s, const clef__chain *chain,
                               const unsigned char prefix[DIGEST], clef_error *err)
{
    const int32_t n = chain->n * KV_BLOCK;
    if (!b->is_recurrent || !read_file(b, MEMORY, prefix, clef__batch_keys(s) + n - KV_BLOCK))
        return CLEF_OK;
    const int32_t mark = clef__pages_mark(b->pages, chain, n);
    return mark < 0 ? CLEF_OK
                    : copy_states(b, MEMORY, b->opts.max_sequences + mark, b->disk->file + BEFORE_DATA,
                                  write_state, err);
}

/* 1 when the pool has what rows after these blocks see: their window may begin before that of n_cached. */
static int has_blocks(const clef_batch *b, const batch_sequence *s, int32_t n)
{
    int32_t mark;
    return b->is_recurrent ||
           clef__pages_find(b->pages, s->key, clef__batch_keys(s), n * KV_BLOCK, &mark) == n * KV_BLOCK;
}

clef_status clef__disk_load(clef_batch *b, batch_sequence *s, int32_t n_cached, clef_error *err)
{
    const int32_t first = n_cached / KV_BLOCK;
    unsigned char prefix[DIGEST];
    clef__page_copy copy;
    if (!b->disk || s->was_on_disk)
        return CLEF_OK;
    s->was_on_disk = 1;
    int32_t n = find_blocks(b, s, first);
    clef__chain chain = {.root = -1, .blocks = b->disk->blocks};
    if (n <= first || !has_blocks(b, s, first) ||
        !clef__pages_begin(b->pages, s->key, clef__batch_keys(s), first * KV_BLOCK, &chain, &copy))
        return CLEF_OK;
    const int32_t wanted = n;
    clef_status status = load_blocks(b, s, &chain, &n, prefix, err);
    if (!status && n == wanted)
        status = load_memory(b, s, &chain, prefix, err);
    clef__pages_end(b->pages, &chain);
    return status;
}

/* ---- opening ----------------------------------------------------------------------------------- */

static const char *why_not(const clef_batch *b)
{
    return b->no_prefix_cache         ? b->no_prefix_cache
           : b->opts.mtp              ? "pages of the layer that predicts further tokens are not kept"
           : clef_ranks_started() > 1 ? "pages of several ranks are not kept"
                                      : NULL;
}

static clef_status check_size(const clef_batch *b, clef_error *err)
{
    const clef__disk *d = b->disk;
    const size_t a = file_bytes(d, BLOCK), m = b->is_recurrent ? file_bytes(d, MEMORY) : 0;
    if (b->opts.disk_bytes >= 2 * (a + m))
        return CLEF_OK;
    return clef__fail(err, CLEF_E_ARG,
                      "a cache of %" PRIu64 " bytes on disk: expected at least %zu, two pages",
                      b->opts.disk_bytes, 2 * (a + m));
}

static void tell_size(clef_batch *b)
{
    char text[MOST_PATH + 96];
    snprintf(text, sizeof text, "the cache %s holds %" PRIu64 " MiB of pages, of %" PRIu64, b->disk->dir,
             b->disk->n_bytes >> 20, b->opts.disk_bytes >> 20);
    tell(b, text);
}

clef_status clef__disk_open(clef_batch *b, clef_error *err)
{
    const char *dir = b->opts.disk_dir;
    listing l = {0};
    if (!dir || b->opts.describe_only)
        return CLEF_OK;
    if (why_not(b))
        return clef__fail(err, CLEF_E_UNSUPPORTED, "a cache on disk: %s", why_not(b));
    clef__disk *d = b->disk = calloc(1, sizeof *d);
    if (!d)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a cache on disk");
    if (strlen(dir) + HEX + 16 > sizeof d->dir)
        return clef__fail(err, CLEF_E_ARG, "a cache on disk: expected a folder of fewer than %zu bytes",
                          sizeof d->dir - HEX - 16);
    strcpy(d->dir, dir);
    bind(b);
    clef_status status = check_size(b, err);
    if (!status)
        status = clef__os_make_dirs(dir, err);
    if (status)
        return status;
    d->file = malloc(file_bytes(d, d->n_data[BLOCK] > d->n_data[MEMORY] ? BLOCK : MEMORY));
    d->blocks = malloc((size_t)b->stats.n_pages * sizeof *d->blocks);
    if (!d->file || !d->blocks)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a page of a cache on disk");
    int64_t now = (int64_t)time(NULL);
    clef__os_list(dir, remove_unfinished, &now);
    clef__os_list(dir, count_file, &l);
    d->n_bytes = l.n_bytes;
    if (d->n_bytes > b->opts.disk_bytes) /* the limit may be lower than at the last start */
        make_room(b);
    tell_size(b);
    return CLEF_OK;
}

void clef__disk_close(clef_batch *b)
{
    if (!b->disk)
        return;
    free(b->disk->file);
    free(b->disk->blocks);
    free(b->disk);
    b->disk = NULL;
}

/* Fuzzes models as they lie on a disk: a folder, or a GGUF file, with adapters and towers beside. The bytes
 * are parts: the number of a file's name, the length in three bytes, and how the file begins. Files with
 * weights go on with zeros, as their headers say; those of .safetensors are a header alone. Whatever opens
 * has a graph, or says why not. */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clef/picture.h"
#include "model/lora/read.h"
#include "model/open/model.h"
#include "model/tasks/embed_config.h"
#include "model/tasks/rank_config.h"
#include "model/tower/see.h"
#include "tests/fuzz/mutator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static const char *const names[] = {"config.json",
                                    "generation_config.json",
                                    "model.safetensors",
                                    "model.safetensors.index.json",
                                    "model-00001-of-00002.safetensors",
                                    "model-00002-of-00002.safetensors",
                                    "quantize_config.json",
                                    "hf_quant_config.json",
                                    "modules.json",
                                    "1_Pooling/config.json",
                                    "2_Dense/config.json",
                                    "2_Dense/model.safetensors",
                                    "sentence_bert_config.json",
                                    "config_sentence_transformers.json",
                                    "preprocessor_config.json",
                                    "processor_config.json",
                                    "tokenizer.json",
                                    "tokenizer_config.json",
                                    "adapter/adapter_config.json",
                                    "adapter/adapter_model.safetensors",
                                    "model.gguf",
                                    "mmproj.gguf",
                                    "adapter.gguf"};
enum { N_FILES = sizeof names / sizeof *names, GGUF = 20, MMPROJ, ADAPTER, MOST_DATA = 1 << 24, SIDE = 56 };

static volatile size_t sink;

typedef struct part {
    unsigned file;
    size_t n;
    const uint8_t *data;
} part;

/* The file's parts, the last of a name alone. */
static void read_parts(const uint8_t *data, size_t n_bytes, part parts[N_FILES])
{
    memset(parts, 0, N_FILES * sizeof *parts);
    for (size_t at = 0; at + 4 <= n_bytes;) {
        const size_t n = data[at + 1] | (size_t)data[at + 2] << 8 | (size_t)data[at + 3] << 16,
                     rest = n_bytes - at - 4, file = data[at] % N_FILES;
        parts[file] = (part){(unsigned)file, n < rest ? n : rest, data + at + 4};
        at += 4 + parts[file].n;
    }
}

static size_t write_parts(const part parts[N_FILES], uint8_t *out, size_t most)
{
    size_t at = 0;
    for (unsigned i = 0; i < N_FILES; i++) {
        const part *p = &parts[i];
        if (!p->n || at + 4 + p->n > most)
            continue;
        const uint8_t head[4] = {(uint8_t)i, (uint8_t)p->n, (uint8_t)(p->n >> 8), (uint8_t)(p->n >> 16)};
        memcpy(out + at, head, 4);
        memcpy(out + at + 4, p->data, p->n);
        at += 4 + p->n;
    }
    return at;
}

static int ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), n_end = strlen(end);
    return n >= n_end && strcmp(name + n - n_end, end) == 0;
}

/* ---- files ------------------------------------------------------------------------------------ */

static char folder[64], paths[N_FILES][128], adapter_folder[128];

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "%.32s/clef-fuzz-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(folder))
        abort();
    for (size_t i = 0; i < N_FILES; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%s", folder, names[i]);
        char *slash = strrchr(paths[i], '/');
        *slash = '\0';
        if (strchr(names[i], '/'))
            mkdir(paths[i], 0700);
        *slash = '/';
    }
    snprintf(adapter_folder, sizeof adapter_folder, "%s/adapter", folder);
}

/* The bytes behind a header that its offsets need. */
static long data_bytes(const part *p)
{
    json_t *root = json_loadb((const char *)p->data, p->n, 0, NULL), *tensor;
    json_int_t most = 0;
    const char *name;
    json_object_foreach(root, name, tensor) {
        const json_int_t end = json_integer_value(json_array_get(json_object_get(tensor, "data_offsets"), 1));
        most = end > most && end <= MOST_DATA ? end : most;
    }
    json_decref(root);
    return (long)most;
}

static void write_file(const part *p)
{
    const char *path = paths[p->file];
    long n_zeros = p->file >= GGUF ? 1 << 21 : 0, n = (long)p->n;
    FILE *file = fopen(path, "wb");
    if (!file)
        abort();
    if (ends_with(path, ".safetensors")) {
        const uint64_t n_header = p->n;
        fwrite(&n_header, 8, 1, file);
        n_zeros = data_bytes(p);
        n += 8;
    }
    fwrite(p->data, 1, p->n, file);
    fflush(file);
    if (n_zeros && ftruncate(fileno(file), n + n_zeros))
        abort();
    fclose(file);
}

/* ---- what opens ------------------------------------------------------------------------------- */

static void note(void *user, const char *key, const char *value)
{
    sink += strlen(key) + strlen(value) + !user;
}

static void note_key(void *user, const char *key)
{
    note(user, key, "");
}

static void build(const clef_model *m, clef_build_opts opts)
{
    clef_graph *g = NULL;
    clef_error err;
    if (clef_model_build(m, &opts, &g, &err) == CLEF_OK)
        clef_graph_optimize(g, NULL, &err);
    clef_graph_destroy(g);
}

static void use_tower(clef_model *m)
{
    static const float values[3 * SIDE * SIDE];
    const clef_sight_pixels px = {
        .values = values, .n = 1, .height = SIDE, .width = SIDE, .source_height = SIDE, .source_width = SIDE};
    clef_sight *s = NULL;
    clef__sight_rows rows;
    clef_error err;
    if (clef_sight_create(NULL, m, NULL, &s, &err) != CLEF_OK)
        return;
    if (clef__sight_count(s, &px, &rows, &err) == CLEF_OK) {
        if (rows.n < 1 || rows.n_units < 1)
            abort();
        s->tower.height = s->tower.width = SIDE;
        s->tower.n_units = s->family->form->most_units ? s->family->form->most_units : rows.n_units;
        s->family->form->build(&s->tower, &err);
        clef_graph_destroy(s->tower.g);
    }
    clef_sight_destroy(s);
}

static void use_adapter(const clef_model *m, const char *path)
{
    clef_lora *lora = NULL;
    clef_error err;
    if (clef_lora_open(path, m, 1, &lora, &err) == CLEF_OK)
        clef_lora_close(lora);
}

static void use(clef_model *m, const part parts[N_FILES])
{
    clef_embedder_info info = {.pooling = CLEF_POOL_MEAN};
    clef__rank_config rank = {.yes = -1, .no = -1};
    clef_picture_processor *p = NULL;
    clef_error err;
    build(m, (clef_build_opts){0});
    clef_model_unread(m, note_key, m);
    clef_model_left_out(m, note_key, m);
    if (clef__embed_config(m, NULL, &info, &err) == CLEF_OK)
        build(m, (clef_build_opts){.pooling = info.pooling, .n_dims = info.n_dims});
    if (clef__rank_config_read(m, &rank, &err) == CLEF_OK)
        build(m, (clef_build_opts){.classify = 1});
    use_tower(m);
    if (parts[MMPROJ].n && clef_model_add_pictures(m, paths[MMPROJ], &err) == CLEF_OK)
        use_tower(m);
    if (clef_picture_processor_create(folder, &p, &err) == CLEF_OK)
        clef_picture_processor_destroy(p);
    if (parts[ADAPTER - 4].n)
        use_adapter(m, adapter_folder);
    if (parts[ADAPTER].n)
        use_adapter(m, paths[ADAPTER]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    part parts[N_FILES];
    clef_model *m = NULL;
    clef_error err;
    char near[512];
    if (!folder[0])
        make_folder();
    read_parts(data, n_bytes, parts);
    for (size_t i = 0; i < N_FILES; i++)
        if (parts[i].n)
            write_file(&parts[i]);
    const char *path = parts[GGUF].n ? paths[GGUF] : folder;
    if (clef_model_open(path, &m, &err) == CLEF_OK)
        use(m, parts);
    else /* to look for the nearest family is slow */
        clef_model_look(path, &m, n_bytes % 16 ? NULL : near, &err);
    if (m)
        clef_model_metadata(m, note, NULL);
    clef_model_close(m);
    for (size_t i = 0; i < N_FILES; i++)
        if (parts[i].n)
            remove(paths[i]);
    return 0;
}

/* ---- mutations -------------------------------------------------------------------------------- */

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n_bytes, size_t most, unsigned seed)
{
    enum { ROOM = 1 << 16 };
    static uint8_t room[ROOM], all[1 << 20];
    part parts[N_FILES], *p = NULL;
    read_parts(data, n_bytes, parts);
    for (unsigned i = 0, n = 0; i < N_FILES; i++)
        if (parts[i].n && (seed >> 8) % ++n == 0)
            p = &parts[i];
    if (!p || p->n > ROOM || most > sizeof all)
        return LLVMFuzzerMutate(data, n_bytes, most);
    memcpy(room, p->data, p->n);
    const size_t room_left = most > n_bytes ? p->n + (most - n_bytes) : p->n,
                 bound = room_left < ROOM ? room_left : ROOM;
    p->n = p->file >= GGUF ? LLVMFuzzerMutate(room, p->n, bound) : mutate_json(room, p->n, bound, seed);
    p->data = room;
    const size_t n = write_parts(parts, all, most);
    memcpy(data, all, n);
    return n;
}

/* Takes one file of the other, or of its values. */
size_t LLVMFuzzerCustomCrossOver(const uint8_t *data, size_t n_bytes, const uint8_t *other, size_t n_other,
                                 uint8_t *out, size_t most, unsigned seed)
{
    static uint8_t room[1 << 16];
    part parts[N_FILES], others[N_FILES];
    unsigned n = 0, file = 0;
    read_parts(data, n_bytes, parts);
    read_parts(other, n_other, others);
    for (unsigned i = 0; i < N_FILES; i++)
        if (others[i].n && (seed >> 8) % ++n == 0)
            file = i;
    const size_t n_crossed = seed % 4 && file < GGUF
                                 ? cross_json(parts[file].data, parts[file].n, others[file].data,
                                              others[file].n, room, sizeof room, seed)
                                 : 0;
    parts[file] = n_crossed ? (part){file, n_crossed, room} : others[file];
    return write_parts(parts, out, most);
}

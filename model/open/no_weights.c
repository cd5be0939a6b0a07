/* Folders without what clef reads: what they have instead. */
#include "model/open/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "runtime/os/os.h"

/* What a folder may have instead, the likeliest first. A name matches both ends. */
static const struct {
    const char *begin, *end, *hint;
} kinds[] = {
    {"", ".gguf", "a GGUF file is named itself, not its folder"},
    {"adapter_model", ".safetensors", "an adapter is named by --lora, beside its base model"},
    {"", ".safetensors",
     "shards need their model.safetensors.index.json, and a single file is called model.safetensors"},
    {"adapter_model", ".bin", "saved by PEFT with safe_serialization, an adapter is named by --lora"},
    {"", ".bin", "clef reads .safetensors alone; transformers' save_pretrained() writes them from it"},
    {"", ".pth", "clef reads .safetensors alone; transformers' converter for the family writes them from it"},
    {"", ".pt", "clef reads .safetensors alone"},
    {"", ".ckpt", "clef reads .safetensors alone"},
    {"", ".h5",
     "clef reads .safetensors alone; transformers' from_tf and save_pretrained() write them from it"},
    {"", ".msgpack",
     "clef reads .safetensors alone; transformers' from_flax and save_pretrained() write them from it"},
    {"", ".onnx", "clef reads .safetensors alone"},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds, NAME = 120 };

typedef struct search {
    int kind, n;     /* the likeliest so far, and how many files are of it */
    char name[NAME]; /* the first of these by name */
} search;

static int kind_of(const char *name)
{
    const size_t n = strlen(name);
    for (int k = 0; k < N_KINDS; k++) {
        const size_t n_begin = strlen(kinds[k].begin), n_end = strlen(kinds[k].end);
        if (n >= n_begin + n_end && strncmp(name, kinds[k].begin, n_begin) == 0 &&
            strcmp(name + n - n_end, kinds[k].end) == 0)
            return k;
    }
    return N_KINDS;
}

static clef_status look(void *user, const char *name, int is_folder)
{
    search *s = user;
    const int kind = is_folder || strcmp(name, "training_args.bin") == 0 ? N_KINDS : kind_of(name);
    if (kind == N_KINDS || kind > s->kind)
        return CLEF_OK;
    if (kind < s->kind)
        *s = (search){.kind = kind};
    if (s->n++ == 0 || strcmp(name, s->name) < 0)
        snprintf(s->name, sizeof s->name, "%s", name);
    return CLEF_OK;
}

clef_status clef__no_weights(const char *folder, const char *lacks, clef_error *err)
{
    search s = {.kind = N_KINDS};
    char more[40] = "";
    if (clef__os_entries(folder, look, &s, NULL) != CLEF_OK || s.n == 0)
        return clef__fail(err, CLEF_E_NOT_FOUND, "%s: %s, expected a Hugging Face folder or a GGUF file",
                          folder, lacks);
    if (s.n > 1)
        snprintf(more, sizeof more, " and %d other%s", s.n - 1, s.n > 2 ? "s" : "");
    return clef__fail(err, CLEF_E_NOT_FOUND, "%s: %s, but %s%s: %s", folder, lacks, s.name, more,
                      kinds[s.kind].hint);
}

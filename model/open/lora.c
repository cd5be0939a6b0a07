/* Adapters in memory, and the stacks of several (model/open/lora.h). */
#include "model/open/lora.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"

static int by_weight(const void *a, const void *b)
{
    const clef_lora_target_info *s = a, *t = b;
    return strcmp(s->weight, t->weight);
}

void clef__lora_sort(clef_lora *lora)
{
    if (lora->n_targets > 0)
        qsort(lora->targets, (size_t)lora->n_targets, sizeof *lora->targets, by_weight);
}

const clef_lora_target_info *clef__lora_find(const clef_lora *lora, const char *weight)
{
    const clef_lora_target_info key = {.weight = weight};
    return lora->n_targets ? bsearch(&key, lora->targets, (size_t)lora->n_targets, sizeof key, by_weight)
                           : NULL;
}

void clef__lora_add_row(const clef_lora_target_info *t, int64_t row, float *x)
{
    for (int32_t j = 0; j < t->rank; j++) {
        const float b = t->up[(size_t)j * (size_t)t->n_out + (size_t)row],
                    *a = t->down + (size_t)j * (size_t)t->n_in;
        for (int32_t c = 0; c < t->n_in; c++)
            x[c] += b * a[c];
    }
}

void clef_lora_close(clef_lora *lora)
{
    if (!lora)
        return;
    for (int32_t i = 0; i < lora->n_targets; i++)
        free((void *)(uintptr_t)lora->targets[i].down);
    free(lora->targets);
    free(lora->path);
    free(lora);
}

const char *clef_lora_path(const clef_lora *lora)
{
    return lora->path;
}

float clef_lora_scale(const clef_lora *lora)
{
    return lora->scale;
}

int32_t clef_lora_n_targets(const clef_lora *lora)
{
    return lora->n_targets;
}

clef_lora_target_info clef_lora_target(const clef_lora *lora, int32_t i)
{
    return i >= 0 && i < lora->n_targets ? lora->targets[i] : (clef_lora_target_info){0};
}

/* ---- sets ------------------------------------------------------------------------------------ */

/* The endings of the stacks' names, after the weight's. */
static const char down_end[] = ".lora_a", up_end[] = ".lora_b";

struct clef_lora_set {
    clef_model *model;
    int32_t n;                /* adapters */
    clef__lora_stack *stacks; /* by weight; each owns its names and data */
    int32_t n_stacks;
    char *sources;                           /* clef__lora_set_sources() */
    char (*identities)[LORA_IDENTITY_BYTES]; /* [n] */
};

static int stack_by_weight(const void *a, const void *b)
{
    const clef__lora_stack *s = a, *t = b;
    return strcmp(s->weight, t->weight);
}

const clef__lora_stack *clef__lora_stack_of(const clef_lora_set *set, const char *weight)
{
    const clef__lora_stack key = {.weight = weight};
    return set->n_stacks ? bsearch(&key, set->stacks, (size_t)set->n_stacks, sizeof key, stack_by_weight)
                         : NULL;
}

/* Copies the matrices [rank, width] of each adapter, padded to [n, r, width], and names the result. */
static clef_status make_tensor(clef__lora_stack *s, int is_up, const clef_lora *const *loras, int32_t n,
                               int32_t r, clef_error *err)
{
    const char *end = is_up ? up_end : down_end;
    const clef_lora_target_info *any = NULL;
    for (int32_t i = 0; !any; i++)
        any = clef__lora_find(loras[i], s->weight);
    const size_t width = (size_t)(is_up ? any->n_out : any->n_in),
                 name_bytes = strlen(s->weight) + strlen(end) + 1;
    if ((size_t)n > INT32_MAX / sizeof(float) / width / (size_t)r)
        return clef__fail(err, CLEF_E_LIMIT, "%d adapters of %s: their matrices would have too many bytes", n,
                          s->weight);
    char *name = malloc(name_bytes);
    float *data = calloc((size_t)n * (size_t)r * width, sizeof *data);
    clef_tensor_info *t = is_up ? &s->up : &s->down;
    *t = (clef_tensor_info){.name = name,
                            .dtype = CLEF_F32,
                            .rank = 3,
                            .dims = {n, r, (int64_t)width},
                            .n_bytes = (size_t)n * (size_t)r * width * sizeof *data,
                            .data = data};
    if (!name || !data)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for the adapters of %s", s->weight);
    snprintf(name, name_bytes, "%s%s", s->weight, end);
    for (int32_t i = 0; i < n; i++) {
        const clef_lora_target_info *from = clef__lora_find(loras[i], s->weight);
        if (from)
            memcpy(data + (size_t)i * (size_t)r * width, is_up ? from->up : from->down,
                   (size_t)from->rank * width * sizeof *data);
    }
    return CLEF_OK;
}

/* Makes the stack of a weight, unless an earlier adapter has made it. */
static clef_status add_stack(clef_lora_set *set, const char *weight, const clef_lora *const *loras,
                             clef_error *err)
{
    int32_t r = 1;
    for (int32_t i = 0; i < set->n_stacks; i++)
        if (strcmp(set->stacks[i].weight, weight) == 0)
            return CLEF_OK;
    for (int32_t i = 0; i < set->n; i++) {
        const clef_lora_target_info *t = clef__lora_find(loras[i], weight);
        r = t && t->rank > r ? t->rank : r;
    }
    clef__lora_stack *s = &set->stacks[set->n_stacks++];
    s->weight = weight;
    const clef_status status = make_tensor(s, 0, loras, set->n, r, err);
    return status ? status : make_tensor(s, 1, loras, set->n, r, err);
}

/* The last name of a path. */
static int name_of(const char *path, const char **begin)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    size_t first = n;
    while (first > 0 && path[first - 1] != '/')
        first--;
    *begin = path + first;
    return (int)(n - first < 40 ? n - first : 40);
}

static void identify(const clef_lora *lora, char out[LORA_IDENTITY_BYTES])
{
    unsigned char digest[CLEF_SHA256_BYTES];
    const char *name;
    clef_sha256 sum;
    clef__sha256_init(&sum);
    for (int32_t i = 0; i < lora->n_targets; i++) {
        const clef_lora_target_info *t = &lora->targets[i];
        const size_t rank = (size_t)t->rank;
        clef__sha256_add(&sum, t->weight, strlen(t->weight) + 1);
        clef__sha256_add(&sum, &t->rank, sizeof t->rank);
        clef__sha256_add(&sum, t->down, rank * (size_t)t->n_in * sizeof *t->down);
        clef__sha256_add(&sum, t->up, rank * (size_t)t->n_out * sizeof *t->up);
    }
    clef__sha256_finish(&sum, digest);
    for (int i = 0; i < CLEF_SHA256_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
    const int n = name_of(lora->path, &name);
    snprintf(out + LORA_DIGEST_CHARS, LORA_IDENTITY_BYTES - LORA_DIGEST_CHARS, " %.*s (scale %g)", n, name,
             (double)lora->scale);
}

const char *clef__lora_set_identity(const clef_lora_set *set, int32_t number)
{
    return set && number > 0 && number <= set->n ? set->identities[number - 1] : "";
}

/* "\n0.5 PATH" for each adapter; NULL when out of memory. */
static char *list_sources(const clef_lora *const *loras, int32_t n)
{
    enum { SCALE_BYTES = 24 };
    size_t room = 1, at = 0;
    for (int32_t i = 0; i < n; i++)
        room += SCALE_BYTES + strlen(loras[i]->path);
    char *text = malloc(room);
    for (int32_t i = 0; text && i < n; i++)
        at += (size_t)snprintf(text + at, room - at, "\n%.9g %s", (double)loras[i]->scale, loras[i]->path);
    return text;
}

const char *clef__lora_set_sources(const clef_lora_set *set)
{
    return set ? set->sources : "";
}

clef_status clef_lora_set_create(clef_model *model, const clef_lora *const *loras, int32_t n,
                                 clef_lora_set **out, clef_error *err)
{
    size_t n_targets = 1;
    clef_status status = CLEF_OK;
    *out = NULL;
    if (n < 1)
        return clef__fail(err, CLEF_E_ARG, "a set of %" PRId32 " adapters, expected at least 1", n);
    for (int32_t i = 0; i < n; i++) {
        if (loras[i]->model != model)
            return clef__fail(err, CLEF_E_ARG, "%s: the adapter was opened for %s, expected %s",
                              loras[i]->path, clef_model_path(loras[i]->model), clef_model_path(model));
        n_targets += (size_t)loras[i]->n_targets;
    }
    clef_lora_set *set = calloc(1, sizeof *set);
    if (set) {
        set->stacks = calloc(n_targets, sizeof *set->stacks);
        set->identities = calloc((size_t)n, sizeof *set->identities);
    }
    if (set)
        set->sources = list_sources(loras, n);
    if (!set || !set->stacks || !set->identities || !set->sources) {
        clef_lora_set_destroy(set);
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %" PRId32 " adapters", n);
    }
    set->model = model;
    set->n = n;
    for (int32_t i = 0; i < n; i++)
        identify(loras[i], set->identities[i]);
    for (int32_t i = 0; i < n && !status; i++)
        for (int32_t k = 0; k < loras[i]->n_targets && !status; k++)
            status = add_stack(set, loras[i]->targets[k].weight, loras, err);
    if (status) {
        clef_lora_set_destroy(set);
        return status;
    }
    if (set->n_stacks)
        qsort(set->stacks, (size_t)set->n_stacks, sizeof *set->stacks, stack_by_weight);
    *out = set;
    return CLEF_OK;
}

static void free_tensor(const clef_tensor_info *t)
{
    free((void *)(uintptr_t)t->name);
    free((void *)(uintptr_t)t->data);
}

void clef_lora_set_destroy(clef_lora_set *set)
{
    if (!set)
        return;
    for (int32_t i = 0; i < set->n_stacks; i++) {
        free_tensor(&set->stacks[i].down);
        free_tensor(&set->stacks[i].up);
    }
    free(set->stacks);
    free(set->identities);
    free(set->sources);
    free(set);
}

int32_t clef_lora_set_count(const clef_lora_set *set)
{
    return set ? set->n : 0;
}

/* The tensor of a stack with that name, NULL if it is none of the set. */
static const clef_tensor_info *find_tensor(const clef_lora_set *set, const char *name)
{
    int32_t first = 0, end = set->n_stacks;
    while (first <
           end) { /* a stack's name begins with its weight's, and no weight's with another's and ".lora" */
        const int32_t at = first + (end - first) / 2;
        const clef__lora_stack *s = &set->stacks[at];
        const size_t n = strlen(s->weight);
        if (strncmp(name, s->weight, n) == 0 && strcmp(name + n, down_end) == 0)
            return &s->down;
        if (strncmp(name, s->weight, n) == 0 && strcmp(name + n, up_end) == 0)
            return &s->up;
        if (strcmp(name, s->weight) < 0)
            end = at;
        else
            first = at + 1;
    }
    return NULL;
}

const void *clef_lora_set_weight(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    const clef_lora_set *set = user;
    const clef_tensor_info *t = find_tensor(set, name);
    if (!t)
        return clef_model_weight(set->model, name, dtype, n_bytes);
    return t->dtype == dtype && t->n_bytes == n_bytes ? t->data : NULL;
}

void clef_lora_set_release(void *user, const char *name)
{
    const clef_lora_set *set = user;
    if (!find_tensor(set, name))
        clef_model_release(set->model, name);
}

/* Published values of a model's tensors (model/open/published.h). */
#include "model/open/published.h"

#include <stdlib.h>

#include "graph/fail.h"

/* Values for one tensor. */
typedef struct block {
    struct block *next;
    const clef__publisher *owner; /* NULL: it has ended */
    size_t tensor;
    void *data;
} block;

struct clef__published {
    block *blocks;
    clef__publisher *open;          /* all publishers, the newest first */
    const clef__publisher *present; /* whose values the model has; NULL: those of its files */
    const void **stored;            /* by tensor, the data of the files; valid while `present` is not NULL */
};

size_t clef__n_all_tensors(const clef_model *model)
{
    return (size_t)model->n_tensors + model->n_joined;
}

clef_tensor_info *clef__tensor_at(const clef_model *model, size_t i)
{
    const size_t n = (size_t)model->n_tensors;
    return i < n ? &model->tensors[i] : &model->joined_infos[i - n];
}

static void copy_data(const clef_model *model, const void **out)
{
    for (size_t i = 0; i < clef__n_all_tensors(model); i++)
        out[i] = clef__tensor_at(model, i)->data;
}

static void set_data(const clef_model *model, const void *const *data)
{
    for (size_t i = 0; i < clef__n_all_tensors(model); i++)
        clef__tensor_at(model, i)->data = data[i];
}

static clef_status make_room(clef_model *model, clef_error *err)
{
    struct clef__published *all = model->published ? model->published : calloc(1, sizeof *all);
    model->published = all;
    if (all && !all->stored)
        all->stored = calloc(clef__n_all_tensors(model) + 1, sizeof *all->stored);
    return all && all->stored ? CLEF_OK
                              : clef__fail(err, CLEF_E_NOMEM, "training: no memory for the list of weights");
}

clef_status clef__publisher_begin(clef_model *model, clef__publisher *p, clef_error *err)
{
    const clef_status s = make_room(model, err);
    if (s)
        return s;
    p->begin = calloc(clef__n_all_tensors(model) + 1, sizeof *p->begin);
    if (!p->begin)
        return clef__fail(err, CLEF_E_NOMEM, "training: no memory for the list of weights");
    copy_data(model, p->begin);
    p->next = model->published->open;
    model->published->open = p;
    return CLEF_OK;
}

static void withdraw(clef_model *model)
{
    if (model->published->present)
        set_data(model, model->published->stored);
    model->published->present = NULL;
}

void clef__publisher_end(clef_model *model, clef__publisher *p)
{
    if (!p->begin)
        return;
    if (model->published->present == p)
        withdraw(model);
    for (block *b = model->published->blocks; b; b = b->next)
        b->owner = b->owner == p ? NULL : b->owner;
    clef__publisher **at = &model->published->open;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    free(p->begin);
    *p = (clef__publisher){0};
}

clef_status clef__publisher_enter(clef_model *model, clef__publisher *p, clef_error *err)
{
    const clef_status s = make_room(model, err);
    if (s)
        return s;
    if (!model->published->present)
        copy_data(model, model->published->stored);
    model->published->present = p;
    set_data(model, p->begin);
    return CLEF_OK;
}

/* Whether an open publisher began with these values. */
static int is_needed(const clef_model *model, const block *b)
{
    for (const clef__publisher *p = model->published->open; p; p = p->next)
        if (p->begin[b->tensor] == b->data)
            return 1;
    return 0;
}

/* A block of p, or one without an owner, that may be written. */
static block *find_block(const clef_model *model, const clef__publisher *p, size_t i)
{
    block *found = NULL;
    for (block *b = model->published->blocks; b; b = b->next) {
        if (b->tensor != i || (b->owner && b->owner != p))
            continue;
        if (is_needed(model, b))
            b->owner = NULL;
        else if (!found || b->owner)
            found = b;
    }
    return found;
}

static block *new_block(clef_model *model, size_t i)
{
    block *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->tensor = i;
    b->data = malloc((size_t)clef__tensor_at(model, i)->n_bytes + 1);
    if (!b->data) {
        free(b);
        return NULL;
    }
    b->next = model->published->blocks;
    model->published->blocks = b;
    return b;
}

void *clef__publisher_room(clef_model *model, clef__publisher *p, size_t i)
{
    block *b = find_block(model, p, i);
    b = b ? b : new_block(model, i);
    if (!b)
        return NULL;
    b->owner = p;
    clef__tensor_at(model, i)->data = b->data;
    return b->data;
}

void clef__published_finish(clef_model *model)
{
    struct clef__published *all = model->published;
    for (block *b = all ? all->blocks : NULL, *next; b; b = next) {
        next = b->next;
        free(b->data);
        free(b);
    }
    if (all)
        free(all->stored);
    free(all);
    model->published = NULL;
}

/* What a trainer writes and reads: the trained model or adapter, and checkpoints. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "graph/value.h"
#include "model/open/arch.h"
#include "train/model/checkpoint.h"
#include "train/model/lora_begin.h"
#include "train/model/model_trainer.h"
#include "train/model/save.h"

/* ---- reading parameters ------------------------------------------------------------------------ */

static clef_status grow_values(clef_model_trainer *t, size_t n, clef_error *err)
{
    if (n <= t->n_values)
        return CLEF_OK;
    float *bigger = realloc(t->values, n * sizeof *bigger);
    if (!bigger)
        return clef__fail(err, CLEF_E_NOMEM, "training: no memory for %zu floats", n);
    t->values = bigger;
    t->n_values = n;
    return CLEF_OK;
}

int32_t clef__model_trainer_find(const clef_model_trainer *t, const char *name)
{
    for (int32_t i = 0; i < clef_trainer_n_parameters(t->trainer); i++)
        if (strcmp(clef_trainer_parameter(t->trainer, i).name, name) == 0)
            return i;
    return -1;
}

/* Reads parameter i to t->values. */
static clef_status model_trainer_read(clef_model_trainer *t, int32_t i, clef_train_array which,
                                      const float **out, clef_error *err)
{
    const int64_t n = clef_trainer_parameter(t->trainer, i).n;
    const clef_status s = grow_values(t, (size_t)n, err);
    *out = t->values;
    return s ? s : clef_trainer_read(t->trainer, i, which, t->values, n, err);
}

/* One matrix of an adapter, to be freed. */
static clef_status read_matrix(clef_model_trainer *t, int32_t i, float **out, clef_error *err)
{
    const int64_t n = clef_trainer_parameter(t->trainer, i).n;
    *out = malloc((size_t)n * sizeof **out);
    if (!*out)
        return clef__fail(err, CLEF_E_NOMEM, "training: no memory for %" PRId64 " floats", n);
    return clef_trainer_read(t->trainer, i, CLEF_TRAIN_WEIGHT, *out, n, err);
}

/* w += scale B A, for w [n_out, n_in], or [n_in, n_out] where the folder stores it so. */
static void add_product(float *w, const float *a, const float *b, int64_t n_out, int64_t n_in, int32_t rank,
                        float scale, int in_out)
{
    for (int64_t o = 0; o < n_out; o++)
        for (int32_t r = 0; r < rank; r++) {
            const float factor = scale * b[o * rank + r];
            for (int64_t i = 0; i < n_in; i++)
                w[in_out ? i * n_out + o : o * n_in + i] += factor * a[r * n_in + i];
        }
}

static clef_status merge_lora(clef_model_trainer *t, const clef__lora_parameters *l, clef_error *err)
{
    const clef_arch *arch = clef__arch_find(t->model->hparams.arch, t->model->is_gguf);
    const clef_train_parameter a = clef_trainer_parameter(t->trainer, l->a),
                               b = clef_trainer_parameter(t->trainer, l->b);
    float *pa = NULL, *pb = NULL;
    clef_status s = read_matrix(t, l->a, &pa, err);
    if (!s)
        s = read_matrix(t, l->b, &pb, err);
    if (!s)
        add_product(t->values, pa, pb, b.shape.dim[0].n, a.shape.dim[1].n, t->opts.lora_rank,
                    t->opts.lora_alpha / (float)t->opts.lora_rank, arch->hf_conv1d && !t->model->is_gguf);
    free(pa);
    free(pb);
    return s;
}

const void *clef__model_trainer_begin(const clef_model_trainer *t, const clef_tensor_info *info)
{
    const size_t n = clef__n_all_tensors(t->model);
    size_t i = 0;
    while (i < n && clef__tensor_at(t->model, i) != info)
        i++;
    return i < n ? t->publisher.begin[i] : NULL;
}

/* The present values of the model's weight `name`, with the adapter merged, in t->values; NULL: it is not
 * trained. */
static clef_status model_trainer_weight(clef_model_trainer *t, const char *name, uint64_t n,
                                        const float **out, clef_error *err)
{
    const int32_t at = clef__model_trainer_find(t, name);
    const clef_tensor_info *stored = clef__model_find(t->model, name);
    *out = NULL;
    if (at >= 0)
        return model_trainer_read(t, at, CLEF_TRAIN_WEIGHT, out, err);
    for (int32_t i = 0; i < t->n_lora; i++)
        if (strcmp(t->lora[i].weight, name) == 0 && stored && clef__model_trainer_begin(t, stored)) {
            clef_status s = grow_values(t, (size_t)n, err);
            if (s)
                return s;
            clef_dtype_decode(stored->dtype, clef__model_trainer_begin(t, stored), (size_t)n, t->values);
            *out = t->values;
            return merge_lora(t, &t->lora[i], err);
        }
    return CLEF_OK;
}

/* ---- publishing ---------------------------------------------------------------------------------- */

static uint64_t elements(const clef_tensor_info *info)
{
    uint64_t n = 1;
    for (int32_t i = 0; i < info->rank; i++)
        n *= (uint64_t)info->dims[i];
    return n;
}

/* Puts present values in the place of tensor i's data, if it is trained. */
static clef_status publish_tensor(clef_model_trainer *t, size_t i, clef_error *err)
{
    const clef_tensor_info *info = clef__tensor_at(t->model, i);
    const uint64_t n = elements(info);
    const float *values;
    const clef_status s = model_trainer_weight(t, info->name, n, &values, err);
    if (s || !values)
        return s;
    if (!clef_dtype_encodes(info->dtype))
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: clef cannot write %s", info->name,
                          clef_dtype_name(info->dtype));
    void *room = clef__publisher_room(t->model, &t->publisher, i);
    if (!room)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its present values", info->name);
    clef_dtype_encode(info->dtype, values, (size_t)n, room);
    return CLEF_OK;
}

clef_status clef_model_trainer_publish(clef_model_trainer *t, clef_error *err)
{
    clef_status s = clef__publisher_enter(t->model, &t->publisher, err);
    for (size_t i = 0; i < clef__n_all_tensors(t->model) && !s; i++)
        s = publish_tensor(t, i, err);
    return s;
}

/* ---- saving ------------------------------------------------------------------------------------ */

static clef_status read_for_saving(void *user, const char *name, uint64_t n, const float **out,
                                   clef_error *err)
{
    return model_trainer_weight(user, name, n, out, err);
}

static clef_lora_save_opts lora_opts(const clef_model_trainer *t, const clef_save_opts *opts)
{
    return (clef_lora_save_opts){
        .rank = t->opts.lora_rank, .alpha = t->opts.lora_alpha, .dtype = opts ? opts->dtype : CLEF_F32};
}

static clef_status save_lora(clef_model_trainer *t, const char *path, const clef_save_opts *opts,
                             clef_error *err)
{
    clef_lora_matrices *m = calloc((size_t)t->n_lora + 1, sizeof *m);
    float **data = calloc(2 * (size_t)t->n_lora + 1, sizeof *data);
    clef_status s = m && data ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "training: no memory for an adapter");
    for (int32_t i = 0; i < t->n_lora && !s; i++) {
        s = read_matrix(t, t->lora[i].a, &data[2 * i], err);
        if (!s)
            s = read_matrix(t, t->lora[i].b, &data[2 * i + 1], err);
        m[i] = (clef_lora_matrices){.weight = t->lora[i].weight, .a = data[2 * i], .b = data[2 * i + 1]};
    }
    const clef_lora_save_opts lora = lora_opts(t, opts);
    if (!s)
        s = clef_lora_save(t->model, path, &lora, m, t->n_lora, err);
    for (int32_t i = 0; data && i < 2 * t->n_lora; i++)
        free(data[i]);
    free(data);
    free(m);
    return s;
}

clef_status clef_model_trainer_save(clef_model_trainer *t, const char *path, const clef_save_opts *opts,
                                    clef_error *err)
{
    const clef_weight_values values = {.read = read_for_saving, .user = t};
    return t->opts.lora_rank ? save_lora(t, path, opts, err)
                             : clef_model_save(t->model, path, opts, &values, err);
}

static clef_status check_lora(const clef_model_trainer *t, const char *path, const clef_save_opts *opts,
                              clef_error *err)
{
    const clef_lora_save_opts lora = lora_opts(t, opts);
    clef_lora_matrices *m = calloc((size_t)t->n_lora + 1, sizeof *m);
    if (!m)
        return clef__fail(err, CLEF_E_NOMEM, "training: no memory for an adapter");
    for (int32_t i = 0; i < t->n_lora; i++)
        m[i].weight = t->lora[i].weight;
    const clef_status s = clef__save_check_lora(t->model, path, &lora, m, t->n_lora, err);
    free(m);
    return s;
}

clef_status clef_model_trainer_check_save(clef_model_trainer *t, const char *path, const clef_save_opts *opts,
                                          clef_error *err)
{
    const clef_weight_values values = {.read = read_for_saving, .user = t};
    return t->opts.lora_rank ? check_lora(t, path, opts, err)
                             : clef__save_check_model(t->model, path, opts, &values, err);
}

/* ---- checkpoints ------------------------------------------------------------------------------- */

enum { OPTIONS_TEXT = 512 };

/* The options that decide how training goes on; the learning rate and the schedule may change. */
static void options_text(const clef_model_trainer *t, char out[OPTIONS_TEXT])
{
    const clef_model_train_opts *o = &t->opts;
    const int is_f32 = o->optimizer.compute == CLEF_F32;
    snprintf(out, OPTIONS_TEXT,
             "data %.16s tokens %d rows %d parts %d%s%s dropout %.9g seed %" PRIu64
             " optimizer %d beta1 %.9g beta2 %.9g eps %.9g decay %.9g clip %.9g"
             " lora %d alpha %.9g targets %.200s",
             t->data, o->n_tokens, o->n_rows, o->n_parts, is_f32 ? "" : " compute ",
             is_f32 ? "" : clef_dtype_name(o->optimizer.compute), (double)o->dropout, o->seed,
             (int)o->optimizer.optimizer, o->optimizer.beta1, o->optimizer.beta2, o->optimizer.eps,
             o->optimizer.decay, o->optimizer.clip, o->lora_rank, (double)o->lora_alpha,
             o->lora_targets ? o->lora_targets : "-");
}

/* The name of an array in a checkpoint, and whether the optimiser has it. */
static int array_name(const clef_model_trainer *t, int32_t i, clef_train_array which,
                      char out[CLEF_NAME_BYTES + 16])
{
    static const char *const prefixes[] = {[CLEF_TRAIN_WEIGHT] = "weight/",
                                           [CLEF_TRAIN_MOMENT1] = "moment1/",
                                           [CLEF_TRAIN_MOMENT2] = "moment2/"};
    snprintf(out, CLEF_NAME_BYTES + 16, "%s%s", prefixes[which], clef_trainer_parameter(t->trainer, i).name);
    return which != CLEF_TRAIN_MOMENT2 || t->opts.optimizer.optimizer == CLEF_ADAMW;
}

static const clef_train_array kept[] = {CLEF_TRAIN_WEIGHT, CLEF_TRAIN_MOMENT1, CLEF_TRAIN_MOMENT2};
enum { N_KEPT = sizeof kept / sizeof *kept };

/* What fetch gets for a tensor. */
typedef struct fetched {
    clef_model_trainer *t;
    int32_t i;
    clef_train_array which;
    int32_t *n_read; /* tensors that were read so far */
} fetched;

static clef_status fetch(void *user, const char *name, const void **out, clef_error *err)
{
    const fetched *f = user;
    const float *values = NULL;
    (void)name;
    const clef_status s = model_trainer_read(f->t, f->i, f->which, &values, err);
    *out = values;
    ++*f->n_read;
    return s;
}

/* Takes part in reading the moments that nobody has read yet: ranks read them together. */
static clef_status read_along(const fetched *each, int32_t n, int32_t n_read, clef_error *err)
{
    const float *values;
    clef_status s = CLEF_OK;
    for (int32_t i = n_read; i < n && !s; i++)
        if (each[i].which != CLEF_TRAIN_WEIGHT)
            s = model_trainer_read(each[i].t, each[i].i, each[i].which, &values, err);
    return s;
}

static int32_t list_arrays(clef_model_trainer *t, clef__checkpoint_tensor *tensors, fetched *each,
                           char (*names)[CLEF_NAME_BYTES + 16], int32_t *n_read)
{
    int32_t n = 0;
    for (int32_t i = 0; i < clef_trainer_n_parameters(t->trainer); i++)
        for (int k = 0; k < N_KEPT; k++) {
            const clef_train_parameter p = clef_trainer_parameter(t->trainer, i);
            if (!array_name(t, i, kept[k], names[n]))
                continue;
            each[n] = (fetched){t, i, kept[k], n_read};
            tensors[n] = (clef__checkpoint_tensor){
                .name = names[n], .dtype = CLEF_F32, .rank = p.shape.rank, .fetch = fetch, .user = &each[n]};
            for (int32_t d = 0; d < p.shape.rank; d++)
                tensors[n].dims[d] = p.shape.dim[d].n;
            n++;
        }
    return n;
}

static clef_status write_checkpoint(clef_model_trainer *t, const char *folder,
                                    const clef__checkpoint_tensor *tensors, int32_t n, int32_t keep,
                                    clef_error *err)
{
    char options[OPTIONS_TEXT];
    options_text(t, options);
    const clef_train_scale scale = clef_trainer_scale(t->trainer);
    json_t *state =
        json_pack("{s:f, s:I}", "loss_scale", scale.scale, "updates_at_scale", (json_int_t)scale.n_updates);
    const clef__checkpoint_head head = {.model = t->fingerprint,
                                        .options = options,
                                        .step = (uint64_t)clef_trainer_step(t->trainer),
                                        .seed = t->opts.seed,
                                        .state = state};
    const clef_status s = state ? clef__checkpoint_save(folder, &head, tensors, n, keep, err)
                                : clef__fail(err, CLEF_E_NOMEM, "training: no memory for a checkpoint");
    json_decref(state);
    return s;
}

/* Rank 0 writes, and the others take part. If rank 0 cannot write, all read to the end nevertheless, so that
 * nobody waits for it. */
static clef_status write_together(clef_model_trainer *t, const char *folder,
                                  const clef__checkpoint_tensor *tensors, const fetched *each, int32_t n,
                                  int32_t keep, clef_error *err)
{
    clef_error why = {0};
    const clef_status wrote = t->share.rank ? CLEF_OK : write_checkpoint(t, folder, tensors, n, keep, &why);
    const clef_status s = read_along(each, n, *each->n_read, err);
    if (s)
        return s;
    if (wrote && err)
        *err = why;
    return clef_ranks_agree(t->opts.optimizer.ranks, wrote, err);
}

clef_status clef_model_trainer_checkpoint(clef_model_trainer *t, const char *folder, int32_t keep,
                                          clef_error *err)
{
    const size_t most = (size_t)clef_trainer_n_parameters(t->trainer) * N_KEPT + 1;
    clef__checkpoint_tensor *tensors = calloc(most, sizeof *tensors);
    fetched *each = calloc(most, sizeof *each);
    char(*names)[CLEF_NAME_BYTES + 16] = calloc(most, sizeof *names);
    clef_status s = tensors && each && names
                        ? CLEF_OK
                        : clef__fail(err, CLEF_E_NOMEM, "training: no memory for a checkpoint");
    int32_t n_read = 0;
    const int32_t n = s ? 0 : list_arrays(t, tensors, each, names, &n_read);
    if (!s)
        s = t->share.n_ranks > 1 ? write_together(t, folder, tensors, each, n, keep, err)
                                 : write_checkpoint(t, folder, tensors, n, keep, err);
    free(tensors);
    free(each);
    free(names);
    return s;
}

static clef_status load_arrays(clef_model_trainer *t, const clef__checkpoint *c, clef_error *err)
{
    clef_status s = CLEF_OK;
    char name[CLEF_NAME_BYTES + 16];
    for (int32_t i = 0; i < clef_trainer_n_parameters(t->trainer) && !s; i++)
        for (int k = 0; k < N_KEPT && !s; k++) {
            const int64_t n = clef_trainer_parameter(t->trainer, i).n;
            const void *data;
            if (!array_name(t, i, kept[k], name))
                continue;
            s = clef__checkpoint_data(c, name, CLEF_F32, (uint64_t)n * sizeof(float), &data, err);
            if (!s)
                s = clef_trainer_set(t->trainer, i, kept[k], data, n, err);
        }
    return s;
}

/* The loss scale, which only f16 changes. */
static clef_status load_scale(clef_model_trainer *t, const clef__checkpoint *c, clef_error *err)
{
    const json_t *state = clef__checkpoint_head_of(c)->state, *scale = json_object_get(state, "loss_scale"),
                 *n = json_object_get(state, "updates_at_scale");
    if (t->opts.optimizer.compute != CLEF_F16)
        return CLEF_OK;
    if (!json_is_number(scale) || !json_is_integer(n))
        return clef__fail(err, CLEF_E_FORMAT, "%s: has no loss scale", clef__checkpoint_path(c));
    return clef_trainer_set_scale(
        t->trainer, (clef_train_scale){json_number_value(scale), (int64_t)json_integer_value(n)}, err);
}

clef_status clef_model_trainer_resume(clef_model_trainer *t, const char *folder,
                                      void (*note)(void *user, const char *text), void *user, clef_error *err)
{
    char options[OPTIONS_TEXT];
    clef__checkpoint *c = NULL;
    options_text(t, options);
    clef_status s = clef__checkpoint_newest(folder, t->fingerprint, options, note, user, &c, err);
    if (!s)
        s = load_arrays(t, c, err);
    if (!s)
        s = load_scale(t, c, err);
    if (!s)
        clef_trainer_set_step(t->trainer, (int64_t)clef__checkpoint_head_of(c)->step);
    clef__checkpoint_close(c);
    return s;
}

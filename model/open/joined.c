/* Joined weights (model/open/joined.h). */
#include "model/open/joined.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/file/tensor_index.h"
#include "model/open/arch.h"
#include "model/open/model.h"
#include "model/open/quantised.h"
#include "runtime/os/os.h"

enum { NAME_BYTES = 256, LARGE_BYTES = 2 << 20 };

/* What is before the number of a part of a stack. */
static const char *const stacks[] = {".experts.", ".altup_projections.", ".altup_unembed_projections."};

/* Where the number of the part is in its name; NULL: it is not one of a stack. */
static const char *part_number(const char *name)
{
    for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++) {
        const char *at = strstr(name, stacks[i]);
        if (at)
            return at + strlen(stacks[i]);
    }
    return NULL;
}

/* A joined tensor: by a rule of one or two parts, or (rule NULL) of several parts, one after the other. */
struct clef_joined {
    const clef_join_rule *rule;
    const clef_tensor_info **parts;
    size_t n_parts;
    void *memory;
    char name[NAME_BYTES];
};

/* ---- ways of putting together ---------------------------------------------------------------- */

static int columns_shape(const clef_tensor_info *of, const clef_tensor_info *with, int32_t step,
                         clef_tensor_info *out)
{
    (void)with;
    *out = (clef_tensor_info){
        .dtype = of->dtype, .rank = 3, .dims = {of->dims[0], of->dims[2] / step, of->dims[1]}};
    return of->rank == 3 && clef_dtype_block_elems(of->dtype) == 1 && of->dims[2] % step == 0;
}

static void columns_fill(const clef_tensor_info *of, const clef_tensor_info *with, int32_t first,
                         int32_t step, int64_t i, unsigned char *to)
{
    const int64_t K = of->dims[1], N = of->dims[2];
    const size_t size = (size_t)clef_dtype_block_bytes(of->dtype);
    const unsigned char *from = (const unsigned char *)of->data + (size_t)(i * K * N) * size;
    (void)with;
    for (int64_t n = first; n < N; n += step)
        for (int64_t k = 0; k < K; k++, to += size)
            memcpy(to, from + (size_t)(k * N + n) * size, size);
}

static int elements_shape(const clef_tensor_info *of, const clef_tensor_info *with, int32_t step,
                          clef_tensor_info *out)
{
    (void)with;
    *out = (clef_tensor_info){.dtype = of->dtype, .rank = 2, .dims = {of->dims[0], of->dims[1] / step}};
    return of->rank == 2 && clef_dtype_block_elems(of->dtype) == 1 && of->dims[1] % step == 0;
}

static void elements_fill(const clef_tensor_info *of, const clef_tensor_info *with, int32_t first,
                          int32_t step, int64_t i, unsigned char *to)
{
    const int64_t N = of->dims[1];
    const size_t size = (size_t)clef_dtype_block_bytes(of->dtype);
    const unsigned char *from = (const unsigned char *)of->data + (size_t)(i * N) * size;
    (void)with;
    for (int64_t n = first; n < N; n += step, to += size)
        memcpy(to, from + (size_t)n * size, size);
}

/* 1: rows are outputs; -1: rows are inputs; 0: neither. Files have rows of inputs where both fit. */
static int expert_order(const clef_tensor_info *gate_up, const clef_tensor_info *down)
{
    const int64_t *a = gate_up->dims, *b = down->dims;
    if (gate_up->rank != 3 || down->rank != 3 || a[0] != b[0] || gate_up->dtype != down->dtype ||
        clef_dtype_block_elems(gate_up->dtype) != 1)
        return 0;
    return a[1] == b[2] && a[2] == 2 * b[1] ? -1 : a[2] == b[1] && a[1] == 2 * b[2] ? 1 : 0;
}

/* Copies rows first .. first + n - 1 of matrix i of t; where rows are inputs, the same columns as rows. */
static void copy_outputs(const clef_tensor_info *t, int order, int64_t i, int64_t first, int64_t n,
                         unsigned char *to)
{
    const int64_t rows = t->dims[1], columns = t->dims[2];
    const size_t size = (size_t)clef_dtype_block_bytes(t->dtype);
    const unsigned char *from = (const unsigned char *)t->data + (size_t)(i * rows * columns) * size;
    if (order > 0)
        memcpy(to, from + (size_t)(first * columns) * size, (size_t)(n * columns) * size);
    for (int64_t r = first; order < 0 && r < first + n; r++)
        for (int64_t k = 0; k < rows; k++, to += size)
            memcpy(to, from + (size_t)(k * columns + r) * size, size);
}

static int half_shape(const clef_tensor_info *of, const clef_tensor_info *with, int32_t step,
                      clef_tensor_info *out)
{
    const int order = expert_order(of, with);
    const int64_t outputs = of->dims[order < 0 ? 2 : 1], inputs = of->dims[order < 0 ? 1 : 2];
    *out = (clef_tensor_info){.dtype = of->dtype, .rank = 3, .dims = {of->dims[0], outputs / step, inputs}};
    return order != 0;
}

static void half_fill(const clef_tensor_info *of, const clef_tensor_info *with, int32_t first, int32_t step,
                      int64_t i, unsigned char *to)
{
    const int order = expert_order(of, with);
    const int64_t n = of->dims[order < 0 ? 2 : 1] / step;
    copy_outputs(of, order, i, first * n, n, to);
}

static int down_shape(const clef_tensor_info *of, const clef_tensor_info *with, int32_t step,
                      clef_tensor_info *out)
{
    const int order = expert_order(with, of);
    (void)step;
    *out =
        (clef_tensor_info){.dtype = of->dtype,
                           .rank = 3,
                           .dims = {of->dims[0], of->dims[order < 0 ? 2 : 1], of->dims[order < 0 ? 1 : 2]}};
    return order != 0;
}

static void down_fill(const clef_tensor_info *of, const clef_tensor_info *with, int32_t first, int32_t step,
                      int64_t i, unsigned char *to)
{
    const int order = expert_order(with, of);
    (void)first;
    (void)step;
    copy_outputs(of, order, i, 0, of->dims[order < 0 ? 2 : 1], to);
}

enum { MXFP4_ELEMS = 32, MXFP4_CODES = MXFP4_ELEMS / 2 };

static int mxfp4_shape(const clef_tensor_info *of, const clef_tensor_info *with, int32_t step,
                       clef_tensor_info *out)
{
    *out = (clef_tensor_info){
        .dtype = CLEF_MXFP4, .rank = 3, .dims = {of->dims[0], of->dims[1] / step, of->dims[2] * MXFP4_ELEMS}};
    return of->rank == 4 && with->rank == 3 && of->dtype == CLEF_I8 && with->dtype == CLEF_I8 &&
           of->dims[3] == MXFP4_CODES && of->dims[1] % step == 0 &&
           memcmp(of->dims, with->dims, 3 * sizeof *of->dims) == 0;
}

static void mxfp4_fill(const clef_tensor_info *of, const clef_tensor_info *with, int32_t first, int32_t step,
                       int64_t i, unsigned char *to)
{
    const int64_t N = of->dims[1], n_blocks = of->dims[2];
    for (int64_t n = first; n < N; n += step)
        for (int64_t b = 0; b < n_blocks; b++, to += 1 + MXFP4_CODES) {
            const size_t block = (size_t)((i * N + n) * n_blocks + b);
            const unsigned char *from = (const unsigned char *)of->data + block * MXFP4_CODES;
            to[0] = ((const unsigned char *)with->data)[block];
            for (int j = 0; j < MXFP4_CODES; j++) {
                const int shift = j % 2 * 4, low = from[j / 2] >> shift & 15,
                          high = from[MXFP4_CODES / 2 + j / 2] >> shift & 15;
                to[1 + j] = (unsigned char)(low | high << 4);
            }
        }
}

static int rows_shape(const clef_tensor_info *of, const clef_tensor_info *with, int32_t step,
                      clef_tensor_info *out)
{
    (void)with;
    *out = (clef_tensor_info){.dtype = of->dtype, .rank = 2, .dims = {of->dims[0] / step, of->dims[1]}};
    return of->rank == 2 && clef_dtype_block_elems(of->dtype) == 1 && of->dims[0] % step == 0;
}

static void rows_fill(const clef_tensor_info *of, const clef_tensor_info *with, int32_t first, int32_t step,
                      int64_t i, unsigned char *to)
{
    const size_t n = (size_t)(of->dims[1] * clef_dtype_block_bytes(of->dtype));
    (void)with;
    memcpy(to, (const unsigned char *)of->data + (size_t)(first * (of->dims[0] / step) + i) * n, n);
}

enum { SHARES = 4 };

static int shares_shape(const clef_tensor_info *of, const clef_tensor_info *with, int32_t step,
                        clef_tensor_info *out)
{
    return rows_shape(of, with, step, out) && out->dims[0] % SHARES == 0;
}

static void shares_fill(const clef_tensor_info *of, const clef_tensor_info *with, int32_t first, int32_t step,
                        int64_t i, unsigned char *to)
{
    const size_t n = (size_t)(of->dims[1] * clef_dtype_block_bytes(of->dtype));
    const int64_t each = of->dims[0] / step / SHARES, share = i / each;
    (void)with;
    memcpy(to, (const unsigned char *)of->data + (size_t)((share * step + first) * each + i % each) * n, n);
}

static int rates_shape(const clef_tensor_info *of, const clef_tensor_info *with, int32_t step,
                       clef_tensor_info *out)
{
    (void)with;
    (void)step;
    *out = (clef_tensor_info){.dtype = CLEF_F32, .rank = of->rank, .dims = {of->dims[0], of->dims[1]}};
    return (of->rank == 1 || of->rank == 2) && clef_dtype_block_elems(of->dtype) == 1;
}

static void rates_fill(const clef_tensor_info *of, const clef_tensor_info *with, int32_t first, int32_t step,
                       int64_t i, unsigned char *to)
{
    const size_t n = of->rank == 2 ? (size_t)of->dims[1] : 1,
                 size = (size_t)clef_dtype_block_bytes(of->dtype);
    (void)with;
    (void)first;
    (void)step;
    for (size_t k = 0; k < n; k++) {
        float x;
        clef_dtype_decode(of->dtype, (const unsigned char *)of->data + ((size_t)i * n + k) * size, 1, &x);
        x = (float)-exp((double)x);
        memcpy(to + k * sizeof x, &x, sizeof x);
    }
}

static int latent_shape(const clef_tensor_info *of, const clef_tensor_info *with, int32_t step,
                        clef_tensor_info *out)
{
    const int is_wide = (of->dtype == CLEF_F32 || of->dtype == CLEF_BF16) &&
                        (with->dtype == CLEF_F32 || with->dtype == CLEF_BF16);
    (void)step;
    *out = (clef_tensor_info){.dtype = is_wide ? CLEF_F32 : CLEF_F16,
                              .rank = 2,
                              .dims = {of->dims[0] * (of->dims[2] + with->dims[1]), of->dims[1]}};
    return of->rank == 3 && with->rank == 3 && of->dims[0] == with->dims[0] && of->dims[1] == with->dims[2] &&
           of->dims[0] <= CLEF_MAX_HEADS && of->dims[1] <= CLEF_MAX_HEAD_DIM &&
           of->dims[2] <= CLEF_MAX_HEAD_DIM && with->dims[1] <= CLEF_MAX_HEAD_DIM;
}

/* Decodes row `row` of a matrix with rows of n. */
static void decode_row(const clef_tensor_info *t, int64_t row, int64_t n, float *x)
{
    const int64_t elems = clef_dtype_block_elems(t->dtype), bytes = clef_dtype_block_bytes(t->dtype);
    clef_dtype_decode(t->dtype, (const unsigned char *)t->data + row * (n / elems * bytes), (size_t)n, x);
}

static void latent_fill(const clef_tensor_info *of, const clef_tensor_info *with, int32_t first, int32_t step,
                        int64_t i, unsigned char *to)
{
    const int64_t R = of->dims[1], N = of->dims[2], M = with->dims[1];
    clef_tensor_info info;
    float row[CLEF_MAX_HEAD_DIM];
    (void)first;
    latent_shape(of, with, step, &info);
    const size_t size = (size_t)clef_dtype_block_bytes(info.dtype);
    for (int64_t r = 0; r < R; r++) {
        decode_row(of, i * R + r, N, row);
        for (int64_t n = 0; n < N; n++)
            clef_dtype_encode(info.dtype, &row[n], 1, to + (size_t)(n * R + r) * size);
    }
    for (int64_t m = 0; m < M; m++) {
        decode_row(with, i * M + m, R, row);
        clef_dtype_encode(info.dtype, row, (size_t)R, to + (size_t)((N + m) * R) * size);
    }
}

static int taps_shape(const clef_tensor_info *of, const clef_tensor_info *with, int32_t step,
                      clef_tensor_info *out)
{
    (void)with;
    (void)step;
    *out = (clef_tensor_info){.dtype = CLEF_F32, .rank = 3, .dims = {of->dims[0], of->dims[2], of->dims[1]}};
    return of->rank == 3 && clef_dtype_block_elems(of->dtype) == 1;
}

static float elem_of(const clef_tensor_info *t, int64_t i)
{
    float x;
    clef_dtype_decode(t->dtype, (const unsigned char *)t->data + i * clef_dtype_block_bytes(t->dtype), 1, &x);
    return x;
}

static void taps_fill(const clef_tensor_info *of, const clef_tensor_info *with, int32_t first, int32_t step,
                      int64_t i, unsigned char *to)
{
    const int64_t K = of->dims[1], T = of->dims[2];
    (void)with;
    (void)first;
    (void)step;
    for (int64_t t = 0; t < T; t++)
        for (int64_t k = 0; k < K; k++, to += sizeof(float)) {
            const float x = elem_of(of, (i * K + k) * T + t);
            memcpy(to, &x, sizeof x);
        }
}

static int normed_taps_shape(const clef_tensor_info *of, const clef_tensor_info *with, int32_t step,
                             clef_tensor_info *out)
{
    const int fits = taps_shape(of, with, step, out);
    *out =
        (clef_tensor_info){.dtype = CLEF_F32, .rank = 3, .dims = {1, of->dims[0], of->dims[1] * of->dims[2]}};
    return fits && clef_dtype_block_elems(with->dtype) == 1 && with->rank == 3 && with->dims[0] == 1 &&
           with->dims[1] == 1 && with->dims[2] == of->dims[2];
}

static void normed_taps_fill(const clef_tensor_info *of, const clef_tensor_info *with, int32_t first,
                             int32_t step, int64_t i, unsigned char *to)
{
    const int64_t N = of->dims[0], K = of->dims[1], T = of->dims[2];
    float *out = (float *)(void *)to;
    (void)i;
    for (int64_t n = 0; n < N; n++)
        taps_fill(of, NULL, first, step, n, to + (size_t)(n * K * T) * sizeof *out);
    for (int64_t t = 0; t < T; t++) {
        double sum = 0;
        for (int64_t j = 0; j < N * K; j++)
            sum += pow(elem_of(of, j * T + t), 2);
        const double scale = elem_of(with, t) / sqrt(sum);
        for (int64_t j = 0; j < N * K; j++)
            out[(j / K * T + t) * K + j % K] *= (float)scale;
    }
}

const clef_join clef__join_taps = {taps_shape, taps_fill, 0};
const clef_join clef__join_normed_taps = {normed_taps_shape, normed_taps_fill, 0};
const clef_join clef__join_half = {half_shape, half_fill, 0};
const clef_join clef__join_shares = {shares_shape, shares_fill, 0};
const clef_join clef__join_rows = {rows_shape, rows_fill, 0};
const clef_join clef__join_down = {down_shape, down_fill, 0};
const clef_join clef__join_rates = {rates_shape, rates_fill, 0};
const clef_join clef__join_columns = {columns_shape, columns_fill, 0};
const clef_join clef__join_elements = {elements_shape, elements_fill, 0};
const clef_join clef__join_mxfp4 = {mxfp4_shape, mxfp4_fill, 0};
const clef_join clef__join_latent = {latent_shape, latent_fill, 1};

/* ---- finding them ---------------------------------------------------------------------------- */

static clef_status add_joined(clef_model *m, const clef_joined *like, clef_tensor_info info, clef_error *err)
{
    const size_t n = m->n_joined;
    const int64_t elems = clef_dtype_block_elems(info.dtype), bytes = clef_dtype_block_bytes(info.dtype);
    clef_joined *grown = realloc(m->joined, (n + 1) * sizeof *grown);
    m->joined = grown ? grown : m->joined;
    clef_tensor_info *infos = grown ? realloc(m->joined_infos, (n + 1) * sizeof *infos) : NULL;
    m->joined_infos = infos ? infos : m->joined_infos;
    int64_t count;
    if (!infos)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for the list of its tensors", m->path);
    if (!clef__dims_product(info.dims, info.rank, &count) || count / elems > INT64_MAX / bytes)
        return clef__fail(err, CLEF_E_LIMIT, "%s: tensor %s would have too many bytes", m->path, like->name);
    info.n_bytes = (uint64_t)(count / elems * bytes);
    m->joined[n] = *like;
    infos[n] = info;
    m->n_joined++;
    return CLEF_OK;
}

static const clef_tensor_info *find_stored(const clef_model *m, const char *name)
{
    return clef__tensor_lookup(m->by_name, (size_t)m->n_tensors, name);
}

/* Part i of a stack whose first part is `first`: the same name with another number. */
static const clef_tensor_info *part_of(const clef_model *m, const char *first, size_t i)
{
    char name[NAME_BYTES];
    const char *at = part_number(first);
    const int n = snprintf(name, sizeof name, "%.*s%zu%s", (int)(at - first), first, i, at + 1);
    return n > 0 && (size_t)n < sizeof name ? find_stored(m, name) : NULL;
}

static clef_status add_stack(clef_model *m, const clef_tensor_info *first, clef_error *err)
{
    const char *at = part_number(first->name);
    clef_joined j = {.rule = NULL};
    clef_tensor_info info = {.dtype = first->dtype, .rank = first->rank + 1};
    if (first->rank >= CLEF_MAX_DIMS)
        return clef__fail(err, CLEF_E_SHAPE,
                          "%s: tensor %s has %" PRId32 " dims, expected at most %d for an expert's", m->path,
                          first->name, first->rank, CLEF_MAX_DIMS - 1);
    if ((size_t)snprintf(j.name, sizeof j.name, "%.*s*%s", (int)(at - first->name), first->name, at + 1) >=
        sizeof j.name)
        return clef__fail(err, CLEF_E_LIMIT, "%s: the name of tensor %.80s... is too long", m->path,
                          first->name);
    while (part_of(m, first->name, j.n_parts))
        j.n_parts++;
    j.parts = malloc((j.n_parts + 1) * sizeof *j.parts);
    if (!j.parts)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for the list of its tensors", m->path);
    info.dims[0] = (int64_t)j.n_parts;
    memcpy(info.dims + 1, first->dims, (size_t)first->rank * sizeof *info.dims);
    clef_status status = CLEF_OK;
    for (size_t i = 0; i < j.n_parts && status == CLEF_OK; i++) {
        const clef_tensor_info *p = j.parts[i] = part_of(m, first->name, i);
        if (p->dtype != first->dtype || p->rank != first->rank ||
            !clef__packed_of(m, p) != !clef__packed_of(m, first) ||
            memcmp(p->dims, first->dims, (size_t)p->rank * sizeof *p->dims) != 0)
            status = clef__fail(err, CLEF_E_SHAPE, "%s: tensor %s differs from %s in shape or dtype", m->path,
                                p->name, first->name);
    }
    if (status == CLEF_OK)
        status = add_joined(m, &j, info, err);
    if (status != CLEF_OK)
        free(j.parts);
    return status;
}

static clef_status add_by_rule(clef_model *m, const clef_join_rule *rule, const clef_tensor_info *of,
                               clef_error *err)
{
    const int begin = (int)(strlen(of->name) - strlen(rule->of));
    char beside[NAME_BYTES];
    clef_joined j = {.rule = rule, .n_parts = 1};
    clef_tensor_info info;
    if (snprintf(j.name, sizeof j.name, "%.*s%s", begin, of->name, rule->to) >= NAME_BYTES)
        return clef__fail(err, CLEF_E_LIMIT, "%s: the name of tensor %.80s... is too long", m->path,
                          of->name);
    const clef_tensor_info *with = NULL;
    if (rule->with) {
        snprintf(beside, sizeof beside, "%.*s%s", begin, of->name, rule->with);
        with = find_stored(m, beside);
        if (!with)
            return clef__fail(err, CLEF_E_NOT_FOUND, "%s: the weight %s is missing", m->path, beside);
        j.n_parts = 2;
    }
    if (clef__packed_of(m, of) || (with && clef__packed_of(m, with)))
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: tensor %s is quantised, of which %s cannot be made",
                          m->path, of->name, j.name);
    if (!rule->join->shape(of, with, rule->step, &info))
        return clef__fail(err, CLEF_E_SHAPE,
                          "%s: tensor %s%s%s has a shape or dtype of which %s cannot be made", m->path,
                          of->name, with ? " with " : "", with ? with->name : "", j.name);
    j.parts = malloc(2 * sizeof *j.parts);
    if (!j.parts)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for the list of its tensors", m->path);
    j.parts[0] = of;
    j.parts[1] = with;
    const clef_status status = add_joined(m, &j, info, err);
    if (status != CLEF_OK)
        free(j.parts);
    return status;
}

static int ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

clef_status clef__joined_find(clef_model *m, clef_error *err)
{
    const clef_arch *arch = clef__arch_find(m->hparams.arch, m->is_gguf);
    clef_status status = CLEF_OK;
    for (int32_t i = 0; i < m->n_tensors && status == CLEF_OK; i++) {
        const clef_tensor_info *t = &m->tensors[i];
        const char *at = m->is_gguf ? NULL : part_number(t->name);
        if (at && strncmp(at, "0.", 2) == 0)
            status = add_stack(m, t, err);
        for (const clef_join_rule *r = arch->joins; r && r->join && status == CLEF_OK; r++)
            if (ends_with(t->name, r->of))
                status = add_by_rule(m, r, t, err);
    }
    for (size_t i = 0; i < m->n_joined; i++)
        m->joined_infos[i].name = m->joined[i].name;
    if (status != CLEF_OK || m->n_joined == 0)
        return status;
    const clef_tensor_info *twice = NULL;
    m->joined_by_name = clef__tensor_index(m->joined_infos, m->n_joined, &twice);
    if (!m->joined_by_name)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for the list of its tensors", m->path);
    return twice ? clef__fail(err, CLEF_E_FORMAT, "%s: tensor %s can be made of several tensors of the file",
                              m->path, twice->name)
                 : CLEF_OK;
}

/* ---- use ------------------------------------------------------------------------------------- */

const clef_tensor_info *clef__joined_lookup(const clef_model *m, const char *name)
{
    return m->n_joined ? clef__tensor_lookup(m->joined_by_name, m->n_joined, name) : NULL;
}

static clef_joined *joined_of(const clef_model *m, const clef_tensor_info *t)
{
    for (size_t i = 0; i < m->n_joined; i++)
        if (&m->joined_infos[i] == t)
            return &m->joined[i];
    return NULL;
}

void clef__joined_parts(const clef_model *m, const clef_tensor_info *t,
                        void (*part)(void *user, const clef_tensor_info *part), void *user)
{
    for (size_t i = 0; i < m->n_joined; i++)
        for (size_t k = 0; &m->joined_infos[i] == t && k < m->joined[i].n_parts; k++)
            part(user, m->joined[i].parts[k]);
}

const clef_tensor_info *clef__joined_part(const clef_model *m, const clef_tensor_info *t, int64_t i)
{
    const clef_joined *j = joined_of(m, t);
    return j && !j->rule ? j->parts[i] : NULL;
}

static void free_data(clef_joined *j, size_t n_bytes)
{
    if (n_bytes >= LARGE_BYTES)
        clef__os_free_large(j->memory, n_bytes);
    else
        free(j->memory);
    j->memory = NULL;
}

typedef struct filling {
    const clef_joined *j;
    size_t bytes; /* of a matrix */
} filling;

static void fill_joined(void *user, int32_t i)
{
    const filling *f = user;
    const clef_joined *j = f->j;
    unsigned char *to = (unsigned char *)j->memory + (size_t)i * f->bytes;
    if (j->rule)
        j->rule->join->fill(j->parts[0], j->parts[1], j->rule->first, j->rule->step, i, to);
    else
        memcpy(to, j->parts[i]->data, f->bytes);
}

/* Writes a stack of quantised matrices, each by all threads. Returns 0 when out of memory. */
static int fill_packed(const clef_model *m, const clef_joined *j, size_t bytes)
{
    int done = 1;
    for (size_t i = 0; i < j->n_parts && done; i++)
        done = clef__packed_write(clef__packed_of(m, j->parts[i]), (unsigned char *)j->memory + i * bytes);
    return done;
}

const void *clef__joined_data(clef_model *m, const clef_tensor_info *t)
{
    clef_joined *j = joined_of(m, t);
    const size_t n = (size_t)t->n_bytes;
    if (!j || j->memory)
        return j ? j->memory : NULL;
    j->memory = n >= LARGE_BYTES ? clef__os_alloc_large(n) : malloc(n + 1);
    if (!j->memory)
        return NULL;
    const int64_t n_pieces = j->rule && j->rule->join->by_parts ? j->parts[0]->dims[0] : t->dims[0];
    if (n > 0 && !j->rule && clef__packed_of(m, j->parts[0])) {
        if (!fill_packed(m, j, n / (size_t)n_pieces))
            free_data(j, n);
        return j->memory;
    }
    if (n > 0)
        clef__os_parallel((int32_t)n_pieces, fill_joined, &(filling){j, n / (size_t)n_pieces});
    for (size_t i = 0; i < j->n_parts; i++) /* the copy makes the file's pages unnecessary */
        clef_model_release(m, j->parts[i]->name);
    return j->memory;
}

void clef__joined_drop(clef_model *m, const clef_tensor_info *t)
{
    clef_joined *j = joined_of(m, t);
    if (j)
        free_data(j, (size_t)t->n_bytes);
}

void clef__joined_finish(clef_model *m)
{
    for (size_t i = 0; i < m->n_joined; i++) {
        free_data(&m->joined[i], (size_t)m->joined_infos[i].n_bytes);
        free(m->joined[i].parts);
    }
    free(m->joined_by_name);
    free(m->joined_infos);
    free(m->joined);
}

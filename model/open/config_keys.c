/* Hyperparameters under GGUF's keys (model/open/gguf_keys.def), read and written by one table; and those that
 * these keys cannot express, under clef's own ("libclef.activation"), which are read after all others.
 * Readers that do not know clef's keys use their knowledge of the family. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "model/open/arch.h"
#include "model/open/config_keys.h"

typedef enum number { INT, FLAG, FLOAT, DOUBLE } number;

typedef struct key_row {
    const char *name;
    number type;
    size_t offset;
    double min, max;
    clef_role role; /* CLEF_N_ROLES: every family has the key */
} key_row;

static const double most = 1e12;

#define AT(field) offsetof(clef_hparams, field)
#define ROPE_AT(field) offsetof(clef_rope_params, field)

/* ---- GGUF's keys ------------------------------------------------------------------------------ */

enum { CLEF_W_ALL = CLEF_N_ROLES };

#define KEY(name, type, field, min, max, role) {name, type, AT(field), min, max, (clef_role)CLEF_W_##role},
#define OLD(name, now)
#define NEUTRAL(name, a, b)
#define HARMLESS(name)
static const key_row standard[] = {
#include "model/open/gguf_keys.def"
    {NULL, INT, 0, 0, 0, CLEF_N_ROLES},
};
#undef KEY
#undef OLD
#define KEY(name, type, field, min, max, role)
#define OLD(name, now) {name, now},
static const struct {
    const char *old, *now;
} old_names[] = {
#include "model/open/gguf_keys.def"
};
#undef OLD
#undef NEUTRAL
#define OLD(name, now)
#define NEUTRAL(name, a, b) {name, {a, b}},
static const struct {
    const char *name;
    double is[2];
} neutral[] = {
#include "model/open/gguf_keys.def"
};
#undef NEUTRAL
#undef HARMLESS
#define NEUTRAL(name, a, b)
#define HARMLESS(name) name,
static const char *const harmless[] = {
#include "model/open/gguf_keys.def"
};
#undef KEY
#undef OLD
#undef NEUTRAL
#undef HARMLESS

const char *clef__key_old_name(const char *name)
{
    for (size_t i = 0; i < sizeof old_names / sizeof *old_names; i++)
        if (strcmp(old_names[i].now, name) == 0)
            return old_names[i].old;
    return NULL;
}

static double field_of(const key_row *row, const void *in)
{
    const char *at = (const char *)in + row->offset;
    return row->type == DOUBLE  ? *(const double *)(const void *)at
           : row->type == FLOAT ? (double)*(const float *)(const void *)at
                                : *(const int32_t *)(const void *)at;
}

/* Sets the row's field if the file has the key. */
static void read_row(clef_gguf_keys *k, const key_row *row, const char *name, void *to)
{
    char *at = (char *)to + row->offset;
    if (!clef__key_has(k, name))
        return;
    if (row->type == DOUBLE)
        *(double *)(void *)at = clef__key_float(k, name, row->min, row->max, 0);
    else if (row->type == FLOAT)
        *(float *)(void *)at = (float)clef__key_float(k, name, row->min, row->max, 0);
    else
        *(int32_t *)(void *)at = clef__key_int(k, name, (int32_t)row->min, (int32_t)row->max, 0);
}

static int is_for(const key_row *row, const clef_arch *arch)
{
    return row->role == CLEF_N_ROLES || clef__weight_in_gguf(&arch->weights, row->role);
}

/* Layers with a memory have no heads, and some no feed-forward. */
static int may_be_none(const key_row *row, const clef_arch *arch)
{
    return (row->offset == AT(n_heads) || row->offset == AT(n_kv_heads) || row->offset == AT(d_ff)) &&
           (arch->gguf_varied || clef__weight_in_gguf(&arch->weights, CLEF_W_SCAN_IN));
}

void clef__config_read_standard(clef_gguf_keys *k, const clef_arch *arch, clef_hparams *hp)
{
    for (const key_row *row = standard; row->name; row++) {
        key_row own = *row;
        if (may_be_none(row, arch))
            own.min = 0;
        if (is_for(row, arch))
            read_row(k, &own, row->name, hp);
    }
}

void clef__config_put_standard(clef_gguf_writer *w, const char *prefix, const clef_arch *arch,
                               const clef_hparams *hp)
{
    for (const key_row *row = standard; row->name; row++) {
        const double x = field_of(row, hp);
        char name[96];
        if (!is_for(row, arch) || (x == 0 && (row->min > 0 || row->type != INT || row->role == CLEF_N_ROLES)))
            continue; /* 0: the family does not use it */
        snprintf(name, sizeof name, "%s.%s", prefix, row->name);
        if (row->type == INT)
            clef__gguf_put_u32(w, name, (uint32_t)x);
        else if (row->type == FLAG)
            clef__gguf_put_bool(w, name, x != 0);
        else
            clef__gguf_put_f32(w, name, (float)x);
    }
}

/* ---- keys that nothing read ------------------------------------------------------------------- */

static int is_harmless(const char *name)
{
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        const size_t n = strlen(harmless[i]);
        if (harmless[i][n - 1] == '.' ? strncmp(name, harmless[i], n) == 0 : strcmp(name, harmless[i]) == 0)
            return 1;
    }
    return 0;
}

/* The name behind the architecture's prefix of a key that nothing read, or NULL. */
static const char *unread_name(const clef_gguf *g, const char *arch, uint64_t i, char out[96])
{
    const clef_gguf_string *key = &g->entries[i].key;
    const size_t n = strlen(arch);
    if (g->is_read[i] || key->n_bytes <= n + 1 || key->n_bytes - n - 1 >= 96 ||
        memcmp(key->text, arch, n) != 0 || key->text[n] != '.')
        return NULL;
    memcpy(out, key->text + n + 1, key->n_bytes - n - 1);
    out[key->n_bytes - n - 1] = 0;
    return out;
}

static int asks_for_nothing(const clef_gguf_entry *e, const double is[2])
{
    for (uint64_t i = 0; i < e->n; i++) {
        const double x = clef__gguf_item_float(e, i);
        if (e->type == CLEF_GGUF_STRING || (x != is[0] && x != is[1]))
            return 0;
    }
    return 1;
}

/* 1 if `name` is in the list of neutral values; *asks: the entry has another value. */
static int find_neutral(const char *name, const clef_gguf_entry *e, int *asks)
{
    *asks = 0;
    for (size_t i = 0; i < sizeof neutral / sizeof *neutral; i++)
        if (strcmp(neutral[i].name, name) == 0) {
            *asks = !asks_for_nothing(e, neutral[i].is);
            return 1;
        }
    return 0;
}

void clef__gguf_check_unread(clef_gguf_keys *k)
{
    char name[96];
    int asks;
    for (uint64_t i = 0; k->status == CLEF_OK && i < k->gguf->n_entries; i++) {
        const clef_gguf_entry *e = &k->gguf->entries[i];
        if (unread_name(k->gguf, k->arch, i, name) && find_neutral(name, e, &asks) && asks)
            k->status =
                clef__fail(k->err, CLEF_E_UNSUPPORTED, "%s: key %s.%s is %g, which is not supported for %s",
                           k->file, k->arch, name, clef__gguf_item_float(e, 0), k->arch);
    }
}

void clef__gguf_unread(const clef_gguf *gguf, const char *arch, void (*entry)(void *user, const char *name),
                       void *user)
{
    char name[96], full[160];
    int asks;
    for (uint64_t i = 0; i < gguf->n_entries; i++)
        if (unread_name(gguf, arch, i, name) && !is_harmless(name) &&
            !find_neutral(name, &gguf->entries[i], &asks)) {
            snprintf(full, sizeof full, "%s.%s", arch, name);
            entry(user, full);
        }
}

/* ---- clef's own keys -------------------------------------------------------------------------- */

static const key_row keys[] = {
    {"activation", INT, AT(activation), CLEF_SILU, CLEF_RELU2, CLEF_N_ROLES},
    {"parallel_residual", INT, AT(parallel_residual), 0, 1, CLEF_N_ROLES},
    {"tied_embeddings", INT, AT(tied_embeddings), 0, 1, CLEF_N_ROLES},
    {"d_embed", INT, AT(d_embed), 0, CLEF_MAX_WIDTH, CLEF_N_ROLES},
    {"position_offset", INT, AT(position_offset), 0, CLEF_MAX_CONTEXT, CLEF_N_ROLES},
    {"n_token_types", INT, AT(n_token_types), 0, CLEF_MAX_WIDTH, CLEF_N_ROLES},
    {"n_decoder_layers", INT, AT(n_decoder_layers), 0, CLEF_MAX_LAYERS, CLEF_N_ROLES},
    {"n_mels", INT, AT(n_mels), 0, CLEF_MAX_HEADS, CLEF_N_ROLES},
    {"n_source", INT, AT(n_source), 0, CLEF_MAX_WIDTH, CLEF_N_ROLES},
    {"n_buckets", INT, AT(n_buckets), 0, CLEF_MAX_WIDTH, CLEF_N_ROLES},
    {"disentangled", INT, AT(disentangled), 0, 15, CLEF_N_ROLES},
    {"max_distance", INT, AT(max_distance), 0, CLEF_MAX_CONTEXT, CLEF_N_ROLES},
    {"gated", INT, AT(gated), 0, 1, CLEF_N_ROLES},
    {"decoder_start", INT, AT(decoder_start), -1, CLEF_MAX_VOCAB, CLEF_N_ROLES},
    {"forced_bos", INT, AT(forced_bos), -1, CLEF_MAX_VOCAB, CLEF_N_ROLES},
    {"pad", INT, AT(pad), -1, CLEF_MAX_VOCAB, CLEF_N_ROLES},
    {"sliding_window", INT, AT(sliding_window), 0, CLEF_MAX_CONTEXT, CLEF_N_ROLES},
    {"router", INT, AT(router), CLEF_ROUTER_ALL, CLEF_ROUTER_NEAR, CLEF_N_ROLES},
    {"n_expert_groups", INT, AT(n_expert_groups), 0, CLEF_MAX_EXPERTS, CLEF_N_ROLES},
    {"n_groups_used", INT, AT(n_groups_used), 0, CLEF_MAX_EXPERTS_USED, CLEF_N_ROLES},
    {"attention_beta", FLOAT, AT(attention_beta), 0, most, CLEF_N_ROLES},
    {"attention_beta_first", INT, AT(attention_beta_first), 0, CLEF_MAX_CONTEXT, CLEF_N_ROLES},
    {"attention_beta_length", INT, AT(attention_beta_length), 0, CLEF_MAX_CONTEXT, CLEF_N_ROLES},
    {"clip_qkv", FLOAT, AT(clip_qkv), 0, most, CLEF_N_ROLES},
    {"d_ff_shared", INT, AT(d_ff_shared), 0, CLEF_MAX_WIDTH, CLEF_N_ROLES},
    {"full_head_dim", INT, AT(full_head_dim), 0, CLEF_MAX_HEAD_DIM, CLEF_N_ROLES},
    {"full_n_kv_heads", INT, AT(full_n_kv_heads), 0, CLEF_MAX_HEADS, CLEF_N_ROLES},
    {"head_dim", INT, AT(head_dim), 1, CLEF_MAX_HEAD_DIM, CLEF_N_ROLES},
    {"n_kv_heads", INT, AT(n_kv_heads), 1, CLEF_MAX_HEADS, CLEF_N_ROLES},
    {"double_shared_ff", INT, AT(double_shared_ff), 0, 1, CLEF_N_ROLES},
    {"norm_eps", FLOAT, AT(norm_eps), 0, 1, CLEF_N_ROLES},
    {"embed_scale", FLOAT, AT(embed_scale), 0, most, CLEF_N_ROLES},
    {"residual_scale", FLOAT, AT(residual_scale), 0, most, CLEF_N_ROLES},
    {"block_scale_0", FLOAT, AT(block_scales[0]), 0, most, CLEF_N_ROLES},
    {"block_scale_1", FLOAT, AT(block_scales[1]), 0, most, CLEF_N_ROLES},
    {"block_scale_2", FLOAT, AT(block_scales[2]), 0, most, CLEF_N_ROLES},
    {"block_scale_3", FLOAT, AT(block_scales[3]), 0, most, CLEF_N_ROLES},
    {"block_scale_4", FLOAT, AT(block_scales[4]), 0, most, CLEF_N_ROLES},
    {"block_scale_5", FLOAT, AT(block_scales[5]), 0, most, CLEF_N_ROLES},
    {"value_scale", FLOAT, AT(value_scale), 0, most, CLEF_N_ROLES},
    {"v_head_dim", INT, AT(v_head_dim), 0, CLEF_MAX_HEAD_DIM, CLEF_N_ROLES},
    {"logit_scale", FLOAT, AT(logit_scale), 0, most, CLEF_N_ROLES},
    {"attention_scale", FLOAT, AT(attention_scale), 0, most, CLEF_N_ROLES},
    {"attention_softcap", FLOAT, AT(attention_softcap), 0, most, CLEF_N_ROLES},
    {"logit_softcap", FLOAT, AT(logit_softcap), 0, most, CLEF_N_ROLES},
    {"expert_scale", FLOAT, AT(expert_scale), 0, most, CLEF_N_ROLES},
    {"glu_alpha", FLOAT, AT(glu_alpha), 0, most, CLEF_N_ROLES},
    {"scan_min", FLOAT, AT(scan_min), 0, most, CLEF_N_ROLES},
    {"scan_max", FLOAT, AT(scan_max), 0, most, CLEF_N_ROLES},
    {"scan_norm_eps", FLOAT, AT(scan_norm_eps), 0, 1, CLEF_N_ROLES},
    {"scan_norm_first", INT, AT(scan_norm_first), 0, 1, CLEF_N_ROLES},
    {"router_noise", FLOAT, AT(router_noise), 0, 1, CLEF_N_ROLES},
    {"expert_inputs", INT, AT(expert_inputs), 0, 1, CLEF_N_ROLES},
    {"beta_without_rope", INT, AT(beta_without_rope), 0, 1, CLEF_N_ROLES},
    {"unit_qk", INT, AT(unit_qk), 0, 1, CLEF_N_ROLES},
    {"has_chunks", INT, AT(has_chunks), 0, 1, CLEF_N_ROLES},
    {"altup_scaled", INT, AT(altup_scaled), 0, 1, CLEF_N_ROLES},
    {"glu_limit", FLOAT, AT(glu_limit), 0, most, CLEF_N_ROLES},
    {NULL, INT, 0, 0, 0, CLEF_N_ROLES},
};

static const key_row rope_keys[] = {
    {"dims", INT, ROPE_AT(dims), 0, CLEF_MAX_HEAD_DIM, CLEF_N_ROLES},
    {"turning", INT, ROPE_AT(n_rotated_pairs), 0, CLEF_MAX_HEAD_DIM, CLEF_N_ROLES},
    {"type", INT, ROPE_AT(type), CLEF_ROPE_DEFAULT, CLEF_ROPE_PROPORTIONAL, CLEF_N_ROLES},
    {"theta", DOUBLE, ROPE_AT(theta), 0, most, CLEF_N_ROLES},
    {"factor", DOUBLE, ROPE_AT(factor), 0, most, CLEF_N_ROLES},
    {"low_freq_factor", DOUBLE, ROPE_AT(low_freq_factor), 0, most, CLEF_N_ROLES},
    {"high_freq_factor", DOUBLE, ROPE_AT(high_freq_factor), 0, most, CLEF_N_ROLES},
    {"beta_fast", DOUBLE, ROPE_AT(beta_fast), 0, most, CLEF_N_ROLES},
    {"beta_slow", DOUBLE, ROPE_AT(beta_slow), 0, most, CLEF_N_ROLES},
    {"mscale", DOUBLE, ROPE_AT(mscale), 0, most, CLEF_N_ROLES},
    {"mscale_all_dim", DOUBLE, ROPE_AT(mscale_all_dim), 0, most, CLEF_N_ROLES},
    {"truncate", INT, ROPE_AT(truncate), 0, 1, CLEF_N_ROLES},
    {"attention_factor", DOUBLE, ROPE_AT(attention_factor), 0, most, CLEF_N_ROLES},
    {"short_factor", DOUBLE, ROPE_AT(short_factor), 0, most, CLEF_N_ROLES},
    {"long_factor", DOUBLE, ROPE_AT(long_factor), 0, most, CLEF_N_ROLES},
    {"original_context", INT, ROPE_AT(original_context), 0, CLEF_MAX_CONTEXT, CLEF_N_ROLES},
    {NULL, INT, 0, 0, 0, CLEF_N_ROLES},
};

/* A key of clef's own is not needed where a reader comes to the same value without it. */
static int differs(double x, const key_row *row, const void *read)
{
    const double y = read ? field_of(row, read) : 0, eps = row->type == INT ? 0 : 1.2e-7;
    return !read || fabs(x - y) > eps * fabs(x);
}

static void put_keys(clef_gguf_writer *w, const key_row *list, const char *prefix, const void *from,
                     const void *read)
{
    for (const key_row *k = list; k->name; k++) {
        const double x = field_of(k, from);
        char name[64];
        if (!differs(x, k, read))
            continue;
        snprintf(name, sizeof name, CLEF_GGUF_OWN "%s%s", prefix, k->name);
        if (k->type == INT)
            clef__gguf_put_i32(w, name, (int32_t)x);
        else if (k->type == FLOAT)
            clef__gguf_put_f32(w, name, (float)x);
        else
            clef__gguf_put_f64(w, name, x);
    }
}

static void put_layers(clef_gguf_writer *w, const char *name, const uint32_t *bits, const uint32_t *read,
                       int32_t n_layers)
{
    if (read && memcmp(bits, read, CLEF_MAX_LAYERS / 8) == 0)
        return;
    clef__gguf_put_array(w, name, CLEF_GGUF_I32, (uint64_t)n_layers);
    for (int32_t i = 0; i < n_layers; i++)
        clef__gguf_add_i32(w, (int32_t)(bits[i / 32] >> (i % 32) & 1));
}

void clef__config_put_keys(clef_gguf_writer *w, const clef_hparams *hp, const clef_hparams *read)
{
    put_keys(w, keys, "", hp, read);
    put_keys(w, rope_keys, "rope.", &hp->rope, &read->rope);
    put_keys(w, rope_keys, "rope_sliding.", &hp->rope_sliding, &read->rope_sliding);
    put_layers(w, "libclef.sliding_layers", hp->sliding_layers, read->sliding_layers, hp->n_layers);
    put_layers(w, "libclef.no_rope_layers", hp->no_rope_layers, read->no_rope_layers, hp->n_layers);
    put_layers(w, "libclef.linear_layers", hp->linear_layers, read->linear_layers, hp->n_layers);
}

static void get_keys(clef_gguf_keys *from, const key_row *list, const char *prefix, void *to)
{
    for (const key_row *k = list; k->name; k++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", prefix, k->name);
        read_row(from, k, name, to);
    }
}

void clef__config_get_keys(clef_gguf_keys *k, clef_hparams *hp)
{
    clef_gguf_keys own = *k;
    own.arch = "libclef";
    get_keys(&own, keys, "", hp);
    get_keys(&own, rope_keys, "rope.", &hp->rope);
    get_keys(&own, rope_keys, "rope_sliding.", &hp->rope_sliding);
    if (hp->rope_sliding.dims > 0)
        hp->rope_sliding.pairing = hp->rope.pairing;
    clef__key_layers(&own, "sliding_layers", hp->n_layers, hp->sliding_layers);
    clef__key_layers(&own, "no_rope_layers", hp->n_layers, hp->no_rope_layers);
    clef__key_layers(&own, "linear_layers", hp->n_layers, hp->linear_layers);
    k->status = own.status;
}

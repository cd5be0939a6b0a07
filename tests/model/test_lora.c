/* Adapters: several in one batch against merged models, both file formats on both kinds of models, and what
 * is refused. The models are tiny, random, and written by the test. */
#define TEST_NAME "lora"
#include "tests/cases.h"
#include "tests/files.h"

#include <math.h>

#include "clef/batch.h"
#include "clef/lora.h"
#include "model/file/gguf_write.h"
#include "run_graph.h"

enum { D = 32, KV = 16, FF = 48, V = 64, N_LAYERS = 2, T = 5, HEAD = 8, MOST = 40 };

static clef_device *dev;

/* ---- random files ---------------------------------------------------------------------------- */

typedef struct tensor_list {
    clef_tensor_info t[MOST];
    char names[MOST][120];
    int32_t n;
} tensor_list;

static uint32_t seed;

static float draw(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / (float)(1 << 23) - 1;
}

/* Adds [a, b] (b 0: [a]) of random numbers times `spread`, around `middle`. */
static float *add(tensor_list *l, const char *name, int64_t a, int64_t b, float middle, float spread)
{
    const size_t n = (size_t)(a * (b ? b : 1));
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    assert_true(l->n < MOST);
    for (size_t i = 0; i < n; i++)
        x[i] = middle + spread * draw();
    snprintf(l->names[l->n], sizeof l->names[0], "%s", name);
    l->t[l->n] = (clef_tensor_info){.name = l->names[l->n],
                                    .dtype = CLEF_F32,
                                    .rank = b ? 2 : 1,
                                    .dims = {a, b},
                                    .n_bytes = n * sizeof *x,
                                    .data = x};
    l->n++;
    return x;
}

static void finish_list(tensor_list *l)
{
    for (int32_t i = 0; i < l->n; i++)
        free((void *)(uintptr_t)l->t[i].data);
    l->n = 0;
}

/* Writes the list as FOLDER/FILE, with FOLDER/CONFIG beside it. */
static const char *write_folder(const char *folder, const char *file, const tensor_list *l,
                                const char *config, const char *text)
{
    static char path[700];
    clef_error err = {0};
    ok(clef__os_make_dirs(temp_path(folder), &err), &err);
    snprintf(path, sizeof path, "%s/%s", temp_path(folder), config);
    write_text(path, text);
    snprintf(path, sizeof path, "%s/%s", temp_path(folder), file);
    ok(clef_tensor_file_write(path, l->t, l->n, &err), &err);
    snprintf(path, sizeof path, "%s", temp_path(folder));
    return path;
}

typedef struct matrix {
    const char *hf, *gguf;
    int32_t n_in, n_out, heads; /* heads: GGUF has the rows of each head in pairs */
} matrix;

typedef struct family {
    const char *name, *config;
    const matrix *matrices; /* of a layer */
    int32_t n_matrices;
    int32_t is_conv1d;
    const char *prefix, *norms[2], *embed, *positions, *last;
    int32_t norm_bias;
} family;

static const matrix llama_matrices[] = {
    {"self_attn.q_proj", "attn_q", D, D, 1},  {"self_attn.k_proj", "attn_k", D, KV, 1},
    {"self_attn.v_proj", "attn_v", D, KV, 0}, {"self_attn.o_proj", "attn_output", D, D, 0},
    {"mlp.gate_proj", "ffn_gate", D, FF, 0},  {"mlp.up_proj", "ffn_up", D, FF, 0},
    {"mlp.down_proj", "ffn_down", FF, D, 0},
};
static const matrix gpt2_matrices[] = {
    {"attn.c_attn", "attn_qkv", D, 3 * D, 0},
    {"attn.c_proj", "attn_output", D, D, 0},
    {"mlp.c_fc", "ffn_up", D, 4 * D, 0},
    {"mlp.c_proj", "ffn_down", 4 * D, D, 0},
};
static const family families[] = {
    {"llama",
     "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 32, "
     "\"intermediate_size\": 48, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
     "\"num_hidden_layers\": 2, "
     "\"vocab_size\": 64, \"max_position_embeddings\": 64, \"tie_word_embeddings\": true, \"hidden_act\": "
     "\"silu\"}",
     llama_matrices,
     7,
     0,
     "model.layers.",
     {"input_layernorm", "post_attention_layernorm"},
     "model.embed_tokens",
     NULL,
     "model.norm",
     0},
    {"gpt2",
     "{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2LMHeadModel\"], \"n_embd\": 32, \"n_head\": 4, "
     "\"n_layer\": 2, \"n_positions\": 64, \"vocab_size\": 64, \"tie_word_embeddings\": true}",
     gpt2_matrices,
     4,
     1,
     "transformer.h.",
     {"ln_1", "ln_2"},
     "transformer.wte",
     "transformer.wpe",
     "transformer.ln_f",
     1},
};
enum { N_FAMILIES = sizeof families / sizeof *families };

static void add_norm(tensor_list *l, const family *f, const char *name)
{
    char full[140];
    snprintf(full, sizeof full, "%s.weight", name);
    add(l, full, D, 0, 1, 0.1f);
    snprintf(full, sizeof full, "%s.bias", name);
    if (f->norm_bias)
        add(l, full, D, 0, 0, 0.1f);
}

static const char *write_model(const family *f)
{
    tensor_list l = {.n = 0};
    char name[120];
    seed = 7;
    snprintf(name, sizeof name, "%s.weight", f->embed);
    add(&l, name, V, D, 0, 1);
    if (f->positions) {
        snprintf(name, sizeof name, "%s.weight", f->positions);
        add(&l, name, 64, D, 0, 0.5f);
    }
    add_norm(&l, f, f->last);
    for (int layer = 0; layer < N_LAYERS; layer++) {
        for (int i = 0; i < 2; i++) {
            snprintf(name, sizeof name, "%s%d.%s", f->prefix, layer, f->norms[i]);
            add_norm(&l, f, name);
        }
        for (int i = 0; i < f->n_matrices; i++) {
            const matrix *m = &f->matrices[i];
            snprintf(name, sizeof name, "%s%d.%s.weight", f->prefix, layer, m->hf);
            add(&l, name, f->is_conv1d ? m->n_in : m->n_out, f->is_conv1d ? m->n_out : m->n_in, 0, 0.3f);
            snprintf(name, sizeof name, "%s%d.%s.bias", f->prefix, layer, m->hf);
            if (f->is_conv1d)
                add(&l, name, m->n_out, 0, 0, 0.1f);
        }
    }
    const char *path = write_folder(f->name, "model.safetensors", &l, "config.json", f->config);
    finish_list(&l);
    return path;
}

/* An adapter of all matrices as a PEFT folder; ranks and config as the caller says. */
static const char *write_peft(const family *f, const char *folder, int32_t rank, const char *config)
{
    tensor_list l = {.n = 0};
    char name[120];
    for (int layer = 0; layer < N_LAYERS; layer++)
        for (int i = 0; i < f->n_matrices; i++) {
            const matrix *m = &f->matrices[i];
            snprintf(name, sizeof name, "base_model.model.%s%d.%s.lora_A.weight", f->prefix, layer, m->hf);
            add(&l, name, rank, m->n_in, 0, 0.3f);
            snprintf(name, sizeof name, "base_model.model.%s%d.%s.lora_B.weight", f->prefix, layer, m->hf);
            add(&l, name, m->n_out, rank, 0, 0.3f);
        }
    const char *path = write_folder(folder, "adapter_model.safetensors", &l, "adapter_config.json", config);
    finish_list(&l);
    return path;
}

/* The same numbers in the same order as write_peft(), as a GGUF adapter. */
static void put_gguf(const family *f, int32_t rank, float alpha, const char *path)
{
    tensor_list l = {.n = 0};
    clef_gguf_writer w = {0};
    clef_os_file *file = NULL;
    clef_error err = {0};
    char name[120];
    clef__gguf_put_text(&w, "general.type", "adapter");
    clef__gguf_put_text(&w, "general.architecture", f->name);
    clef__gguf_put_text(&w, "adapter.type", "lora");
    clef__gguf_put_f32(&w, "adapter.lora.alpha", alpha);
    for (int layer = 0; layer < N_LAYERS; layer++)
        for (int i = 0; i < f->n_matrices; i++) {
            const matrix *m = &f->matrices[i];
            snprintf(name, sizeof name, "blk.%d.%s.weight.lora_a", layer, m->gguf);
            add(&l, name, rank, m->n_in, 0, 0.3f);
            snprintf(name, sizeof name, "blk.%d.%s.weight.lora_b", layer, m->gguf);
            float *b = add(&l, name, m->n_out, rank, 0, 0.3f), copy[4 * D * 16];
            memcpy(copy, b, (size_t)(m->n_out * rank) * sizeof *b);
            for (int32_t r = 0; m->heads && r < m->n_out; r++) { /* halves become neighbours */
                const int32_t from = r / HEAD * HEAD + r % 2 * (HEAD / 2) + r % HEAD / 2;
                memcpy(b + r * rank, copy + from * rank, (size_t)rank * sizeof *b);
            }
        }
    for (int32_t i = 0; i < l.n; i++)
        clef__gguf_put_tensor(&w, &l.t[i]);
    ok(clef__os_file_begin(path, &file, &err), &err);
    ok(clef__gguf_write_head(&w, file, &err), &err);
    for (int32_t i = 0; i < l.n; i++) {
        ok(clef__os_file_write(file, l.t[i].data, (size_t)l.t[i].n_bytes, &err), &err);
        ok(clef__gguf_write_padding(file, l.t[i].n_bytes, &err), &err);
    }
    ok(clef__os_file_commit(file, &err), &err);
    clef__gguf_writer_finish(&w);
    finish_list(&l);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static const int32_t prompt[T] = {3, 17, 60, 5, 33};

static clef_model *open_model(const char *path)
{
    clef_error err = {0};
    clef_model *m;
    ok(clef_model_open(path, &m, &err), &err);
    return m;
}

static clef_lora *open_lora(const char *path, const clef_model *m, float scale)
{
    clef_error err = {0};
    clef_lora *lora;
    ok(clef_lora_open(path, m, scale, &lora, &err), &err);
    return lora;
}

/* Logits of every position of B copies of the prompt, each with its adapter. */
static void run_batch(clef_model *m, clef_lora_set *set, const int32_t *adapters, int32_t B, float *logits)
{
    clef_error err = {0};
    clef_graph *g;
    clef_plan *plan;
    int32_t ids[3 * T], pos[3] = {0};
    for (int32_t i = 0; i < B * T; i++)
        ids[i] = prompt[i % T];
    const clef_build_opts build = {
        .n_context = T, .n_batch = T, .n_sequences = B, .all_logits = 1, .loras = set};
    const clef_plan_opts opts = {.compile.exact = 1,
                                 .compile.no_tune = 1,
                                 .weights = set ? clef_lora_set_weight : clef_model_weight,
                                 .weights_user = set ? (void *)set : m};
    ok(clef_model_build(m, &build, &g, &err), &err);
    ok(clef_graph_optimize(g, NULL, &err), &err);
    ok(clef_plan_create(dev, g, &opts, &plan, &err), &err);
    ok(clef_plan_write(plan, clef_plan_input(plan, "input_ids"), ids, (size_t)(B * T) * sizeof *ids, &err),
       &err);
    ok(clef_plan_write(plan, clef_plan_input(plan, "pos"), pos, (size_t)B * sizeof *pos, &err), &err);
    if (set)
        ok(clef_plan_write(plan, clef_plan_input(plan, "adapter"), adapters, (size_t)B * sizeof *adapters,
                           &err),
           &err);
    ok(clef_plan_run(plan, &err), &err);
    ok(clef_plan_read(plan, clef_plan_output(plan, "logits"), logits, (size_t)(B * T * V) * sizeof *logits,
                      &err),
       &err);
    clef_plan_destroy(plan);
    clef_graph_destroy(g);
}

static float furthest(const float *a, const float *b)
{
    float most = 0;
    for (int i = 0; i < T * V; i++)
        most = fmaxf(most, fabsf(a[i] - b[i]));
    return most;
}

/* Writes m with the adapter merged, and runs it without one. */
static void run_merged(const clef_model *m, const clef_lora *lora, float *logits)
{
    clef_error err = {0};
    const clef_quantize_opts opts = {
        .type = "stored", .no_tokenizer = 1, .loras = &lora, .n_loras = lora != NULL};
    ok(clef_model_quantize(m, temp_path("merged.gguf"), &opts, &err), &err);
    clef_model *merged = open_model(temp_path("merged.gguf"));
    run_batch(merged, NULL, NULL, 1, logits);
    clef_model_close(merged);
}

static void is_near(const char *what, const float *a, const float *b)
{
    const float off = furthest(a, b);
    if (!(off < 1e-4f))
        fail_msg("%s: the logits differ by %g", what, (double)off);
}

/* The family's model as a folder (0) and as GGUF (1). */
static clef_model *model_of(const family *f, int is_gguf)
{
    char folder[700];
    clef_error err = {0};
    snprintf(folder, sizeof folder, "%s", write_model(f));
    clef_model *m = open_model(folder);
    if (!is_gguf)
        return m;
    ok(clef_model_quantize(m, temp_path("model.gguf"),
                           &(clef_quantize_opts){.type = "stored", .no_tokenizer = 1}, &err),
       &err);
    clef_model_close(m);
    return open_model(temp_path("model.gguf"));
}

static const char plain[] = "{\"peft_type\": \"LORA\", \"r\": 4, \"lora_alpha\": 6, \"bias\": \"none\"}";

/* Two adapters and none in one batch: each row gives what the merged model gives. */
TEST(three_in_a_batch)
{
    static float all[3 * T * V], base[T * V], one[T * V], two[T * V];
    static const int32_t order[] = {1, 0, 2};
    for (int i = 0; i < 2 * N_FAMILIES; i++) {
        const family *f = &families[i / 2];
        clef_error err = {0};
        clef_lora_set *set;
        clef_model *m = model_of(f, i % 2);
        seed = 100;
        clef_lora *loras[2] = {open_lora(write_peft(f, "a", 4, plain), m, 1), NULL};
        loras[1] =
            open_lora(write_peft(f, "b", 16,
                                 "{\"r\": 16, \"lora_alpha\": 3, \"use_rslora\": true, \"alpha_pattern\": "
                                 "{\"q_proj\": 9, \"h.1.mlp.c_fc\": 2}, \"rank_pattern\": {\"k_proj\": 16}}"),
                      m, 0.5f);
        assert_int_equal(clef_lora_n_targets(loras[0]), N_LAYERS * f->n_matrices);
        run_merged(m, NULL, base);
        run_merged(m, loras[0], one);
        run_merged(m, loras[1], two);
        ok(clef_lora_set_create(m, (const clef_lora *const *)loras, 2, &set, &err), &err);
        clef_lora_close(loras[0]); /* the set has its own copy */
        clef_lora_close(loras[1]);
        run_batch(m, set, order, 3, all);
        is_near("the first adapter", all, one);
        is_near("no adapter", all + T * V, base);
        is_near("the second adapter", all + 2 * T * V, two);
        assert_true(furthest(one, base) > 0.05f && furthest(two, base) > 0.05f && furthest(one, two) > 0.05f);
        clef_lora_set_destroy(set);
        clef_model_close(m);
    }
}

/* A PEFT folder and a GGUF adapter with the same numbers do the same, on folders and on GGUF models. */
TEST(both_formats)
{
    static float all[2][T * V];
    static const int32_t first = 1;
    for (int i = 0; i < 2 * N_FAMILIES; i++) {
        const family *f = &families[i / 2];
        clef_error err = {0};
        clef_model *m = model_of(f, i % 2);
        for (int k = 0; k < 2; k++) {
            clef_lora_set *set;
            seed = 100;
            if (k)
                put_gguf(f, 4, 6, temp_path("a.gguf"));
            clef_lora *lora = open_lora(k ? temp_path("a.gguf") : write_peft(f, "a", 4, plain), m, 1);
            ok(clef_lora_set_create(m, (const clef_lora *const *)&lora, 1, &set, &err), &err);
            run_batch(m, set, &first, 1, all[k]);
            clef_lora_close(lora);
            clef_lora_set_destroy(set);
        }
        is_near(f->name, all[0], all[1]);
        clef_model_close(m);
    }
}

/* PEFT's names of a text model in a wrapper differ by the version of transformers. */
TEST(names_of_a_wrapper)
{
    static const char *const prefixes[] = {"model.layers.", "language_model.model.layers.",
                                           "model.language_model.layers."};
    static float all[3][T * V];
    static const int32_t first = 1;
    family wrapper = families[0], named;
    char config[600];
    snprintf(config, sizeof config, "{\"model_type\": \"mistral3\", \"text_config\": %s}", wrapper.config);
    wrapper.config = config;
    wrapper.prefix = "language_model.model.layers.";
    wrapper.embed = "language_model.model.embed_tokens";
    wrapper.last = "language_model.model.norm";
    for (int i = 0; i < 4; i++) {
        clef_error err = {0};
        clef_model *m = model_of(i < 2 ? &wrapper : &families[0], i % 2);
        for (int k = 0; k < 3; k++) {
            clef_lora_set *set;
            named = families[0];
            named.prefix = prefixes[k];
            seed = 100;
            clef_lora *lora = open_lora(write_peft(&named, "a", 4, plain), m, 1);
            ok(clef_lora_set_create(m, (const clef_lora *const *)&lora, 1, &set, &err), &err);
            run_batch(m, set, &first, 1, all[k]);
            clef_lora_close(lora);
            clef_lora_set_destroy(set);
            is_near(prefixes[k], all[0], all[k]);
        }
        clef_model_close(m);
    }
}

/* A session generates what one of the merged model generates. */
TEST(session_with_adapter)
{
    enum { N = 20 };
    int32_t texts[3][N];
    clef_error err = {0};
    clef_lora_set *set;
    clef_model *m = model_of(&families[0], 1);
    seed = 100;
    clef_lora *lora = open_lora(write_peft(&families[0], "a", 4, plain), m, 1);
    const clef_quantize_opts merge = {
        .type = "stored", .no_tokenizer = 1, .loras = (const clef_lora *const *)&lora, .n_loras = 1};
    ok(clef_model_quantize(m, temp_path("merged.gguf"), &merge, &err), &err);
    clef_model *merged = open_model(temp_path("merged.gguf"));
    ok(clef_lora_set_create(m, (const clef_lora *const *)&lora, 1, &set, &err), &err);
    for (int k = 0; k < 3; k++) {
        clef_session *s;
        const clef_session_opts opts = {
            .n_batch = 2, .compile.exact = 1, .compile.no_tune = 1, .loras = k ? set : NULL, .lora = k == 1};
        ok(clef_session_create(dev, k ? m : merged, &opts, &s, &err), &err);
        ok(clef_session_generate(s, prompt, T, N, NULL, &err), &err);
        for (int i = 0; i < N; i++)
            ok(clef_session_next(s, &texts[k][i], &err), &err);
        clef_session_destroy(s);
    }
    assert_memory_equal(texts[0], texts[1], sizeof texts[0]);
    assert_memory_not_equal(texts[1], texts[2], sizeof texts[0]);
    clef_session *s;
    assert_int_equal(clef_session_create(dev, m, &(clef_session_opts){.loras = set, .lora = 2}, &s, &err),
                     CLEF_E_ARG);
    assert_int_equal(clef_session_create(dev, m, &(clef_session_opts){.lora = 1}, &s, &err), CLEF_E_ARG);
    clef_lora_close(lora);
    clef_lora_set_destroy(set);
    clef_model_close(merged);
    clef_model_close(m);
}

/* Sequences with different adapters, or none, share the steps of a batch. Each gives what a session gives; no
 * prompt is found in the cache of another adapter, or of the same one at another scale. */
TEST(sequences_of_a_batch)
{
    enum { N = 15, N_LORAS = 3, N_REQUESTS = 8 };
    static const int32_t adapters[N_REQUESTS] = {1, 0, 2, 3, 3, 2, 0, 1};
    int32_t want[N_LORAS + 1][N], got[N_REQUESTS][N], n_got[N_REQUESTS] = {0}, n_rows = 1;
    clef_error err = {0};
    clef_lora_set *set;
    clef_batch *b;
    clef_model *m = model_of(&families[0], 0);
    seed = 100;
    clef_lora *loras[N_LORAS] = {open_lora(write_peft(&families[0], "a", 4, plain), m, 6), NULL};
    loras[1] = open_lora(write_peft(&families[0], "b", 4, plain), m, 12);
    loras[2] = open_lora(clef_lora_path(loras[0]), m, 3);
    ok(clef_lora_set_create(m, (const clef_lora *const *)loras, N_LORAS, &set, &err), &err);
    for (int32_t k = 0; k <= N_LORAS; k++) {
        clef_session *s;
        const clef_session_opts opts = {.compile.no_tune = 1, .loras = set, .lora = k};
        ok(clef_session_create(dev, m, &opts, &s, &err), &err);
        ok(clef_session_generate(s, prompt, T, N, NULL, &err), &err);
        for (int i = 0; i < N; i++)
            ok(clef_session_next(s, &want[k][i], &err), &err);
        clef_session_destroy(s);
    }
    for (int32_t k = 0; k < N_LORAS; k++)
        for (int32_t j = k + 1; j <= N_LORAS; j++)
            assert_memory_not_equal(want[k], want[j], sizeof want[0]);
    ok(clef_batch_create(
           dev, m,
           &(clef_batch_opts){.max_sequences = 4, .kv_tokens = 1024, .loras = set, .compile.no_tune = 1}, &b,
           &err),
       &err);
    for (int32_t i = 0; i < N_REQUESTS; i++) {
        int64_t number;
        const clef_request r = {.ids = prompt, .n = T, .n_max = N, .ignore_eos = 1, .lora = adapters[i]};
        ok(clef_batch_add(b, &r, &number, &err), &err);
    }
    while (n_rows) {
        clef_batch_token t[8];
        ok(clef_batch_step(b, &n_rows, &err), &err);
        for (int32_t i = clef_batch_take(b, t, 8); i-- > 0;) {
            got[t[i].sequence][n_got[t[i].sequence]++] = t[i].id;
            assert_int_equal(t[i].n_cached, t[i].sequence < 4 ? 0 : T - 1); /* the last four start later */
        }
    }
    for (int32_t i = 0; i < N_REQUESTS; i++)
        assert_memory_equal(got[i], want[adapters[i]], sizeof want[0]);
    const clef_request wrong = {.ids = prompt, .n = T, .lora = N_LORAS + 1};
    int64_t number;
    assert_int_equal(clef_batch_add(b, &wrong, &number, &err), CLEF_E_ARG);
    assert_non_null(strstr(err.text, "adapter 4, the batch has 3"));
    clef_batch_destroy(b);
    for (int32_t k = 0; k < N_LORAS; k++)
        clef_lora_close(loras[k]);
    clef_lora_set_destroy(set);
    clef_model_close(m);
}

/* ---- what is refused ------------------------------------------------------------------------- */

#define LAYER "base_model.model.model.layers.0."

static void refused(const clef_model *m, const char *row, const char *config, const tensor_list *l,
                    clef_status wanted, const char *piece)
{
    clef_error err = {0};
    clef_lora *lora;
    const char *path = write_folder("bad", "adapter_model.safetensors", l, "adapter_config.json", config);
    check_error(row, clef_lora_open(path, m, 1, &lora, &err), &err, wanted, piece);
    assert_null(lora);
}

/* The base model, and the tensors of an adapter of q_proj, of the cases of tests/fixtures/adapters.json. */
static clef_model *base;
static tensor_list pair;

static void open_pair(void)
{
    base = model_of(&families[0], 0);
    pair.n = 0;
    add(&pair, LAYER "self_attn.q_proj.lora_A.weight", 4, D, 0, 1);
    add(&pair, LAYER "self_attn.q_proj.lora_B.weight", D, 4, 0, 1);
}

static void close_pair(void)
{
    finish_list(&pair);
    clef_model_close(base);
}

static void check_config(const json_t *c)
{
    clef_error err = {0};
    clef_lora *lora;
    const char *path = write_folder("bad", "adapter_model.safetensors", &pair, "adapter_config.json",
                                    case_text(c, "config"));
    check_case(c, clef_lora_open(path, base, 1, &lora, &err), &err);
    assert_null(lora);
}

TEST(wrong_configs)
{
    open_pair();
    for_each_case("adapters.json", "configs", check_config);
    close_pair();
}

static float plain_value; /* of the first pattern, without its factor */

static void check_pattern(const json_t *c)
{
    clef_error err = {0};
    clef_lora *lora;
    char *config = json_dumps(case_value(c, "config"), 0);
    const char *path =
        write_folder("good", "adapter_model.safetensors", &pair, "adapter_config.json", config);
    free(config);
    ok(clef_lora_open(path, base, 1, &lora, &err), &err);
    const float up = clef_lora_target(lora, 0).up[0], factor = case_number(c, "matches", 0) != 0 ? 3 : 1;
    plain_value = plain_value != 0 ? plain_value : up / 3;
    if (fabsf(up - factor * plain_value) > 1e-6f)
        fail_case(c, "expected a factor of %g, got %g", (double)factor, (double)(up / plain_value));
    clef_lora_close(lora);
}

/* What PEFT 0.21 finds for model.layers.0.self_attn.q_proj: re.match(rf"(.*\.)?({key})$", name). */
TEST(patterns)
{
    open_pair();
    for_each_case("adapters.json", "patterns", check_pattern);
    close_pair();
}

static int32_t dim_of(const json_t *c, const char *key, size_t i)
{
    return (int32_t)json_integer_value(json_array_get(case_value(c, key), i));
}

static void check_tensors(const json_t *c)
{
    char a[120], b[120];
    clef_error err = {0};
    clef_lora *lora;
    tensor_list l = {.n = 0};
    snprintf(a, sizeof a, LAYER "%s", case_text(c, "a"));
    snprintf(b, sizeof b, LAYER "%s", case_text(c, "b"));
    add(&l, a, dim_of(c, "a_dims", 0), dim_of(c, "a_dims", 1), 0, 1);
    add(&l, b, dim_of(c, "b_dims", 0), dim_of(c, "b_dims", 1), 0, 1);
    const char *path = write_folder("bad", "adapter_model.safetensors", &l, "adapter_config.json", plain);
    check_case(c, clef_lora_open(path, base, 1, &lora, &err), &err);
    assert_null(lora);
    finish_list(&l);
}

TEST(wrong_tensors)
{
    for (int gguf = 0; gguf < 2; gguf++) {
        clef_model *m = base = model_of(&families[0], gguf);
        for_each_case("adapters.json", "tensors", check_tensors);
        tensor_list l = {.n = 0}; /* the embedding is not a product of its own */
        add(&l, "base_model.model.model.embed_tokens.lora_A.weight", 4, D, 0, 1);
        add(&l, "base_model.model.model.embed_tokens.lora_B.weight", V, 4, 0, 1);
        refused(m, "embedding", plain, &l, CLEF_E_UNSUPPORTED, "embeddings");
        finish_list(&l);
        add(&l, LAYER "mlp.up_proj.lora_A.weight", 4, D, 0, 1);
        add(&l, LAYER "mlp.up_proj.lora_B.weight", FF, 4, 0, 1);
        float *x = (float *)(uintptr_t)l.t[0].data;
        x[3] = NAN;
        refused(m, "NaN", plain, &l, CLEF_E_FORMAT, "finite");
        finish_list(&l);
        clef_model_close(m);
    }
}

/* A GGUF adapter for another architecture, a model in place of an adapter, and files that are cut
 * anywhere. */
TEST(wrong_files)
{
    clef_error err = {0};
    clef_lora *lora;
    clef_mapping whole;
    clef_model *m = model_of(&families[0], 1);
    put_gguf(&families[1], 4, 6, temp_path("other.gguf"));
    check_error("other", clef_lora_open(temp_path("other.gguf"), m, 1, &lora, &err), &err, CLEF_E_UNSUPPORTED,
                "expected \"llama\"");
    check_error("model", clef_lora_open(temp_path("model.gguf"), m, 1, &lora, &err), &err, CLEF_E_UNSUPPORTED,
                "general.type");
    check_error("none", clef_lora_open(temp_path("nowhere"), m, 1, &lora, &err), &err, CLEF_E_IO, "nowhere");
    check_error("empty", clef_lora_open(temp_dir, m, 1, &lora, &err), &err, CLEF_E_NOT_FOUND,
                "adapter_config.json");
    check_error("scale", clef_lora_open(temp_path("other.gguf"), m, NAN, &lora, &err), &err, CLEF_E_ARG,
                "scale");
    put_gguf(&families[0], 4, 6, temp_path("a.gguf"));
    ok(clef__os_map(temp_path("a.gguf"), &whole, &err), &err);
    for (size_t n = 1; n < whole.n_bytes - 64; n += 1 + n / 9) {
        write_file(temp_path("cut.gguf"), whole.data, n);
        if (clef_lora_open(temp_path("cut.gguf"), m, 1, &lora, &err) == CLEF_OK)
            fail_msg("%zu of %zu bytes were accepted", n, whole.n_bytes);
        assert_null(lora);
    }
    clef__os_unmap(&whole);
    clef_model_close(m);
}

static int setup(void **state)
{
    dev = test_device();
    return dev ? make_temp_dir(state) : -1;
}

static int teardown(void **state)
{
    char command[400];
    (void)state;
    clef_device_close(dev);
    snprintf(command, sizeof command, "rm -r '%s'", temp_dir);
    return system(command);
}

TESTS(setup, teardown)

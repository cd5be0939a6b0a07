/* Embeddings, classes, masked places and encoder-decoders, with the tiny models of tests/fixtures (tiny.py)
 * against PyTorch's answers. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#define TEST_NAME "test-tasks"
#include "tests/cases.h"
#include "tests/debug.h"
#include "tests/files.h"

#include <math.h>

#include "model/tasks/embed_config.h"
#include "run_graph.h"

#ifndef CLEF_SOURCE_DIR
#    define CLEF_SOURCE_DIR "."
#endif

enum { D = 16, MOST_TEXTS = 32, LONGEST = 24 };

static clef_device *dev;
static clef_model *bert, *t5;
static json_t *expected;
static clef_span texts[MOST_TEXTS];
static int32_t n_texts;

static json_t *wanted(const char *key)
{
    json_t *value = json_object_get(expected, key);
    assert_non_null(value);
    return value;
}

static double number(const json_t *list, size_t i)
{
    return json_number_value(json_array_get(list, i));
}

static int32_t ids_of(const json_t *list, int32_t *ids, int32_t capacity)
{
    const int32_t n = (int32_t)json_array_size(list);
    assert_true(n <= capacity);
    for (int32_t i = 0; i < n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    return n;
}

static clef_encoded encode(const char *a, const char *b)
{
    clef_error err = {0};
    clef_encoded enc;
    ok(clef_tokenizer_encode_pair(clef_model_tokenizer(bert, &err), a, strlen(a), b, b ? strlen(b) : 0, NULL,
                                  &enc, &err),
       &err);
    return enc;
}

/* ---- embeddings ------------------------------------------------------------------------------ */

static void embed(const clef_embed_opts *opts, const clef_span *what, int32_t n, float *out)
{
    clef_error err = {0};
    clef_embedder *e;
    ok(clef_embedder_create(dev, bert, opts, &e, &err), &err);
    ok(clef_embed_texts(e, what, n, 0, out, NULL, &err), &err);
    clef_embedder_destroy(e);
}

TEST(embeddings_are_pytorchs)
{
    static const char *const names[] = {"mean", "cls", "mean",
                                        "last"}; /* by clef_pooling; the folder says mean */
    static float rows[MOST_TEXTS * D];
    for (int32_t pooling = 0; pooling <= CLEF_POOL_LAST; pooling++)
        for (int32_t unit = 0; unit < 3; unit++) {
            embed(&(clef_embed_opts){.pooling = (clef_pooling)pooling, .normalize = (clef_normalize)unit},
                  texts, n_texts, rows);
            for (int32_t i = 0; i < n_texts; i++) {
                const json_t *row = json_array_get(wanted(names[pooling]), (size_t)i);
                double norm = 0;
                for (size_t k = 0; k < D; k++)
                    norm += number(row, k) * number(row, k);
                for (size_t k = 0; k < D; k++) {
                    const double want =
                        number(row, k) /
                        (unit == CLEF_NORMALIZE_NO ? 1 : sqrt(norm)); /* the folder normalises */
                    if (!(fabs((double)rows[(size_t)i * D + k] - want) < 1e-5))
                        fail_msg("%s, normalize %d, text %d, %zu: expected %g, got %g", names[pooling], unit,
                                 i, k, want, (double)rows[(size_t)i * D + k]);
                }
            }
        }
}

/* Each row of a batch is to the bit what it is alone, texts of one token and more. */
TEST(batches_change_nothing)
{
    static float alone[MOST_TEXTS * D], together[MOST_TEXTS * D];
    clef_span many[MOST_TEXTS];
    assert_true(n_texts >= 4);
    for (int32_t i = 0; i < MOST_TEXTS; i++)
        many[i] =
            i % 5 == 0 ? (clef_span){"aab", (size_t)(i % 4)} : texts[i * 7 % n_texts]; /* 2 tokens and more */
    for (int32_t n_batch = 2; n_batch <= 32; n_batch *= 4) {
        embed(&(clef_embed_opts){.n_batch = 1}, many, MOST_TEXTS, alone);
        embed(&(clef_embed_opts){.n_batch = n_batch}, many, MOST_TEXTS, together);
        assert_memory_equal(alone, together, sizeof alone);
    }
}

/* The hidden states of B sequences of T tokens, `mask` saying which are padding (NULL: none). */
static void hidden(const int32_t *ids, const int32_t *mask, int32_t B, int32_t T, float *out)
{
    clef_error err = {0};
    clef_graph *g;
    clef_plan *plan;
    const clef_build_opts opts = {
        .n_context = T, .n_batch = T, .n_sequences = B, .no_head = 1, .padding_mask = mask != NULL};
    ok(clef_model_build(bert, &opts, &g, &err), &err);
    ok(clef_graph_optimize(g, NULL, &err), &err);
    ok(clef_plan_create(
           dev, g,
           &(clef_plan_opts){.batch_invariant = 1, .weights = clef_model_weight, .weights_user = bert}, &plan,
           &err),
       &err);
    const size_t bytes = (size_t)(B * T) * sizeof *ids;
    ok(clef_plan_write(plan, clef_plan_input(plan, "input_ids"), ids, bytes, &err), &err);
    if (mask)
        ok(clef_plan_write(plan, clef_plan_input(plan, "attention_mask"), mask, bytes, &err), &err);
    ok(clef_plan_run(plan, &err), &err);
    ok(clef_plan_read(plan, clef_plan_output(plan, "hidden_last"), out, (size_t)(B * T * D) * sizeof *out,
                      &err),
       &err);
    clef_plan_destroy(plan);
    clef_graph_destroy(g);
}

/* A batch with padding, as `clef eval` takes it. */
TEST(padding_changes_nothing)
{
    enum { B = 4, T = 20 };
    static float together[B * T * D], alone[T * D];
    int32_t ids[B * T] = {0}, mask[B * T] = {0}, n[B];
    set_debug("variant", "attention=cpu_prefill"); /* which of them serves is a matter of the length */
    for (int32_t b = 0; b < B; b++) {
        clef_encoded enc = encode(b ? texts[b].text : "a", NULL);
        n[b] = enc.n;
        for (int32_t i = 0; i < enc.n; i++) {
            ids[b * T + i] = enc.ids[i];
            mask[b * T + i] = 1;
        }
        clef_encoded_finish(&enc);
    }
    hidden(ids, mask, B, T, together);
    for (int32_t b = 0; b < B; b++) {
        hidden(ids + b * T, NULL, 1, n[b], alone);
        assert_memory_equal(together + b * T * D, alone, (size_t)(n[b] * D) * sizeof *alone);
    }
    set_debug("variant", NULL);
}

TEST(wrong_texts)
{
    static float rows[2 * D], whole[D];
    char longer[400] = "";
    clef_error err = {0};
    clef_embedder *e;
    int64_t n_tokens = 0;
    for (int i = 0; i < 40; i++)
        strcat(longer, i % 3 ? "the " : "sea ");
    const clef_span two[2] = {{"a cat", 5}, {longer, strlen(longer)}};
    ok(clef_embedder_create(dev, bert, NULL, &e, &err), &err);
    assert_int_equal(clef_embedder_describe(e).max_tokens, 20);
    assert_int_equal(clef_embedder_describe(e).n_dims, D);
    check_error("too long", clef_embed_texts(e, two, 2, 0, rows, NULL, &err), &err, CLEF_E_LIMIT,
                "text 1 has 42 tokens");
    ok(clef_embed_texts(e, two, 2, 1, rows, &n_tokens, &err), &err);
    assert_int_equal(n_tokens, 4 + 20);
    const clef_span cut = {longer, 18 * 4 - 1}; /* 18 words, and the two marks */
    ok(clef_embed_texts(e, &cut, 1, 0, whole, NULL, &err), &err);
    for (int i = 0; i < D; i++)
        assert_true(fabsf(whole[i] - rows[D + i]) < 1e-6f);
    ok(clef_embed_texts(e, two, 0, 0, rows, NULL, &err), &err);
    const int32_t ids[] = {2, 4000, 3}, *lists[] = {ids};
    check_error("ids", clef_embed_ids(e, lists, &(int32_t){3}, 1, rows, &err), &err, CLEF_E_ARG,
                "token 1 is 4000");
    check_error("none", clef_embed_ids(e, lists, &(int32_t){0}, 1, rows, &err), &err, CLEF_E_ARG,
                "text 0 has no tokens");
    clef_embedder_destroy(e);
    check_error("batch", clef_embedder_create(dev, bert, &(clef_embed_opts){.n_batch = -1}, &e, &err), &err,
                CLEF_E_ARG, "-1 texts");
    check_error("pooling",
                clef_embedder_create(dev, bert, &(clef_embed_opts){.pooling = (clef_pooling)9}, &e, &err),
                &err, CLEF_E_ARG, "pooling 9");
    check_error("kind", clef_embedder_create(dev, t5, NULL, &e, &err), &err, CLEF_OK, "");
    check_error("kind", clef_embed_ids(e, &(const int32_t *){&ids[2]}, &(int32_t){1}, 1, rows, &err), &err,
                CLEF_E_UNSUPPORTED, "an encoder-decoder");
    clef_embedder_destroy(e);
}

/* ---- what the files say ---------------------------------------------------------------------- */

static void copy_file(const char *name)
{
    clef_error err = {0};
    char *data, from[600];
    size_t n;
    snprintf(from, sizeof from, "%s/tests/fixtures/tiny-bert/%s", CLEF_SOURCE_DIR, name);
    ok(clef__os_read(from, 1 << 20, &data, &n, &err), &err);
    write_file(temp_path(name), data, n);
    free(data);
}

static const char *const embedder_files[][2] = {{"modules", "modules.json"},
                                                {"pooling", "p/config.json"},
                                                {"transformer", "sentence_bert_config.json"},
                                                {"tokenizer", "tokenizer_config.json"},
                                                {"prompts", "config_sentence_transformers.json"}};
enum { N_EMBEDDER_FILES = sizeof embedder_files / sizeof *embedder_files };

static void check_info(const json_t *wanted, const clef_embedder_info *info)
{
    static const char *const poolings[] = {
        [CLEF_POOL_MEAN] = "mean", [CLEF_POOL_CLS] = "cls", [CLEF_POOL_LAST] = "last"};
    const char *prompt = case_text(wanted, "prompt"), *similarity = case_text(wanted, "similarity");
    assert_int_equal(info->n_dims, D);
    assert_int_equal(info->max_tokens, case_number(wanted, "max_tokens", 0));
    assert_string_equal(poolings[info->pooling], case_text(wanted, "pooling"));
    assert_int_equal(info->normalize, case_number(wanted, "normalize", 0));
    assert_string_equal(info->prompt ? info->prompt : "none", prompt ? prompt : "none");
    assert_string_equal(info->similarity, similarity ? similarity : "cosine");
}

static void check_embedder(const json_t *c)
{
    clef_error err = {0};
    clef_model *m;
    clef_embedder_info info;
    ok(clef_model_open(temp_dir, &m, &err), &err);
    for (int k = 0; k < N_EMBEDDER_FILES; k++)
        if (case_text(c, embedder_files[k][0]))
            write_text(temp_path(embedder_files[k][1]), case_text(c, embedder_files[k][0]));
    const clef_status status = clef__embed_config(m, NULL, &info, &err);
    check_case(c, status, &err);
    if (!status)
        check_info(case_value(c, "info"), &info);
    for (int k = 0; k < N_EMBEDDER_FILES; k++)
        clef__os_remove(temp_path(embedder_files[k][1]));
    clef_model_close(m);
}

TEST(embedding_files)
{
    clef_error err = {0};
    copy_file("config.json");
    copy_file("model.safetensors");
    ok(clef__os_make_dirs(temp_path("p"), &err), &err);
    for_each_case("embedders.json", "files", check_embedder);
    assert_int_equal(remove(temp_path("p")), 0);
    clef__os_remove(temp_path("config.json"));
    clef__os_remove(temp_path("model.safetensors"));
}

/* ---- classes --------------------------------------------------------------------------------- */

static clef_classifier *classifier(clef_model *m, clef_head head)
{
    clef_error err = {0};
    clef_classifier *c;
    ok(clef_classifier_create(dev, m, &(clef_classifier_opts){.head = head}, &c, &err), &err);
    return c;
}

/* Runs the text; row `row` of the probabilities is that of PyTorch. */
static void check_classes(clef_classifier *c, const clef_encoded *enc, int32_t row, const json_t *want)
{
    const int32_t n = clef_classifier_describe(c).n_classes;
    clef_error err = {0};
    const float *logits;
    float p[3];
    assert_int_equal(n, 3);
    assert_int_equal(json_array_size(want), 3);
    ok(clef_classify(c, enc->ids, enc->types, enc->n, &logits, &err), &err);
    clef_class_probabilities(clef_classifier_describe(c).kind, logits + row * n, n, p);
    for (size_t i = 0; i < 3; i++)
        assert_true(fabs((double)p[i] - number(want, i)) < 1e-5);
}

TEST(classes_are_pytorchs)
{
    clef_classifier *c = classifier(bert, CLEF_HEAD_CLASSES);
    assert_int_equal(clef_classifier_describe(c).per_token, 0);
    assert_string_equal(clef_classifier_label(c, 1), "so so");
    assert_null(clef_classifier_label(c, 3));
    clef_encoded one = encode(texts[1].text, NULL), pair = encode(texts[1].text, texts[4].text);
    check_classes(c, &one, 0, wanted("classes"));
    check_classes(c, &pair, 0, wanted("pair_classes"));
    check_classes(c, &one, 0, wanted("classes")); /* nothing of the pair stays */
    clef_error err = {0};
    const float *logits;
    pair.types[0] = 2;
    check_error("type", clef_classify(c, pair.ids, pair.types, pair.n, &logits, &err), &err, CLEF_E_ARG,
                "token 0 is of type 2");
    check_error("none", clef_classify(c, pair.ids, NULL, 0, &logits, &err), &err, CLEF_E_ARG, "no tokens");
    pair.ids[2] = -1;
    check_error("id", clef_classify(c, pair.ids, NULL, pair.n, &logits, &err), &err, CLEF_E_ARG,
                "token 2 is -1");
    const int32_t many[LONGEST + 1] = {0};
    check_error("long", clef_classify(c, many, NULL, LONGEST + 1, &logits, &err), &err, CLEF_E_LIMIT,
                "25 tokens");
    clef_encoded_finish(&one);
    clef_encoded_finish(&pair);
    clef_classifier_destroy(c);
    check_error("kind", clef_classifier_create(dev, t5, NULL, &c, &err), &err, CLEF_E_UNSUPPORTED,
                "t5 is not an encoder");
}

TEST(classes_of_tokens)
{
    static const char config[] =
        "{\"model_type\":\"bert\",\"architectures\":[\"BertForTokenClassification\"],\"vocab_size\":43,"
        "\"hidden_size\":16,\"num_hidden_layers\":2,\"num_attention_heads\":2,\"intermediate_size\":32,"
        "\"max_position_embeddings\":24,\"problem_type\":\"%s\"}";
    char text[sizeof config + 64];
    clef_error err = {0};
    clef_model *m;
    copy_file("model.safetensors");
    snprintf(text, sizeof text, config, "single_label_classification");
    write_text(temp_path("config.json"), text);
    ok(clef_model_open(temp_dir, &m, &err), &err);
    clef_classifier *c = classifier(m, CLEF_HEAD_CLASSES);
    assert_int_equal(clef_classifier_describe(c).per_token, 1);
    assert_string_equal(clef_classifier_label(c, 2), "LABEL_2");
    clef_encoded enc = encode(texts[1].text, NULL);
    assert_int_equal(json_array_size(wanted("token_classes")), enc.n);
    for (int32_t t = 0; t < enc.n; t++)
        check_classes(c, &enc, t, json_array_get(wanted("token_classes"), (size_t)t));
    clef_encoded_finish(&enc);
    clef_classifier_destroy(c);
    clef_model_close(m);
    snprintf(text, sizeof text, config, "guessing");
    write_text(temp_path("config.json"), text);
    ok(clef_model_open(temp_dir, &m, &err), &err);
    check_error("type", clef_classifier_create(dev, m, NULL, &c, &err), &err, CLEF_E_UNSUPPORTED,
                "problem_type guessing");
    clef_model_close(m);
    clef__os_remove(temp_path("config.json"));
    clef__os_remove(temp_path("model.safetensors"));
}

TEST(kinds_of_probabilities)
{
    const float x[3] = {0, 800, -800};
    float p[3];
    clef_class_probabilities(CLEF_CLASS_SOFTMAX, x, 3, p);
    assert_true(p[0] == 0 && p[1] == 1 && p[2] == 0);
    clef_class_probabilities(CLEF_CLASS_SIGMOID, x, 3, p);
    assert_true(p[0] == 0.5f && p[1] == 1 && p[2] == 0);
    clef_class_probabilities(CLEF_CLASS_REGRESSION, x, 3, p);
    assert_memory_equal(p, x, sizeof x);
}

TEST(masked_places)
{
    clef_error err = {0};
    const float *logits;
    clef_classifier *c = classifier(bert, CLEF_HEAD_MASKED);
    clef_encoded enc = encode("the cat [MASK] in the sea", NULL);
    const int32_t V = clef_classifier_describe(c).n_classes;
    float *p = malloc((size_t)V * sizeof *p);
    assert_non_null(p);
    ok(clef_classify(c, enc.ids, enc.types, enc.n, &logits, &err), &err);
    clef_class_probabilities(CLEF_CLASS_SOFTMAX, logits + 3 * V, V, p);
    for (size_t i = 0; i < json_array_size(wanted("fill")); i++) {
        const json_t *want = json_array_get(wanted("fill"), i);
        const int32_t id =
            clef_tokenizer_find(clef_model_tokenizer(bert, &err), json_string_value(json_array_get(want, 0)));
        assert_true(id >= 0 && fabs((double)p[id] - number(want, 1)) < 1e-5);
    }
    free(p);
    clef_encoded_finish(&enc);
    clef_classifier_destroy(c);
}

/* ---- encoder-decoders ------------------------------------------------------------------------ */

TEST(greedy_is_pytorchs)
{
    int32_t source[LONGEST], want[LONGEST], start[2], id;
    clef_error err = {0};
    clef_session *s;
    const int32_t n_source = ids_of(wanted("source"), source, LONGEST),
                  n = ids_of(wanted("greedy"), want, LONGEST);
    ok(clef_session_create(dev, t5, &(clef_session_opts){.n_context = 32, .n_source = LONGEST}, &s, &err),
       &err);
    assert_int_equal(clef_session_start(s, start), 1);
    check_error("no source", clef_session_generate(s, start, 1, 0, NULL, &err), &err, CLEF_E_ARG,
                "clef_session_encode");
    for (int round = 0; round < 2; round++) { /* another source between makes no difference */
        ok(clef_session_encode(s, source + 1, n_source - 3, &err), &err);
        ok(clef_session_encode(s, source, n_source, &err), &err);
        ok(clef_session_generate(s, start, 1, 0, NULL, &err), &err);
        for (int32_t i = 0; i < n; i++) {
            ok(clef_session_next(s, &id, &err), &err);
            assert_int_equal(id, want[i]);
        }
        ok(clef_session_next(s, &id, &err), &err);
        assert_int_equal(id, clef_model_hparams(t5)->eos);
    }
    check_error("long", clef_session_encode(s, source, LONGEST + 1, &err), &err, CLEF_E_LIMIT,
                "a source of 25 tokens");
    check_error("none", clef_session_encode(s, source, 0, &err), &err, CLEF_E_ARG, "a source of 0 tokens");
    source[1] = 999;
    check_error("id", clef_session_encode(s, source, 3, &err), &err, CLEF_E_ARG,
                "token 1 of the source is 999");
    clef_session_destroy(s);
}

static void check_beams(clef_session *s, const json_t *want)
{
    const clef_beam_opts opts = {
        .n_beams = (int32_t)json_integer_value(json_object_get(want, "n_beams")),
        .length_penalty = (float)json_number_value(json_object_get(want, "length_penalty")),
        .early_stopping = (int32_t)json_integer_value(json_object_get(want, "early_stopping")),
        .n_best = (int32_t)json_integer_value(json_object_get(want, "n_best")),
        .n_max = (int32_t)json_integer_value(json_object_get(want, "n_max")),
    };
    int32_t start[2], n_best, ids[LONGEST];
    clef_error err = {0};
    clef_hypothesis *best;
    const int32_t n_start = clef_session_start(s, start);
    ok(clef_session_beams(s, start, n_start, &opts, &best, &n_best, &err), &err);
    assert_int_equal(n_best, opts.n_best);
    for (int32_t i = 0; i < n_best; i++) {
        const int32_t n = ids_of(json_array_get(json_object_get(want, "ids"), (size_t)i), ids, LONGEST);
        assert_int_equal(best[i].n, n);
        assert_memory_equal(best[i].ids, ids, (size_t)n * sizeof *ids);
        assert_true(fabs((double)best[i].score / number(json_object_get(want, "scores"), (size_t)i) - 1) <
                    1e-4);
        assert_int_equal(best[i].ended, n < opts.n_max);
    }
    clef_hypotheses_free(best, n_best);
}

TEST(beams_are_pytorchs)
{
    int32_t source[LONGEST], n_best;
    clef_error err = {0};
    clef_session *s;
    clef_hypothesis *best;
    const int32_t n_source = ids_of(wanted("source"), source, LONGEST);
    ok(clef_session_create(dev, t5, &(clef_session_opts){.n_context = 32, .n_source = LONGEST, .n_beams = 5},
                           &s, &err),
       &err);
    ok(clef_session_encode(s, source, n_source, &err), &err);
    for (size_t i = 0; i < json_array_size(wanted("beams")); i++)
        check_beams(s, json_array_get(wanted("beams"), i));
    check_error(
        "best",
        clef_session_beams(s, source, 1, &(clef_beam_opts){.n_beams = 2, .n_best = 3}, &best, &n_best, &err),
        &err, CLEF_E_ARG, "the best 3 of 2");
    check_error("beams",
                clef_session_beams(s, source, 1, &(clef_beam_opts){.n_beams = 6}, &best, &n_best, &err), &err,
                CLEF_E_ARG, "the session was made for 5");
    check_error(
        "penalty",
        clef_session_beams(s, source, 1, &(clef_beam_opts){.length_penalty = NAN}, &best, &n_best, &err),
        &err, CLEF_E_ARG, "length penalty");
    check_error("sample", clef_session_generate(s, source, 1, 0, NULL, &err), &err, CLEF_E_ARG,
                "made for beams");
    clef_session_destroy(s);
    check_error("many", clef_session_create(dev, t5, &(clef_session_opts){.n_beams = 33}, &s, &err), &err,
                CLEF_E_ARG, "33 beams");
}

/* A decoder searches, too: with one beam it finds what greedy decoding finds, whatever the prompt's length.
 */
static clef_status stop_at_third(void *user, clef_error *err)
{
    int *n = user;
    (void)err;
    return ++*n == 3 ? CLEF_E_CANCELLED : CLEF_OK;
}

TEST(beams_of_a_decoder)
{
    enum { N = 9, N_NEW = 12 };
    const int32_t prompt[N] = {48, 45, 43, 35, 45, 26, 198, 7, 300};
    clef_error err = {0};
    clef_model *demo;
    clef_session *s;
    clef_hypothesis *best;
    int32_t n_best, id, start[2];
    ok(clef_model_open(CLEF_SOURCE_DIR "/share/demo", &demo, &err), &err);
    ok(clef_session_create(dev, demo, &(clef_session_opts){.n_context = 64, .n_batch = 4, .n_beams = 3}, &s,
                           &err),
       &err);
    check_error("source", clef_session_encode(s, prompt, 2, &err), &err, CLEF_E_UNSUPPORTED,
                "not an encoder-decoder");
    assert_int_equal(clef_session_start(s, start), 0);
    const clef_beam_opts one = {.n_beams = 1, .length_penalty = 1, .n_max = N_NEW, .ignore_eos = 1},
                         three = {.length_penalty = 1, .n_max = N_NEW, .ignore_eos = 1};
    float greedy_score, score;
    ok(clef_session_beams(s, prompt, N, &three, &best, &n_best, &err), &err);
    score = best->score;
    clef_hypotheses_free(best, n_best);
    int n_steps = 0;
    clef_beam_opts reported = three;
    reported.step = stop_at_third;
    reported.step_user = &n_steps;
    assert_int_equal(clef_session_beams(s, prompt, N, &reported, &best, &n_best, &err), CLEF_E_CANCELLED);
    assert_null(best);
    assert_int_equal(n_steps, 3);
    n_steps = 3; /* never again */
    ok(clef_session_beams(s, prompt, N, &reported, &best, &n_best, &err), &err);
    assert_int_equal(n_steps, 3 + N_NEW);
    clef_hypotheses_free(best, n_best);
    ok(clef_session_beams(s, prompt, N, &one, &best, &n_best, &err), &err);
    greedy_score = best->score;
    clef_session_destroy(s);
    ok(clef_session_create(dev, demo, &(clef_session_opts){.n_context = 64}, &s, &err), &err);
    ok(clef_session_generate(s, prompt, N, N_NEW, NULL, &err), &err);
    for (int i = 0; i < N_NEW; i++) {
        ok(clef_session_next(s, &id, &err), &err);
        assert_int_equal(id, best->ids[i]);
    }
    assert_true(score >= greedy_score);
    clef_hypotheses_free(best, n_best);
    clef_session_destroy(s);
    clef_model_close(demo);
}

static int setup(void **state)
{
    clef_error err = {0};
    json_error_t why;
    expected = json_load_file(CLEF_SOURCE_DIR "/tests/fixtures/tiny.json", 0, &why);
    dev = test_device();
    if (clef_model_open(CLEF_SOURCE_DIR "/tests/fixtures/tiny-bert", &bert, &err) ||
        clef_model_open(CLEF_SOURCE_DIR "/tests/fixtures/tiny-t5", &t5, &err))
        fprintf(stderr, "%s\n", err.text);
    const json_t *list = json_object_get(expected, "texts");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        texts[n_texts++] = (clef_span){text, strlen(text)};
    }
    return !expected || !dev || !bert || !t5 || make_temp_dir(state);
}

static int teardown(void **state)
{
    clef_model_close(bert);
    clef_model_close(t5);
    clef_device_close(dev);
    json_decref(expected);
    return remove_temp_dir(state);
}

TESTS(setup, teardown)

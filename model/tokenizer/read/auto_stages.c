/* The model and the stages of each class of transformers (models/NAME/tokenization_NAME.py of 5.24). A class
 * takes the vocabulary and the merges from a file and makes everything else itself: what tokenizer.json says
 * of stages does not count. */
#include <stdio.h>
#include <string.h>

#include "model/tokenizer/read/auto.h"

/* ---- settings of tokenizer_config.json */

/* A flag; null counts as missing. */
static int read_flag(clef__auto *a, const char *key, int missing, clef_status *st)
{
    const json_t *value = json_object_get(a->config, key);
    if (!value || json_is_null(value))
        return missing;
    if (!json_is_boolean(value) && *st == CLEF_OK)
        *st = clef__fail(a->err, CLEF_E_FORMAT, "%s: tokenizer_config.json: %s is %s, expected true or false",
                         a->path, key, clef__json_kind(value));
    return json_is_true(value);
}

static void name_default(clef__auto *a, const char *role, const char *text)
{
    if (!json_object_get(a->named, role))
        json_object_set_new(a->named, role, json_string(text));
}

/* A role's text may be an object in the class, with spaces before it taken or not. */
static void name_as_object(clef__auto *a, const char *role, int lstrip)
{
    const json_t *token = json_object_get(a->named, role);
    if (json_is_string(token))
        json_object_set_new(a->named, role,
                            json_pack("{s:s, s:b}", "content", json_string_value(token), "lstrip", lstrip));
}

/* Names tokens of the class, before those that the files name. */
static void name_specific(clef__auto *a, const char *const tokens[][2], size_t n)
{
    json_t *all = json_object();
    for (size_t i = 0; i < n; i++)
        json_object_set_new(all, tokens[i][0], json_string(tokens[i][1]));
    json_object_update(all, a->specific);
    json_decref(a->specific);
    a->specific = all;
}

/* ---- stages */

static json_t *byte_level(int prefix, int regex)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", prefix, "trim_offsets",
                     1, "use_regex", regex);
}

static json_t *metaspace(const char *scheme, int splits)
{
    return json_pack("{s:s, s:s, s:s, s:b}", "type", "Metaspace", "replacement", CLEF_META_SPACE,
                     "prepend_scheme", scheme, "split", splits);
}

static json_t *plain(const char *type)
{
    return json_pack("{s:s}", "type", type);
}

static json_t *replace(const char *kind, const char *pattern, const char *by)
{
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", kind, pattern, "content", by);
}

static json_t *split(const char *kind, const char *pattern, const char *behavior)
{
    return json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", kind, pattern, "behavior",
                     behavior, "invert", 0);
}

/* A Sequence of a list; an empty list is not a stage. */
static json_t *sequence(const char *key, json_t *list)
{
    return json_pack("{s:s, s:o}", "type", "Sequence", key, list);
}

static json_t *two(const char *key, json_t *first, json_t *second)
{
    return sequence(key, json_pack("[o, o]", first, second));
}

/* U+2581 to spaces, bytes to characters, and one space less before the text. */
static json_t *llama_decoder(int fallback, int fuse, int strip)
{
    json_t *list = json_pack("[o]", replace("String", CLEF_META_SPACE, " "));
    if (fallback)
        json_array_append_new(list, plain("ByteFallback"));
    if (fuse)
        json_array_append_new(list, plain("Fuse"));
    if (strip)
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ", "start", 1, "stop", 0));
    return sequence("decoders", list);
}

static void put(clef__auto *a, const char *key, json_t *stage)
{
    json_object_set_new(a->root, key, stage);
}

static void put_bytes(clef__auto *a, int prefix)
{
    put(a, "pre_tokenizer", byte_level(prefix, 1));
    put(a, "decoder", byte_level(1, 1));
}

static void put_words(clef__auto *a, int prefix)
{
    const char *scheme = prefix ? "always" : "never";
    put(a, "pre_tokenizer", two("pretokenizers", plain("WhitespaceSplit"), metaspace(scheme, 1)));
    put(a, "decoder", metaspace(scheme, 1));
}

/* ---- models */

static json_t *make_bpe(clef__auto *a, const char *unk, int fuse_unk, int byte_fallback)
{
    json_t *model = clef__auto_bpe(a);
    if (model)
        json_object_update_new(model, json_pack("{s:s, s:s?, s:b, s:b, s:b}", "type", "BPE", "unk_token", unk,
                                                "fuse_unk", fuse_unk, "byte_fallback", byte_fallback,
                                                "ignore_merges", 0));
    return model;
}

static json_t *make_unigram(clef__auto *a, int unk_id)
{
    json_t *model = clef__auto_unigram(a);
    if (model)
        json_object_update_new(
            model, json_pack("{s:s, s:i, s:b}", "type", "Unigram", "unk_id", unk_id, "byte_fallback", 0));
    return model;
}

static clef_status set_model(clef__auto *a, json_t *model)
{
    if (!model)
        return a->err && a->err->text[0] ? a->err->status : CLEF_E_FORMAT;
    put(a, "model", model);
    return CLEF_OK;
}

/* ---- classes */

static clef_status make_bert(clef__auto *a)
{
    clef_status st = CLEF_OK;
    const json_t *accents = json_object_get(a->config, "strip_accents");
    const int lowercase = read_flag(a, "do_lower_case", 1, &st),
              cjk = read_flag(a, "tokenize_chinese_chars", 1, &st);
    const int strips = read_flag(a, "strip_accents", 0, &st);
    if (st)
        return st;
    name_default(a, "unk_token", "[UNK]");
    if (a->kind == CLEF_AUTO_MPNET) {
        name_default(a, "bos_token", "<s>"), name_default(a, "eos_token", "</s>");
        name_default(a, "sep_token", "</s>"), name_default(a, "cls_token", "<s>");
        name_default(a, "pad_token", "<pad>"), name_default(a, "mask_token", "<mask>");
        name_as_object(a, "mask_token", 1);
    } else {
        name_default(a, "sep_token", "[SEP]"), name_default(a, "pad_token", "[PAD]");
        name_default(a, "cls_token", "[CLS]"), name_default(a, "mask_token", "[MASK]");
    }
    put(a, "normalizer",
        json_pack("{s:s, s:b, s:b, s:o, s:b}", "type", "BertNormalizer", "clean_text", 1,
                  "handle_chinese_chars", cjk, "strip_accents",
                  json_is_boolean(accents) ? json_boolean(strips) : json_null(), "lowercase", lowercase));
    put(a, "pre_tokenizer", plain("BertPreTokenizer"));
    put(a, "decoder", json_pack("{s:s, s:s, s:b}", "type", "WordPiece", "prefix", "##", "cleanup", 1));
    return set_model(a, clef__auto_wordpiece(a));
}

static clef_status make_gpt2(clef__auto *a)
{
    static const char *const end[] = {"unk_token", "bos_token", "eos_token"};
    clef_status st = CLEF_OK;
    const int prefix = read_flag(a, "add_prefix_space", 0, &st);
    if (st)
        return st;
    for (size_t i = 0; i < 3; i++)
        name_default(a, end[i], "<|endoftext|>");
    if (a->kind == CLEF_AUTO_GPT_NEOX) {
        name_default(a, "pad_token", "<|padding|>");
        put(a, "normalizer", plain("NFC"));
    }
    put_bytes(a, prefix);
    return set_model(a, make_bpe(a, NULL, 0, 0));
}

static void name_roberta(clef__auto *a)
{
    name_default(a, "bos_token", "<s>"), name_default(a, "eos_token", "</s>");
    name_default(a, "sep_token", "</s>"), name_default(a, "cls_token", "<s>");
    name_default(a, "unk_token", "<unk>"), name_default(a, "pad_token", "<pad>");
    name_default(a, "mask_token", "<mask>");
}

static clef_status make_roberta(clef__auto *a)
{
    clef_status st = CLEF_OK;
    const int prefix = read_flag(a, "add_prefix_space", a->kind == CLEF_AUTO_BLENDERBOT, &st);
    if (st)
        return st;
    name_roberta(a);
    if (a->kind == CLEF_AUTO_BLENDERBOT)
        name_as_object(a, "mask_token", 1);
    put_bytes(a, prefix);
    return set_model(a, make_bpe(a, NULL, 0, 0));
}

static clef_status make_llama(clef__auto *a)
{
    static const char *const code_tokens[][2] = {{"prefix_token", CLEF_META_SPACE "<PRE>"},
                                                 {"middle_token", CLEF_META_SPACE "<MID>"},
                                                 {"suffix_token", CLEF_META_SPACE "<SUF>"},
                                                 {"eot_token", CLEF_META_SPACE "<EOT>"},
                                                 {"fill_token", "<FILL_ME>"}};
    const int is_code = a->kind == CLEF_AUTO_CODE_LLAMA;
    clef_status st = CLEF_OK;
    const int prefix = read_flag(a, "add_prefix_space", 1, &st),
              legacy = read_flag(a, "legacy", 0, &st) && !is_code;
    if (st)
        return st;
    name_default(a, "unk_token", "<unk>"), name_default(a, "bos_token", "<s>"),
        name_default(a, "eos_token", "</s>");
    if (is_code)
        name_specific(a, code_tokens, 5);
    put(a, "pre_tokenizer", metaspace(!prefix ? "never" : legacy ? "always" : "first", 0));
    put(a, "decoder", llama_decoder(1, 1, prefix || is_code));
    return set_model(a, make_bpe(a, is_code ? clef__auto_named(a, "unk_token") : NULL, 1, 1));
}

static clef_status make_gemma(clef__auto *a)
{
    name_default(a, "unk_token", "<unk>"), name_default(a, "bos_token", "<bos>");
    name_default(a, "eos_token", "<eos>"), name_default(a, "pad_token", "<pad>");
    name_default(a, "mask_token", "<mask>");
    put(a, "normalizer", replace("String", " ", CLEF_META_SPACE));
    put(a, "pre_tokenizer", split("String", " ", "MergedWithPrevious"));
    put(a, "decoder", llama_decoder(1, 1, 0));
    return set_model(a, make_bpe(a, clef__auto_named(a, "unk_token"), 1, 1));
}

static clef_status make_qwen2(clef__auto *a)
{
    static const char *const end[] = {"unk_token", "eos_token", "pad_token"};
    static const char qwen2[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
                                "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    static const char qwen3_5[] =
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "
        "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    clef_status st = CLEF_OK;
    const int prefix = read_flag(a, "add_prefix_space", 0, &st);
    if (st)
        return st;
    for (size_t i = 0; i < 3; i++)
        name_default(a, end[i], "<|endoftext|>");
    put(a, "normalizer", plain("NFC"));
    put(a, "pre_tokenizer",
        two("pretokenizers", split("Regex", a->kind == CLEF_AUTO_QWEN2 ? qwen2 : qwen3_5, "Isolated"),
            byte_level(prefix, 0)));
    put(a, "decoder", byte_level(1, 1));
    return set_model(a, make_bpe(a, NULL, 0, 0));
}

static clef_status make_cohere(clef__auto *a)
{
    clef_status st = CLEF_OK;
    const int prefix = read_flag(a, "add_prefix_space", 0, &st);
    if (st)
        return st;
    name_default(a, "unk_token", "<UNK>"), name_default(a, "bos_token", "<BOS_TOKEN>");
    name_default(a, "eos_token", "<|END_OF_TURN_TOKEN|>"), name_default(a, "pad_token", "<PAD>");
    name_default(a, "cls_token", "<CLS>"), name_default(a, "sep_token", "<SEP>");
    name_default(a, "mask_token", "<MASK_TOKEN>");
    put(a, "normalizer", plain("NFC"));
    put(a, "pre_tokenizer",
        two("pretokenizers", json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", 1),
            byte_level(prefix, 1)));
    put(a, "decoder", byte_level(prefix, 1));
    return set_model(a, make_bpe(a, NULL, 0, 0));
}

/* The charsmap of the file, in base64; NULL: it has none. */
static const char *charsmap_of(const clef__auto *a)
{
    const json_t *normalizer = json_object_get(a->file, "normalizer"), *stage = normalizer;
    const json_t *list = json_object_get(normalizer, "normalizers");
    if (a->spm) {
        const char *text = json_string_value(json_object_get(a->spm, "charsmap"));
        return text && *text ? text : NULL;
    }
    for (size_t i = 0; json_is_object(stage); i++) {
        const char *type = json_string_value(json_object_get(stage, "type")),
                   *map = json_string_value(json_object_get(stage, "precompiled_charsmap"));
        if (type && strcmp(type, "Precompiled") == 0 && map)
            return map;
        stage = json_array_get(list, i);
    }
    return NULL;
}

static json_t *precompiled(const char *map)
{
    return json_pack("{s:s, s:s}", "type", "Precompiled", "precompiled_charsmap", map);
}

static clef_status make_t5(clef__auto *a)
{
    const json_t *extra_ids = json_object_get(a->config, "extra_ids");
    const json_int_t n = json_is_number(extra_ids) ? (json_int_t)json_number_value(extra_ids) : 100;
    clef_status st = clef__auto_extra_ids(a, n);
    if (st)
        return st;
    name_default(a, "eos_token", "</s>"), name_default(a, "unk_token", "<unk>"),
        name_default(a, "pad_token", "<pad>");
    if (charsmap_of(a))
        put(a, "normalizer", precompiled(charsmap_of(a)));
    put_words(a, 1);
    return set_model(a, make_unigram(a, 2));
}

static clef_status make_xlm_roberta(clef__auto *a)
{
    clef_status st = CLEF_OK;
    const int prefix = read_flag(a, "add_prefix_space", 1, &st);
    if (st)
        return st;
    name_roberta(a);
    if (charsmap_of(a))
        put(a, "normalizer", precompiled(charsmap_of(a)));
    put_words(a, prefix);
    return set_model(a, make_unigram(a, 3));
}

static clef_status make_albert(clef__auto *a)
{
    clef_status st = CLEF_OK;
    const int prefix = read_flag(a, "add_prefix_space", 1, &st),
              lowercase = read_flag(a, "do_lower_case", 1, &st);
    const int keeps = read_flag(a, "keep_accents", 0, &st);
    json_t *list = json_pack("[o, o]", replace("String", "``", "\""), replace("String", "''", "\""));
    if (!keeps)
        json_array_append_new(list, plain("NFKD")), json_array_append_new(list, plain("StripAccents"));
    if (lowercase)
        json_array_append_new(list, plain("Lowercase"));
    if (charsmap_of(a))
        json_array_append_new(list, precompiled(charsmap_of(a)));
    put(a, "normalizer", sequence("normalizers", list));
    if (st)
        return st;
    name_default(a, "bos_token", "[CLS]"), name_default(a, "eos_token", "[SEP]");
    name_default(a, "unk_token", "<unk>"), name_default(a, "sep_token", "[SEP]");
    name_default(a, "pad_token", "<pad>"), name_default(a, "cls_token", "[CLS]");
    name_default(a, "mask_token", "[MASK]");
    put_words(a, prefix);
    return set_model(a, make_unigram(a, 1));
}

/* ---- translation and speech */

/* Adds the language codes to the special tokens, or names them where the files name none. */
static void name_languages(clef__auto *a)
{
    char code[16];
    if (a->kind == CLEF_AUTO_NLLB && a->additional)
        return;
    if (!a->additional)
        a->additional = json_array();
    for (const char *at = clef__auto_languages(a->kind), *end; (end = strchr(at, ' ')); at = end + 1) {
        snprintf(code, sizeof code, "%.*s", (int)(end - at), at);
        json_array_append_new(a->additional, json_string(code));
    }
}

/* The charsmap, and one space for several; without a charsmap what is given, or none. */
static void put_squeezed(clef__auto *a, json_t *without)
{
    json_t *first = charsmap_of(a) ? precompiled(charsmap_of(a)) : without;
    if (first)
        put(a, "normalizer", two("normalizers", first, replace("Regex", " {2,}", " ")));
    if (first != without)
        json_decref(without);
    put(a, "pre_tokenizer", metaspace("always", 1));
    put(a, "decoder", metaspace("always", 1));
}

static clef_status make_nllb(clef__auto *a)
{
    name_roberta(a);
    if (json_is_string(json_object_get(a->named, "mask_token")))
        json_object_set_new(a->named, "mask_token",
                            clef__auto_token(clef__auto_named(a, "mask_token"), 1, 1, 1));
    name_languages(a);
    put_squeezed(a, NULL);
    return set_model(a, make_bpe(a, clef__auto_named(a, "unk_token"), 1, 0));
}

/* The place of a text in the file's vocabulary of [text, score], from one on; -1: none. */
static int find_piece(const clef__auto *a, const char *text, size_t from)
{
    const json_t *vocab = json_object_get(json_object_get(a->file, "model"), "vocab");
    for (size_t i = from; text && i < json_array_size(vocab); i++) {
        const char *piece = json_string_value(json_array_get(json_array_get(vocab, i), 0));
        if (piece && strcmp(piece, text) == 0)
            return (int)i;
    }
    return -1;
}

static clef_status make_mbart(clef__auto *a)
{
    const json_t *bos = json_object_get(a->named, "bos_token");
    name_roberta(a);
    if (a->kind == CLEF_AUTO_MBART50 && !bos)
        json_object_del(a->named, "bos_token");
    name_as_object(a, "mask_token", 1);
    name_languages(a);
    if (a->kind == CLEF_AUTO_MBART) {
        put_words(a, 1);
        return set_model(a, make_unigram(a, 3));
    }
    put_squeezed(a, replace("Regex", " {2,}", " "));
    for (size_t i = 0; i < json_array_size(a->additional); i++)
        if (find_piece(a, clef__auto_text(json_array_get(a->additional, i)), 0) >= 0)
            return set_model(a, make_unigram(a, 3));
    return clef__fail(a->err, CLEF_E_UNSUPPORTED, "%s: %s expects a vocabulary with language codes", a->path,
                      a->class_name);
}

static clef_status make_pegasus(clef__auto *a)
{
    const json_t *offset = json_object_get(a->config, "offset");
    const json_int_t n = json_is_integer(offset) ? json_integer_value(offset) : 103;
    const json_t *sent = json_object_get(a->config, "mask_token_sent");
    char text[40];
    name_default(a, "pad_token", "<pad>"), name_default(a, "eos_token", "</s>");
    name_default(a, "unk_token", "<unk>"), name_default(a, "mask_token", "<mask_2>");
    json_decref(a->additional);
    a->additional = json_array();
    if (!json_is_null(sent) && clef__auto_text(sent))
        json_array_append_new(a->additional, json_string(clef__auto_text(sent)));
    else if (!sent)
        json_array_append_new(a->additional, json_string("<mask_1>"));
    for (json_int_t i = 2; i < n && i < 10000; i++) {
        snprintf(text, sizeof text, "<unk_%lld>", (long long)i);
        json_array_append_new(a->additional, json_string(text));
    }
    put_squeezed(a, replace("Regex", "\\n", " "));
    const int unk = find_piece(a, clef__auto_named(a, "unk_token"), 1);
    return unk < 0 ? clef__fail(a->err, CLEF_E_UNSUPPORTED,
                                "%s: %s expects its unk_token in the vocabulary, after the first piece",
                                a->path, a->class_name)
                   : set_model(a, make_unigram(a, unk));
}

static clef_status make_camembert(clef__auto *a)
{
    clef_status st = CLEF_OK;
    const int prefix = read_flag(a, "add_prefix_space", 1, &st);
    if (st)
        return st;
    name_roberta(a);
    name_as_object(a, "mask_token", 1);
    if (!a->additional)
        a->additional = json_pack("[s, s, s]", "<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED");
    if (charsmap_of(a))
        put(a, "normalizer", precompiled(charsmap_of(a)));
    put_words(a, prefix);
    const int unk = find_piece(a, clef__auto_named(a, "unk_token"), 0);
    return set_model(a, make_unigram(a, unk < 0 ? 0 : unk));
}

static clef_status make_whisper(clef__auto *a)
{
    static const char *const end[] = {"unk_token", "bos_token", "eos_token"};
    clef_status st = CLEF_OK;
    const int prefix = read_flag(a, "add_prefix_space", 0, &st);
    for (size_t i = 0; i < 3; i++)
        name_default(a, end[i], "<|endoftext|>");
    put_bytes(a, prefix);
    return st ? st : set_model(a, make_bpe(a, NULL, 0, 0));
}

/* ---- no class: SentencePiece's own settings (SpmConverter.build_tokenizer_from_spm_proto) */

static int spm_flag(const clef__auto *a, const char *key)
{
    return json_is_true(json_object_get(a->spm, key));
}

/* The model and stages of a SentencePiece file. */
static clef_status make_spm(clef__auto *a)
{
    clef_status st = CLEF_OK;
    const int legacy = read_flag(a, "legacy", 1, &st), prefix = spm_flag(a, "add_prefix");
    const int fallback = spm_flag(a, "byte_fallback");
    json_t *list = json_array(), *pre = json_array(), *model = NULL;
    const char *map = charsmap_of(a), *names[] = {"bos", "eos", "unk"};
    for (size_t i = 0; i < 3; i++) {
        char piece[16], role[16];
        strcat(strcpy(piece, names[i]), "_piece"), strcat(strcpy(role, names[i]), "_token");
        if (json_object_get(a->spm, piece))
            name_default(a, role, json_string_value(json_object_get(a->spm, piece)));
    }
    if (map)
        json_array_append_new(list, precompiled(map));
    if (spm_flag(a, "squeeze")) {
        json_array_append_new(list, replace("Regex", "\\A +| +\\z", ""));
        json_array_append_new(list, replace("Regex", " {2,}", " "));
    }
    if (spm_flag(a, "escape"))
        json_array_append_new(list, replace("String", " ", CLEF_META_SPACE));
    if (prefix && legacy)
        json_array_append_new(list, replace("Regex", "\\A" CLEF_META_SPACE, CLEF_META_SPACE CLEF_META_SPACE));
    if (prefix)
        json_array_append_new(pre, metaspace(legacy ? "always" : "first", 0));
    if (st == CLEF_OK)
        st = clef__auto_spm_model(a, &model, pre);
    put(a, "normalizer", sequence("normalizers", list));
    put(a, "pre_tokenizer", sequence("pretokenizers", pre));
    put(a, "decoder", llama_decoder(fallback, prefix || fallback, prefix));
    return st ? st : set_model(a, model);
}

static clef_status make_backend(clef__auto *a)
{
    if (a->source == CLEF_SOURCE_SPM)
        return make_spm(a);
    json_decref(a->root);
    a->root = a->source == CLEF_SOURCE_JSON ? json_copy(a->file) : NULL;
    return CLEF_OK;
}

/* Without another one, the token of tokenizer.json's padding is the pad_token; GPT-2's class has none. */
static void name_padding(clef__auto *a)
{
    const char *text = json_string_value(json_object_get(json_object_get(a->file, "padding"), "pad_token"));
    if (text && a->kind != CLEF_AUTO_GPT2)
        name_default(a, "pad_token", text);
}

clef_status clef__auto_stages(clef__auto *a)
{
    static clef_status (*const make[])(clef__auto * a) = {
        [CLEF_AUTO_BACKEND] = make_backend,
        [CLEF_AUTO_BERT] = make_bert,
        [CLEF_AUTO_MPNET] = make_bert,
        [CLEF_AUTO_GPT2] = make_gpt2,
        [CLEF_AUTO_GPT_NEOX] = make_gpt2,
        [CLEF_AUTO_ROBERTA] = make_roberta,
        [CLEF_AUTO_BLENDERBOT] = make_roberta,
        [CLEF_AUTO_LLAMA] = make_llama,
        [CLEF_AUTO_CODE_LLAMA] = make_llama,
        [CLEF_AUTO_GEMMA] = make_gemma,
        [CLEF_AUTO_COHERE] = make_cohere,
        [CLEF_AUTO_QWEN2] = make_qwen2,
        [CLEF_AUTO_QWEN3_5] = make_qwen2,
        [CLEF_AUTO_T5] = make_t5,
        [CLEF_AUTO_XLM_ROBERTA] = make_xlm_roberta,
        [CLEF_AUTO_ALBERT] = make_albert,
        [CLEF_AUTO_NLLB] = make_nllb,
        [CLEF_AUTO_MBART] = make_mbart,
        [CLEF_AUTO_MBART50] = make_mbart,
        [CLEF_AUTO_PEGASUS] = make_pegasus,
        [CLEF_AUTO_CAMEMBERT] = make_camembert,
        [CLEF_AUTO_WHISPER] = make_whisper,
    };
    clef_status st = CLEF_OK;
    a->root = json_object();
    if (a->source == CLEF_SOURCE_SPM)
        st = clef__auto_read_spm(a);
    if (st == CLEF_OK && a->source == CLEF_SOURCE_JSON && a->kind != CLEF_AUTO_BACKEND &&
        !json_is_null(json_object_get(a->file, "post_processor")) &&
        json_object_get(a->file, "post_processor"))
        json_object_set(a->root, "post_processor", json_object_get(a->file, "post_processor"));
    if (st == CLEF_OK)
        st = make[a->kind](a);
    if (st == CLEF_OK)
        name_padding(a);
    return st;
}

/* SentencePiece's tokenizer.model: reads the few fields of sentencepiece_model.proto that encoding needs
 * (https://protobuf.dev/programming-guides/encoding). */
#include <stdlib.h>
#include <string.h>

#include "model/tokenizer/read/formats.h"
#include "runtime/os/os.h"

/* The bytes of one message that are not read yet. */
typedef struct proto {
    const uint8_t *at;
    size_t n;
    int bad;
} proto;

typedef struct proto_field {
    uint64_t number;
    unsigned wire;  /* 0 varint, 1 and 5 fixed, 2 bytes */
    uint64_t value; /* varint and fixed */
    proto bytes;
} proto_field;

static uint64_t read_varint(proto *p)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && p->n > 0; shift += 7) {
        const uint8_t byte = *p->at++;
        p->n--;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return value;
    }
    p->bad = 1;
    return 0;
}

static uint64_t read_fixed(proto *p, size_t size)
{
    uint64_t value = 0;
    if (size > p->n) {
        p->bad = 1;
        return 0;
    }
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)p->at[i] << (8 * i);
    p->at += size;
    p->n -= size;
    return value;
}

/* Reads the next field. Returns 0 at the end, or when the message is malformed (p->bad). */
static int next_field(proto *p, proto_field *out)
{
    if (p->bad || p->n == 0)
        return 0;
    const uint64_t key = read_varint(p);
    *out = (proto_field){.number = key >> 3, .wire = (unsigned)(key & 7)};
    if (out->wire == 0) {
        out->value = read_varint(p);
    } else if (out->wire == 1 || out->wire == 5) {
        out->value = read_fixed(p, out->wire == 1 ? 8 : 4);
    } else if (out->wire == 2) {
        const uint64_t size = read_varint(p);
        if (size > p->n) {
            p->bad = 1;
        } else {
            out->bytes = (proto){.at = p->at, .n = (size_t)size};
            p->at += size;
            p->n -= (size_t)size;
        }
    } else {
        p->bad = 1;
    }
    return !p->bad;
}

static double as_float(uint64_t value)
{
    const uint32_t bits = (uint32_t)value;
    float number;
    memcpy(&number, &bits, sizeof number);
    return (double)number;
}

/* Everything in the file except its pieces; the initial values are the format's defaults. */
typedef struct spm_spec {
    int64_t model_type, unk, bos, eos, pad, byte_fallback, suffix_space;
    int64_t n_pieces;
    const char *charsmap;
    size_t n_charsmap, n_rules;
    clef__spm_spaces spaces;
    int bad;
} spm_spec;

static void read_trainer(proto p, spm_spec *spec)
{
    for (proto_field f; next_field(&p, &f);) {
        const int64_t value = (int64_t)f.value;
        int64_t *const to = f.number == 3    ? &spec->model_type
                            : f.number == 24 ? &spec->suffix_space
                            : f.number == 35 ? &spec->byte_fallback
                            : f.number == 40 ? &spec->unk
                            : f.number == 41 ? &spec->bos
                            : f.number == 42 ? &spec->eos
                            : f.number == 43 ? &spec->pad
                                             : NULL;
        if (to && f.wire == 0)
            *to = value;
    }
    spec->bad |= p.bad;
}

static void read_normalizer(proto p, spm_spec *spec)
{
    for (proto_field f; next_field(&p, &f);) {
        if (f.number == 2 && f.wire == 2) {
            spec->charsmap = (const char *)f.bytes.at;
            spec->n_charsmap = f.bytes.n;
        } else if (f.number == 3 && f.wire == 0) {
            spec->spaces.add_prefix = f.value != 0;
        } else if (f.number == 4 && f.wire == 0) {
            spec->spaces.squeeze = f.value != 0;
        } else if (f.number == 5 && f.wire == 0) {
            spec->spaces.escape = f.value != 0;
        }
    }
    spec->bad |= p.bad;
}

static void read_denormalizer(proto p, spm_spec *spec)
{
    for (proto_field f; next_field(&p, &f);)
        if (f.number == 2 && f.wire == 2)
            spec->n_rules += f.bytes.n;
    spec->bad |= p.bad;
}

enum { SPM_UNIGRAM = 1, SPM_BPE = 2 };

static clef_status check_spec(const spm_spec *spec, const char *name, clef_error *err)
{
    static const char *const types[] = {"?", "Unigram", "BPE", "Word", "Char"};
    if (spec->bad || spec->n_pieces == 0)
        return clef__fail(err, CLEF_E_FORMAT, "%s: no SentencePiece model (%s)", name,
                          spec->bad ? "a field ends beyond its message" : "it has no pieces");
    if (spec->model_type != SPM_UNIGRAM && spec->model_type != SPM_BPE)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: SentencePiece model type %s (%lld) is not supported; known: Unigram, BPE",
                          name, types[spec->model_type >= 1 && spec->model_type <= 4 ? spec->model_type : 0],
                          (long long)spec->model_type);
    if (spec->n_rules > 0)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: a SentencePiece denormalizer is not supported", name);
    if (spec->suffix_space)
        return clef__fail(err, CLEF_E_UNSUPPORTED,
                          "%s: SentencePiece's treat_whitespace_as_suffix is not supported", name);
    return CLEF_OK;
}

static clef_status read_piece(clef_tokenizer *tok, int32_t id, proto p, clef_error *err)
{
    const char *text = "";
    size_t n = 0;
    double score = 0;
    int64_t type = CLEF_PIECE_NORMAL;
    for (proto_field f; next_field(&p, &f);) {
        if (f.number == 1 && f.wire == 2) {
            text = (const char *)f.bytes.at;
            n = f.bytes.n;
        } else if (f.number == 2 && f.wire == 5) {
            score = as_float(f.value);
        } else if (f.number == 3 && f.wire == 0) {
            type = (int64_t)f.value;
        }
    }
    if (p.bad)
        return clef__fail(err, CLEF_E_FORMAT, "SentencePiece: a field of piece %d ends beyond it", id);
    return clef__spm_piece(tok, id, text, n, type, score, err);
}

static int32_t id_or_none(const clef_tokenizer *tok, int64_t id)
{
    return id >= 0 && id < tok->vocab.n_tokens ? (int32_t)id : -1;
}

clef_status clef__tokenizer_parse_spm(clef_tokenizer *tok, const void *data, size_t n, const char *name,
                                      clef_error *err)
{
    spm_spec spec = {.model_type = SPM_UNIGRAM,
                     .bos = 1,
                     .eos = 2,
                     .pad = -1,
                     .spaces = {.add_prefix = 1, .squeeze = 1, .escape = 1}};
    proto root = {.at = data, .n = n};
    for (proto_field f; next_field(&root, &f);) {
        spec.n_pieces += f.number == 1 && f.wire == 2;
        if (f.number == 2 && f.wire == 2)
            read_trainer(f.bytes, &spec);
        else if (f.number == 3 && f.wire == 2)
            read_normalizer(f.bytes, &spec);
        else if (f.number == 5 && f.wire == 2)
            read_denormalizer(f.bytes, &spec);
    }
    spec.bad |= root.bad;
    clef_status st = check_spec(&spec, name, err);
    if (st == CLEF_OK)
        st = clef__vocab_reserve(&tok->vocab, spec.n_pieces, err);
    if (st)
        return st;
    const clef__spm_opts opts = {.unigram = spec.model_type == SPM_UNIGRAM,
                                 .byte_fallback = spec.byte_fallback != 0,
                                 .unk = id_or_none(tok, spec.unk)};
    st = clef__spm_create(tok, &opts, err);
    root = (proto){.at = data, .n = n};
    int32_t id = 0;
    for (proto_field f; st == CLEF_OK && next_field(&root, &f);)
        if (f.number == 1 && f.wire == 2)
            st = read_piece(tok, id++, f.bytes, err);
    tok->bos = id_or_none(tok, spec.bos);
    tok->eos = id_or_none(tok, spec.eos);
    tok->unk = opts.unk;
    tok->pad = id_or_none(tok, spec.pad);
    spec.spaces.charsmap = spec.charsmap;
    spec.spaces.n_charsmap = spec.n_charsmap;
    return st ? st : clef__spm_finish(tok, &spec.spaces, err);
}

/* Adds what the models' own tokenizers add if no file says it: BOS for BPE (Llama, Mistral), EOS for a
 * Unigram without BOS (T5), [CLS] and [SEP] for ALBERT. */
static clef_status add_special_tokens(clef_tokenizer *tok, const clef__token_config *config, int is_bpe,
                                      clef_error *err)
{
    const int32_t cls = clef__vocab_find(&tok->vocab, "[CLS]", 5),
                  sep = clef__vocab_find(&tok->vocab, "[SEP]", 5);
    if (!is_bpe && cls >= 0 && sep >= 0)
        return clef__template_bert(tok, cls, sep, err);
    clef_status st = CLEF_OK;
    if ((config->add_bos < 0 ? is_bpe : config->add_bos) && tok->bos >= 0)
        st = clef__template_add(tok, CLEF_BEFORE_TEXT, tok->bos, err);
    if (st == CLEF_OK && (config->add_eos < 0 ? !is_bpe && tok->bos < 0 : config->add_eos) && tok->eos >= 0)
        st = clef__template_add(tok, CLEF_AFTER_TEXT, tok->eos, err);
    return st;
}

clef_status clef__tokenizer_read_spm(clef_tokenizer *tok, const char *path, clef_error *err)
{
    char *data = NULL;
    size_t n = 0;
    clef__token_config config;
    clef_status st = clef__os_read(path, CLEF_TOKENIZER_FILE_BYTES, &data, &n, err);
    const int lines = st == CLEF_OK && clef__is_tiktoken(data, n);
    if (lines)
        st = clef__tokenizer_parse_tiktoken(tok, data, n, path, err);
    else if (st == CLEF_OK)
        st = clef__tokenizer_parse_spm(tok, data, n, path, err);
    free(data);
    if (lines)
        return st;
    if (st == CLEF_OK)
        st = clef__tokenizer_read_config(tok, path, &config, err);
    return st ? st : add_special_tokens(tok, &config, tok->model && clef__is_bpe(tok->model), err);
}

/* SentencePiece's tokenizer.model: the few fields of sentencepiece_model.proto that BPE needs, read by hand
 * (https://protobuf.dev/programming-guides/encoding). */
#include <stdlib.h>
#include <string.h>

#include "model/tokenizer.h"
#include "runtime/os.h"

/* Bytes of one message that are not read yet. */
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

/* The next field; 0 at the end, or when the message is malformed (p->bad). */
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

/* What the file says besides its pieces; the first values are the format's defaults. */
typedef struct spm_spec {
    int64_t model_type, unk, bos, eos, byte_fallback, suffix_space;
    int64_t n_pieces;
    const char *normalizer;
    size_t n_normalizer, n_charsmap, n_rules;
    clef_spm_opts spaces;
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
                                             : NULL;
        if (to && f.wire == 0)
            *to = value;
    }
    spec->bad |= p.bad;
}

static void read_normalizer(proto p, spm_spec *spec)
{
    for (proto_field f; next_field(&p, &f);) {
        if (f.number == 1 && f.wire == 2) {
            spec->normalizer = (const char *)f.bytes.at;
            spec->n_normalizer = f.bytes.n;
        } else if (f.number == 2 && f.wire == 2) {
            spec->n_charsmap = f.bytes.n;
        } else if (f.number == 3 && f.wire == 0) {
            spec->spaces.add_prefix = f.value != 0;
        } else if (f.number == 4 && f.wire == 0) {
            spec->spaces.squeeze = f.value != 0;
        } else if (f.number == 5 && f.wire == 0) {
            spec->spaces.escape = f.value != 0;
        } else if (f.number == 6 && f.wire == 2) {
            spec->n_rules = f.bytes.n;
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

static clef_status check_spec(const spm_spec *spec, const char *name, clef_error *err)
{
    static const char *const types[] = {"?", "Unigram", "BPE", "Word", "Char"};
    char quote[64];
    if (spec->bad || spec->n_pieces == 0)
        return clef__fail(err, CLEF_E_FORMAT, "%s: no SentencePiece model (%s)", name,
                          spec->bad ? "a field runs over its end" : "it has no pieces");
    if (spec->model_type != 2)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: SentencePiece model type %s (%lld) is not supported; known: BPE", name,
                          types[spec->model_type >= 1 && spec->model_type <= 4 ? spec->model_type : 0], (long long)spec->model_type);
    if (spec->n_charsmap > 0 || spec->n_rules > 0)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: SentencePiece normalizer \"%s\" is not supported; known: identity", name,
                          clef__token_quote(spec->normalizer ? spec->normalizer : "", spec->n_normalizer, quote));
    if (spec->suffix_space)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: SentencePiece's treat_whitespace_as_suffix is not supported", name);
    return CLEF_OK;
}

static clef_status read_piece(clef_tokenizer *tok, clef_bpe *bpe, int32_t id, proto p, clef_error *err)
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
        return clef__fail(err, CLEF_E_FORMAT, "SentencePiece: a field of piece %d runs over its end", id);
    return clef__spm_piece(tok, bpe, id, text, n, type, score, err);
}

static int32_t id_or_none(const clef_tokenizer *tok, int64_t id)
{
    return id >= 0 && id < tok->n_tokens ? (int32_t)id : -1;
}

clef_status clef__tokenizer_parse_spm(clef_tokenizer *tok, const void *data, size_t n, const char *name, clef_error *err)
{
    spm_spec spec = {.model_type = 1, .bos = 1, .eos = 2, .spaces = {1, 1, 1}};
    proto root = {.at = data, .n = n};
    clef_bpe *bpe = NULL;
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
        st = clef__tokens_reserve(tok, spec.n_pieces, err);
    if (st)
        return st;
    const clef_bpe_opts opts = {.byte_fallback = spec.byte_fallback != 0, .fuse_unk = 1, .unk = id_or_none(tok, spec.unk)};
    st = clef__bpe_create_scored(tok, &opts, &bpe, err);
    root = (proto){.at = data, .n = n};
    int32_t id = 0;
    for (proto_field f; st == CLEF_OK && next_field(&root, &f);)
        if (f.number == 1 && f.wire == 2)
            st = read_piece(tok, bpe, id++, f.bytes, err);
    tok->bos = id_or_none(tok, spec.bos);
    tok->eos = id_or_none(tok, spec.eos);
    if (st == CLEF_OK)
        st = clef__spm_stages(tok, &spec.spaces, err);
    if (st == CLEF_OK)
        st = clef__tokenizer_seal(tok, err);
    return st ? st : clef__bpe_seal(bpe, tok, err);
}

clef_status clef__tokenizer_read_spm(clef_tokenizer *tok, const char *path, clef_error *err)
{
    char *data = NULL;
    size_t n = 0;
    clef_token_marks marks = {-1, -1};
    clef_status st = clef__os_read(path, CLEF_TOKENIZER_FILE_BYTES, &data, &n, err);
    if (st == CLEF_OK)
        st = clef__tokenizer_parse_spm(tok, data, n, path, err);
    free(data);
    if (st == CLEF_OK)
        st = clef__tokenizer_read_marks(tok, path, &marks, err);
    if (st == CLEF_OK && marks.add_bos != 0 && tok->bos >= 0)
        st = clef__tokens_mark(tok, 0, tok->bos, err); /* as Llama's and Mistral's own tokenizers do unless told otherwise */
    if (st == CLEF_OK && marks.add_eos == 1 && tok->eos >= 0)
        st = clef__tokens_mark(tok, 1, tok->eos, err);
    return st;
}

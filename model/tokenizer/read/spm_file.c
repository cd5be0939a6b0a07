/* SentencePiece's file: the few fields of sentencepiece_model.proto that encoding needs
 * (https://protobuf.dev/programming-guides/encoding). */
#include "model/tokenizer/read/spm_file.h"

#include <string.h>

#include "graph/fail.h"

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

static void read_trainer(proto p, clef__spm_spec *spec)
{
    for (proto_field f; next_field(&p, &f);) {
        const int64_t value = (int64_t)f.value;
        const char **const piece = f.number == 45   ? &spec->unk_piece
                                   : f.number == 46 ? &spec->bos_piece
                                   : f.number == 47 ? &spec->eos_piece
                                                    : NULL;
        if (piece && f.wire == 2)
            spec->n_piece[f.number - 45] = f.bytes.n, *piece = (const char *)f.bytes.at;
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

static void read_normalizer(proto p, clef__spm_spec *spec)
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

static void read_denormalizer(proto p, clef__spm_spec *spec)
{
    for (proto_field f; next_field(&p, &f);)
        if (f.number == 2 && f.wire == 2)
            spec->n_rules += f.bytes.n;
    spec->bad |= p.bad;
}

static clef_status check_spec(const clef__spm_spec *spec, const char *name, clef_error *err)
{
    static const char *const types[] = {"?", "Unigram", "BPE", "Word", "Char"};
    if (spec->bad || spec->n_pieces == 0)
        return clef__fail(err, CLEF_E_FORMAT, "%s: no SentencePiece model (%s)", name,
                          spec->bad ? "a field ends beyond its message" : "it has no pieces");
    if (spec->model_type != CLEF_SPM_UNIGRAM && spec->model_type != CLEF_SPM_BPE)
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

clef_status clef__spm_spec_read(const void *data, size_t n, const char *name, clef__spm_spec *spec,
                                clef_error *err)
{
    *spec = (clef__spm_spec){.model_type = CLEF_SPM_UNIGRAM,
                             .bos = 1,
                             .eos = 2,
                             .pad = -1,
                             .unk_piece = "<unk>",
                             .bos_piece = "<s>",
                             .eos_piece = "</s>",
                             .n_piece = {5, 3, 4},
                             .spaces = {.add_prefix = 1, .squeeze = 1, .escape = 1},
                             .pieces = data,
                             .n_bytes = n};
    proto root = {.at = data, .n = n};
    for (proto_field f; next_field(&root, &f);) {
        spec->n_pieces += f.number == 1 && f.wire == 2;
        if (f.number == 2 && f.wire == 2)
            read_trainer(f.bytes, spec);
        else if (f.number == 3 && f.wire == 2)
            read_normalizer(f.bytes, spec);
        else if (f.number == 5 && f.wire == 2)
            read_denormalizer(f.bytes, spec);
    }
    spec->bad |= root.bad;
    spec->spaces.charsmap = spec->charsmap;
    spec->spaces.n_charsmap = spec->n_charsmap;
    return check_spec(spec, name, err);
}

static clef_status read_piece(proto p, clef__spm_piece_text *out, int32_t id, clef_error *err)
{
    *out = (clef__spm_piece_text){.text = "", .type = CLEF_PIECE_NORMAL};
    for (proto_field f; next_field(&p, &f);) {
        if (f.number == 1 && f.wire == 2) {
            out->text = (const char *)f.bytes.at;
            out->n = f.bytes.n;
        } else if (f.number == 2 && f.wire == 5) {
            out->score = as_float(f.value);
        } else if (f.number == 3 && f.wire == 0) {
            out->type = (int64_t)f.value;
        }
    }
    return p.bad ? clef__fail(err, CLEF_E_FORMAT, "SentencePiece: a field of piece %d ends beyond it", id)
                 : CLEF_OK;
}

clef_status clef__spm_pieces(const clef__spm_spec *spec,
                             clef_status (*each)(void *to, int32_t id, const clef__spm_piece_text *piece,
                                                 clef_error *err),
                             void *to, clef_error *err)
{
    proto root = {.at = spec->pieces, .n = spec->n_bytes};
    clef_status st = CLEF_OK;
    int32_t id = 0;
    for (proto_field f; st == CLEF_OK && next_field(&root, &f);) {
        clef__spm_piece_text piece;
        if (f.number != 1 || f.wire != 2)
            continue;
        st = read_piece(f.bytes, &piece, id, err);
        if (st == CLEF_OK)
            st = each(to, id++, &piece, err);
    }
    return st;
}

/* random_model SHAPE TYPE FILE: writes a Llama with random weights as GGUF, for timings: what the weights say
 * does not matter to their speed. SHAPE is 8b (Llama 3's), 1b (Llama 3.2's) or tiny; TYPE is q4_k or f16. The
 * file has no tokenizer. */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
    const char *name;
    uint32_t width, inner, layers, heads, shared_heads, vocabulary;
} shape;

static const shape shapes[] = {{"8b", 4096, 14336, 32, 32, 8, 128256},
                               {"1b", 2048, 8192, 16, 32, 8, 128256},
                               {"tiny", 256, 512, 2, 4, 2, 512}};

typedef struct format {
    const char *name;
    uint32_t type;        /* ggml's number */
    size_t values, bytes; /* of a block */
} format;

static const format floats = {"f32", 0, 1, 4};
static const format formats[] = {{"f16", 1, 1, 2}, {"q4_k", 12, 256, 144}};

enum { ALIGN = 32, PERIOD = 144 * 8192, MOST_TENSORS = 512 };

/* ---- weights ----------------------------------------------------------------------------------- */

static uint32_t random_word(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

/* Halves of both signs from 0.0156 to 0.0312. Blocks of Q4_K: d is 1e-4, and dmin 7.5 times that, so that
 * values are around 0. */
static void fill(unsigned char *out, const format *f)
{
    static const unsigned char scales[] = {0x8e, 0x06, 0x25, 0x12};
    for (size_t i = 0; i < PERIOD; i += 4) {
        const uint32_t word = random_word();
        memcpy(out + i, &word, sizeof word);
    }
    for (size_t i = 0; f->type == 1 && i < PERIOD; i += 2)
        out[i + 1] = (unsigned char)((out[i + 1] & 0x83) | 0x24);
    for (size_t i = 0; f->type == 12 && i < PERIOD; i += f->bytes)
        memcpy(out + i, scales, sizeof scales);
}

static void fill_ones(unsigned char *out)
{
    static const float one = 1;
    for (size_t i = 0; i < PERIOD; i += sizeof one)
        memcpy(out + i, &one, sizeof one);
}

/* ---- the file ---------------------------------------------------------------------------------- */

typedef struct tensor {
    char name[48];
    uint64_t width, rows; /* 0: a vector */
    const format *format;
} tensor;

static tensor tensors[MOST_TENSORS];
static size_t n_tensors;

static size_t bytes_of(const tensor *t)
{
    const size_t n = t->width * (t->rows ? t->rows : 1);
    return n / t->format->values * t->format->bytes;
}

static size_t padded(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static void add(const char *name, int layer, uint64_t width, uint64_t rows, const format *f)
{
    tensor *t = &tensors[n_tensors++];
    if (layer < 0)
        snprintf(t->name, sizeof t->name, "%s.weight", name);
    else
        snprintf(t->name, sizeof t->name, "blk.%d.%s.weight", layer, name);
    t->width = width;
    t->rows = rows;
    t->format = rows ? f : &floats;
}

static void add_all(const shape *s, const format *f)
{
    const uint64_t shared = s->width / s->heads * s->shared_heads;
    add("token_embd", -1, s->width, s->vocabulary, f);
    for (int i = 0; i < (int)s->layers; i++) {
        add("attn_norm", i, s->width, 0, f);
        add("ffn_norm", i, s->width, 0, f);
        add("attn_q", i, s->width, s->width, f);
        add("attn_k", i, s->width, shared, f);
        add("attn_v", i, s->width, shared, f);
        add("attn_output", i, s->width, s->width, f);
        add("ffn_gate", i, s->width, s->inner, f);
        add("ffn_up", i, s->width, s->inner, f);
        add("ffn_down", i, s->inner, s->width, f);
    }
    add("output_norm", -1, s->width, 0, f);
    add("output", -1, s->width, s->vocabulary, f);
}

static FILE *to;

static void u32(uint32_t x)
{
    fwrite(&x, sizeof x, 1, to);
}
static void u64(uint64_t x)
{
    fwrite(&x, sizeof x, 1, to);
}

static void text(const char *x)
{
    u64(strlen(x));
    fwrite(x, 1, strlen(x), to);
}

static void key_text(const char *key, const char *value)
{
    text(key);
    u32(8);
    text(value);
}

static void key_u32(const char *key, uint32_t value)
{
    text(key);
    u32(4);
    u32(value);
}

static void key_f32(const char *key, float value)
{
    text(key);
    u32(6);
    fwrite(&value, sizeof value, 1, to);
}

static void write_keys(const shape *s)
{
    key_text("general.architecture", "llama");
    key_text("general.name", s->name);
    key_u32("llama.context_length", 33024);
    key_u32("llama.embedding_length", s->width);
    key_u32("llama.feed_forward_length", s->inner);
    key_u32("llama.block_count", s->layers);
    key_u32("llama.attention.head_count", s->heads);
    key_u32("llama.attention.head_count_kv", s->shared_heads);
    key_u32("llama.vocab_size", s->vocabulary);
    key_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    key_f32("llama.rope.freq_base", 500000);
}

static void write_head(const shape *s)
{
    uint64_t at = 0;
    fwrite("GGUF", 1, 4, to);
    u32(3);
    u64(n_tensors);
    u64(11); /* keys */
    write_keys(s);
    for (const tensor *t = tensors; t < tensors + n_tensors; t++) {
        text(t->name);
        u32(t->rows ? 2 : 1);
        u64(t->width);
        if (t->rows)
            u64(t->rows);
        u32(t->format->type);
        u64(at);
        at += padded(bytes_of(t));
    }
    for (long i = ftell(to); i % ALIGN; i++)
        fputc(0, to);
}

static void write_weights(const format *f)
{
    static unsigned char random[PERIOD], ones[PERIOD], zeros[ALIGN];
    fill(random, f);
    fill_ones(ones);
    for (const tensor *t = tensors; t < tensors + n_tensors; t++) {
        const size_t all = bytes_of(t);
        for (size_t done = 0, n; done < all; done += n) {
            n = all - done < PERIOD ? all - done : PERIOD;
            fwrite(t->rows ? random : ones, 1, n, to);
        }
        fwrite(zeros, 1, padded(all) - all, to);
    }
}

int main(int n, char **args)
{
    size_t s = 0, f = 0;
    while (n == 4 && s < sizeof shapes / sizeof *shapes && strcmp(shapes[s].name, args[1]) != 0)
        s++;
    while (n == 4 && f < sizeof formats / sizeof *formats && strcmp(formats[f].name, args[2]) != 0)
        f++;
    if (n != 4 || s == sizeof shapes / sizeof *shapes || f == sizeof formats / sizeof *formats) {
        fprintf(stderr, "random_model: expected 8b|1b|tiny q4_k|f16 FILE\n");
        return 2;
    }
    to = fopen(args[3], "wb");
    if (to) {
        add_all(&shapes[s], &formats[f]);
        write_head(&shapes[s]);
        write_weights(&formats[f]);
    }
    if (to && !ferror(to) && fclose(to) == 0)
        return 0;
    perror(args[3]);
    return 1;
}

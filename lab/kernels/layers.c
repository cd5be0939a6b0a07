#include "lab/kernels/layers.h"

#include <stdio.h>

#include "clef/graph.h"

const int64_t layer_tokens[N_LAYER_TOKENS] = {1, 2, 8, INT64_MAX};

/* A Llama of 8 billion: 32 heads of 128, 8 of them for keys, a vocabulary of 128256. %1: dtype of the
 * weights, %2: of the cache. */
#define LLAMA                                                                                                \
    "symbol T <= 512\nsymbol S <= 4096\ninput ids i32 [1, T]\ninput pos i32 [1]\nweight f f32 [64]\nweight " \
    "table %1$s [128256, 4096]\n"                                                                            \
    "weight n1 f32 [4096]\nweight n2 f32 [4096]\nweight wq %1$s [4096, 4096]\nweight wk %1$s [1024, "        \
    "4096]\nweight wv %1$s [1024, 4096]\n"                                                                   \
    "weight wo %1$s [4096, 4096]\nweight wg %1$s [14336, 4096]\nweight wu %1$s [14336, 4096]\nweight wd "    \
    "%1$s [4096, 14336]\n"                                                                                   \
    "state k %2$s [1, 8, 4096, 128]\nstate v %2$s [1, 8, 4096, 128]\nx = gather(table, ids)\nh = "           \
    "rms_norm(x, n1) eps=1e-5\n"                                                                             \
    "q = matmul(h, wq) transpose_b=1\nqh = reshape(q) : f32 [1, T, 32, 128]\nqr = rope(qh, f, pos)\nqp = "   \
    "permute(qr) axes=[0, 2, 1, 3]\n"                                                                        \
    "a = matmul(h, wk) transpose_b=1\nah = reshape(a) : f32 [1, T, 8, 128]\nar = rope(ah, f, pos)\nap = "    \
    "permute(ar) axes=[0, 2, 1, 3]\n"                                                                        \
    "b = matmul(h, wv) transpose_b=1\nbh = reshape(b) : f32 [1, T, 8, 128]\nbp = permute(bh) axes=[0, 2, "   \
    "1, 3]\n"                                                                                                \
    "kw = cache_write(k, ap, pos)\nvw = cache_write(v, bp, pos)\nks = slice(kw) axis=2 size=S\nvs = "        \
    "slice(vw) axis=2 size=S\n"                                                                              \
    "o = attention(qp, ks, vs, _, pos) scale=0.0883883461 causal=1\noh = reshape(o) : f32 [1, T, 4096]\n"    \
    "oo = matmul(oh, wo) transpose_b=1\nr = add(x, oo)\nm = rms_norm(r, n2) eps=1e-5\ng = matmul(m, wg) "    \
    "transpose_b=1\n"                                                                                        \
    "u = matmul(m, wu) transpose_b=1\ns = silu(g)\nsu = mul(s, u)\nd = matmul(su, wd) transpose_b=1\nz = "   \
    "add(r, d)\n"                                                                                            \
    "last = slice(z) axis=1 start=-1 size=1\ny = matmul(last, table) transpose_b=1\noutput y\n"

/* A GPT-2: 12 heads of 64, weights [in, out], biases. */
#define GPT2                                                                                                 \
    "symbol T <= 512\nsymbol S <= 1024\ninput ids i32 [1, T]\ninput pos i32 [1]\nweight table %1$s [50257, " \
    "768]\n"                                                                                                 \
    "weight n1 %1$s [768]\nweight b1 %1$s [768]\nweight w %1$s [768, 2304]\nweight c %1$s [2304]\nweight "   \
    "wo %1$s [768, 768]\n"                                                                                   \
    "weight co %1$s [768]\nstate k %2$s [1, 12, 1024, 64]\nstate v %2$s [1, 12, 1024, 64]\nx = "             \
    "gather(table, ids)\n"                                                                                   \
    "h = layer_norm(x, n1, b1) eps=1e-5\nqkv = matmul(h, w, c)\na = reshape(qkv) : f32 [1, T, 36, 64]\nq = " \
    "slice(a) axis=2 size=12\n"                                                                              \
    "kk = slice(a) axis=2 start=12 size=12\nvv = slice(a) axis=2 start=24 size=12\nqp = permute(q) "         \
    "axes=[0, 2, 1, 3]\n"                                                                                    \
    "kp = permute(kk) axes=[0, 2, 1, 3]\nvp = permute(vv) axes=[0, 2, 1, 3]\nkw = cache_write(k, kp, pos)\n" \
    "vw = cache_write(v, vp, pos)\nks = slice(kw) axis=2 size=S\nvs = slice(vw) axis=2 size=S\n"             \
    "o = attention(qp, ks, vs, _, pos) scale=0.125 causal=1\noh = reshape(o) : f32 [1, T, 768]\ny = "        \
    "matmul(oh, wo, co)\n"                                                                                   \
    "g = gelu_tanh(y)\noutput g\n"

/* An encoder of 12 heads of 64 with a mask of its padding. */
#define ENCODER                                                                                              \
    "symbol B <= 32\nsymbol T <= 512\ninput x f32 [B, T, 768]\ninput mask i32 [B, 1, 1, T]\nweight wq %1$s " \
    "[768, 768]\n"                                                                                           \
    "weight c f32 [768]\nweight n1 f32 [768]\nweight b1 f32 [768]\nq = matmul(x, wq, c) transpose_b=1\n"     \
    "qh = reshape(q) : f32 [B, T, 12, 64]\nqp = permute(qh) axes=[0, 2, 1, 3]\no = attention(qp, qp, qp, "   \
    "mask) scale=0.125\n"                                                                                    \
    "oh = reshape(o) : f32 [B, T, 768]\nr = add(oh, x)\ny = layer_norm(r, n1, b1) eps=1e-5\noutput y\n"

/* The end of a step: 2 selected of 8 experts, alone and with what surrounds them; the next token. */
#define EXPERTS                                                                                              \
    "symbol T <= 512\ninput x f32 [1, T, 4096]\ninput s f32 [1, T, 8]\nweight v %1$s [8, 14336, 4096]\n"     \
    "input o f32 [1, T, 2, 4096]\nweight w %1$s [8, 14336, 4096]\nweight d %1$s [8, 4096, 14336]\ni = "      \
    "topk(s) k=2\n"                                                                                          \
    "y = expert_matmul(o, w, i) transpose_b=1\ng = expert_matmul(x, v, i) transpose_b=1\n"                   \
    "u = expert_matmul(x, w, i) transpose_b=1\na = swiglu(g, u)\n"                                           \
    "z = expert_matmul(a, d, i) transpose_b=1\ne = gather_elements(s, i)\np = softmax(e)\n"                  \
    "q = reshape(p) : f32 [1, T, 1, 2]\nb = matmul(q, z)\nc = reshape(b) : f32 [1, T, 4096]\n"               \
    "r = add(x, c)\noutput y\noutput r\n"
#define TOKEN                                                                                                \
    "input x f32 [1, 1, 128256]\nstate h i32 [1, 64]\ninput i i32 [1, 1]\ninput p i32 [1]\ninput o i32 "     \
    "[16]\n"                                                                                                 \
    "y = sample(x, h, i, p, o)\ninput r f32 [4096, 4096]\ns = softmax(r)\na = argmax(x)\nt = topk(x) k=40\n" \
    "input rx f32 [8, 128256]\ninput rr i32 [8, 64]\ninput ro i32 [8, 16]\nz = sample_rows(rx, rr, ro)\n"    \
    "output y\noutput s\noutput a\noutput t\noutput z\n"

/* The gradient of attention in a training step of a GPT-2, over packed documents. */
#define GRADIENT                                                                                             \
    "input x f32 [4, 512, 36, 64]\ninput d f32 [4, 512, 12, 64]\ninput f i32 [4, 512]\nqs = slice(x) "       \
    "axis=2 "                                                                                                \
    "size=12\n"                                                                                              \
    "ks = slice(x) axis=2 start=12 size=12\nvs = slice(x) axis=2 start=24 size=12\nq = permute(qs) "         \
    "axes=[0, 2, 1, 3]\n"                                                                                    \
    "k = permute(ks) axes=[0, 2, 1, 3]\nv = permute(vs) axes=[0, 2, 1, 3]\n"                                 \
    "y = attention(q, k, v, _, _, _, _, _, f) scale=0.125 causal=1\n"                                        \
    "z = attention_grad(q, k, v, y, d, _, _, f) scale=0.125 causal=1\noutput z\n"

/* 1 for a format whose panels run another's code, with another length of a block, or with a least in place of
 * a zero point: that one's kernels stand for both. */
static int is_like_another(clef_dtype t)
{
    return t == CLEF_I4_32 || t == CLEF_A4_32 || t == CLEF_A4_64 || t == CLEF_I8_32;
}

const char *layer_text(int i, char *out, size_t n_bytes)
{
    static const struct {
        const char *name, *weights, *cache, *text;
    } fixed[] = {{"gpt2", "f16", "f16", GPT2},      {"gpt2", "f32", "f32", GPT2},
                 {"encoder", "f16", "", ENCODER},   {"encoder", "f32", "", ENCODER},
                 {"llama", "q8_0", "q8_0", LLAMA},  {"experts", "q4_k", "", EXPERTS},
                 {"experts", "mxfp4", "", EXPERTS}, {"experts", "f16", "", EXPERTS},
                 {"token", "", "", TOKEN},          {"gradient", "", "", GRADIENT}};
    const int n_fixed = (int)(sizeof fixed / sizeof *fixed);
    const clef_dtype weights = (clef_dtype)(i - n_fixed); /* a Llama of each dtype */
    if (i >= n_fixed + CLEF_N_DTYPES)
        return NULL;
    if (i < n_fixed)
        snprintf(out, n_bytes, fixed[i].text, fixed[i].weights, fixed[i].cache);
    else if (weights == CLEF_I32 || weights == CLEF_I8 || is_like_another(weights))
        return layer_text(0, out, n_bytes);
    else
        snprintf(out, n_bytes, LLAMA, clef_dtype_name(weights), weights == CLEF_F32 ? "f32" : "f16");
    return i < n_fixed ? fixed[i].name : "llama";
}

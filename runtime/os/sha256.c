/* SHA-256, in the notation of FIPS 180-4. */
#include "runtime/os/sha256.h"

#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#    include <cpuid.h>
#    include <immintrin.h>
#    include <stdatomic.h>
#    define HAS_SHA_INSTRUCTIONS
#endif

static const uint32_t round_constants[64] =
    {/* FIPS 180-4, 4.2.2 */
     0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
     0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
     0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
     0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
     0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
     0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
     0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
     0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate_right(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

/* Step t of FIPS 180-4, 6.2.2, with kw = K + W. The variables do not move: the caller renames them. */
static inline void take_step(uint32_t a, uint32_t b, uint32_t c, uint32_t *d, uint32_t e, uint32_t f,
                             uint32_t g, uint32_t *h, uint32_t kw)
{
    const uint32_t s1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
    const uint32_t s0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
    const uint32_t t1 = *h + s1 + (g ^ (e & (f ^ g))) + kw;
    *d += t1;
    *h = t1 + s0 + ((a & b) | (c & (a | b)));
}

/* Replaces 16 words of the schedule by the next 16. */
static inline void next_words(uint32_t w[16])
{
    for (int t = 0; t < 16; t++) {
        const uint32_t x = w[(t + 1) & 15], y = w[(t + 14) & 15];
        const uint32_t s0 = rotate_right(x, 7) ^ rotate_right(x, 18) ^ x >> 3;
        const uint32_t s1 = rotate_right(y, 17) ^ rotate_right(y, 19) ^ y >> 10;
        w[t] += s0 + w[(t + 9) & 15] + s1;
    }
}

static void add_block(clef_sha256 *s, const unsigned char *p)
{
    uint32_t w[16], *v = s->state;
    uint32_t a = v[0], b = v[1], c = v[2], d = v[3], e = v[4], f = v[5], g = v[6], h = v[7];
    for (int t = 0; t < 16; t++)
        w[t] = (uint32_t)p[4 * t] << 24 | (uint32_t)p[4 * t + 1] << 16 | (uint32_t)p[4 * t + 2] << 8 |
               p[4 * t + 3];
    for (int t = 0; t < 64; t += 8) { /* eight steps bring each variable back to its place */
        if (t && t % 16 == 0)
            next_words(w);
        const uint32_t *k = round_constants + t, *x = w + (t & 8);
        take_step(a, b, c, &d, e, f, g, &h, k[0] + x[0]);
        take_step(h, a, b, &c, d, e, f, &g, k[1] + x[1]);
        take_step(g, h, a, &b, c, d, e, &f, k[2] + x[2]);
        take_step(f, g, h, &a, b, c, d, &e, k[3] + x[3]);
        take_step(e, f, g, &h, a, b, c, &d, k[4] + x[4]);
        take_step(d, e, f, &g, h, a, b, &c, k[5] + x[5]);
        take_step(c, d, e, &f, g, h, a, &b, k[6] + x[6]);
        take_step(b, c, d, &e, f, g, h, &a, k[7] + x[7]);
    }
    const uint32_t now[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        v[i] += now[i];
}

#ifdef HAS_SHA_INSTRUCTIONS

/* CPUID leaf 7, EBX bit 29 (Intel SDM vol. 2A). In a virtual machine the host answers, which takes some 20
 * us, so the processor is asked once. Threads that ask at the same time get the same answer. */
static int has_sha_instructions(void)
{
    enum { UNKNOWN, NO, YES };
    static atomic_int known = UNKNOWN;
    if (atomic_load(&known) == UNKNOWN) {
        unsigned a, b, c, d, b7;
        const int has = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_1) &&
                        __get_cpuid_count(7, 0, &a, &b7, &c, &d) && (b7 & bit_SHA);
        atomic_store(&known, has ? YES : NO);
    }
    return atomic_load(&known) == YES;
}

/* The same steps, four at a time. The instructions hold the state as (F, E, B, A) and (H, G, D, C), from the
 * lowest word on. */
__attribute__((target("sha,sse4.1"))) static void add_blocks_x86(clef_sha256 *s, const unsigned char *p,
                                                                 size_t n_blocks)
{
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    const __m128i dcba = _mm_loadu_si128((const void *)s->state),
                  hgfe = _mm_loadu_si128((const void *)(s->state + 4));
    const __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
    for (; n_blocks > 0; n_blocks--, p += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[16];
        for (int t = 0; t < 16; t++) {
            if (t < 4)
                w[t] = _mm_shuffle_epi8(_mm_loadu_si128((const void *)(p + 16 * t)), big_endian);
            else {
                const __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w[t - 4], w[t - 3]),
                                                  _mm_alignr_epi8(w[t - 1], w[t - 2], 4));
                w[t] = _mm_sha256msg2_epu32(sum, w[t - 1]);
            }
            const __m128i k = _mm_add_epi32(w[t], _mm_loadu_si128((const void *)(round_constants + 4 * t)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, k);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(k, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((void *)s->state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((void *)(s->state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

#endif

/* Whole blocks. The last one of a text, which is padded, goes through add_block. */
static void add_blocks(clef_sha256 *s, const unsigned char *p, size_t n_blocks)
{
#ifdef HAS_SHA_INSTRUCTIONS
    if (has_sha_instructions()) {
        add_blocks_x86(s, p, n_blocks);
        return;
    }
#endif
    for (size_t i = 0; i < n_blocks; i++)
        add_block(s, p + 64 * i);
}

void clef__sha256_init(clef_sha256 *s)
{
    *s = (clef_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                                 0x1f83d9ab, 0x5be0cd19}};
}

void clef__sha256_add(clef_sha256 *s, const void *data, size_t n_bytes)
{
    const unsigned char *p = data;
    while (n_bytes > 0) {
        const size_t at = (size_t)(s->n_bytes % 64);
        size_t n = n_bytes < 64 - at ? n_bytes : 64 - at;
        if (at == 0 && n_bytes >= 64) {
            n = n_bytes / 64 * 64;
            add_blocks(s, p, n / 64);
        } else {
            memcpy(s->block + at, p, n);
            if (at + n == 64)
                add_block(s, s->block);
        }
        s->n_bytes += n;
        p += n;
        n_bytes -= n;
    }
}

void clef__sha256_finish(clef_sha256 *s, unsigned char out[CLEF_SHA256_BYTES])
{
    const uint64_t n_bits = s->n_bytes * 8;
    static const unsigned char padding[64] = {0x80};
    const size_t at = (size_t)(s->n_bytes % 64);
    clef__sha256_add(s, padding, at < 56 ? 56 - at : 120 - at);
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(n_bits >> (56 - 8 * i));
    clef__sha256_add(s, length, sizeof length);
    for (int i = 0; i < 32; i++)
        out[i] = (unsigned char)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}

int clef__sha256_is_sealed(const void *data, size_t n_bytes)
{
    const unsigned char *bytes = data;
    unsigned char sum[CLEF_SHA256_BYTES];
    clef_sha256 s;
    if (n_bytes < sizeof sum)
        return 0;
    clef__sha256_init(&s);
    clef__sha256_add(&s, bytes, n_bytes - sizeof sum);
    clef__sha256_finish(&s, sum);
    return memcmp(sum, bytes + n_bytes - sizeof sum, sizeof sum) == 0;
}

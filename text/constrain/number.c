/* Numbers are compared digit by digit: the count of digits before the point decides, then the first digit
 * that differs. */
#include "text/constrain/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/constrain/nfa.h"

static const clef__dfa *of_pattern(clef__dfas *dfas, const char *pattern)
{
    return clef__pattern_dfa(dfas, pattern, strlen(pattern), 1);
}

const clef__dfa *clef__number_any(clef__dfas *dfas)
{
    return of_pattern(dfas, "-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?");
}

const clef__dfa *clef__number_integer(clef__dfas *dfas, int with_zeros)
{
    return of_pattern(dfas, with_zeros ? "-?(0|[1-9][0-9]*)(\\.0+)?" : "-?(0|[1-9][0-9]*)");
}

/* Numbers without a fraction, and those whose digits on both sides of the point are 15 at most. */
const clef__dfa *clef__number_short(clef__dfas *dfas)
{
    enum { MOST = 15 };
    clef__draft d = {.dfas = dfas};
    /* state 0: first; 1: after "-"; 2 + n: n digits before the point; point + n: n digits in all, after it */
    const uint32_t many = 2 + MOST + 1, point = many + 1;
    for (uint32_t s = 0; s <= point + 2 * MOST + 1; s++)
        clef__draft_state(&d, (s > 2 && s <= many) || s > point + MOST);
    clef__draft_edge(&d, 0, '-', '-', 1);
    for (uint32_t s = 0; s < 2; s++)
        clef__draft_edge(&d, s, '0', '9', 3);
    for (uint32_t n = 1; n <= MOST + 1; n++)
        clef__draft_edge(&d, 2 + n, '0', '9', n <= MOST ? 3 + n : many);
    /* point + n: the point is after n digits; point + MOST + 1 + n: n digits with at least one after it */
    for (uint32_t n = 1; n < MOST; n++) {
        clef__draft_edge(&d, 2 + n, '.', '.', point + n);
        clef__draft_edge(&d, point + n, '0', '9', point + MOST + 2 + n);
    }
    for (uint32_t n = 2; n < MOST; n++)
        clef__draft_edge(&d, point + MOST + 1 + n, '0', '9', point + MOST + 2 + n);
    return clef__draft_finish(&d);
}

/* ---- comparing with a limit --------------------------------------------------------------------- */

typedef enum order { LESS, SAME, MORE } order;

/* The magnitude of a number beside that of a limit: digits before the point, and after it. */
typedef struct magnitude {
    const char *whole, *fraction;
    uint32_t n_whole, n_fraction;
} magnitude;

/* How each end compares, as a set of bits 1 << order, for the texts to be taken. */
typedef struct builder {
    clef__draft d;
    magnitude limit;
    unsigned wanted;
    uint32_t frac[3][2]; /* [order][any digit yet]: in the fraction where it is decided */
} builder;

static uint32_t add_state(builder *b, order o)
{
    return clef__draft_state(&b->d, b->wanted >> o & 1);
}

static void add_digit_edges(builder *b, uint32_t from, int digit, const uint32_t to[3])
{
    if (digit > '0')
        clef__draft_edge(&b->d, from, '0', (uint32_t)digit - 1, to[LESS]);
    clef__draft_edge(&b->d, from, (uint32_t)digit, (uint32_t)digit, to[SAME]);
    if (digit < '9')
        clef__draft_edge(&b->d, from, (uint32_t)digit + 1, '9', to[MORE]);
}

/* Fractions where the digits so far are the limit's. Returns the state after the point. */
static uint32_t build_fraction(builder *b)
{
    const magnitude *m = &b->limit;
    uint32_t rest = add_state(b, SAME); /* all of the limit's digits: zeros are the same, others are more */
    clef__draft_edge(&b->d, rest, '0', '0', rest);
    clef__draft_edge(&b->d, rest, '1', '9', b->frac[MORE][1]);
    for (uint32_t i = m->n_fraction; i-- > 0;) {
        /* before digit i; if the text ends here it is less: the limit has no zeros at its end */
        const uint32_t state = clef__draft_state(&b->d, i > 0 && (b->wanted >> LESS & 1));
        const uint32_t to[3] = {b->frac[LESS][1], rest, b->frac[MORE][1]};
        add_digit_edges(b, state, m->fraction[i], to);
        rest = state;
    }
    if (m->n_fraction)
        return rest;
    const uint32_t point = clef__draft_state(&b->d, 0);
    clef__draft_edge(&b->d, point, '0', '0', rest);
    clef__draft_edge(&b->d, point, '1', '9', b->frac[MORE][1]);
    return point;
}

/* The states of digits before the point. begin: where the first of them is read. */
static void build_whole(builder *b, uint32_t begin)
{
    const magnitude *m = &b->limit;
    const uint32_t same_point = build_fraction(b), n = m->n_whole;
    const int zero = n == 1 && m->whole[0] == '0';
    const uint32_t longer = add_state(b, MORE);
    clef__draft_edge(&b->d, longer, '0', '9', longer);
    clef__draft_edge(&b->d, longer, '.', '.', b->frac[MORE][0]);
    uint32_t next[3] = {longer, longer, longer}; /* after n digits another makes it longer */
    for (uint32_t i = n; i >= 1; i--) {
        uint32_t own[3];
        for (int o = LESS; o <= MORE; o++) {
            const order end = i < n ? LESS : o == SAME && m->n_fraction ? LESS : (order)o;
            own[o] = add_state(b, end);
            clef__draft_edge(&b->d, own[o], '.', '.',
                             i < n       ? b->frac[LESS][0]
                             : o == SAME ? same_point
                                         : b->frac[o][0]);
            if (i == n)
                clef__draft_edge(&b->d, own[o], '0', '9', longer);
            else if (o == SAME)
                add_digit_edges(b, own[o], m->whole[i], next);
            else
                clef__draft_edge(&b->d, own[o], '0', '9', next[o]);
        }
        memcpy(next, own, sizeof next);
    }
    /* the first digit: a zero stands alone */
    const uint32_t zero_alone = add_state(b, zero ? m->n_fraction ? LESS : SAME : LESS);
    clef__draft_edge(&b->d, zero_alone, '.', '.', zero ? same_point : b->frac[LESS][0]);
    clef__draft_edge(&b->d, begin, '0', '0', zero_alone);
    if (zero) {
        clef__draft_edge(&b->d, begin, '1', '9', next[MORE]);
        return;
    }
    const uint32_t digit = (uint32_t)m->whole[0];
    if (digit > '1')
        clef__draft_edge(&b->d, begin, '1', digit - 1, next[LESS]);
    clef__draft_edge(&b->d, begin, digit, digit, next[SAME]);
    if (digit < '9')
        clef__draft_edge(&b->d, begin, digit + 1, '9', next[MORE]);
}

/* Numbers without a sign whose magnitude compares with the limit's as `wanted` says; after a "-" if
 * `negative`. */
static const clef__dfa *of_magnitude(clef__dfas *dfas, const magnitude *limit, unsigned wanted, int negative)
{
    builder b = {.d = {.dfas = dfas}, .limit = *limit, .wanted = wanted};
    uint32_t begin = clef__draft_state(&b.d, 0);
    if (negative) {
        const uint32_t after = clef__draft_state(&b.d, 0);
        clef__draft_edge(&b.d, begin, '-', '-', after);
        begin = after;
    }
    for (int o = LESS; o <= MORE; o++) {
        b.frac[o][0] = clef__draft_state(&b.d, 0);
        b.frac[o][1] = add_state(&b, (order)o);
        clef__draft_edge(&b.d, b.frac[o][0], '0', '9', b.frac[o][1]);
        clef__draft_edge(&b.d, b.frac[o][1], '0', '9', b.frac[o][1]);
    }
    build_whole(&b, begin);
    return clef__draft_finish(&b.d);
}

static magnitude magnitude_of(const char *limit)
{
    const char *point = strchr(limit, '.'), *end = limit + strlen(limit);
    magnitude m = {.whole = limit, .n_whole = (uint32_t)((point ? point : end) - limit)};
    m.fraction = point ? point + 1 : end;
    m.n_fraction = (uint32_t)(end - m.fraction);
    while (m.n_fraction && m.fraction[m.n_fraction - 1] == '0')
        m.n_fraction--;
    return m;
}

const clef__dfa *clef__number_compare(clef__dfas *dfas, clef__compare how, const char *limit)
{
    static const unsigned wanted_of[] = {1 << LESS, 1 << LESS | 1 << SAME, 1 << SAME, 1 << SAME | 1 << MORE,
                                         1 << MORE};
    const int negative = limit[0] == '-';
    const magnitude m = magnitude_of(limit + negative);
    const int zero = m.n_whole == 1 && m.whole[0] == '0' && !m.n_fraction;
    const unsigned wanted = wanted_of[how];
    const unsigned flipped =
        (wanted >> LESS & 1) << MORE | (wanted & 1 << SAME) | (wanted >> MORE & 1) << LESS;
    const unsigned all = 7, none = 0;
    /* numbers with the other sign lie all on one side; only zero is equal to its negative */
    unsigned of_plus = negative ? (wanted >> MORE & 1 ? all : none) : wanted;
    unsigned of_minus = negative ? flipped : wanted >> LESS & 1 ? all : none;
    if (zero) {
        of_plus = wanted;
        of_minus = flipped;
    }
    const clef__dfa *plus = of_magnitude(dfas, &m, of_plus, 0), *minus = of_magnitude(dfas, &m, of_minus, 1);
    const clef__dfa *both = clef__dfa_join(dfas, plus, minus, CLEF__OR);
    return wanted & 1 << SAME ? both : clef__dfa_join(dfas, both, clef__number_short(dfas), CLEF__AND);
}

const clef__dfa *clef__number_multiple(clef__dfas *dfas, uint32_t m, int with_zeros)
{
    clef__draft d = {.dfas = dfas};
    /* 0: begin, 1: after the sign, 2 + r: digits with that remainder, then a zero alone, a point, zeros */
    const uint32_t lone_zero = 2 + m, point = lone_zero + 1, zeros = point + 1;
    for (uint32_t s = 0; s <= zeros && clef__work_step(dfas->work, 10); s++)
        clef__draft_state(&d, s == 2 || s == lone_zero || s == zeros);
    clef__draft_edge(&d, 0, '-', '-', 1);
    for (uint32_t s = 0; s < 2; s++) {
        clef__draft_edge(&d, s, '0', '0', lone_zero);
        for (uint32_t digit = 1; digit < 10; digit++)
            clef__draft_edge(&d, s, '0' + digit, '0' + digit, 2 + digit % m);
    }
    for (uint32_t r = 0; r < m && !dfas->work->status; r++)
        for (uint32_t digit = 0; digit < 10; digit++)
            clef__draft_edge(&d, 2 + r, '0' + digit, '0' + digit,
                             2 + (uint32_t)(((uint64_t)r * 10 + digit) % m));
    if (with_zeros) {
        clef__draft_edge(&d, 2, '.', '.', point);
        clef__draft_edge(&d, lone_zero, '.', '.', point);
        clef__draft_edge(&d, point, '0', '0', zeros);
        clef__draft_edge(&d, zeros, '0', '0', zeros);
    }
    return clef__draft_finish(&d);
}

int clef__decimal_of_double(double x, char out[CLEF__DECIMAL_BYTES])
{
    char text[64];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, x);
        if (strtod(text, NULL) == x)
            break;
    }
    if (!isfinite(x) || !strchr(text, 'e'))
        return 0;
    const int exponent = atoi(strchr(text, 'e') + 1);
    char digits[32];
    int n = 0, at = 0;
    for (const char *p = text; *p != 'e'; p++)
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    if (exponent > 400 || exponent < -400)
        return 0;
    if (x < 0)
        out[at++] = '-';
    /* digit i counts 10^(exponent - i) */
    for (int i = exponent < 0 ? exponent : 0; i < n || i <= exponent; i++) {
        if (i == exponent + 1)
            out[at++] = '.';
        out[at++] = i < 0 || i >= n ? '0' : digits[i];
    }
    out[at] = '\0';
    return 1;
}

/* JSON's strings: escapes are read as the characters that they mean, so that a limit on the text holds
 * however it is written. */
#include "model/file/utf8.h"
#include "text/constrain/machine.h"

#include <string.h>

/* phase: 0 between characters; ESCAPE after a backslash; HEX + n after \u and n digits; PAIR, PAIR + 1: the \
 * and u of a second half; LOW + n after its n digits */
enum { ESCAPE = 1, HEX = 2, PAIR = 6, LOW = 8 };

/* ---- what may come next ------------------------------------------------------------------------ */

int clef__json_may_have(const clef__machine *m, const clef__frame *f, uint32_t i)
{
    const clef__alt *alt = m->forms[f->a].alt;
    const uint32_t n_members = f->c + f->e;
    uint32_t required_after;
    if (m->any_order) {
        for (uint32_t seen = f->b; seen; seen = m->frames[seen].parent)
            if (m->frames[seen].a == i)
                return 0;
        required_after = alt->n_required - f->d - (uint32_t)alt->props[i].required;
    } else {
        if (i < f->b || alt->required_from[f->b] != alt->required_from[i])
            return 0;
        required_after = alt->required_from[i + 1];
        if (alt->min && f->c + 1 + (alt->n_props - i - 1) + (alt->n_regions > 0) < alt->min)
            return 0;
    }
    return alt->max == UINT32_MAX || n_members + 1 + required_after <= alt->max;
}

/* The interval of names with `byte` at place f->d. */
static void narrow(const clef__machine *m, clef__frame *f, uint8_t byte)
{
    const clef__alt *alt = m->forms[f->a].alt;
    while (f->b < f->c) {
        const clef__utf8_text name = alt->props[alt->by_name[f->b]].name;
        if (name.n > f->d && (uint8_t)name.p[f->d] == byte)
            break;
        f->b++;
    }
    uint32_t end = f->b;
    while (end < f->c) {
        const clef__utf8_text name = alt->props[alt->by_name[end]].name;
        if (name.n <= f->d || (uint8_t)name.p[f->d] != byte)
            break;
        end++;
    }
    f->c = end;
    f->d++;
}

static int any_allowed(const clef__machine *m, const clef__frame *f)
{
    const clef__alt *alt = m->forms[f->a].alt;
    for (uint32_t i = f->b; i < f->c; i++)
        if (clef__json_may_have(m, &m->frames[f->parent], alt->by_name[i]))
            return 1;
    return 0;
}

static int name_allows(const clef__machine *m, const clef__frame *f, uint32_t lo, uint32_t hi)
{
    const clef__alt *alt = m->forms[f->a].alt;
    for (uint32_t i = f->b; i < f->c; i++) {
        const clef__utf8_text name = alt->props[alt->by_name[i]].name;
        uint32_t code = 0;
        size_t size;
        if (name.n > f->d && clef__utf8_read(name.p + f->d, name.n - f->d, &code, &size) == CLEF_UTF8_OK &&
            code >= lo && code <= hi && clef__json_may_have(m, &m->frames[f->parent], alt->by_name[i]))
            return 1;
    }
    return 0;
}

int clef__json_allows(clef__machine *m, const clef__frame *f, uint32_t lo, uint32_t hi)
{
    const clef__alt *alt = m->forms[f->a].alt;
    if (f->op == CLEF__OP_NAME)
        return name_allows(m, f, lo, hi);
    if (f->op == CLEF__OP_OTHER)
        return clef__dfa_can(alt->regions[f->c].names, f->b, lo, hi);
    return (alt->max == UINT32_MAX || f->c < alt->max) && clef__dfa_can(alt->dfa, f->b, lo, hi);
}

int clef__json_append(clef__machine *m, clef__frame *f, uint32_t code)
{
    const clef__alt *alt = m->forms[f->a].alt;
    char bytes[4];
    if (f->op == CLEF__OP_NAME) {
        const size_t n = clef__utf8_write(code, bytes);
        for (size_t i = 0; i < n; i++)
            narrow(m, f, (uint8_t)bytes[i]);
        return any_allowed(m, f);
    }
    if (f->op == CLEF__OP_STRING) {
        if (alt->max != UINT32_MAX && f->c >= alt->max)
            return 0;
        f->c +=
            alt->max != UINT32_MAX || f->c < alt->min; /* without a limit above, `min` is all that counts */
    }
    f->b = clef__dfa_step(f->op == CLEF__OP_STRING ? alt->dfa : alt->regions[f->c].names, f->b, code);
    return f->b != CLEF__DEAD;
}

/* ---- escapes -------------------------------------------------------------------------------- */

/* 1 if one of the UTF-16 units lo to hi can be a character, or the first half of one, that is allowed. */
static int allows_units(clef__machine *m, const clef__frame *f, uint32_t lo, uint32_t hi)
{
    if (lo < 0xD800 && clef__json_allows(m, f, lo, hi < 0xD7FF ? hi : 0xD7FF))
        return 1;
    if (hi >= 0xE000 && clef__json_allows(m, f, lo > 0xE000 ? lo : 0xE000, hi))
        return 1;
    const uint32_t from = lo > 0xD800 ? lo : 0xD800, to = hi < 0xDBFF ? hi : 0xDBFF;
    return from <= to && clef__json_allows(m, f, 0x10000 + ((from - 0xD800) << 10),
                                           0x10000 + ((to - 0xD800) << 10) + 0x3FF);
}

static int hex_digit(uint32_t c)
{
    return c >= '0' && c <= '9'                 ? (int)(c - '0')
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (int)((c | 32) - 'a') + 10
                                                : -1;
}

static clef__text_step first_unit(clef__machine *m, clef__frame *f, uint32_t digit, uint32_t *code)
{
    const uint32_t n = (uint32_t)f->phase - HEX + 1, unit = f->partial << 4 | digit, shift = 4 * (4 - n);
    if (!allows_units(m, f, unit << shift, (unit << shift) | ((1u << shift) - 1)))
        return CLEF__TEXT_NO;
    f->partial = unit;
    f->phase++;
    if (n < 4)
        return CLEF__TEXT_MORE;
    if (unit >= 0xD800 && unit <= 0xDBFF) {
        f->phase = PAIR;
        f->partial = (unit - 0xD800) << 16;
        return CLEF__TEXT_MORE;
    }
    *code = unit;
    return CLEF__TEXT_CHAR;
}

static clef__text_step second_unit(clef__machine *m, clef__frame *f, uint32_t digit, uint32_t *code)
{
    const uint32_t n = (uint32_t)f->phase - LOW + 1, high = f->partial >> 16;
    const uint32_t unit = (f->partial & 0xFFFF) << 4 | digit, shift = 4 * (4 - n);
    uint32_t lo = unit << shift, hi = lo | ((1u << shift) - 1);
    lo = lo > 0xDC00 ? lo : 0xDC00;
    hi = hi < 0xDFFF ? hi : 0xDFFF;
    const uint32_t base = 0x10000 + (high << 10);
    if (lo > hi || !clef__json_allows(m, f, base + lo - 0xDC00, base + hi - 0xDC00))
        return CLEF__TEXT_NO;
    f->partial = high << 16 | unit;
    f->phase++;
    if (n < 4)
        return CLEF__TEXT_MORE;
    *code = base + unit - 0xDC00;
    return CLEF__TEXT_CHAR;
}

static clef__text_step escaped(clef__machine *m, clef__frame *f, uint32_t source, uint32_t *code)
{
    static const char names[] = "\"\\/bfnrt", codes[] = "\"\\/\b\f\n\r\t";
    if (source == 'u') {
        f->phase = HEX;
        f->partial = 0;
        return clef__json_allows(m, f, 0, CLEF__LAST_CODE) ? CLEF__TEXT_MORE : CLEF__TEXT_NO;
    }
    const char *name = source && source < 0x80 ? strchr(names, (int)source) : NULL;
    if (!name)
        return CLEF__TEXT_NO;
    *code = (uint32_t)codes[name - names];
    return CLEF__TEXT_CHAR;
}

clef__text_step clef__json_text(clef__machine *m, clef__frame *f, uint32_t source, uint32_t *code)
{
    clef__text_step step = CLEF__TEXT_NO;
    const int digit = hex_digit(source);
    if (f->phase == 0) {
        if (source == '"')
            return CLEF__TEXT_END;
        if (source == '\\') {
            f->phase = ESCAPE;
            return clef__json_allows(m, f, 0, CLEF__LAST_CODE) ? CLEF__TEXT_MORE : CLEF__TEXT_NO;
        }
        *code = source;
        return source < 0x20 ? CLEF__TEXT_NO : CLEF__TEXT_CHAR;
    }
    if (f->phase == ESCAPE) {
        step = escaped(m, f, source, code);
    } else if (f->phase == PAIR || f->phase == PAIR + 1) {
        step = source == (f->phase == PAIR ? '\\' : 'u') ? CLEF__TEXT_MORE : CLEF__TEXT_NO;
        f->phase++;
    } else if (digit >= 0) {
        step = f->phase < PAIR ? first_unit(m, f, (uint32_t)digit, code)
                               : second_unit(m, f, (uint32_t)digit, code);
    }
    if (step == CLEF__TEXT_CHAR)
        f->phase = 0, f->partial = 0;
    return step;
}

/* Instructions: names, operands and modifiers. */
#define _GNU_SOURCE /* memmem */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/gpu/gcn/gcn.h"

/* ---- numbers and registers ----------------------------------------------------------------------- */

static const struct {
    const char *name;
    uint16_t at;
    uint8_t n; /* 0: as many words as a mask has */
} named[] = {{"vcc_lo", GCN_VCC, 1},   {"vcc_hi", GCN_VCC + 1, 1},   {"vcc", GCN_VCC, 2},
             {"exec_lo", GCN_EXEC, 1}, {"exec_hi", GCN_EXEC + 1, 1}, {"exec", GCN_EXEC, 2},
             {"m0", GCN_M0, 1},        {"null", GCN_NULL, 1}};

static int is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* v1, v[1:2], a1, s1 and the like. */
static int take_numbered(gcn_decoder *d, gcn_operand *o)
{
    const char *at = d->scan->at;
    const char kind = *at++;
    char *end;
    if (!strchr("vas", kind) || !(isdigit((unsigned char)*at) || *at == '['))
        return 0;
    const int is_list = *at == '[';
    const unsigned long first = strtoul(at + is_list, &end, 10);
    const unsigned long last = is_list && *end == ':' ? strtoul(end + 1, &end, 10) : first;
    const unsigned long most = kind == 's' ? GCN_VCC : GCN_ACCUMULATORS;
    if ((is_list && *end++ != ']') || last < first || last >= most)
        gpu_scan_fail(d->scan, "expected a register, got '%.12s'", d->scan->at);
    o->kind = kind == 's' ? GCN_SCALAR : GCN_VECTOR;
    o->at = (uint16_t)(first + (kind == 'a' ? GCN_ACCUMULATORS : 0));
    o->n = (uint8_t)(last - first + 1);
    d->scan->at = end;
    return 1;
}

static int take_named(gcn_decoder *d, gcn_operand *o)
{
    size_t n = 0;
    while (is_word_char(d->scan->at[n]))
        n++;
    if (n == 3 && memcmp(d->scan->at, "off", 3) == 0) {
        d->scan->at += n;
        return 1;
    }
    for (size_t k = 0; k < sizeof named / sizeof *named; k++)
        if (strlen(named[k].name) == n && memcmp(d->scan->at, named[k].name, n) == 0) {
            *o = (gcn_operand){.kind = GCN_SCALAR, .at = named[k].at, .n = named[k].n};
            d->scan->at += n;
            return 1;
        }
    return 0;
}

/* A float has the bits of the operand's type. */
static uint64_t float_bits(double x, char letter)
{
    const float f = (float)x;
    const _Float16 h = (_Float16)x;
    uint32_t wide;
    uint16_t narrow;
    memcpy(&wide, &f, sizeof wide);
    memcpy(&narrow, &h, sizeof narrow);
    return letter == 'h' || letter == 'p' ? narrow : wide;
}

static int take_number(gcn_decoder *d, gcn_operand *o, char letter)
{
    const char *at = d->scan->at;
    char *end, *float_end;
    if (!isdigit((unsigned char)at[*at == '-']))
        return 0;
    const int is_hex = at[*at == '-'] == '0' && (at[(*at == '-') + 1] | 32) == 'x';
    o->value = *at == '-' ? (uint64_t)strtoll(at, &end, 0) : strtoull(at, &end, 0);
    const double x = is_hex ? 0 : strtod(at, &float_end);
    if (!is_hex && float_end > end) {
        o->value = float_bits(x, letter);
        end = float_end;
    }
    o->kind = GCN_CONSTANT;
    o->n = 1;
    if (letter != 'q')
        o->value = (uint32_t)o->value;
    d->scan->at = end;
    return 1;
}

/* NAME@rel32@lo+4: the distance from the place that s_getpc_b64 gives, which is 0. */
static int take_distance(gcn_decoder *d, gcn_operand *o)
{
    char name[GPU_NAME];
    const char *sign = d->scan->at;
    while (is_word_char(*sign) || *sign == '.' || *sign == '$')
        sign++;
    if (*sign != '@' || (size_t)(sign - d->scan->at) >= sizeof name)
        return 0;
    memcpy(name, d->scan->at, (size_t)(sign - d->scan->at));
    name[sign - d->scan->at] = 0;
    const int is_high = strncmp(sign, "@rel32@hi", 9) == 0;
    if (!is_high && strncmp(sign, "@rel32@lo", 9) != 0)
        return 0;
    const uint64_t address = gcn_symbol(d, name);
    *o = (gcn_operand){.kind = GCN_CONSTANT, .n = 1, .value = is_high ? address >> 32 : (uint32_t)address};
    d->scan->at = sign + 9 + strspn(sign + 9, "+0123456789");
    return 1;
}

/* -x, |x|, sext(x), neg(x), abs(x) */
static void take_operand(gcn_decoder *d, gcn_operand *o, char letter)
{
    gpu_scan *s = d->scan;
    static const char *const wraps[] = {"sext(", "neg(", "abs("};
    int closes = 0;
    uint8_t neg = 0, abs = 0, extend = 0;
    s->at += strspn(s->at, " \t");
    if (*s->at == '-' && !isdigit((unsigned char)s->at[1])) {
        neg = 1;
        s->at++;
    }
    for (int k = 0; k < 3; k++)
        if (strncmp(s->at, wraps[k], strlen(wraps[k])) == 0) {
            s->at += strlen(wraps[k]);
            extend |= k == 0;
            neg |= k == 1;
            abs |= k == 2;
            closes = 1;
            k = -1;
        }
    if (*s->at == '|') {
        abs = 1;
        s->at++;
    }
    if (!take_numbered(d, o) && !take_named(d, o) && !take_number(d, o, letter) && !take_distance(d, o))
        gpu_scan_fail(s, "expected an operand, got '%.20s'", s->at);
    if (abs && *s->at == '|')
        s->at++;
    while (closes && *s->at == ')')
        s->at++;
    o->neg = neg;
    o->abs = abs;
    o->extend = extend;
}

/* Registers have to be as many as the letter says. */
static void check_operand(gcn_decoder *d, const gcn_insn *i, const gcn_operand *o, char letter)
{
    const uint8_t mask_words = (uint8_t)(d->kernel->base.lanes / 32);
    const int wanted = letter == 'q' ? 2 : letter == 'm' ? mask_words : 1;
    if (letter == 'n' || o->kind == GCN_ABSENT || o->kind == GCN_CONSTANT || o->at == GCN_NULL ||
        o->n == wanted)
        return;
    gpu_scan_fail(d->scan, "'%.*s': an operand of %d registers, expected %d", i->line.n_text, i->line.text,
                  o->n, wanted);
}

/* ---- modifiers ------------------------------------------------------------------------------- */

static uint32_t take_list(gcn_decoder *d, int bits, uint8_t *n)
{
    uint32_t out = 0;
    gpu_scan_expect(d->scan, '[');
    for (*n = 0; !gpu_scan_is(d->scan, ']'); ++*n) {
        out |= (uint32_t)gpu_scan_number(d->scan) << bits * *n;
        gpu_scan_is(d->scan, ',');
    }
    return out;
}

static int part_of(gcn_decoder *d)
{
    static const char *const names[] = {"DWORD", "BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1"};
    char word[GPU_NAME];
    gpu_scan_word(d->scan, "_", word);
    for (int k = 0; k < 7; k++)
        if (strcmp(word, names[k]) == 0)
            return k;
    gpu_scan_fail(d->scan, "part '%s' of a word is not known", word);
}

static const struct {
    const char *name;
    gcn_move move;
} moves[] = {{"row_shl", GCN_ROW_SHL},
             {"row_shr", GCN_ROW_SHR},
             {"row_ror", GCN_ROW_ROR},
             {"row_mirror", GCN_ROW_MIRROR},
             {"row_half_mirror", GCN_ROW_HALF_MIRROR},
             {"row_share", GCN_ROW_SHARE},
             {"row_newbcast", GCN_ROW_SHARE},
             {"row_xmask", GCN_ROW_XMASK},
             {"wave_shl", GCN_WAVE_SHL},
             {"wave_shr", GCN_WAVE_SHR}};

static int take_move(gcn_decoder *d, gcn_insn *i, const char *word)
{
    uint8_t n;
    if (strcmp(word, "quad_perm") == 0 || strcmp(word, "dpp8") == 0) {
        gpu_scan_expect(d->scan, ':');
        i->move = word[0] == 'q' ? GCN_QUAD : GCN_DPP8;
        i->move_lanes = take_list(d, word[0] == 'q' ? 2 : 3, &n);
        return 1;
    }
    if (strcmp(word, "row_bcast") == 0) {
        gpu_scan_expect(d->scan, ':');
        i->move = gpu_scan_number(d->scan) == 15 ? GCN_BCAST_15 : GCN_BCAST_31;
        return 1;
    }
    for (size_t k = 0; k < sizeof moves / sizeof *moves; k++)
        if (strcmp(word, moves[k].name) == 0) {
            i->move = (uint8_t)moves[k].move;
            if (gpu_scan_is(d->scan, ':'))
                i->move_by = (uint8_t)gpu_scan_number(d->scan);
            return 1;
        }
    return 0;
}

/* Modifiers with a number or a list behind a colon. */
static int take_valued(gcn_decoder *d, gcn_insn *i, const char *word)
{
    uint8_t n;
    gpu_scan *s = d->scan;
    const struct {
        const char *name;
        uint8_t *to;
    } lists[] = {{"op_sel", &i->op_sel},
                 {"op_sel_hi", &i->op_sel_hi},
                 {"neg_lo", &i->neg_lo},
                 {"neg_hi", &i->neg_hi}},
      bytes[] = {{"row_mask", &i->row_mask}, {"bank_mask", &i->bank_mask}, {"fi", &i->fetches_inactive}};
    const struct {
        const char *name;
        int32_t *to;
    } numbers[] = {{"offset", &i->offset}, {"offset0", &i->offset}, {"offset1", &i->offset1}};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        if (strcmp(word, lists[k].name) == 0) {
            gpu_scan_expect(s, ':');
            *lists[k].to = (uint8_t)take_list(d, 1, &n);
            return 1;
        }
    for (size_t k = 0; k < sizeof bytes / sizeof *bytes; k++)
        if (strcmp(word, bytes[k].name) == 0) {
            gpu_scan_expect(s, ':');
            *bytes[k].to = (uint8_t)gpu_scan_number(s);
            return 1;
        }
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        if (strcmp(word, numbers[k].name) == 0) {
            gpu_scan_expect(s, ':');
            *numbers[k].to = (int32_t)gpu_scan_number(s);
            return 1;
        }
    return 0;
}

static int take_scale(gcn_decoder *d, gcn_insn *i, const char *word)
{
    if (strcmp(word, "mul") != 0 && strcmp(word, "div") != 0)
        return 0;
    gpu_scan_expect(d->scan, ':');
    const uint64_t by = gpu_scan_number(d->scan);
    i->scale = word[0] == 'd' ? 3 : by == 2 ? 1 : 2;
    return 1;
}

static int take_parts(gcn_decoder *d, gcn_insn *i, const char *word)
{
    if (strcmp(word, "dst_unused") == 0) {
        char how[GPU_NAME];
        gpu_scan_expect(d->scan, ':');
        gpu_scan_word(d->scan, "_", how);
        i->keeps_rest = strcmp(how, "UNUSED_PRESERVE") == 0;
        if (!i->keeps_rest && strcmp(how, "UNUSED_PAD") != 0)
            gpu_scan_fail(d->scan, "'%s' is not known", how);
        return 1;
    }
    uint8_t *to = strcmp(word, "dst_sel") == 0    ? &i->part
                  : strcmp(word, "src0_sel") == 0 ? &i->s[0].part
                  : strcmp(word, "src1_sel") == 0 ? &i->s[1].part
                                                  : NULL;
    if (!to)
        return 0;
    gpu_scan_expect(d->scan, ':');
    *to = (uint8_t)part_of(d);
    return 1;
}

/* gpr_idx(SRC0,DST) */
static int take_indices(gcn_decoder *d, gcn_insn *i, const char *word)
{
    if (strcmp(word, "gpr_idx") != 0)
        return 0;
    gpu_scan_expect(d->scan, '(');
    while (!gpu_scan_is(d->scan, ')')) {
        char which[GPU_NAME];
        gpu_scan_word(d->scan, "", which);
        if (strncmp(which, "SRC", 3) != 0)
            gpu_scan_fail(d->scan, "an index of %s is not known", which);
        i->op_sel |= (uint8_t)(1u << (which[3] - '0'));
        gpu_scan_is(d->scan, ',');
    }
    return 1;
}

static void take_modifiers(gcn_decoder *d, gcn_insn *i, const char *end)
{
    static const char without[] = " glc slc dlc sc0 sc1 nt offen "; /* caches; that there is an address */
    gpu_scan *s = d->scan;
    for (s->at += strspn(s->at, " \t,"); s->at < end; s->at += strspn(s->at, " \t,")) {
        char word[GPU_NAME], spaced[GPU_NAME + 2] = " ";
        gpu_scan_word(s, "_", word);
        strcat(strcat(spaced, word), " ");
        if (strcmp(word, "clamp") == 0) {
            i->clamp = 1;
        } else if (strcmp(word, "bound_ctrl") == 0) { /* :0 in older notation, :1 in newer: it is set */
            gpu_scan_expect(s, ':');
            gpu_scan_number(s);
            i->bound_zero = 1;
        } else if (!strstr(without, spaced) && !take_move(d, i, word) && !take_valued(d, i, word) &&
                   !take_scale(d, i, word) && !take_parts(d, i, word) && !take_indices(d, i, word)) {
            gpu_scan_fail(s, "'%.*s': '%s' is not known", i->line.n_text, i->line.text, word);
        }
    }
}

/* ---- instructions ---------------------------------------------------------------------------- */

static const gcn_row *find_row(const char *name)
{
    const gcn_row *const tables[] = {gcn_vector_rows, gcn_scalar_rows, gcn_together_rows, gcn_flow_rows};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const gcn_row *r = tables[t]; r->name; r++)
            if (strcmp(r->name, name) == 0)
                return r;
    return NULL;
}

static int has_text(const gcn_decoder *d, const char *end, const char *text)
{
    return memmem(d->scan->at, (size_t)(end - d->scan->at), text, strlen(text)) != NULL;
}

/* The row of an integer instruction whose result has limits. */
static const gcn_row *find_limited(const gcn_decoder *d, const gcn_row *row, const char *end)
{
    char name[GPU_NAME];
    if (row->operands[0] == 'f' || !has_text(d, end, " clamp"))
        return NULL;
    snprintf(name, sizeof name, "%s clamp", row->name);
    return find_row(name);
}

/* Without what says how it is encoded; of a pair's half, as the instruction alone. */
static void plain_name(char name[GPU_NAME])
{
    static const char *const endings[] = {"_e32", "_e64", "_dpp", "_sdwa"};
    for (int again = 0; again < 2; again++)
        for (size_t k = 0; k < sizeof endings / sizeof *endings; k++) {
            const size_t n = strlen(name), m = strlen(endings[k]);
            if (n > m && strcmp(name + n - m, endings[k]) == 0)
                name[n - m] = 0;
        }
    if (strncmp(name, "v_dual_", 7) == 0)
        memmove(name + 2, name + 7, strlen(name + 7) + 1);
    if (strcmp(name, "v_dot2acc_f32_f16") == 0)
        strcpy(name, "v_dot2c_f32_f16");
}

static void take_operands(gcn_decoder *d, gcn_insn *i, const char *letters, const char *end)
{
    gpu_scan *s = d->scan;
    int is_result = 1;
    for (const char *letter = letters; *letter; letter++) {
        if (*letter == ':') {
            is_result = 0;
            continue;
        }
        gcn_operand *o = is_result ? &i->d[i->n_d] : &i->s[i->n_s];
        s->at += strspn(s->at, " \t");
        if (s->at >= end)
            return;
        if (i->n_d + i->n_s)
            gpu_scan_expect(s, ',');
        take_operand(d, o, *letter);
        check_operand(d, i, o, *letter);
        if (!is_result && *letter == 'h')
            i->halves |= (uint8_t)(1u << i->n_s);
        i->n_d = (uint8_t)(i->n_d + is_result);
        i->n_s = (uint8_t)(i->n_s + !is_result);
    }
}

/* Which half of a register an operand or the result is: op_sel. */
static void select_halves(const gcn_decoder *d, gcn_insn *i, const char *name, const char *letters)
{
    static const char keeping[] = " v_mad_u16 v_fma_f16 v_fma_mixlo_f16 v_fma_mixhi_f16 "; /* on gfx9, too */
    for (int k = 0; k < i->n_s; k++)
        if (i->halves >> k & 1 && i->op_sel >> k & 1)
            i->s[k].part = GCN_HALF_1;
    if (letters[0] != 'h' || i->part)
        return;
    char spaced[GPU_NAME + 2];
    snprintf(spaced, sizeof spaced, " %s ", name);
    const int is_high = i->op_sel >> i->n_s & 1 || strncmp(name, "v_fma_mixhi", 11) == 0;
    if (is_high || d->version >= 0x1000 || strstr(keeping, spaced)) { /* else gfx9 clears the upper half */
        i->part = is_high ? GCN_HALF_1 : GCN_HALF_0;
        i->keeps_rest = 1;
    }
}

/* Each source of v_fma_mix is a float, or the half of a register that op_sel names. */
static void select_mixed(gcn_decoder *d, gcn_insn *i)
{
    for (int k = 0; k < i->n_s; k++)
        if (i->op_sel_hi >> k & 1) {
            if (i->s[k].kind == GCN_CONSTANT && i->s[k].value)
                gpu_scan_fail(d->scan, "'%.*s': a constant half is not known", i->line.n_text, i->line.text);
            i->s[k].part = i->op_sel >> k & 1 ? GCN_HALF_1 : GCN_HALF_0;
            i->halves |= (uint8_t)(1u << k);
        }
}

static void finish_vector(gcn_decoder *d, gcn_insn *i, const char *name, const char *letters)
{
    const uint8_t mask_words = (uint8_t)(d->kernel->base.lanes / 32);
    if (strcmp(name, "v_cndmask_b32") == 0 && i->n_s == 2) /* in a pair VCC is not named */
        i->s[i->n_s++] = (gcn_operand){.kind = GCN_SCALAR, .at = GCN_VCC, .n = mask_words};
    if (strncmp(name, "v_fma_mix", 9) == 0)
        select_mixed(d, i);
    if (strncmp(name, "v_perm", 6) != 0 && strncmp(name, "v_pk", 4) != 0)
        select_halves(d, i, name, letters);
    if (i->clamp && letters[0] != 'f')
        gpu_scan_fail(d->scan, "'%.*s': its limits are not known", i->line.n_text, i->line.text);
    if (strncmp(name, "v_pk", 4) == 0 && strstr(name, "f32"))
        for (int k = 0; k < i->n_s; k++)
            if (i->s[k].kind == GCN_CONSTANT && i->s[k].value && i->op_sel_hi >> k & 1)
                gpu_scan_fail(d->scan, "'%.*s': a constant pair is not known", i->line.n_text, i->line.text);
    i->special = i->clamp || i->scale || i->move || i->part;
}

/* buffer_store has the value first, buffers a descriptor. */
static void finish_access(gcn_decoder *d, gcn_insn *i, const char *name)
{
    gpu_kernel *k = &d->kernel->base;
    if (strncmp(name, "buffer_store", 12) == 0) {
        const gcn_operand value = i->s[0];
        i->s[0] = i->s[1];
        i->s[1] = value;
        i->s[2] = i->s[3];
    }
    if (i->space == GCN_LOCAL && i->bytes < k->granule)
        k->granule = i->bytes;
    if (i->space == GCN_GLOBAL && i->bytes < k->global_granule)
        k->global_granule = i->bytes;
}

static void take_label(gcn_decoder *d, const char *end)
{
    gpu_scan *s = d->scan;
    d->uses = gpu_room(s, d->uses, d->n_uses, &d->max_uses, sizeof *d->uses);
    gpu_label *use = &d->uses[d->n_uses++];
    use->at = d->kernel->n_code;
    gpu_scan_word(s, "._$", use->name);
    s->at = end;
}

/* From the scan's place to `end`. */
static gcn_insn decode_one(gcn_decoder *d, const char *end)
{
    gpu_scan *s = d->scan;
    gcn_insn i = {.line = {.text = s->at, .line = gpu_scan_line(s), .n_text = (int)(end - s->at)},
                  .row_mask = 15,
                  .bank_mask = 15};
    char name[GPU_NAME];
    const char *letters = NULL;
    gpu_scan_word(s, "_", name);
    plain_name(name);
    const int is_access = gcn_decode_access(&i, name, &letters);
    const gcn_row *row = is_access ? NULL : find_row(name);
    if (!is_access && !row)
        gpu_scan_fail(s, "instruction '%s' is not known", name);
    const gcn_row *limited = row ? find_limited(d, row, end) : NULL;
    row = limited ? limited : row;
    letters = row ? row->operands : letters;
    if (i.act == gcn_swap && !has_text(d, end, " glc") && !has_text(d, end, " sc0")) /* nothing comes back */
        letters++;
    if (row) {
        i.act = row->act;
        i.flow = (uint8_t)row->flow;
    }
    if (row && !*letters) { /* what is behind it does not matter here */
        if (i.flow == GCN_BRANCH)
            take_label(d, end);
        return i;
    }
    i.op_sel_hi = strncmp(name, "v_pk", 4) == 0 ? 7 : 0;
    take_operands(d, &i, letters, end);
    take_modifiers(d, &i, end);
    if (limited)
        i.clamp = 0;
    if (is_access)
        finish_access(d, &i, name);
    else if (name[0] == 'v')
        finish_vector(d, &i, name, letters);
    return i;
}

static void add_insn(gcn_decoder *d, const gcn_insn *i)
{
    gcn_kernel *k = d->kernel;
    k->code = gpu_room(d->scan, k->code, k->n_code, &d->max_code, sizeof *k->code);
    k->code[k->n_code++] = *i;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

/* v_dual_A :: v_dual_B reads all before it writes. */
static int reads(const gcn_insn *i, const gcn_operand *result)
{
    for (int k = 0; k < i->n_s; k++)
        if (i->s[k].kind == GCN_VECTOR && i->s[k].at == result->at)
            return 1;
    return 0;
}

static void add_pair(gcn_decoder *d, gcn_insn *a, gcn_insn *b)
{
    if (!reads(b, &a->d[0])) {
        add_insn(d, a);
        add_insn(d, b);
    } else if (!reads(a, &b->d[0])) {
        add_insn(d, b);
        add_insn(d, a);
    } else { /* by a register that no kernel has */
        const gcn_operand spare = {.kind = GCN_VECTOR, .at = GCN_SPARE, .n = 1}, result = a->d[0];
        gcn_insn move = {.line = a->line,
                         .act = find_row("v_mov_b32")->act,
                         .d = {result},
                         .n_d = 1,
                         .s = {spare},
                         .n_s = 1};
        if (memcmp(a->line.text, "v_dual_fm", 9) == 0 || memcmp(a->line.text, "v_dual_dot", 10) == 0)
            gpu_scan_fail(d->scan, "'%.*s': it exchanges what it adds to", a->line.n_text, a->line.text);
        a->d[0] = spare;
        add_insn(d, a);
        add_insn(d, b);
        add_insn(d, &move);
    }
}

void gcn_decode_insn(gcn_decoder *d, const char *end)
{
    if (!d->kernel)
        gpu_scan_fail(d->scan, "an instruction of no kernel");
    const char *middle = memmem(d->scan->at, (size_t)(end - d->scan->at), " :: ", 4);
    gcn_insn first = decode_one(d, middle ? middle : end);
    if (!middle) {
        add_insn(d, &first);
        return;
    }
    d->scan->at = middle + 4;
    gcn_insn second = decode_one(d, end);
    add_pair(d, &first, &second);
}

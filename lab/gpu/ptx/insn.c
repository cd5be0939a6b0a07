/* Instructions: their names, operands and registers. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "lab/gpu/ptx/decode.h"

/* ---- registers and constants ----------------------------------------------------------------- */

static uint32_t take_place(ptx_decoder *d, uint32_t bytes)
{
    const uint32_t at = d->kernel->base.file_bytes;
    d->kernel->base.file_bytes += bytes;
    return at;
}

/* A predicate has a word; others 32 lanes of 4 or 8 bytes. All begin at a multiple of 64 bytes but
 * predicates. */
static uint32_t stride_of(uint32_t bytes)
{
    return bytes ? bytes * PTX_LANES : 4;
}

void ptx_decode_registers(ptx_decoder *d)
{
    char type[GPU_NAME], name[GPU_NAME];
    gpu_scan *s = d->scan;
    gpu_scan_word(s, ".", type);
    gpu_scan_expect(s, '%');
    gpu_scan_word(s, "_", name);
    if (d->n_classes == PTX_MAX_CLASSES || strlen(name) >= sizeof d->classes[0].name)
        gpu_scan_fail(s, "more kinds of registers than there is room for");
    ptx_class *c = &d->classes[d->n_classes++];
    *c = (ptx_class){.n = 1};
    strcpy(c->name, name);
    if (strcmp(type, ".pred") != 0)
        c->bytes = strstr(type, "64") ? 8 : 4;
    if (gpu_scan_is(s, '<')) {
        c->n = (uint32_t)gpu_scan_number(s);
        gpu_scan_expect(s, '>');
    }
    gpu_scan_expect(s, ';');
    c->first = take_place(d, (c->n * stride_of(c->bytes) + 63) / 64 * 64);
}

static const struct {
    const char *name;
    uint32_t at;
} specials[] = {
    {"tid.x", PTX_AT_TID},       {"tid.y", PTX_AT_TID + 128},       {"tid.z", PTX_AT_TID + 256},
    {"ntid.x", PTX_AT_NTID},     {"ntid.y", PTX_AT_NTID + 128},     {"ntid.z", PTX_AT_NTID + 256},
    {"ctaid.x", PTX_AT_CTAID},   {"ctaid.y", PTX_AT_CTAID + 128},   {"ctaid.z", PTX_AT_CTAID + 256},
    {"nctaid.x", PTX_AT_NCTAID}, {"nctaid.y", PTX_AT_NCTAID + 128}, {"nctaid.z", PTX_AT_NCTAID + 256},
    {"laneid", PTX_AT_LANE},     {"nwarpid", PTX_AT_NWARP}};

/* Behind '%'. Returns the place; bytes: 0 of a predicate. */
static uint32_t take_register(ptx_decoder *d, uint32_t *bytes)
{
    char name[GPU_NAME];
    gpu_scan_word(d->scan, "._", name);
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        if (strcmp(name, specials[i].name) == 0) {
            *bytes = 4;
            return specials[i].at;
        }
    size_t n = strlen(name);
    while (n && isdigit((unsigned char)name[n - 1]))
        n--;
    const uint32_t index = (uint32_t)strtoul(name + n, NULL, 10);
    for (int i = 0; i < d->n_classes; i++) {
        const ptx_class *c = &d->classes[i];
        const int is_this = strlen(c->name) == n && memcmp(c->name, name, n) == 0 && index < c->n;
        if (!is_this && strcmp(c->name, name) != 0)
            continue;
        *bytes = c->bytes;
        return c->first + (is_this ? index : 0) * stride_of(c->bytes);
    }
    gpu_scan_fail(d->scan, "register %%%s is not declared", name);
}

static uint32_t constant_at(ptx_decoder *d, uint64_t value, uint32_t wide)
{
    ptx_kernel *k = d->kernel;
    for (uint32_t i = 0; i < k->n_constants; i++)
        if (k->constants[i].value == value && k->constants[i].wide == wide)
            return k->constants[i].at;
    k->constants = gpu_room(d->scan, k->constants, k->n_constants, &d->max_constants, sizeof *k->constants);
    const uint32_t at = take_place(d, wide ? 8 * PTX_LANES : 4 * PTX_LANES);
    k->constants[k->n_constants++] = (ptx_constant){value, at, wide};
    return at;
}

/* ---- symbols --------------------------------------------------------------------------------- */

/* An array in local memory gets its place where the kernel first names it, with a gap behind it. */
static uint64_t local_symbol(ptx_decoder *d, const gpu_symbol *s)
{
    enum { GAP = 64 };
    gpu_kernel *k = &d->kernel->base;
    for (int i = 0; i < k->n_locals; i++)
        if (strcmp(k->locals[i].name, s->name) == 0)
            return k->locals[i].value;
    k->locals = gpu_room(d->scan, k->locals, (uint32_t)k->n_locals, &d->max_locals, sizeof *k->locals);
    gpu_symbol *mine = &k->locals[k->n_locals++];
    *mine = *s;
    mine->value = d->local_end + (s->value < GAP ? s->value : 0);
    d->local_end = (mine->value + s->bytes + GAP + GAP - 1) / GAP * GAP;
    k->local_bytes = d->local_end;
    return mine->value;
}

static uint64_t take_symbol(ptx_decoder *d)
{
    char name[GPU_NAME];
    gpu_scan_word(d->scan, "$_", name);
    const gpu_module *m = d->module;
    const gpu_kernel *k = &d->kernel->base;
    for (int i = 0; i < k->n_params; i++)
        if (strcmp(k->params[i].name, name) == 0)
            return k->params[i].value;
    for (int i = 0; i < d->n_locals; i++)
        if (strcmp(d->locals[i].name, name) == 0)
            return local_symbol(d, &d->locals[i]);
    for (int i = 0; i < m->n_arrays; i++)
        if (strcmp(m->arrays[i].symbol.name, name) == 0)
            return m->arrays[i].symbol.value;
    if (strcmp(d->depot, name) == 0)
        return 0;
    gpu_scan_fail(d->scan, "'%s' is not declared", name);
}

/* ---- operands -------------------------------------------------------------------------------- */

static int is_number(gpu_scan *s)
{
    gpu_scan_blanks(s);
    return isdigit((unsigned char)*s->at) || *s->at == '-';
}

/* A register, number or symbol. bytes: what is expected, or of a register what it has. */
static uint32_t take_operand(ptx_decoder *d, uint32_t *bytes)
{
    if (gpu_scan_is(d->scan, '%'))
        return take_register(d, bytes);
    if (!is_number(d->scan))
        return constant_at(d, take_symbol(d), *bytes == 8);
    const uint64_t value = gpu_scan_number(d->scan);
    if (*bytes == 0)
        return constant_at(d, value ? ~0u : 0, 0);
    return *bytes == 8 ? constant_at(d, value, 1) : constant_at(d, (uint32_t)value, 0);
}

/* The operands that a row's letters say. */
static void take_operands(ptx_decoder *d, ptx_insn *i, const char *letters)
{
    gpu_scan *s = d->scan;
    for (int k = 0; letters[k]; k++) {
        const uint32_t wanted = letters[k] == 'q' ? 8 : letters[k] == 'w' ? 4 : 0;
        uint32_t bytes = wanted;
        while (gpu_scan_is(s, ',') || gpu_scan_is(s, '{') || gpu_scan_is(s, '}'))
            continue;
        i->at[k] = take_operand(d, &bytes);
        if (bytes != wanted)
            gpu_scan_fail(s, "'%.*s': operand %d has %u bytes, expected %u", i->line.n_text, i->line.text, k,
                          bytes, wanted);
    }
    gpu_scan_is(s, '}');
    gpu_scan_expect(s, ';');
}

/* [ADDRESS+OFFSET] */
static uint32_t take_address(ptx_decoder *d, ptx_insn *i)
{
    uint32_t bytes = 8;
    gpu_scan_expect(d->scan, '[');
    const uint32_t at = take_operand(d, &bytes);
    if (bytes != 8)
        gpu_scan_fail(d->scan, "an address of %u bytes, expected 8", bytes);
    i->offset = gpu_scan_is(d->scan, '+') ? (int64_t)gpu_scan_number(d->scan) : 0;
    gpu_scan_expect(d->scan, ']');
    return at;
}

/* Reads "ld.global.v4.f32" behind its first word. Returns 0 where it is not known. */
static int read_access(ptx_insn *i, const char *name)
{
    static const struct {
        const char *word;
        ptx_space space;
    } spaces[] = {{"global", PTX_GLOBAL},
                  {"shared", PTX_SHARED},
                  {"local", PTX_PRIVATE},
                  {"param", PTX_PARAM},
                  {"const", PTX_GLOBAL}};
    i->n = 1;
    i->bytes = 0;
    i->space = PTX_GENERIC;
    for (const char *at = strchr(name, '.'); at; at = strchr(at + 1, '.')) {
        const size_t n = strcspn(at + 1, ".");
        int known =
            (n == 8 && memcmp(at + 1, "volatile", n) == 0) || (n == 2 && memcmp(at + 1, "nc", n) == 0);
        for (size_t k = 0; k < sizeof spaces / sizeof *spaces; k++)
            if (strlen(spaces[k].word) == n && memcmp(spaces[k].word, at + 1, n) == 0) {
                i->space = (uint8_t)spaces[k].space;
                known = 1;
            }
        if (at[1] == 'v' && n == 2) {
            i->n = (uint8_t)(at[2] - '0');
            known = i->n == 2 || i->n == 4;
        } else if (strchr("usbf", at[1]) && isdigit((unsigned char)at[2])) {
            i->bytes = (uint8_t)(strtol(at + 2, NULL, 10) / 8);
            i->is_signed = at[1] == 's';
            known = 1;
        }
        if (!known)
            return 0;
    }
    return i->bytes != 0;
}

static void note_granule(gpu_kernel *k, const ptx_insn *i)
{
    if ((i->space == PTX_SHARED || i->space == PTX_GENERIC) && i->bytes < k->granule)
        k->granule = i->bytes;
    if ((i->space == PTX_GLOBAL || i->space == PTX_GENERIC) && i->bytes < k->global_granule)
        k->global_granule = i->bytes;
}

static void take_values(ptx_decoder *d, ptx_insn *i)
{
    for (int k = 0; k < i->n; k++) {
        uint32_t bytes = i->bytes == 8 ? 8 : 4;
        while (gpu_scan_is(d->scan, ',') || gpu_scan_is(d->scan, '{'))
            continue;
        i->at[k] = take_operand(d, &bytes);
        i->wide = bytes == 8;
        if (bytes < i->bytes)
            gpu_scan_fail(d->scan, "a register of %u bytes for %u", bytes, i->bytes);
    }
    gpu_scan_is(d->scan, '}');
}

static void take_access(ptx_decoder *d, ptx_insn *i, int is_load)
{
    if (is_load) {
        take_values(d, i);
        gpu_scan_expect(d->scan, ',');
    }
    i->at[i->n] = take_address(d, i);
    if (!is_load) {
        gpu_scan_expect(d->scan, ',');
        take_values(d, i);
    }
    gpu_scan_expect(d->scan, ';');
    i->act = is_load ? ptx_load : ptx_store;
    note_granule(&d->kernel->base, i);
}

/* ---- instructions ---------------------------------------------------------------------------- */

static const ptx_row *find_row(const char *name)
{
    const ptx_row *const tables[] = {ptx_alu_rows, ptx_warp_rows};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const ptx_row *r = tables[t]; r->name; r++)
            if (strcmp(r->name, name) == 0)
                return r;
    return NULL;
}

/* mov.b32 %r, {%a, %b} and mov.b32 {%a, %b}, %r have rows of their own. */
static void name_move(const gpu_scan *s, char name[GPU_NAME])
{
    const char *at = s->at + strspn(s->at, " \t\n"), *brace = at;
    while (*brace && *brace != '{' && *brace != ';')
        brace++;
    if (*brace != '{' || strncmp(name, "mov.b", 5) != 0)
        return;
    int n = 1;
    for (const char *c = brace; *c && *c != '}'; c++)
        n += *c == ',';
    const char how[] = {' ', 0};
    strcat(strcat(name, how), brace == at ? "to " : "from ");
    const char count[] = {(char)('0' + n), 0};
    strcat(name, count);
}

static void take_branch(ptx_decoder *d, ptx_insn *i)
{
    i->flow = PTX_BRANCH;
    d->uses = gpu_room(d->scan, d->uses, d->n_uses, &d->max_uses, sizeof *d->uses);
    gpu_label *use = &d->uses[d->n_uses++];
    use->at = d->kernel->n_code;
    gpu_scan_word(d->scan, "$_", use->name);
    gpu_scan_expect(d->scan, ';');
}

static void take_rest(ptx_decoder *d, ptx_insn *i, char name[GPU_NAME])
{
    const int is_load = strncmp(name, "ld.", 3) == 0;
    if (strcmp(name, "bra") == 0 || strcmp(name, "bra.uni") == 0) {
        take_branch(d, i);
    } else if ((is_load || strncmp(name, "st.", 3) == 0) && read_access(i, name)) {
        take_access(d, i, is_load);
    } else if (strcmp(name, "atom.global.exch.b32") == 0) {
        uint32_t bytes = 4;
        i->bytes = 4;
        i->n = 1;
        i->space = PTX_GLOBAL;
        i->at[0] = take_operand(d, &bytes);
        gpu_scan_expect(d->scan, ',');
        i->at[1] = take_address(d, i);
        gpu_scan_expect(d->scan, ',');
        bytes = 4;
        i->at[2] = take_operand(d, &bytes);
        i->act = ptx_exchange;
        gpu_scan_expect(d->scan, ';');
    } else {
        const ptx_row *row;
        name_move(d->scan, name);
        row = find_row(name);
        if (!row || (i->guard && (row->flow == PTX_BARRIER || row->flow == PTX_TOGETHER)))
            gpu_scan_fail(d->scan, "instruction '%s%s' is not known", i->guard ? "@p " : "", name);
        i->act = row->act;
        i->flow = (uint8_t)row->flow;
        take_operands(d, i, row->operands);
    }
}

static void check_target(const ptx_decoder *d, const char *name)
{
    static const struct {
        const char *name;
        int least;
    } rows[] = {{"mma.sync", 80}, {"cvt.rn.bf16x2", 80}, {"cp.async.bulk", 90}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strncmp(name, rows[i].name, strlen(rows[i].name)) == 0 && rows[i].least > d->capability)
            gpu_scan_fail(d->scan, "instruction '%s' needs sm_%d, and this is sm_%d", rows[i].name,
                          rows[i].least, d->capability);
}

void ptx_decode_insn(ptx_decoder *d)
{
    char name[GPU_NAME];
    ptx_kernel *k = d->kernel;
    ptx_insn i = {.line = {.text = d->scan->at, .line = gpu_scan_line(d->scan)}};
    i.line.n_text = (int)strcspn(i.line.text, ";\n");
    k->code = gpu_room(d->scan, k->code, k->n_code + 1, &d->max_code, sizeof *k->code);
    if (gpu_scan_is(d->scan, '@')) {
        uint32_t bytes = 0;
        i.guard_not = (uint8_t)gpu_scan_is(d->scan, '!');
        gpu_scan_expect(d->scan, '%');
        i.guard = take_register(d, &bytes);
    }
    gpu_scan_word(d->scan, "._:", name);
    check_target(d, name);
    take_rest(d, &i, name);
    k->code[k->n_code++] = i;
}

void ptx_decode_label(ptx_decoder *d, const char *name)
{
    d->labels = gpu_room(d->scan, d->labels, d->n_labels, &d->max_labels, sizeof *d->labels);
    strcpy(d->labels[d->n_labels].name, name);
    d->labels[d->n_labels++].at = d->kernel->n_code;
}

void ptx_decode_end(ptx_decoder *d)
{
    ptx_kernel *k = d->kernel;
    k->code = gpu_room(d->scan, k->code, k->n_code + 1, &d->max_code, sizeof *k->code);
    k->code[k->n_code] =
        (ptx_insn){.flow = PTX_RETURN, .line = {.text = "}", .n_text = 1, .line = gpu_scan_line(d->scan)}};
    k->n_code++;
    k->base.code = k->code;
    for (uint32_t u = 0; u < d->n_uses; u++)
        k->code[d->uses[u].at].target = gpu_label_find(d->scan, d->labels, d->n_labels, d->uses[u].name);
}

/* Modules and kernels: what is outside of instructions. */
#include "lab/gpu/ptx/decode.h"

#include <stdlib.h>
#include <string.h>

/* ---- declarations ---------------------------------------------------------------------------- */

static size_t bytes_of_type(gpu_scan *s, const char *type)
{
    const char *bits = type + strspn(type, ".usbf");
    const long n = strtol(bits, NULL, 10);
    if (n != 8 && n != 16 && n != 32 && n != 64)
        gpu_scan_fail(s, "type '%s' is not known", type);
    return (size_t)n / 8;
}

/* [.ptr] [.SPACE] [.align N] .TYPE NAME[N]: returns the bytes of an element; align may be NULL. */
static size_t declaration(gpu_scan *s, gpu_symbol *out, size_t *align)
{
    size_t bytes = 0, aligned = 0;
    char word[GPU_NAME];
    for (;;) {
        gpu_scan_word(s, ".$_", word);
        if (strcmp(word, ".align") == 0)
            aligned = gpu_scan_number(s);
        else if (word[0] == '.' && strchr("usbf", word[1]) && word[2] >= '0' && word[2] <= '9')
            bytes = bytes_of_type(s, word);
        else if (word[0] != '.')
            break;
        else if (!strstr(".ptr .global .shared .const .local .visible .extern .weak", word))
            gpu_scan_fail(s, "'%s' is not known in a declaration", word);
    }
    strcpy(out->name, word);
    out->bytes = bytes;
    if (gpu_scan_is(s, '[')) {
        out->bytes = bytes * gpu_scan_number(s);
        gpu_scan_expect(s, ']');
    }
    if (align)
        *align = aligned ? aligned : bytes;
    return bytes;
}

/* The address has the alignment that is declared, and no more. */
static void local_array(ptx_decoder *d)
{
    size_t align;
    d->locals = gpu_room(d->scan, d->locals, (uint32_t)d->n_locals, &d->max_module_locals, sizeof *d->locals);
    declaration(d->scan, &d->locals[d->n_locals], &align);
    d->locals[d->n_locals++].value = align;
    gpu_scan_expect(d->scan, ';');
}

static void fill_array(gpu_scan *s, gpu_array *a, size_t bytes)
{
    gpu_scan_expect(s, '{');
    for (size_t at = 0; !gpu_scan_is(s, '}'); at += bytes) {
        const uint64_t value = gpu_scan_number(s);
        if (at + bytes > a->symbol.bytes)
            gpu_scan_fail(s, "%s has more values than places", a->symbol.name);
        memcpy(a->data + at, &value, bytes);
        gpu_scan_is(s, ',');
    }
}

static void constant_array(ptx_decoder *d)
{
    gpu_array *a = gpu_add_array(d->module, d->scan);
    const uint64_t address = a->symbol.value;
    const size_t bytes = declaration(d->scan, &a->symbol, NULL);
    a->symbol.value = address;
    a->data = calloc(1, a->symbol.bytes + 1);
    if (!a->data)
        gpu_scan_fail(d->scan, "no memory");
    if (gpu_scan_is(d->scan, '='))
        fill_array(d->scan, a, bytes);
    gpu_scan_expect(d->scan, ';');
}

/* ---- kernels --------------------------------------------------------------------------------- */

static void parameters(ptx_decoder *d)
{
    gpu_kernel *k = &d->kernel->base;
    gpu_scan_expect(d->scan, '(');
    while (!gpu_scan_is(d->scan, ')')) {
        char word[GPU_NAME];
        size_t align;
        if (k->n_params == GPU_MAX_PARAMS)
            gpu_scan_fail(d->scan, "more parameters than there is room for");
        gpu_scan_word(d->scan, ".", word); /* .param */
        gpu_symbol *p = &k->params[k->n_params++];
        declaration(d->scan, p, &align);
        p->value = (k->param_bytes + 15) / 16 * 16;
        k->param_bytes = p->value + p->bytes;
        gpu_scan_is(d->scan, ',');
    }
}

static void directive(ptx_decoder *d)
{
    char word[GPU_NAME];
    gpu_scan_word(d->scan, "._", word);
    if (strcmp(word, ".reg") == 0) {
        ptx_decode_registers(d);
    } else if (strcmp(word, ".local") == 0) {
        gpu_symbol s;
        if (d->depot[0])
            gpu_scan_fail(d->scan, "a second array in private memory");
        declaration(d->scan, &s, NULL);
        strcpy(d->depot, s.name);
        d->kernel->base.private_bytes = s.bytes;
        gpu_scan_expect(d->scan, ';');
    } else if (strcmp(word, ".shared") == 0) {
        local_array(d);
    } else if (strcmp(word, ".loc") == 0) {
        gpu_scan_past(d->scan, '\n');
    } else if (strcmp(word, ".pragma") == 0) {
        gpu_scan_past(d->scan, ';');
    } else {
        gpu_scan_fail(d->scan, "'%s' is not known in a kernel", word);
    }
}

static int is_label(const gpu_scan *s)
{
    const char *at = s->at;
    while (at < s->end && (strchr("$_", *at) || (*at >= '0' && *at <= '9') || (*at | 32) >= 'a'))
        at++;
    return at < s->end && at > s->at && *at == ':';
}

static void body(ptx_decoder *d)
{
    char word[GPU_NAME];
    int depth = 1; /* clang puts inline assembly in braces */
    gpu_scan_past(d->scan, '{');
    while (depth) {
        if (gpu_scan_is(d->scan, '{')) {
            depth++;
        } else if (gpu_scan_is(d->scan, '}')) {
            depth--;
        } else if (*d->scan->at == '.') {
            directive(d);
        } else if (is_label(d->scan)) {
            gpu_scan_word(d->scan, "$_", word);
            gpu_scan_expect(d->scan, ':');
            ptx_decode_label(d, word);
        } else {
            ptx_decode_insn(d);
        }
    }
    ptx_decode_end(d);
}

static void kernel(ptx_decoder *d)
{
    d->kernel = (ptx_kernel *)(void *)gpu_add_kernel(d->module, d->scan, &ptx_isa, sizeof *d->kernel);
    d->kernel->base.file_bytes = PTX_AT_FIRST;
    d->kernel->base.lanes = PTX_LANES;
    d->kernel->base.insn_bytes = sizeof *d->kernel->code;
    d->n_classes = 0;
    d->n_labels = d->n_uses = d->max_code = d->max_constants = d->max_locals = 0;
    d->local_end = 0;
    d->depot[0] = 0;
    free(d->labels);
    free(d->uses);
    d->labels = d->uses = NULL;
    d->max_labels = d->max_uses = 0;
    gpu_scan_word(d->scan, "$_", d->kernel->base.name);
    parameters(d);
    body(d);
}

/* A function that is not a kernel: clang has put it into the kernels that call it, or the call is
 * refused. */
static void skip_function(gpu_scan *s)
{
    int depth = 0;
    while (s->at < s->end && *s->at != '{' && *s->at != ';')
        s->at++;
    do {
        if (s->at == s->end)
            gpu_scan_fail(s, "expected '}', got the end");
        depth += *s->at == '{' ? 1 : *s->at == '}' ? -1 : 0;
        s->at++;
    } while (depth);
}

static void module_text(ptx_decoder *d)
{
    gpu_scan *s = d->scan;
    for (gpu_scan_blanks(s); s->at < s->end; gpu_scan_blanks(s)) {
        char word[GPU_NAME];
        gpu_scan_word(s, "._", word);
        if (strcmp(word, ".visible") == 0 || strcmp(word, ".weak") == 0 || strcmp(word, ".extern") == 0)
            continue;
        if (strcmp(word, ".entry") == 0)
            kernel(d);
        else if (strcmp(word, ".func") == 0)
            skip_function(s);
        else if (strcmp(word, ".shared") == 0)
            local_array(d);
        else if (strcmp(word, ".const") == 0 || strcmp(word, ".global") == 0)
            constant_array(d);
        else if (strcmp(word, ".version") == 0 || strcmp(word, ".target") == 0 ||
                 strcmp(word, ".address_size") == 0 || strcmp(word, ".file") == 0)
            gpu_scan_past(s, '\n');
        else
            gpu_scan_fail(s, "'%s' is not known", word);
    }
}

/* ---- the interface --------------------------------------------------------------------------- */

void ptx_decode(gpu_scan *scan, gpu_module *m, const char *target)
{
    ptx_decoder *d = calloc(1, sizeof *d);
    if (!d) {
        strcpy(scan->why, "no memory");
        return;
    }
    d->scan = scan;
    d->module = m;
    d->capability = (int)strtol(target + strcspn(target, "0123456789"), NULL, 10);
    if (setjmp(scan->failed) == 0)
        module_text(d);
    free(d->labels);
    free(d->uses);
    free(d->locals);
    free(d);
}

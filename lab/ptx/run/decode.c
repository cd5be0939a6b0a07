/* Modules and kernels: what is outside of instructions. */
#include "lab/ptx/run/decode.h"

#include <stdlib.h>
#include <string.h>

void *ptx_room(ptx_decoder *d, void *of, uint32_t n, uint32_t *most, size_t bytes)
{
    if (n < *most)
        return of;
    *most = *most ? 2 * *most : 64;
    void *more = realloc(of, *most * bytes);
    if (!more)
        ptx_scan_fail(&d->scan, "no memory");
    return more;
}

/* ---- declarations ---------------------------------------------------------------------------- */

static size_t bytes_of_type(ptx_scan *s, const char *type)
{
    const char *bits = type + strspn(type, ".usbf");
    const long n = strtol(bits, NULL, 10);
    if (n != 8 && n != 16 && n != 32 && n != 64)
        ptx_scan_fail(s, "type '%s' is not known", type);
    return (size_t)n / 8;
}

/* [.ptr] [.SPACE] [.align N] .TYPE NAME[N]: returns the bytes of an element; align may be NULL. */
static size_t declaration(ptx_scan *s, ptx_symbol *out, size_t *align)
{
    size_t bytes = 0, aligned = 0;
    char word[PTX_NAME];
    for (;;) {
        ptx_scan_word(s, ".$_", word);
        if (strcmp(word, ".align") == 0)
            aligned = ptx_scan_number(s);
        else if (word[0] == '.' && strchr("usbf", word[1]) && word[2] >= '0' && word[2] <= '9')
            bytes = bytes_of_type(s, word);
        else if (word[0] != '.')
            break;
        else if (!strstr(".ptr .global .shared .const .local .visible .extern .weak", word))
            ptx_scan_fail(s, "'%s' is not known in a declaration", word);
    }
    strcpy(out->name, word);
    out->bytes = bytes;
    if (ptx_scan_is(s, '[')) {
        out->bytes = bytes * ptx_scan_number(s);
        ptx_scan_expect(s, ']');
    }
    if (align)
        *align = aligned ? aligned : bytes;
    return bytes;
}

/* The address has the alignment that is declared, and no more. */
static void local_array(ptx_decoder *d)
{
    ptx_module *m = d->module;
    ptx_symbol *more = realloc(m->locals, ((size_t)m->n_locals + 1) * sizeof *more);
    if (!more)
        ptx_scan_fail(&d->scan, "no memory");
    m->locals = more;
    size_t align;
    declaration(&d->scan, &more[m->n_locals], &align);
    more[m->n_locals++].value = align;
    ptx_scan_expect(&d->scan, ';');
}

static void fill_array(ptx_scan *s, ptx_array *a, size_t bytes)
{
    ptx_scan_expect(s, '{');
    for (size_t at = 0; !ptx_scan_is(s, '}'); at += bytes) {
        const uint64_t value = ptx_scan_number(s);
        if (at + bytes > a->symbol.bytes)
            ptx_scan_fail(s, "%s has more values than places", a->symbol.name);
        memcpy(a->data + at, &value, bytes);
        ptx_scan_is(s, ',');
    }
}

static void constant_array(ptx_decoder *d)
{
    ptx_module *m = d->module;
    ptx_array *more = realloc(m->arrays, ((size_t)m->n_arrays + 1) * sizeof *more);
    if (!more)
        ptx_scan_fail(&d->scan, "no memory");
    m->arrays = more;
    ptx_array *a = &more[m->n_arrays];
    *a = (ptx_array){0};
    const size_t bytes = declaration(&d->scan, &a->symbol, NULL);
    const int slot = PTX_MAX_PARAMS + 1 + m->n_arrays;
    if (slot >= PTX_PRIVATE_SLOT)
        ptx_scan_fail(&d->scan, "more constants than there is room for");
    a->symbol.value = (uint64_t)slot << PTX_SLOT_BITS;
    a->data = calloc(1, a->symbol.bytes + 1);
    if (!a->data)
        ptx_scan_fail(&d->scan, "no memory");
    m->n_arrays++;
    if (ptx_scan_is(&d->scan, '='))
        fill_array(&d->scan, a, bytes);
    ptx_scan_expect(&d->scan, ';');
}

/* ---- kernels --------------------------------------------------------------------------------- */

static void parameters(ptx_decoder *d)
{
    ptx_kernel *k = d->kernel;
    ptx_scan_expect(&d->scan, '(');
    while (!ptx_scan_is(&d->scan, ')')) {
        char word[PTX_NAME];
        size_t align;
        if (k->n_params == PTX_MAX_PARAMS)
            ptx_scan_fail(&d->scan, "more parameters than there is room for");
        ptx_scan_word(&d->scan, ".", word); /* .param */
        ptx_symbol *p = &k->params[k->n_params++];
        declaration(&d->scan, p, &align);
        p->value = (k->param_bytes + 15) / 16 * 16;
        k->param_bytes = p->value + p->bytes;
        ptx_scan_is(&d->scan, ',');
    }
}

static void directive(ptx_decoder *d)
{
    char word[PTX_NAME];
    ptx_scan_word(&d->scan, "._", word);
    if (strcmp(word, ".reg") == 0) {
        ptx_decode_registers(d);
    } else if (strcmp(word, ".local") == 0) {
        ptx_symbol s;
        if (d->depot[0])
            ptx_scan_fail(&d->scan, "a second array in private memory");
        declaration(&d->scan, &s, NULL);
        strcpy(d->depot, s.name);
        d->kernel->private_bytes = s.bytes;
        ptx_scan_expect(&d->scan, ';');
    } else if (strcmp(word, ".shared") == 0) {
        local_array(d);
    } else if (strcmp(word, ".loc") == 0) {
        ptx_scan_past(&d->scan, '\n');
    } else if (strcmp(word, ".pragma") == 0) {
        ptx_scan_past(&d->scan, ';');
    } else {
        ptx_scan_fail(&d->scan, "'%s' is not known in a kernel", word);
    }
}

static int is_label(const ptx_scan *s)
{
    const char *at = s->at;
    while (at < s->end && (strchr("$_", *at) || (*at >= '0' && *at <= '9') || (*at | 32) >= 'a'))
        at++;
    return at < s->end && at > s->at && *at == ':';
}

static void body(ptx_decoder *d)
{
    char word[PTX_NAME];
    int depth = 1; /* clang puts inline assembly in braces */
    ptx_scan_past(&d->scan, '{');
    while (depth) {
        if (ptx_scan_is(&d->scan, '{')) {
            depth++;
        } else if (ptx_scan_is(&d->scan, '}')) {
            depth--;
        } else if (*d->scan.at == '.') {
            directive(d);
        } else if (is_label(&d->scan)) {
            ptx_scan_word(&d->scan, "$_", word);
            ptx_scan_expect(&d->scan, ':');
            ptx_decode_label(d, word);
        } else {
            ptx_decode_insn(d);
        }
    }
    ptx_decode_end(d);
}

static void kernel(ptx_decoder *d)
{
    ptx_module *m = d->module;
    ptx_kernel *more = realloc(m->kernels, ((size_t)m->n_kernels + 1) * sizeof *more);
    if (!more)
        ptx_scan_fail(&d->scan, "no memory");
    m->kernels = more;
    d->kernel = &more[m->n_kernels++];
    *d->kernel = (ptx_kernel){.module = m, .file_bytes = PTX_AT_FIRST, .granule = 4, .global_granule = 4};
    d->n_classes = 0;
    d->n_labels = d->n_uses = d->max_code = d->max_constants = d->max_locals = 0;
    d->local_end = 0;
    d->depot[0] = 0;
    free(d->labels);
    free(d->uses);
    d->labels = d->uses = NULL;
    d->max_labels = d->max_uses = 0;
    ptx_scan_word(&d->scan, "$_", d->kernel->name);
    parameters(d);
    body(d);
}

/* A function that is not a kernel: clang has put it into the kernels that call it, or the call is
 * refused. */
static void skip_function(ptx_scan *s)
{
    int depth = 0;
    while (s->at < s->end && *s->at != '{' && *s->at != ';')
        s->at++;
    do {
        if (s->at == s->end)
            ptx_scan_fail(s, "expected '}', got the end");
        depth += *s->at == '{' ? 1 : *s->at == '}' ? -1 : 0;
        s->at++;
    } while (depth);
}

static void module_text(ptx_decoder *d)
{
    ptx_scan *s = &d->scan;
    for (ptx_scan_blanks(s); s->at < s->end; ptx_scan_blanks(s)) {
        char word[PTX_NAME];
        ptx_scan_word(s, "._", word);
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
            ptx_scan_past(s, '\n');
        else
            ptx_scan_fail(s, "'%s' is not known", word);
    }
}

/* ---- the interface --------------------------------------------------------------------------- */

static void decode(ptx_decoder *d)
{
    if (setjmp(d->scan.failed) == 0)
        module_text(d);
    free(d->labels);
    free(d->uses);
}

ptx_module *ptx_module_create(const char *text, size_t n, char why[PTX_MESSAGE])
{
    ptx_module *m = calloc(1, sizeof *m);
    ptx_decoder *d = calloc(1, sizeof *d);
    why[0] = 0;
    if (m && d && (m->text = malloc(n + 1)) != NULL) {
        memcpy(m->text, text, n);
        m->text[n] = 0;
        d->module = m;
        d->scan = (ptx_scan){.at = m->text, .end = m->text + strlen(m->text), .line = 1, .why = why};
        d->scan.counted = m->text;
        decode(d);
    } else {
        strcpy(why, "no memory");
    }
    free(d);
    if (!why[0])
        return m;
    ptx_module_destroy(m);
    return NULL;
}

void ptx_module_destroy(ptx_module *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->n_kernels; i++) {
        free(m->kernels[i].code);
        free(m->kernels[i].constants);
        free(m->kernels[i].locals);
    }
    for (int i = 0; i < m->n_arrays; i++)
        free(m->arrays[i].data);
    free(m->arrays);
    free(m->kernels);
    free(m->locals);
    free(m->text);
    free(m);
}

const ptx_kernel *ptx_module_at(const ptx_module *m, int i)
{
    return i < m->n_kernels ? &m->kernels[i] : NULL;
}

const ptx_kernel *ptx_module_kernel(const ptx_module *m, const char *name)
{
    for (int i = 0; i < m->n_kernels; i++)
        if (strcmp(m->kernels[i].name, name) == 0)
            return &m->kernels[i];
    return NULL;
}

const char *ptx_kernel_name(const ptx_kernel *k)
{
    return k->name;
}

int ptx_kernel_params(const ptx_kernel *k)
{
    return k->n_params;
}

size_t ptx_param_bytes(const ptx_kernel *k, int i)
{
    return k->params[i].bytes;
}

size_t ptx_kernel_local_bytes(const ptx_kernel *k)
{
    size_t bytes = 0;
    for (int i = 0; i < k->n_locals; i++)
        bytes += k->locals[i].bytes;
    return bytes;
}

size_t ptx_kernel_private_bytes(const ptx_kernel *k)
{
    return k->private_bytes;
}

int ptx_module_least(const ptx_module *m, const char **name)
{
    *name = m->least_name;
    return m->least;
}

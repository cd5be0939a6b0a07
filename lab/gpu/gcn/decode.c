/* Modules and kernels: labels, directives, constants, and the metadata that describes arguments. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "lab/gpu/gcn/gcn.h"

/* ---- lines ----------------------------------------------------------------------------------- */

static int starts_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Behind `key`, if the line has it: a number, or -1. */
static long long number_behind(const char *line, const char *key)
{
    const size_t n = strlen(key);
    return strncmp(line, key, n) == 0 && (line[n] == ' ' || line[n] == ':')
               ? strtoll(line + n + (line[n] == ':'), NULL, 0)
               : -1;
}

/* The end of the line without its comment. */
static const char *end_of(const char *line)
{
    const char *end = line + strcspn(line, "\n;");
    while (end > line && isspace((unsigned char)end[-1]))
        end--;
    return end;
}

/* ---- constants ------------------------------------------------------------------------------- */

uint64_t gcn_symbol(gcn_decoder *d, const char *name)
{
    const gpu_module *m = d->module;
    for (int i = 0; i < m->n_arrays; i++)
        if (strcmp(m->arrays[i].symbol.name, name) == 0)
            return m->arrays[i].symbol.value;
    gpu_array *a = gpu_add_array(d->module, d->scan);
    strcpy(a->symbol.name, name);
    return a->symbol.value;
}

static gpu_array *array_of(gcn_decoder *d, const char *name)
{
    const uint64_t address = gcn_symbol(d, name);
    for (int i = 0;; i++)
        if (d->module->arrays[i].symbol.value == address)
            return &d->module->arrays[i];
}

static void add_bytes(gcn_decoder *d, gpu_array *a, const void *bytes, size_t n)
{
    unsigned char *more = realloc(a->data, a->symbol.bytes + n);
    if (!more)
        gpu_scan_fail(d->scan, "no memory");
    if (bytes)
        memcpy(more + a->symbol.bytes, bytes, n);
    else
        memset(more + a->symbol.bytes, 0, n);
    a->data = more;
    a->symbol.bytes += n;
}

/* .ascii "TEXT": \NNN, \b, \f, \n, \r, \t, \", \\ */
static void add_text(gcn_decoder *d, gpu_array *a, const char *at, int has_end)
{
    static const char names[] = "bfnrt\"\\", bytes[] = "\b\f\n\r\t\"\\";
    for (at = strchr(at, '"') + 1; *at != '"'; at++) {
        char c = *at;
        if (c == '\\') {
            const char *name = strchr(names, *++at);
            c = name ? bytes[name - names] : 0;
            if (!name) {
                char digits[4] = {0};
                memcpy(digits, at, 3);
                c = (char)strtol(digits, NULL, 8);
                at += 2;
            }
        }
        add_bytes(d, a, &c, 1);
    }
    if (has_end)
        add_bytes(d, a, NULL, 1);
}

static void data_line(gcn_decoder *d, const char *line)
{
    static const struct {
        const char *name;
        size_t bytes;
    } kinds[] = {{".byte", 1}, {".short", 2}, {".long", 4}, {".quad", 8}};
    gpu_array *a = d->array;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (starts_with(line, kinds[k].name)) {
            char *at = (char *)(uintptr_t)(line + strlen(kinds[k].name));
            do {
                const unsigned long long value =
                    *at == '-' ? (unsigned long long)strtoll(at, &at, 0) : strtoull(at, &at, 0);
                add_bytes(d, a, &value, kinds[k].bytes);
            } while (*at++ == ',');
            return;
        }
    if (starts_with(line, ".ascii") || starts_with(line, ".asciz"))
        add_text(d, a, line, line[5] == 'z');
    else if (starts_with(line, ".zero"))
        add_bytes(d, a, NULL, (size_t)number_behind(line, ".zero"));
    else if (!starts_with(line, ".size") && !starts_with(line, ".p2align"))
        d->array = NULL;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static void begin_kernel(gcn_decoder *d, const char *name)
{
    d->kernel = (gcn_kernel *)(void *)gpu_add_kernel(d->module, d->scan, &gcn_isa, sizeof *d->kernel);
    gpu_kernel *k = &d->kernel->base;
    strcpy(k->name, name);
    k->insn_bytes = sizeof *d->kernel->code;
    k->lanes = d->version < 0x1000 ? 64 : 32;
    k->in_step = 1;
    d->kernel->version = d->version;
    d->n_labels = d->n_uses = d->max_code = 0;
}

static void resolve_labels(gcn_decoder *d)
{
    for (uint32_t u = 0; u < d->n_uses; u++)
        d->kernel->code[d->uses[u].at].target =
            gpu_label_find(d->scan, d->labels, d->n_labels, d->uses[u].name);
    d->n_uses = 0;
}

/* Accumulators lie behind the other vector registers. */
static void place_registers(gcn_decoder *d)
{
    gcn_kernel *k = d->kernel;
    for (uint32_t n = 0; n < k->n_code; n++)
        for (int o = 0; o < GCN_RESULTS + GCN_SOURCES; o++) {
            gcn_operand *it = o < GCN_RESULTS ? &k->code[n].d[o] : &k->code[n].s[o - GCN_RESULTS];
            if (it->kind != GCN_VECTOR)
                continue;
            if (it->at == GCN_SPARE) {
                it->at = (uint16_t)k->n_vectors;
                continue;
            }
            if (it->at >= GCN_ACCUMULATORS)
                it->at = (uint16_t)(it->at - GCN_ACCUMULATORS + k->accumulators);
            if (it->at + it->n > (int)k->n_vectors)
                gpu_scan_fail(d->scan, "'%.*s' has register v%u, of %u", k->code[n].line.n_text,
                              k->code[n].line.text, it->at + it->n - 1u, k->n_vectors);
        }
    if (k->base.local_bytes) { /* arrays have no names: one for all */
        k->base.locals = calloc(1, sizeof *k->base.locals);
        if (!k->base.locals)
            gpu_scan_fail(d->scan, "no memory");
        *k->base.locals = (gpu_symbol){.name = "local memory", .bytes = k->base.local_bytes};
        k->base.n_locals = 1;
        k->base.local_bytes = (k->base.local_bytes + 127) / 64 * 64; /* and a gap */
    }
    k->base.file_bytes = (k->n_vectors + 1) * k->base.lanes * 4;
    k->base.code = k->code;
}

/* A line of .amdhsa_kernel: what registers hold at the start. */
static void kernel_line(gcn_decoder *d, const char *line)
{
    gcn_kernel *k = d->kernel;
    const struct {
        const char *name;
        uint8_t *to;
    } flags[] = {{".amdhsa_user_sgpr_private_segment_buffer", &k->buffer},
                 {".amdhsa_user_sgpr_dispatch_ptr", &k->packet},
                 {".amdhsa_user_sgpr_queue_ptr", &k->queue},
                 {".amdhsa_user_sgpr_kernarg_segment_ptr", &k->arguments},
                 {".amdhsa_user_sgpr_dispatch_id", &k->id},
                 {".amdhsa_user_sgpr_flat_scratch_init", &k->scratch_init},
                 {".amdhsa_user_sgpr_private_segment_size", &k->private_size},
                 {".amdhsa_user_sgpr_count", &k->user_scalars},
                 {".amdhsa_system_sgpr_workgroup_id_x", &k->group_x},
                 {".amdhsa_system_sgpr_workgroup_id_y", &k->group_y},
                 {".amdhsa_system_sgpr_workgroup_id_z", &k->group_z},
                 {".amdhsa_system_vgpr_workitem_id", &k->item_ids}};
    for (size_t f = 0; f < sizeof flags / sizeof *flags; f++)
        if (number_behind(line, flags[f].name) >= 0)
            *flags[f].to = (uint8_t)number_behind(line, flags[f].name);
    if (number_behind(line, ".amdhsa_next_free_vgpr") >= 0)
        k->n_vectors = (uint32_t)number_behind(line, ".amdhsa_next_free_vgpr");
    if (number_behind(line, ".amdhsa_accum_offset") >= 0)
        k->accumulators = (uint32_t)number_behind(line, ".amdhsa_accum_offset");
    if (number_behind(line, ".amdhsa_wavefront_size32") >= 0)
        k->base.lanes = number_behind(line, ".amdhsa_wavefront_size32") ? 32 : 64;
    if (number_behind(line, ".amdhsa_group_segment_fixed_size") >= 0)
        k->base.local_bytes = (size_t)number_behind(line, ".amdhsa_group_segment_fixed_size");
    if (number_behind(line, ".amdhsa_private_segment_fixed_size") >= 0)
        k->base.private_bytes = (size_t)number_behind(line, ".amdhsa_private_segment_fixed_size");
    if (starts_with(line, ".end_amdhsa_kernel"))
        place_registers(d);
}

/* ---- metadata -------------------------------------------------------------------------------- */

/* The list of arguments comes before the kernel's name. Arguments that are not the program's are 0. */
typedef struct arguments {
    gpu_symbol list[GPU_MAX_PARAMS];
    int n, is_hidden;
} arguments;

static void end_argument(arguments *a)
{
    if (a->n && a->is_hidden)
        a->n--;
    a->is_hidden = 0;
}

static void argument_line(gcn_decoder *d, arguments *a, const char *key, int is_first)
{
    if (is_first) {
        end_argument(a);
        if (a->n == GPU_MAX_PARAMS)
            gpu_scan_fail(d->scan, "more parameters than there is room for");
        a->list[a->n++] = (gpu_symbol){0};
    }
    if (!a->n)
        return;
    if (starts_with(key, ".offset:"))
        a->list[a->n - 1].value = (uint64_t)number_behind(key, ".offset");
    if (starts_with(key, ".size:"))
        a->list[a->n - 1].bytes = (size_t)number_behind(key, ".size");
    if (starts_with(key, ".value_kind:"))
        a->is_hidden = strstr(key, "hidden_") != NULL && strstr(key, "hidden_") < strchr(key, '\n');
}

static void take_arguments(gcn_decoder *d, const char *name, const arguments *a, size_t bytes)
{
    for (int i = 0; i < d->module->n_kernels; i++) {
        gpu_kernel *k = d->module->kernels[i];
        if (strcmp(k->name, name) != 0)
            continue;
        memcpy(k->params, a->list, (size_t)a->n * sizeof *a->list);
        k->n_params = a->n;
        ((gcn_kernel *)(void *)k)->packet_at = (uint32_t)(bytes + 63) / 64 * 64;
        k->param_bytes = ((gcn_kernel *)(void *)k)->packet_at + 64;
    }
}

/* Keys of a kernel are indented by 4, those of an argument by 8, a dash's two characters included. */
static void metadata(gcn_decoder *d)
{
    gpu_scan *s = d->scan;
    arguments *a = calloc(1, sizeof *a);
    char name[GPU_NAME] = "";
    size_t bytes = 0;
    int is_list = 0;
    while (a && s->at < s->end && !starts_with(s->at, "\t.end_amdgpu_metadata")) {
        const size_t indent = strspn(s->at, " -");
        const char *key = s->at + indent;
        const int is_first = indent > 1 && s->at[indent - 2] == '-';
        if (indent == 4 && is_first)
            a->n = 0;
        if (indent == 4)
            is_list = starts_with(key, ".args:");
        if (indent == 8 && is_list)
            argument_line(d, a, key, is_first);
        else
            end_argument(a);
        if (indent == 4 && starts_with(key, ".kernarg_segment_size:"))
            bytes = (size_t)number_behind(key, ".kernarg_segment_size");
        if (indent == 4 && starts_with(key, ".name:")) {
            key += strspn(key + 6, " ") + 6;
            memcpy(name, key, strcspn(key, "\n"));
            name[strcspn(key, "\n")] = 0;
            take_arguments(d, name, a, bytes);
        }
        s->at += strcspn(s->at, "\n");
        s->at += s->at < s->end;
    }
    free(a);
}

/* ---- lines of all kinds ------------------------------------------------------------------------ */

static void label_line(gcn_decoder *d, const char *line, size_t n)
{
    char name[GPU_NAME] = "";
    if (n >= sizeof name)
        gpu_scan_fail(d->scan, "a name of %zu characters", n);
    memcpy(name, line, n);
    if (!d->in_code) {
        d->array = array_of(d, name);
    } else if (starts_with(name, ".L")) {
        if (!d->kernel)
            return;
        d->labels = gpu_room(d->scan, d->labels, d->n_labels, &d->max_labels, sizeof *d->labels);
        strcpy(d->labels[d->n_labels].name, name);
        d->labels[d->n_labels++].at = d->kernel->n_code;
    } else {
        begin_kernel(d, name);
    }
}

static void directive_line(gcn_decoder *d, const char *line)
{
    if (starts_with(line, ".text"))
        d->in_code = 1;
    else if (starts_with(line, ".section"))
        d->in_code = 0;
    else if (starts_with(line, ".amdhsa_kernel"))
        resolve_labels(d);
    else if (starts_with(line, ".amdgpu_metadata")) {
        gpu_scan_past(d->scan, '\n');
        metadata(d);
    } else if (d->kernel && (starts_with(line, ".amdhsa_") || starts_with(line, ".end_amdhsa")))
        kernel_line(d, line);
    else if (d->array)
        data_line(d, line);
}

static void module_text(gcn_decoder *d)
{
    gpu_scan *s = d->scan;
    while (s->at < s->end) {
        s->at += strspn(s->at, " \t\n");
        const char *line = s->at, *end = end_of(line);
        const size_t word = strcspn(line, " \t\n:;");
        if (end > line && line[word] == ':' && line + word < end)
            label_line(d, line, word);
        else if (end > line && *line == '.')
            directive_line(d, line);
        else if (end > line && d->in_code)
            gcn_decode_insn(d, end);
        s->at += strcspn(s->at, "\n");
    }
    for (int i = 0; i < d->module->n_arrays; i++)
        if (!d->module->arrays[i].data)
            gpu_scan_fail(s, "'%s' is not there", d->module->arrays[i].symbol.name);
}

void gcn_decode(gpu_scan *scan, gpu_module *m, const char *target)
{
    gcn_decoder *d = calloc(1, sizeof *d);
    if (!d) {
        strcpy(scan->why, "no memory");
        return;
    }
    d->scan = scan;
    d->module = m;
    d->version = (int)strtol(target + 3, NULL, 16);
    if (setjmp(scan->failed) == 0)
        module_text(d);
    free(d->labels);
    free(d->uses);
    free(d);
}

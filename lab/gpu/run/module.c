/* Modules and kernels: what both sets of instructions have in common. */
#include <stdlib.h>
#include <string.h>

#include "lab/gpu/run/kernel.h"

void *gpu_room(gpu_scan *s, void *of, uint32_t n, uint32_t *most, size_t bytes)
{
    if (n < *most)
        return of;
    *most = *most ? 2 * *most : 64;
    void *more = realloc(of, *most * bytes);
    if (!more)
        gpu_scan_fail(s, "no memory");
    return more;
}

gpu_kernel *gpu_add_kernel(gpu_module *m, gpu_scan *s, const gpu_isa *isa, size_t bytes)
{
    gpu_kernel **more = realloc(m->kernels, ((size_t)m->n_kernels + 1) * sizeof *more);
    gpu_kernel *k = more ? calloc(1, bytes) : NULL;
    m->kernels = more ? more : m->kernels;
    if (!k)
        gpu_scan_fail(s, "no memory");
    k->isa = isa;
    k->module = m;
    k->granule = k->global_granule = 4;
    m->kernels[m->n_kernels++] = k;
    return k;
}

gpu_array *gpu_add_array(gpu_module *m, gpu_scan *s)
{
    const int slot = GPU_MAX_PARAMS + 1 + m->n_arrays;
    gpu_array *more = realloc(m->arrays, ((size_t)m->n_arrays + 1) * sizeof *more);
    if (!more)
        gpu_scan_fail(s, "no memory");
    if (slot >= GPU_PARAM_SLOT)
        gpu_scan_fail(s, "more constants than there is room for");
    m->arrays = more;
    gpu_array *a = &more[m->n_arrays++];
    *a = (gpu_array){.symbol.value = (uint64_t)slot << GPU_SLOT_BITS};
    return a;
}

gpu_module *gpu_module_create(const char *text, size_t n, const char *target, char why[GPU_MESSAGE])
{
    const gpu_isa *isa = strncmp(target, "gfx", 3) == 0 ? &gcn_isa : &ptx_isa;
    gpu_module *m = calloc(1, sizeof *m);
    why[0] = 0;
    if (m && (m->text = malloc(n + 1)) != NULL) {
        memcpy(m->text, text, n);
        m->text[n] = 0;
        gpu_scan scan = {
            .at = m->text, .counted = m->text, .end = m->text + strlen(m->text), .line = 1, .why = why};
        isa->decode(&scan, m, target);
    } else {
        strcpy(why, "no memory");
    }
    if (!why[0])
        return m;
    gpu_module_destroy(m);
    return NULL;
}

void gpu_module_destroy(gpu_module *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->n_kernels; i++) {
        m->kernels[i]->isa->free_kernel(m->kernels[i]);
        free(m->kernels[i]->locals);
        free(m->kernels[i]);
    }
    for (int i = 0; i < m->n_arrays; i++)
        free(m->arrays[i].data);
    free(m->arrays);
    free(m->kernels);
    free(m->text);
    free(m);
}

const gpu_kernel *gpu_module_at(const gpu_module *m, int i)
{
    return i < m->n_kernels ? m->kernels[i] : NULL;
}

const gpu_kernel *gpu_module_kernel(const gpu_module *m, const char *name)
{
    for (int i = 0; i < m->n_kernels; i++)
        if (strcmp(m->kernels[i]->name, name) == 0)
            return m->kernels[i];
    return NULL;
}

const char *gpu_kernel_name(const gpu_kernel *k)
{
    return k->name;
}

int gpu_kernel_params(const gpu_kernel *k)
{
    return k->n_params;
}

size_t gpu_param_bytes(const gpu_kernel *k, int i)
{
    return k->params[i].bytes;
}

size_t gpu_kernel_local_bytes(const gpu_kernel *k)
{
    size_t bytes = 0;
    for (int i = 0; i < k->n_locals; i++)
        bytes += k->locals[i].bytes;
    return bytes;
}

size_t gpu_kernel_private_bytes(const gpu_kernel *k)
{
    return k->private_bytes;
}

uint32_t gpu_kernel_lanes(const gpu_kernel *k)
{
    return k->lanes;
}

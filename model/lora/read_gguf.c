/* llama.cpp's adapters: GGUF files with general.type "adapter" and tensors NAME.weight.lora_a, .lora_b. */
#include <math.h>
#include <string.h>

#include "graph/fail.h"
#include "model/lora/read.h"
#include "model/open/arch.h"
#include "model/open/model.h"

static clef_status expect_text(const clef__lora_file *f, const char *key, const char *wanted, clef_error *err)
{
    char text[64];
    if (!clef__gguf_text(&f->gguf, key, text, sizeof text))
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: has no %s, expected \"%s\"", f->path, key, wanted);
    return strcmp(text, wanted) == 0
               ? CLEF_OK
               : clef__fail(err, CLEF_E_UNSUPPORTED, "%s: %s is \"%s\", expected \"%s\"", f->path, key, text,
                            wanted);
}

/* GGUF's name of the model's architecture. */
static const char *arch_name(const clef_model *m)
{
    return m->is_gguf ? m->hparams.arch : clef__quantize_arch(&m->hparams);
}

static clef_status split_name(const clef__lora_file *f, const clef_tensor_info *t, const char **module,
                              int32_t *n_module, int *half, clef_error *err)
{
    static const char *const ends[] = {".weight.lora_a", ".weight.lora_b"};
    const size_t n = strlen(t->name);
    *module = t->name;
    for (int i = 0; i < 2; i++) {
        const size_t m = strlen(ends[i]);
        if (n > m && strcmp(t->name + n - m, ends[i]) == 0) {
            *half = i;
            *n_module = (int32_t)(n - m);
            return CLEF_OK;
        }
    }
    return clef__fail(err, CLEF_E_UNSUPPORTED,
                      "%s: tensor %s: expected NAME.weight.lora_a and NAME.weight.lora_b alone", f->path,
                      t->name);
}

clef_status clef__lora_read_gguf(const clef_model *model, clef__lora_file *f, clef_error *err)
{
    f->is_gguf = 1;
    clef_status status = clef__gguf_open(f->path, &f->gguf, err);
    if (!status)
        status = expect_text(f, "general.type", "adapter", err);
    if (!status)
        status = expect_text(f, "adapter.type", "lora", err);
    if (!status)
        status = expect_text(f, "general.architecture", arch_name(model), err);
    if (!status && clef__gguf_find(&f->gguf, "adapter.alora.invocation_tokens"))
        status = clef__fail(err, CLEF_E_UNSUPPORTED,
                            "%s: is an activated LoRA (aLoRA), expected a plain LoRA", f->path);
    if (status)
        return status;
    f->alpha = clef__gguf_float(&f->gguf, "adapter.lora.alpha", 0);
    if (!isfinite(f->alpha))
        return clef__fail(err, CLEF_E_FORMAT, "%s: adapter.lora.alpha is %g, expected a number", f->path,
                          f->alpha);
    return clef__lora_pair_up(f, f->gguf.tensors, (size_t)f->gguf.n_tensors, split_name, err);
}

double clef__lora_gguf_scale(const clef__lora_file *f, const clef__lora_pair *pair)
{
    return f->alpha != 0 ? f->alpha / (double)pair->a->dims[0] : 1;
}

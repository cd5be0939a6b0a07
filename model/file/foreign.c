#include "model/file/foreign.h"

#include <ctype.h>
#include <string.h>

#include "graph/fail.h"

typedef struct foreign {
    const char *begin;
    size_t n, at; /* the bytes are at this offset */
    const char *is;
} foreign;

#define BEGIN(text) text, sizeof(text) - 1

static const char lfs[] = "a Git LFS pointer; `git lfs pull` in its repository gets the file itself",
                  html[] = "a page of HTML; the download failed, perhaps for want of a login",
                  pytorch[] = "PyTorch's pickle, whose code clef does not run; transformers' "
                              "save_pretrained() writes .safetensors";

static const foreign binaries[] = {
    {BEGIN("GGUF"), 0, "a GGUF file"},
    {BEGIN("{\""), 8, "a .safetensors file; its folder is the model"},
    {BEGIN("PK\3\4"), 0, pytorch},
    {BEGIN("\x80\2"), 0, pytorch},
    {BEGIN("\x80\4"), 0, pytorch},
    {BEGIN("tjgg"), 0,
     "a GGML file from before GGUF; llama.cpp's converter makes a GGUF file of the original"},
    {BEGIN("lmgg"), 0,
     "a GGML file from before GGUF that is none of whisper.cpp's; llama.cpp's converter makes a GGUF file of "
     "the original"},
    {BEGIN("fmgg"), 0,
     "a GGML file from before GGUF; llama.cpp's converter makes a GGUF file of the original"},
    {BEGIN("\x89HDF"), 0, "an HDF5 file, as Keras writes"},
    {BEGIN("\x1f\x8b"), 0, "a gzip archive; unpack it first"},
    {BEGIN("\x28\xb5\x2f\xfd"), 0, "a Zstandard archive; unpack it first"},
    {BEGIN("ustar"), 257, "a tar archive; unpack it first"},
    {BEGIN("{\""), 0, "a JSON text; the download may have failed"},
};

/* Whether the text begins so, blanks and case aside. */
static int begins(const char *text, size_t n, const char *wanted)
{
    while (n && isspace((unsigned char)*text))
        text++, n--;
    for (; *wanted && n; wanted++, text++, n--)
        if (tolower((unsigned char)*text) != *wanted)
            return 0;
    return !*wanted;
}

static const char *kind_of_text(const char *text, size_t n)
{
    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3, n -= 3;
    if (begins(text, n, "version https://git-lfs."))
        return lfs;
    return begins(text, n, "<!doctype html") || begins(text, n, "<html") ? html : NULL;
}

static const char *kind_of_binary(const char *data, size_t n)
{
    for (const foreign *f = binaries; f < binaries + sizeof binaries / sizeof *binaries; f++)
        if (f->at + f->n <= n && memcmp(data + f->at, f->begin, f->n) == 0)
            return f->is;
    return NULL;
}

static clef_status reported(const char *kind, const char *name, const char *expected, clef_error *err)
{
    return kind ? clef__fail(err, CLEF_E_FORMAT, "%s: expected %s, got %s", name, expected, kind) : CLEF_OK;
}

clef_status clef__foreign(const void *data, size_t n_bytes, const char *name, const char *expected,
                          clef_error *err)
{
    const char *kind = kind_of_text(data, n_bytes);
    return reported(kind ? kind : kind_of_binary(data, n_bytes), name, expected, err);
}

clef_status clef__foreign_text(const void *data, size_t n_bytes, const char *name, const char *expected,
                               clef_error *err)
{
    return reported(kind_of_text(data, n_bytes), name, expected, err);
}

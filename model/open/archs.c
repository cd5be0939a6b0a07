/* The table of architectures, and who is found in it by the name that a file gives. */
#include <string.h>

#include "graph/fail.h"
#include "model/open/arch.h"

static const clef_arch *const archs[] = {
#define ARCH(name) &clef__arch_##name,
#include "model/open/archs.def"
#undef ARCH
};

/* Name i of all: of each row the folder's, then GGUF's where it is another. */
const char *clef_arch_name(int32_t i)
{
    for (size_t a = 0; a < sizeof archs / sizeof *archs; a++)
        for (const clef_arch_alias *n = archs[a]->names; n->hf || n->gguf; n++) {
            if (n->hf && i-- == 0)
                return n->hf;
            if (n->gguf && (!n->hf || strcmp(n->hf, n->gguf) != 0) && i-- == 0)
                return n->gguf;
        }
    return NULL;
}

const clef_arch_alias *clef__arch_alias(const clef_arch *arch, const char *name, int is_gguf)
{
    for (const clef_arch_alias *n = arch->names; n->hf || n->gguf; n++) {
        const char *known = is_gguf ? n->gguf : n->hf;
        if (known && strcmp(known, name) == 0)
            return n;
    }
    return NULL;
}

const clef_arch *clef__arch_find(const char *name, int is_gguf)
{
    for (size_t a = 0; a < sizeof archs / sizeof *archs; a++)
        if (clef__arch_alias(archs[a], name, is_gguf))
            return archs[a];
    return NULL;
}

clef_status clef__arch_unknown(const char *name, const char *file, clef_error *err)
{
    char known[768] = "";
    for (int32_t i = 0; clef_arch_name(i); i++)
        if (strlen(known) + strlen(clef_arch_name(i)) + 2 < sizeof known) {
            strcat(known, " ");
            strcat(known, clef_arch_name(i));
        }
    return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: architecture %.40s is not supported, known are:%s", file,
                      name[0] ? name : "\"\"", known);
}

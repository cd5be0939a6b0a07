/* Choosing among the variants of an op. */
#include "graph/variant.h"

static const struct {
    clef_op op;
    const clef_variant *variant;
} rows[] = {
#define VARIANT(op, name) {CLEF_OP_##op, &clef__##op##_##name},
#include "graph/variants.def"
#undef VARIANT
};

clef_status clef__lower_variant(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_variant *serving = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].op == n->op) {
            serving = rows[i].variant;
            if (serving->fits(lo, n))
                break;
        }
    return serving ? serving->lower(lo, n, err) : clef__fail(err, CLEF_E_UNSUPPORTED, "%s: no kernel", n->name);
}

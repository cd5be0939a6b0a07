/* The part of a model that turns the pixels of a picture into rows for its text model: a tower (the encoder)
 * and a projector. The functions here are what towers share; they read and return values of t->g, and given
 * NULL they return NULL. */
#ifndef CLEF_MODEL_TOWER_H
#define CLEF_MODEL_TOWER_H

#include "clef/sight.h"
#include "graph/value.h"
#include "model/open/model.h"
#include "model/sight/sight.h"

enum { CLEF__TOWER_NAME = 96 };

/** A tower that is being built, or that has a plan. */
typedef struct clef__tower {
    const clef_model *model;
    const struct clef__tower_form *form;
    const json_t     *config; /* vision_config */
    const char       *prefix; /* of the names of its tensors: "visual." */
    clef_graph       *g;
    int32_t           layer;  /* the current one, for names with %d */
    float             eps;    /* of norms */
    int32_t           n_units; /* the bound of what runs at once */
    int32_t           height, width; /* of the pictures that the plan is made for */
} clef__tower;

/** The rows of a picture: their number; of M-RoPE, of lines and of tiles their grid; and what the plan's
 *  bound counts. */
typedef struct clef__sight_rows {
    int32_t n, height, width, n_units;
} clef__sight_rows;

/** Units first .. first + n - 1 of a picture, which go through a tower at once. */
typedef struct clef__tower_call {
    const clef_sight_pixels *pixels;
    clef_plan         *plan;
    int32_t            first, n;
} clef__tower_call;

/** What towers of one form do; see.c has those of families. */
typedef struct clef__tower_form {
    const char *const *prefixes; /* of its tensors: the first one that is there counts; ends with NULL */
    const char        *marker;   /* a tensor, behind the prefix, that every one has */
    const struct clef__connector *connector; /* of clef__encoder_*(): what is behind the encoder */
    int32_t            most_units; /* that run at once; 0: all of a picture */
    /** Reads and checks what it needs of the configuration, and sets t->eps. */
    clef_status (*read)(clef__tower *t, clef_error *err);
    /** The rows that the pixels become, and their grid. CLEF_E_SHAPE for pixels of another size. */
    clef_status (*count)(const clef__tower *t, const clef_sight_pixels *px, clef__sight_rows *out,
                         clef_error *err);
    /** Sets t->g to the graph, whose first output are the rows of t->n_units units at most. */
    clef_status (*build)(clef__tower *t, clef_error *err);
    /** Binds and writes the inputs of a plan of that graph. */
    clef_status (*feed)(const clef__tower *t, const clef__tower_call *c, clef_error *err);
    /** NULL, or makes the picture's rows [n, d] of those of its units, and of the plan's second output. */
    void (*arrange)(const clef__tower *t, const clef_sight_pixels *px, const float *units,
                    const float *newline, float *rows);
} clef__tower_form;

extern const clef__tower_form clef__tower_qwen, clef__tower_llava, clef__tower_llava_next, clef__tower_gemma,
    clef__tower_paligemma, clef__tower_idefics, clef__tower_internvl, clef__tower_pixtral,
    clef__tower_mistral;

/** A number of the configuration, from lo to hi; `missing` if it has none. CLEF_E_FORMAT. */
clef_status clef__tower_int(const clef__tower *t, const char *key, int32_t lo, int32_t hi, int32_t missing,
                            int32_t *out, clef_error *err);
/** The tensor called `name` behind the prefix, with t->layer for its %d; NULL: there is none. */
const clef_tensor_info *clef__tower_find(const clef__tower *t, const char *name);
/** The weight as a value of this shape, which must have as many elements. */
clef_value *clef__tower_weight(clef__tower *t, const char *name, clef_shape shape);
/** x W^T + bias, by NAME.weight and, if it is there, NAME.bias. The weight's first dim is the output's. */
clef_value *clef__tower_linear(clef__tower *t, clef_value *x, const char *name);
/** A layer norm where there is a NAME.bias, else an RMS norm. */
clef_value *clef__tower_norm(clef__tower *t, clef_value *x, const char *name);
/** x activated as the configuration's hidden_act says; missing: what the class has without the key.
 *  The second one reads another key of an object. */
clef_value *clef__tower_act(clef__tower *t, clef_value *x, const char *missing);
clef_value *clef__tower_act_of(clef__tower *t, clef_value *x, const json_t *config, const char *key,
                               const char *missing);
/** x [N, d] as [n, d N / n]. */
clef_value *clef__tower_join(clef__tower *t, clef_value *x, clef_dim n, int64_t width);

#endif

/* The text of a program and its options, in the form that compiles fastest on the device.
 *
 * Where the probe has shown that it works (clef_caps.own_builtins), a program declares the built-in functions
 * that it uses (builtins.c). PoCL makes three functions of a kernel, one for each way to call it, inlines the
 * kernel into all, then optimises and assembles each. Where the compiler can keep a function in one piece
 * (clef_caps.whole_body), a kernel with one work-item a group only calls a function, which holds all its
 * work.
 */
#ifndef CLEF_RUNTIME_PROGRAM_TEXT_H
#define CLEF_RUNTIME_PROGRAM_TEXT_H

#include "graph/launch.h"
#include "runtime/device/device.h"

/** Capacity of clef__text_options(). */
enum { CLEF__TEXT_OPTIONS = 96 };

/** 1 when the launch's kernel calls a function on this device: the kernel has a row in
 *  graph/lower/substeps.def. Its program has no other kernel. */
int clef__has_whole_body(const clef_device *dev, const clef_launch *launch);

/** Options for the forms, each after a blank; "" for none. c_version: as in clef_launch. */
void clef__text_options(const clef_device *dev, int32_t c_version, int is_whole,
                         char out[CLEF__TEXT_OPTIONS]);

/** The option that keeps substeps of a fused step in one piece (cl/substep.h). */
#define CLEF__WHOLE_BODY " -D WHOLE_BODY=1"

/** The text of the launch's program. The caller frees *text. Errors as those of clef__source_assemble(). */
clef_status clef__program_text(const clef_device *dev, const clef_launch *launch, int is_whole, char **text,
                               size_t *n_bytes, clef_error *err);

/** Writes what decides that text beside the source's files and the options. */
enum { CLEF__TEXT_KEY = 128 };
void clef__text_key(const clef_launch *launch, int is_whole, char out[CLEF__TEXT_KEY]);

/** Puts the declarations of built-in functions before a text where the device needs them. On failure the
 *  text is unchanged. Errors as above. */
clef_status clef__text_declare(const clef_device *dev, int32_t c_version, char **text, size_t *n_bytes,
                               clef_error *err);

/** A hash over all that builtins.c may write. */
uint64_t clef__builtins_hash(void);

/** Writes the declarations of the built-in functions whose names are in a program's text, which ends with
 *  NUL, for the types that it mentions. *out, of n_bytes, ends with NUL too; the caller frees it.
 *  CLEF_E_NOMEM. */
clef_status clef__builtins_declare(const char *source, char **out, size_t *n_bytes, clef_error *err);

#endif

/* Checkpoints of a training: its state in one file, which is read only if every byte is as it was written.
 *
 *   0   "CLEFCKPT", u32 version (1), u32 0, u64 bytes of the header, u64 bytes of the file
 *   32  the header, JSON, with blanks up to a multiple of 64 bytes from the file's begin:
 *       {"model": text, "options": text, "step": number, "seed": text, "state": object or null,
 *        "tensors": [{"name", "dtype", "shape": [..], "offset", "bytes"}, ..]}
 *       the tensors, each at a multiple of 64 bytes from the file's begin; little-endian
 *       SHA-256 of all bytes before it
 *
 * A checkpoint of step N is called ckpt-N.clef (8 digits at least), so that a folder can hold several. */
#ifndef CLEF_TRAIN_MODEL_CHECKPOINT_H
#define CLEF_TRAIN_MODEL_CHECKPOINT_H

#include "clef/model.h"
#include "model/file/json.h"
#include "runtime/os/os.h"

enum { CLEF_CHECKPOINT_VERSION = 1, CLEF_CHECKPOINTS_KEPT = 2, CLEF_CHECKPOINT_PATH_BYTES = 4096 };

/** What a checkpoint says beside its tensors. All texts are borrowed. */
typedef struct clef__checkpoint_head {
    const char   *model;   /* identifies the model, so that a checkpoint is not used for another */
    const char   *options; /* those that must be the same when training goes on: "key value key value .." */
    uint64_t      step, seed;
    const json_t *state;   /* NULL, or whatever else the trainer has to know: an object */
} clef__checkpoint_head;

/** A tensor to write: F32, F16, BF16, I32 or I8. */
typedef struct clef__checkpoint_tensor {
    const char *name;
    clef_dtype  dtype;
    int32_t     rank;
    int64_t     dims[CLEF_MAX_DIMS];
    const void *data; /* NULL: `fetch` is called when the tensor's turn comes */
    /** Sets *out to the tensor's bytes, which are valid until the next call. */
    clef_status (*fetch)(void *user, const char *name, const void **out, clef_error *err);
    void *user;
} clef__checkpoint_tensor;

/** Writes a checkpoint under a temporary name, flushes it, renames it, and flushes the folder. CLEF_E_ARG,
 *  CLEF_E_IO, CLEF_E_NOMEM, and what fetch returns; then `path` is as it was. */
clef_status clef__checkpoint_write(const char *path, const clef__checkpoint_head *head,
                                   const clef__checkpoint_tensor *tensors, int32_t n, clef_error *err);
/** Writes folder/ckpt-STEP.clef, and then removes checkpoints: of the steps before it all but the newest
 *  keep - 1 (0: CLEF_CHECKPOINTS_KEPT in all), and those of later steps, from which training has been set
 *  back. Temporary files of writers that ended an hour ago or earlier are removed too. */
clef_status clef__checkpoint_save(const char *folder, const clef__checkpoint_head *head,
                                  const clef__checkpoint_tensor *tensors, int32_t n, int32_t keep,
                                  clef_error *err);

typedef struct clef__checkpoint clef__checkpoint;
/** Maps a checkpoint and checks every byte of it. Free with clef__checkpoint_close(). CLEF_E_IO;
 *  CLEF_E_FORMAT (no checkpoint, cut short, changed); CLEF_E_UNSUPPORTED (another version); CLEF_E_NOMEM. */
clef_status clef__checkpoint_open(const char *path, clef__checkpoint **out, clef_error *err);
void        clef__checkpoint_close(clef__checkpoint *checkpoint); /* accepts NULL */

/** Opens the checkpoint of the latest step in a folder.
 *
 *  model    NULL, or what the checkpoint must say: CLEF_E_ARG names the file that says something else.
 *  options  likewise.
 *  note     NULL, or called with a line for each damaged file that is passed over for the one before it.
 *
 *  CLEF_E_NOT_FOUND: there is none; CLEF_E_FORMAT: all are damaged (the message is the newest's);
 *  CLEF_E_UNSUPPORTED: the newest has another version; CLEF_E_IO, CLEF_E_NOMEM. */
clef_status clef__checkpoint_newest(const char *folder, const char *model, const char *options,
                                    void (*note)(void *user, const char *text), void *note_user,
                                    clef__checkpoint **out, clef_error *err);
/** CLEF_E_ARG if the checkpoint is of another model, or of other options. NULL: not compared. */
clef_status clef__checkpoint_check(const clef__checkpoint *checkpoint, const char *model, const char *options,
                                   clef_error *err);

/** Borrowed from the checkpoint, like all that follows. */
const clef__checkpoint_head *clef__checkpoint_head_of(const clef__checkpoint *checkpoint);
const char                  *clef__checkpoint_path(const clef__checkpoint *checkpoint);
int32_t                      clef__checkpoint_n_tensors(const clef__checkpoint *checkpoint);
/** Tensor i in the order of writing. Its data is in the mapped file, at a multiple of 64 bytes. */
const clef_tensor_info *clef__checkpoint_tensor_at(const clef__checkpoint *checkpoint, int32_t i);
/** NULL if there is none of that name. */
const clef_tensor_info *clef__checkpoint_find(const clef__checkpoint *checkpoint, const char *name);
/** The data of the tensor `name`, which must have that dtype and size: else CLEF_E_NOT_FOUND or CLEF_E_SHAPE
 *  names file and tensor. */
clef_status clef__checkpoint_data(const clef__checkpoint *checkpoint, const char *name, clef_dtype dtype,
                                  uint64_t n_bytes, const void **out, clef_error *err);

#endif

/* Folders that training writes: as a whole, with a list of their files (clef_train.json), by which a later
 * run knows that it may replace them. */
#ifndef CLEF_TRAIN_MODEL_SAVE_H
#define CLEF_TRAIN_MODEL_SAVE_H

#include "clef/train_files.h"
#include "graph/fail.h"
#include "model/file/floats.h"
#include "model/file/json.h"
#include "model/file/safetensors.h"
#include "model/open/model.h"

#define CLEF_TRAIN_MARK "clef_train.json"
enum { CLEF_SAVE_PATH_BYTES = 4096 };

/** A folder that is being written. Files are in a temporary folder until clef__save_commit(). */
typedef struct clef__save {
    clef_os_folder *folder;
    json_t         *files; /* names of the files so far */
    const char     *path;  /* borrowed: as the caller gave it */
    json_t         *old;   /* NULL, or the list of files that the folder which is there now has */
} clef__save;

/** Begins a folder. What is at `path` may be nothing, an empty folder, or one with a list of files: then
 *  those files are replaced, and others that lie beside them are kept. CLEF_E_IO: anything else is there, or
 *  it cannot be written. */
clef_status clef__save_begin(const char *path, clef__save *out, clef_error *err);
clef_status clef__save_bytes(clef__save *save, const char *name, const char *text, size_t n, clef_error *err);
/** As clef__save_bytes(), with a value as text and a line end. */
clef_status clef__save_json(clef__save *save, const char *name, const json_t *value, clef_error *err);
/** Copies folder/name, if it exists, under the same name. */
clef_status clef__save_copy(clef__save *save, const char *folder, const char *name, clef_error *err);
/** Copies those files of a folder that hold its tokenizer. */
clef_status clef__save_tokenizer(clef__save *save, const char *folder, clef_error *err);
/** Writes model.safetensors; or, if the tensors have more than shard_bytes (0: 5 GB), several files with an
 *  index, as transformers does. */
clef_status clef__save_tensors(clef__save *save, const clef_tensor_info *tensors, int32_t n,
                               uint64_t shard_bytes, const clef__tensor_put *put, clef_error *err);
/** Puts the folder into its place, on the disk. It ends `save`, also when it fails. */
clef_status clef__save_commit(clef__save *save, clef_error *err);
/** Leaves nothing behind; accepts a zeroed one. */
void        clef__save_abort(clef__save *save);

/** Returns what clef_model_save() and clef_lora_save() would refuse whatever the numbers are, and writes
 *  nothing. The matrices' numbers may be NULL. */
clef_status clef__save_check_model(clef_model *model, const char *path, const clef_save_opts *opts,
                                   const clef_weight_values *values, clef_error *err);
clef_status clef__save_check_lora(const clef_model *model, const char *path, const clef_lora_save_opts *opts,
                                  const clef_lora_matrices *matrices, int32_t n, clef_error *err);

/** "float32", "float16", "bfloat16"; NULL for other dtypes. */
const char *clef__save_dtype_name(clef_dtype dtype);
/** Sets dtype and torch_dtype (for transformers before 4.56) of a config.json. */
clef_status clef__save_set_dtype(json_t *config, clef_dtype dtype, clef_error *err);

#endif

/* Models that are named as on the Hub, "org/repo" or "org/repo:Q4_K_M", and where the cache that
 * huggingface_hub and `clef pull` share has them:
 *
 *   models--org--repo/refs/main            the commit that "main" stands for
 *   models--org--repo/snapshots/COMMIT/..  the files by their names: links to
 *   models--org--repo/blobs/               their bytes, each by its checksum
 *
 * Nothing here opens a connection. */
#ifndef CLEF_TOOLS_HUB_HUB_H
#define CLEF_TOOLS_HUB_HUB_H

#include "tools/cli/common.h"

enum { HUB_MOST_NAME = 256, HUB_MOST_PATH = 4096 };

typedef struct hub_name {
    char repo[HUB_MOST_NAME];   /* "org/repo" */
    char quant[HUB_MOST_NAME];  /* after the colon: a quantisation, or a GGUF file's name; "": none */
} hub_name;

/** Returns 1 if the text has the form "org/repo[:quant]". */
int hub_name_parse(const char *text, hub_name *out);

/** Paths of files inside a repository or a folder, in the order in which they were added. */
typedef struct hub_files {
    char  **names;
    int32_t n, capacity;
} hub_files;
/** Adds a copy. CLEF_E_NOMEM. */
clef_status hub_files_add(hub_files *files, const char *name, clef_error *err);
int32_t     hub_files_has(const hub_files *files, const char *name);
void        hub_files_free(hub_files *files);

/** 1 if the path stays inside the folder that it begins in, on every system: parts that are neither empty nor
 *  "." nor "..", without a backslash, colon or control character, of 255 bytes at most. */
int hub_is_inside(const char *path);

/** Copies a text for a message: no control characters, and as much of it as there is room for. */
char *hub_plain(const char *text, char out[HUB_MOST_NAME]);

/** Adds the parts of the GGUF file that `name` means to `chosen`: what name->quant says, else the only one,
 *  else that of Q4_K_M. CLEF_E_NOT_FOUND and CLEF_E_ARG list what is there. */
clef_status hub_choose_gguf(const hub_name *name, const hub_files *all, hub_files *chosen, clef_error *err);

/** 1 if the files have a model's weights as safetensors, so that the model is their folder. */
int hub_is_folder(const hub_files *all);

/** Writes the folder of a repository in the cache of $HF_HUB_CACHE, $HF_HOME or ~/.cache/huggingface/hub.
 *  CLEF_E_ARG where the variables name none, or one that is too long. */
clef_status hub_repo_folder(const hub_name *name, char out[HUB_MOST_PATH], clef_error *err);
/** The cache's own folder, in the same way. */
clef_status hub_cache_folder(char out[HUB_MOST_PATH], clef_error *err);

/** Writes a path. CLEF_E_ARG when it is too long. */
CLI_PRINTF(3, 4)
clef_status hub_path(char out[HUB_MOST_PATH], clef_error *err, const char *format, ...);

/** The path of a model: `text` itself if there is such a file or folder, else what the cache has of a model
 *  by that name. The path stays valid until the process ends. NULL after a message. */
const char *hub_find(const char *text);
/** The name by which hub_find() found this path in the cache; NULL for another path. */
const char *hub_name_of(const char *path);

#endif

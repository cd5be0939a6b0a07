/* The fingerprint of a model: files that belong to one model are bound to it. */
#ifndef CLEF_MODEL_FINGERPRINT_H
#define CLEF_MODEL_FINGERPRINT_H

#include "clef/model.h"
#include "runtime/os/sha256.h"

/** SHA-256 of the metadata as clef_model_metadata() returns it, and of each tensor: its name, dtype, shape,
 *  length, and its first and last 64 KiB. So models of one shape but other weights differ, as do two
 *  quantisations; the path does not count. Hashing all weights would read the whole file, which takes longer
 *  than the prompt whose computation a session file saves. A change that spares both ends of all tensors is
 *  not seen: training and quantising change every part of a tensor. */
void clef__model_fingerprint(const clef_model *model, unsigned char out[CLEF_SHA256_BYTES]);
/** Another one, which reads the data of a few tensors alone: for ranks, which read only their part of the
 *  file. */
void clef__model_quick_fingerprint(const clef_model *model, unsigned char out[CLEF_SHA256_BYTES]);
/** The same in hexadecimal digits. */
enum { CLEF__DIGEST_CHARS = 2 * CLEF_SHA256_BYTES };
void clef__model_quick_digest(const clef_model *model, char out[CLEF__DIGEST_CHARS + 1]);

#endif

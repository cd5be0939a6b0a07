/* Pages of the prefix cache in files of a folder, where a later batch of the same model finds them.
 *
 * A file holds the keys and values of one block: KV_BLOCK tokens, all layers. Its name is a digest of all
 * tokens up to its last one and of what they depend on beside the tokens: the model, the KV type, the
 * adapter and the salt. So a file stands for a whole prefix, as a block does. Recurrent states after such a
 * prefix are files of another kind. Every file ends with its SHA-256, and is read only if all of it is as
 * expected.
 *
 * Files are written under another name and renamed. A file that is damaged is removed, and its block is
 * computed. Beyond the limit, files that were used longest ago are removed. */
#ifndef CLEF_MODEL_DISK_H
#define CLEF_MODEL_DISK_H

#include "model/batch/batch.h"

/** Opens the cache that b->opts name, in b->disk; nothing without them. CLEF_E_UNSUPPORTED for a batch whose
 *  pages are not kept so; CLEF_E_IO, CLEF_E_ARG, CLEF_E_NOMEM. */
clef_status clef__disk_open(clef_batch *b, clef_error *err);
void clef__disk_close(clef_batch *b);
/** Brings blocks of s that follow its first n_cached tokens into the pool, once for each sequence. What
 *  cannot be read is left out. Only the device's errors. */
clef_status clef__disk_load(clef_batch *b, batch_sequence *s, int32_t n_cached, clef_error *err);
/** Writes the blocks of s that are full and not yet there, and its recurrent states where a block has just
 *  ended. What cannot be written is left out, and the log has a line. Only the device's errors. */
clef_status clef__disk_keep(clef_batch *b, batch_sequence *s, clef_error *err);

#endif

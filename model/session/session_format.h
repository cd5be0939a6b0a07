/* The form of a session file: what clef_session_save() writes, parsed and checked without a device. The
 * contract in clef/generate.h has the layout. */
#ifndef CLEF_MODEL_SESSION_FORMAT_H
#define CLEF_MODEL_SESSION_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "clef/graph.h"
#include "graph/fail.h"
#include "runtime/os/os.h"
#include "runtime/os/sha256.h"

enum {
    SESSION_VERSION = 1,
    SESSION_FIXED_BYTES = 24,   /* magic, version, a zero, the file's length: of every version */
    SESSION_HEADER_BYTES = 184, /* up to the text of the adapters */
    SESSION_STATE_BYTES = 128,  /* of a state, before its data */
    SESSION_MODEL_BYTES = 96,
    SESSION_NAME_BYTES = 64,
    SESSION_KV_TYPE_BYTES = 12,
    SESSION_TYPE_BYTES = 16
};
#define SESSION_NO_AXIS UINT32_MAX

typedef struct session_header {
    unsigned char fingerprint[CLEF_SHA256_BYTES]; /* of the model */
    char          model[SESSION_MODEL_BYTES];     /* its name, for messages */
    char          kv_type[SESSION_KV_TYPE_BYTES];
    uint32_t      context; /* on which RoPE's frequencies depend; 0: they are those of any */
    uint32_t      n_past, n_source, n_states, n_adapters; /* n_adapters: bytes of the text */
} session_header;

/** One state. `axis` counts positions, of which the file has n_past; SESSION_NO_AXIS: the state has none, and
 *  the file has all of it. */
typedef struct session_state {
    char                 name[SESSION_NAME_BYTES], dtype[SESSION_TYPE_BYTES];
    uint32_t             rank, axis;
    uint64_t             dims[CLEF_MAX_DIMS];
    uint64_t             n_bytes;
    const unsigned char *data; /* when read */
} session_state;

/* ---- reading --------------------------------------------------------------------------------- */

/** A parsed file. It points into the file's bytes. */
typedef struct session_view {
    session_header       head;
    const char          *adapters;     /* n_adapters bytes without a NUL */
    const unsigned char *ids, *source; /* for clef__session_id() */
    const unsigned char *states;       /* n_states records */
    uint64_t             states_bytes;
} session_view;

/** Checks magic, version, length and checksum, then that every length lies in the file. `path` is for
 *  messages. CLEF_E_FORMAT, CLEF_E_UNSUPPORTED (the version). */
clef_status clef__session_parse(const char *path, const void *bytes, size_t n_bytes, session_view *out,
                                clef_error *err);
/** Finds a state. Returns 0 when the file has none of that name. */
int         clef__session_find(const session_view *view, const char *name, session_state *out);
int32_t     clef__session_id(const unsigned char *ids, uint32_t i);

/* ---- writing --------------------------------------------------------------------------------- */

/** A file being written, and the checksum of what was written so far. After an error all calls return it. */
typedef struct session_writer {
    clef_os_file *file;
    clef_sha256   sum;
    clef_status   status;
} session_writer;

/** Writes everything before the ids. n_bytes: the length of the whole file. */
clef_status clef__session_write_head(session_writer *w, const session_header *head, const char *adapters,
                                     uint64_t n_bytes, clef_error *err);
clef_status clef__session_write_ids(session_writer *w, const int32_t *ids, uint32_t n, clef_error *err);
/** Writes what is before a state's data. */
clef_status clef__session_write_state(session_writer *w, const session_state *state, clef_error *err);
clef_status clef__session_write_bytes(session_writer *w, const void *data, size_t n_bytes, clef_error *err);
/** Writes the checksum. */
clef_status clef__session_write_end(session_writer *w, clef_error *err);

#endif

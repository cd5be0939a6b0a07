/* Checksums of files as the Hub gives them. */
#ifndef CLEF_TOOLS_PULL_DIGEST_H
#define CLEF_TOOLS_PULL_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/** A file's bytes as they come in, and the checksum that they should have: 64 hex digits are a SHA-256 (FIPS
 *  180-4), 40 the SHA-1 that git gives a file ("blob N" before its bytes), or of its bytes alone. Nothing is
 *  known of other texts. */
typedef struct pull_digest {
    void       *hashes[2]; /* NULL: not needed */
    const char *wanted;    /* borrowed */
} pull_digest;

/** Begins anew. n_bytes: the file's size. Returns 0 when out of memory. */
int  pull_digest_begin(pull_digest *digest, const char *wanted, uint64_t n_bytes);
void pull_digest_add(pull_digest *digest, const void *data, size_t n);
/** Ends. 0: the bytes have another checksum. */
int  pull_digest_end(pull_digest *digest);
/** 1 if the text is a checksum that can be checked. */
int  pull_digest_is_known(const char *wanted);
/** 1 if the text may be the name of a file: letters, digits, ".", "_" and "-", 128 of them at most. */
int  pull_digest_is_name(const char *wanted);

#endif

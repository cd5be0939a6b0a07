/* Bytes as text: GPT-2's characters for bytes, SentencePiece's "<0x41>", base64. */
#ifndef CLEF_MODEL_TOKENIZER_BYTES_H
#define CLEF_MODEL_TOKENIZER_BYTES_H

#include "model/tokenizer/memory.h"

/** U+2581, which stands for a space in SentencePiece's vocabularies: 3 bytes. */
#define CLEF_META_SPACE "\xE2\x96\x81"

/** GPT-2's character for a byte. */
uint32_t clef__byte_char(uint8_t byte);
/** The byte that a character stands for, -1 for none. */
int32_t clef__char_byte(uint32_t code);
/** Appends GPT-2's character for each byte. */
clef_status clef__byte_chars(const char *text, size_t n, clef__chars *out, clef_error *err);

/** The byte of "<0x41>", -1 for another text. */
int32_t clef__fallback_byte(const char *text, size_t n);

/** The bytes of base64 text; the caller frees *out. CLEF_E_FORMAT, CLEF_E_NOMEM. */
clef_status clef__base64(const char *text, size_t n, char **out, size_t *n_out, clef_error *err);

#endif

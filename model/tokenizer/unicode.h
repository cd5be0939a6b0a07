/* Classes of characters as the libraries behind Hugging Face's tokenizers see them. */
#ifndef CLEF_MODEL_UNICODE_H
#define CLEF_MODEL_UNICODE_H

#include "model/tokenizer/memory.h"

/** Appends the ranges that Oniguruma's property ("L", "Nd", "Han") has and PCRE2's may lack, as items of a class: \x{A}-\x{B}... */
clef_status clef__unicode_newer(const char *property, size_t n, clef__chars *out, clef_error *err);
/** Whether valid UTF-8 has a character of any of those ranges. */
int clef__unicode_has_newer(const char *text, size_t n);

/** \w of Rust's regexes (UTS 18, annex C): Alphabetic, marks, decimal numbers, connectors, joiners. */
int clef__is_word(uint32_t code);

/** Rust's char::is_numeric and, but for U+0130, char::to_lowercase. */
int      clef__is_digit(uint32_t code); /* \d: Nd */
int      clef__is_numeric(uint32_t code);
uint32_t clef__to_lower(uint32_t code);

/** What BertPreTokenizer and Punctuation split at: ASCII's and Unicode's punctuation. */
int clef__is_punctuation(uint32_t code);
/** What BertNormalizer takes off as accents, and what StripAccents does. */
int clef__is_nonspacing_mark(uint32_t code);
int clef__is_mark(uint32_t code);
/** What BertNormalizer deletes (beside U+0000 and U+FFFD), and what it puts spaces around. */
int clef__is_bert_control(uint32_t code);
int clef__is_bert_cjk(uint32_t code);
/** 0 for the characters whose decomposition is newer than the normalizers of tokenizers. */
int clef__unicode_decomposes(uint32_t code);
/** A combining mark that they take for an ordinary character, as it is newer. */
int clef__unicode_is_newer_mark(uint32_t code);
/** A character that utf8proc joins to a grapheme as they join `code`, Unicode 17's way: itself, but for those of up to three bytes on which
 *  the two disagree. */
uint32_t clef__unicode_grapheme_class(uint32_t code);

#endif

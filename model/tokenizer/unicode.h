/* Classes of characters as defined by the libraries behind Hugging Face's tokenizers. */
#ifndef CLEF_MODEL_UNICODE_H
#define CLEF_MODEL_UNICODE_H

#include "model/tokenizer/memory.h"

/** Appends the ranges of an Oniguruma property ("L", "Nd", "Han") that PCRE2's may lack, as items of a class:
 *  \x{A}-\x{B}... */
clef_status clef__unicode_newer(const char *property, size_t n, clef__chars *out, clef_error *err);
/** 1 if valid UTF-8 has a character of any of those ranges. */
int clef__unicode_has_newer(const char *text, size_t n);

/** \w of Rust's regexes (UTS 18, annex C): Alphabetic, marks, decimal numbers, connectors, joiners. */
int clef__is_word(uint32_t code);

/** Rust's char::is_numeric and, except for U+0130, char::to_lowercase. */
int      clef__is_digit(uint32_t code); /* \d: Nd */
int      clef__is_numeric(uint32_t code);
uint32_t clef__to_lower(uint32_t code);

/** The characters that BertPreTokenizer and Punctuation split at: ASCII's and Unicode's punctuation. */
int clef__is_punctuation(uint32_t code);
/** The characters that BertNormalizer removes as accents, and those that StripAccents removes. */
int clef__is_nonspacing_mark(uint32_t code);
int clef__is_mark(uint32_t code);
/** The characters that BertNormalizer deletes (with U+0000 and U+FFFD), and those that it puts spaces
 *  around. */
int clef__is_bert_control(uint32_t code);
int clef__is_bert_cjk(uint32_t code);
/** 1 if the normalizers decompose a character: 0 for characters that are newer than the normalizers. */
int clef__unicode_decomposes(uint32_t code);
/** 1 if a combining mark is newer than the normalizers, which treat it as an ordinary character. */
int clef__unicode_is_newer_mark(uint32_t code);
/** A character that has in utf8proc the grapheme breaks that `code` has in Unicode 17. It is `code` itself,
 *  except for characters of up to three bytes on which the two disagree. */
uint32_t clef__unicode_grapheme_class(uint32_t code);

#endif

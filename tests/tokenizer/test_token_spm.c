/* SentencePiece's tokenizer.model, from files that are assembled here. */
#define TEST_NAME "test-token-spm"
#include "tests/tokenizer/tokenizers.h"

#include <math.h>

#include "model/tokenizer/read/formats.h"

static void put_field(blob *b, unsigned number, const blob *message)
{
    put_int(b, number << 3 | 2, 1);
    put_int(b, message->n, 1); /* all are shorter than 128 bytes */
    put(b, message->p, message->n);
}

static void put_spm_piece(blob *b, const char *text, float score, int type)
{
    blob piece = {.n = 0}, words = {.n = 0};
    put(&words, text, strlen(text));
    put_field(&piece, 1, &words);
    put_int(&piece, 2 << 3 | 5, 1);
    put(&piece, &score, 4);
    put_int(&piece, 3 << 3, 1);
    put_int(&piece, (uint64_t)type, 1);
    put_field(b, 1, &piece);
}

/* `trainer` and `normalizer` are written as in files.h. */
static blob make_spm(const char *trainer, const char *normalizer)
{
    blob b = {.n = 0}, spec = {.n = 0}, rules = {.n = 0};
    put_spm_piece(&b, "<unk>", 0, 2);
    put_spm_piece(&b, "<s>", 0, 3);
    put_spm_piece(&b, "</s>", 0, 3);
    put_spm_piece(&b, "<0xC3>", 0, 6);
    put_spm_piece(&b, "<0xA9>", 0, 6);
    put_spm_piece(&b, META_SPACE, -9, 1);
    put_spm_piece(&b, "a", -8, 1);
    put_spm_piece(&b, "b", -7, 1);
    put_spm_piece(&b, "ab", -1, 1);
    put_spm_piece(&b, META_SPACE "a", -2, 1);
    put_spm_piece(&b, "ba", -3, 5);
    put_spm_piece(&b, "[X]", 0, 4);
    assemble(&spec, trainer);
    put_field(&b, 2, &spec);
    assemble(&rules, normalizer);
    put_field(&b, 3, &rules);
    return b;
}

#define SPM_BPE "1:24 1:2"
#define SPM_FALLBACK " 1:0x98 1:2 1:1" /* field 35 */
#define SPM_KEEP "1:32 1:0"            /* remove_extra_whitespaces: false */

static clef_status open_spm(const blob *b, clef_tokenizer **out, clef_error *err)
{
    const char *path = temp_path("tokenizer.model");
    write_file(path, b->p, b->n);
    const clef_status st = clef_tokenizer_open(path, out, err);
    clef__os_remove(path);
    return st;
}

TEST(test_spm)
{
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    blob b = make_spm(SPM_BPE SPM_FALLBACK, SPM_KEEP);
    assert_int_equal(open_spm(&b, &tok, &err), CLEF_OK);
    assert_int_equal(clef_tokenizer_n_tokens(tok), 12);
    assert_int_equal(clef_tokenizer_bos(tok), 1);
    assert_int_equal(clef_tokenizer_eos(tok), 2);
    WITH_SPECIAL(tok, "", "1");
    WITH_SPECIAL(tok, "ab", "1 5 8"); /* "ab" has a better score than "_a" */
    IDS(tok, "a", "9");
    IDS(tok, "ba  b", "5 7 6 5 5 7"); /* "ba" is unused */
    IDS(tok, "\xC3\xA9x", "5 3 4 0");
    IDS(tok, "a[X]b</s>", "9 11 7 2");
    TEXT(tok, "ab", 1, 5, 8);
    TEXT(tok, " \xC3\xA9", 5, 5, 3, 4);
    TEXT(tok, "a[X]", 9, 11);
    clef_tokenizer_close(tok);
    b = make_spm(SPM_BPE, "1:32 1:1");
    assert_int_equal(open_spm(&b, &tok, &err), CLEF_OK);
    IDS(tok, "  b   b ", "5 7 5 7");
    IDS(tok, "   ", "");
    IDS(tok, "b" META_SPACE " b" META_SPACE " " META_SPACE,
        "5 7 5 5 7"); /* U+2581 is a space at the end alone */
    IDS(tok, META_SPACE, "");
    IDS(tok, "xyz\xC3\xA9", "5 0");
    TEXT(tok, "b", 5, 5, 7);
    clef_tokenizer_close(tok);
}

/* A charsmap of one rule: A becomes a. Its trie has a root, a node and the value, which is the offset of
 * the replacement. */
#define SPM_CHARSMAP "1:18 1:18 4:12 4:0x10000 4:0xD41 4:0x80000000 t:a 1:0"

TEST(test_spm_unigram)
{
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    blob b = make_spm("1:0x98 1:2 1:1", SPM_CHARSMAP); /* model type 1 is the default */
    assert_int_equal(open_spm(&b, &tok, &err), CLEF_OK);
    IDS(tok, "Ab", "9 7"); /* -2 - 7 is more than -9 - 1 */
    IDS(tok, "  AAb ", "9 8");
    IDS(tok, "ba", "5 7 6"); /* "ba" is unused */
    IDS(tok, "\xC3\xA9xx", "5 3 4 0");
    IDS(tok, "a[X]b", "9 11 7");
    TEXT(tok, "aab", 9, 8);
    clef_tokenizer_close(tok);
    b = make_spm("", SPM_CHARSMAP);
    assert_int_equal(open_spm(&b, &tok, &err), CLEF_OK);
    IDS(tok, "\xC3\xA9xx", "5 0"); /* without byte fallback a run of unknown characters is one */
    clef_tokenizer_close(tok);
}

TEST(test_spm_refusals)
{
    static const struct {
        const char *trainer, *normalizer;
        clef_status status;
        const char *piece;
    } rows[] = {
        {"1:24 1:4", "", CLEF_E_UNSUPPORTED, "model type Char (4) is not supported; known: Unigram, BPE"},
        {"1:24 1:3", "", CLEF_E_UNSUPPORTED, "model type Word"},
        {"1:24 1:9", "", CLEF_E_UNSUPPORTED, "model type ? (9)"},
        {SPM_BPE, "1:10 1:4 t:nfkc 1:18 1:2 t:xx", CLEF_E_FORMAT, "a charsmap of 2 bytes"},
        {SPM_BPE " 1:0xC0 1:1 1:1", "", CLEF_E_UNSUPPORTED, "treat_whitespace_as_suffix"},
        {SPM_BPE " 1:0x98", "", CLEF_E_FORMAT, "a field ends beyond its message"},
        {SPM_BPE " 1:10 1:99", "", CLEF_E_FORMAT, "a field ends beyond its message"},
        {SPM_BPE " 1:11", "", CLEF_E_FORMAT, "a field ends beyond its message"},
    };
    clef_tokenizer *tok = NULL;
    clef_error err = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const blob b = make_spm(rows[i].trainer, rows[i].normalizer);
        check_error(rows[i].trainer, open_spm(&b, &tok, &err), &err, rows[i].status, rows[i].piece);
    }
    blob b = {.n = 0};
    check_error("an empty file", open_spm(&b, &tok, &err), &err, CLEF_E_FORMAT, "it has no pieces");
    b = make_spm(SPM_BPE, SPM_KEEP);
    put_spm_piece(&b, "ab", NAN, 1);
    check_error("NaN", open_spm(&b, &tok, &err), &err, CLEF_E_FORMAT, "the score of token 12");
    b = make_spm(SPM_BPE, SPM_KEEP);
    put_spm_piece(&b, "q", 0, 7);
    check_error("type 7", open_spm(&b, &tok, &err), &err, CLEF_E_FORMAT, "token 12 has type 7");
    for (size_t n = 1; n < 60; n++) { /* a file that is cut off is refused, or opened as far as it goes */
        b = make_spm(SPM_BPE, SPM_KEEP);
        clef_tokenizer *cut = clef__tokenizer_new();
        void *data = exact(b.p + n, b.n - n);
        clef__tokenizer_parse_spm(cut, data, b.n - n, "cut", &err);
        free(data);
        clef_tokenizer_close(cut);
    }
}

TESTS(make_temp_dir, remove_temp_dir)

/* Readers of pictures: formats beside what Pillow makes of the same files, limits, and files that lie. */
#include "clef/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/os/os.h"
#include "tests/check.h"

#define FOLDER CLEF_SOURCE_DIR "/tests/fixtures/pictures/"

/* Whether this build has no library for the file. */
static int is_absent(const clef_error *err)
{
    return err->status == CLEF_E_UNSUPPORTED && strstr(err->text, "built without");
}

/* FILE.ppm holds what Pillow makes of FILE. */
static void check_file(const char *name, int tolerance)
{
    clef_picture got, expected;
    clef_error err = {0};
    if (clef_picture_open(FOLDER "none.png", NULL, &got, &err) != CLEF_E_IO)
        fail_msg("a file that is not there is opened");
    char path[300];
    snprintf(path, sizeof path, FOLDER "%s", name);
    if (clef_picture_open(path, NULL, &got, &err) != CLEF_OK) {
        if (!is_absent(&err))
            fail_msg("%s", err.text);
        return;
    }
    snprintf(path, sizeof path, FOLDER "%s.ppm", name);
    ok(clef_picture_open(path, NULL, &expected, &err), &err);
    assert_int_equal(got.width, expected.width);
    assert_int_equal(got.height, expected.height);
    for (int32_t i = 0; i < got.width * got.height * 3; i++)
        if (abs(got.rgb[i] - expected.rgb[i]) > tolerance)
            fail_msg("%s: byte %d: expected %d, got %d", name, i, expected.rgb[i], got.rgb[i]);
    clef_picture_finish(&got);
    clef_picture_finish(&expected);
}

TEST(lossless_files_are_as_pillow_reads_them)
{
    static const char *const names[] = {"turned1.png", "turned2.png", "turned3.png", "turned4.png",
                                        "turned5.png", "turned6.png", "turned7.png", "turned8.png",
                                        "palette.png", "deep.png",    "grey.png",    "turned.webp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_file(names[i], 0);
}

/* Versions of libjpeg differ by a level. */
TEST(jpegs_are_as_pillow_reads_them)
{
    check_file("turned.jpg", 2);
    check_file("progressive.jpg", 2);
    check_file("inks.jpg", 2);
}

static void refused(const void *data, size_t n, clef_status status, const char *words)
{
    clef_picture p;
    clef_error err = {0};
    const clef_status got = clef_picture_read(data, n, "file", NULL, &p, &err);
    if (got == CLEF_E_UNSUPPORTED && is_absent(&err))
        return;
    if (got != status || !strstr(err.text, words))
        fail_msg("expected %s, '%s'; got %s, '%s'", clef_status_name(status), words, clef_status_name(got),
                 err.text);
    assert_null(p.rgb);
    const int is_large = strstr(err.text, "60000 x 60000") != NULL;
    assert_int_equal(p.width, is_large ? 60000 : 0);
    assert_int_equal(p.height, is_large ? 60000 : 0);
}

TEST(a_ppm_is_read_with_comments_and_refused_where_it_lies)
{
    clef_picture p;
    clef_error err = {0};
    static const char good[] = "P6 # red\n2 1\n#\n255\nabcdef";
    ok(clef_picture_read(good, sizeof good - 1, "file", NULL, &p, &err), &err);
    assert_memory_equal(p.rgb, "abcdef", 6);
    clef_picture_finish(&p);
    refused(good, sizeof good - 2, CLEF_E_FORMAT, "5 bytes of pixels, expected 6 for 2 x 1");
    static const char deep[] = "P5 2 1 65535 abcd", wide[] = "P6 99999999999 1 255 a",
                      none[] = "P6 0 4 255 a", large[] = "P6 60000 60000 255 a", word[] = "P6 a 4 255 a";
    refused(deep, sizeof deep - 1, CLEF_E_UNSUPPORTED, "values up to 65535, expected 255");
    refused(wide, sizeof wide - 1, CLEF_E_LIMIT, "x 1 pixels, expected at most");
    refused(none, sizeof none - 1, CLEF_E_FORMAT, "0 x 4 pixels");
    refused(large, sizeof large - 1, CLEF_E_LIMIT, "60000 x 60000 pixels, expected at most 100000000");
    refused(word, sizeof word - 1, CLEF_E_FORMAT, "without width");
}

TEST(what_is_no_picture_is_refused)
{
    refused("", 0, CLEF_E_FORMAT, "0 bytes that are not a picture");
    refused("\xff", 1, CLEF_E_FORMAT, "1 bytes that are not a picture");
    refused("\xff\xd8", 2, CLEF_E_FORMAT, "a damaged JPEG");
    refused("GIF89a", 6, CLEF_E_UNSUPPORTED, "its format is GIF, expected PNG, JPEG, WebP or PPM");
    refused("\0\0\0\x20"
            "ftypavif",
            12, CLEF_E_UNSUPPORTED, "its format is AVIF");
    refused("RIFF\4\0\0\0WEBP", 12, CLEF_E_FORMAT, "a damaged WebP");
}

/* The head of a PNG of 60,000 x 60,000 pixels, with its sum. */
TEST(a_png_that_would_be_too_large_is_not_decoded)
{
    static const unsigned char head[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0,    0, 0,    13,
                                         'I',  'H', 'D', 'R', 0,    0,    0xea, 0x60, 0,    0, 0xea, 0x60,
                                         8,    2,   0,   0,   0,    0x0f, 0xb0, 0xe2, 0x15, 0, 0,    0,
                                         0,    'I', 'D', 'A', 'T',  0x35, 0xaf, 0x06, 0x1e};
    refused(head, sizeof head, CLEF_E_LIMIT, "60000 x 60000 pixels, expected at most 100000000 in all");
}

/* Each file, shortened at every place, is refused. */
TEST(shortened_files_are_refused)
{
    static const char *const names[] = {"turned6.png", "palette.png", "turned.jpg", "progressive.jpg",
                                        "turned.webp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[300], *data;
        size_t n;
        clef_error err = {0};
        snprintf(path, sizeof path, FOLDER "%s", names[i]);
        ok(clef__os_read(path, 1 << 20, &data, &n, &err), &err);
        for (size_t cut = 0; cut < n - 2; cut++) {
            clef_picture p;
            if (clef_picture_read(data, cut, names[i], NULL, &p, &err) == CLEF_OK)
                fail_msg("%s: the first %zu of %zu bytes are read", names[i], cut, n);
        }
        free(data);
    }
}

TESTS(NULL, NULL)

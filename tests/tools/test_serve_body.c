/* The bodies of requests (tools/serve/base/body.c), beside jansson: what both read is the same value. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tools/serve/base/body.h"

typedef struct reading {
    size_t n_held, most;
    char left[256]; /* names that were left out */
} reading;

static int wants(void *user, const char *name)
{
    (void)user;
    return name[0] != 'u'; /* "unknown" */
}

static void leaves(void *user, const char *name)
{
    reading *r = user;
    strncat(r->left, name, sizeof r->left - strlen(r->left) - 1);
}

static int hold(void *user, size_t n_bytes)
{
    reading *r = user;
    r->n_held = n_bytes;
    return !r->most || n_bytes <= r->most;
}

static int read_body(const char *text, size_t n, reading *r, serve_body *out, serve_error *e)
{
    const serve_body_opts opts = {.wants = wants, .leaves = leaves, .hold = hold, .user = r};
    char *own = malloc(n + 1);
    assert_non_null(own);
    memcpy(own, text, n);
    own[n] = '\0';
    *e = (serve_error){.id = SERVE_OK};
    const int ok = serve_body_read(own, n, &opts, out, e);
    free(own);
    return ok;
}

/* The value of "a" as jansson writes it; "" where the body is refused. */
static void check(const char *body, const char *wanted)
{
    reading r = {.n_held = 0};
    serve_body out;
    serve_error e;
    const int ok = read_body(body, strlen(body), &r, &out, &e);
    char *got = ok ? json_dumps(json_object_get(out.root, "a"), JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    assert_string_equal(got ? got : "", wanted);
    assert_int_equal(ok ? SERVE_OK : SERVE_E_INVALID_JSON, e.id);
    free(got);
    json_decref(out.root);
}

TEST(test_values)
{
    check("{\"a\": [1, -0, 2.5e3, true, null, {\"b\": \"\"}]}", "[1,0,2500.0,true,null,{\"b\":\"\"}]");
    check("{\"a\":\"\\ud83d\\ude00\"}", "\"\xF0\x9F\x98\x80\"");
    check("{\"a\":\"\\ud83d\"}", "\"\xEF\xBF\xBD\"");
    check("{\"a\":\"\\ude00\\ud83dx\"}", "\"\xEF\xBF\xBD\xEF\xBF\xBDx\"");
    check("{\"a\":\"\\ud83d\\n\"}", "\"\xEF\xBF\xBD\\n\"");
    check("{\"a\":\"x\\u0000y\"}", "\"x\\u0000y\"");
    check("{\"a\":1,\"a\":2}", "2");
    char body[256];
    for (int n = 120; n < 135; n++) { /* names about as long as those that are looked at */
        snprintf(body, sizeof body, "{\"%0*d\xC3\xA9\":1,\"a\":3}", n, 0);
        check(body, "3");
    }
    static const char *const bad[] = {"",
                                      "{",
                                      "[]",
                                      "{\"a\":01}",
                                      "{\"a\":1,}",
                                      "{\"a\":+1}",
                                      "{\"a\":1e}",
                                      "{\"a\":.5}",
                                      "{\"a\":\"\\x\"}",
                                      "{\"a\":\"\n\"}",
                                      "{\"a\":1}x",
                                      "{\"a\":1e999}",
                                      "{a:1}",
                                      "{\"a\":\"\xFF\"}",
                                      "{\"\\u0000\":1}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check(bad[i], "");
}

TEST(test_large_integers)
{
    const char *const body = "{\"a\": 18446744073709551615, \"b\": {\"c\": 9223372036854775808}}";
    reading r = {.n_held = 0};
    serve_body out;
    serve_error e;
    assert_int_equal(read_body(body, strlen(body), &r, &out, &e), 1);
    assert_ptr_equal(out.large, json_object_get(out.root, "a"));
    assert_true(out.large_value == UINT64_MAX);
    json_decref(out.root);
}

TEST(test_objects)
{
    static const char text[] = "{\"a\":9223372036854775808,\"user\":\"\\u0000\\ud800\"}";
    json_t *all = serve_body_object(text, sizeof text - 1);
    assert_true(json_real_value(json_object_get(all, "a")) == 0x1p63);
    assert_int_equal(json_string_length(json_object_get(all, "user")), 4);
    json_decref(all);
    assert_null(serve_body_object("[1]", 3));
    assert_null(serve_body_object("{\"a\":{},", 8));
}

/* What is not wanted is checked, and neither made nor counted; what is too much is never made. */
TEST(test_limits)
{
    enum { N = 3000 };
    static char body[3 * N + 64];
    reading r = {.n_held = 0};
    serve_body out;
    serve_error e;
    strcpy(body, "{\"unknown\":[");
    for (int i = 0; i < N; i++)
        strcat(body + 3 * (size_t)i, "{},");
    strcat(body, "1]}");
    assert_int_equal(read_body(body, strlen(body), &r, &out, &e), 1);
    assert_string_equal(r.left, "unknown");
    assert_true(r.n_held < 1000);
    assert_int_equal(json_object_size(out.root), 0);
    json_decref(out.root);
    memcpy(body + 2, "wanted_", 7); /* the same values of a member that is */
    r = (reading){.most = 10000};
    assert_int_equal(read_body(body, strlen(body), &r, &out, &e), 0);
    assert_true(r.n_held > N * 100);
    assert_null(out.root);
    assert_int_equal(read_body("{\"unknown\":[1,]}", 16, &r, &out, &e), 0);
    memset(body, '[', 2 * N);
    memcpy(body, "{\"a\":", 5);
    assert_int_equal(read_body(body, 2 * N, &r, &out, &e), 0);
}

/* Bodies that are nearly right. jansson refuses half pairs, and integers that are too large. */
TEST(test_beside_jansson)
{
    static const char seed[] = "{\"a\":[1,-2.5e-3,\"x\\u00e9\\n\",{\"b\":null,\"c\":[true,false,{}]}],\"d\":"
                               "\"\xC3\xA9\",\"e\":12345678901234567}";
    static const char letters[] = "{}[]\",:\\u0d8e+-. \t\n\x01\xC3\xA9";
    uint32_t random = 1, n_good = 0;
    for (int i = 0; i < 100000; i++) {
        char body[sizeof seed];
        size_t n = sizeof seed - 1;
        memcpy(body, seed, sizeof seed);
        for (int k = 0; k < 1 + i % 3; k++) {
            random = random * 1664525 + 1013904223;
            const size_t at = (random >> 8) % n;
            if (random >> 30 == 0) {
                memmove(body + at, body + at + 1, n - at);
                n--;
            } else
                body[at] = letters[(random >> 16) % (sizeof letters - 1)];
        }
        reading r = {.n_held = 0};
        serve_body out;
        serve_error e;
        json_error_t why;
        json_t *wanted = json_loadb(body, n, JSON_ALLOW_NUL, &why);
        const int ok = read_body(body, n, &r, &out, &e), is_object = json_is_object(wanted);
        if (is_object && json_object_get(wanted, "u") == NULL) {
            assert_int_equal(ok, 1);
            n_good++;
            assert_true(json_equal(wanted, out.root) ||
                        json_object_size(wanted) != json_object_size(out.root));
        } else if (ok)
            assert_non_null(strstr(body, "\\u")); /* a half pair */
        json_decref(wanted);
        json_decref(out.root);
    }
    assert_true(n_good > 1000);
}

TESTS(NULL, NULL)

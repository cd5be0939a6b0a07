/* Constraints: which texts each keyword and construct allows, what is refused, and that masks say the same as
 * the tokens one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "clef/constrain.h"
#include "tests/check.h"
#include "text/constrain/constraint.h"

/* A source, texts that it allows, and texts that it rejects; each list ends with NULL. */
typedef struct example {
    const char *source;
    const char *yes[10], *no[14];
} example;

/* Where a text is refused, or complete. */
typedef enum verdict { ACCEPTED, INCOMPLETE, REJECTED } verdict;

static clef_constraint *compile(clef_constraint_kind kind, const char *source,
                                const clef_constraint_opts *opts)
{
    clef_constraint *c = NULL;
    clef_error err = {0};
    const clef_status s = clef_constraint_create(kind, source, strlen(source), opts, &c, NULL, &err);
    if (s)
        fail_msg("%s: %s", source, err.text);
    return c;
}

static verdict judge(clef_constraint *c, const char *text)
{
    clef_constraint_state state;
    clef_error err = {0};
    size_t n = 0;
    ok(clef_constraint_begin(c, &state, &err), &err);
    ok(clef_constraint_read(c, &state, text, strlen(text), &n, &err), &err);
    return n < strlen(text) ? REJECTED : clef_constraint_may_end(c, &state) ? ACCEPTED : INCOMPLETE;
}

static void check_examples(clef_constraint_kind kind, const example *examples, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        clef_constraint *c = compile(kind, examples[i].source, NULL);
        for (const char *const *text = examples[i].yes; *text; text++)
            if (judge(c, *text) != ACCEPTED)
                fail_msg("%s: %s is not accepted", examples[i].source, *text);
        for (const char *const *text = examples[i].no; *text; text++)
            if (judge(c, *text) == ACCEPTED)
                fail_msg("%s: %s is accepted", examples[i].source, *text);
        clef_constraint_destroy(c);
    }
}

static const example keywords[] = {
    {"true",
     {"1", "null", "\"x\"", "[1, {\"a\":[]}]", "-1.5e+3", "{}"},
     {"", "01", "[1,]", "nul", " 1", "1 ", "{a:1}"}},
    {"{\"type\":\"integer\"}", {"0", "-7", "123"}, {"1.0", "1e3", "-", "00", "\"1\"", "1."}},
    {"{\"type\":[\"boolean\",\"null\"]}", {"true", "false", "null"}, {"0", "\"true\"", "truefalse"}},
    {"{\"enum\":[\"a\",2,null,[1],{\"x\":true}]}",
     {"\"a\"", "2", "null", "[1]", "{\"x\":true}", "\"\\u0061\""},
     {"\"b\"", "3", "2.5", "[]", "[1,1]", "{\"x\":false}", "{}"}},
    {"{\"const\":\"\\u00e9\"}",
     {"\"\xC3\xA9\"", "\"\\u00e9\"", "\"\\u00E9\""},
     {"\"e\"", "\"\xC3\"", "\"\\u00ea\""}},
    {"{\"type\":\"integer\",\"minimum\":-12,\"maximum\":105}",
     {"-12", "-1", "0", "9", "99", "100", "105"},
     {"-13", "106", "110", "1000", "-100"}},
    {"{\"type\":\"number\",\"minimum\":0.25,\"exclusiveMaximum\":1.5}",
     {"0.25", "0.250", "1", "1.49", "0.3"},
     {"0.2", "0.249", "1.5", "1.50", "-1", "2", "1e0"}},
    {"{\"exclusiveMinimum\":-0.5,\"type\":\"number\"}", {"-0.4", "0", "-0", "7"}, {"-0.5", "-0.50", "-1"}},
    {"{\"type\":\"integer\",\"multipleOf\":7}", {"0", "7", "-14", "700"}, {"1", "71", "6"}},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
     {"\"ab\"", "\"\xF0\x9F\x98\x80\xC3\xA9\"", "\"\\ud83d\\ude00x\"", "\"\\n\\\"\\\\\""},
     {"\"\"", "\"a\"", "\"abcd\"", "\"\\ud83dab\"", "\"\xF0\x9F\x98\x80\"", "\"a\nb\""}},
    {"{\"type\":\"string\",\"pattern\":\"^[a-c]+\\\\d?$\",\"maxLength\":4}",
     {"\"a\"", "\"abc1\"", "\"\\u0061\""},
     {"\"\"", "\"d\"", "\"a12\"", "\"abca1\"", "\"\\u0064\""}},
    {"{\"type\":\"string\",\"pattern\":\"ab\"}", {"\"ab\"", "\"xxabyy\"", "\"aab\""}, {"\"a\"", "\"ba\""}},
};

static const example formats[] = {
    {"{\"type\":\"string\",\"format\":\"date\"}",
     {"\"2024-02-29\"", "\"1999-12-31\"", "\"2000-02-29\""},
     {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-13-01\"", "\"0000-01-01\"", "\"2024-1-1\""}},
    {"{\"type\":\"string\",\"format\":\"time\"}",
     {"\"23:59:59Z\"", "\"00:00:00.5+01:00\""},
     {"\"24:00:00Z\"", "\"10:00:00\""}},
    {"{\"type\":\"string\",\"format\":\"date-time\"}",
     {"\"2024-02-29T10:00:00Z\"", "\"2024-01-01t00:00:00.25-08:00\""},
     {"\"2024-02-30T10:00:00Z\"", "\"2024-01-01 00:00:00Z\"", "\"2024-01-01\""}},
    {"{\"type\":\"string\",\"format\":\"duration\"}",
     {"\"P1Y2M3D\"", "\"PT5M\"", "\"P2W\"", "\"P1DT1H\""},
     {"\"P\"", "\"PT\"", "\"P1Y3D\"", "\"1D\""}},
    {"{\"type\":\"string\",\"format\":\"email\"}",
     {"\"a.b+c@d-e.org\""},
     {"\"a@\"", "\"@b\"", "\"a..b@c\"", "\"a@-b\""}},
    {"{\"type\":\"string\",\"format\":\"hostname\"}",
     {"\"a\"", "\"x-1.example.com\""},
     {"\"-a\"", "\"a..b\"", "\"a_b\"", "\"\""}},
    {"{\"type\":\"string\",\"format\":\"ipv4\"}",
     {"\"0.0.0.0\"", "\"255.10.1.99\""},
     {"\"256.0.0.0\"", "\"01.0.0.0\"", "\"1.2.3\""}},
    {"{\"type\":\"string\",\"format\":\"ipv6\"}",
     {"\"::\"", "\"1::8\"", "\"1:2:3:4:5:6:7:8\"", "\"::ffff:1.2.3.4\""},
     {"\"1::2::3\"", "\"12345::\"", "\"1:2:3\"", "\":1::\""}},
    {"{\"type\":\"string\",\"format\":\"uuid\"}",
     {"\"00000000-AAAA-bbbb-1234-0123456789ab\""},
     {"\"0000\"", "\"00000000-AAAA-bbbb-1234-0123456789ag\""}},
    {"{\"type\":\"string\",\"format\":\"uri\"}",
     {"\"http://a.b/c?d=e#f\"", "\"urn:x:y\"", "\"http://[::1]:80/\""},
     {"\"/a\"", "\"http://a b\"", "\"%\"", "\"http://a/%g0\""}},
    {"{\"type\":\"string\",\"format\":\"nonsense\"}", {"\"anything\""}, {"1"}},
};

static const example objects[] = {
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{}},\"required\":[\"b\"]}",
     {"{\"b\":1}", "{\"a\":1,\"b\":2}", "{\"b\": null, \"z\": 1}", "{\"a\":1,\n  \"b\":2}"},
     {"{}", "{\"a\":1}", "{\"a\":\"x\",\"b\":1}", "{\"b\":1,\"a\":1}", "{\"b\":1,\"b\":2}",
      "{\"z\":1,\"b\":2}", "{\"b\":1,}", "{\"b\":1,\"\\u0061\":\"x\"}"}},
    {"{\"type\":\"object\",\"properties\":{\"ab\":{},\"abc\":{}},\"additionalProperties\":false}",
     {"{}", "{\"ab\":1}", "{\"abc\":1}", "{\"ab\":1,\"abc\":2}", "{\"\\u0061b\":1}"},
     {"{\"a\":1}", "{\"abcd\":1}", "{\"abc\":1,\"ab\":2}"}},
    {"{\"type\":\"object\",\"patternProperties\":{\"^x\":{\"type\":\"integer\"}},\"additionalProperties\":{"
     "\"type\":\"null\"}}",
     {"{\"x1\":1}", "{\"y\":null}", "{\"x\":1,\"y\":null}"},
     {"{\"x\":null}", "{\"y\":1}"}},
    {"{\"type\":\"object\",\"propertyNames\":{\"maxLength\":2}}", {"{}", "{\"ab\":1}"}, {"{\"abc\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"minProperties\":2,"
     "\"additionalProperties\":false}",
     {"{\"a\":1,\"b\":1}", "{\"a\":1,\"c\":1}", "{\"a\":1,\"b\":1,\"c\":1}"},
     {"{}", "{\"a\":1}", "{\"c\":1"}},
    {"{\"type\":\"object\",\"maxProperties\":1,\"properties\":{\"a\":{},\"b\":{}},\"required\":[\"b\"]}",
     {"{\"b\":1}"},
     {"{\"a\":1", "{\"b\":1,\"c\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},\"dependentRequired\":{\"a\":[\"b\"]}}",
     {"{}", "{\"b\":1}", "{\"a\":1,\"b\":1}"},
     {"{\"a\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[\"x\",\"y\"]},\"v\":{}},\"required\":[\"k\"],"
     "\"if\":{\"properties\":{\"k\":{\"const\":\"x\"}}},\"then\":{\"required\":[\"v\"]}}",
     {"{\"k\":\"y\"}", "{\"k\":\"x\",\"v\":1}"},
     {"{\"k\":\"x\"}"}},
    {"{\"type\":\"object\",\"properties\":{\"next\":{\"$ref\":\"#\"}},\"additionalProperties\":false}",
     {"{}", "{\"next\":{}}", "{\"next\":{\"next\":{\"next\":{}}}}"},
     {"{\"next\":1}", "{\"next\":{\"x\":{}}}"}},
};

static const example arrays[] = {
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":1,\"maxItems\":3}",
     {"[1]", "[1, 2,3]", "[\n 1\n]"},
     {"[]", "[1,2,3,4]", "[\"x\"]", "[1,]", "[1,2,3,"}},
    {"{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":false}",
     {"[]", "[1]", "[1,2]"},
     {"[2]", "[1,2,3]"}},
    {"{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"type\":\"array\",\"items\":[{\"const\":1}],"
     "\"additionalItems\":{\"const\":2}}",
     {"[1,2,2]", "[]"},
     {"[1,1]"}},
    {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}]}",
     {"1", "[]", "[1,[2,[]]]"},
     {"\"x\"", "[[\"x\"]]"}},
    {"{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"integer\",\"maximum\":2}]}",
     {"\"\"", "2"},
     {"3", "null"}},
    {"{\"allOf\":[{\"type\":\"string\",\"minLength\":1},{\"maxLength\":2}],\"not\":{\"const\":\"ab\"}}",
     {"\"a\"", "\"ac\""},
     {"\"\"", "\"ab\"", "\"abc\"", "1"}},
};

/* White space between tokens: nothing, a space, or one or two newlines and up to 20 blanks. */
static const example spaces[] = {
    {"{\"type\":\"array\"}",
     {"[1,2]", "[ 1 , 2 ]", "[\n1\n\n,2]", "[1,\n                    2]", "[1,\n\t2]"},
     {"[  1]", "[1,\n\n\n2]", "[1,\n                     2]", " []", "[] ", "[1,\t2]", "[1, \n2]"}},
};

static void test_keywords(void **state)
{
    (void)state;
    check_examples(CLEF_CONSTRAIN_SCHEMA, keywords, sizeof keywords / sizeof *keywords);
    check_examples(CLEF_CONSTRAIN_SCHEMA, formats, sizeof formats / sizeof *formats);
    check_examples(CLEF_CONSTRAIN_SCHEMA, objects, sizeof objects / sizeof *objects);
    check_examples(CLEF_CONSTRAIN_SCHEMA, arrays, sizeof arrays / sizeof *arrays);
    check_examples(CLEF_CONSTRAIN_SCHEMA, spaces, sizeof spaces / sizeof *spaces);
}

static void test_any_order(void **state)
{
    (void)state;
    clef_constraint *c =
        compile(CLEF_CONSTRAIN_SCHEMA,
                "{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{}},\"required\":[\"a\"]}",
                &(clef_constraint_opts){.any_order = 1});
    assert_int_equal(judge(c, "{ \"z\":1,  \"b\":1,\"a\":1.0}"), ACCEPTED);
    assert_int_equal(judge(c, "{\"b\":1}"), INCOMPLETE + 1);
    clef_constraint_destroy(c);
}

/* ---- what is refused ------------------------------------------------------------------------------ */

static void test_refused_schemas(void **state)
{
    static const struct {
        const char *source, *path, *keyword;
        clef_status status;
        int32_t strict;
    } refused[] = {
        {"{\"properties\":{\"id\":{\"contains\":{\"const\":1}}}}", "/properties/id", "contains",
         CLEF_E_UNSUPPORTED, 0},
        {"{\"items\":{\"uniqueItems\":true}}", "/items", "uniqueItems", CLEF_E_UNSUPPORTED, 0},
        {"{\"$ref\":\"http://example.com/x\"}", "", "$ref", CLEF_E_UNSUPPORTED, 0},
        {"{\"$ref\":\"#/$defs/x\"}", "", "$ref", CLEF_E_UNSUPPORTED, 0},
        {"{\"$ref\":\"#\"}", "", "$ref", CLEF_E_UNSUPPORTED, 0},
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"minimum\":2}]}", "", "oneOf", CLEF_E_UNSUPPORTED, 0},
        {"{\"type\":\"string\",\"format\":\"nonsense\"}", "", "format", CLEF_E_UNSUPPORTED, 1},
        {"{\"type\":\"string\",\"format\":\"regex\"}", "", "format", CLEF_E_UNSUPPORTED, 0},
        {"{\"properties\":{\"a\":{\"pattern\":\"(?=a)\"}}}", "/properties/a", "pattern", CLEF_E_UNSUPPORTED,
         0},
        {"{\"multipleOf\":0.1}", "", "multipleOf", CLEF_E_UNSUPPORTED, 0},
        {"{\"type\":\"integer\",\"minimum\":2,\"maximum\":1}", "", "type", CLEF_E_ARG, 0},
        {"{\"required\":[\"a\"],\"properties\":{\"a\":{\"$ref\":\"#\"}},\"type\":\"object\"}", "", "type",
         CLEF_E_ARG, 0},
        {"{\"type\":\"string\",\"pattern\":\"^a{5}$\",\"maxLength\":3}", "", "type", CLEF_E_ARG, 0},
        {"{\"minLength\":20000}", "", "minLength", CLEF_E_LIMIT, 0},
        {"{\"type\":\"text\"}", "", "type", CLEF_E_FORMAT, 0},
        {"{\"items\":[{}]}", "", "items", CLEF_E_UNSUPPORTED, 0},
        {"{\"unevaluatedProperties\":false}", "", "unevaluatedProperties", CLEF_E_UNSUPPORTED, 0},
        {"{\"$schema\":\"http://json-schema.org/draft-03/schema#\"}", "", "$schema", CLEF_E_UNSUPPORTED, 0},
        {"[1]", "", "JSON", CLEF_E_FORMAT, 0},
        {"{\"type\":", "", "JSON", CLEF_E_FORMAT, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        clef_constraint *c = NULL;
        clef_constraint_problem problem = {{0}, {0}};
        clef_error err = {0};
        const clef_constraint_opts opts = {.strict = refused[i].strict};
        const clef_status s = clef_constraint_create(CLEF_CONSTRAIN_SCHEMA, refused[i].source,
                                                     strlen(refused[i].source), &opts, &c, &problem, &err);
        if (s != refused[i].status)
            fail_msg("%s: %s (%s)", refused[i].source, clef_status_name(s), err.text);
        assert_string_equal(problem.path, refused[i].path);
        assert_string_equal(problem.keyword, refused[i].keyword);
        assert_null(c);
    }
}

static void test_limits(void **state)
{
    enum { DEEP = 300 };
    char deep[2 * DEEP * 16], *at = deep;
    clef_constraint *c = NULL;
    clef_error err = {0};
    (void)state;
    for (int i = 0; i < DEEP; i++)
        at += sprintf(at, "{\"items\":");
    at += sprintf(at, "true");
    for (int i = 0; i < DEEP; i++)
        *at++ = '}';
    assert_int_equal(
        clef_constraint_create(CLEF_CONSTRAIN_SCHEMA, deep, (size_t)(at - deep), NULL, &c, NULL, &err),
        CLEF_E_LIMIT);
    const size_t n = (1 << 20) + 1;
    char *large = malloc(n);
    assert_non_null(large);
    memset(large, ' ', n);
    for (int kind = CLEF_CONSTRAIN_GBNF; kind <= CLEF_CONSTRAIN_CHOICES; kind++)
        assert_int_equal(clef_constraint_create((clef_constraint_kind)kind, large, n, NULL, &c, NULL, &err),
                         CLEF_E_LIMIT);
    free(large);
}

/* ---- grammars, regexes, choices ---------------------------------------------------------------------- */

static const example grammars[] = {
    {"root ::= (expr \"=\" ws num \"\\n\")+\nexpr ::= term ([-+*/] term)*\n"
     "term ::= name | num | \"(\" ws expr \")\" ws\nname ::= [a-z] [a-z0-9_]* ws\nnum ::= [0-9]+ ws\nws ::= "
     "[ \\t]*",
     {"x=1\n", "(a+3)*b = 4\n", "1=1\n2=2\n"},
     {"x=", "x==1\n", "(a=1\n"}},
    {"root ::= func*\nfunc ::= type \" \" name \"(\" args? \") {\" stmt* \"}\"\ntype ::= \"int\" | \"void\"\n"
     "name ::= [a-z_]+\nargs ::= arg (\", \" arg)*\narg ::= type \" \" name\n"
     "stmt ::= name \" = \" num \";\" | \"if (\" name \") {\" stmt* \"}\"\nnum ::= \"-\"? [0-9]{1,9}",
     {"", "int f() {}", "void g(int a, int b) {x = 1;if (a) {y = -2;}}"},
     {"int f( {}", "float f() {}", "int f() {x = 1}"}},
    {"root ::= \"1. \" move \" \" move \"\\n\" ([1-9] [0-9]? \". \" move \" \" move \"\\n\")*\n"
     "move ::= (pawn | piece | \"O-O\" \"-O\"?) [+#]?\npiece ::= [NBKQR] [a-h]? [1-8]? \"x\"? [a-h] [1-8]\n"
     "pawn ::= ([a-h] \"x\")? [a-h] [1-8] (\"=\" [NBQR])?",
     {"1. e4 e5\n", "1. d4 Nf6\n2. c4 O-O-O\n"},
     {"1. e9 e5\n", "2. e4 e5\n"}},
    {"root ::= sentence+\nsentence ::= [A-Z] word (\" \" word)* [.!?] \" \"?\nword ::= [a-z']*",
     {"I am here. You aren't!"},
     {"i am.", "I am"}},
    {"root ::= jp+ ([ \\t\\n] jp+)*\njp ::= [ぁ-ゟ] | [゠-ヿ] | [一-龯] | [、-〾]",
     {"これは。", "カナ 漢字"},
     {"abc", "あ "}},
    {"root ::= value\nvalue ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
     "object ::= \"{\" (pair (\",\" pair)*)? \"}\"\npair ::= string \":\" value\narray ::= \"[\" (value "
     "(\",\" value)*)? \"]\"\n"
     "string ::= \"\\\"\" ([^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" [0-9a-fA-F]{4}))* "
     "\"\\\"\"\n"
     "number ::= \"-\"? (\"0\" | [1-9] [0-9]{0,15}) (\".\" [0-9]+)? ([eE] [-+]? [0-9]{1,3})?",
     {"{\"a\":[1,{\"b\":null}]}", "\"\\u00e9\"", "-1.5e10"},
     {"{a:1}", "[1,]", "01"}},
    {"root ::= \"[\\n\" item (\",\\n\" item)* \"\\n]\" # an array\nitem ::= [0-9]+",
     {"[\n1,\n2\n]"},
     {"[1]", "[\n\n]"}},
    {"root ::= item+\nitem ::= \"- \" [^\\r\\n\\x0b\\x0c\\x85]+ \"\\n\"", {"- a\n- b c\n"}, {"- \n", "-a\n"}},
    {"root ::= .{2} | \"x\"{3,}", {"ab", "\xF0\x9F\x98\x80\xC3\xA9", "xxx", "xxxxxx"}, {"a", "abc"}},
    {"root ::= \"a\" root \"b\" | \"\"", {"", "ab", "aabb"}, {"a", "abb", "ba"}},
};

static void test_grammars(void **state)
{
    static const char *const refused[] = {"root ::= a\na ::= a \"x\" | \"y\"",
                                          "root ::= b \"x\"",
                                          "root ::= (\"a\"*)*",
                                          "root ::= \"a\"{1,1000000}",
                                          "a ::= \"x\"",
                                          "root ::= \"x",
                                          "root ::= [z-a]",
                                          "root ::= \"a\" )",
                                          "root ::= \"\\q\"",
                                          "root ::= <[5]",
                                          "root ::= a? b?\na ::= b\nb ::= a | \"x\"",
                                          ""};
    (void)state;
    check_examples(CLEF_CONSTRAIN_GBNF, grammars, sizeof grammars / sizeof *grammars);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        clef_constraint *c = NULL;
        clef_error err = {0};
        if (!clef_constraint_create(CLEF_CONSTRAIN_GBNF, refused[i], strlen(refused[i]), NULL, &c, NULL,
                                    &err))
            fail_msg("%s is accepted", refused[i]);
    }
}

static void test_deep_grammar(void **state)
{
    enum { DEPTH = 60000 };
    char *text = malloc(2 * DEPTH + 32);
    clef_constraint *c = NULL;
    clef_error err = {0};
    (void)state;
    assert_non_null(text);
    memcpy(text, "root ::= ", 9);
    memset(text + 9, '(', DEPTH);
    memcpy(text + 9 + DEPTH, "\"a\"", 3);
    memset(text + 12 + DEPTH, ')', DEPTH);
    assert_int_equal(clef_constraint_create(CLEF_CONSTRAIN_GBNF, text, 12 + 2 * DEPTH, NULL, &c, NULL, &err),
                     CLEF_E_LIMIT);
    assert_non_null(strstr(err.text, "256"));
    free(text);
}

static const example regexes[] = {
    {"[a-z]+@[a-z]+\\.(com|org)", {"a@b.com", "xy@z.org"}, {"a@b", "a@b.net", "@b.com"}},
    {"(?:ab|a)*?c{2,3}", {"cc", "abacc", "aaccc"}, {"c", "abcccc"}},
    {"^\\d{3}$|x?", {"123", "x", ""}, {"12", "xx"}},
    {"[^\\s\\d-]\\u{1F600}?\\x41",
     {"zA", "z\xF0\x9F\x98\x80"
            "A"},
     {"1A", " A", "-A"}},
    {"a{,2}\\/\\-", {"a{,2}/-"}, {"aa/-"}},
    {"", {""}, {"a"}},
};
static const example choices[] = {
    {"[\"yes\",\"no\",\"yesterday\"]", {"yes", "no", "yesterday"}, {"y", "yest", "maybe", ""}},
};

static void test_texts(void **state)
{
    static const char *const refused[] = {"(?=a)",      "(?<!a)b", "\\bx", "(a)\\1", "\\p{L}",
                                          "a**",        "[b-a]",   "(",    ")",      "a{3,2}",
                                          "a{1,20000}", "\\A",     "*a",   "[a",     "\\"};
    (void)state;
    check_examples(CLEF_CONSTRAIN_REGEX, regexes, sizeof regexes / sizeof *regexes);
    check_examples(CLEF_CONSTRAIN_CHOICES, choices, sizeof choices / sizeof *choices);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        clef_constraint *c = NULL;
        clef_error err = {0};
        if (!clef_constraint_create(CLEF_CONSTRAIN_REGEX, refused[i], strlen(refused[i]), NULL, &c, NULL,
                                    &err))
            fail_msg("%s is accepted", refused[i]);
    }
}

/* ---- masks ---------------------------------------------------------------------------------- */

enum { STEPS = 60, END_ID = 0 };

typedef struct vocabulary {
    clef_tokenizer *tok;
    clef_token_trie *trie;
    uint32_t *mask;
    uint64_t random;
} vocabulary;

static uint32_t next_random(vocabulary *v)
{
    v->random = v->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(v->random >> 33);
}

/* The mask says of each token what accepting it says, and of the end what may_end says. */
static void check_mask(vocabulary *v, clef_constraint *c, const clef_constraint_state *state)
{
    clef_error err = {0};
    ok(clef_constraint_mask(c, v->trie, state, v->mask, &err), &err);
    for (int32_t id = 0; id < clef_tokenizer_n_tokens(v->tok); id++) {
        clef_constraint_state next = *state;
        const int allowed = clef_constraint_accept(c, v->trie, &next, id, NULL) == CLEF_OK;
        if (allowed != (int)(v->mask[id / 32] >> id % 32 & 1))
            fail_msg("token %d: mask %d, accepted %d", id, !allowed, allowed);
    }
    assert_int_equal(v->mask[END_ID / 32] >> END_ID % 32 & 1, clef_constraint_may_end(c, state));
}

static int32_t pick(vocabulary *v)
{
    const int32_t n = clef_tokenizer_n_tokens(v->tok);
    for (int32_t i = 0, at = (int32_t)(next_random(v) % (uint32_t)n); i < n; i++, at = (at + 1) % n)
        if (v->mask[at / 32] >> at % 32 & 1)
            return at;
    return -1;
}

/* Walks at random; there is always a token that may come next. */
static void walk(vocabulary *v, clef_constraint_kind kind, const char *source)
{
    clef_constraint *c = compile(kind, source, NULL);
    clef_constraint_state state;
    clef_error err = {0};
    ok(clef_constraint_begin(c, &state, &err), &err);
    for (int step = 0; step < STEPS; step++) {
        check_mask(v, c, &state);
        const int32_t id = pick(v);
        assert_true(id >= 0);
        if (id == END_ID)
            break;
        ok(clef_constraint_accept(c, v->trie, &state, id, &err), &err);
    }
    clef_constraint_destroy(c);
}

static void test_masks(void **state)
{
    static const char *const schemas[] = {
        "true",
        "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":5},\"age\":{"
        "\"type\":"
        "\"integer\",\"minimum\":-5,\"maximum\":120}},\"required\":[\"age\"]}",
        "{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"\\u00e9\\u00e8\",\"\\ud83d\\ude00\"]},\"minItems\":"
        "2}",
        "{\"type\":\"string\",\"pattern\":\"^([a-z]+ )*[\\u3040-\\u309f]$\"}",
        "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"number\",\"exclusiveMinimum\":0.5}}",
        "{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"x\"},\"x\":{}},\"required\":["
        "\"kind\","
        "\"x\"]},{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"y\"}},\"required\":[\"kind\"]}]"
        "}"};
    static const char *const gbnf[] = {"root ::= [a-z]+ (\" \" root)?", "root ::= (\"ROMEO:\" | .)+ \"\\n\"",
                                       "root ::= \"a\" root \"b\" | \"c\""};
    vocabulary v = {.random = 5};
    const int32_t end = END_ID;
    clef_error err = {0};
    (void)state;
    ok(clef_tokenizer_open(CLEF_SOURCE_DIR "/share/demo", &v.tok, &err), &err);
    ok(clef_token_trie_create(v.tok, &end, 1, &v.trie, &err), &err);
    v.mask = malloc((size_t)clef_token_trie_mask_words(v.trie) * sizeof *v.mask);
    assert_non_null(v.mask);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
            walk(&v, CLEF_CONSTRAIN_SCHEMA, schemas[i]);
        for (size_t i = 0; i < sizeof gbnf / sizeof *gbnf; i++)
            walk(&v, CLEF_CONSTRAIN_GBNF, gbnf[i]);
        walk(&v, CLEF_CONSTRAIN_REGEX, "(\\w+[ ,]){3}[^a-y]*");
        walk(&v, CLEF_CONSTRAIN_CHOICES, "[\"yes\",\"no\",\"maybe\"]");
    }
    free(v.mask);
    clef_token_trie_destroy(v.trie);
    clef_tokenizer_close(v.tok);
}

/* ---- memory ----------------------------------------------------------------------------------- */

static void read_all(clef_constraint *c, clef_constraint_state *state, const char *text, size_t n)
{
    clef_error err = {0};
    size_t n_read = 0;
    ok(clef_constraint_read(c, state, text, n, &n_read, &err), &err);
    assert_int_equal(n_read, n);
}

/* Texts in which every place is a state of its own need more memory than a constraint may have: what is
 * behind them is dropped. A place that is asked for goes on, one that nobody asks for is gone, and that is
 * its own error alone. */
static void test_generations(void **state)
{
    enum { N_LETTERS = 8000, N_TEXTS = 150 };
    static const char begin[] = "{\"b\":1,\"list\":[\"x\"", end[] = "],\"a\":true}", twice[] = "],\"b\":1}";
    clef_constraint *c =
        compile(CLEF_CONSTRAIN_SCHEMA,
                "{\"properties\":{\"a\":{\"type\":\"boolean\"},\"b\":{\"type\":\"integer\"},"
                "\"list\":{\"type\":\"array\",\"maxItems\":9000,\"items\":{\"type\":\"string\","
                "\"maxLength\":9000}}},\"required\":[\"a\"],\"additionalProperties\":false}",
                &(clef_constraint_opts){.any_order = 1});
    clef_constraint_state writes, waits, is_forgotten, try;
    clef_error err = {0};
    char *text = malloc(N_LETTERS + 4);
    size_t n = 0;
    (void)state;
    assert_non_null(text);
    memset(text, 'a', N_LETTERS + 3);
    memcpy(text, ",\"", 2);
    text[N_LETTERS + 2] = '"';
    ok(clef_constraint_begin(c, &writes, &err), &err);
    read_all(c, &writes, begin, sizeof begin - 1);
    waits = is_forgotten = writes;
    for (int i = 0; i < N_TEXTS; i++) {
        read_all(c, &writes, text, N_LETTERS + 3);
        read_all(c, &waits, " ", 1);
        assert_true(clef_constraint_bytes(c) < (80 << 20));
    }
    assert_int_equal(clef_constraint_read(c, &is_forgotten, " ", 1, &n, &err), CLEF_E_LIMIT);
    assert_non_null(strstr(err.text, "gone"));
    try = waits;
    ok(clef_constraint_read(c, &try, twice, sizeof twice - 1, &n, &err), &err);
    assert_int_equal(n, 3); /* "b" was there */
    read_all(c, &waits, end, sizeof end - 1);
    assert_true(clef_constraint_may_end(c, &waits));
    read_all(c, &writes, end, sizeof end - 1);
    assert_true(clef_constraint_may_end(c, &writes));
    ok(clef_constraint_begin(c, &writes, &err), &err);
    read_all(c, &writes, "{\"a\":true}", 10);
    assert_true(clef_constraint_may_end(c, &writes));
    free(text);
    clef_constraint_destroy(c);
}

/* A place is told from one of the same number many generations later. */
static void test_old_places(void **state)
{
    clef_constraint *c = compile(CLEF_CONSTRAIN_REGEX, "ab", NULL);
    clef_constraint_state place, old;
    clef_error err = {0};
    size_t n = 0;
    (void)state;
    ok(clef_constraint_begin(c, &place, &err), &err);
    c->machine.generation += 1024;
    ok(clef_constraint_begin(c, &old, &err), &err);
    assert_int_equal(clef_constraint_read(c, &place, "a", 1, &n, &err), CLEF_E_LIMIT);
    read_all(c, &old, "a", 1);
    c->machine.generation += 1u << 31;
    assert_int_equal(clef_constraint_read(c, &old, "b", 1, &n, &err), CLEF_E_LIMIT);
    clef_constraint_destroy(c);
}

static void test_arguments(void **state)
{
    clef_constraint *c = NULL;
    clef_error err = {0};
    (void)state;
    assert_int_equal(clef_constraint_create((clef_constraint_kind)9, "x", 1, NULL, &c, NULL, &err),
                     CLEF_E_ARG);
    assert_int_equal(clef_constraint_create(CLEF_CONSTRAIN_CHOICES, "[]", 2, NULL, &c, NULL, &err),
                     CLEF_E_FORMAT);
    clef_constraint_destroy(NULL);
    clef_token_trie_destroy(NULL);
    char *text = NULL;
    size_t n = 0;
    c = compile(CLEF_CONSTRAIN_SCHEMA, "{\"type\":\"object\",\"properties\":{\"a\":{\"maxLength\":3}}}",
                NULL);
    ok(clef_constraint_describe(c, &text, &n, &err), &err);
    assert_non_null(strstr(text, "\"a\" (optional)"));
    assert_true(clef_constraint_bytes(c) > n);
    clef_text_free(text);
    clef_constraint_destroy(c);
}

static void test_cache(void **state)
{
    clef_constraint_cache *cache = NULL;
    clef_constraint *made[3];
    clef_error err = {0};
    (void)state;
    for (int i = 0; i < 3; i++)
        ok(clef_constraint_create(CLEF_CONSTRAIN_REGEX, "a+", 2, NULL, &made[i], NULL, &err), &err);
    ok(clef_constraint_cache_create(1, &cache, &err), &err); /* nothing is kept that nobody uses */
    assert_null(clef_constraint_cache_take(cache, "a", 1));
    assert_ptr_equal(clef_constraint_cache_put(cache, "a", 1, made[0]), made[0]);
    assert_ptr_equal(clef_constraint_cache_put(cache, "a", 1, made[1]), made[0]); /* the first stays */
    assert_ptr_equal(clef_constraint_cache_put(cache, "b", 1, made[2]), made[2]);
    assert_ptr_equal(clef_constraint_cache_take(cache, "a", 1), made[0]);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(judge(made[0], "aa"), ACCEPTED); /* still in use */
        clef_constraint_cache_give(cache, made[0]);
    }
    assert_null(clef_constraint_cache_take(cache, "a", 1));
    assert_ptr_equal(clef_constraint_cache_take(cache, "b", 1), made[2]);
    clef_constraint_cache_destroy(cache);
    clef_constraint_cache_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keywords),        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_refused_schemas), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_grammars),        cmocka_unit_test(test_deep_grammar),
        cmocka_unit_test(test_texts),           cmocka_unit_test(test_masks),
        cmocka_unit_test(test_generations),     cmocka_unit_test(test_old_places),
        cmocka_unit_test(test_arguments),       cmocka_unit_test(test_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#define _POSIX_C_SOURCE 200809L /* setenv */
/* The command line's parser and the JSON writer of the command (tools/cli/cli.c, tools/cli/json.c). */
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tools/cli/cli.h"
#include "tools/cli/json.h"

typedef struct options {
    const char *text;
    int32_t number, flag, choice;
    float fraction;
    cli_seed seed;
    cli_list list;
} options;

static const options defaults = {.number = 5};
static const char *const choices[] = {"red", "green", NULL};

/* clang-format off */
#define AT(field) .offset = offsetof(options, field)
static const cli_option table[] = {
    {.names = "text,words", .letter = 't', .type = CLI_TEXT, .value = "T", AT(text), .help = "a text",
     .env = "CLEF_TEST_CLI_TEXT"},
    {.names = "number", .letter = 'n', .type = CLI_INT, .value = "N", AT(number), .lo = -1, .hi = 10,
     .help = "a number"},
    {.names = "fraction", .type = CLI_FLOAT, .value = "X", AT(fraction), .lo = 0, .hi = 1,
     .help = "a fraction"},
    {.names = "flag", .letter = 'f', .type = CLI_SWITCH, AT(flag), .help = "a flag"},
    {.names = "choice", .type = CLI_CHOICE, .value = "C", AT(choice), .choices = choices, .help = "a choice"},
    {.names = "seed", .type = CLI_SEED, .value = "N", AT(seed), .help = "a seed"},
    {.names = "list", .type = CLI_LIST, .value = "L", AT(list), .help = "a list"},
    {.names = NULL},
};
/* clang-format on */

static const cli_command command = {
    .name = "test",
    .usage = "[ARGUMENT]",
    .summary = "A test",
    .options = table,
    .max_args = 1,
    .defaults = &defaults,
    .options_bytes = sizeof defaults,
};

enum { MAX_ARGS = 8 };

/* Parses up to MAX_ARGS words, the last one followed by NULL. */
static int parse(const char *const *words, options *out, char *argv[MAX_ARGS], int32_t *n_args)
{
    int argc = 0;
    for (; words[argc]; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc];
    *out = defaults;
    return cli_parse(&command, argc, argv, out, n_args);
}

static int code_of(const char *word, const char *value)
{
    options o;
    char *argv[MAX_ARGS];
    int32_t n_args;
    return parse((const char *const[]){word, value, NULL}, &o, argv, &n_args);
}

TEST(takes_every_form)
{
    options o;
    char *argv[MAX_ARGS];
    int32_t n_args;
    assert_int_equal(
        parse((const char *const[]){"-n", "-1", "--text=", "rest", "-f", NULL}, &o, argv, &n_args),
        CLI_GO_ON);
    assert_int_equal(o.number, -1);
    assert_string_equal(o.text, "");
    assert_int_equal(o.flag, 1);
    assert_int_equal(n_args, 1);
    assert_string_equal(argv[0], "rest");
    assert_int_equal(
        parse((const char *const[]){"-n7", "--words", "--flag", "--choice=green", "--", "-f", NULL}, &o, argv,
              &n_args),
        CLI_GO_ON);
    assert_int_equal(o.number, 7);
    assert_string_equal(o.text, "--flag"); /* a value is taken as it is */
    assert_int_equal(o.flag, 0);
    assert_int_equal(o.choice, 1);
    assert_string_equal(argv[0], "-f");
    assert_int_equal(parse((const char *const[]){"--list", "a", "--list", "b", "-", NULL}, &o, argv, &n_args),
                     CLI_GO_ON);
    assert_int_equal(o.list.n, 2);
    assert_string_equal(o.list.items[1], "b");
    assert_string_equal(argv[0], "-");
    assert_int_equal(o.number, 5);
}

TEST(reads_seeds)
{
    options o;
    char *argv[MAX_ARGS];
    int32_t n_args;
    assert_int_equal(parse((const char *const[]){"--seed", "18446744073709551615", NULL}, &o, argv, &n_args),
                     CLI_GO_ON);
    assert_true(o.seed.given && o.seed.value == UINT64_MAX);
    assert_int_equal(parse((const char *const[]){"--seed", "-1", NULL}, &o, argv, &n_args), CLI_GO_ON);
    assert_false(o.seed.given);
    assert_int_equal(code_of("--seed", "-2"), CLI_USAGE);
    assert_int_equal(code_of("--seed", "18446744073709551616"), CLI_USAGE);
}

TEST(refuses)
{
    assert_int_equal(code_of("--number", "11"), CLI_USAGE);
    assert_int_equal(code_of("--number", "1x"), CLI_USAGE);
    assert_int_equal(code_of("--number", "99999999999999999999"), CLI_USAGE);
    assert_int_equal(code_of("--number", ""), CLI_USAGE);
    assert_int_equal(code_of("--fraction", "nan"), CLI_USAGE);
    assert_int_equal(code_of("--fraction", "1.5"), CLI_USAGE);
    assert_int_equal(code_of("--choice", "blue"), CLI_USAGE);
    assert_int_equal(code_of("--flag=1", NULL), CLI_USAGE);
    assert_int_equal(code_of("-fx", NULL), CLI_USAGE);
    assert_int_equal(code_of("--text", NULL), CLI_USAGE);
    assert_int_equal(code_of("--colour", NULL), CLI_USAGE);
    assert_int_equal(code_of("one", "two"), CLI_USAGE);
}

TEST(reads_the_environment)
{
    options o;
    char *argv[MAX_ARGS];
    int32_t n_args;
    assert_int_equal(setenv("CLEF_TEST_CLI_TEXT", "from outside", 1), 0);
    assert_int_equal(parse((const char *const[]){NULL}, &o, argv, &n_args), CLI_GO_ON);
    assert_string_equal(o.text, "from outside");
    assert_int_equal(parse((const char *const[]){"-t", "from here", NULL}, &o, argv, &n_args), CLI_GO_ON);
    assert_string_equal(o.text, "from here");
    unsetenv("CLEF_TEST_CLI_TEXT");
}

TEST(suggests)
{
    char near_name[64];
    assert_string_equal(cli_nearest("txet", &table->names, sizeof *table, near_name), "text");
    assert_string_equal(cli_nearest("wrods", &table->names, sizeof *table, near_name), "words");
    assert_string_equal(cli_nearest("fractoin", &table->names, sizeof *table, near_name), "fraction");
    assert_null(cli_nearest("something", &table->names, sizeof *table, near_name));
    assert_null(cli_nearest("x", &table->names, sizeof *table, near_name));
}

TEST(escapes_json)
{
    static const struct {
        const char *text, *json;
    } cases[] = {
        {"plain", "\"plain\""},
        {"a \"b\" \\ c\n\t\x01", "\"a \\\"b\\\" \\\\ c\\n\\t\\u0001\""},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\""},
        {"\xff \xc3", "\"\\ufffd \\ufffd\""},
        {"\xc0\x80 \xed\xa0\x80", "\"\\ufffd\\ufffd \\ufffd\\ufffd\\ufffd\""}, /* overlong; a surrogate */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char got[128] = "";
        FILE *file = tmpfile();
        assert_non_null(file);
        cli_json_string(file, cases[i].text);
        rewind(file);
        got[fread(got, 1, sizeof got - 1, file)] = 0;
        fclose(file);
        assert_string_equal(got, cases[i].json);
    }
}

TESTS(NULL, NULL)

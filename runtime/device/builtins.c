/* Declarations of OpenCL C's built-in functions.
 *
 * PoCL reads clang's opencl-c.h before each program: 16,000 lines with all built-in functions, and reading
 * them takes longer than compiling most kernels. -D _OPENCL_H_, its own guard, leaves it out. A program then
 * begins with declarations of the functions that it uses (runtime/device/builtins.def). On PoCL, a function
 * without a row there shows as "use of undeclared identifier". */
#include "runtime/device/program_text.h"

#include <stdlib.h>
#include <string.h>

#include "graph/hash.h"

/* Bits of the columns of builtins.def. A width is its own bit. */
enum {
    CHAR = 1,
    UCHAR = 2,
    SHORT = 4,
    USHORT = 8,
    INT = 16,
    UINT = 32,
    LONG = 64,
    ULONG = 128,
    FLOAT = 256,
    INTEGERS = INT | UINT | LONG | ULONG,
    ALL_TYPES = CHAR | UCHAR | SHORT | USHORT | INTEGERS | FLOAT,
    VECTORS = 2 | 4 | 8 | 16,
    ALL_WIDTHS = 1 | VECTORS,
    GLOBAL = 1,
    LOCAL = 2,
    PRIVATE = 4,
    ALL_SPACES = GLOBAL | LOCAL | PRIVATE,
};
enum { N_TYPES = 9, N_SPACES = 3, MAX_NAME = 64, N_WORDS = 1 << 15 };

static const char *const types[N_TYPES] = {"char", "uchar", "short", "ushort", "int",
                                           "uint", "long",  "ulong", "float"};
static const char *const spaces[N_SPACES] = {"global", "local", "private"};

#define PURE "__attribute__((overloadable, const)) " /* of its arguments alone */
#define READING "__attribute__((overloadable, pure)) "
#define WRITING "__attribute__((overloadable)) "
#define JOINT "__attribute__((overloadable, convergent)) "
#define DEFINED "static inline __attribute__((overloadable)) " /* the pattern has the body */

typedef struct builtin {
    const char *attribute, *name, *declaration;
    int types, widths, spaces;
} builtin;
static const builtin builtins[] = {
#define BUILTIN(attribute, name, declaration, types, widths, spaces)                                         \
    {attribute, name, declaration, types, widths, spaces},
#include "runtime/device/builtins.def"
#undef BUILTIN
};

/* ---- the words of a program ------------------------------------------------------------------ */

static int is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int is_in_word(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9');
}

/* The place of a word in a table, or of the free entry for it; -1 when the table is full. */
static int place_of(const uint64_t *words, uint64_t hash)
{
    int at = (int)(hash % N_WORDS);
    for (int i = 0; i < N_WORDS; i++, at = (at + 1) % N_WORDS)
        if (!words[at] || words[at] == hash)
            return at;
    return -1;
}

static void note_words(uint64_t *words, const char *text, size_t n_bytes)
{
    for (size_t at = 0; at < n_bytes;) {
        const size_t start = at;
        while (at < n_bytes && is_in_word(text[at]))
            at++;
        if (at > start && is_letter(text[start])) {
            const uint64_t hash = clef__hash(CLEF__HASH_START, text + start, at - start);
            const int place = place_of(words, hash);
            if (place >= 0)
                words[place] = hash;
        }
        at += at == start;
    }
}

static int has_word(const uint64_t *words, const char *word)
{
    const uint64_t hash = clef__hash(CLEF__HASH_START, word, strlen(word));
    const int place = place_of(words, hash);
    return place < 0 || words[place] == hash; /* a full table may have lost it */
}

/* What a program mentions: its words, and the types and address spaces that are part of one. */
typedef struct mentions {
    uint64_t words[N_WORDS];
    int types, spaces;
} mentions;

static void note_all(mentions *m, const char *source, size_t n_bytes)
{
    note_words(m->words, source, n_bytes);
    for (int i = 0; i < N_TYPES; i++)
        m->types |= (strstr(source, types[i]) != NULL) << i;
    for (int i = 0; i < N_SPACES; i++)
        m->spaces |= (1 << i == PRIVATE || has_word(m->words, spaces[i])) << i; /* the default is private */
}

/* ---- declarations ---------------------------------------------------------------------------- */

/* A text that grows: first it is only measured. */
typedef struct text {
    char *at;
    size_t n;
} text;

static void add(text *to, const char *what)
{
    const size_t n = strlen(what);
    if (to->at)
        memcpy(to->at + to->n, what, n);
    to->n += n;
}

/* One form of a function: its type (-1: it has none), width and address space. */
typedef struct form {
    int type, width, space;
} form;

/* Adds what stands for a capital letter or "@" of a pattern. */
static void add_letter(text *to, char c, form f)
{
    const char *width = f.width == 1   ? ""
                        : f.width == 2 ? "2"
                        : f.width == 4 ? "4"
                        : f.width == 8 ? "8"
                                       : "16";
    const char *type = f.type < 0 ? "" : types[f.type];
    const int is_signed = f.type >= 0 && f.type % 2 == 0 && 1 << f.type != FLOAT;
    if (c == 'U' && is_signed)
        add(to, "u");
    if (c == 'M' || c == 'W')
        type = c == 'M' ? "int" : "uint";
    if (c == 'Q' || c == '@')
        type = c == 'Q' ? spaces[f.space] : "";
    add(to, type);
    if (c != 'S' && c != 'Q')
        add(to, width);
}

static void expand(text *to, const char *pattern, form f)
{
    for (; *pattern; pattern++) {
        const char one[2] = {*pattern, 0};
        if (*pattern == '@' || (*pattern >= 'A' && *pattern <= 'Z'))
            add_letter(to, *pattern, f);
        else
            add(to, one);
    }
}

/* Names that a program joins by ## are not among its words. Only those of conversions are. */
static int is_used(const builtin *b, int width, const mentions *m)
{
    static const char joined[] = "convert_";
    char name[MAX_NAME] = "";
    text t = {.at = name};
    expand(&t, b->name, (form){-1, width, 0});
    return has_word(m->words, name) ||
           (strncmp(b->name, joined, sizeof joined - 1) == 0 && has_word(m->words, joined));
}

static void add_spaces(text *to, const builtin *b, int type, int width, const mentions *m)
{
    for (int i = 0; i < N_SPACES; i++)
        if (b->spaces ? b->spaces & m->spaces & 1 << i : !i) {
            add(to, b->attribute);
            expand(to, b->declaration, (form){type, width, i});
            add(to, strchr(b->declaration, '{') ? "\n" : ";\n");
        }
}

static void add_width(text *to, const builtin *b, int width, const mentions *m)
{
    if (!(b->widths & width) || !is_used(b, width, m))
        return;
    if (!b->types)
        add_spaces(to, b, -1, width, m);
    for (int i = 0; i < N_TYPES; i++)
        if (b->types & m->types & 1 << i)
            add_spaces(to, b, i, width, m);
}

static void add_all(text *to, const mentions *m)
{
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
        for (int width = 1; width <= 16; width *= 2)
            add_width(to, builtins + i, width, m);
}

uint64_t clef__builtins_hash(void)
{
    uint64_t hash = CLEF__HASH_START;
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++) {
        const builtin *b = &builtins[i];
        const int numbers[] = {b->types, b->widths, b->spaces};
        hash = clef__hash(hash, b->attribute, strlen(b->attribute) + 1);
        hash = clef__hash(hash, b->name, strlen(b->name) + 1);
        hash = clef__hash(hash, b->declaration, strlen(b->declaration) + 1);
        hash = clef__hash(hash, numbers, sizeof numbers);
    }
    return hash;
}

clef_status clef__builtins_declare(const char *source, char **out, size_t *n_bytes, clef_error *err)
{
    text t = {0};
    mentions *m = calloc(1, sizeof *m);
    if (m) {
        note_all(m, source, strlen(source));
        add_all(&t, m);
        t.at = malloc(t.n + 1);
        t.n = 0;
    }
    if (t.at) {
        add_all(&t, m);
        t.at[t.n] = 0;
    }
    free(m);
    *out = t.at;
    *n_bytes = t.n;
    return *out ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "no memory for the declarations of a program");
}

/* The tuning database as text: <cache_dir>/tuning/KEY.txt, where KEY is a hash of the device, its driver and
 * the kernels' sources (tune_db.c).
 *
 *   clef-tuning 1
 *   # NAME; DRIVER
 *   SUM measured OP DTYPE N K ROWS FORM VARIANT NS ERROR [TUNABLE=VALUE ..]
 *   SUM failed   OP DTYPE N K ROWS FORM VARIANT NS ERROR
 *   SUM passed   OP DTYPE N K ROWS FORM VARIANT NS ERROR
 *   SUM clblast-speed MFLOPS_BEFORE MFLOPS_AFTER
 *   SUM clblast KERNEL [PARAMETER=VALUE ..]
 *
 * SUM: FNV-1a (32 bits, hexadecimal) of the rest of its line. ROWS: one, few, many. NS: nanoseconds of a
 * product. ERROR: error of the check, in millionths of the allowed error. Lines of another form are skipped,
 * and lost when the file is written next. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/tune/tune.h"

enum { MAX_LINE = 512, MAX_WORDS = 32, FIXED_WORDS = 10 };

static const char head[] = "clef-tuning 1";
static const char *const states[] = {"measured", "failed", "passed"};
static const char *const classes[] = {"one", "few", "many"};

static uint32_t sum_of(const char *text, size_t n)
{
    uint32_t sum = 2166136261u;
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ (unsigned char)text[i]) * 16777619u;
    return sum;
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct out_text {
    char *text;
    size_t n, cap;
    int failed;
} out_text;

static void add(out_text *o, const char *text)
{
    const size_t n = strlen(text);
    if (o->failed)
        return;
    if (o->cap - o->n <= n) {
        const size_t cap = 2 * (o->n + n) + 1024;
        char *grown = realloc(o->text, cap);
        if (!grown) {
            o->failed = 1;
            return;
        }
        o->text = grown;
        o->cap = cap;
    }
    memcpy(o->text + o->n, text, n + 1);
    o->n += n;
}

static void add_line(out_text *o, const char *line)
{
    char sum[16];
    snprintf(sum, sizeof sum, "%08" PRIx32 " ", sum_of(line, strlen(line)));
    add(o, sum);
    add(o, line);
    add(o, "\n");
}

static int append_text(char *line, int at, const char *name, int32_t value)
{
    const int n = snprintf(line + at, (size_t)(MAX_LINE - at), " %s=%" PRId32, name, value);
    return n > 0 && n < MAX_LINE - at ? at + n : at;
}

static void add_result(out_text *o, const clef_tune_result *r)
{
    char line[MAX_LINE];
    const clef_variant *v = clef__variant_row(r->row, NULL);
    int at =
        snprintf(line, sizeof line, "%s %s %s %" PRId32 " %" PRId32 " %s %" PRId32 " %s %" PRId64 " %" PRId64,
                 states[r->state], clef__ops[r->key.op]->name, clef_dtype_name((clef_dtype)r->key.dtype),
                 r->key.n, r->key.k, classes[r->key.rows], r->key.form, v->name, r->ns, r->error_ppm);
    for (int i = 0; i < CLEF_MAX_TUNABLES && v->tunables[i].name; i++)
        if (r->values[i])
            at = append_text(line, at, v->tunables[i].name, r->values[i]);
    add_line(o, line);
}

static void add_clblast(out_text *o, const clef_clblast_tuning *t)
{
    char line[MAX_LINE];
    if (!t->mflops_before)
        return;
    snprintf(line, sizeof line, "clblast-speed %" PRId64 " %" PRId64, t->mflops_before, t->mflops_after);
    add_line(o, line);
    for (int i = 0; i < CLEF_MAX_CLBLAST_KERNELS && t->kernels[i].name[0]; i++) {
        const clef_clblast_kernel *k = &t->kernels[i];
        int at = snprintf(line, sizeof line, "clblast %s", k->name);
        for (int32_t p = 0; p < k->n; p++)
            at = append_text(line, at, k->names[p], k->values[p]);
        add_line(o, line);
    }
}

char *clef__tune_print(const clef_tune_db *db, const clef_device_info *device)
{
    out_text o = {0};
    add(&o, head);
    add(&o, "\n# ");
    add(&o, device->name);
    add(&o, "; ");
    add(&o, device->driver);
    add(&o, "\n");
    for (int32_t i = 0; i < db->n; i++)
        add_result(&o, &db->results[i]);
    add_clblast(&o, &db->clblast);
    if (o.failed) {
        free(o.text);
        return NULL;
    }
    return o.text;
}

/* ---- reading: everything in the file is checked -------------------------------------------- */

/* Splits the line at its blanks, in place. Returns the number of words, -1 if there are too many. */
static int split_words(char *line, char *words[MAX_WORDS])
{
    int n = 0;
    for (char *p = line; *p;) {
        if (n == MAX_WORDS)
            return -1;
        words[n++] = p;
        p += strcspn(p, " ");
        if (*p)
            *p++ = 0;
    }
    return n;
}

/* Parses an integer from low to high. */
static int parse_number(const char *word, int64_t low, int64_t high, int64_t *out)
{
    char *end;
    errno = 0;
    const long long x = strtoll(word, &end, 10);
    if (end == word || *end || errno || x < low || x > high)
        return 0;
    *out = x;
    return 1;
}

static int number32(const char *word, int32_t low, int32_t *out)
{
    int64_t x;
    if (!parse_number(word, low, INT32_MAX, &x))
        return 0;
    *out = (int32_t)x;
    return 1;
}

static int32_t find_name(const char *word, const char *const *list, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (strcmp(list[i], word) == 0)
            return i;
    return -1;
}

static int32_t find_dtype(const char *name)
{
    for (int32_t i = 0; i < (int32_t)CLEF_N_DTYPES; i++)
        if (strcmp(clef_dtype_name((clef_dtype)i), name) == 0)
            return i;
    return -1;
}

static int32_t find_row(const char *op, const char *name)
{
    clef_op of;
    for (int32_t i = 0; i < CLEF_N_VARIANTS; i++)
        if (strcmp(clef__variant_row(i, &of)->name, name) == 0 && strcmp(clef__ops[of]->name, op) == 0)
            return i;
    return -1;
}

/* Parses "NAME=VALUE" with VALUE >= 0, and replaces the sign by a NUL. */
static int parse_assignment(char *word, int32_t *value)
{
    char *sign = strchr(word, '=');
    if (!sign || !number32(sign + 1, 0, value))
        return 0;
    *sign = 0;
    return 1;
}

static int read_tunable(const clef_variant *v, char *word, int32_t values[CLEF_MAX_TUNABLES])
{
    int32_t value;
    if (!parse_assignment(word, &value))
        return 0;
    for (int i = 0; i < CLEF_MAX_TUNABLES && v->tunables[i].name; i++)
        for (int k = 0; k < CLEF_MAX_TUNABLE_VALUES && v->tunables[i].values[k]; k++)
            if (strcmp(v->tunables[i].name, word) == 0 && v->tunables[i].values[k] == value) {
                values[i] = value;
                return 1;
            }
    return 0;
}

static int read_result(char **words, int n, clef_tune_result *r)
{
    clef_op op = CLEF_OP_NONE;
    *r = (clef_tune_result){0};
    if (n < FIXED_WORDS)
        return 0;
    const int32_t state = find_name(words[0], states, 3),
                  class_of_rows = find_name(words[5], classes, CLEF_N_ROWS);
    r->row = find_row(words[1], words[7]);
    r->key.dtype = find_dtype(words[2]);
    if (state < 0 || class_of_rows < 0 || r->row < 0 || r->key.dtype < 0 ||
        !number32(words[3], 1, &r->key.n) || !number32(words[4], 1, &r->key.k) ||
        !number32(words[6], 0, &r->key.form) || !parse_number(words[8], 0, INT64_MAX, &r->ns) ||
        !parse_number(words[9], 0, INT64_MAX, &r->error_ppm))
        return 0;
    const clef_variant *v = clef__variant_row(r->row, &op);
    r->key.op = (int32_t)op;
    r->key.rows = class_of_rows;
    r->state = (clef_tune_state)state;
    for (int i = FIXED_WORDS; i < n; i++)
        if (!read_tunable(v, words[i], r->values))
            return 0;
    return r->state != CLEF_TUNE_MEASURED || r->ns > 0;
}

static int read_clblast_kernel(clef_clblast_tuning *t, char **words, int n)
{
    clef_clblast_kernel k = {.n = n - 2};
    int at = 0;
    while (at < CLEF_MAX_CLBLAST_KERNELS && t->kernels[at].name[0])
        at++;
    if (at == CLEF_MAX_CLBLAST_KERNELS || n < 3 || k.n > CLEF_MAX_CLBLAST_PARAMS ||
        strlen(words[1]) >= sizeof k.name)
        return 0;
    strcpy(k.name, words[1]);
    for (int32_t i = 0; i < k.n; i++) {
        if (!parse_assignment(words[i + 2], &k.values[i]) || strlen(words[i + 2]) >= sizeof k.names[i])
            return 0;
        strcpy(k.names[i], words[i + 2]);
    }
    t->kernels[at] = k;
    return 1;
}

static int read_clblast(clef_clblast_tuning *t, char **words, int n)
{
    if (strcmp(words[0], "clblast") == 0)
        return read_clblast_kernel(t, words, n);
    return n == 3 && parse_number(words[1], 1, INT64_MAX, &t->mflops_before) &&
           parse_number(words[2], 1, INT64_MAX, &t->mflops_after);
}

/* Returns 1 when the line is valid. */
static int read_line(clef_tune_db *db, clef_clblast_tuning *clblast, const char *from, size_t n,
                     clef_status *status, clef_error *err)
{
    char line[MAX_LINE], sum[16], *words[MAX_WORDS];
    if (n < 10 || n >= sizeof line)
        return 0;
    memcpy(line, from, n);
    line[n] = 0;
    snprintf(sum, sizeof sum, "%08" PRIx32 " ", sum_of(line + 9, n - 9));
    if (memcmp(line, sum, 9) != 0)
        return 0;
    const int n_words = split_words(line + 9, words);
    clef_tune_result r;
    if (n_words > 0 && strncmp(words[0], "clblast", 7) == 0)
        return read_clblast(clblast, words, n_words);
    if (n_words < 0 || !read_result(words, n_words, &r))
        return 0;
    if (!clef__tune_db_find(db, &r.key, r.row))
        *status = clef__tune_db_put(db, &r, err);
    return 1;
}

clef_status clef__tune_parse(clef_tune_db *db, const char *text, clef_error *err)
{
    clef_status s = CLEF_OK;
    clef_clblast_tuning clblast = {0};
    const size_t first = strcspn(text, "\n");
    if (first != sizeof head - 1 || memcmp(text, head, first) != 0) {
        db->n_damaged += *text != 0;
        return CLEF_OK;
    }
    for (const char *p = text + first; *p && !s;) {
        p += *p == '\n';
        const size_t n = strcspn(p, "\n");
        if (n && *p != '#')
            db->n_damaged += !read_line(db, &clblast, p, n, &s, err);
        p += n;
    }
    if (!db->clblast.mflops_before && clblast.mflops_before)
        db->clblast = clblast;
    return s;
}

/* ---- for users --------------------------------------------------------------------------------- */

void clef__tune_key_text(const clef_tune_key *key, char out[CLEF_TUNE_KEY_BYTES])
{
    clef__ops[key->op]->tune->describe(key, out, CLEF_TUNE_KEY_BYTES);
}

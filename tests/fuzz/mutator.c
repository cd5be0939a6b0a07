/* Mutations of JSON (tests/fuzz/mutator.h). */
#include "tests/fuzz/mutator.h"

#include <jansson.h>
#include <string.h>

static const char values[] =
    "[null, true, false, 0, 1, -1, 2, 3, 7, 16, 32, 64, 4096, 65536, 16777216, 2147483647, 2147483648, "
    "-2147483648, 4294967296, 9223372036854775807, -0.0, 0.5, 1e-320, 1e308, \"\", \"0\", "
    "\"\\u00e9\\u0001\", [], "
    "[0, 1], [[]], {}, {\"a\": [1, \"b\", null]}]";

static unsigned next(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Where a value is: in `of`, by key or by index. */
typedef struct place {
    json_t *of;
    const char *key;
    size_t index;
} place;

/* One of all places within a value, each as likely as the others. */
static void choose(json_t *within, unsigned *state, unsigned *n, place *out)
{
    const char *key;
    json_t *value;
    size_t i;
    json_object_foreach(within, key, value) {
        if (next(state) % ++*n == 0)
            *out = (place){within, key, 0};
        choose(value, state, n, out);
    }
    json_array_foreach(within, i, value) {
        if (next(state) % ++*n == 0)
            *out = (place){within, NULL, i};
        choose(value, state, n, out);
    }
}

static json_t *value_at(const place *p)
{
    return p->key ? json_object_get(p->of, p->key) : json_array_get(p->of, p->index);
}

static void set(const place *p, json_t *value)
{
    if (p->key)
        json_object_set_new(p->of, p->key, value);
    else
        json_array_set_new(p->of, p->index, value);
}

static json_t *parse(const uint8_t *data, size_t n_bytes)
{
    return json_loadb((const char *)data, n_bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
}

/* A value near this one: another number, or another text. */
static json_t *near(const json_t *value, unsigned *state)
{
    if (json_is_integer(value)) {
        const uint64_t i = (uint64_t)json_integer_value(value);
        const uint64_t all[] = {i + 1, i - 1, i * 2, i / 2, 0 - i, i * 3, i + 7, i << 16};
        return json_integer((json_int_t)all[next(state) % 8]);
    }
    if (json_is_real(value))
        return json_real(json_real_value(value) * (next(state) % 2 ? 2 : -0.5));
    if (json_is_boolean(value))
        return json_boolean(!json_is_true(value));
    char text[256];
    size_t n = json_string_length(value);
    if (!json_is_string(value) || n >= sizeof text)
        return NULL;
    memcpy(text, json_string_value(value), n);
    n = LLVMFuzzerMutate((uint8_t *)text, n, sizeof text);
    return json_stringn(text, n);
}

static json_t *any_value(unsigned *state)
{
    static json_t *all;
    if (!all)
        all = json_loads(values, 0, NULL);
    return json_deep_copy(json_array_get(all, next(state) % json_array_size(all)));
}

static void change(json_t *root, unsigned *state)
{
    place p = {NULL, NULL, 0}, from = p;
    unsigned n = 0;
    choose(root, state, &n, &p);
    n = 0;
    choose(root, state, &n, &from);
    if (!p.of)
        return;
    json_t *value = NULL;
    switch (next(state) % 8) {
    case 0:
        if (p.key)
            json_object_del(p.of, p.key);
        else
            json_array_remove(p.of, p.index);
        return;
    case 1: /* a copy of another place */
        value = json_deep_copy(value_at(&from));
        break;
    case 2: /* one more */
        if (!p.key)
            json_array_append_new(p.of, json_deep_copy(value_at(&from)));
        else if (from.key)
            json_object_set_new(p.of, from.key, json_deep_copy(value_at(&from)));
        return;
    case 3:
    case 4:
    case 5:
        value = near(value_at(&p), state);
        break;
    default:
        break;
    }
    set(&p, value ? value : any_value(state));
}

/* Writes a value; 0 where it has no room. */
static size_t dump(json_t *root, uint8_t *out, size_t most)
{
    const size_t n = json_dumpb(root, (char *)out, most, JSON_ENCODE_ANY | JSON_COMPACT);
    json_decref(root);
    return n <= most ? n : 0;
}

size_t mutate_json(uint8_t *data, size_t n_bytes, size_t most, unsigned seed)
{
    json_t *root = seed % 16 ? parse(data, n_bytes) : NULL;
    unsigned state = seed;
    if (!root)
        return LLVMFuzzerMutate(data, n_bytes, most);
    for (unsigned i = 0; i <= seed / 16 % 3; i++)
        change(root, &state);
    const size_t n = dump(root, data, most);
    return n ? n : LLVMFuzzerMutate(data, 0, most);
}

size_t cross_json(const uint8_t *data, size_t n_bytes, const uint8_t *other, size_t n_other, uint8_t *out,
                  size_t most, unsigned seed)
{
    json_t *a = parse(data, n_bytes), *b = parse(other, n_other);
    unsigned state = seed, n = 0;
    place to = {NULL, NULL, 0}, from = to;
    choose(a, &state, &n, &to);
    n = 0;
    choose(b, &state, &n, &from);
    size_t n_out = 0;
    if (to.of && from.of) {
        json_t *value = json_deep_copy(value_at(&from));
        if (to.key && from.key)
            json_object_set_new(to.of, from.key, value);
        else
            set(&to, value);
        n_out = dump(json_incref(a), out, most);
    }
    json_decref(a);
    json_decref(b);
    return n_out;
}

/* Functions that templates may call: Jinja's, and those of transformers. */
#include <string.h>
#include <time.h>

#include "text/template/engine.h"

static clef__value g_range(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("range()", "/ start stop step");
    (void)self;
    const int has_start = args->n > 1;
    const int64_t from = has_start ? clef__int_arg(t, a[0], 0, "range()") : 0,
                  to = clef__int_arg(t, has_start ? a[1] : a[0], 0, "range()"),
                  step = clef__int_arg(t, a[2], 1, "range()");
    for (int32_t i = 0; i < args->n; i++)
        if (a[i].kind != CLEF__INT && a[i].kind != CLEF__BOOL)
            return clef__tpl_fail(t, CLEF_E_FORMAT, "range(): expected an integer, got '%s'",
                                  clef__kind_name(a[i]));
    if (args->n == 0 || step == 0)
        return clef__tpl_fail(t, CLEF_E_FORMAT,
                              args->n ? "range(): the step is 0" : "range(): expected an argument");
    return t->status ? clef__undefined : clef__range(t, from, to, step);
}

/* What is given by name, and by dicts, in a new dict or namespace. */
static clef__value make_dict(clef__tpl *t, clef__kind kind, const clef__args *args)
{
    clef__value out = clef__dict_new(t, kind);
    if (args->n > 1)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "dict(): expected one argument at most, got %d",
                              (int)args->n);
    if (args->n && args->at[0].kind == CLEF__UNDEFINED)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "dict(): the value is undefined");
    for (int32_t i = 0; i < args->n && !t->status; i++) {
        if (args->at[i].kind == CLEF__DICT) {
            for (size_t k = 0; k < args->at[i].d->n && !t->status; k++)
                clef__dict_set(t, out.d, args->at[i].d->keys[k], args->at[i].d->values[k]);
            continue;
        }
        const clef__list *pairs = clef__items(t, args->at[i]);
        for (size_t k = 0; pairs && k < pairs->n && !t->status; k++) {
            const clef__list *pair = clef__items(t, pairs->at[k]);
            if (pair && pair->n == 2 && clef__is_hashable(t, pair->at[0]))
                clef__dict_set(t, out.d, pair->at[0], pair->at[1]);
            else
                clef__tpl_fail(t, CLEF_E_FORMAT, "dict(): expected pairs of key and value");
        }
    }
    for (int32_t i = 0; i < args->n_named && !t->status; i++)
        clef__dict_set(t, out.d, clef__str_value(args->names[i]), args->named[i]);
    return out;
}

static clef__value g_dict(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)self;
    return make_dict(t, CLEF__DICT, args);
}

static clef__value g_namespace(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)self;
    return make_dict(t, CLEF__NAMESPACE, args);
}

static clef__value g_raise(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("raise_exception()", "message");
    (void)self;
    const clef__str *message = clef__to_str(t, a[0]);
    return clef__tpl_fail(t, CLEF_E_FORMAT, "the template refuses: %.*s",
                          message->n > 400 ? 400 : (int)message->n, message->p);
}

/* The parts of a time, by counting days (the calendar repeats every 400 years, which are 146,097 days). */
static struct tm date_parts(int64_t seconds)
{
    static const int before[] = {0, 31, 61, 92, 122, 153, 184, 214, 245, 275, 306, 337}; /* from March on */
    const int64_t day = (seconds >= 0 ? seconds : seconds - 86399) / 86400, rest = seconds - day * 86400,
                  z = day + 719468, era = (z >= 0 ? z : z - 146096) / 146097, of_era = z - era * 146097,
                  year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365,
                  of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int month = 11;
    while (before[month] > of_year)
        month--;
    const int after_new_year = month >= 10; /* January and February end this count of the year */
    const int64_t year = year_of_era + era * 400 + after_new_year;
    const int is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return (struct tm){.tm_sec = (int)(rest % 60),
                       .tm_min = (int)(rest / 60 % 60),
                       .tm_hour = (int)(rest / 3600),
                       .tm_mday = (int)of_year - before[month] + 1,
                       .tm_mon = (month + 2) % 12,
                       .tm_year = (int)year - 1900,
                       .tm_wday = (int)(((day + 4) % 7 + 7) % 7),
                       .tm_yday = after_new_year ? (int)of_year - 306 : (int)of_year + 59 + is_leap};
}

static clef__value g_strftime_now(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("strftime_now()", "format");
    (void)self;
    if (a[0].kind != CLEF__STRING)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "strftime_now(): expected a format, got '%s'",
                              clef__kind_name(a[0]));
    const clef__str *format = a[0].s;
    char copy[256], text[1024];
    const struct tm parts = date_parts(t->date);
    if (format->n >= sizeof copy - 1)
        return clef__tpl_fail(t, CLEF_E_LIMIT, "strftime_now(): a format of %zu bytes", format->n);
    memcpy(copy, format->p, format->n);
    memcpy(copy + format->n, ".", 2); /* so that an empty result differs from one that does not fit */
    const size_t n = strftime(text, sizeof text, copy, &parts);
    if (n == 0)
        return clef__tpl_fail(t, CLEF_E_LIMIT, "strftime_now(): the date does not fit %zu bytes",
                              sizeof text);
    char *kept = clef__tpl_alloc(t, n);
    if (!kept)
        return clef__undefined;
    memcpy(kept, text, n - 1);
    return clef__text_value(t, kept, n - 1, 0);
}

static clef__value g_lipsum(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)self, (void)args;
    return clef__tpl_fail(t, CLEF_E_UNSUPPORTED, "lipsum() is not supported");
}

static clef__value g_joiner(clef__tpl *t, clef__value self, const clef__args *args)
{
    ARGS("joiner()", "sep");
    (void)self;
    clef__value out = clef__list_new(t, CLEF__JOINER, 2);
    if (t->status)
        return out;
    clef__list_add(t, out.l, a[0].kind == CLEF__UNDEFINED ? clef__string(t, ", ") : a[0]);
    clef__list_add(t, out.l, clef__int(0)); /* 1 when it was called before */
    return out;
}

static clef__value g_cycler(clef__tpl *t, clef__value self, const clef__args *args)
{
    (void)self;
    clef__value out = clef__list_new(t, CLEF__CYCLER, (size_t)args->n + 1);
    if (args->n == 0)
        return clef__tpl_fail(t, CLEF_E_FORMAT, "cycler(): expected a value");
    clef__list_add(t, out.l, clef__int(0)); /* the number of the value that comes next */
    for (int32_t i = 0; i < args->n && !t->status; i++)
        clef__list_add(t, out.l, args->at[i]);
    return out;
}

void clef__define_globals(clef__tpl *t)
{
    static const struct {
        const char *name;
        clef__builtin *call;
    } globals[] = {
        {"range", g_range},
        {"dict", g_dict},
        {"namespace", g_namespace},
        {"raise_exception", g_raise},
        {"joiner", g_joiner},
        {"cycler", g_cycler},
        {"strftime_now", g_strftime_now},
        {"lipsum", g_lipsum},
    };
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++) {
        clef__func *fn = clef__tpl_alloc(t, sizeof *fn);
        if (!fn)
            return;
        *fn = (clef__func){.name = globals[i].name, .call = globals[i].call};
        clef__scope_set(t, t->globals, clef__str_of(t, globals[i].name, strlen(globals[i].name), 0),
                        (clef__value){.kind = CLEF__FUNCTION, .fn = fn});
    }
}

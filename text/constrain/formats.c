/* The texts of `format`, after the RFCs that JSON Schema names (2020-12 validation, section 7.3). */
#include <string.h>

#include "text/constrain/nfa.h"
#include "text/constrain/schema.h"

/* RFC 3339: days that exist, no leap seconds, no year 0000 */
#define YEAR "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define LEAP "(0[48]|[2468][048]|[13579][26])"
#define DATE                                                                                                 \
    "(" YEAR "-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"                \
    "02-(0[1-9]|1[0-9]|2[0-8]))|([0-9][0-9]" LEAP "|" LEAP "00)-02-29)"
#define TIME "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"

/* RFC 3339, appendix A */
#define CLOCK "T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S)"
#define DAYS "([0-9]+Y([0-9]+M([0-9]+D)?)?|[0-9]+M([0-9]+D)?|[0-9]+D)"

/* RFC 1123; the whole has 253 characters at most because of the numbers of labels */
#define LABEL(n) "[A-Za-z0-9]([A-Za-z0-9-]{0," n "}[A-Za-z0-9])?"
#define HOST "(" LABEL("61") "(\\." LABEL("61") "){0,2}|" LABEL("28") "(\\." LABEL("28") "){3,7})"

#define ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"

/* RFC 2673 and RFC 4291 */
#define BYTE "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define IPV4 BYTE "(\\." BYTE "){3}"
#define H16 "[0-9A-Fa-f]{1,4}"
#define LS32 "(" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                                 \
    "((" H16 ":){6}" LS32 "|::(" H16 ":){5}" LS32 "|(" H16 ")?::(" H16 ":){4}" LS32 "|((" H16 ":){0,1}" H16  \
    ")?::(" H16 ":){3}" LS32 "|((" H16 ":){0,2}" H16 ")?::(" H16 ":){2}" LS32 "|((" H16 ":){0,3}" H16        \
    ")?::" H16 ":" LS32 "|((" H16 ":){0,4}" H16 ")?::" LS32 "|((" H16 ":){0,5}" H16 ")?::" H16 "|((" H16     \
    ":){0,6}" H16 ")?::)"

/* RFC 3986 */
#define PCT "%[0-9A-Fa-f]{2}"
#define PLAIN "A-Za-z0-9._~!$&'()*+,;=\\-"
#define PCHAR "([" PLAIN ":@]|" PCT ")"
#define AUTHORITY                                                                                            \
    "//(([" PLAIN ":]|" PCT ")*@)?(\\[" IPV6 "\\]|([" PLAIN "]|" PCT ")*)(:[0-9]*)?(/" PCHAR "*)*"
#define AFTER_PATH "(\\?(" PCHAR "|[/?])*)?(#(" PCHAR "|[/?])*)?"
#define URI                                                                                                  \
    "[A-Za-z][A-Za-z0-9+.-]*:(" AUTHORITY "|/(" PCHAR "+(/" PCHAR "*)*)?|" PCHAR "+(/" PCHAR                 \
    "*)*|)" AFTER_PATH
#define RELATIVE                                                                                             \
    "(" AUTHORITY "|/(" PCHAR "+(/" PCHAR "*)*)?|([" PLAIN "@]|" PCT ")+(/" PCHAR "*)*|)" AFTER_PATH

/* RFC 6901 */
#define POINTER "(/([^/~]|~[01])*)*"

/* pattern NULL: known, and not followed */
static const struct {
    const char *name, *pattern, *except; /* except: NULL, or what is found in no text of the format */
} formats[] = {
    {"date-time", DATE "[Tt]" TIME, NULL},
    {"time", TIME, NULL},
    {"date", DATE, NULL},
    {"duration", "P([0-9]+W|" DAYS "(" CLOCK ")?|" CLOCK ")", NULL},
    {"email", ATOM "(\\." ATOM ")*@" HOST, "@(.*\\.)?..--"},
    {"hostname", HOST, "^(.*\\.)?..--"}, /* RFC 5891: such labels are encoded ones */
    {"ipv4", IPV4, NULL},
    {"ipv6", IPV6, NULL},
    {"uuid", "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", NULL},
    {"uri", URI, NULL},
    {"uri-reference", URI "|" RELATIVE, NULL},
    {"json-pointer", POINTER, NULL},
    {"relative-json-pointer", "(0|[1-9][0-9]*)(#|" POINTER ")", NULL},
    {"regex", NULL, NULL},
    {"uri-template", NULL, NULL},
    {"iri", NULL, NULL},
    {"iri-reference", NULL, NULL},
    {"idn-email", NULL, NULL},
    {"idn-hostname", NULL, NULL},
};

const clef__dfa *clef__format_dfa(clef__dfas *dfas, const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(name, formats[i].name) != 0)
            continue;
        const char *except = formats[i].except;
        if (!formats[i].pattern) {
            clef__work_fail(dfas->work, CLEF_E_UNSUPPORTED, "format '%s' is not supported", name);
            return NULL;
        }
        const clef__dfa *a = clef__pattern_dfa(dfas, formats[i].pattern, strlen(formats[i].pattern), 1);
        return except
                   ? clef__dfa_join(dfas, a, clef__pattern_dfa(dfas, except, strlen(except), 0), CLEF__MINUS)
                   : a;
    }
    return NULL;
}

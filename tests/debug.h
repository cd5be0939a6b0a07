/* Keys of CLEF_DEBUG, for tests that change them. */
#ifndef CLEF_TESTS_DEBUG_H
#define CLEF_TESTS_DEBUG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sets a key; NULL: removes it. A list has ':' between its elements. */
static inline void set_debug(const char *key, const char *value)
{
    char text[1024] = "";
    size_t used = 0;
    for (const char *at = getenv("CLEF_DEBUG"); at && *at;) {
        const size_t n = strcspn(at, ","), n_key = strcspn(at, "=,");
        if (n && !(n_key == strlen(key) && memcmp(at, key, n_key) == 0))
            used += (size_t)snprintf(text + used, sizeof text - used, "%.*s,", (int)n, at);
        at += n + (at[n] == ',');
    }
    if (value)
        snprintf(text + used, sizeof text - used, "%s=%s", key, value);
    setenv("CLEF_DEBUG", text, 1);
}

#endif

/* libcurl, which is opened when a model is pulled: a command that pulls nothing does not load it. */
#ifndef CLEF_TOOLS_PULL_CURL_H
#define CLEF_TOOLS_PULL_CURL_H

#define CURL_DISABLE_TYPECHECK /* it names functions, which are members here */
#include <curl/curl.h>

#include "clef/status.h"

typedef struct pull_curl {
    CURLcode (*global_init)(long flags);
    CURL *(*easy_init)(void);
    CURLcode (*easy_setopt)(CURL *curl, CURLoption option, ...);
    CURLcode (*easy_perform)(CURL *curl);
    CURLcode (*easy_getinfo)(CURL *curl, CURLINFO info, ...);
    void (*easy_reset)(CURL *curl);
    void (*easy_cleanup)(CURL *curl);
    const char *(*easy_strerror)(CURLcode code);
    struct curl_slist *(*slist_append)(struct curl_slist *list, const char *text);
    void (*slist_free_all)(struct curl_slist *list);
} pull_curl;

/** Opens the library, once in a process. CLEF_E_UNSUPPORTED where it is not installed. */
clef_status pull_curl_open(pull_curl *out, clef_error *err);

#endif

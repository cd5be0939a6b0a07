#define _GNU_SOURCE
#include "tools/pull/curl.h"

#include <dlfcn.h>

#include "tools/cli/common.h"

#undef curl_easy_setopt
#undef curl_easy_getinfo

static void *open_library(void)
{
    static const char *const names[] = {"libcurl-gnutls.so.4", "libcurl.so.4", "libcurl.4.dylib",
                                        "libcurl-nss.so.4"};
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

clef_status pull_curl_open(pull_curl *out, clef_error *err)
{
    void *library = open_library();
    if (!library)
        return cli_error(err, CLEF_E_UNSUPPORTED,
                         "libcurl is not installed. Debian: libcurl3-gnutls or libcurl4");
    const struct {
        const char *name;
        void *to;
    } functions[] = {
        {"curl_global_init", &out->global_init},   {"curl_easy_init", &out->easy_init},
        {"curl_easy_setopt", &out->easy_setopt},   {"curl_easy_perform", &out->easy_perform},
        {"curl_easy_getinfo", &out->easy_getinfo}, {"curl_easy_reset", &out->easy_reset},
        {"curl_easy_cleanup", &out->easy_cleanup}, {"curl_easy_strerror", &out->easy_strerror},
        {"curl_slist_append", &out->slist_append}, {"curl_slist_free_all", &out->slist_free_all}};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!(*(void **)functions[i].to = dlsym(library, functions[i].name)))
            return cli_error(err, CLEF_E_UNSUPPORTED, "libcurl: has no %s", functions[i].name);
    if (out->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return cli_error(err, CLEF_E_UNSUPPORTED, "libcurl: does not start");
    return CLEF_OK;
}

/* What is decided by a request's head alone. */
#include "tools/serve/rules.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/serve/base/multipart.h"
#include "tools/serve/keys.h"
#include "tools/serve/os/socket.h"

enum { MOST_HEADERS = 100, MOST_HEAD_BYTES = 32768, MOST_ID = 64 };

/* 1 if the first n bytes of two texts are the same, but for the case of ASCII letters, as HTTP compares them.
 */
static int same_bytes(const char *a, const char *b, size_t n)
{
    for (; n > 0 && *a && tolower((unsigned char)*a) == tolower((unsigned char)*b); n--)
        a++, b++;
    return n == 0 || (!*a && !*b);
}

static int same_text(const char *a, const char *b)
{
    return same_bytes(a, b, SIZE_MAX);
}

/* RFC 9110 5.6.2: what a header's name consists of. */
static int is_token(const char *text)
{
    size_t n = 0;
    while (isalnum((unsigned char)text[n]) || (text[n] && strchr("!#$%&'*+-.^_`|~", text[n])))
        n++;
    return n && !text[n];
}

static int has_control(const char *text)
{
    for (; *text; text++)
        if (((unsigned char)*text < ' ' && *text != '\t') || *text == 0x7f)
            return 1;
    return 0;
}

void serve_head_add(serve_head *h, const char *name, const char *value)
{
    const struct {
        const char *name;
        const char **at;
        const char *twice; /* NULL: the first one counts */
    } known[] = {{"host", &h->host, "two Host headers"},
                 {"origin", &h->origin, NULL},
                 {"authorization", &h->authorization, NULL},
                 {"x-api-key", &h->api_key, NULL},
                 {"content-type", &h->content_type, NULL},
                 {"content-length", &h->length, "two Content-Length headers that differ"},
                 {"transfer-encoding", &h->encoding, "two Transfer-Encoding headers"},
                 {"x-request-id", &h->request_id, NULL}};
    value = value ? value : "";
    h->n_headers++;
    h->n_bytes += strlen(name) + strlen(value) + 4;
    if (!is_token(name))
        h->wrong = "a header's name has a character that none may have";
    if (has_control(value))
        h->wrong = "a header's value has a control character";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!same_text(name, known[i].name))
            continue;
        if (*known[i].at && known[i].twice && !(known[i].at == &h->length && !strcmp(h->length, value)))
            h->wrong = known[i].twice;
        *known[i].at = *known[i].at ? *known[i].at : value;
    }
    if (same_text(name, "x-forwarded-for"))
        h->forwarded_for = value;
}

static void set_id(serve_request *r, const char *given)
{
    size_t n = 0;
    while (given && given[n] && n <= MOST_ID &&
           (isalnum((unsigned char)given[n]) || strchr("._-:", given[n])))
        n++;
    if (given && n && n <= MOST_ID && !given[n])
        memcpy(r->id, given, n + 1);
    else {
        memcpy(r->id, "req_", 4);
        serve_random_letters(r->id + 4, 24);
    }
}

/* The last address of X-Forwarded-For is the client that the proxy saw; those before it may be made up. */
static void set_peer(serve_request *r, const char *forwarded_for)
{
    const char *comma = forwarded_for ? strrchr(forwarded_for, ',') : NULL,
               *from = comma ? comma + 1 : forwarded_for;
    char address[sizeof r->peer];
    if (!from)
        return;
    from += strspn(from, " \t");
    snprintf(address, sizeof address, "%.*s", (int)strcspn(from, " \t"), from);
    if (serve_is_address(address))
        snprintf(r->peer, sizeof r->peer, "%s", address);
}

/* ---- text in a target ------------------------------------------------------------------------ */

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

int serve_decode_percent(const char *text, char *out, size_t room)
{
    size_t n = 0;
    for (; *text; text++) {
        char c = *text;
        if (c == '%' && hex(text[1]) >= 0 && hex(text[2]) >= 0) {
            c = (char)(hex(text[1]) * 16 + hex(text[2]));
            text += 2;
        }
        if (!c || n + 1 >= room)
            return 0;
        out[n++] = c;
    }
    out[n] = '\0';
    return 1;
}

/* ---- hosts and origins ----------------------------------------------------------------------- */

/* A host without its port. Returns 0 where it is too long. */
static int bare_host(const char *host, char out[256])
{
    const char *end = *host == '[' ? strchr(host, ']') : NULL;
    size_t n = end ? (size_t)(end + 1 - host) : strcspn(host, ":");
    if (n >= 256)
        return 0;
    memcpy(out, host, n);
    while (n && out[n - 1] == '.') /* "localhost." */
        n--;
    out[n] = '\0';
    return 1;
}

static int in_list(const cli_list *list, const char *text)
{
    for (int32_t i = 0; i < list->n; i++)
        if (same_text(list->items[i], text))
            return 1;
    return 0;
}

/* A page that another name was bound to this address for would send that name. */
static int host_allowed(const serve_request *r, const serve_head *h)
{
    const serve_options *o = &r->s->o;
    char host[256], local[64], own[256];
    if (!h->host)
        return 1; /* HTTP/1.0: no browser */
    if (!bare_host(h->host, host))
        return 0;
    if (serve_is_loopback(host) || in_list(&o->allow_hosts, host) || in_list(&o->allow_hosts, h->host))
        return 1;
    for (int32_t i = 0; i < o->hosts.n; i++)
        if (bare_host(o->hosts.items[i], own) && same_text(own, host))
            return 1;
    serve_local_text(h->socket, local);
    snprintf(own, sizeof own, "[%s]", local);
    return local[0] && (!strcmp(local, host) || same_text(own, host));
}

/* The page of this server itself is allowed, whatever it is called. */
static int is_same_origin(const serve_head *h)
{
    const char *rest = same_bytes(h->origin, "http://", 7)    ? h->origin + 7
                       : same_bytes(h->origin, "https://", 8) ? h->origin + 8
                                                              : NULL;
    return rest && h->host && same_text(rest, h->host);
}

static int check_host(serve_request *r, serve_head *h)
{
    if (!host_allowed(r, h))
        return serve_fail(
            &r->error, SERVE_E_HOST, NULL,
            "Host '%.100s' is neither local nor the server's address; --allow-host allows a name", h->host);
    if (!h->origin)
        return 1;
    h->origin_allowed = in_list(&r->s->o.cors_origins, h->origin) || in_list(&r->s->o.cors_origins, "*");
    if (h->origin_allowed || is_same_origin(h))
        return 1;
    return serve_fail(&r->error, SERVE_E_ORIGIN, NULL,
                      "a page of '%.100s' may not call this server; --cors-origin allows an origin",
                      h->origin);
}

/* ---- paths ----------------------------------------------------------------------------------- */

/* A path without "/v1": clients differ in whether their base has it. */
static const char *bare(const char *path)
{
    return !strncmp(path, "/v1/", 4) && path[4] ? path + 3 : path;
}

/* What follows the endpoint's path; NULL: the url is another's. */
static const char *match(const serve_endpoint *e, const char *url)
{
    const char *path = bare(e->path);
    const size_t n = strlen(path);
    url = bare(url);
    if (strncmp(url, path, n) != 0)
        return NULL;
    return (e->flags & SERVE_PREFIX ? url[n] != '\0' : !url[n]) ? url + n : NULL;
}

/* A target that is a whole URI names the host, too (RFC 9112 3.2.2); returns its path. */
static const char *take_authority(serve_head *h, const char *url, char authority[256])
{
    const char *rest = same_bytes(url, "http://", 7)    ? url + 7
                       : same_bytes(url, "https://", 8) ? url + 8
                                                        : NULL;
    if (!rest)
        return url;
    const size_t n = strcspn(rest, "/");
    if (n == 0 || n >= 256 || memchr(rest, '@', n)) {
        h->wrong = "a target without a host, or with more than one";
        return url;
    }
    memcpy(authority, rest, n);
    authority[n] = '\0';
    h->host = authority;
    return rest[n] ? rest + n : "/";
}

/* The methods of an endpoint, for the header Allow. */
static const char *methods_of(const serve_endpoint *e)
{
    return e->flags & SERVE_DELETE     ? "GET, HEAD, DELETE, OPTIONS"
           : e->flags & SERVE_POST     ? "GET, HEAD, POST, OPTIONS"
           : !strcmp(e->method, "GET") ? "GET, HEAD, OPTIONS"
                                       : "POST, OPTIONS";
}

static int find_endpoint(serve_request *r, serve_head *h, const char *url, const char *method)
{
    const serve_endpoint *found = NULL;
    for (int i = 0; i < SERVE_N_ENDPOINTS && !found; i++)
        if ((r->path = match(&serve_endpoints[i], url)) && (i || !r->s->o.no_page) &&
            (r->s->o.ollama || !(serve_endpoints[i].flags & SERVE_OLLAMA)))
            found = &serve_endpoints[i];
    if (!found)
        return serve_fail(&r->error, SERVE_E_PATH, NULL, "no such path: %s %.200s", method, url);
    r->endpoint = found;
    const int is_get = !strcmp(found->method, "GET");
    if (h->is_options) {
        h->allow = methods_of(found);
        r->status = 204;
        return 1;
    }
    if (!strcmp(method, found->method) || (is_get && !strcmp(method, "HEAD")) ||
        (found->flags & SERVE_DELETE && !strcmp(method, "DELETE")) ||
        (found->flags & SERVE_POST && !strcmp(method, "POST")))
        return 1;
    h->allow = methods_of(found);
    return serve_fail(&r->error, SERVE_E_METHOD, NULL, "%s %.200s: expected %s", method, url, h->allow);
}

static int check_key(serve_request *r, const serve_head *h)
{
    const char *key = h->api_key;
    if (!serve_keys_count(r->s->keys) || (r->endpoint && r->endpoint->flags & SERVE_NO_KEY) || h->is_options)
        return 1;
    if (h->authorization && same_bytes(h->authorization, "Bearer ", 7))
        key = h->authorization + 7 + strspn(h->authorization + 7, " ");
    if (serve_keys_find(r->s->keys, key, &r->tenant))
        return 1;
    if (!h->authorization && !key && r->endpoint && r->endpoint->flags & SERVE_PUBLIC)
        return 1; /* but a wrong one is: clients try theirs here */
    return serve_fail(&r->error, SERVE_E_KEY, NULL,
                      key ? "this API key is not known"
                          : "expected an API key in the header Authorization: Bearer KEY, or X-Api-Key");
}

/* ---- bodies ---------------------------------------------------------------------------------- */

static int is_json_type(const char *type)
{
    size_t n = strcspn(type, "; \t");
    return (n == 16 && same_bytes(type, "application/json", n)) ||
           (n > 17 && same_bytes(type, "application/", 12) && same_bytes(type + n - 5, "+json", 5));
}

/* What MHD would let pass, or answer in its own words. */
static int check_head(serve_request *r, serve_head *h, const char *url)
{
    if (!h->wrong && has_control(url))
        h->wrong = "a target with a control character";
    if (!h->wrong && h->is_http11 && !h->host)
        h->wrong = "expected a Host header";
    if (!h->wrong && h->encoding && !same_text(h->encoding, "chunked"))
        h->wrong = "a Transfer-Encoding other than chunked";
    return h->wrong ? serve_fail(&r->error, SERVE_E_HTTP, NULL, "%s", h->wrong) : 1;
}

static int check_body(serve_request *r, serve_head *h, const char *method)
{
    char *end = NULL;
    if (h->length) {
        errno = 0;
        h->n_body = strtoull(h->length, &end, 10);
        if (errno || !end || *end || !isdigit((unsigned char)h->length[0]))
            return serve_fail(&r->error, SERVE_E_HTTP, NULL, "Content-Length '%.40s' is not a number",
                              h->length);
    }
    if (h->length && h->encoding)
        return serve_fail(&r->error, SERVE_E_HTTP, NULL, "both Content-Length and Transfer-Encoding");
    if (strcmp(method, "POST") != 0)
        return 1;
    if (!h->length && !h->encoding)
        return serve_fail(&r->error, SERVE_E_NO_LENGTH, NULL, "expected Content-Length, or a body in chunks");
    if (h->n_body > serve_most_body(r))
        return serve_fail(&r->error, SERVE_E_BODY, NULL,
                          "a body of %llu bytes, expected at most %zu (--max-body)",
                          (unsigned long long)h->n_body, serve_most_body(r));
    const int is_form = r->endpoint && r->endpoint->flags & SERVE_FORM_BODY;
    if (is_form           ? serve_multipart_type(h->content_type, r->boundary)
        : h->content_type ? is_json_type(h->content_type)
                          : r->endpoint && r->endpoint->flags & SERVE_OLLAMA) /* as Ollama does */
        return 1;
    return serve_fail(&r->error, SERVE_E_CONTENT_TYPE, NULL, "Content-Type: expected %s, got '%.80s'",
                      is_form ? "multipart/form-data" : "application/json",
                      h->content_type ? h->content_type : "");
}

static int check_state(serve_request *r)
{
    const int state = atomic_load(&r->s->state);
    if (state == SERVE_READY || !r->endpoint || !strcmp(r->endpoint->method, "GET"))
        return 1;
    r->error.retry_after = state == SERVE_LOADING ? 2 : 0;
    return serve_fail(&r->error, SERVE_E_UNAVAILABLE, NULL,
                      state == SERVE_LOADING ? "Loading model" : "the server is about to end");
}

void serve_rules_check(serve_request *r, serve_head *h, const char *url, const char *method)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"};
    char authority[256];
    r->method = "?";
    url = take_authority(h, url, authority);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        r->method = strcmp(method, methods[i]) ? r->method : methods[i];
    snprintf(r->whole_path, sizeof r->whole_path, "%s", url);
    serve_clean_text(r->whole_path);
    h->is_options = !strcmp(method, "OPTIONS");
    set_id(r, h->request_id);
    if (h->is_proxy)
        set_peer(r, h->forwarded_for);
    if (h->long_uri) {
        serve_fail(&r->error, SERVE_E_URI, NULL, "a URI of more than 8192 bytes");
        return;
    }
    if (h->n_headers > MOST_HEADERS || h->n_bytes > MOST_HEAD_BYTES) {
        serve_fail(&r->error, SERVE_E_HEADERS, NULL, "%d headers of %zu bytes, expected at most %d of %d",
                   (int)h->n_headers, h->n_bytes, MOST_HEADERS, MOST_HEAD_BYTES);
        return;
    }
    const int ok = check_head(r, h, url) && check_host(r, h) && find_endpoint(r, h, url, method) &&
                   check_key(r, h) && check_body(r, h, method) && check_state(r);
    if (ok && h->is_full && !(r->endpoint->flags & SERVE_NO_KEY)) {
        serve_fail(&r->error, SERVE_E_CONNECTIONS, NULL,
                   "too many connections: at most %d from an address and %d from all",
                   (int)r->s->o.max_per_address, (int)r->s->o.max_connections);
        r->error.retry_after = 1;
    }
    h->host = h->host == authority ? NULL : h->host;
}

#define _POSIX_C_SOURCE 200809L
#include "tools/pull/request.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "tools/cli/terminal.h"
#include "tools/pull/curl.h"

enum {
    MOST_TRIES = 5,
    MOST_REDIRECTS = 5,
    MOST_URL = 8192,
    MOST_WAIT = 300,
    CONNECT_SECONDS = 30,
    IDLE_SECONDS = 30
};

struct pull_net {
    pull_net_opts o;
    pull_curl curl;
    CURL *easy;
    uint64_t done, total; /* what the progress shows, without the body of the request at work */
    char authorization[1024];
    /* The reply at work. */
    pull_body *body;
    clef_error *err; /* of `take` */
    clef_status taken;
    int has_begun, is_misplaced, is_foreign; /* its body; it is of other bytes; it is another host's */
    long status;
    char etag[HUB_MOST_NAME], linked_etag[HUB_MOST_NAME], range[64], code[64], text[240],
        why[CURL_ERROR_SIZE];
    int64_t n_bytes, n_linked;
    long retry_after; /* seconds; -1: not told */
};

/* How a request has ended. */
typedef enum outcome { DONE, AGAIN, FAILED } outcome;

/* ---- libcurl's callbacks --------------------------------------------------------------------- */

/* Copies a header's value, if the line is of that header: no control characters. */
static int take_field(const char *line, size_t n, const char *name, char *out, size_t n_out)
{
    const size_t n_name = strlen(name);
    size_t k = 0, at = n_name + 1;
    if (n <= n_name || line[n_name] != ':' || strncasecmp(line, name, n_name) != 0)
        return 0;
    while (at < n && (line[at] == ' ' || line[at] == '\t'))
        at++;
    for (; at < n && k + 1 < n_out; at++)
        if ((unsigned char)line[at] >= 0x20 && line[at] != 0x7f)
            out[k++] = line[at];
    while (k > 0 && out[k - 1] == ' ')
        k--;
    out[k] = '\0';
    return 1;
}

static void forget_reply(pull_net *net)
{
    net->has_begun = net->is_misplaced = 0;
    net->etag[0] = net->linked_etag[0] = net->range[0] = net->code[0] = net->text[0] = '\0';
    net->n_bytes = net->n_linked = net->retry_after = -1;
}

static size_t on_header(char *line, size_t size, size_t n, void *user)
{
    pull_net *net = user;
    char number[32];
    (void)size; /* 1 */
    if (n > 5 && strncmp(line, "HTTP/", 5) == 0)
        forget_reply(net);
    if (take_field(line, n, "x-linked-size", number, sizeof number))
        net->n_linked = strtoll(number, NULL, 10);
    if (take_field(line, n, "content-length", number, sizeof number))
        net->n_bytes = strtoll(number, NULL, 10);
    take_field(line, n, "etag", net->etag, sizeof net->etag);
    take_field(line, n, "x-linked-etag", net->linked_etag, sizeof net->linked_etag);
    take_field(line, n, "content-range", net->range, sizeof net->range);
    take_field(line, n, "x-error-code", net->code, sizeof net->code);
    take_field(line, n, "x-error-message", net->text, sizeof net->text);
    return n;
}

/* The reply's first byte is there: whether it belongs where the last ones ended. */
static clef_status begin_body(pull_net *net)
{
    pull_body *b = net->body;
    uint64_t from = 0;
    if (net->status == 206 && sscanf(net->range, "bytes %" SCNu64 "-", &from) != 1)
        from = UINT64_MAX;
    if (from == b->at)
        return CLEF_OK;
    b->at = 0;
    const clef_status status = b->restart(b->user, net->err);
    if (status || net->status == 200)
        return status;
    net->is_misplaced = 1;
    return cli_error(net->err, CLEF_E_IO, "%s: expected the bytes that were asked for, got '%s'", net->o.repo,
                     net->range);
}

static size_t on_data(char *data, size_t size, size_t n, void *user)
{
    pull_net *net = user;
    pull_body *b = net->body;
    (void)size; /* 1 */
    if (!net->has_begun) {
        net->curl.easy_getinfo(net->easy, CURLINFO_RESPONSE_CODE, &net->status);
        net->has_begun = 1;
        if (b && (net->status == 200 || net->status == 206))
            net->taken = begin_body(net);
    }
    if (!b || (net->status != 200 && net->status != 206))
        return n; /* the text of an error */
    if (!net->taken && n > b->most - b->at)
        net->taken = cli_error(net->err, CLEF_E_FORMAT, "%s: expected %" PRIu64 " bytes%s, got more",
                               net->o.repo, b->most, b->is_exact ? "" : " at most");
    if (!net->taken)
        net->taken = b->take(b->user, data, n, net->err);
    if (net->taken)
        return 0;
    b->at += n;
    return n;
}

static int on_progress(void *user, curl_off_t n_down, curl_off_t down, curl_off_t n_up, curl_off_t up)
{
    pull_net *net = user;
    (void)n_down, (void)down, (void)n_up, (void)up;
    if (!net->total)
        return cli_terminal_interrupted();
    return cli_progress_step(net->o.progress, "pulling", net->done + (net->body ? net->body->at : 0),
                             net->total);
}

/* ---- one request ----------------------------------------------------------------------------- */

/* Bytes of "https://host:port". */
static size_t origin_of(const char *url)
{
    const char *host = strstr(url, "://");
    return host ? (size_t)(host + 3 - url) + strcspn(host + 3, "/?#") : 0;
}

static int is_ours(const pull_net *net, const char *url)
{
    const size_t n = origin_of(net->o.endpoint);
    return n > 0 && n == origin_of(url) && strncasecmp(url, net->o.endpoint, n) == 0;
}

static struct curl_slist *add_line(const pull_net *net, struct curl_slist *list, const char *line, int *ok)
{
    struct curl_slist *longer = *ok ? net->curl.slist_append(list, line) : NULL;
    *ok = *ok && longer;
    return longer ? longer : list;
}

/* Headers of a request; the caller frees them, also after 0. */
static int make_headers(const pull_net *net, const char *url, struct curl_slist **out)
{
    char range[64];
    int ok = 1;
    *out = add_line(net, NULL, "Accept-Encoding: identity", &ok);
    if (net->authorization[0] && is_ours(net, url))
        *out = add_line(net, *out, net->authorization, &ok);
    if (net->body && net->body->at > 0) {
        snprintf(range, sizeof range, "Range: bytes=%" PRIu64 "-", net->body->at);
        *out = add_line(net, *out, range, &ok);
    }
    return ok;
}

static void set_options(pull_net *net, const char *url, const struct curl_slist *headers)
{
    CURLcode (*set)(CURL *, CURLoption, ...) = net->curl.easy_setopt;
    CURL *easy = net->easy;
    net->curl.easy_reset(easy);
    set(easy, CURLOPT_URL, url);
    set(easy, CURLOPT_HTTPHEADER, headers);
    set(easy, CURLOPT_USERAGENT, "clef");
    set(easy, CURLOPT_NOSIGNAL, 1L);
    set(easy, CURLOPT_NOBODY, net->body ? 0L : 1L);
    set(easy, CURLOPT_FOLLOWLOCATION, 0L); /* by pull_follow(), which knows where the token may go */
#if LIBCURL_VERSION_NUM >= 0x075500
    set(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    set(easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    set(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    set(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(easy, CURLOPT_LOW_SPEED_TIME, (long)IDLE_SECONDS);
    set(easy, CURLOPT_ERRORBUFFER, net->why);
    set(easy, CURLOPT_HEADERFUNCTION, on_header);
    set(easy, CURLOPT_HEADERDATA, net);
    set(easy, CURLOPT_WRITEFUNCTION, on_data);
    set(easy, CURLOPT_WRITEDATA, net);
    set(easy, CURLOPT_NOPROGRESS, 0L);
    set(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    set(easy, CURLOPT_XFERINFODATA, net);
}

/* A transfer that failed: whether it may succeed later. */
static outcome judge_code(pull_net *net, CURLcode code, clef_error *err)
{
    const char *why = net->why[0] ? net->why : net->curl.easy_strerror(code);
    if (cli_terminal_interrupted()) {
        cli_error(err, CLEF_E_CANCELLED, "interrupted; the next pull goes on from here");
        return FAILED;
    }
    if (net->taken)
        return net->is_misplaced ? AGAIN : FAILED;
    cli_error(err, CLEF_E_IO, "%s: %s: %.300s", net->o.repo, net->o.endpoint, why);
    switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_OUT_OF_MEMORY:
        return FAILED;
    default:
        return AGAIN;
    }
}

static outcome refuse_status(const pull_net *net, clef_error *err)
{
    const char *repo = net->o.repo, *endpoint = net->o.endpoint;
    const char *said = net->text[0] ? net->text : net->code[0] ? net->code : "no reason is given";
    if (net->status == 401)
        cli_error(err, CLEF_E_IO, "%s: 401: %s has no such model, or HF_TOKEN may not read it (%s)", repo,
                  endpoint, said);
    else if (net->status == 403)
        cli_error(
            err, CLEF_E_IO,
            "%s: 403: access is restricted (%s); %s/%s tells who may ask for it, HF_TOKEN says who asks",
            repo, said, endpoint, repo);
    else if (net->status == 404)
        cli_error(err, CLEF_E_NOT_FOUND, "%s: 404: %s has no such model, revision or file (%s)", repo,
                  endpoint, said);
    else
        cli_error(err, CLEF_E_IO, "%s: %s answers %ld (%s)", repo, endpoint, net->status, said);
    return FAILED;
}

/* A reply without the file. */
static outcome judge_status(pull_net *net, clef_error *err)
{
    refuse_status(net, err);
    if (net->status == 416 && net->body && net->body->at > 0) {
        net->body->at = 0;
        const clef_status status = net->body->restart(net->body->user, err);
        return status ? FAILED : AGAIN;
    }
    /* A link to another host is valid for some time. */
    if (net->status == 408 || net->status == 429 || net->status >= 500 ||
        (net->is_foreign && net->status == 403))
        return AGAIN;
    return FAILED;
}

/* Asks once, without following a redirect. *next: the address of a redirect, else "". */
static outcome ask(pull_net *net, const char *url, char next[MOST_URL], clef_error *err)
{
    struct curl_slist *headers = NULL;
    const char *target = NULL;
    curl_off_t wait = 0;
    next[0] = net->why[0] = '\0';
    net->status = 0;
    net->taken = CLEF_OK;
    net->err = err;
    net->is_foreign = !is_ours(net, url);
    forget_reply(net);
    if (!make_headers(net, url, &headers)) {
        net->curl.slist_free_all(headers);
        cli_error(err, CLEF_E_NOMEM, "out of host memory");
        return FAILED;
    }
    set_options(net, url, headers);
    const CURLcode code = net->curl.easy_perform(net->easy);
    net->curl.slist_free_all(headers);
    net->curl.easy_getinfo(net->easy, CURLINFO_RESPONSE_CODE, &net->status);
    net->curl.easy_getinfo(net->easy, CURLINFO_REDIRECT_URL, &target);
    if (net->curl.easy_getinfo(net->easy, CURLINFO_RETRY_AFTER, &wait) == CURLE_OK && wait > 0)
        net->retry_after = wait < 1 << 30 ? (long)wait : 1 << 30;
    if (code != CURLE_OK)
        return judge_code(net, code, err);
    if (net->status >= 300 && net->status < 400 && target && strlen(target) < MOST_URL)
        strcpy(next, target);
    return next[0] || net->status / 100 == 2 ? DONE : judge_status(net, err);
}

/* Whether a redirect may be followed: not from https to http. */
static int may_follow(const char *from, const char *to)
{
    return strncasecmp(from, "https:", 6) != 0 || strncasecmp(to, "https:", 6) == 0;
}

/* Asks, and follows redirects; for a head, only inside the Hub. */
static outcome ask_along(pull_net *net, const char *url, clef_error *err)
{
    char at[MOST_URL], next[MOST_URL];
    if (strlen(url) >= MOST_URL) {
        cli_error(err, CLEF_E_ARG, "%s: expected addresses of fewer than %d bytes", net->o.repo, MOST_URL);
        return FAILED;
    }
    strcpy(at, url);
    for (int i = 0; i <= MOST_REDIRECTS; i++) {
        const outcome end = ask(net, at, next, err);
        if (end != DONE || !next[0] || (!net->body && (net->linked_etag[0] || !is_ours(net, next))))
            return end;
        if (!may_follow(at, next)) {
            cli_error(err, CLEF_E_IO, "%s: %s redirects from https to http: %.200s", net->o.repo,
                      net->o.endpoint, next);
            return FAILED;
        }
        strcpy(at, next);
    }
    cli_error(err, CLEF_E_IO, "%s: %s redirects more than %d times", net->o.repo, net->o.endpoint,
              MOST_REDIRECTS);
    return FAILED;
}

/* ---- trying again ---------------------------------------------------------------------------- */

clef_status pull_pause(pull_net *net, double seconds, clef_error *err)
{
    const double end = cli_terminal_seconds() + seconds;
    while (cli_terminal_seconds() < end) {
        if (on_progress(net, 0, 0, 0, 0))
            return cli_error(err, CLEF_E_CANCELLED, "interrupted; the next pull goes on from here");
        nanosleep(&(struct timespec){.tv_nsec = 50 * 1000 * 1000}, NULL);
    }
    return CLEF_OK;
}

/* Waits before the next try. n_tries: those that brought nothing. */
static clef_status wait_for_next(pull_net *net, int n_tries, clef_error *err)
{
    const double own = n_tries ? 0.5 * (double)(1 << (n_tries - 1)) : 0.05;
    if (net->retry_after > MOST_WAIT)
        return cli_error(err, CLEF_E_IO, "%s: %s answers %ld: to be asked again in %ld seconds", net->o.repo,
                         net->o.endpoint, net->status, net->retry_after);
    return pull_pause(net, net->retry_after > own ? (double)net->retry_after : own, err);
}

static clef_status request(pull_net *net, const char *url, pull_body *body, clef_error *err)
{
    uint64_t most = body ? body->at : 0;
    net->body = body;
    for (int n_tries = 0;;) {
        outcome end = ask_along(net, url, err);
        if (end == DONE && body && body->is_exact && body->at < body->most) {
            cli_error(err, CLEF_E_IO, "%s: %s ends after %" PRIu64 " of %" PRIu64 " bytes", net->o.repo,
                      net->o.endpoint, body->at, body->most);
            end = AGAIN;
        }
        if (end == DONE)
            return CLEF_OK;
        n_tries = body && body->at > most ? 0 : n_tries + 1;
        most = body && body->at > most ? body->at : most;
        const clef_error why = *err;
        if (end == FAILED || n_tries == MOST_TRIES || wait_for_next(net, n_tries, err) != CLEF_OK)
            return err->status;
        *err = why;
    }
}

clef_status pull_get(pull_net *net, const char *url, pull_body *body, clef_error *err)
{
    const clef_status status = request(net, url, body, err);
    net->body = NULL;
    return status;
}

/* The quotes, and the mark of a weak one, do not belong to a checksum. */
static void copy_etag(const char *from, char out[HUB_MOST_NAME])
{
    if (strncmp(from, "W/", 2) == 0)
        from += 2;
    from += *from == '"';
    const size_t n = strcspn(from, "\"");
    memcpy(out, from, n);
    out[n] = '\0';
}

clef_status pull_head(pull_net *net, const char *url, pull_head_fields *out, clef_error *err)
{
    const clef_status status = request(net, url, NULL, err);
    if (status)
        return status;
    const int is_here = net->status / 100 == 2;
    copy_etag(net->linked_etag[0] ? net->linked_etag : net->etag, out->etag);
    out->n_bytes = net->n_linked >= 0 ? net->n_linked : is_here ? net->n_bytes : -1;
    return CLEF_OK;
}

/* ---- the connection -------------------------------------------------------------------------- */

clef_status pull_net_open(const pull_net_opts *opts, pull_net **out, clef_error *err)
{
    pull_net *net = *out = calloc(1, sizeof *net);
    if (!net)
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    net->o = *opts;
    const clef_status status = pull_curl_open(&net->curl, err);
    if (status)
        return status;
    net->easy = net->curl.easy_init();
    if (!net->easy)
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    if (opts->token)
        snprintf(net->authorization, sizeof net->authorization, "Authorization: Bearer %s", opts->token);
    return CLEF_OK;
}

void pull_net_close(pull_net *net)
{
    if (net && net->easy)
        net->curl.easy_cleanup(net->easy);
    free(net);
}

void pull_net_show(pull_net *net, uint64_t done, uint64_t total)
{
    net->done = done;
    net->total = total;
}

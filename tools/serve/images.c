/* Pictures in the messages of a request: data: URLs, whose bytes become pixels. Nothing is fetched. */
#include "tools/serve/params.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_IMAGES = 64, MOST_PIXELS = 1 << 25 };

/* ---- base64 (RFC 4648, section 4) --------------------------------------------------------------- */

static int value_of(char c)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(letters, c) : NULL;
    return at ? (int)(at - letters) : -1;
}

/* Writes the bytes of n characters, and their number to *n_bytes. Returns 0 for any other character. */
static int decode(const char *text, size_t n, unsigned char *out, size_t *n_bytes)
{
    uint32_t bits = 0;
    size_t n_out = 0;
    if (n % 4)
        return 0;
    while (n && text[n - 1] == '=')
        n--;
    for (size_t i = 0; i < n; i++) {
        const int v = value_of(text[i]);
        if (v < 0)
            return 0;
        bits = bits << 6 | (uint32_t)v;
        if (i % 4)
            out[n_out++] = (unsigned char)(bits >> (6 - 2 * (i % 4)) & 0xff);
    }
    *n_bytes = n_out;
    return n_out > 0;
}

/* ---- parts -------------------------------------------------------------------------------------- */

static int is_of_type(const json_t *part, const char *type)
{
    const char *own = json_string_value(json_object_get(part, "type"));
    return own && strcmp(own, type) == 0;
}

/* The base64 text of a data: URL; NULL after an error. */
static const char *data_of(serve_request *r, const json_t *part, const char *path)
{
    const json_t *image = json_object_get(part, "image_url"), *url = json_object_get(image, "url");
    const char *text = json_string_value(url ? url : image), *comma = text ? strchr(text, ',') : NULL;
    static const char data[] = "data:", base64[] = ";base64";
    const size_t n = sizeof base64 - 1;
    if (!text || strlen(text) != json_string_length(url ? url : image)) {
        serve_fail(&r->error, SERVE_E_INVALID_VALUE, path, "%s: expected {\"url\": \"data:..\"}", path);
    } else if (strncmp(text, data, sizeof data - 1) != 0) {
        serve_fail(&r->error, SERVE_E_UNSUPPORTED, path,
                   "%s: not supported: a URL that does not begin with data:; this server fetches nothing",
                   path);
    } else if (!comma || (size_t)(comma - text) < n || strncmp(comma - n, base64, n) != 0) {
        serve_fail(&r->error, SERVE_E_INVALID_VALUE, path, "%s: expected data:TYPE;base64,DATA", path);
    } else {
        return comma + 1;
    }
    return NULL;
}

static size_t bytes_of(const clef_pixels *p)
{
    return (size_t)(p->n > 1 ? p->n : 1) * 3 * (size_t)p->height * (size_t)p->width * sizeof *p->values;
}

size_t serve_images_bytes(const serve_params *p)
{
    size_t n = 0;
    for (int32_t i = 0; i < p->pictures.n; i++)
        n += bytes_of(&p->pictures.pixels[i]);
    return n;
}

/* Holds what the decoded picture will take. With a limit of one pixel only its size is read. */
static int hold_decoded(serve_request *r, const unsigned char *bytes, size_t n_bytes)
{
    clef_picture size;
    clef_picture_read(bytes, n_bytes, NULL, &(clef_picture_opts){.max_pixels = 1}, &size, NULL);
    const size_t n = (size_t)size.width * (size_t)size.height;
    clef_picture_finish(&size);
    return n > MOST_PIXELS /* it is refused */ || serve_hold(r, 3 * n);
}

static int read_image(serve_request *r, serve_params *p, const json_t *part, const char *path)
{
    clef_error err = {0};
    size_t n_bytes = 0;
    const char *text = data_of(r, part, path);
    if (!text)
        return 0;
    if (!clef_model_sees(r->m->model, &err))
        return serve_fail(&r->error, SERVE_E_UNSUPPORTED, path,
                          "%s: image input is not supported by this model", path);
    if (!p->pictures.processor && cli_prompt_pictures_open(&p->pictures, r->m->model, &err) != CLEF_OK)
        return serve_fail_status(&r->error, &err, SERVE_E_UNSUPPORTED, path);
    p->pictures.max_pixels = MOST_PIXELS;
    if (p->pictures.n == MOST_IMAGES)
        return serve_fail(&r->error, SERVE_E_INVALID_VALUE, path, "%s: expected at most %d pictures", path,
                          MOST_IMAGES);
    const size_t n = strlen(text), n_held = r->n_held;
    unsigned char *bytes = malloc(n + 1);
    if (!bytes)
        return serve_fail(&r->error, SERVE_E_INTERNAL, NULL, "out of host memory");
    int ok = decode(text, n, bytes, &n_bytes) ||
             serve_fail(&r->error, SERVE_E_INVALID_VALUE, path, "%s: its data is not base64", path);
    ok = ok && hold_decoded(r, bytes, n_bytes);
    if (ok && cli_prompt_pictures_add(&p->pictures, bytes, n_bytes, path, &err) != CLEF_OK)
        ok = serve_fail_status(&r->error, &err, SERVE_E_INVALID_VALUE, path);
    free(bytes);
    serve_let_all_but(r, n_held);
    return ok && serve_hold(r, bytes_of(&p->pictures.pixels[p->pictures.n - 1]));
}

static int read_message(serve_request *r, serve_params *p, size_t i, json_t *message)
{
    char path[128];
    json_t *content = json_object_get(message, "content"), *part;
    size_t k;
    json_array_foreach(content, k, part) {
        if (!is_of_type(part, "image_url"))
            continue;
        const json_t *own = p->form & SERVE_FORM_RESPONSES ? json_object_get(part, "path") : NULL;
        serve_path(path, "messages[%zu].content[%zu].image_url", i, k);
        if (!read_image(r, p, part, own ? json_string_value(own) : path))
            return 0;
        json_array_set_new(content, k, json_pack("{s:s}", "type", "image"));
    }
    return 1;
}

void serve_images_as_parts(serve_params *p)
{
    json_t *message, *content;
    size_t i;
    json_array_foreach(p->messages, i, message)
        if (p->pictures.n && json_is_string(content = json_object_get(message, "content")))
            json_object_set_new(message, "content",
                                json_pack("[{s:s, s:O}]", "type", "text", "text", content));
}

int serve_images_read(serve_request *r, serve_params *p)
{
    json_t *message;
    size_t i;
    json_array_foreach(p->messages, i, message)
        if (!read_message(r, p, i, message))
            return 0;
    serve_images_as_parts(p);
    return 1;
}

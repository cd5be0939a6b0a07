/* Fills in the templates of pages. */
#include "tools/inspect/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/common.h"

static const char *find_page(const char *name, size_t n)
{
    for (const cli_page_file *p = cli_pages; p->name; p++)
        if (strlen(p->name) == n && memcmp(p->name, name, n) == 0)
            return p->text;
    return NULL;
}

/* Inside a script element nothing may look like the element's end. In JSON, '<' only occurs in strings. */
static clef_status copy_json(FILE *from, FILE *to, clef_error *err)
{
    int c;
    rewind(from);
    while ((c = fgetc(from)) != EOF) {
        if (c == '<')
            fputs("\\u003c", to);
        else
            fputc(c, to);
    }
    return ferror(from) ? cli_error(err, CLEF_E_IO, "page: cannot read the data back: %s", strerror(errno))
                        : CLEF_OK;
}

static clef_status fill_template(FILE *to, const char *text, const char *title, FILE *data, clef_error *err)
{
    clef_status status = CLEF_OK;
    while (status == CLEF_OK) {
        const char *open = strstr(text, "{{"), *close = open ? strstr(open, "}}") : NULL;
        if (!close)
            break;
        const char *name = open + 2, *part = find_page(name, (size_t)(close - name));
        fwrite(text, 1, (size_t)(open - text), to);
        if (part)
            status = fill_template(to, part, title, data, err);
        else if (strncmp(name, "title}}", 7) == 0)
            cli_xml_text(to, title);
        else if (strncmp(name, "data}}", 6) == 0)
            status = copy_json(data, to, err);
        else
            fwrite(open, 1, (size_t)(close + 2 - open), to);
        text = close + 2;
    }
    fputs(text, to);
    return status;
}

clef_status cli_page_write(FILE *to, const char *name, const char *title, cli_writer data, void *user,
                           clef_error *err)
{
    const char *text = find_page(name, strlen(name));
    FILE *json = tmpfile();
    if (!json)
        return cli_error(err, CLEF_E_IO, "page: no temporary file: %s", strerror(errno));
    clef_status status = data(user, json, err);
    if (status == CLEF_OK)
        status = fill_template(to, text ? text : "", title, json, err);
    fclose(json);
    if (status == CLEF_OK && (fflush(to) != 0 || ferror(to)))
        status = cli_error(err, CLEF_E_IO, "page: cannot write: %s", strerror(errno));
    return status;
}

/* Messages from a terminal. A paste that the terminal marks (bracketed paste) goes into the line as it is,
 * with its line ends, and does not end it. */
#include "tools/chat/input.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/terminal.h"

#if defined(CLEF_HAVE_LIBEDIT)
#    include <histedit.h>
#endif

enum { MOST_HISTORY = 1000, MOST_BYTES = 1 << 20 };

struct chat_input {
    char *path; /* of the history; NULL: none */
    const char *prompt;
#if defined(CLEF_HAVE_LIBEDIT)
    EditLine *edit;
    History *history;
    int cancelled; /* Ctrl-C ended the line */
#endif
};

/* ---- the file of the history --------------------------------------------------------------------- */

static char *history_path(void)
{
    const char *own = getenv("CLEF_HISTORY"), *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    const char *parts[2] = {own, ""};
    if (!own && state && *state)
        parts[0] = state, parts[1] = "/clef/history";
    else if (!own)
        parts[0] = home, parts[1] = "/.local/state/clef/history";
    if (!parts[0] || !*parts[0])
        return NULL;
    const size_t n = strlen(parts[0]) + strlen(parts[1]) + 1;
    char *path = malloc(n);
    if (path)
        snprintf(path, n, "%s%s", parts[0], parts[1]);
    return path;
}

#if defined(CLEF_HAVE_LIBEDIT)

static const char paste_begin[] = "\x1b[200~", paste_end[] = "\x1b[201~";

/* ---- libedit ------------------------------------------------------------------------------------- */

static char *ask_prompt(EditLine *edit)
{
    chat_input *input = NULL;
    el_get(edit, EL_CLIENTDATA, &input);
    return (char *)input->prompt;
}

/* Bound to the bytes that begin a paste: reads up to those that end it. */
static unsigned char read_paste(EditLine *edit, int key)
{
    char *text = NULL;
    size_t n = 0, room = 0;
    const size_t n_end = sizeof paste_end - 1;
    char c;
    (void)key;
    while (n < MOST_BYTES && el_getc(edit, &c) == 1) {
        if (n + 2 > room) {
            char *grown = realloc(text, room = 2 * room + 256);
            if (!grown)
                break;
            text = grown;
        }
        text[n++] = c == '\r' ? '\n' : c;
        if (n >= n_end && !memcmp(text + n - n_end, paste_end, n_end)) {
            n -= n_end;
            break;
        }
    }
    if (text) {
        while (n > 0 && text[n - 1] == '\n') /* so that Enter is still the user's */
            n--;
        text[n] = '\0';
        if (n && el_insertstr(edit, text) != 0)
            fputs("\nclef: the pasted text is too long for a line; use /load or a file\n", stderr);
    }
    free(text);
    return CC_REFRESH;
}

/* Bound to Ctrl-C, which is a key while a line is edited. */
static unsigned char cancel_line(EditLine *edit, int key)
{
    chat_input *input = NULL;
    (void)key;
    el_get(edit, EL_CLIENTDATA, &input);
    input->cancelled = 1;
    return CC_EOF;
}

static void begin_editing(chat_input *input)
{
    HistEvent event;
    input->edit = el_init("clef", stdin, stdout, stderr);
    input->history = history_init();
    if (!input->edit || !input->history)
        return;
    history(input->history, &event, H_SETSIZE, MOST_HISTORY);
    history(input->history, &event, H_SETUNIQUE, 1);
    if (input->path)
        history(input->history, &event, H_LOAD, input->path);
    el_set(input->edit, EL_CLIENTDATA, input);
    el_set(input->edit, EL_PROMPT, ask_prompt);
    el_set(input->edit, EL_SIGNAL, 0);
    el_set(input->edit, EL_EDITOR, "emacs");
    el_set(input->edit, EL_HIST, history, input->history);
    el_set(input->edit, EL_ADDFN, "clef-paste", "insert a pasted text", read_paste);
    el_set(input->edit, EL_BIND, paste_begin, "clef-paste", NULL);
    el_set(input->edit, EL_ADDFN, "clef-cancel", "leave the line", cancel_line);
    el_set(input->edit, EL_SETTY, "-d", "-isig", NULL);
    el_set(input->edit, EL_BIND, "^C", "clef-cancel", NULL);
    el_set(input->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(input->edit, NULL);
}

static void end_editing(chat_input *input)
{
    HistEvent event;
    if (input->history && input->path && cli_terminal_make_private(input->path))
        history(input->history, &event, H_SAVE, input->path);
    if (input->edit)
        el_end(input->edit);
    if (input->history)
        history_end(input->history);
}

static char *edit_line(chat_input *input, int *interrupted)
{
    int n = 0;
    fputs("\x1b[?2004h", stdout); /* from now on the terminal marks what is pasted */
    fflush(stdout);
    input->cancelled = 0;
    const char *line = el_gets(input->edit, &n);
    fputs("\x1b[?2004l", stdout);
    fflush(stdout);
    *interrupted = input->cancelled;
    char *copy = line && n >= 0 ? malloc((size_t)n + 1) : NULL;
    if (copy) {
        memcpy(copy, line, (size_t)n);
        copy[n] = '\0';
    }
    return copy;
}
#endif

/* ---- lines ---------------------------------------------------------------------------------- */

static char *plain_line(const chat_input *input)
{
    char *text = NULL;
    size_t n = 0, room = 0;
    fputs(input->prompt, stdout);
    fflush(stdout);
    for (int c; n < MOST_BYTES && (c = getchar()) != EOF;) {
        if (n + 2 > room) {
            char *grown = realloc(text, room = 2 * room + 256);
            if (!grown)
                break;
            text = grown;
        }
        text[n++] = (char)c;
        if (c == '\n')
            break;
    }
    if (text)
        text[n] = '\0';
    return text;
}

/* One line without its end; NULL at the end of the input. */
static char *read_line(chat_input *input, const char *prompt, int *interrupted)
{
    char *line;
    *interrupted = 0;
    input->prompt = prompt;
#if defined(CLEF_HAVE_LIBEDIT)
    if (input->edit)
        line = edit_line(input, interrupted);
    else
#endif
        line = plain_line(input);
    const size_t n = line ? strlen(line) : 0;
    if (n && line[n - 1] == '\n')
        line[n - 1] = '\0';
    return line;
}

static void remember(chat_input *input, const char *text)
{
#if defined(CLEF_HAVE_LIBEDIT)
    HistEvent event;
    if (input->history && *text)
        history(input->history, &event, H_ENTER, text);
#else
    (void)input;
    (void)text;
#endif
}

chat_input *chat_input_open(void)
{
    chat_input *input = calloc(1, sizeof *input);
    if (!input)
        return NULL;
    input->path = history_path();
    cli_terminal_use_utf8();
#if defined(CLEF_HAVE_LIBEDIT)
    if (cli_terminal_stdin())
        begin_editing(input);
#endif
    return input;
}

void chat_input_close(chat_input *input)
{
    if (!input)
        return;
#if defined(CLEF_HAVE_LIBEDIT)
    end_editing(input);
#endif
    free(input->path);
    free(input);
}

/* Adds a line to a text, after a line end if `joined`. Takes both; NULL when out of memory. */
static char *join(char *text, char *line, int joined)
{
    const size_t n = strlen(text), more = strlen(line);
    char *both = realloc(text, n + more + 2);
    if (both) {
        if (joined)
            both[n] = '\n';
        memcpy(both + n + (size_t)joined, line, more + 1);
    } else {
        free(text);
    }
    free(line);
    return both;
}

chat_event chat_input_read(chat_input *input, const char *prompt, char **text)
{
    static const char quotes[] = "\"\"\"";
    int interrupted;
    char *line = read_line(input, prompt, &interrupted), *whole = NULL;
    *text = NULL;
    if (!line)
        return interrupted ? CHAT_INTERRUPT : CHAT_END;
    const int quoted = !strncmp(line, quotes, 3);
    if (quoted)
        memmove(line, line + 3, strlen(line) - 2);
    for (int n = 0; line; n++) {
        size_t size = strlen(line);
        const int ends = quoted && size >= 3 && !strcmp(line + size - 3, quotes);
        const int goes_on = !quoted && size > 0 && line[size - 1] == '\\';
        if (ends || goes_on)
            line[size -= ends ? 3 : 1] = '\0';
        /* the lines of the quotes themselves are not lines of the text, unless something is beside them
         */
        const int empty = quoted && !size && (n == 0 || ends);
        const int joined = whole && *whole && !empty;
        whole = whole ? join(whole, line, joined) : line;
        if (!whole || ends || (!quoted && !goes_on))
            break;
        line = read_line(input, "... ", &interrupted);
    }
    if (interrupted) {
        free(whole);
        return CHAT_INTERRUPT;
    }
    if (whole)
        remember(input, whole);
    *text = whole;
    return whole ? CHAT_LINE : CHAT_END;
}

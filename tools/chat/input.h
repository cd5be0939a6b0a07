/* Reads what the user types: with libedit on a terminal, else plain lines. */
#ifndef CLEF_TOOLS_CHAT_INPUT_H
#define CLEF_TOOLS_CHAT_INPUT_H

typedef struct chat_input chat_input;

/** Begins to read. The history is kept in $CLEF_HISTORY, or clef/history in $XDG_STATE_HOME or
 *  ~/.local/state; an empty CLEF_HISTORY: in no file. NULL when out of memory. */
chat_input *chat_input_open(void);
/** Writes the history. Accepts NULL. */
void chat_input_close(chat_input *input);

typedef enum chat_event { CHAT_LINE, CHAT_END, CHAT_INTERRUPT } chat_event;
/** Reads one message: a line, a text that was pasted as one, lines that end with \ and the one after them, or
 *  the lines between """ and """. *text is freed by the caller; NULL but for CHAT_LINE. */
chat_event chat_input_read(chat_input *input, const char *prompt, char **text);

#endif

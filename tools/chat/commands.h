/* The commands of a chat: lines that begin with a slash. */
#ifndef CLEF_TOOLS_CHAT_COMMANDS_H
#define CLEF_TOOLS_CHAT_COMMANDS_H

#include "tools/chat/talk.h"

typedef enum chat_next { CHAT_NEXT, CHAT_ANSWER, CHAT_EXIT } chat_next;

/** Runs a command; what it says goes to stderr. CHAT_ANSWER: the model is to answer. */
chat_next chat_command(talk *t, const char *line);

#endif

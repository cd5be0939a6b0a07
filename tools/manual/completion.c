/* Completions for shells: commands, their flags, and the values of flags that have a fixed set. Everything
 * else completes to files. */
#include <string.h>

#include "tools/cli/help.h"
#include "tools/manual/manual.h"

static int is_shown(const cli_option *o)
{
    return o->help && o->type != CLI_HEADING;
}

static int name_length(const cli_option *o)
{
    return (int)strcspn(o->names, ",");
}

static void write_choices(const cli_option *o, FILE *to)
{
    for (int32_t i = 0; cli_option_choice(o, i); i++)
        fprintf(to, "%s%s", i ? " " : "", cli_option_choice(o, i));
}

static void write_commands(FILE *to)
{
    for (const cli_command_row *row = cli_commands; row->group || row->command; row++)
        if (row->command)
            fprintf(to, "%s ", row->command->name);
    fputs("help", to);
}

/* A short description of an option: its help up to the first ';', '(' or '[', without characters that a
 * quoted word cannot contain. */
static void write_brief(const char *help, FILE *to)
{
    size_t n = strcspn(help, ";([");
    while (n && (help[n - 1] == ' ' || help[n - 1] == '.'))
        n--;
    for (size_t i = 0; i < n; i++)
        if (!strchr("'`\"\\$:", help[i]))
            fputc(help[i] == '\n' ? ' ' : help[i], to);
}

/* ---- bash ------------------------------------------------------------------------------------ */

static void write_bash_command(const cli_command *c, FILE *to)
{
    fprintf(to, "    %s)\n        case $prev in\n", c->name);
    for (const cli_option *o = c->options; o->names; o++) {
        if (!is_shown(o) || o->type == CLI_SWITCH)
            continue;
        fprintf(to, "        --%.*s", name_length(o), o->names);
        if (o->letter)
            fprintf(to, " | -%c", o->letter);
        fputs(cli_option_choice(o, 0) ? ") words='" : ") files=1 ;;\n", to);
        write_choices(o, to);
        fputs(cli_option_choice(o, 0) ? "' ;;\n" : "", to);
    }
    fputs("        *) words='--help --help-all", to);
    for (const cli_option *o = c->options; o->names; o++)
        if (is_shown(o))
            fprintf(to, " --%.*s", name_length(o), o->names);
    fputs("' files=1 ;;\n        esac\n        ;;\n", to);
}

static void write_bash(FILE *to)
{
    fputs("# bash completion of clef, written by `clef help --completion bash`.\n"
          "_clef()\n{\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words='' files=''\n"
          "    COMPREPLY=()\n"
          "    if ((COMP_CWORD == 1)) || { ((COMP_CWORD == 2)) && [[ $prev == help ]]; }; then\n"
          "        mapfile -t COMPREPLY < <(compgen -W '",
          to);
    write_commands(to);
    fputs("' -- \"$cur\")\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n", to);
    for (const cli_command_row *row = cli_commands; row->group || row->command; row++)
        if (row->command)
            write_bash_command(row->command, to);
    fputs("    esac\n"
          "    if [[ -z $files || $cur == -* ]]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
          "    else\n"
          "        compopt -o filenames 2>/dev/null\n"
          "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
          "    fi\n}\ncomplete -F _clef clef\n",
          to);
}

/* ---- zsh ------------------------------------------------------------------------------------- */

static void write_zsh_option(const cli_option *o, FILE *to)
{
    const int names = o->letter ? 2 : 1;
    for (int i = 0; i < names; i++) {
        const char *end = o->type == CLI_SWITCH ? "" : i ? "+" : "=";
        if (i)
            fprintf(to, "            '-%c%s[", o->letter, end);
        else
            fprintf(to, "            '%s--%.*s%s[", o->type == CLI_LIST ? "*" : "", name_length(o), o->names,
                    end);
        write_brief(o->help, to);
        fputc(']', to);
        if (cli_option_choice(o, 0)) {
            fputs(":value:(", to);
            write_choices(o, to);
            fputc(')', to);
        } else if (o->type != CLI_SWITCH) {
            fputs(":value:_files", to);
        }
        fputs("' \\\n", to);
    }
}

static void write_zsh(FILE *to)
{
    fputs("#compdef clef\n# zsh completion of clef, written by `clef help --completion zsh`.\n"
          "_clef() {\n    local -a commands\n    commands=(\n",
          to);
    for (const cli_command_row *row = cli_commands; row->group || row->command; row++)
        if (row->command) {
            fprintf(to, "        '%s:", row->command->name);
            write_brief(row->command->summary, to);
            fputs("'\n", to);
        }
    fputs("        'help:Print help'\n    )\n"
          "    if (( CURRENT == 2 )) || [[ CURRENT -eq 3 && $words[2] == help ]]; then\n"
          "        _describe 'command' commands\n        return\n    fi\n"
          "    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $command in\n",
          to);
    for (const cli_command_row *row = cli_commands; row->group || row->command; row++) {
        if (!row->command)
            continue;
        fprintf(to, "    %s)\n        _arguments -s \\\n", row->command->name);
        for (const cli_option *o = row->command->options; o->names; o++)
            if (is_shown(o))
                write_zsh_option(o, to);
        fputs("            '--help[print the help]' '--help-all[print all flags]' \\\n            "
              "'*:file:_files'\n        ;;\n",
              to);
    }
    fputs("    esac\n}\n_clef \"$@\"\n", to);
}

/* ---- fish ------------------------------------------------------------------------------------ */

static void write_fish_option(const cli_command *c, const cli_option *o, FILE *to)
{
    fprintf(to, "complete -c clef -n '__fish_seen_subcommand_from %s' -l %.*s", c->name, name_length(o),
            o->names);
    if (o->letter)
        fprintf(to, " -s %c", o->letter);
    if (cli_option_choice(o, 0)) {
        fputs(" -x -a '", to);
        write_choices(o, to);
        fputc('\'', to);
    } else if (o->type != CLI_SWITCH) {
        fputs(" -r", to);
    }
    fputs(" -d '", to);
    write_brief(o->help, to);
    fputs("'\n", to);
}

static void write_fish(FILE *to)
{
    fputs("# fish completion of clef, written by `clef help --completion fish`.\n", to);
    for (const cli_command_row *row = cli_commands; row->group || row->command; row++) {
        if (!row->command)
            continue;
        fprintf(to, "complete -c clef -n '__fish_use_subcommand' -f -a %s -d '", row->command->name);
        write_brief(row->command->summary, to);
        fputs("'\n", to);
        for (const cli_option *o = row->command->options; o->names; o++)
            if (is_shown(o))
                write_fish_option(row->command, o, to);
    }
    fputs("complete -c clef -n '__fish_use_subcommand' -f -a help -d 'Print help'\n"
          "complete -c clef -n '__fish_seen_subcommand_from help' -f -a '",
          to);
    write_commands(to);
    fputs("'\n", to);
}

int cli_completion(const char *shell, FILE *to)
{
    static const struct {
        const char *name;
        void (*write)(FILE *to);
    } shells[] = {{"bash", write_bash}, {"zsh", write_zsh}, {"fish", write_fish}};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(shells[i].name, shell) == 0) {
            shells[i].write(to);
            return CLI_OK;
        }
    return cli_fail(CLI_USAGE, "--completion: expected bash, zsh or fish, got '%s'", shell);
}

/* The ways of cutting text behind the names of tokenizer.ggml.pre, as llama.cpp maps them (its
 * llama-vocab.cpp). Where llama.cpp rewrote a model's regex for its own engine, the regex here is the one
 * of the model's own tokenizer.json. */
#include "model/tokenizer/read/gguf_pre.h"

#include <stdio.h>
#include <string.h>

#include "graph/fail.h"
#include "model/tokenizer/stages.h"

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES
#define WORD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define GPT4_DIGITS3 CONTRACTIONS "|" WORD "|\\p{N}{1,3}" REST
#define GPT4_DIGITS1 CONTRACTIONS "|" WORD "|\\p{N}" REST
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(after)                                                                                         \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" after "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" after
#define CASED_REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES
#define ASCII_PUNCTUATION "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
#define GPT4O CASED(CONTRACTIONS "?") "|\\p{N}{1,3}" CASED_REST
#define ASCII_WORDS ASCII_PUNCTUATION "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
#define DEEPSEEK_WORDS ASCII_WORDS "| ?[\\p{P}\\p{S}]+[\\r\\n]*" SPACES
#define NOT_HAN_UPPER "(?:(?!\\p{Han})" UPPER ")"
#define NOT_HAN_LOWER "(?:(?!\\p{Han})" LOWER ")"

#define CASED_LETTERS                                                                                        \
    "\\s?[A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}\\x{" \
    "295}-\\x{2AF}\\x"                                                                                       \
    "{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{"  \
    "3A1}\\x{3A3}-\\x"                                                                                       \
    "{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{"     \
    "13F8}-\\x{13FD}\\x"                                                                                     \
    "{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-" \
    "\\x{1F15}\\x{1F18}"                                                                                     \
    "-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{"     \
    "1F5F}-\\x{1F7D}\\x"                                                                                     \
    "{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}"  \
    "\\x{1FD6}-\\x{1FDB}"                                                                                    \
    "\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{"     \
    "2115}\\x{2119}-\\x"                                                                                     \
    "{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}"    \
    "\\x{2145}-\\x{2149}\\x"                                                                                 \
    "{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}"    \
    "\\x{A640}-\\x{A66D}\\x"                                                                                 \
    "{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-" \
    "\\x{FB06}\\x{FB13}"                                                                                     \
    "-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-"  \
    "\\x{104FB}\\x"                                                                                          \
    "{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}]+"
#define FULL_PUNCTUATION                                                                                     \
    "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+"
#define CJK "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define CJK_KANA "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define YOUTU_ASIAN                                                                                          \
    "[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}\\x{2019}\\x{"  \
    "2014}\\x{FF1A}\\x{FF1B}"                                                                                \
    "\\x{FF0C}\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+|[\\x{3105}-\\x{312F}]+|" CJK_KANA
#define BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+"
#define ASIAN                                                                                                \
    "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{F900}-\\x{FAFF}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}\\x{"   \
    "FF65}-\\x{FF9F}\\x"                                                                                     \
    "{2F00}-\\x{2FDF}\\x{E40}-\\x{E7F}\\x{E80}-\\x{EFF}\\x{1780}-\\x{17FF}\\x{1000}-\\x{109F}\\x{AA60}-\\x{" \
    "AA7F}\\x{A9E0}-\\x"                                                                                     \
    "{A9FF}\\x{AC00}-\\x{D7AF}\\x{1100}-\\x{11FF}]+"

static const clef__gguf_pre kinds[] = {
    {.names = {"gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0",
               "mellum", "modern-bert", "mpt", "exaone4"},
     .regexes = {clef__gpt2_regex}},
    {.names = {"olmo", "jais", "trillion", "granite-docling"}, .regexes = {clef__gpt2_regex}},
    {.names = {"roberta-bpe", "jina-v1-en", "jina-v2-code"}, .regexes = {clef__gpt2_regex}, .is_roberta = 1},
    {.names = {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
               "jina-v5-nano"},
     .regexes = {GPT4_DIGITS3},
     .ignore_merges = 1,
     .add_bos = 1},
    {.names = {"dbrx", "smaug-bpe", "chatglm-bpe"}, .regexes = {GPT4_DIGITS3}},
    {.names = {"glm4", "glm5"}, .regexes = {GPT4_DIGITS3}, .ignore_merges = 1},
    {.names = {"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez"},
     .regexes = {GPT4_DIGITS1},
     .nfc = 1},
    {.names = {"stablelm2", "hunyuan", "grok-2", "solar-open"}, .regexes = {GPT4_DIGITS1}},
    {.names = {"qwen35"},
     .regexes = {CONTRACTIONS
                 "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SPACES},
     .nfc = 1},
    {.names = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"},
     .regexes = {"\\p{N}", clef__gpt2_regex}},
    {.names = {"default"},
     .regexes = {"[\\p{P}\\$\\+<=>\\^~\\|]+", clef__gpt2_regex, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {.names = {"falcon"}, .regexes = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", clef__gpt2_regex, "[0-9][0-9][0-9]"}},
    {.names = {"tekken"}, .regexes = {CASED("") "|\\p{N}" CASED_REST}, .ignore_merges = 1, .add_bos = 1},
    {.names = {"gpt-4o", "llama4", "kanana2", "minimax-m2", "talkie"}, .regexes = {GPT4O}},
    {.names = {"granite-embed-multi-97m"}, .regexes = {GPT4O}, .ignore_merges = 1},
    {.names = {"tiny_aya", "cohere2moe"}, .regexes = {"\\d{1,3}(?=(?:\\d{3})*\\b)", GPT4O}},
    {.names = {"youtu"},
     .regexes = {YOUTU_ASIAN, CASED(CONTRACTIONS "?") "|\\p{N}" CASED_REST},
     .ignore_merges = 1},
    {.names = {"deepseek-llm"},
     .regexes = {"[\\r\\n]", CASED_LETTERS, FULL_PUNCTUATION, "\\s+$", CJK, "\\p{N}+"}},
    {.names = {"deepseek-coder"}, .regexes = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK, "\\p{N}"}},
    {.names = {"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
     .regexes = {"\\p{N}{1,3}", CJK_KANA, DEEPSEEK_WORDS}},
    {.names = {"spark2_5"},
     .regexes = {"\\p{N}{1,3}", CJK_KANA, ASCII_WORDS "| ?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)|\\s+",
                 "\\p{N}"}},
    {.names = {"poro-chat", "bloom", "gpt3-finnish"}, .regexes = {BLOOM}},
    {.names = {"viking"}, .regexes = {BLOOM, "\\p{N}"}},
    {.names = {"chameleon"},
     .regexes = {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", "\\p{N}",
                 "[\\p{P}!-/:-@\\[-`{-~]", clef__gpt2_regex},
     .add_bos = 1},
    {.names = {"superbpe"}, .regexes = {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}},
    {.names = {"bailingmoe", "bailingmoe2", "llada-moe"},
     .regexes = {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| "
                 "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {.names = {"seed-coder"},
     .regexes = {CONTRACTIONS "|" WORD "|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" SPACES}},
    {.names = {"kimi-k2"},
     .regexes = {"\\p{Han}+|[^\\r\\n\\p{L}\\p{N}]?" NOT_HAN_UPPER "*" NOT_HAN_LOWER "+" CONTRACTIONS
                 "?|[^\\r\\n\\p{L}\\p{N}]?" NOT_HAN_UPPER "+" NOT_HAN_LOWER "*" CONTRACTIONS
                 "?|\\p{N}{1,3}" REST}},
    {.names = {"afmoe"}, .regexes = {"\\d{1,3}(?=(?:\\d{3})*\\b)", ASIAN, DEEPSEEK_WORDS}},
    {.names = {"exaone-moe"},
     .regexes = {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| "
                              "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|"
                              "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {.names = {"jais-2"}, .regexes = {clef__jais2_regex}},
    {.names = {"minicpm5"},
     .regexes = {"\\p{N}{1,3}", CONTRACTIONS "|" WORD "|\\p{N}+" REST},
     .ignore_merges = 1},
    {.names = {"ufakzeka"}, .regexes = {WORD "|\\p{N}" REST}},
    {.names = {"laguna"}, .regexes = {"[^\\n]+|[\\n]+", GPT4_DIGITS1}},
    {.names = {"gemma4", "granite-embed-multi-311m"},
     .regexes = {"[^\\n]+|[\\n]+"},
     .escapes = 1,
     .add_bos = CLEF_GGUF_BOS_ALWAYS},
    {.names = {"sarvam-moe"}, .regexes = {"[^\\n]+|[\\n]+"}, .escapes = 1},
};

enum { N_KINDS = sizeof kinds / sizeof *kinds };

clef_status clef__gguf_pre_find(const char *name, const char *path, const clef__gguf_pre **out,
                                clef_error *err)
{
    char known[sizeof err->text] = "";
    const size_t n_around = strlen(path) + strlen(name) + 64,
                 room = n_around < sizeof known ? sizeof known - n_around : 0;
    int n_more = 0;
    for (size_t i = 0; i < N_KINDS; i++)
        for (const char *const *at = kinds[i].names; *at; at++) {
            if (strcmp(name, *at) == 0) {
                *out = &kinds[i];
                return CLEF_OK;
            }
            if (strlen(known) + strlen(*at) + 3 < room) {
                strcat(known, *known ? ", " : "");
                strcat(known, *at);
            } else {
                n_more++;
            }
        }
    char more[32] = "";
    if (n_more)
        snprintf(more, sizeof more, " and %d more", n_more);
    return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: pre-tokenizer \"%s\" is not supported; known: %s%s", path,
                      name, known, more);
}

static int same_regexes(const clef__gguf_pre *kind, const char *const *regexes, size_t n)
{
    size_t i = 0;
    while (i < n && i < CLEF_GGUF_REGEXES && kind->regexes[i] && strcmp(kind->regexes[i], regexes[i]) == 0)
        i++;
    return i == n && (i == CLEF_GGUF_REGEXES || !kind->regexes[i]);
}

const clef__gguf_pre *clef__gguf_pre_of(const clef__gguf_pre *like, size_t n_regexes)
{
    const clef__gguf_pre *best = NULL;
    int most = -1;
    for (size_t i = 0; i < N_KINDS; i++) {
        if (kinds[i].escapes || !same_regexes(&kinds[i], like->regexes, n_regexes))
            continue;
        const int score = 4 * (kinds[i].nfc == like->nfc) +
                          2 * (kinds[i].ignore_merges == like->ignore_merges) +
                          (kinds[i].is_roberta == like->is_roberta);
        if (score > most) {
            most = score;
            best = &kinds[i];
        }
    }
    return best;
}

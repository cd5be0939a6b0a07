/* Texts of tokens that end a text, as llama.cpp knows them (src/llama-vocab.cpp): many files name one end
 * token alone, or write such tokens as ordinary ones. */
#ifndef CLEF_MODEL_END_TEXTS_H
#define CLEF_MODEL_END_TEXTS_H

/** What ends a text; then Qwen's and Granite's tokens between files, which end one, too. */
#define CLEF_END_TEXTS                                                                                       \
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",               \
        "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",         \
        "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",                     \
        "<\xEF\xBD\x9C"                                                                                      \
        "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",                                                \
        "[e~[", "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]", "<|fim_repo|>", "<|repo_name|>",  \
        "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>"

#endif

/* The class of a folder's tokenizer, as transformers' AutoTokenizer chooses it
 * (models/auto/tokenization_auto.py of 5.24): tokenizer_config.json names it, config.json's model_type may
 * overrule the name. */
#include <string.h>

#include "model/tokenizer/read/auto.h"

/* The classes that make their own stages, by their names and without "Fast". */
static const struct {
    const char *names; /* separated by spaces */
    clef__auto_kind kind;
} classes[] = {
    {"TokenizersBackend PreTrainedTokenizer PythonBackend BloomTokenizer ParakeetTokenizer",
     CLEF_AUTO_BACKEND},
    {"BertTokenizer DistilBertTokenizer ElectraTokenizer MobileBertTokenizer ConvBertTokenizer "
     "LxmertTokenizer "
     "SqueezeBertTokenizer DPRContextEncoderTokenizer DPRQuestionEncoderTokenizer DPRReaderTokenizer",
     CLEF_AUTO_BERT},
    {"MPNetTokenizer", CLEF_AUTO_MPNET},
    {"GPT2Tokenizer CodeGenTokenizer", CLEF_AUTO_GPT2},
    {"RobertaTokenizer BartTokenizer LEDTokenizer LongformerTokenizer MvpTokenizer", CLEF_AUTO_ROBERTA},
    {"BlenderbotTokenizer", CLEF_AUTO_BLENDERBOT},
    {"LlamaTokenizer Phi3Tokenizer", CLEF_AUTO_LLAMA},
    {"CodeLlamaTokenizer", CLEF_AUTO_CODE_LLAMA},
    {"GemmaTokenizer", CLEF_AUTO_GEMMA},
    {"Qwen2Tokenizer", CLEF_AUTO_QWEN2},
    {"Qwen3_5Tokenizer", CLEF_AUTO_QWEN3_5},
    {"GPTNeoXTokenizer", CLEF_AUTO_GPT_NEOX},
    {"CohereTokenizer", CLEF_AUTO_COHERE},
    {"T5Tokenizer", CLEF_AUTO_T5},
    {"XLMRobertaTokenizer", CLEF_AUTO_XLM_ROBERTA},
    {"AlbertTokenizer FNetTokenizer", CLEF_AUTO_ALBERT},
    {"NllbTokenizer", CLEF_AUTO_NLLB},
    {"MBartTokenizer", CLEF_AUTO_MBART},
    {"MBart50Tokenizer", CLEF_AUTO_MBART50},
    {"PegasusTokenizer", CLEF_AUTO_PEGASUS},
    {"CamembertTokenizer", CLEF_AUTO_CAMEMBERT},
    {"WhisperTokenizer", CLEF_AUTO_WHISPER},
    {"BarthezTokenizer BartphoTokenizer BertGenerationTokenizer BertJapaneseTokenizer "
     "BertweetTokenizer BigBirdTokenizer BioGptTokenizer BlenderbotSmallTokenizer ByT5Tokenizer "
     "CLIPTokenizer CTRLTokenizer CanineTokenizer ClvpTokenizer CpmAntTokenizer CpmTokenizer "
     "DebertaTokenizer DebertaV2Tokenizer DiaTokenizer EsmTokenizer EsmcTokenizer FSMTTokenizer "
     "FastSpeech2ConformerTokenizer FlaubertTokenizer FunnelTokenizer GPTNeoXJapaneseTokenizer "
     "GPTSw3Tokenizer HerbertTokenizer LasrTokenizer LayoutLMv2Tokenizer LayoutLMv3Tokenizer "
     "LayoutXLMTokenizer LukeTokenizer M2M100Tokenizer MLukeTokenizer MarianTokenizer "
     "MarkupLMTokenizer MgpstrTokenizer MyT5Tokenizer NougatTokenizer OpenAIGPTTokenizer "
     "PLBartTokenizer PerceiverTokenizer PhobertTokenizer Pop2PianoTokenizer ProphetNetTokenizer "
     "RagTokenizer ReformerTokenizer RemBertTokenizer RoCBertTokenizer RoFormerTokenizer "
     "SeamlessM4TTokenizer Siglip2Tokenizer SiglipTokenizer Speech2TextTokenizer SpeechT5Tokenizer "
     "SplinterTokenizer TapasTokenizer Tipsv2Tokenizer UdopTokenizer VideoPrismTokenizer "
     "VitsTokenizer Wav2Vec2CTCTokenizer Wav2Vec2PhonemeCTCTokenizer XGLMTokenizer XLMTokenizer "
     "XLNetTokenizer",
     CLEF_AUTO_OTHER},
};

/* The class of a model_type. A type that is not here has TokenizersBackend, but does not overrule the name.
 */
static const struct {
    const char *class_name, *model_types;
} by_model[] = {
    {"TokenizersBackend",
     "aria bigbird_pegasus flex_olmo glm glm4 glm4_moe glm4_moe_lite glm4v glm4v_moe got_ocr2 gpt_bigcode "
     "granite granitemoe granitemoehybrid granitemoeshared kimi_k25 kimi_linear kosmos-2 mimo_v2_flash "
     "ministral ministral3 mistral mistral3 mistral_large4 mixtral nystromformer olmo2 olmo3 olmo_hybrid "
     "pegasus_x persimmon pix2struct pixtral stablelm umt5 voxtral xlm-roberta-xl"},
    {"BertTokenizer",
     "align bark bert blip bros chinese_clip convbert distilbert electra ernie flava git "
     "grounding-dino layoutlm megatron-bert mm-grounding-dino nezha nomic_bert qdqbert realm "
     "retribert squeezebert tvp vilt visual_bert"},
    {"MobileBertTokenizer", "mobilebert"},
    {"LxmertTokenizer", "lxmert"},
    {"MPNetTokenizer", "mpnet"},
    {"GPT2Tokenizer",
     "blip-2 codegen dbrx emu3 gpt2 gpt_neo gptj instructblip instructblipvideo jais2 opt phi "
     "starcoder2 hyperclovax_vision_v2"},
    {"RobertaTokenizer", "bart bridgetower clap data2vec-text ibert lilt longformer mega mra roberta "
                         "roberta-prelayernorm"},
    {"BartTokenizer", "florence2"},
    {"LEDTokenizer", "led"},
    {"MvpTokenizer", "mvp"},
    {"BlenderbotTokenizer", "blenderbot"},
    {"LlamaTokenizer", "idefics idefics2"},
    {"CodeLlamaTokenizer", "code_llama"},
    {"GemmaTokenizer", "diffusion_gemma gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma "
                       "shieldgemma2 t5gemma zaya"},
    {"Qwen2Tokenizer", "audioflamingo3 colqwen2 hunyuan_vl internvl ovis2 qwen2 qwen2_5_omni qwen2_5_vl "
                       "qwen2_audio qwen2_moe qwen2_vl qwen3 qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe "
                       "qwen3_vl qwen3_vl_moe lighton_ocr vibevoice cosmos3_omni dots3_note fun_asr_nano "
                       "moss_transcribe_diarize qianfan_ocr"},
    {"Qwen3_5Tokenizer", "qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen4_exp"},
    {"GPTNeoXTokenizer", "falcon_mamba gpt_neox mamba mamba2 mpt olmo olmoe rwkv xlstm"},
    {"CohereTokenizer", "aya_vision cohere cohere2"},
    {"T5Tokenizer", "mt5 musicgen musicgen_melody switch_transformers t5"},
    {"XLMRobertaTokenizer", "gte jina_embeddings_v3 metaclip_2 trocr xlm-roberta xmod"},
    {"AlbertTokenizer", "albert yoso"},
    {"FNetTokenizer", "fnet"},
    {"MBartTokenizer", "mbart"},
    {"MBart50Tokenizer", "mbart50"},
    {"M2M100Tokenizer", "m2m_100"},
    {"MarianTokenizer", "marian"},
    {"NllbTokenizer", "nllb nllb-moe"},
    {"PegasusTokenizer", "pegasus"},
    {"CamembertTokenizer", "camembert"},
    {"BigBirdTokenizer", "big_bird"},
    {"DebertaTokenizer", "deberta"},
    {"DebertaV2Tokenizer", "deberta-v2"},
    {"XLNetTokenizer", "xlnet"},
    {"XGLMTokenizer", "xglm"},
    {"WhisperTokenizer", "whisper"},
    {"CLIPTokenizer", "aimv2 clip clipseg groupvit omdet-turbo oneformer owlv2 owlvit sam3 sam3_video xclip"},
    {"OpenAIGPTTokenizer", "openai-gpt"},
    {"BarthezTokenizer", "barthez"},
    {"BartphoTokenizer", "bartpho"},
    {"BertGenerationTokenizer", "bert-generation"},
    {"BertJapaneseTokenizer", "bert-japanese"},
    {"BertweetTokenizer", "bertweet"},
    {"BioGptTokenizer", "biogpt"},
    {"BlenderbotSmallTokenizer", "blenderbot-small"},
    {"ByT5Tokenizer", "byt5"},
    {"CTRLTokenizer", "ctrl"},
    {"CanineTokenizer", "canine"},
    {"ClvpTokenizer", "clvp"},
    {"CpmAntTokenizer", "cpmant"},
    {"CpmTokenizer", "cpm"},
    {"DPRQuestionEncoderTokenizer", "dpr"},
    {"DiaTokenizer", "dia"},
    {"EsmTokenizer", "esm"},
    {"EsmcTokenizer", "esmc esmfold2"},
    {"FSMTTokenizer", "fsmt"},
    {"FlaubertTokenizer", "flaubert"},
    {"FunnelTokenizer", "funnel"},
    {"GPTNeoXJapaneseTokenizer", "gpt_neox_japanese"},
    {"GPTSw3Tokenizer", "gpt-sw3"},
    {"HerbertTokenizer", "herbert"},
    {"LasrTokenizer", "lasr_ctc lasr_encoder"},
    {"LayoutLMv2Tokenizer", "layoutlmv2"},
    {"LayoutLMv3Tokenizer", "layoutlmv3"},
    {"LayoutXLMTokenizer", "layoutxlm"},
    {"LukeTokenizer", "luke"},
    {"MLukeTokenizer", "mluke"},
    {"MarkupLMTokenizer", "markuplm"},
    {"MgpstrTokenizer", "mgp-str"},
    {"MyT5Tokenizer", "myt5"},
    {"NougatTokenizer", "nougat pp_formulanet"},
    {"PLBartTokenizer", "plbart"},
    {"PerceiverTokenizer", "perceiver"},
    {"PhobertTokenizer", "phobert"},
    {"ProphetNetTokenizer", "prophetnet"},
    {"RagTokenizer", "rag"},
    {"ReformerTokenizer", "reformer"},
    {"RemBertTokenizer", "rembert"},
    {"RoCBertTokenizer", "roc_bert"},
    {"RoFormerTokenizer", "roformer"},
    {"SeamlessM4TTokenizer", "seamless_m4t seamless_m4t_v2"},
    {"Siglip2Tokenizer", "siglip2"},
    {"SiglipTokenizer", "siglip"},
    {"Speech2TextTokenizer", "speech_to_text"},
    {"SpeechT5Tokenizer", "speecht5"},
    {"SplinterTokenizer", "splinter"},
    {"TapasTokenizer", "tapas"},
    {"Tipsv2Tokenizer", "tipsv2"},
    {"UdopTokenizer", "udop"},
    {"VideoPrismTokenizer", "videoprism"},
    {"VitsTokenizer", "vits"},
    {"Wav2Vec2CTCTokenizer",
     "data2vec-audio hubert unispeech unispeech-sat wav2vec2 wav2vec2-bert wav2vec2-conformer"},
    {"Wav2Vec2PhonemeCTCTokenizer", "wav2vec2_phoneme"},
    {"XLMTokenizer", "xlm"},
};

/* Models whose published files name a wrong class: the model_type's counts. */
static const char overruling[] =
    "arctic camembertv2-base chatlm cohere_asr ernie4_5 ernie4_5_moe fuyu h2ovl_chat hyperclovax "
    "hyperclovax_vision_v2 hyperclovax_vlm internlm2 internlm3 iquestcoder jamba llava llava_next minicpm3 "
    "minicpmv minimax_m2 modernbert modernbert-decoder molmo molmo2 nemotron nvfp4 opencua openvla "
    "paddleocr_vl "
    "phi3 phi3_v phimoe qwen2 qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen4_exp siglip2 smolvlm step3_vl "
    "vipllava";

/* Whether a list of words that are separated by spaces has a word of n bytes. */
static int has_word(const char *list, const char *word, size_t n)
{
    for (const char *at = list; n > 0 && *at; at++) {
        const size_t length = strcspn(at, " ");
        if (length == n && memcmp(at, word, n) == 0)
            return 1;
        at += length;
        if (!*at)
            break;
    }
    return 0;
}

/* The length of a class name without "Fast". */
static size_t plain_length(const char *name)
{
    const size_t n = strlen(name);
    return n > 4 && strcmp(name + n - 4, "Fast") == 0 ? n - 4 : n;
}

/* The class of a model_type, NULL: it has none. */
static const char *class_of_model(const char *model_type)
{
    for (size_t i = 0; i < sizeof by_model / sizeof *by_model; i++)
        if (has_word(by_model[i].model_types, model_type, strlen(model_type)))
            return by_model[i].class_name;
    return has_word(overruling, model_type, strlen(model_type)) ? "TokenizersBackend" : NULL;
}

/* A class that transformers does not know is TokenizersBackend. */
static clef__auto_kind kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (has_word(classes[i].names, name, plain_length(name)))
            return classes[i].kind;
    return CLEF_AUTO_BACKEND;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text && *text ? text : NULL;
}

/* Whether a stage of the file, at any depth, is ByteLevel. */
static int is_byte_level(const json_t *value)
{
    const char *key, *type = json_string_value(json_object_get(value, "type"));
    json_t *inner;
    size_t i;
    if (type && strcmp(type, "ByteLevel") == 0)
        return 1;
    json_array_foreach((json_t *)value, i, inner)
        if (is_byte_level(inner))
            return 1;
    json_object_foreach((json_t *)value, key, inner)
        if (strcmp(key, "model") != 0 && strcmp(key, "added_tokens") != 0 && is_byte_level(inner))
            return 1;
    return 0;
}

/* Whether the name says a class without stages of its own. */
static int is_backend(const char *name)
{
    return kind_of(name) == CLEF_AUTO_BACKEND;
}

clef_status clef__auto_class(clef__auto *a)
{
    const char *model_type = text_of(a->model_config, "model_type"),
               *name = text_of(a->config, "tokenizer_class");
    const char *of_model = model_type ? class_of_model(model_type) : NULL;
    const int overrules = model_type && has_word(overruling, model_type, strlen(model_type));
    if (!name)
        name = text_of(a->model_config, "tokenizer_class");
    const int is_llama =
        name && strncmp(name, "LlamaTokenizer", plain_length(name)) == 0 && plain_length(name) == 14;
    a->class_name = "TokenizersBackend";
    a->is_named = name != NULL;
    if (is_llama && !overrules && is_byte_level(a->file))
        ;
    else if (name && of_model &&
             (strlen(of_model) != plain_length(name) || strncmp(name, of_model, plain_length(name)) != 0))
        a->class_name = is_backend(of_model) ? "TokenizersBackend" : overrules ? of_model : name;
    else if (name || of_model)
        a->class_name = name ? name : of_model;
    a->kind = kind_of(a->class_name);
    return CLEF_OK;
}

#!/usr/bin/env python3
"""A real Whisper beside transformers with the same weights: what espeak-ng says, as text and with times.

In a turn (CLEF_TEST_TURN) some of the sentences, and a shorter long sound.

usage: speech.py CLEF FOLDER [--speed ROUNDS]     FOLDER holds CTranslate2's model.bin, config.json and tokenizer.json
  --speed   instead: seconds for the long sound, clef and transformers in turn
needs: espeak-ng, numpy, safetensors, PyTorch, transformers
"""
import json, os, shutil, struct, subprocess, sys, tempfile, time, wave
import numpy as np, torch, transformers as hf
from safetensors.numpy import save_file
from transformers.models.whisper.tokenization_whisper import _combine_tokens_into_words
from turn import in_turn

clef, source = sys.argv[1:3]
failed = 0
RATE, MOST_APART = 16000, 0.04
SENTENCES = """The quick brown fox jumps over the lazy dog near the river bank.
She sells sea shells by the sea shore every summer morning.
Our meeting starts at nine thirty on Tuesday the fourth of March.
Please send the report to the finance department before noon.
The committee approved the budget for the new hospital wing.
A heavy storm moved across the northern mountains last night.
Scientists discovered a small planet orbiting a distant star.
My grandmother baked fresh bread and told us old stories.
The train to London departs from platform seven in ten minutes.
He bought three apples, two oranges and a bottle of milk.
Children were playing football in the park until sunset.
The library closes early on Fridays during the winter season.""".splitlines()
VOICES = ["en-us", "en-gb", "en-us+f3", "en-gb-scotland", "en-us+m3"]


def line(ok, what):
    global failed
    failed += not ok
    print("ok" if ok else "FAIL", what, flush=True)


# ---- the model ---------------------------------------------------------------------------------------------------------------------


# CTranslate2's file: version, name and revision of the kind, then each tensor's name, sizes, type and bytes.
def read_tensors(path):
    data, at = open(path, "rb").read(), 0

    def number(form):
        nonlocal at
        at += struct.calcsize("<" + form)
        return struct.unpack_from("<" + form, data, at - struct.calcsize("<" + form))[0]

    def text():
        nonlocal at
        n = number("H")
        at += n
        return data[at - n:at - 1].decode()

    number("I"), text(), number("I")
    tensors, types = {}, {0: np.float32, 4: np.float16}
    for _ in range(number("I")):
        name, sizes = text(), [number("I") for _ in range(number("B"))]
        kind, n = number("B"), number("I")
        if kind in types:
            tensors[name] = np.frombuffer(data[at:at + n], types[kind]).reshape(sizes)
        at += n
    return tensors


# Queries, keys and values are one tensor there; keys have a bias, which is 0.
def transformers_names(old, n_vocab):
    new = {"model.decoder.embed_tokens.weight": old["decoder/embeddings/weight"][:n_vocab]}
    n_layers = len({name.split("/")[1] for name in old if name.startswith("encoder/layer_") and "self" in name})

    def product(to, name, parts=("",)):
        for kind in ("weight", "bias"):
            for part, x in zip(parts, np.split(old[f"{name}/{kind}"], len(parts))):
                if (part, kind) != ("k_proj", "bias"):
                    new[f"{to}{part}.{kind}"] = x

    def norm(to, name):
        new[to + ".weight"], new[to + ".bias"] = old[name + "/gamma"], old[name + "/beta"]

    for side in ("encoder", "decoder"):
        for i in range(n_layers):
            to, name = f"model.{side}.layers.{i}.", f"{side}/layer_{i}/"
            norm(to + "self_attn_layer_norm", name + "self_attention/layer_norm")
            product(to + "self_attn.", name + "self_attention/linear_0", ("q_proj", "k_proj", "v_proj"))
            product(to + "self_attn.out_proj", name + "self_attention/linear_1")
            norm(to + "final_layer_norm", name + "ffn/layer_norm")
            product(to + "fc1", name + "ffn/linear_0")
            product(to + "fc2", name + "ffn/linear_1")
            if side == "decoder":
                norm(to + "encoder_attn_layer_norm", name + "attention/layer_norm")
                product(to + "encoder_attn.q_proj", name + "attention/linear_0")
                product(to + "encoder_attn.", name + "attention/linear_1", ("k_proj", "v_proj"))
                product(to + "encoder_attn.out_proj", name + "attention/linear_2")
        norm(f"model.{side}.layer_norm", side + "/layer_norm")
        new[f"model.{side}.embed_positions.weight"] = old[side + "/position_encodings/encodings"]
    for i in ("1", "2"):
        product("model.encoder.conv" + i, "encoder/conv" + i)
    return {name: np.ascontiguousarray(x, np.float16) for name, x in new.items()}, n_layers


def write_folder(folder):
    given = json.load(open(source + "/config.json"))
    tokenizer = json.load(open(source + "/tokenizer.json"))
    special = {t["content"]: t["id"] for t in tokenizer["added_tokens"]}
    end, n_vocab = special["<|endoftext|>"], special["<|notimestamps|>"] + 1 + 1501
    weights, n_layers = transformers_names(read_tensors(source + "/model.bin"), n_vocab)
    n_mels, d = weights["model.encoder.conv1.weight"].shape[1], weights["model.encoder.conv1.weight"].shape[0]
    save_file(weights, folder + "/model.safetensors", metadata={"format": "pt"})
    ends = dict(pad_token_id=end, bos_token_id=end, eos_token_id=end, decoder_start_token_id=special["<|startoftranscript|>"])
    sides = {f"{side}_{what}": n for side in ("encoder", "decoder")
             for what, n in (("layers", n_layers), ("attention_heads", d // 64), ("ffn_dim", 4 * d))}
    files = dict(
        config=dict(architectures=["WhisperForConditionalGeneration"], model_type="whisper", vocab_size=n_vocab, num_mel_bins=n_mels,
                    d_model=d, dtype="float16", **sides, **ends),
        generation_config=dict(suppress_tokens=given["suppress_ids"], begin_suppress_tokens=given["suppress_ids_begin"],
                               alignment_heads=given["alignment_heads"], is_multilingual=False, max_initial_timestamp_index=50,
                               no_timestamps_token_id=special["<|notimestamps|>"], prev_sot_token_id=special["<|startofprev|>"],
                               max_length=448, return_timestamps=False, **ends),
        preprocessor_config=dict(feature_extractor_type="WhisperFeatureExtractor", feature_size=n_mels, sampling_rate=RATE),
        tokenizer_config=dict(tokenizer_class="WhisperTokenizer", **{f"{t}_token": "<|endoftext|>" for t in ("bos", "eos", "pad", "unk")}))
    for name, content in files.items():
        json.dump(content, open(f"{folder}/{name}.json", "w"))
    shutil.copy(source + "/tokenizer.json", folder)


# ---- sounds ------------------------------------------------------------------------------------------------------------------------


# 16-bit samples at 16 kHz, so that neither side has to change the rate.
def say(text, voice, speed, folder):
    subprocess.run(["espeak-ng", "-v", voice, "-s", str(speed), "-w", folder + "/said.wav", text], check=True, timeout=60)
    with wave.open(folder + "/said.wav") as file:
        x, rate = np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float64), file.getframerate()
    n = len(x) * RATE // rate
    spectrum = np.fft.rfft(x)[:n // 2 + 1]
    return np.clip(np.fft.irfft(spectrum, n) * n / len(x), -32768, 32767).astype(np.int16)


def write_sound(path, x):
    with wave.open(path, "wb") as file:
        file.setnchannels(1), file.setsampwidth(2), file.setframerate(RATE)
        file.writeframes(x.tobytes())


# Three minutes, with pauses of different lengths.
def join(said, seconds=180):
    parts, i = [], 0
    while sum(map(len, parts)) < seconds * RATE:
        parts += [said[i % len(said)], np.zeros(RATE * (5 + 7 * i % 11) // 10, np.int16)]
        i += 1
    return np.concatenate(parts)


# ---- both sides --------------------------------------------------------------------------------------------------------------------


def run(*args):
    r = subprocess.run([clef, "transcribe", *args, "--temperature", "0", "--no-speech", "-1", "-q"], capture_output=True, text=True, timeout=600)
    if r.returncode:
        raise RuntimeError(f"exit {r.returncode}: {r.stderr.strip()[-300:]}")
    return r.stdout


def transformers_of(folder):
    model = hf.WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    return hf.pipeline("automatic-speech-recognition", model=model, tokenizer=hf.WhisperTokenizer.from_pretrained(folder),
                       feature_extractor=hf.WhisperFeatureExtractor.from_pretrained(folder), device="cpu")


# The pipeline would search with five beams.
def heard(recognise, x, beams=1, **options):
    return recognise(dict(raw=x.astype(np.float32) / 32768, sampling_rate=RATE), generate_kwargs=dict(num_beams=beams), **options)


# Segments and words with their times. The pipeline would join segments of windows that begin before the last one's end.
def timed(recognise, x):
    inputs = recognise.feature_extractor(x.astype(np.float32) / 32768, sampling_rate=RATE, return_tensors="pt", return_attention_mask=True,
                                         truncation=False, padding="longest")
    found = recognise.model.generate(**inputs, return_timestamps=True, return_token_timestamps=True, return_segments=True, num_beams=1)
    segments, words = [], []
    for s in found["segments"][0]:
        ids, ends = s["tokens"].tolist(), s["token_timestamps"].tolist()
        kept = [i for i, id in enumerate(ids) if id < recognise.tokenizer.eos_token_id]
        segments.append((recognise.tokenizer.decode([ids[i] for i in kept]), float(s["start"]), float(s["end"])))
        texts, _, places = _combine_tokens_into_words(recognise.tokenizer, [ids[i] for i in kept], "english")
        words += [(text, ends[kept[at[0]] - 1], ends[kept[at[-1]]]) for text, at in zip(texts, places)]
    return segments, words


def compare_times(what, want, got):
    same = [w[0].strip() for w in want] == [g[0].strip() for g in got]
    apart = max((abs(a - b) for w, g in zip(want, got) for a, b in zip(w[1:], g[1:])), default=np.inf)
    line(same and apart <= MOST_APART, f"{what}: {len(want)} expected, {len(got)} found, texts {'equal' if same else 'differ'}, "
                                       f"times within {1000 * apart:.0f} ms")


def compare(recognise, folder, said, place):
    long = join(said, 70 if "CLEF_TEST_TURN" in os.environ else 180)  # 70 s: a third window begins, and ends early
    for i, x in enumerate(said):
        if not in_turn(i, len(said)):
            continue
        write_sound(place + "/short.wav", x)
        for beams in (1, 5) if i % 6 == 0 else (1,):
            options = ["--beams", str(beams)] if beams > 1 else []
            want, got = heard(recognise, x, beams)["text"].strip(), run(folder, place + "/short.wav", *options).strip()
            line(want == got and len(want) > 0, f"sentence {i}, beams {beams}: {got}" + ("" if want == got else f"; expected {want}"))
    write_sound(place + "/long.wav", long)
    segments, words = timed(recognise, long)
    got = json.loads(run(folder, place + "/long.wav", "--format", "json", "--words"))["segments"]
    compare_times("segments", segments, [(s["text"], s["start"], s["end"]) for s in got])
    compare_times("words", words, [(w["word"], w["start"], w["end"]) for s in got for w in s["words"]])


def speed(recognise, folder, said, place, rounds):
    long, took = join(said), [[], []]
    write_sound(place + "/long.wav", long)
    write_sound(place + "/none.wav", long[:RATE // 10])
    work = lambda path: run(folder, path, "--timestamps", "yes")
    work(place + "/long.wav")
    for _ in range(rounds):
        for side, both in enumerate((lambda: work(place + "/long.wav"), lambda: heard(recognise, long, return_timestamps=True))):
            began = time.perf_counter(), os.times()
            both()
            ended = time.perf_counter(), os.times()
            cpu = sum(ended[1][:4]) - sum(began[1][:4])
            took[side].append((ended[0] - began[0], cpu))
    for name, times in zip(("clef, with its start", "transformers, loaded before"), took):
        wall, cpu = np.min(times, 0)
        print(f"{name}: {wall:.2f} s, {cpu:.2f} s of processors for {len(long) / RATE:.0f} s of sound: {len(long) / RATE / wall:.0f} x real time")


with tempfile.TemporaryDirectory() as place:
    folder = place + "/model"
    os.mkdir(folder)
    write_folder(folder)
    said = [say(text, VOICES[i % len(VOICES)], 135 + 5 * (i % 4), place) for i, text in enumerate(SENTENCES)]
    hf.logging.set_verbosity_error()
    recognise = transformers_of(folder)
    if sys.argv[3:4] == ["--speed"]:
        speed(recognise, folder, said, place, int(sys.argv[4]))
    else:
        compare(recognise, folder, said, place)
sys.exit(failed > 0)

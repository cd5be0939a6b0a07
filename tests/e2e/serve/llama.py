"""What llama-server's reference (tools/server/README.md of ggml-org/llama.cpp) says of its own routes."""
import math
import os
import subprocess

from serving import COMMAND, Server, check, events, finish, same, spaced_model

PROMPT = "The king said to his men"


def completion(s, **fields):
    return s.post("/completion", {"prompt": PROMPT, "n_predict": 8, "temperature": 0, **fields})


def is_entry(entry, n, number, tops):
    of = [entry, *entry[tops]]
    return len(entry[tops]) == n and all(e["id"] >= 0 and isinstance(e["token"], str) and isinstance(e["bytes"], list) and e[number] <= 1 for e in of)


def replies(s):
    ids = s.post("/tokenize", {"content": PROMPT, "add_special": True}).json["tokens"]
    j = completion(s, cache_prompt=False, stop=["zzz"], seed=7).json
    same("counts", [len(ids), 8, len(ids), 8, len(ids) + 8],
         [j["timings"]["prompt_n"], j["timings"]["predicted_n"], j["tokens_evaluated"], j["tokens_predicted"], j["tokens_cached"]])
    same("how it ended", [True, "limit", "", False, "\n" in j["content"], [], PROMPT],
         [j[k] for k in ("stop", "stop_type", "stopping_word", "truncated", "has_new_line", "tokens", "prompt")])
    settings = j["generation_settings"]
    same("settings", [8, 7, 0, ["zzz"], False, []], [settings[k] for k in ("n_predict", "seed", "temperature", "stop", "stream", "logit_bias")])
    completion(s)
    cached = completion(s).json
    same("the same from the cache", [j["content"], 1], [cached["content"], cached["timings"]["prompt_n"]])
    same("and without it", len(ids), completion(s, cache_prompt=False).json["timings"]["prompt_n"])
    same("tokens", 8, len(completion(s, return_tokens=True).json["tokens"]))
    got = completion(s, response_fields=["content", "generation_settings/n_predict", "timings/prompt_n", "nothing/here"]).json
    same("response_fields", {"content": j["content"], "generation_settings/n_predict": 8, "timings/prompt_n": 1}, got)
    word = next(w for w in j["content"].split(" ")[1:] if w)
    cut = completion(s, stop=[word]).json
    same("a stop string", ["word", word, j["content"][:j["content"].index(word)]], [cut["stop_type"], cut["stopping_word"], cut["content"]])
    whole = s.post("/completion", {"prompt": "a", "n_predict": -1, "temperature": 0, "ignore_eos": True}).json
    ends = whole["generation_settings"]["logit_bias"]
    same("the context is full", [True, "limit", 64], [whole["truncated"], whole["stop_type"], whole["tokens_cached"]])
    check("ends that are ignored", ends and all(e["bias"] is None for e in ends), ends)
    only = completion(s, n_predict=0, cache_prompt=True, prompt=PROMPT + " and").json
    same("a prompt for the cache alone", ["", 0, 0, "limit"], [only["content"], only["tokens_predicted"], only["timings"]["predicted_n"], only["stop_type"]])
    same("which is in it", 1, completion(s, prompt=PROMPT + " and").json["timings"]["prompt_n"])


def prompts(s):
    ids = s.post("/tokenize", {"content": PROMPT, "add_special": True}).json["tokens"]
    one = completion(s).json["content"]
    for name, prompt in {"ids": ids, "an object": {"prompt_string": PROMPT}, "ids and a text": [ids[0], *ids[1:3], s.post("/detokenize", {"tokens": ids[3:]}).json["content"]]}.items():
        same(f"prompt: {name}", one, completion(s, prompt=prompt).json["content"])
    for name, prompt in {"ids twice": [ids, ids], "a text and ids": [PROMPT, ids], "texts": [PROMPT, PROMPT], "with an object": [{"prompt_string": PROMPT}, ids]}.items():
        same(f"prompts: {name}", [(0, one), (1, one)], [(r["index"], r["content"]) for r in completion(s, prompt=prompt).json])
    same("several of one prompt", 2, len(completion(s, n_cmpl=2).json))
    lines = events(completion(s, prompt=[PROMPT, ids], stream=True).text)
    same("a stream of two", [one, one], ["".join(e["content"] for e in lines if e["index"] == i) for i in (0, 1)])
    same("which end once each", 2, sum(e["stop"] for e in lines))
    for data in (["AAAA"], "AAAA"):
        same("pictures are refused by name", 400, completion(s, prompt={"prompt_string": "a", "multimodal_data": data}).status)


def streams(s):
    one = completion(s).json
    lines = events(completion(s, stream=True, timings_per_token=True).text)
    same("a stream's text", one["content"], "".join(e["content"] for e in lines))
    check("an event for each token", len(lines) == 9 and all(len(e["tokens"]) == 1 and not e["stop"] and "timings" in e for e in lines[:-1]), lines)
    check("its last event", lines[-1]["stop"] and lines[-1]["generation_settings"]["stream"] and lines[-1]["tokens"] == [], lines[-1])
    ahead = [e for e in events(completion(s, stream=True, return_progress=True, cache_prompt=False).text) if "prompt_progress" in e]
    check("its prompt's progress", ahead and all(not e["tokens"] and not e["content"] for e in ahead) and ahead[-1]["prompt_progress"]["processed"] == ahead[-1]["tokens_evaluated"], ahead)
    check("all its events have a place", all(e["id_slot"] == lines[-1]["id_slot"] for e in lines), lines)
    same("no [DONE]", False, "[DONE]" in completion(s, stream=True).text)


def probabilities(s):
    got = completion(s, n_probs=5).json["completion_probabilities"]
    check("n_probs", len(got) == 8 and all(is_entry(e, 5, "logprob", "top_logprobs") and e["logprob"] == e["top_logprobs"][0]["logprob"] for e in got), got[:1])
    lines = events(completion(s, n_probs=5, stream=True).text)
    same("in a stream, one for each token", [[e] for e in got], [e["completion_probabilities"] for e in lines[:-1]])
    got = completion(s, n_probs=5, post_sampling_probs=True).json["completion_probabilities"]
    check("after sampling", all(is_entry(e, 5, "prob", "top_probs") and e["prob"] == 1 and [p["prob"] for p in e["top_probs"]].count(1) == 1 for e in got), got[:1])
    drawn = {"n_probs": 5, "post_sampling_probs": True, "temperature": 1, "seed": 7}
    got = completion(s, **drawn).json["completion_probabilities"]
    check("what was drawn, among which", all(is_entry(e, 5, "prob", "top_probs") and 0 < e["prob"] <= 1 for e in got), got[:1])
    plain = completion(s, **dict(drawn, post_sampling_probs=False)).json["completion_probabilities"]
    same("without other samplers as before sampling", [[e["id"]] + [round(p["logprob"], 3) for p in e["top_logprobs"]] for e in plain],
         [[e["id"]] + [round(math.log(p["prob"]), 3) for p in e["top_probs"]] for e in got])
    got = completion(s, top_k=2, **drawn).json["completion_probabilities"]
    check("of two that are left", all(len(e["top_probs"]) == 2 and abs(sum(p["prob"] for p in e["top_probs"]) - 1) < 1e-5 and e["id"] in [p["id"] for p in e["top_probs"]] for e in got), got[:1])
    first, odds = plain[0]["top_logprobs"], [p["prob"] for p in got[0]["top_probs"]]
    check("by their own odds", abs(math.log(odds[0] / odds[1]) - (first[0]["logprob"] - first[1]["logprob"])) < 1e-3, (first, odds))
    lines = events(completion(s, top_k=2, stream=True, **drawn).text)
    same("the same in a stream", [[e] for e in got], [e["completion_probabilities"] for e in lines[:-1]])
    grammar = completion(s, grammar='root ::= "a" "b"', **drawn).json["completion_probabilities"]
    check("under a grammar", grammar and all(0 < e["prob"] <= 1 for e in grammar), grammar[:1])
    text = completion(s).json["content"]
    word = " " + text.split(" ")[1]
    for bias in ([[word, -100]], {word: -100}, [[word, False]]):
        check(f"a text is banned: {bias}", word not in completion(s, logit_bias=bias).json["content"])


def editors(s):
    """What llama.vim and llama.vscode send."""
    vim = {"n_indent": 0, "top_k": 40, "top_p": 0.9, "samplers": ["top_k", "top_p", "infill"], "cache_prompt": True, "t_max_prompt_ms": 500,
           "t_max_predict_ms": 1000, "id_slot": 0, "response_fields": ["content", "timings/prompt_n", "truncated"], "stream": False}
    r = completion(s, **vim)
    same("their fields", (200, {"content", "timings/prompt_n", "truncated"}), (r.status, set(r.json)))
    check("what is not used is reported", "samplers.infill" in r.headers["clef-ignored"], r.headers)
    same("a prompt for the cache", (200, {}), (lambda x: (x.status, x.json))(completion(s, n_predict=0, samplers=[], response_fields=[""])))
    grammar = 'root ::= "f(x)\\n    return x\\n  end\\nmore\\n"'
    for indent, wanted in ((0, "f(x)\n    return x\n  end\nmore\n"), (2, "f(x)\n    return x\n  end\n"), (3, "f(x)\n    return x\n  ")):
        got = completion(s, grammar=grammar, n_predict=40, n_indent=indent).json
        same(f"n_indent {indent}", wanted, got["content"])
    same("t_max_predict_ms", "limit", s.post("/completion", {"prompt": "a", "grammar": 'root ::= "\\n" [a-z ]*', "t_max_predict_ms": 1}).json["stop_type"])
    for fields in ({"grammar": ""}, {"repeat_last_n": 0}, {"repeat_last_n": -1}, {"seed": -1}, {"stop": []}, {"lora": []}, {"mirostat": 0}, {"min_keep": 0}):
        same(f"{fields}", 200, completion(s, **fields).status)
    same("a random seed", False, completion(s, seed=-1).json["generation_settings"]["seed"] == completion(s, seed=-1).json["generation_settings"]["seed"])


def server(s):
    check("a page", s.get("/").text.startswith("<!doctype html>"))
    props = s.get("/props").json
    same("props", [2, 64, False, 64, -1], [props["total_slots"], props["default_generation_settings"]["n_ctx"], props["is_sleeping"],
                                        props["default_generation_settings"]["params"]["repeat_last_n"], props["default_generation_settings"]["params"]["n_predict"]])
    check("their names", all(k in props for k in ("model_path", "build_info", "bos_token", "eos_token", "chat_template_caps", "modalities")), props)
    models = s.get("/models").json
    same("models in both forms", [models["data"][0]["id"], ["completion"]], [models["models"][0]["name"], models["models"][0]["capabilities"][:1]])
    one = models["data"][0]
    same("what a model is made of", ({"input_modalities": ["text"], "output_modalities": ["text"]}, [2, 1024, 256, 192]),
         (one["architecture"], [one["meta"][k] for k in ("vocab_type", "n_vocab", "n_ctx_train", "n_embd")]))
    check("its size", one["meta"]["n_params"] > 2e6 and one["meta"]["size"] > 4e6, one)
    s.text(PROMPT, max_tokens=3, ignore_eos=True)
    metrics = {line.split()[0]: float(line.split()[1]) for line in s.get("/metrics").text.split("\n") if line.startswith("llamacpp:")}
    same("metrics by their names", 14, len(metrics))
    check("they count", metrics["llamacpp:tokens_predicted_total"] >= 3 and metrics["llamacpp:n_tokens_max"] > 3 and 0 < metrics["llamacpp:n_busy_slots_per_decode"] <= 2
          and metrics["llamacpp:requests_processing"] == 0, metrics)
    for path, body, status in (("/slots/0?action=save", {"filename": "a"}, 501), ("/v1/chat/completions/control", {"id": "a", "action": "reasoning_end"}, 501),
                               ("/v1/systemone", {"state": "a", "questions": {}}, 501), ("/infill", {"input_prefix": "a", "input_suffix": "b"}, 501)):
        r = s.post(path, body)
        same(f"{path} is refused", (status, "not_supported_error"), (r.status, r.json["error"]["type"]))
    same("no adapters", [], s.get("/lora-adapters").json)
    r = s.post("/completion", {"prompt": "word " * 99})
    check("a prompt too long", r.status == 400 and "exceeds the available context size" in r.text and r.json["error"]["n_prompt_tokens"] > 64, r)
    both = s.post("/completions", {"prompt": PROMPT, "max_tokens": 4, "temperature": 0}).json
    same("/completions has both forms", both["choices"][0]["text"], both["content"])
    lines = events(s.post("/completions", {"prompt": PROMPT, "max_tokens": 4, "temperature": 0, "stream": True}).text)
    same("its stream, too", both["content"], "".join(e["content"] for e in lines))
    check("and OpenAI's path has one", "content" not in s.text().json)


def embeddings(s):
    def vector(value):
        return s.post("/v1/embeddings", {"input": value}).json["data"][0]["embedding"]
    ids = s.post("/tokenize", {"content": "Hello there", "add_special": True}).json["tokens"]
    text = vector("Hello there")
    for name, value in {"an object": {"prompt_string": "Hello there"}, "parts": {"content": [{"type": "text", "text": "Hello "}, {"type": "text", "text": "there"}]},
                        "ids": ids, "ids and texts": [ids[0], s.post("/detokenize", {"tokens": ids[1:]}).json["content"]]}.items():
        same(f"an embedding of {name}", text, vector(value))
    same("several", 3, len(s.post("/v1/embeddings", {"input": ["a", ids, {"prompt_string": "b"}]}).json["data"]))
    for path in ("/embedding", "/embeddings"):
        same(f"{path} of content", [{"index": 0, "embedding": [text]}], s.post(path, {"content": "Hello there"}).json)
    same("/embedding of input", [{"index": i, "embedding": [text]} for i in (0, 1)], s.post("/embedding", {"input": ["Hello there"] * 2}).json)
    for value in ([], {"content": "a"}, {"content": [{"type": "input_audio"}]}, {"prompt_string": "a", "multimodal_data": ["AA"]}):
        same(f"refused: {value}", 400, s.post("/v1/embeddings", {"input": value}).status)
    r = s.post("/v1/embeddings", {"input": "word " * 999})
    check("one too long", r.status == 400 and "too large" in r.text, r)


def chats(s):
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
    call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    grammar = "root ::= " + '"' + call.replace('"', '\\"') + '"'
    raw = s.chat(tools=tools, grammar=grammar, max_tokens=99, parse_tool_calls=False).json["choices"][0]
    same("parse_tool_calls false", (call, None), (raw["message"]["content"], raw["message"].get("tool_calls")))
    thought = "<think>a</think>b"
    for form, wanted in (("none", (thought, None)), ("deepseek", ("b", "a"))):
        m = s.chat(grammar=f'root ::= "{thought}"', max_tokens=40, reasoning_format=form).json["choices"][0]["message"]
        same(f"reasoning_format {form}", wanted, (m["content"], m.get("reasoning_content")))
    same("another one", 400, s.chat(reasoning_format="x").status)
    lines = events(s.chat("word " * 20, stream=True, max_tokens=4, return_progress=True, timings_per_token=True, stream_options={"include_usage": True}).text)
    steps = [e["prompt_progress"] for e in lines if "prompt_progress" in e]
    check("progress begins with what is cached, and ends with all", steps[0]["processed"] == steps[0]["cache"] and steps[-1]["processed"] == steps[-1]["total"]
          and all(a["processed"] < b["processed"] for a, b in zip(steps, steps[1:])), steps)
    own = events(s.post("/v1/responses", {"input": "word " * 20, "max_output_tokens": 4, "stream": True, "timings_per_token": True, "return_progress": True}).text)
    check("a response's progress and timings", any("prompt_progress" in e and e["type"] == "response.in_progress" and e["response"] for e in own)
          and all("timings" in e for e in own if e["type"] in ("response.output_text.delta", "response.completed", "response.incomplete")), own)
    timed = [bool(e.get("timings")) for e in lines if "prompt_progress" not in e]
    same("timings with each event but the first", [False] + [True] * (len(timed) - 1), timed)


def seeds(s):
    same("the seed of --seed", 42, s.get("/props").json["default_generation_settings"]["params"]["seed"])
    same("requests that name none have it", [42, 42, 7], [completion(s, **x).json["generation_settings"]["seed"] for x in ({}, {"seed": None}, {"seed": 7})])
    same("so two are the same", completion(s, temperature=2).json["content"], completion(s, temperature=2).json["content"])
    check("-1 draws one", len({completion(s, seed=-1).json["generation_settings"]["seed"] for _ in range(3)} | {42}) > 2)


def spaced():
    """A GGUF file that begins texts with BOS, and has no template; and its folder."""
    folder, file = spaced_model()
    said = [{"role": "user", "content": "ab cd"}]
    with Server("-c", "256", model=file) as s:
        text = s.post("/apply-template", {"messages": said}).json["prompt"]
        same("chatml where there is no template", "<|im_start|>user\nab cd<|im_end|>\n<|im_start|>assistant\n", text)
        check("the log says so", "chats take chatml" in s.log, s.log)
        ids = s.post("/tokenize", {"content": text, "add_special": True}).json["tokens"]
        answers = [s.post("/v1/chat/completions", {"messages": said, "max_tokens": 8, "temperature": 0}).json for _ in range(2)]
        counts = [answers[0]["usage"]["prompt_tokens"], sum(s.post("/v1/messages", {"messages": said, "max_tokens": 1}).json["usage"][k] for k in ("input_tokens", "cache_read_input_tokens")),
                  s.post("/v1/chat/completions/input_tokens", {"messages": said}).json["input_tokens"],
                  s.post("/v1/messages/count_tokens", {"messages": said}).json["input_tokens"]]
        same("BOS is counted", [len(ids)] * 4, counts)
        same("and cached", len(ids) - 1, answers[1]["usage"]["prompt_tokens_details"]["cached_tokens"])
        same("the same answer from the ids", answers[0]["choices"][0]["message"]["content"].strip(), s.text(ids, max_tokens=8, temperature=0).json["choices"][0]["text"].strip())
        alone = subprocess.run([*COMMAND, "chat", file, "--chat-template", "chatml", "--temp", "0", "-n", "8", "-q"], input=said[0]["content"], capture_output=True,
                               text=True, check=False).stdout
        same("and from clef chat", answers[0]["choices"][0]["message"]["content"].strip(), alone.strip())
        one = {"grammar": 'root ::= " abc def"', "logprobs": True, "top_logprobs": 3, "max_tokens": 30}
        choice = s.chat(**one).json["choices"][0]
        tokens = choice["logprobs"]["content"]
        same("the tokens of a text are the text", [choice["message"]["content"]] * 2,
             ["".join(t["token"] for t in tokens), bytes(b for t in tokens for b in t["bytes"]).decode()])
        check("without the first one's space, also of others", not any(t["token"].startswith(" ") for t in tokens[0]["top_logprobs"]), tokens[0])
        lines = [e["choices"][0] for e in events(s.chat(stream=True, **one).text) if e["choices"]]
        same("and in a stream", choice["message"]["content"], "".join(t["token"] for c in lines if c.get("logprobs") for t in c["logprobs"]["content"]))
    for model, template, wanted in ((folder, "chatml", len(ids) - 1), (file, "{{ bos_token }}" + text + "\n", len(ids)), (file, "{# without BOS #}" + text + "\n", len(ids))):
        with Server("-c", "256", "--chat-template", template, model=model) as s:
            same(f"BOS of {os.path.basename(model)} with {template}", wanted,
                 s.post("/v1/chat/completions", {"messages": said, "max_tokens": 1}).json["usage"]["prompt_tokens"])


spaced()
with Server("-c", "64", "--max-seqs", "2", "--seed", "42") as server_:
    seeds(server_)
with Server("-c", "64", "--max-seqs", "2") as server_:
    for part in (replies, prompts, streams, probabilities, editors, server, embeddings):
        part(server_)
with Server("-c", "256", "--chat-template", "chatml", "--tool-format", "hermes") as server_:
    chats(server_)
    check("its template writes what the system says", server_.get("/props").json["chat_template_caps"]["supports_system_role"])
with Server("--chat-template", "{% for m in messages %}{{ m.role }}:{{ m.content | upper }};{% endfor %}") as server:
    answer = {"role": "assistant", "content": [{"type": "text", "text": t} for t in "ab"]}
    same("an answer that the template does not let go on is as it was sent", "user:HI;assistant:A\nB;",
         server.post("/apply-template", {"messages": [{"role": "user", "content": "hi"}, answer]}).json["prompt"])
wrong = subprocess.run([*COMMAND, "serve", "--chat-template", "x" * 2000 + "{% if %}"], capture_output=True, text=True, check=False)
check("a template's text does not hide what is wrong with it", wrong.returncode != 0 and "chat template:" in wrong.stderr and "xxx" not in wrong.stderr, wrong.stderr)
finish()

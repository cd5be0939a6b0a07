"""Requests as clients of other servers write them: fields under other names, JSON as languages make it, heads of HTTP."""
import json
import re
import subprocess

from serving import COMMAND, Server, check, events, finish, same

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 24, "temperature": 1}
WORD = {"const": 47}


def content(reply):
    return reply.json["choices"][0]["message"]["content"] if reply.status == 200 else reply


def chat(s, **fields):
    body = dict(CHAT, **fields)
    return s.post("/v1/chat/completions", {k: v for k, v in body.items() if v is not Ellipsis})


def constraints(s):
    schema, text = "47", "zq7"
    for wanted, fields in (
            (schema, {"json_schema": WORD}), (schema, {"guided_json": WORD}), (schema, {"guided_json": json.dumps(WORD)}), (schema, {"format": WORD}), (schema, {"json_schema": {"name": "n", "schema": WORD}}),
            (schema, {"structured_outputs": {"json": WORD}}), (schema, {"structured_outputs": {"json": json.dumps(WORD), "regex": None}}),
            (schema, {"response_format": {"type": "json", "value": WORD}}), (schema, {"response_format": {"type": "json_object", "json_schema": {"schema": WORD}}}),
            (text, {"guided_regex": "zq7"}), (text, {"guided_choice": ["zq7"]}), (text, {"guided_grammar": 'root ::= "zq7"'}), (text, {"ebnf": 'root ::= "zq7"'}),
            (text, {"structured_outputs": {"choice": ["zq7"]}}), (text, {"structured_outputs": {"regex": "zq7"}}), (text, {"structured_outputs": {"grammar": 'root ::= "zq7"'}}),
            (text, {"response_format": {"type": "regex", "regex": "zq7"}}), (text, {"response_format": {"type": "grammar", "grammar": 'root ::= "zq7"'}})):
        same(f"{json.dumps(fields)} holds", wanted, content(chat(s, **fields)))
        r = s.text("x", max_tokens=24, **fields)
        same(f"{json.dumps(fields)} holds for completions", wanted, r.json["choices"][0]["text"] if r.status == 200 else r)
    for fields in ({"format": "json"}, {"structured_outputs": {"json_object": True}}, {"response_format": {"type": "json"}}):
        check(f"{fields} begins an object", str(content(chat(s, **fields))).lstrip().startswith("{"))
    for fields in ({"json_schema": 1}, {"format": "xml"}, {"structured_outputs": {}}, {"structured_outputs": {"structural_tag": {}}}, {"structured_outputs": {"json": WORD, "regex": "a"}},
                   {"guided_json": "{"}, {"json_schema": WORD, "format": "json"}, {"regex": "a", "choice": ["a"]}, {"regex": "a", "guided_regex": "b"},
                   {"response_format": {"type": "text", "schema": WORD}}, {"response_format": {"type": "json_schema", "schema": WORD, "json_schema": {"schema": WORD}}},
                   {"response_format": {"type": "structural_tag"}}, {"choice": ["a\0"]}, {"regex": "a\0"}):
        same(f"{json.dumps(fields)} is refused", 400, chat(s, **fields).status)


def refusals(s):
    """What may change a reply is obeyed or refused by name, known or not; what advises is reported."""
    for name, value in {
            "bad_words": ["a"], "guided_whitespace_pattern": "x", "responseFormat": {"type": "json_object"}, "json_mode": True, "stop_regex": "a",
            "options": {"temperature": 0}, "extra_body": {"guided_json": {}}, "parameters": {"stop": ["a"]}, "generationConfig": {}, "n_probs": 3, "suppress_tokens": [1],
            "no_repeat_ngram_size": 3, "num_beams": 4, "truncate_prompt_tokens": 5, "min_length": 3, "max_length": 9, "top_a": 0.5, "dynatemp_range": 1,
            "logits_processors": ["x"], "length_penalty": 2, "banned_strings": ["a"], "system": "be brief", "grammar_lazy": True, "forced_eos_token_id": 3,
            "echo": True, "safe_prompt": True, "exclude_top_choices": True, "maxTokens": 3,
            "response_mime_type": "application/json", "text": {"format": {"type": "json_object"}}, "lora_path": "x", "adapter_id": "x", "repetition_context_size": 5, "best_of": 2}.items():
        r = chat(s, **{name: value})
        same(f"{name} is refused by its name", (400, name), (r.status, (r.json.get("error") or {}).get("param")))
    same("a chat's body for its template", 200, s.post("/apply-template", dict(CHAT, guided_json=WORD, stop=["a"])).status)
    same("an empty format", 200, chat(s, max_tokens=1, format="").status)
    for name, value in {"bad_words": [], "n_probs": 0, "options": {}, "num_beams": 1, "length_penalty": 1.0, "top_a": 0, "echo": False, "dynatemp_range": 0.0, "best_of": 1, "store": False}.items():
        same(f"{name} that changes nothing", 200, chat(s, max_tokens=1, **{name: value}).status)
    r = chat(s, max_tokens=1, user="u", priority=1, metadata={}, id_slot=0, zebra=1, nothing=None)
    same("what advises is reported", {"user", "priority", "metadata", "id_slot", "zebra"}, set(r.headers["clef-ignored"].split(", ")))
    same("an embedding's input_type", 400, s.post("/v1/embeddings", {"input": "a", "input_type": "query"}).status)


def names(s):
    """Other names of a field do what the field does."""
    prompt = "Once upon a time"
    five = s.text(prompt, max_tokens=5, temperature=0).json["choices"][0]["text"]
    for name in ("n_predict", "num_predict", "max_new_tokens", "max_completion_tokens", "max_output_tokens"):
        same(name, five, s.text(prompt, temperature=0, **{name: 5}).json["choices"][0]["text"])
    same("two names that differ", 400, s.text(prompt, max_tokens=5, n_predict=6).status)
    same("two names that do not", 200, s.text(prompt, max_tokens=5, n_predict=5).status)
    same("do_sample", five, s.text(prompt, max_tokens=5, do_sample=False).json["choices"][0]["text"])
    for a, b in (({"repetition_penalty": 3, "repeat_last_n": 64}, {"repeat_penalty": 3}), ({"stop_sequences": ["e"]}, {"stop": ["e"]}), ({"random_seed": 5}, {"seed": 5}),
                 ({"ban_eos_token": True, "seed": 1}, {"ignore_eos": True, "seed": 1}), ({"logit_bias": [[17, 100]]}, {"logit_bias": {"17": 100}})):
        one, two = (s.text(prompt, max_tokens=12, **({"temperature": 1} if "seed" in str(x) else {"temperature": 0}), **x).json["choices"][0]["text"] for x in (a, b))
        same(f"{a} is {b}", two, one)
    ids = s.text(prompt, max_tokens=12, temperature=0, return_token_ids=True).json["choices"][0]["token_ids"]
    at = next(i for i in range(2, 12) if ids[i] not in ids[:i])
    r = s.text(prompt, max_tokens=12, temperature=0, stop_token_ids=[ids[at]], return_token_ids=True).json["choices"][0]
    same("stop_token_ids", (ids[:at], "stop"), (r["token_ids"], r["finish_reason"]))
    same("an id that is none", 400, s.text(prompt, stop_token_ids=[-1]).status)
    same("beside a constraint", 400, s.text(prompt, stop_token_ids=[5], regex="a").status)
    for fields in ({}, {"logit_bias": {"17": 100, "18": 3}}, {"temperature": 1, "n": 2, "seed": 1}):
        r = s.text(prompt, max_tokens=12, allowed_token_ids=[18, 300, 301], return_token_ids=True, **fields).json["choices"]
        check(f"allowed_token_ids {fields}", all(len(c["token_ids"]) == 12 and set(c["token_ids"]) <= {18, 300, 301} for c in r), r)
    for ids in ([], [-1], ["a"], 5, [10 ** 6]):
        same(f"allowed_token_ids {ids}", 400, s.text(prompt, max_tokens=1, allowed_token_ids=ids).status)


def numbers(s):
    prompt = "Once upon a time"

    def text(**fields):
        r = s.text(prompt, max_tokens=12, temperature=1, **fields)
        return r.json["choices"][0]["text"] if r.status == 200 else r

    same("42.0 is 42", text(seed=42), text(seed=42.0))
    alone = subprocess.run([*COMMAND, "run", "-p", prompt, "-n", "12", "--temp", "1", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--seed", str(2 ** 64 - 1), "-q"], capture_output=True, text=True, check=False).stdout
    same("a seed of 64 bits is that of clef run", alone.rstrip("\n"), str(text(seed=2 ** 64 - 1)).rstrip("\n"))
    check("and not that of 2^64 - 2", text(seed=2 ** 64 - 1) != text(seed=2 ** 64 - 2))
    check("-1 draws one", len({text(seed=-1) for _ in range(8)}) > 1)
    same("ids may be 5.0", 200, s.text([5.0, 6], max_tokens=1.0, n=1.0).status)
    same("but not 5.5", 400, s.text([5.5], max_tokens=1).status)


def texts(s):
    """Escapes of half characters, NUL, and what clients cut."""
    for written, meant in (("a\\ud83d", "a\ufffd"), ("\\ud83d\\ude00", "\U0001f600"), ("\\ude00\\ud83dx", "\ufffd\ufffdx"), ("\\ud83d\\ud83d\\ude00", "\ufffd\U0001f600"),
                           ("a\\u0000b", "a\0b"), ("\\u00e9\\n\\/", "\u00e9\n/"), ("\\ud83d\\n.", "\ufffd\n.")):
        for path, body, get in (("/apply-template", '{"messages":[{"role":"user","content":"%s"}]}', lambda r: r.json["prompt"].split("user\n")[1].split("<|im_end|>")[0]),
                                ("/v1/completions", '{"prompt":"%s","max_tokens":0,"echo":true}', lambda r: r.json["choices"][0]["text"])):
            r = s.post(path, body % written)
            same(f"{path}: {written}", meant, get(r) if r.status == 200 else r)
        r = s.post("/tokenize", '{"content":"%s"}' % written)
        same(f"tokens: {written}", meant, s.post("/detokenize", {"tokens": r.json["tokens"]}).json["content"] if r.status == 200 else r)
        same(f"a chat: {written}", 200, s.post("/v1/chat/completions", '{"messages":[{"role":"user","content":"%s"}],"max_tokens":1}' % written).status)
    same("the last of two members counts", 2, s.post("/v1/completions", '{"prompt":"a","max_tokens":1,"max_tokens":2,"ignore_eos":true}').json["usage"]["completion_tokens"])
    for where in ('{"prompt":"a","stop":"\\u0000"}', '{"prompt":"a","regex":"a\\u0000"}', '{"prompt":"a","model":"x\\u0000"}', '{"\\u0000":1}', '{"messages":[{"role":"user\\u0000","content":"a"}]}',
                  '{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f\\u0000"}}]}'):
        r = s.post("/v1/chat/completions" if "messages" in where else "/v1/completions", where)
        check(f"{where}: in our words", r.status == 400 and "JSON_ALLOW_NUL" not in r.text and "u0000" in r.text, r)
    for bad in ('{"a":"\\u12g4"}', '{"a":01}', '{"a":1.}', '{"a":1e}', '{"a":-}', '{"a":"\x01"}', '{"a":\\"}', '{"a" 1}', '{"a":1,}', '{,}', '[', '{"a":[1,]}', '{"a":nul}', '{"a":"x', '{"a":1e999}', '{"a":"\\x"}'):
        r = s.post("/v1/completions", bad)
        same(f"no JSON: {bad!r}", (400, "invalid_json"), (r.status, r.code))


def limits(s):
    r = s.text("Hi", max_tokens=10 ** 6, stop=["e"])
    check("max_tokens beyond the context is cut, and reported", r.status == 200 and 0 < int(r.headers.get("clef-max-tokens", 0)) < 10 ** 6, r)
    check("max_tokens within it is not", "clef-max-tokens" not in s.text("Hi", max_tokens=3).headers)
    same("-1 is not a limit", 200, s.text("Hi", max_tokens=-1, stop=["e"]).status)
    r = s.text(["a"] * 64, n=8, max_tokens=1)
    same("64 prompts with 8 choices", 512, len(r.json["choices"]))
    with Server("--strict-limits", "--max-choices", "6") as strict:
        r = strict.text("Hi", max_tokens=10 ** 6)
        same("--strict-limits refuses it", (400, "context_length_exceeded"), (r.status, r.code))
        check("in the words of clients", re.search(r"maximum context length is \d+ tokens", r.json["error"]["message"]), r)
        r = strict.text(["a", "b", "c"], n=3, max_tokens=1)
        check("--max-choices", r.status == 400 and "--max-choices" in r.text, r)
        same("as many as it says", 200, strict.text(["a", "b", "c"], n=2, max_tokens=1).status)


def echoes(s):
    prompt = "  Once  upon a time"
    plain = s.text(prompt, max_tokens=4, temperature=0, echo=True).json["choices"][0]["text"]
    r = s.text(prompt, max_tokens=4, temperature=0, echo=True, logprobs=2).json["choices"][0]
    same("logprobs do not change an echo", plain, r["text"])
    offsets, tokens = r["logprobs"]["text_offset"], r["logprobs"]["tokens"]
    check("offsets rise", offsets == sorted(offsets) and offsets[0] == 0 and len(offsets) == len(tokens), offsets)
    generated = [i for i, o in enumerate(offsets) if o >= len(prompt)]
    same("and the first generated token's is the prompt's end", (4, len(prompt)), (len(generated), offsets[generated[0]]))
    same("a token's text is at its offset", tokens[generated[1]], r["text"][offsets[generated[1]]:][:len(tokens[generated[1]])])
    st = events(s.text(prompt, max_tokens=4, temperature=0, echo=True, logprobs=2, stream=True).text)
    same("nor of a stream", plain, "".join(e["choices"][0]["text"] for e in st))
    many = s.text([[5], prompt, [7], "The king"], max_tokens=0, echo=True, logprobs=1, timeout=60)
    same("prompts of one token and longer ones, alone", [1, True, 1, True], [n if i % 2 == 0 else n > 1 for i, n in
                                                                            enumerate(len(c["logprobs"]["tokens"]) for c in many.json["choices"])])


def heads(s):
    body = b'{"prompt":"a","max_tokens":1}'

    def status(*lines, path=b"/v1/completions", host=b"Host: localhost", length=b"Content-Length: 29"):
        head = [b"POST " + path + b" HTTP/1.1", host, b"Content-Type: application/json", length, *lines, b"Connection: close"]
        got = s.raw(b"\r\n".join(x for x in head if x) + b"\r\n\r\n" + body, 20)
        return int(got.split()[1]) if got else 0

    got = s.raw(b"GET /health HTTP/1.1\r\n\r\n", 20)
    same("one head for a request without Host", (1, True), (len(re.findall(rb"HTTP/1\.1 \d", got)), got.startswith(b"HTTP/1.1 400 ")))
    same("HTTP/1.0 needs none", b"HTTP/1.1 200", s.raw(b"GET /health HTTP/1.0\r\n\r\n", 20)[:12])
    for target, wanted in ((b"http://localhost/v1/completions", 200), (b"HTTP://127.0.0.1:%d/v1/completions?x=1" % s.port, 200), (b"http://evil.example/v1/completions", 403),
                           (b"http://localhost@evil.example/v1/completions", 400), (b"http:///v1/completions", 400)):
        same(f"target {target.decode()}", wanted, status(path=target))
    same("a target's host counts", 403, status(path=b"http://evil.example/v1/completions", host=b"Host: localhost"))
    for name, wanted, lines in (("two lengths", 400, [b"Content-Length: 5"]), ("the same length twice", 200, [b"Content-Length: 29"]), ("two hosts", 400, [b"Host: 127.0.0.1"]),
                                ("the same host twice", 400, [b"Host: localhost"]), ("a NUL in a value", 400, [b"X-A: b\0c"]), ("a NUL in a name", 400, [b"X-\0A: b"]), ("a bare CR", 400, [b"X-A: b\rX-B: c"]),
                                ("a CR at the end", 400, [b"X-A: b\r"]), ("a control character", 400, [b"X-A: \x01"]), ("a blank before the colon", 400, [b"X-A : b"]), ("an empty header", 200, [b"X-A:"]),
                                ("a header as any", 200, [b"X-A: b\tc; d=\"e\""])):
        same(name, wanted, status(*lines))
    same("a NUL in Host", 400, status(host=b"Host: localhost\0.evil.example"))
    same("a NUL in the target", 400, status(path=b"/v1/completions\0x"))
    same("a CR in the target", 400, status(path=b"/v1/completions\rx"))
    same("another coding", 400, status(b"Transfer-Encoding: gzip", length=b""))
    same("it still answers", 200, s.get("/health").status)


def continued(s):
    """A text that clients can make does not cost the square of its length: 2 MiB, of which nearly all is compared at each place."""
    for last in ("a" * 500000, "b" + "a" * 500000):
        r = s.post("/apply-template", {"messages": [{"role": "user", "content": "a" * 1500000}, {"role": "assistant", "content": last}], "continue_final_message": True})
        check("a long last message", r.status == 200 and r.json["prompt"].endswith(last), r.status)
    r = s.post("/apply-template", {"messages": [{"role": "assistant", "content": "ab"}, {"role": "user", "content": "ab"}, {"role": "assistant", "content": " ab "}], "continue_final_message": True})
    p = s.post("/apply-template", {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "so", "prefix": True}]}).json["prompt"]
    check("a message's prefix continues it", p.endswith("assistant\nso"), p)
    same("the last one counts", 3, r.json["prompt"].count("ab"))


def specials(s):
    """Special tokens that the model writes are not text, unless they are asked for."""
    vocabulary = [s.post("/detokenize", {"tokens": [i]}).json["content"] for i in range(8)]
    ids = [i for i, text in enumerate(vocabulary) if not text]
    check("the model has special tokens", ids, vocabulary)
    for i in ids[:2]:
        common = {"logit_bias": {str(i): 100}, "max_tokens": 3, "ignore_eos": True}
        same(f"token {i} is not text", "", content(chat(s, **common)))
        check(f"token {i} as text", content(chat(s, **common, skip_special_tokens=False)) != "")


with Server("--chat-template", "chatml", "--tool-format", "hermes") as server:
    for part in (constraints, refusals, names, numbers, texts, limits, echoes, heads, continued, specials):
        part(server)
    same("no status 500", 0, server.log.count(" 500 "))
    same("it ends with 0", 0, server.stop())
finish()

"""OpenAI's endpoints: whole replies, streams, log-probabilities, tools, formats, embeddings, tokens."""
import base64
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile

from serving import COMMAND, Server, check, events, finish, same

FIXTURES = os.path.join(os.environ["CLEF_SOURCE"], "tests", "fixtures")


def run(*args):
    env = dict(os.environ, CLEF_TUNE="0", CLEF_PROOF="0")
    return subprocess.run([*COMMAND, *args], capture_output=True, text=True, env=env).stdout


def text_of(reply):
    """As run() gives it: a line end at the end of a text cannot be distinguished from that of `clef run`."""
    return reply.json["choices"][0]["text"].rstrip("\n")


def content(reply):
    return reply.json["choices"][0]["message"]["content"]


def joined(stream):
    return "".join(e["choices"][0]["delta"].get("content") or "" for e in stream if e["choices"])


def completions(s):
    prompt = "Once upon a time"
    alone = run("run", "-p", prompt, "-n", "24", "--temp", "0", "-q").rstrip("\n")
    r = s.text(prompt, max_tokens=24, temperature=0)
    same("the text of clef run", alone, r.json["choices"][0]["text"])
    same("object", "text_completion", r.json["object"])
    same("tokens are counted", 24, r.json["usage"]["completion_tokens"])
    same("finish length", "length", r.json["choices"][0]["finish_reason"])
    check("ids", r.json["id"].startswith("cmpl-") and len(r.json["id"]) == 29)
    again = s.text(prompt, max_tokens=24, temperature=0)
    check("a cached prefix", again.json["usage"]["prompt_tokens_details"]["cached_tokens"] > 0, again)
    same("the same text from it", r.json["choices"][0]["text"], again.json["choices"][0]["text"])
    a, b = (s.text(prompt, max_tokens=12, temperature=1, seed=7, n=3) for _ in range(2))
    same("the same seed, the same choices", [c["text"] for c in a.json["choices"]],
         [c["text"] for c in b.json["choices"]])
    check("choices differ", len({c["text"] for c in a.json["choices"]}) > 1, a)
    sampled = run("run", "-p", prompt, "-n", "12", "--temp", "1", "--top-k", "0", "--top-p", "1", "--min-p", "0",
                  "--repeat-penalty", "1", "-q", "--seed", "7").rstrip("\n")
    same("sampled as clef run does", sampled, a.json["choices"][0]["text"])
    many = s.text([prompt, "The king"], max_tokens=6, temperature=0, n=2)
    same("prompts first, then choices", [0, 1, 2, 3], [c["index"] for c in many.json["choices"]])
    same("two prompts", many.json["choices"][0]["text"], many.json["choices"][1]["text"])
    ids = s.post("/tokenize", {"content": prompt, "add_special": True}).json["tokens"]
    by_ids = s.text(ids, max_tokens=24, temperature=0)
    same("ids as the prompt", alone, by_ids.json["choices"][0]["text"])
    echo = s.text(prompt, max_tokens=4, temperature=0, echo=True)
    check("echo", echo.json["choices"][0]["text"].startswith(prompt), echo)
    stop = s.text(prompt, max_tokens=24, temperature=0, stop=alone[5:8])
    same("a stop string", alone.split(alone[5:8])[0], stop.json["choices"][0]["text"])
    same("finish stop", "stop", stop.json["choices"][0]["finish_reason"])
    long = s.text(prompt, max_tokens=8, temperature=0, min_tokens=8)
    same("min_tokens", 8, long.json["usage"]["completion_tokens"])
    ids = s.text(prompt, max_tokens=5, temperature=0, return_token_ids=True)
    same("token ids", 5, len(ids.json["choices"][0]["token_ids"]))


def streams(s):
    prompt = "Once upon a time"
    whole = s.text(prompt, max_tokens=16, temperature=0).json["choices"][0]["text"]
    r = s.text(prompt, max_tokens=16, temperature=0, stream=True, stream_options={"include_usage": True})
    same("a stream's type", "text/event-stream; charset=utf-8", r.headers["content-type"])
    same("it is not cached", "no-cache", r.headers["cache-control"])
    got = events(r.text)
    same("a stream's text", whole, "".join(e["choices"][0]["text"] for e in got if e["choices"]))
    check("it ends with [DONE]", r.text.endswith("data: [DONE]\n\n"))
    same("the last event has no choices", [], got[-1]["choices"])
    same("and the usage", 16, got[-1]["usage"]["completion_tokens"])
    check("usage is null before", all(e["usage"] is None for e in got[:-1]))
    chat = s.chat(max_tokens=12, temperature=0)
    c = events(s.chat(max_tokens=12, temperature=0, stream=True).text)
    same("the first event of a chat", {"role": "assistant", "content": None}, c[0]["choices"][0]["delta"])
    same("a chat's stream", content(chat), joined(c))
    same("the last delta is empty", {}, c[-1]["choices"][0]["delta"])
    check("deltas between are not", all(e["choices"][0]["delta"] for e in c[:-1]))
    check("no usage unasked", all("usage" not in e for e in c))
    many = events(s.chat(max_tokens=6, temperature=1, n=3, stream=True).text)
    same("choices of a stream", {0, 1, 2}, {e["choices"][0]["index"] for e in many})
    p = s.chat("word " * 60, max_tokens=2, stream=True, return_progress=True)
    check("progress", any("prompt_progress" in e for e in events(p.text)), p)


def logprobs(s):
    prompt = "Once upon a time"
    r = s.text(prompt, max_tokens=5, temperature=0, logprobs=3).json["choices"][0]["logprobs"]
    same("tokens of logprobs", 5, len(r["tokens"]))
    check("the likeliest is the one sampled", all(t == max(top, key=top.get) for t, top in zip(r["tokens"], r["top_logprobs"])), r)
    check("logprobs are at most 0", all(x <= 0 for x in r["token_logprobs"]))
    whole = s.text(prompt, max_tokens=0, echo=True, logprobs=1)
    e = whole.json["choices"][0]["logprobs"]
    check("echo: the first has none", e["token_logprobs"][0] is None and e["top_logprobs"][0] is None, whole)
    same("echo: its tokens are the prompt", prompt, "".join(e["tokens"]))
    same("echo: offsets", 0, e["text_offset"][0])
    same("echo alone generates nothing", 0, whole.json["usage"]["completion_tokens"])
    cut = s.text(prompt + "," , max_tokens=1, echo=True, logprobs=2, temperature=0)
    check("echo: then the text", len(cut.json["choices"][0]["logprobs"]["tokens"]) ==
          cut.json["usage"]["prompt_tokens"] + 1, cut)
    c = s.chat(max_tokens=4, temperature=0, logprobs=True, top_logprobs=2)
    entries = c.json["choices"][0]["logprobs"]["content"]
    same("logprobs of a chat", content(c), "".join(x["token"] for x in entries))
    same("their bytes", list(entries[0]["token"].encode()), entries[0]["bytes"])
    same("their alternatives", 2, len(entries[0]["top_logprobs"]))
    st = events(s.chat(max_tokens=4, temperature=0, logprobs=True, top_logprobs=2, stream=True).text)
    got = [x for e in st for x in ((e["choices"][0]["logprobs"] or {}).get("content") or [])]
    same("logprobs of a stream", [x["token"] for x in entries], [x["token"] for x in got])
    least = s.text(prompt, max_tokens=3, echo=True, logprobs=1, min_tokens=2147483647, temperature=0)
    same("min_tokens beyond the context", 3, least.json["usage"]["completion_tokens"] if least.status == 200 else least)
    bias = s.text(prompt, max_tokens=3, temperature=0, logit_bias={"17": 100}, return_token_ids=True)
    same("a bias", [17, 17, 17], bias.json["choices"][0]["token_ids"])


def formats(s):
    schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3, "maximum": 7}, "b": {"enum": ["x", "y"]}},
              "required": ["a", "b"], "additionalProperties": False}
    r = s.chat(max_tokens=180, temperature=1, seed=1, response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}})
    value = json.loads(content(r))
    check("a schema", 3 <= value["a"] <= 7 and value["b"] in "xy", r)
    r = s.chat(max_tokens=180, temperature=1, seed=1, response_format={"type": "json_schema", "schema": schema})
    check("a schema beside the type", json.loads(content(r))["b"] in "xy", r)
    same("a choice", True, content(s.chat(max_tokens=20, choice=["yes", "no"])) in ("yes", "no"))
    check("a pattern", content(s.chat(max_tokens=20, regex="[ab]{3}"))[0] in "ab")
    check("a grammar", content(s.chat(max_tokens=20, grammar='root ::= "left" | "right"')) in ("left", "right"))
    spec = s.chat(max_tokens=180, seed=1, temperature=1, response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}, stream=True)
    check("a schema's stream", json.loads(joined(events(spec.text)))["b"] in "xy", spec)
    tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False}}}]
    r = s.chat(max_tokens=210, temperature=1, seed=3, tools=tools, tool_choice="required", parallel_tool_calls=False)
    call = r.json["choices"][0]["message"]["tool_calls"][0]
    same("a call", "add", call["function"]["name"])
    check("its arguments", isinstance(json.loads(call["function"]["arguments"])["x"], int), r)
    check("its id", call["id"].startswith("call_") and len(call["id"]) == 29 and "index" not in call, call)
    same("finish tool_calls", "tool_calls", r.json["choices"][0]["finish_reason"])
    same("no content", None, content(r))
    st = events(s.chat(max_tokens=210, temperature=1, seed=3, tools=tools, tool_choice={"type": "function", "function": {"name": "add"}}, stream=True).text)
    deltas = [d for e in st for d in e["choices"][0]["delta"].get("tool_calls", [])]
    check("a call in a stream", deltas and deltas[0]["index"] == 0 and deltas[0]["function"]["name"] == "add", st)
    none = s.chat(max_tokens=8, tools=tools, tool_choice="none")
    check("tools that are not to be used", "tool_calls" not in none.json["choices"][0]["message"], none)


def embeddings(s):
    r = s.post("/v1/embeddings", {"input": ["a cat", "a dog and a cat", "x"], "model": "demo"})
    same("embeddings", [0, 1, 2], [d["index"] for d in r.json["data"]])
    one = s.post("/v1/embeddings", {"input": "a dog and a cat", "encoding_format": "base64"}).json["data"][0]["embedding"]
    raw = base64.b64decode(one)
    values = struct.unpack(f"<{len(raw) // 4}f", raw)
    check("base64 is the same", all(math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) for a, b in zip(values, r.json["data"][1]["embedding"])))
    many = s.post("/v1/embeddings", {"input": [f"text number {i} " + "word " * (i % 40) for i in range(300)]})
    same("300 inputs", 300, len(many.json["data"]))
    long = s.post("/v1/embeddings", {"input": "word " * 4000})
    same("too long", (400, "context_length_exceeded"), (long.status, long.code))
    check("with numbers", long.json["error"]["n_prompt_tokens"] > long.json["error"]["n_ctx"] > 0, long)
    same("dimensions", 400, s.post("/v1/embeddings", {"input": "x", "dimensions": 3}).status)
    same("a model without vectors of tokens", 400, s.post("/v1/embeddings", {"input": "x", "kind": "multi"}).status)


def tokens(s):
    text = "Hello, world ünï"
    t = s.post("/tokenize", {"content": text}).json["tokens"]
    same("there and back", text, s.post("/detokenize", {"tokens": t}).json["content"])
    pieces = s.post("/tokenize", {"content": text, "with_pieces": True}).json["tokens"]
    same("pieces", t, [p["id"] for p in pieces])
    whole = b"".join(p["piece"].encode() if isinstance(p["piece"], str) else bytes(p["piece"]) for p in pieces)
    same("their bytes", text.encode(), whole)
    r = s.post("/tokenize", {"content": "1 " * 2**20, "with_pieces": True})
    check("more pieces than there is memory for", r.status == 413 and "expected at most 96: 12 times --max-body" in r.text, r)
    same("ids alone fit", 200, s.post("/tokenize", {"content": "1 " * 2**18}).status)
    p = s.post("/apply-template", {"messages": [{"role": "user", "content": "Hi"}]}).json["prompt"]
    check("a prompt", "Hi" in p and p.endswith("<|im_start|>assistant\n"), p)
    c = s.post("/apply-template", {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Well"}], "continue_final_message": True}).json["prompt"]
    check("continued", c.endswith("Well"), c)
    hi = [{"role": "user", "content": "Hi"}]
    tools = [{"type": "function", "function": {"name": f"f{i:0127}"}} for i in range(129)]
    same("many tools with long names", 200, s.post("/apply-template", {"messages": hi, "tools": tools}).status)
    parts = {"role": "assistant", "content": [{"type": "text", "text": "We"}, {"type": "text", "text": "ll"}]}
    for last in (parts, {"role": "assistant", "content": "Well"}):
        same(f"so it is without a word: {last}", c, s.post("/apply-template", {"messages": hi + [last]}).json["prompt"])
    for fields in ({"add_generation_prompt": True}, {"continue_final_message": False}):
        new = s.post("/apply-template", {"messages": hi + [parts], **fields}).json["prompt"]
        check(f"a new answer: {fields}", new.startswith(p[:-len("<|im_start|>assistant\n")]) and new.endswith("<|im_start|>assistant\n"), new)
    for last in ({"role": "assistant", "content": " "}, {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}):
        check(f"nothing to continue: {last}", s.post("/apply-template", {"messages": hi + [last]}).json["prompt"].endswith("<|im_start|>assistant\n"))
    r = s.post("/apply-template", {"messages": hi + [parts, parts]})
    check("two of the assistant at the end", r.status == 400 and "one of the assistant at the end" in r.text, r)
    r = s.post("/apply-template", {"messages": [{"role": "assistant", "content": "Well"}], "continue_final_message": True, "add_generation_prompt": True})
    check("refused: a new answer, too", r.status == 400 and "add_generation_prompt" in r.text, r)


def reported(s):
    m = s.get("/v1/models").json["data"][0]
    same("the model", ("model", "clef"), (m["object"], m["owned_by"]))
    same("by its id", m["id"], s.get("/v1/models/" + m["id"]).json["id"])
    same("HEAD", 200, s.send("HEAD", "/v1/models").status)
    p = s.get("/props").json
    check("props", p["clef_version"] and p["capabilities"]["chat"], p)
    check("props have no paths", "/" not in p["model"] and os.environ["CLEF_BUILD"] not in json.dumps(p))
    r = s.chat(max_tokens=1, nonsense=1, user="me")
    same("unknown fields", "nonsense, user", r.headers.get("clef-ignored"))
    same("a request's id", "my-id_1.2", s.send("GET", "/health", headers={"x-request-id": "my-id_1.2"}).headers["x-request-id"])
    page = s.get("/")
    check("the page", "<script>" in page.text and "default-src 'none'" in page.headers["content-security-policy"])
    counted = sum(s.metric(f"clef_{n}_tokens_total") for n in ("prompt", "generation"))
    check("tokens are counted in the metrics", counted > 100, counted)
    check("pages: used are cached", s.until(lambda: s.metric("clef_kv_pages_used") == s.metric("clef_kv_pages_cached")))


def write_layer(path, n_rows, n_columns):
    """A linear layer as a .safetensors file: each row reads a column of its own, and has the bias 1."""
    weight = [float(i % n_columns == i // n_columns) for i in range(n_rows * n_columns)]
    n = 4 * len(weight)
    head = json.dumps({"weight": {"dtype": "F32", "shape": [n_rows, n_columns], "data_offsets": [0, n]},
                       "bias": {"dtype": "F32", "shape": [n_rows], "data_offsets": [n, n + 4 * n_rows]}}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head + struct.pack(f"<{len(weight) + n_rows}f", *weight, *[1.0] * n_rows))


def vectors_of_tokens(s, folder):
    texts = ["the cat sleeps", "a sea"]
    for kind in ("sparse", "multi"):
        wanted = [json.loads(line) for line in run("embed", folder, *texts, "--kind", kind, "-q").splitlines()]
        r = s.post("/v1/embeddings", {"input": texts, "kind": kind})
        got = [one["embedding"] for one in r.json["data"]] if r.status == 200 else []
        numbers = [[list(x.values()) if kind == "sparse" else sum(x, []) for x in y] for y in (wanted, got)]
        check(f"as clef embed: {kind}", kind == "multi" or [list(x) for x in wanted] == [list(x) for x in got], r)
        check(f"its numbers: {kind}", [len(x) for x in numbers[0]] == [len(x) for x in numbers[1]] and len(numbers[0][0]) > 2 and
              all(math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6) for x, y in zip(*numbers) for a, b in zip(x, y)), r)
    packed = s.post("/v1/embeddings", {"input": texts, "kind": "multi", "encoding_format": "base64"}).json["data"][0]["embedding"]
    same("base64 of each vector", [4 * 8] * len(packed), [len(base64.b64decode(one)) for one in packed])
    for wrong in ({"kind": "x"}, {"kind": 1}, {"kind": "multi", "dimensions": 3}):
        same(f"refused: {wrong}", 400, s.post("/v1/embeddings", {"input": texts, **wrong}).status)


def other_models():
    with tempfile.TemporaryDirectory() as folder:
        bert = shutil.copytree(os.path.join(FIXTURES, "tiny-bert"), os.path.join(folder, "bert"))
        os.chmod(bert, 0o755)
        write_layer(os.path.join(bert, "sparse_linear.safetensors"), 1, 16)
        write_layer(os.path.join(bert, "colbert_linear.safetensors"), 8, 16)
        beside_demo(os.path.join(FIXTURES, "tiny-t5"), bert)


def beside_demo(t5, bert):
    with Server(model=t5) as s:
        r = s.text("translate: hello", max_tokens=10, temperature=0)
        same("an encoder-decoder's text", run("run", t5, "-p", "translate: hello", "-n", "10", "--temp", "0", "-q").rstrip("\n"),
             r.json["choices"][0]["text"] if r.status == 200 else r)
        same("it does not chat", 400, s.chat().status)
    with Server(model=bert) as s:
        vector = [float(x) for x in run("embed", bert, "a text", "-q").split()]
        r = s.post("/v1/embeddings", {"input": ["another one, longer", "a text"]})
        check("an encoder's vectors", r.status == 200 and all(math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-6)
                                                              for a, b in zip(vector, r.json["data"][1]["embedding"])), r)
        vectors_of_tokens(s, bert)
        same("it writes no text", (400, "unsupported_parameter"), (s.text().status, s.text().code))
        same("nor does it chat", 400, s.chat().status)
        same("nor does it rank", "unsupported_parameter", s.post("/v1/rerank", {"query": "a", "documents": ["b"]}).code)


def rankings():
    wanted = json.load(open(os.path.join(FIXTURES, "tiny.json")))["first_label"]
    documents = ["he loves it .", "the cat sleeps", {"text": "the sea"}]
    with tempfile.TemporaryDirectory() as folder:
        ranker = os.path.join(folder, "ranker")
        subprocess.run([sys.executable, os.path.join(FIXTURES, "one_label.py"), ranker], check=True)
        with Server(model=ranker) as s:
            for path in ("/v1/rerank", "/v1/reranking", "/v2/rerank", "/rerank", "/reranking"):
                r = s.post(path, {"model": "ranker", "query": "a cat", "documents": documents}).json
                same(f"{path}: the best first", [1, 0, 2], [one["index"] for one in r["results"]])
            check("scores", all(math.isclose(one["relevance_score"], wanted[one["index"]], abs_tol=1e-6) for one in r["results"]), r)
            same("the tokens of all pairs are counted", {"prompt_tokens": 24, "total_tokens": 24}, r["usage"])
            r = s.post("/v1/rerank", {"query": "a cat", "documents": documents, "top_n": 1, "return_documents": True}).json["results"]
            same("the best one, with its text", [(1, {"text": "the cat sleeps"})], [(one["index"], one["document"]) for one in r])
            r = s.post("/rerank", {"query": "a cat", "texts": ["the sea", "the cat sleeps"], "return_text": True, "raw_scores": True}).json
            same("as text-embeddings-inference", [(1, "the cat sleeps"), (0, "the sea")], [(one["index"], one["text"]) for one in r])
            check("logits", all(math.isclose(1 / (1 + math.exp(-one["score"])), wanted[2 - one["index"]], abs_tol=1e-6) for one in r), r)
            long = "sea " * 100
            r = s.post("/v1/rerank", {"query": "a cat", "documents": ["the sea", long]}).json
            same("a cut document is reported", ["1 of 2 documents were cut to 20 tokens"], r["meta"].get("warnings"))
            same("or refused", "context_length_exceeded", s.post("/v1/rerank", {"query": "a", "documents": [long], "truncate": False}).code)
            for wrong in ({"documents": []}, {"documents": None}, {"documents": 123}, {"documents": [1, 2]}, {"documents": [{"image": "x"}]},
                          {"documents": ["a"], "texts": ["a"]}, {"documents": ["a"], "query": ""}, {"documents": ["a"], "query": None},
                          {"documents": ["a"], "top_n": 0}, {"documents": ["a"], "rank_fields": ["b"]}):
                same(f"refused: {wrong}", 400, s.post("/v1/rerank", {"query": "a cat", **wrong}).status)
            r = s.post("/v1/rerank", {"query": "a" * 2**16, "documents": ["a"] * 1025})
            check("a long query for many documents is refused", r.status == 400 and "1025 x 65536 bytes" in r.text, r)
            same("and answered for few", 200, s.post("/v1/rerank", {"query": "a cat " + " " * 2**16, "documents": ["a"] * 4}).status)
            same("it writes no text", "unsupported_parameter", s.text().code)
            same("it gives rankings", True, s.get("/props").json["capabilities"]["rerank"])


def adapters():
    config = os.path.join(os.environ["CLEF_SOURCE"], "share", "demo")
    with tempfile.TemporaryDirectory() as folder:
        made = []
        for i, name in enumerate("ab"):
            path = os.path.join(folder, name)
            run("train", config, "--lora", "4", "--data", os.path.join(os.environ["CLEF_SOURCE"], "README.md"), "-n", "6", "-c", "64", "-b", "4",
                "--rate", "0.01", "--seed", str(i), "-o", path, "-q", "--validation", "0")
            made.append(path)
        alone = [run("run", "-p", "The king", "-n", "20", "--temp", "0", "-q", *flags).rstrip("\n")
                 for flags in ([], ["--lora", made[0]], ["--lora", made[1]])]
        check("adapters change the text", len(set(alone)) == 3, alone)
        with Server("--lora", f"a={made[0]}", "--lora", f"b={made[1]}") as s:
            same("adapters are models", ["demo", "a", "b"], [m["id"] for m in s.get("/v1/models").json["data"]])
            for _ in range(2):
                for name, want in zip(("demo", "a", "b"), alone):
                    r = s.text("The king", model=name, max_tokens=20, temperature=0)
                    same(f"as alone: {name}", want, text_of(r))
            same("by the field lora", alone[2], text_of(s.text("The king", lora=[{"name": "b"}], max_tokens=20, temperature=0)))
            same("a scale of 0", alone[0], text_of(s.text("The king", model="a", lora=[{"name": "a", "scale": 0}], max_tokens=20, temperature=0)))
            same("no adapter is in use before one is chosen", [0, 0], [a["scale"] for a in s.get("/lora-adapters").json])
            scales = [[{"id": 1, "scale": 1}], [{"id": 0, "scale": 0}, {"id": 1, "scale": 0}], [{"id": 0, "scale": 1.0}]]
            for chosen, want in zip(scales, (alone[2], alone[0], alone[1])):
                r = s.post("/lora-adapters", chosen)
                same(f"POST /lora-adapters {chosen}", (200, {"success": True}, want), (r.status, r.json, text_of(s.text("The king", max_tokens=20, temperature=0))))
            same("it says which", [1, 0], [a["scale"] for a in s.get("/lora-adapters").json])
            same("a request may name another", [alone[2], alone[0]], [text_of(s.text("The king", lora=one, max_tokens=20, temperature=0)) for one in ([{"id": 1}], [])])
            same("another scale, an adapter that is not there, no list", [400] * 5, [s.post("/lora-adapters", b).status for b in ([{"id": 0, "scale": 0.5}], [{"id": 7, "scale": 1}], {"id": 0}, "[", '[],"x":1')])
            same("another scale of a request", (400, "unsupported_parameter"), (lambda r: (r.status, r.code))(s.text(lora=[{"id": 0, "scale": 0.5}])))
            same("which change nothing", [1, 0], [a["scale"] for a in s.get("/lora-adapters").json])
            same("another model", (404, "model_not_found"), (lambda r: (r.status, r.code))(s.text(model="../../x")))


with Server("--chat-template", "chatml", "--tool-format", "hermes") as server:
    for part in (completions, streams, logprobs, formats, embeddings, tokens, reported):
        part(server)
    same("it ends with 0", 0, server.stop())
other_models()
rankings()
adapters()
finish()

"""Many clients of all kinds for a while: some break off, some send rubbish. Then nothing is left, the counters equal the
replies, and memory has not grown.

usage: soak.py [SECONDS]      20 by default; half an hour shows more"""
import json
import random
import socket
import struct
import sys
import threading
import time

from serving import Server, check, events, finish, long_model, same

SECONDS = float((sys.argv[1:] or [20])[0])
N_CLIENTS = 24
MAY = (200, 429, 504)  # 504: a busy machine is slower than --queue-timeout
SCHEMA = {"type": "json_schema", "schema": {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "boolean"}}}}}
lock, sums, wrong, counts = threading.Lock(), {"prompt": 0, "generation": 0}, [], {}


def note(kind, usage=None):
    with lock:
        counts[kind] = counts.get(kind, 0) + 1
        if usage:
            sums["prompt"] += usage["prompt_tokens"]
            sums["generation"] += usage.get("completion_tokens", 0)


def expect(kind, reply, statuses=(200,)):
    if reply.status not in statuses:
        with lock:
            wrong.append((kind, repr(reply)))
    usage = (reply.json or {}).get("usage") if reply.status == 200 and isinstance(reply.json, dict) else None
    note(kind, usage)


def text(s, rng):
    expect("text", s.text("word " * rng.randrange(1, 200), max_tokens=rng.randrange(1, 60), temperature=1, n=rng.randrange(1, 3)), MAY)


def stream(s, rng):
    r = s.chat("Hello " * rng.randrange(1, 50), max_tokens=rng.randrange(1, 60), stream=True, stream_options={"include_usage": True}, logprobs=rng.random() < 0.3)
    if r.status == 200:
        note("stream", events(r.text)[-1]["usage"])
        if not r.text.endswith("[DONE]\n\n"):
            wrong.append(("stream", r))
    else:
        expect("stream", r, MAY)


def schema(s, rng):
    expect("schema", s.chat(max_tokens=50, response_format=SCHEMA, seed=rng.randrange(99)), MAY)


def tools(s, rng):
    expect("tools", s.chat(max_tokens=50, tools=[TOOL], tool_choice=rng.choice(["auto", "required"])), MAY)


def embeddings(s, rng):
    expect("embeddings", s.post("/v1/embeddings", {"input": ["word " * rng.randrange(1, 60)] * rng.randrange(1, 20)}), MAY)


def native(s, rng):
    more = rng.choice([{}, {"n_probs": 3}, {"n_predict": 0}, {"cache_prompt": False}, {"n_indent": 2, "t_max_predict_ms": 50}, {"response_fields": ["tokens_evaluated", "tokens_predicted"]}])
    body = {"prompt": ["word " * rng.randrange(1, 100), [1, 2, "a", 3]], "n_predict": rng.randrange(1, 40), "stream": rng.random() < 0.5, **more}
    r = s.post("/completion", body)
    replies = [] if r.status != 200 else [e for e in events(r.text) if e.get("stop", True)] if body["stream"] else r.json
    if r.status not in MAY:
        wrong.append(("native", r))
    note("native", {"prompt_tokens": sum(e["tokens_evaluated"] for e in replies), "completion_tokens": sum(e["tokens_predicted"] for e in replies)})


def others(s, rng):
    """Anthropic's messages and OpenAI's responses."""
    if rng.random() < 0.5:
        r = s.post("/v1/messages", {"messages": [{"role": "user", "content": "Hello " * rng.randrange(1, 50)}], "max_tokens": rng.randrange(1, 40)})
    else:
        r = s.post("/v1/responses", {"input": "Hello " * rng.randrange(1, 50), "max_output_tokens": rng.randrange(1, 40), "store": rng.random() < 0.5})
    if r.status not in MAY:
        wrong.append(("others", r))
    usage = r.json["usage"] if r.status == 200 else {"input_tokens": 0, "output_tokens": 0}
    note("others", {"prompt_tokens": usage["input_tokens"] + usage.get("cache_read_input_tokens", 0), "completion_tokens": usage["output_tokens"]})


def break_off(s, rng):
    c = s.begin(rng.choice(["/v1/completions", "/completion"]), {"prompt": "word " * rng.randrange(1, 1000), "max_tokens": 500, "stream": rng.random() < 0.5, "ignore_eos": True})
    time.sleep(rng.random() * 0.3)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.close()
    note("broke off")


def rubbish(s, rng):
    s.raw(bytes(rng.randrange(256) for _ in range(rng.randrange(1, 300))) + b"\r\n\r\n", 0.1)
    expect("refused", s.post("/v1/completions", rng.choice(["{", "[]", '{"prompt":1}', '{"prompt":"a","n":-1}'])), (400,))


def look(s, rng):
    r = s.get(rng.choice(["/health", "/metrics", "/v1/models", "/props", "/slots", "/lora-adapters", "/"]))
    expect("look", r)


def client(s, seed, end):
    rng = random.Random(seed)
    while time.monotonic() < end:
        do = rng.choice([text, text, stream, stream, schema, tools, embeddings, native, others, break_off, rubbish, look])
        try:
            do(s, rng)
        except (OSError, ValueError) as e:
            with lock:
                wrong.append((do.__name__, repr(e)))


with Server("-c", "2048", "--chat-template", "chatml", "--tool-format", "hermes", "--spec", "ngram", "-q", model=long_model()) as server:
    begin = time.monotonic()
    threads = [threading.Thread(target=client, args=(server, i, begin + SECONDS)) for i in range(N_CLIENTS)]
    for t in threads:
        t.start()
    memory = []
    while time.monotonic() < begin + SECONDS:
        time.sleep(min(5, SECONDS / 8))
        memory.append((time.monotonic() - begin, server.metric("process_resident_memory_bytes")))
    for t in threads:
        t.join()
    check("no reply was wrong", not wrong, wrong[:3])
    check("all ended", server.until(server.idle, 60))
    check("pages: used are cached", server.until(lambda: server.metric("clef_kv_pages_used") == server.metric("clef_kv_pages_cached")))
    check("connections ended", server.until(lambda: server.metric("clef_connections") <= 1, 30))
    for name, total in sums.items():
        same(f"{name} tokens are those of the replies", total, int(server.metric(f"clef_{name}_tokens_total")))
    print(counts, [f"{t:.0f} s: {m / 2 ** 20:.0f} MiB" for t, m in memory[:: max(1, len(memory) // 8)]])
    if SECONDS >= 600: # before, caches fill
        early = next(m for t, m in memory if t >= 300)
        check("memory does not grow", memory[-1][1] < early * 1.02, (early, memory[-1]))
    same("it ends with 0", 0, server.stop())
finish()

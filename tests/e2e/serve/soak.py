"""Many clients of all kinds for a while: some break off, some send rubbish. Beside them, a server changes between models whose
answers never change, and a model is trained. Then nothing is left, the counters equal the replies, and memory has not grown.

usage: soak.py [SECONDS [STATE]]
  SECONDS   20 by default; half an hour shows more
  STATE     a JSON file: sums of the runs with it, so that bounded runs make a long one. All are of one build"""
import contextlib
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from serving import COMMAND, Server, check, events, finish, long_model, same, tiny_model

SECONDS = float((sys.argv[1:] or [20])[0])
STATE = (sys.argv[2:] or [None])[0]
N_CLIENTS = 24
N_FIXED = 3
MODELS = ["alpha", "beta", "gamma"]
MAY = (200, 429, 504)  # 504: a busy machine is slower than --queue-timeout
SCHEMA = {"type": "json_schema", "schema": {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "boolean"}}}}}
# Requests whose answers are always the same, and the member that has them.
FIXED = {"/v1/completions": ({"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0, "logprobs": 2}, "choices"),
         "/v1/chat/completions": ({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 40, "temperature": 0, "response_format": SCHEMA}, "choices"),
         "/v1/embeddings": ({"input": ["a tree", "two small trees"]}, "data"),
         "/v1/rerank": ({"query": "a tree", "documents": ["a house", "a forest"]}, "results")}
lock, sums, wrong, counts = threading.Lock(), {"prompt": 0, "generation": 0}, [], {}
answers, differing, waits = {}, [], []


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


def fixed(s, rng):
    path = rng.choice(list(FIXED))
    name = "ranker" if path == "/v1/rerank" else rng.choice(MODELS)
    body, member = FIXED[path]
    begin = time.monotonic()
    r = s.post(path, {"model": name, **body})
    if r.status == 200:
        with lock:
            waits.append(time.monotonic() - begin)
            if answers.setdefault(f"{path} {name}", r.json[member]) != r.json[member]:
                differing.append((path, name, r))
        note("fixed")
    else:
        expect("fixed", r, MAY)


MIXED = [text, text, stream, stream, schema, tools, embeddings, native, others, break_off, rubbish, look]


def client(s, kinds, seed, end):
    rng = random.Random(seed)
    while time.monotonic() < end:
        do = rng.choice(kinds)
        try:
            do(s, rng)
        except (OSError, ValueError) as e:
            with lock:
                wrong.append((do.__name__, repr(e)))


def size(process):
    """Resident bytes, open files and threads."""
    with open(f"/proc/{process.pid}/status", encoding="ascii") as f:
        status = dict(line.split(":", 1) for line in f)
    return int(status["VmRSS"].split()[0]) << 10, len(os.listdir(f"/proc/{process.pid}/fd")), int(status["Threads"])


def size_idle(s):
    """Open files, and threads without the one of each model, while no connection is open."""
    n_models, samples = s.metric("clef_models_loaded"), []
    for _ in range(10):
        time.sleep(0.02)
        samples.append(size(s.process)[1:])
    files, n_threads = min(samples)
    return files, n_threads - n_models


@contextlib.contextmanager
def train(folder):
    """A training without end."""
    source = os.environ["CLEF_SOURCE"]
    p = subprocess.Popen([*COMMAND, "train", os.path.join(folder, "alpha"), "--data", os.path.join(source, "README.md"), "-n", "1000000000", "-c", "64",
                          "-b", "2", "--eval-every", "50", "--checkpoint-every", "100", "-q", "-o", os.path.join(folder, "trained")],
                         env=dict(os.environ, CLEF_TUNE="0", CLEF_PROOF="0"), stdout=subprocess.DEVNULL)
    try:
        yield p
    finally:
        p.kill()
        p.wait()


def median(values):
    return sorted(values)[len(values) // 2]


def join_state(figures):
    """Adds the figures of this run to those of the file, and writes it again."""
    before = {"runs": [], "answers": answers}
    if os.path.exists(STATE):
        with open(STATE, encoding="ascii") as f:
            before = json.load(f)
    same("answers are those of earlier runs", before["answers"], {**before["answers"], **answers})
    state = {"runs": before["runs"] + [figures], "answers": {**answers, **before["answers"]}}
    with open(STATE + ".new", "w", encoding="ascii") as f:
        json.dump(state, f, indent=1)
    os.replace(STATE + ".new", STATE)
    print(f"{len(state['runs'])} runs: " + ", ".join(f"{sum(r[k] for r in state['runs'])} {k}" for k in ("seconds", "requests", "steps", "wrong", "differing")))


def main(folder):
    for i, name in enumerate(MODELS):
        tiny_model(folder, name, i + 1)
    subprocess.run([sys.executable, os.path.join(os.environ["CLEF_SOURCE"], "tests", "fixtures", "one_label.py"), os.path.join(folder, "ranker")], check=True)
    common = ["--chat-template", "chatml", "-q"]
    with (Server(*common, "-c", "2048", "--tool-format", "hermes", "--spec", "ngram", model=long_model()) as server,
          Server(*common, "--repeatable", "--max-seqs", "4", "--memory", "75M", model=folder) as several, train(folder) as training):
        soak(server, several, training, os.path.join(folder, "trained.train", "log.jsonl"))


def soak(server, several, training, log):
    processes = {"server": server.process, "several": several.process, "training": training}
    for i in range(9): # the driver starts a thread at its first use
        fixed(several, random.Random(i))
    idle = [size_idle(s) for s in (server, several)]
    begin = time.monotonic()
    threads = [threading.Thread(target=client, args=(server, MIXED, i, begin + SECONDS)) for i in range(N_CLIENTS)]
    threads += [threading.Thread(target=client, args=(several, [fixed], i, begin + SECONDS)) for i in range(N_FIXED)]
    for t in threads:
        t.start()
    sizes = []
    while time.monotonic() < begin + SECONDS:
        time.sleep(min(5, SECONDS / 8))
        sizes.append((time.monotonic() - begin, {name: size(p) for name, p in processes.items()}))
    for t in threads:
        t.join()
    check("no reply was wrong", not wrong, wrong[:3])
    check("fixed requests have the same answers", answers and not differing, differing[:3])
    check("models were changed", several.metric("clef_model_unloads_total") > 0)
    training.send_signal(signal.SIGINT)
    check("training ends when it is told to", training.wait(300) in (0, 130), training.returncode)
    for s in (server, several):
        check("all ended", s.until(s.idle, 60))
        check("pages: used are cached", s.until(lambda s=s: s.metric("clef_kv_pages_used") == s.metric("clef_kv_pages_cached")))
        check("connections ended", s.until(lambda s=s: s.metric("clef_connections") <= 1, 30))
        before = idle.pop(0)
        check("files and threads are as many as before", s.until(lambda s=s, before=before: size_idle(s) == before, 30), (before, size_idle(s)))
    for name, total in sums.items():
        same(f"{name} tokens are those of the replies", total, int(server.metric(f"clef_{name}_tokens_total")))
    with open(log, encoding="utf-8") as f:
        steps = sum('"event": "step"' in line for line in f)
    if SECONDS >= 600:  # before, the first step may still be compiled
        check("training makes steps, and ends with a checkpoint", steps > 0 and any(name.startswith("ckpt-") for name in os.listdir(os.path.dirname(log))), steps)
    tenth = max(1, len(waits) // 10)
    figures = {"seconds": round(SECONDS), "requests": sum(counts.values()), "steps": steps, "wrong": len(wrong), "differing": len(differing), "counts": counts,
               "loads": several.metric("clef_model_loads_total"), "wait_ms_first_last": [round(1000 * median(w)) for w in (waits[:tenth], waits[-tenth:])],
               "sizes": {f"{t:.0f} s": {n: [v[0] >> 20, *v[1:]] for n, v in all_of.items()} for t, all_of in sizes[:: max(1, len(sizes) // 8)]}}
    print(json.dumps(figures))
    for name in processes if SECONDS >= 600 else ():  # before, caches fill
        halves = [max(all_of[name][0] for t, all_of in sizes if (t > SECONDS / 2) == late) for late in (False, True)]
        check(f"memory of {name} does not grow", halves[1] < halves[0] * (1.1 if name == "several" else 1.02), halves)  # not always the same models
    if STATE:
        join_state(figures)
    for s in (server, several):
        same("it ends with 0", 0, s.stop())


with tempfile.TemporaryDirectory(prefix="clef-soak-") as tmp:
    main(tmp)
finish()

"""Several models in one server: each request is answered by the model that it names, whatever is in memory."""
import atexit
import json
import os
import random
import re
import select
import shutil
import subprocess
import sys
import tempfile
import threading

from serving import COMMAND, Server, check, finish, same, tiny_model

ENV = {"CLEF_DEBUG": "background=0"}
SOURCE = os.environ["CLEF_SOURCE"]
NAMES = ["alpha", "beta", "gamma"]
FLAGS = ["--max-seqs", "4", "-c", "128"]
PROMPT = "Once upon a time"


def ask(s, kind, model, **fields):
    """A request of a kind, and of its reply what the model decides."""
    hi = [{"role": "user", "content": "Hello"}]
    if kind == "embeddings":
        r = s.post("/v1/embeddings", {"model": model, "input": PROMPT, **fields})
        return r, r.status == 200 and [round(x, 3) for x in r.json["data"][0]["embedding"]]
    if kind == "messages":
        r = s.post("/v1/messages", {"model": model, "messages": hi, "max_tokens": 6, "temperature": 0, **fields})
        return r, r.status == 200 and r.json["content"][0]["text"]
    if kind == "responses":
        r = s.post("/v1/responses", {"model": model, "input": "Hello", "max_output_tokens": 6, "temperature": 0, "store": False, **fields})
        return r, r.status == 200 and r.json["output"][0]["content"][0]["text"]
    if kind == "ollama":
        r = s.post("/api/generate", {"model": model + ":latest", "prompt": PROMPT, "raw": True, "stream": False,
                                     "options": {"num_predict": 6, "temperature": 0, **fields}})
        return r, r.status == 200 and r.json["response"]
    r = s.text(PROMPT, model=model, max_tokens=6, temperature=0, **fields)
    return r, r.status == 200 and r.json["choices"][0]["text"]


KINDS = ["completions", "messages", "responses", "embeddings", "ollama"]


def states(s):
    return {m["id"]: m["state"] for m in s.get("/v1/models").json["data"]}


def sizes_of_one(folder):
    """What one of the models needs for texts, and for all that it does, as the server says."""
    with Server(*FLAGS, model=os.path.join(folder, "alpha"), env=ENV) as s:
        for_texts = int(s.metric("clef_models_bytes"))
    with Server(*FLAGS, "--memory", str(int(for_texts * 1.1)), model=os.path.join(folder, "alpha"), env=ENV) as s:
        r = s.post("/v1/embeddings", {"input": PROMPT})
        found = re.search(r"alpha needs ([0-9.]+) MiB to do this, too", r.text)
        check("embeddings that do not fit into --memory beside texts are refused", r.status == 400 and found, r)
        same("texts fit", 200, ask(s, "completions", "alpha")[0].status)
        return for_texts, float(found.group(1)) * 2**20


def check_names(s):
    unknown = s.text(model="delta", max_tokens=1)
    same("an unknown model", (404, "model_not_found"), (unknown.status, unknown.code))
    r, _ = ask(s, "messages", "delta")
    same("in Anthropic's form", (404, "error", "not_found_error"), (r.status, r.json["type"], r.json["error"]["type"]))
    r, _ = ask(s, "ollama", "delta")
    same("in Ollama's form", (404, str), (r.status, type(r.json["error"])))
    same("its own path", 404, s.get("/v1/models/delta").status)
    same("nor by HEAD", 404, s.send("HEAD", "/props?model=delta").status)
    same("nothing was loaded for it", {n: "unloaded" for n in NAMES}, states(s))
    same("a model that is not loaded has a context", 128, s.get("/v1/models/beta").json["context_length"])
    escaped = s.post("/v1/completions", '{"prompt": {"model": "alpha"}, "model": "alpha", "model": "del\\u0074a"}')
    same("the last name counts, and one within a value does not", (404, "model_not_found"), (escaped.status, escaped.code))
    same("a body that is not JSON", (400, "invalid_json"), (lambda r: (r.status, r.code))(s.post("/v1/completions", '{"model": "alpha",')))


def check_at_random(s, most):
    """16 clients, each with requests for models and of kinds at random: each reply is the one that its model gives alone."""
    wanted = {(k, n): ask(s, k, n)[1] for n in NAMES for k in KINDS}
    for k in KINDS:
        check(f"{k}: the models differ", len({str(wanted[k, n]) for n in NAMES}) > 1, wanted)
    wrong, sizes_seen, seed = [], [], random.randrange(1 << 30)

    def client(i):
        draw = random.Random(seed + i)
        for _ in range(3):
            kind, name = draw.choice(KINDS), draw.choice(NAMES)
            r, got = ask(s, kind, name)
            if got != wanted[kind, name]:
                wrong.append((kind, name, r))
            sizes_seen.append(s.metric("clef_models_bytes"))

    before = s.metric("clef_model_loads_total")
    threads = [threading.Thread(target=client, args=(i,)) for i in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    same(f"16 clients (seed {seed}): every reply is its model's", [], wrong[:3])
    check("models were loaded, and unloaded", s.metric("clef_model_loads_total") > before and s.metric("clef_model_unloads_total") > 0)
    check("the memory of models is within --memory", max(sizes_seen) <= most, (max(sizes_seen), most))
    check("the log says so", "is loaded: " in s.log and "is unloaded: another model needs its memory" in s.log, s.log[-800:])
    check("nothing waits or runs", s.until(s.idle), s.get("/metrics").text)


def check_leaves(s):
    """A client that goes while its model waits for room leaves the queue."""
    for n in NAMES:
        same(f"{n} answers", 200, ask(s, "completions", n)[0].status)
    loaded = [n for n, state in states(s).items() if state == "loaded"]
    same("the two that were used last are loaded", NAMES[1:], loaded)
    other = NAMES[0]
    long = [s.begin("/v1/completions", {"model": n, "prompt": PROMPT, "max_tokens": 120, "ignore_eos": True, "temperature": 0, "n": 8}) for n in loaded]
    s.until(lambda: s.metric("clef_requests_running") > 0)
    waits = s.begin("/v1/completions", {"model": other, "prompt": PROMPT, "max_tokens": 2})
    s.until(lambda: s.metric("clef_requests_waiting") > 0 or states(s)[other] == "loaded")
    for connection in (waits, *long):
        connection.close()
    check("requests that left wait no more", s.until(s.idle))
    for n in NAMES:
        same(f"{n} answers after that", 200, ask(s, "completions", n)[0].status)


def check_large(s):
    """While a large body waits for its model, those of other models are read."""
    for n in NAMES:
        same(f"{n} is used", 200, ask(s, "completions", n)[0].status)
    other, *loaded = NAMES
    long = []
    for n in loaded:
        long.append(s.begin("/v1/completions", {"model": n, "prompt": [PROMPT] * 64, "n": 8, "max_tokens": 100, "ignore_eos": True}))
        check(f"{n} runs", s.until(lambda: s.metric("clef_requests_running") >= 4 * len(long)))
    n_waiting = s.metric("clef_requests_waiting")
    waits = s.begin("/v1/completions", {"model": other, "prompt": PROMPT, "max_tokens": 2, "user": "x" * 200000})
    check("a large body waits for room", s.until(lambda: s.metric("clef_requests_waiting") > n_waiting))
    same("another one is read meanwhile", 200, ask(s, "completions", loaded[1], user="x" * 200000)[0].status)
    check("before it is answered", not select.select([waits], [], [], 0)[0])
    for connection in long:
        connection.close()
    check("then it is", waits.recv(12) == b"HTTP/1.1 200")
    waits.close()
    check("and nothing runs", s.until(s.idle))


def check_readers():
    """Models that write no texts, and have no head for words: what they need is known, too."""
    with tempfile.TemporaryDirectory() as folder:
        ranker, reader = os.path.join(folder, "ranker"), os.path.join(folder, "reader")
        subprocess.run([sys.executable, os.path.join(SOURCE, "tests", "fixtures", "one_label.py"), ranker], check=True)
        shutil.copytree(ranker, reader)
        config = os.path.join(reader, "config.json")
        with open(config, encoding="utf-8") as f:
            about = {**json.load(f), "architectures": ["BertModel"]}
        with open(config, "w", encoding="utf-8") as f:
            json.dump(about, f)
        with Server("--memory", "100M", model=folder, env=ENV) as s:
            same("models that only read are opened with --memory", ["ranker", "reader"], sorted(states(s)))
            same("one ranks", 200, s.post("/v1/rerank", {"model": "ranker", "query": "a cat", "documents": ["the sea"]}).status)
            same("one gives vectors", 200, s.post("/v1/embeddings", {"model": "reader", "input": "a cat"}).status)


def check_idle(folder):
    with Server("--idle-unload", "0.3", model=os.path.join(folder, "alpha"), env=ENV) as s:
        first = ask(s, "completions", "any")[1]
        check("a model that nobody uses is unloaded", s.until(lambda: states(s)["alpha"] == "unloaded"))
        same("its memory is free", 0, s.metric("clef_models_bytes"))
        same("and loaded again", first, ask(s, "completions", "any")[1])
        check("the log says why", "alpha is unloaded: nobody used it (--idle-unload)" in s.log, s.log)


def refused(name, said, *args):
    r = subprocess.run([*COMMAND, "serve", "--port", "0", *args], env=dict(os.environ, CLEF_TUNE="0", CLEF_PROOF="0", **ENV), capture_output=True, text=True, timeout=120)
    check(name, r.returncode in (1, 2) and said in r.stderr, (r.returncode, r.stderr))


def check_fit(path):
    """--fit: less than it asks for, within the limit; the same text as without."""
    with Server("--max-seqs", "4", model=path, env=ENV) as s:
        whole = int(s.metric("clef_models_bytes"))
        wanted = s.text("Once", max_tokens=8, temperature=0).json["choices"][0]["text"]
    for part in (0.9, 0.6):
        with Server("--max-seqs", "4", "--memory", str(int(whole * part)), "--fit", model=path, env=ENV) as s:
            line = next((x for x in s.log.split("\n") if "--fit: " in x), s.log)
            found = re.search(r"with a context of (\d+) and a KV cache of (\d+) positions", line)
            check(f"--fit to {part} says what it chose", found and int(found[2]) >= int(found[1]) >= 256, line)
            got = s.text("Once", max_tokens=8, temperature=0)
            check("and answers", got.status == 200 and (", q8_0" in line or got.json["choices"][0]["text"] == wanted), got)
            check("within the limit", 0 < s.metric("clef_models_bytes") <= whole * part, s.metric("clef_models_bytes"))


def main():
    folder = tempfile.mkdtemp(prefix="clef-models-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for i, name in enumerate(NAMES):
        tiny_model(folder, name, i + 1)
    most_of_texts, most = (int(x * 2.5) for x in sizes_of_one(folder))
    with open(os.path.join(folder, "broken.gguf"), "wb") as f:
        f.write(b"GGUF and no more")
    with Server(*FLAGS, "--memory", str(most), "--ollama", "--chat-template", "chatml", model=folder, env=ENV) as s:
        check("a folder's broken file is left out", "broken.gguf is left out" in s.log, s.log)
        check_names(s)
        check_at_random(s, most)
        same("Ollama's list", NAMES, [m["name"] for m in s.get("/api/tags").json["models"]])
        same("the server ends", 0, s.stop())
    with Server(*FLAGS, "--memory", str(most_of_texts), model=folder, env=ENV) as s:
        check_leaves(s)
        check_large(s)
    check_readers()
    check_idle(folder)
    paths = [os.path.join(folder, n) for n in NAMES]
    refused("two models of one name", "are both called 'x'; --alias names each", *paths[:2], "--alias", "x", "--alias", "x")
    refused("more names than models", "--alias: expected at most one for each of 1 models, got 2", paths[0], "--alias", "x", "--alias", "y")
    check_fit(paths[0])
    refused("--fit without --memory", "serve --fit: expected --memory", paths[0], "--fit")
    refused("--fit with too little", "expected at most 100.0 KiB", paths[0], "--memory", "100K", "--fit")
    refused("a model beyond --memory", "expected at most 100.0 KiB", *paths, "--memory", "100K")
    refused("a size", "--memory: expected a size such as 512M or 2G, got '2X'", paths[0], "--memory", "2X")
    refused("an adapter of several models", "serve --lora: expected one model", *paths, "--lora", paths[0])
    refused("a folder without models", "expected a config.json, or models", os.path.join(SOURCE, "docs"))
    finish()


main()

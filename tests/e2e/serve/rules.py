"""Who is answered, and what is refused: hosts, origins, keys, methods, bodies, fields, heads."""
import http.client
import itertools
import json
import os
import signal
import socket
import subprocess
import tempfile
import time

from serving import COMMAND, ON_WINDOWS, Server, check, fail, finish, ok, same

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def refused(name, reply, status, code=None):
    check(name, reply.status == status and (code is None or reply.code == code)
          and isinstance((reply.json or {}).get("error", {}).get("message"), str), f"wanted {status} {code}, got {reply}")


def deep(n):
    return '{"messages":' + "[" * n + "]" * n + "}"


def hosts(s):
    for host in ("localhost", "127.0.0.1", "localhost:1", f"127.0.0.1:{s.port}", "[::1]", "LOCALHOST"):
        same(f"Host {host}", 200, s.send("GET", "/health", headers={"Host": host}).status)
    for host in ("evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example"):
        refused(f"Host {host!r}", s.send("GET", "/v1/models", headers={"Host": host}), 403)
    for origin in ("http://evil.example", "null", "http://localhost:1", "file://"):
        refused(f"Origin {origin}", s.send("GET", "/v1/models", headers={"Origin": origin}), 403)
    mine = s.send("GET", "/v1/models", headers={"Origin": f"http://localhost:{s.port}", "Host": f"localhost:{s.port}"})
    same("its own page", 200, mine.status)
    good = s.send("GET", "/v1/models", headers={"Origin": "https://app.example"})
    same("an allowed origin", ("https://app.example", 200), (good.headers.get("access-control-allow-origin"), good.status))
    o = s.send("OPTIONS", "/v1/chat/completions", headers={"Origin": "https://app.example"})
    check("its preflight", o.status == 204 and "authorization" in o.headers["access-control-allow-headers"], o.headers)
    same("an allowed host", 200, s.send("GET", "/health", headers={"Host": "my.example:99"}).status)


def methods(s):
    r = s.send("PUT", "/v1/chat/completions", body=b"{}")
    refused("another method", r, 405)
    same("Allow", "POST, OPTIONS", r.headers["allow"])
    refused("GET of a POST", s.get("/v1/completions"), 405)
    refused("no such path", s.get("/v2"), 404)
    refused("a path with escapes", s.get("/v1/models/..%2f..%2fx"), 404)
    same("a query is ignored", 200, s.get("/health?x=1").status)
    refused("no length", FakeReply(s.raw(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\r\n", 5)), 411)
    refused("another type", s.post("/v1/completions", "{}", headers={"Content-Type": "text/plain"}), 415)
    refused("a form", s.post("/v1/completions", "{}", headers={"Content-Type": "application/x-www-form-urlencoded"}), 415)
    refused("a large body", s.post("/v1/completions", json.dumps({"prompt": "x" * (9 << 20)})), 413)
    refused("a long URI", s.get("/" + "a" * 10000), 414)
    refused("many headers", s.send("GET", "/health", headers={f"x-{i}": "1" for i in range(120)}), 431)
    refused("large headers", s.send("GET", "/health", headers={f"x-{i}": "1" * 8000 for i in range(6)}), 431)
    both = s.raw(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 5\r\n"
                 b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n", 5)
    check("length and chunks", b" 400 " in both[:40], both[:100])
    chunked = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
               b"Connection: close\r\n\r\n1c\r\n{\"prompt\":\"a\",\"max_tokens\":1\r\n1\r\n}\r\n0\r\n\r\n")
    check("a body in chunks", b" 200 " in s.raw(chunked, 20)[:40])
    check("an HTTP/1.0 client", b" 200 " in s.raw(b"GET /health HTTP/1.0\r\n\r\n", 5)[:40])
    for garbage in (b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"POST /%00 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\x02\x00"):
        s.raw(garbage, 0.5)
    same("it still answers", 200, s.get("/health").status)


class FakeReply:
    """The reply within raw bytes."""

    def __init__(self, data):
        head, _, body = data.partition(b"\r\n\r\n")
        self.status = int(head.split()[1]) if head else 0
        self.text = body.decode("utf-8", "replace")
        try:
            self.json = json.loads(self.text)
        except ValueError:
            self.json = None
        self.code = ((self.json or {}).get("error") or {}).get("code")

    def __repr__(self):
        return f"{self.status} {self.text[:200]}"


def bodies(s):
    for body in ("", "{", "[]", "1", "null", '"x"', "{} {}", '{"a":1}x', "\xff", '{"prompt":"a","temperature":NaN}', deep(10000), deep(60000)):
        refused(f"body {body[:20]!r}", s.post("/v1/completions", body.encode("latin1") if body == "\xff" else body), 400, "invalid_json")
    refused("image_url", s.post("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"http://127.0.0.1:{s.port}/x"}}]}]}), 400, "unsupported_parameter")
    for name, value in {"functions": [], "function_call": "auto", "audio": {}, "web_search_options": {}, "chat_template": "x", "store": True, "modalities": ["audio"]}.items():
        r = s.chat(max_tokens=1, **{name: value})
        refused(f"{name} is refused", r, 400, "unsupported_parameter")
        same(f"{name} is named", name, r.json["error"]["param"])
    for name, value in {"store": False, "user": "u", "metadata": {}, "service_tier": "auto", "modalities": ["text"], "prediction": None}.items():
        same(f"{name} is harmless", 200, s.chat(max_tokens=1, **{name: value}).status)
    refused("suffix", s.text(suffix="x"), 400, "unsupported_parameter")
    refused("best_of", s.text(best_of=2), 400, "unsupported_parameter")
    refused("n", s.chat(n=10 ** 9), 400, "invalid_value")
    for name in ("__class__", "messages", "bos_token", "a b", ""):
        refused(f"a variable {name!r}", s.chat(chat_template_kwargs={name: 1}), 400)
    same("a variable", 200, s.chat(max_tokens=1, chat_template_kwargs={"enable_thinking": False}).status)
    schema = {"type": "object"}
    for _ in range(300):
        schema = {"type": "object", "properties": {"a": schema}}
    refused("a deep schema", s.chat(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}), 400, "grammar_too_complex")
    refused("a deep grammar", s.chat(grammar="root ::= " + "(" * 60000 + '"a"' + ")" * 60000), 400)
    r = s.chat(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "array", "uniqueItems": True}}})
    refused("an unsupported schema", r, 400, "unsupported_schema")
    refused("no tools", s.chat(tool_choice="required"), 400)
    refused("an unknown function", s.chat(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "g"}}), 400)
    r = s.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}, {"role": "robot", "content": "b"}]})
    same("a role", "messages[1].role", r.json["error"]["param"])
    r = s.text("word " * 3000)
    refused("a long prompt", r, 400, "context_length_exceeded")
    check("its numbers", r.json["error"]["n_prompt_tokens"] > r.json["error"]["n_ctx"], r)
    check("the words that clients look for", "maximum context length is" in r.json["error"]["message"], r)
    refused("a path as the model", s.text("a", model="../../x"), 404, "model_not_found")
    same("a retry is in vain", "false", s.text("a", n=0).headers["x-should-retry"])


# Field: where, values below and above its range, at its ends.
RANGES = {
    "thinking_budget": (["chat"], [-2, 2 ** 31, 1.5, "5"], [-1, 0, 5.0, 2 ** 31 - 1]),
    "thinking": (["chat"], [True, {}, {"type": "loud"}, {"type": "enabled", "budget_tokens": -1}], [{"type": "disabled"}, {"type": "enabled", "budget_tokens": 5}]),
    "reasoning": (["chat"], [5, {"max_tokens": "5"}, {"effort": 1}, {"enabled": 1}], [{}, {"max_tokens": 5, "effort": "high", "enabled": True}, {"max_tokens": None}]),
    "reasoning_effort": (["chat"], ["", "x" * 65, 1], ["none", "minimal", "xhigh"]),
    "temperature": (["chat", "text"], [-0.1, 100.1], [0, 100]), "top_p": (["chat", "text"], [-0.1, 1.1], [0, 1]),
    "min_p": (["chat", "text"], [-0.1, 1.1], [0, 1]), "typical_p": (["chat", "text"], [-1, 2], [0, 1]),
    "top_k": (["chat", "text"], [-2, 2 ** 31], [-1, 0, 1, 2 ** 31 - 1]), "n": (["chat", "text"], [0, 9], [1, 8]),
    "max_tokens": (["chat", "text"], [0, -2], [1, 2, 2.0]), "top_logprobs": (["chat"], [-1, 21], [0]),
    "presence_penalty": (["chat", "text"], [-101, 101], [-100, 100]), "frequency_penalty": (["chat", "text"], [-101, 101], [-2, 2]),
    "repeat_penalty": (["chat", "text"], [-1, 101], [1, 100]), "repeat_last_n": (["chat", "text"], [-2, 65537], [-1, 0, 1, 65536]),
    "dry_multiplier": (["chat", "text"], [-1, 1001], [0, 1]), "dry_base": (["chat", "text"], [0, 1001], [1, 2]),
    "dry_allowed_length": (["chat", "text"], [0, 65537], [1, 3]), "dry_penalty_last_n": (["chat", "text"], [-2], [-1, 0, 9]),
    "xtc_probability": (["chat", "text"], [-1, 2], [0, 1]), "xtc_threshold": (["chat", "text"], [-1, 2], [0, 0.5, 1]),
    "top_n_sigma": (["chat", "text"], [-2, 101], [-1, 0, 2]), "mirostat": (["chat", "text"], [-1, 1, 3], [0, 2]),
    "mirostat_tau": (["chat", "text"], [-1, 101], [0, 5]), "mirostat_eta": (["chat", "text"], [-1, 2], [0, 1]),
    "min_tokens": (["chat", "text"], [-1], [0, 1]), "seed": (["chat", "text"], [2 ** 64, 1.5], [-2 ** 63, 2 ** 63 - 1, 2 ** 64 - 1, 0, 42.0]),
    "stop": (["chat", "text"], ["", ["x"] * 17, "x" * 257, [1]], ["a", ["a", "b"], [], "x" * 256]),
    "stream": (["chat", "text"], [1, "yes"], [False]), "echo": (["text"], [1], [True, False]),
    "logit_bias": (["chat", "text"], [{"1": 101}, {"x": 101}, {"99999999": 1}, {"-1": 1}, [1], [[5, 101]], [["a", None]], [["a " * 2000, 1]], [["a " * 1000, 1]] + [[i, 1] for i in range(1000)]],
                   [{"5": -100, "6": 100}, {}, [[5, 1], [6.0, False]], {"x": 1}, [["a", -100]]]),
    "samplers": (["chat", "text"], [["x"], [], "top_k,top_k", [1]], [["top_k", "temperature"], "top_p"]),
    "dry_sequence_breakers": (["chat", "text"], [[""], ["x" * 41], "x", [1]], [[], ["\n"]]),
    "response_format": (["chat"], [{"type": "x"}, "json", {}, {"type": "json_schema"}], [{"type": "text"}]),
    "choice": (["chat"], [[], [1], "a"], [["a"]]), "regex": (["chat"], ["", "(", 1], ["a|b"]), "grammar": (["chat"], ["x", 5], ["", 'root ::= "a"']),
    "tools": (["chat"], [[{}], "x", [TOOL] * 1025, [{"type": "function", "function": {"name": "a b"}}]], [[], [TOOL]]),
    "lora": (["chat", "text"], ["x", [{}], [{"name": "none"}]], [[]]), "cache_salt": (["chat", "text"], [1], ["a", ""]),
    "logprobs": (["text"], [-1, 21, True], [0, 20]), "stream_options": (["chat"], [{"include_usage": True}, 1], []),
    "reasoning_effort": (["chat"], [1, ""], ["low"]), "messages": (["chat"], [[], "x", [1], [{}], [{"role": "user"}], [{"role": "user", "content": 1}]], []),
    "prompt": (["text"], [[], [[]], [1.5], [-1], [10 ** 9], {}, [None], ["a"] * 65, True], ["", "a", [1], ["a", [1, 2]]]),
}
WRONG = [True, "x", {"a": 1}, [[1]], 2 ** 63, -2 ** 63 - 1, "x" * 100000, float("nan"), float("inf")]


def fields(s):
    for name, (where, bad, good) in RANGES.items():
        for form in where:
            path = "/v1/chat/completions" if form == "chat" else "/v1/completions"
            base = {"messages": [{"role": "user", "content": "a"}]} if form == "chat" else {"prompt": "a"}
            base |= {"max_tokens": 2}
            wrong = []
            for value in bad:
                r = s.post(path, base | {name: value})
                if r.status != 400 or not r.json["error"]["param"]:
                    wrong.append((value, r))
            for value in good:
                r = s.post(path, base | {name: value})
                if r.status != 200:
                    wrong.append((value, r))
            for value in [None] + WRONG + [json.loads("[" * 900 + "]" * 900)]:
                r = s.post(path, base | {name: value})
                if r.status not in (200, 400) or (value is None and name not in ("messages", "prompt") and r.status != 200):
                    wrong.append((str(value)[:40], r))
            check(f"{form}: {name}", not wrong, str(wrong)[:500])
    same("it still answers", 200, s.get("/health").status)


def pairs(s):
    parts = {"stream": {"stream": True}, "n": {"n": 2}, "logprobs": {"logprobs": 2}, "schema": {"response_format": {"type": "json_schema", "schema": {"enum": [1, 2]}}},
             "tools": {"tools": [TOOL]}, "spec": {"prompt": "a b a b a b a b"}, "lora": {"lora": []}, "echo": {"echo": True}, "stop": {"stop": ["e"]}}
    wrong = []
    names = list(parts)
    for i, a in enumerate(names):
        for b in names[i:]:
            for form, path, base in (("text", "/v1/completions", {"prompt": "a"}), ("chat", "/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]})):
                both = dict(base, max_tokens=6, **{k: v for x in {a, b} for k, v in parts[x].items() if not (form == "chat" and k == "prompt") and k != "prompt"})
                if form == "chat" and "logprobs" in both:
                    both |= {"logprobs": True, "top_logprobs": 2}
                r = s.post(path, both)
                if r.status not in (200, 400) or (r.status == 200 and both.get("stream") and not r.text.endswith("[DONE]\n\n")):
                    wrong.append((a, b, form, r))
    check("every pair of features", not wrong, wrong)


def keys():
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "keys")
    with open(path, "w", encoding="ascii") as f:
        f.write("# a comment\nfirst-key\n\n  second-key  \n")
    os.chmod(path, 0o644)
    env = dict(os.environ)
    p = subprocess.run([*COMMAND, "serve", "--port", "0", "--api-key-file", path], capture_output=True, text=True, env=env)
    check("a key file that others can read", p.returncode == 1 and "others" in p.stderr, p.stderr)
    os.chmod(path, 0o600)
    p = subprocess.run([*COMMAND, "serve", "--host", "0.0.0.0", "--port", "0"], capture_output=True, text=True, env=env)
    check("others can reach it: it needs a key", p.returncode == 2 and "--no-auth" in p.stderr, p.stderr)
    with Server("--api-key-file", path, env={"CLEF_API_KEY": "third"}) as s:
        same("health needs no key", 200, s.get("/health").status)
        same("nor does the list of models, in either place", [200, 200], [s.get(path).status for path in ("/models", "/v1/models")])
        refused("one of them does", s.get("/v1/models/demo"), 401, "invalid_api_key")
        refused("no key", s.get("/props"), 401, "invalid_api_key")
        for wrong in ({"Authorization": "Bearer first-kex"}, {"Authorization": "Bearer "}, {"Authorization": "first-key"}, {"X-Api-Key": "# a comment"}, {"X-Api-Key": ""}):
            refused(f"{wrong}", s.send("GET", "/v1/models", headers=wrong), 401, "invalid_api_key")
        for right in ({"Authorization": "Bearer first-key"}, {"X-Api-Key": "second-key"}, {"Authorization": "bearer third"}):
            same(f"{right}", 200, s.send("GET", "/metrics", headers=right).status)
        with open(path, "a", encoding="ascii") as f:
            f.write("fourth\n")
        if not ON_WINDOWS:
            s.process.send_signal(signal.SIGHUP)
            check("SIGHUP reads the keys again", s.until(lambda: s.send("GET", "/metrics", headers={"X-Api-Key": "fourth"}).status == 200))
        check("no key in the log", "first-key" not in s.log and "fourth" not in s.log)
        same("it ends with 0", 0, s.stop())


def starts():
    env = dict(os.environ)
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    port = str(taken.getsockname()[1])
    for name, args, word in (("a port that is taken", ["--port", port], port), ("no such model", ["/nonexistent.gguf", "--port", "0"], "nonexistent"),
                             ("no such key file", ["--api-key-file", "/nonexistent", "--port", "0"], "nonexistent"),
                             ("no such certificate", ["--tls-cert", "/nonexistent", "--tls-key", "/nonexistent", "--port", "0"], "nonexistent")):
        if ON_WINDOWS and "--tls-cert" in args:
            continue  # serve.py beside windows.sh has what is said there
        p = subprocess.run([*COMMAND, "serve", "-q", *args], capture_output=True, text=True, env=env, timeout=300)
        check(name, p.returncode == 1 and word in p.stderr and p.stderr.count("\n") == 1 and "listening" not in p.stdout, (p.returncode, p.stderr))
    if not ON_WINDOWS:
        unix_socket(env)


def unix_socket(env):
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "s")
    p = subprocess.Popen([*COMMAND, "serve", "--unix", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)
    p.stdout.readline()
    c = socket.socket(socket.AF_UNIX)
    c.connect(path)
    c.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    check("a Unix socket", b"HTTP/1.1 " in c.recv(100))
    same("only its owner can use it", 0, os.stat(path).st_mode & 0o077)
    p.terminate()
    same("it ends", 0, p.wait(300))
    check("and removes the socket", not os.path.exists(path))


def proxies():
    ids = (f"look-{i}" for i in itertools.count())

    def peer(s, **headers):
        look = next(ids)
        s.send("GET", "/v1/models", headers={"X-Request-ID": look, **headers})
        s.until(lambda: f" {look} " in s.log)
        return s.log.split(f" {look} ")[1].split()[0]

    with Server("--proxy", "127.0.0.1", "--max-per-address", "1") as s:
        for value, wanted in (("192.0.2.1", "192.0.2.1"), ("made.up, 192.0.2.1,  2001:db8::7 ", "2001:db8::7"), ("192.0.2.1, nobody", "127.0.0.1"),
                              ("", "127.0.0.1"), ("1" * 200, "127.0.0.1"), ("192.0.2.1:80", "127.0.0.1"), ("192.0.2.1,", "127.0.0.1")):
            same(f"X-Forwarded-For: {value[:40]}", wanted, peer(s, **{"X-Forwarded-For": value}))
        same("no X-Forwarded-For", "127.0.0.1", peer(s))
        two = s.raw(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Request-ID: twice\r\nX-Forwarded-For: 192.0.2.1\r\n"
                    b"X-Forwarded-For: 192.0.2.2\r\n\r\n", 5)
        check("two of them: the last", b" 200 " in two[:40] and s.until(lambda: " twice 192.0.2.2 " in s.log), s.log[-300:])
        held = [s.open() for _ in range(3)]
        for c in held:
            c.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
        same("a proxy has many connections", [b"HTTP/1.1 200"] * 3, [c.recv(100)[:12] for c in held])
        same("while others are open", 200, s.get("/v1/models").status)
        for c in held:
            c.close()
        check("the log has no checks of health", s.get("/health").status == 200 and " /health 200 " not in s.log, s.log[-300:])
        same("it ends with 0", 0, s.stop())
    with Server() as s:
        same("from others it counts for nothing", "127.0.0.1", peer(s, **{"X-Forwarded-For": "192.0.2.1"}))


def several_hosts():
    """Two addresses of one server, with one port and the same rules."""
    with Server("--host", "127.0.0.1", "--host", "127.0.0.2") as s:
        for host in ("127.0.0.1", "127.0.0.2"):
            c = http.client.HTTPConnection(host, s.port, timeout=60)
            c.request("GET", "/v1/models")
            same(f"--host {host}", 200, c.getresponse().status)
            c.close()
        same("a server of two addresses ends", 0, s.stop())
    p = subprocess.run([*COMMAND, "serve", "--host", "127.0.0.1", "--host", "0.0.0.0", "--port", "0"], capture_output=True, text=True)
    check("the second address needs a key, too", p.returncode == 2 and "serve --host 0.0.0.0: others can reach it" in p.stderr, p.stderr)


several_hosts()
with Server("--chat-template", "chatml", "--tool-format", "hermes", "--cors-origin", "https://app.example", "--allow-host", "my.example", "--spec", "ngram") as server:
    for part in (hosts, methods, bodies, fields, pairs):
        part(server)
    same("no status 500", 0, server.log.count(" 500 "))
    same("it ends with 0", 0, server.stop())
keys()
proxies()
starts()
finish()

"""Starts `clef serve` for a test, and speaks HTTP with it. Standard library only.

Each check prints a line, `ok NAME` or `FAIL NAME: WHY`, which tests/count.awk counts."""
import atexit
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

# clef.exe runs under Wine, which hands SIGINT on as Ctrl-C. Windows has no other signals.
ON_WINDOWS = "CLEF_WINE" in os.environ
COMMAND = ([os.environ["CLEF_WINE"]] if ON_WINDOWS else []) + [os.environ["CLEF"]]
END = signal.SIGINT if ON_WINDOWS else signal.SIGTERM

failures = 0


def ok(name):
    print(f"ok {name}", flush=True)


def fail(name, why):
    global failures
    failures += 1
    print(f"FAIL {name}: {str(why)[:600]}", flush=True)


def check(name, condition, why=""):
    if condition:
        ok(name)
    else:
        fail(name, why)


def same(name, wanted, got):
    check(name, wanted == got, f"expected {wanted!r}, got {got!r}")


def finish():
    sys.exit(failures > 0)


class Reply:
    """A status, headers, and a body: text, and JSON where it is some."""

    def __init__(self, status, headers, body):
        self.status, self.headers = status, {k.lower(): v for k, v in headers}
        self.body = body
        self.text = body.decode("utf-8", "replace")
        try:
            self.json = json.loads(self.text)
        except ValueError:
            self.json = None

    @property
    def code(self):
        return (self.json or {}).get("error", {}).get("code") if isinstance(self.json, dict) else None

    def __repr__(self):
        return f"{self.status} {self.text[:300]}"


def long_model():
    """A folder with a new model that knows nothing, but has 8192 positions and takes its time."""
    folder = tempfile.mkdtemp(prefix="clef-serve-model-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    config, model = os.path.join(folder, "config.json"), os.path.join(folder, "long")
    with open(config, "w", encoding="ascii") as f:
        json.dump({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 512, "num_hidden_layers": 8,
                   "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 1024, "max_position_embeddings": 8192,
                   "vocab_size": 1024, "rms_norm_eps": 1e-5, "rope_theta": 10000, "tie_word_embeddings": True, "hidden_act": "silu"}, f)
    source = os.environ["CLEF_SOURCE"]
    subprocess.run([*COMMAND, "train", "--new", config, "--tokenizer", os.path.join(source, "share", "demo"), "--data",
                    os.path.join(source, "README.md"), "-n", "1", "-c", "64", "-b", "1", "-o", model, "-q", "--validation", "0"],
                   check=True, env=dict(os.environ, CLEF_TUNE="0", CLEF_PROOF="0"), stdout=subprocess.DEVNULL)
    return model


def tiny_model(folder, name, seed):
    """A new model of 1024 positions in a folder of its own. It differs from others by its random weights, and is fast."""
    config = os.path.join(folder, name + ".json")
    with open(config, "w", encoding="ascii") as f:
        json.dump({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2,
                   "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "max_position_embeddings": 1024,
                   "vocab_size": 1024, "rms_norm_eps": 1e-5, "rope_theta": 10000, "tie_word_embeddings": False, "hidden_act": "silu"}, f)
    source = os.environ["CLEF_SOURCE"]
    subprocess.run([*COMMAND, "train", "--new", config, "--tokenizer", os.path.join(source, "share", "demo"), "--data",
                    os.path.join(source, "README.md"), "-n", "1", "-c", "32", "-b", "1", "--rate", "1e-6", "--seed", str(seed), "-q",
                    "--validation", "0", "-o", os.path.join(folder, name)],
                   check=True, env=dict(os.environ, CLEF_TUNE="0", CLEF_PROOF="0"), stdout=subprocess.DEVNULL)
    return os.path.join(folder, name)


def spaced_model():
    """A folder and a GGUF file of a new model with a tokenizer of Llama 2's kind: BOS before a text, and a space that its first word
    loses. It has no chat template."""
    folder = tempfile.mkdtemp(prefix="clef-serve-model-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    letters = [chr(c) for c in range(33, 127)]
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + ["\u2581"] + letters + ["\u2581" + c for c in letters]
    special = [{"id": i, "content": pieces[i], "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False} for i in range(3)]
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f:
        json.dump({"version": "1.0", "added_tokens": special, "pre_tokenizer": None,
                   "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
                   "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                                      "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                                      "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
                   "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                                                                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
                   "model": {"type": "BPE", "byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>", "vocab": {p: i for i, p in enumerate(pieces)},
                             "merges": [["\u2581", c] for c in letters]}}, f)
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as f:
        json.dump({"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "tokenizer_class": "LlamaTokenizer"}, f)
    with open(os.path.join(folder, "config.json"), "w", encoding="ascii") as f:
        json.dump({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2,
                   "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "max_position_embeddings": 1024,
                   "vocab_size": len(pieces), "rms_norm_eps": 1e-5, "rope_theta": 10000, "tie_word_embeddings": False, "hidden_act": "silu"}, f)
    model, env = os.path.join(folder, "model"), dict(os.environ, CLEF_TUNE="0", CLEF_PROOF="0")
    subprocess.run([*COMMAND, "train", "--new", os.path.join(folder, "config.json"), "--tokenizer", folder, "--data", __file__, "-n", "1", "-c", "32",
                    "-b", "1", "--rate", "1e-6", "--seed", "5", "-q", "--validation", "0", "-o", model], check=True, env=env, stdout=subprocess.DEVNULL)
    subprocess.run([*COMMAND, "convert", model, model + ".gguf", "-q"], check=True, env=env)
    return model, model + ".gguf"


def events(text):
    """The JSON of a stream's events, without [DONE]."""
    return [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]


class Server:
    """A server on a port of its own; its log is in `log`. Ends with the `with` block."""

    def __init__(self, *flags, model=None, env=None, wait=True):
        self.folder = tempfile.mkdtemp(prefix="clef-serve-")
        self.log_path = os.path.join(self.folder, "log")
        command = [*COMMAND, "serve"] + ([model] if model else []) + ["--port", "0", *flags]
        full = dict(os.environ, CLEF_TUNE="0", CLEF_PROOF="0", **(env or {}))
        if full.get("CLEF_SANITIZE"):  # the driver's leaks are known by their whole stacks
            full["ASAN_OPTIONS"] = full.get("ASAN_OPTIONS", "") + ":fast_unwind_on_malloc=0"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=full)
        line = self.process.stdout.readline().decode()
        found = re.search(r":(\d+)$", line.strip())
        self.port = int(found.group(1)) if found else 0
        if wait and found:
            self.wait_ready()

    def wait_ready(self, seconds=600):
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if self.get("/health").status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise SystemExit(f"FAIL the server is not ready: {self.log[-2000:]}")

    @property
    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def send(self, method, path, body=None, headers=None, timeout=900):  # more than --request-timeout, after which the server says why
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        all_headers = {"Content-Type": "application/json"} if body is not None else {}
        all_headers.update(headers or {})
        try:
            connection.request(method, path, body, all_headers)
            reply = connection.getresponse()
            return Reply(reply.status, reply.getheaders(), reply.read())
        finally:
            connection.close()

    def get(self, path, **more):
        return self.send("GET", path, **more)

    def post(self, path, value, **more):
        body = value if isinstance(value, (str, bytes)) else json.dumps(value)
        return self.send("POST", path, body.encode() if isinstance(body, str) else body, **more)

    def chat(self, text="Hello", **fields):
        return self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": text}], **fields})

    def text(self, prompt="Once upon a time", **fields):
        return self.post("/v1/completions", {"prompt": prompt, **fields})

    def open(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=300)

    def begin(self, path, value, most=None):
        """Sends a request, or at most so many bytes of its body, and returns the socket without reading."""
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        s = self.open()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        s.sendall(head.encode() + body[:most])
        return s

    def raw(self, data, seconds=20):
        """Writes bytes and reads to the end, or for some seconds."""
        s = self.open()
        s.settimeout(seconds)
        got = b""
        try:
            s.sendall(data)
            while True:
                piece = s.recv(65536)
                if not piece:
                    break
                got += piece
        except OSError:
            pass
        s.close()
        return got

    def metric(self, name, labels=""):
        for line in self.get("/metrics").text.split("\n"):
            if line.startswith(name + labels + " ") or (labels and line.startswith(name + "{") and labels in line):
                return float(line.rsplit(" ", 1)[1])
        return None

    def until(self, condition, seconds=300):
        """Waits for a condition: how long that takes is the machine's affair."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return True
            time.sleep(0.02)
        return condition()

    def idle(self):
        return self.metric("clef_requests_running") == 0 and self.metric("clef_requests_waiting") == 0

    def stop(self, number=END, seconds=300):
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "killed"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.process.stdout.close()
        subprocess.run(["rm", "-rf", self.folder], check=False)

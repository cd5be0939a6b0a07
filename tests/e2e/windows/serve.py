"""clef serve of clef.exe under Wine: the texts of Linux, clients at once, what Windows does not have, and its end."""
import os
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "serve"))
from serving import COMMAND, Server, check, events, finish, same  # pylint: disable=wrong-import-position

NATIVE = os.environ["CLEF_NATIVE"]
PROMPTS = ["ROMEO:", "Once upon a time", "The king", "Hello"]


def native(prompt):
    """The ids that this machine's command samples."""
    ids = subprocess.run([NATIVE, "run", "-p", prompt, "-n", "32", "--temp", "0", "-q", "--ignore-eos", "--print-ids"], check=True,
                         capture_output=True, text=True, env=dict(os.environ, CLEF_TUNE="0", CLEF_PROOF="0")).stdout
    return [int(i) for i in ids.split(",")]


def sampled(s, prompt):
    r = s.text(prompt, max_tokens=32, temperature=0, ignore_eos=True, return_token_ids=True)
    return r.json["choices"][0]["token_ids"] if r.status == 200 else r


def refusals():
    for name, args, words in (("TLS", ["--tls-cert", "a.pem", "--tls-key", "b.pem"], "without TLS"),
                              ("a Unix socket", ["--unix", "socket"], "not supported on Windows")):
        p = subprocess.run([*COMMAND, "serve", *args], capture_output=True, text=True, check=False)
        check(f"{name} is refused", p.returncode in (1, 2) and words in p.stderr and p.stderr.count("\n") == 1, p.stderr)


wanted = [native(prompt) for prompt in PROMPTS]
with Server("--chat-template", "chatml") as server:
    check("models", server.get("/v1/models").json["data"][0]["object"] == "model")
    for prompt, want in zip(PROMPTS, wanted):
        same(f"{prompt} as on Linux", want, sampled(server, prompt))
    got = [None] * len(PROMPTS)

    def ask(i):
        got[i] = sampled(server, PROMPTS[i])

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(PROMPTS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same("clients at once: the same", wanted, got)
    stream = server.chat("Hello", max_tokens=8, temperature=0, stream=True)
    whole = server.chat("Hello", max_tokens=8, temperature=0).json["choices"][0]["message"]["content"]
    pieces = [e["choices"][0]["delta"].get("content") or "" for e in events(stream.text) if e["choices"]]
    same("a chat's stream is its text", whole, "".join(pieces))
    check("and ends", stream.text.endswith("data: [DONE]\n\n") and len(pieces) > 2, stream)
    bad = server.post("/v1/completions", "{")
    same("a bad request", (400, "invalid_json"), (bad.status, bad.code))
    check("memory is reported", (server.metric("process_resident_memory_bytes") or 0) > 1 << 20, server.get("/metrics").text[-600:])
    same("Ctrl-C ends it with 0", 0, server.stop())
    check("the log has a line for each request", server.log.count(" POST /v1/completions 200 ") == 2 * len(PROMPTS), server.log)
    check("without carriage returns", "\r" not in server.log)
refusals()
finish()

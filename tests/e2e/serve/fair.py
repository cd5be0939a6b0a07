"""One client that wants all of the server, beside others: who is answered first, and what memory is left."""
import http.client
import json
import select
import threading

from serving import ON_WINDOWS, Server, check, finish, same

MIB = 2 ** 20


def is_answered(sockets):
    return [s for s in sockets if select.select([s], [], [], 0)[0]]


def together(n, do):
    got = [None] * n

    def one(i):
        got[i] = do(i)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return got


def texts(s):
    """512 texts of one request: others are answered long before they are."""
    s.text("warm", max_tokens=1)
    hog = s.begin("/v1/completions", {"prompt": [f"x {i}" for i in range(64)], "n": 8, "temperature": 1, "ignore_eos": True})
    check("it has all places", s.until(lambda: s.metric("clef_requests_running") == 8))
    for _ in range(2):
        got = together(8, lambda i: s.text(f"text {i}", max_tokens=6, temperature=0, ignore_eos=True))
        same("eight others are answered", [200] * 8, [r.status for r in got])
    check("while it is not", not is_answered([hog]))
    wanted = got[3].json["choices"][0]["text"]
    check("it goes on", s.until(lambda: s.metric("clef_requests_running") == 8))
    hog.close()
    check("it is gone", s.until(s.idle))
    same("the texts are those of a quiet server", wanted, s.text("text 3", max_tokens=6, temperature=0, ignore_eos=True).json["choices"][0]["text"])
    quiet = [c["text"] for c in s.text(["x 1", "x 2"], n=8, max_tokens=40, seed=1, temperature=1, ignore_eos=True).json["choices"]]
    paused = []
    t = threading.Thread(target=lambda: paused.append(s.text(["x 1", "x 2"], n=8, max_tokens=40, seed=1, temperature=1, ignore_eos=True)))
    t.start()
    check("the texts run", s.until(lambda: s.metric("clef_requests_running") > 0 or paused))
    together(4, lambda i: s.text(f"y {i}", max_tokens=3))
    t.join()
    same("texts that were paused are the same", quiet, [c["text"] for c in paused[0].json["choices"]])


def embeddings(s):
    s.post("/v1/embeddings", {"input": "warm"})
    hog = s.begin("/v1/embeddings", {"input": ["word " * 30] * 2048})
    check("many inputs run", s.until(lambda: s.metric("clef_requests_running") >= 1))
    got = [s.post("/v1/embeddings", {"input": f"a text {i}"}).status for i in range(3)]
    same("another one is answered", [200] * 3, got)
    check("before them", not is_answered([hog]))
    hog.close()
    check("they are gone", s.until(s.idle))


def peak(s):
    with open(f"/proc/{s.process.pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM"))


def bodies(s):
    """8 MiB of {} at once, in a member that nobody knows and in the messages."""
    idle = s.metric("process_resident_memory_bytes")
    for name, body, good in (("unknown", b'{"messages":[{"role":"user","content":"x"}],"max_tokens":2,"junk":[' + b"{}," * 2790000 + b"0]}", 200),
                             ("messages", b'{"messages":[' + b"{}," * 2790000 + b"0]}", 413)):
        got = together(24, lambda i: s.post("/v1/chat/completions", body))
        check(f"{name}: each is answered, or refused by its size", all(r.status == good or (r.status, r.code) == (503, "body_memory_full") for r in got), got)
        check(f"{name}: some are answered", any(r.status == good for r in got))
        check("a reply 503 says when to come again", all("retry-after" in r.headers for r in got if r.status == 503))
    same("one alone", 200, s.post("/v1/chat/completions", b'{"messages":[{"role":"user","content":"x"}],"max_tokens":2,"junk":[' + b"{}," * 2790000 + b"0]}").status)
    text = s.text("long " * 1000000)
    same("a long text", (400, "context_length_exceeded"), (text.status, text.code))
    if not ON_WINDOWS:
        check("memory stays within 512 MiB", peak(s) - idle < 512 * MIB, (peak(s), idle))
        check("and is given back", s.until(lambda: s.metric("process_resident_memory_bytes") - idle < 128 * MIB, 30), s.metric("process_resident_memory_bytes"))
    with Server("--body-memory", "1", "--chat-template", "chatml") as small:
        r = small.chat("x" * 1500000)
        same("--body-memory", (413, "body_too_large"), (r.status, r.code))
        same("small requests are not counted", 200, small.chat("x", max_tokens=1).status)
        r = small.post("/v1/embeddings", {"input": ["x"] * 1024})
        same("the numbers of a reply are", (413, "body_too_large"), (r.status, r.code))
    with Server("--body-memory", "48", "--chat-template", "chatml", "--queue-timeout", "600") as small:
        body = b'{"messages":[{"role":"user","content":"x"}],"max_tokens":2,"junk":"' + b"x" * 8000000 + b'"}'
        half = [small.begin("/v1/chat/completions", body, 4000000) for _ in range(3)]
        got = together(24, lambda i: small.post("/v1/chat/completions", body).status)
        same("24 bodies are read a few at a time, in the memory of six, and wait for none that stops", [200] * 24, got)
        for c in half:
            c.close()
    with Server("--max-per-address", "24", "--chat-template", "chatml", "--queue-timeout", "600") as full:
        got, first = [], threading.Event()

        def one(i):
            status = full.post("/v1/chat/completions", body).status
            first.set()  # by then the others wait for their turn
            return status

        t = threading.Thread(target=lambda: got.extend(together(24, one)))
        t.start()
        first.wait(60)
        while t.is_alive():
            same("/health beside as many bodies as may be", 200, full.get("/health").status)
            t.join(0.02)
        check("which end none of them: each is answered, or one too many", len(got) == 24 and set(got) <= {200, 429}, got)


def compiles(s):
    """Patterns whose automata are huge: texts are answered while they are compiled."""
    hostile = [s.begin("/v1/completions", {"prompt": "x", "max_tokens": 2, "regex": f"(a|b)*a(a|b){{{20 + i}}}"}) for i in range(8)]
    same("others are answered", [200] * 4, [s.text("x", max_tokens=2).status for _ in range(4)])
    same("/health, too", 200, s.get("/health").status)
    other = http.client.HTTPConnection("127.0.0.1", s.port, timeout=100, source_address=("127.0.0.2", 0))
    other.request("POST", "/v1/completions", json.dumps({"prompt": "x", "max_tokens": 2, "regex": "[ab]+"}), {"Content-Type": "application/json"})
    same("a pattern of another client takes its turn", 200, other.getresponse().status)
    check("before the rest of those patterns", len(is_answered(hostile)) < 4, len(is_answered(hostile)))
    other.close()
    for c in hostile[1:]:
        c.close()
    r = hostile[0].recv(100)
    check("the first is answered", r.startswith(b"HTTP/1.1 "), r)
    check("those that left are gone", s.until(s.idle))


with Server("--chat-template", "chatml", "--repeatable", "--max-per-address", "128", "--queue-timeout", "600") as server:
    for part in (texts, embeddings, bodies, compiles):
        part(server)
    same("no status 500", 0, server.log.count(" 500 "))
    same("it ends with 0", 0, server.stop())
finish()

"""Clients that leave, wait, come in crowds, read slowly or not at all; signals; a device that is lost; small pools."""
import json
import os
import signal
import socket
import struct
import threading
import time

from serving import END, Server, check, finish, long_model, ok, same

MODEL = long_model()
LAYER = os.path.join(os.environ["CLEF_BUILD"], "tests", "count_layer.so")
LONG = {"prompt": "Once upon a time", "max_tokens": 6000, "temperature": 0, "ignore_eos": True}
CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 6000, "temperature": 0, "ignore_eos": True}
SCHEMA = {"messages": CHAT["messages"], "max_tokens": 6000, "response_format": {"type": "json_schema", "schema": {"type": "array", "items": {"type": "integer"}, "minItems": 3000}}}


def leave(s):
    """Ends a connection at once, as a process does that is killed."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def disconnects(s):
    cases = {"streaming": LONG | {"stream": True}, "not streaming": LONG, "streaming a chat": CHAT | {"stream": True}, "under a schema": SCHEMA,
             "under a schema, streaming": SCHEMA | {"stream": True}, "several choices": LONG | {"n": 4, "temperature": 1}}
    quiet = s.text("The king", max_tokens=300, temperature=0, ignore_eos=True).json["choices"][0]["text"]
    for name, body in cases.items():
        texts = []
        beside = threading.Thread(target=lambda: texts.append(s.text("The king", max_tokens=300, temperature=0, ignore_eos=True).json["choices"][0]["text"]))
        path = "/v1/completions" if "prompt" in body else "/v1/chat/completions"
        client = s.begin(path, body)
        check(f"{name}: it runs", s.until(lambda: s.metric("clef_requests_running") > 0))
        beside.start()
        time.sleep(0.05)
        leave(client)
        beside.join()
        check(f"{name}: it is gone", s.until(s.idle), s.log[-500:])
        same(f"{name}: the text beside it", [quiet], texts)
    check("they are counted", s.metric("clef_requests_cancelled_total", 'reason="disconnect"') >= len(cases))
    check("pages are back", s.until(lambda: s.metric("clef_kv_pages_used") == s.metric("clef_kv_pages_cached")))
    # in prefill
    client = s.begin("/v1/completions", {"prompt": [(7 * i) % 900 + 50 for i in range(7000)], "max_tokens": 5})
    s.until(lambda: s.metric("clef_requests_running") > 0, 5)
    leave(client)
    check("in prefill: it is gone", s.until(s.idle))
    # half closed: it sends no more, and is gone as well
    client = s.begin("/v1/completions", LONG)
    s.until(lambda: s.metric("clef_requests_running") > 0)
    client.shutdown(socket.SHUT_WR)
    check("half closed: it is gone", s.until(s.idle))
    client.close()


def queue(s):
    running = [s.begin("/v1/completions", LONG | {"temperature": 1}) for _ in range(2)]
    check("two run", s.until(lambda: s.metric("clef_requests_running") == 2), s.metric("clef_requests_running"))
    waiting = [s.begin("/v1/completions", LONG) for _ in range(3)]
    check("three wait", s.until(lambda: s.metric("clef_requests_waiting") == 3), s.metric("clef_requests_waiting"))
    r = s.text("x", max_tokens=1)
    same("a fourth is refused", (429, "queue_full"), (r.status, r.code))
    check("and told when to come again", 1 <= int(r.headers["retry-after"]) <= 60, r.headers)
    check("it should retry", "x-should-retry" not in r.headers)
    same("/health answers meanwhile", 200, s.get("/health").status)
    for client in waiting:
        leave(client)
    check("in the queue: gone", s.until(lambda: s.metric("clef_requests_waiting") == 0))
    for client in running:
        leave(client)
    check("all are gone", s.until(s.idle))


def crowd(s):
    def give_up():
        client = s.begin("/v1/completions", LONG | {"stream": True})
        time.sleep(0.5)
        leave(client)

    threads = [threading.Thread(target=give_up) for _ in range(200)]
    for t in threads:
        t.start()
        time.sleep(0.005)
    for t in threads:
        t.join()
    same("after 200 that gave up", 200, s.text("x", max_tokens=1).status)
    check("none is left", s.until(s.idle), s.log[-300:])


def slow(s):
    # heads and bodies that drip
    drips = []
    for i in range(150):
        c = s.open()
        c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" if i % 2 else
                  b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{")
        drips.append(c)
    same("/health answers beside 150 that drip", 200, s.get("/health").status)
    same("and so does a text", 200, s.text("x", max_tokens=2).status)
    last = drips[-1]
    last.settimeout(300)
    got = b""
    try:
        while b"408" not in got:
            piece = last.recv(1000)
            if not piece:
                break
            got += piece
    except OSError:
        pass
    check("a body that does not come: 408", got.startswith(b"HTTP/1.1 408 ") and b"request_timeout" in got, got[:200])
    check("all of them end", s.until(lambda: s.metric("clef_connections") <= 2), s.metric("clef_connections"))
    for c in drips:
        c.close()
    # a stream that nobody reads: log-probabilities fill the socket
    c = socket.socket()
    c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    c.connect(("127.0.0.1", s.port))
    body = json.dumps(LONG | {"stream": True, "logprobs": 20}).encode()
    c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    check("a client that does not read is ended", s.until(lambda: s.metric("clef_requests_cancelled_total", 'reason="slow"') == 1),
          s.log[-500:])
    check("and gone", s.until(s.idle))
    c.close()


def timeouts():
    with Server("-c", "8192", "--request-timeout", "1", "--max-seqs", "1", "--queue-timeout", "0.5", model=MODEL) as s:
        running = s.begin("/v1/completions", LONG | {"stream": True})
        s.until(lambda: s.metric("clef_requests_running") == 1, 5)
        r = s.text("x", max_tokens=1)
        check("the queue's time", (r.status, r.code) in ((504, "timeout"), (200, None)), r)
        running.settimeout(300)
        got = b""
        while piece := running.recv(65536):
            got += piece
            if b"timeout_error" in got or b"[DONE]" in got:
                break
        check("a stream's end has a reason", b"timeout_error" in got and b"[DONE]" not in got, got[-300:])
        running.close()
        r = s.post("/v1/completions", LONG)
        same("the request's time", (504, "timeout"), (r.status, r.code))


def drains():
    with Server("-c", "8192", "--drain-timeout", "1000", model=MODEL) as s:
        running = s.begin("/v1/completions", LONG | {"max_tokens": 900, "stream": True})
        s.until(lambda: s.metric("clef_requests_running") == 1)
        s.process.send_signal(END)
        time.sleep(0.05)
        running.settimeout(300)
        got = b""
        while piece := running.recv(65536):
            got += piece
        check("a signal to end: what runs goes on", b"[DONE]" in got, got[-200:])
        same("and it ends with 0", 0, s.process.wait(300))
    with Server("-c", "8192", "--drain-timeout", "0.3", model=MODEL) as s:
        running = s.begin("/v1/completions", LONG | {"stream": True, "max_tokens": 8000})
        whole = s.begin("/v1/completions", LONG | {"max_tokens": 8000})
        s.until(lambda: s.metric("clef_requests_running") == 2)
        s.process.send_signal(END)
        if s.process.poll() is None:
            try:
                late = s.open()
                late.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n{\"prompt\":\"a\"}")
                answer = late.recv(300)
                check("new requests get 503", not answer or b" 503 " in answer, answer)
            except OSError:
                ok("new requests get 503: the server is gone")
        got = [b"", b""]
        for i, c in enumerate((running, whole)):
            c.settimeout(300)
            try:
                while piece := c.recv(65536):
                    got[i] += piece
            except OSError:
                pass
        check("after the drain: an error event", b"unavailable_error" in got[0], got[0][-300:])
        check("and a 503", b" 503 " in got[1][:20], got[1][:100])
        same("it ends with 0, too", 0, s.process.wait(300))
    s = Server("-c", "8192", "--drain-timeout", "1000", model=MODEL)
    running = s.begin("/v1/completions", LONG | {"max_tokens": 8000, "stream": True, "logprobs": 20})
    s.until(lambda: s.metric("clef_requests_running") == 1)
    s.process.send_signal(signal.SIGINT)
    check("a signal: it says how long it drains", s.until(lambda: "ends when its requests have" in s.log))  # two at once would count as one
    s.process.send_signal(signal.SIGINT)
    same("a second signal ends it", 0, s.process.wait(300))
    s.__exit__()


def pools():
    with Server("-c", "200", "--kv-tokens", "256", "--max-seqs", "8") as s:
        results = []

        def ask(i):
            results.append(s.text(f"number {i}", max_tokens=60, temperature=1, seed=i, ignore_eos=True).status)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(12)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        same("a pool of few pages: all end", [200] * 12, results)
        check("idle", s.until(s.idle))


def lost_device():
    if not os.path.exists(LAYER):
        print("skipped: the fault layer was not built")
        return
    out = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"counts-{os.getpid()}")
    with Server(env={"OPENCL_LAYERS": LAYER, "CLEF_LAYER_OUT": out, "CLEF_DEBUG": "fused=0"}) as s:
        want = s.text(max_tokens=100, temperature=0, ignore_eos=True).json["choices"][0]["text"]
        s.stop()
    with open(out, encoding="ascii") as f:
        n = next(int(line.split()[1]) for line in f if line.startswith("clEnqueueNDRangeKernel "))
    os.remove(out)
    env = {"OPENCL_LAYERS": LAYER, "CLEF_LAYER_FAIL_API": "clEnqueueNDRangeKernel", "CLEF_DEBUG": "fused=0"}
    with Server(env=env | {"CLEF_LAYER_FAIL": str(n - 500)}) as s:
        r = s.text(max_tokens=100, temperature=0, ignore_eos=True)
        same("lost for a moment: the same text", want, r.json["choices"][0]["text"] if r.status == 200 else r)
    with Server(env=env | {"CLEF_LAYER_FAIL": f"{n - 500}+"}) as s:
        replies = []
        threads = [threading.Thread(target=lambda: replies.append(s.text(max_tokens=100, temperature=0, ignore_eos=True))) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        same("lost for good: 503", [503] * 4, [r.status for r in replies])
        check("with a reason", "device" in replies[0].text, replies[0])
        same("and so it is for the next", 503, s.text(max_tokens=1).status)
        same("/health says so", 503, s.get("/health").status)
        same("it ends with 0", 0, s.stop())
    with Server(env=env | {"CLEF_LAYER_FAIL": f"{n - 500}-{n - 499}"}) as s:
        same("lost for a while: 503", 503, s.text(max_tokens=100, temperature=0, ignore_eos=True).status)
        check("it is back without a request", s.until(lambda: s.get("/health").status == 200))
        check("as the log says", "the device is back" in s.log, s.log)
        r = s.text(max_tokens=100, temperature=0, ignore_eos=True)
        same("and the text is the same", want, r.json["choices"][0]["text"] if r.status == 200 else r)


def salts():
    prompt = "word " * 120
    path = os.path.join(os.path.dirname(MODEL), "keys")
    with open(path, "w", encoding="ascii") as f:
        f.write("b\n")
    os.chmod(path, 0o600)
    with Server("-c", "512", "--cache-per-key", "--api-key-file", path, model=MODEL, env={"CLEF_API_KEY": "a"}) as s:
        def cached(key="a", **more):
            headers = {"X-Api-Key": key}
            r = s.post("/v1/completions", {"prompt": prompt, "max_tokens": 4, "temperature": 0, **more}, headers=headers).json
            return r["usage"]["prompt_tokens_details"]["cached_tokens"], r["choices"][0]["text"]
        first, text = cached()
        same("nothing is cached at first", 0, first)
        again, same_text = cached()
        check("the prefix is cached", again > 100, again)
        same("with the same text", text, same_text)
        same("another key shares nothing", (0, text), cached("b"))
        check("but with itself", cached("b")[0] > 100)
        same("a salt shares nothing", 0, cached(cache_salt="x")[0])
        same("a cache key neither", 0, cached(prompt_cache_key="x")[0])
        check("a salt shares with itself", cached(cache_salt="x")[0] > 100)


with Server("-c", "8192", "--chat-template", "chatml", "--header-timeout", "2", "--write-timeout", "2", "--spec", "ngram", model=MODEL) as server:
    for part in (disconnects, crowd, slow):
        part(server)
    same("no status 500", 0, server.log.count(" 500 "))
    same("it ends with 0", 0, server.stop())
with Server("-c", "8192", "--max-seqs", "2", "--max-queue", "3", model=MODEL) as server:
    queue(server)
for part in (timeouts, drains, pools, lost_device, salts):
    part()
finish()

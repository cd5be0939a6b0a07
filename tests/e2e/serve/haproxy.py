"""Three servers behind HAProxy under load: one is killed, one drained by HAProxy, one ended by a signal, and all come
back. Only streams of the killed server may break; all other texts are those of one server.

usage: haproxy.py [CONFIGURATION]      examples/haproxy.cfg by default"""
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict

from serving import Server, check, events, finish, same

EXAMPLES = os.path.join(os.environ["CLEF_SOURCE"], "examples")
CONFIGURATION = (sys.argv[1:] or [os.path.join(EXAMPLES, "haproxy.cfg")])[0]
FLAGS = ("--chat-template", "chatml", "--repeatable", "--proxy", "127.0.0.1", "--drain-timeout", "300")
N_CLIENTS = 16
WORDS = "the king shall come to me and my lord of this noble house will speak with thee for a good word that is now".split()


def first_message(i):
    """A text of about 60 tokens, different from the others from its first word on."""
    rng = random.Random(i)
    return f"{chr(65 + i)} " + " ".join(rng.choice(WORDS) for _ in range(50))


FIRST = [first_message(i) for i in range(12)]
QUESTIONS = ["What say you?", "Who is there?", "Speak, my lord.", "Where is the king?"]


def body(prefix, question, **more):
    messages = [{"role": "system", "content": FIRST[prefix]}, {"role": "user", "content": QUESTIONS[question]}]
    return {"messages": messages, "max_tokens": 40, "temperature": 0, "ignore_eos": True, **more}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Proxy:
    def __init__(self, servers):
        self.folder = tempfile.mkdtemp(prefix="clef-haproxy-")
        self.socket, self.log = os.path.join(self.folder, "socket"), os.path.join(self.folder, "log")
        self.port, ports = free_port(), {name: s.port for name, s in servers.items()}
        env = dict(os.environ, HA_TRIAL="1", HA_SOCKET=self.socket, HA_ADDRESS=f"127.0.0.1:{self.port}",
                   HA_STATS=f"127.0.0.1:{free_port()}", **{f"HA_{n.upper()}": f"127.0.0.1:{p}" for n, p in ports.items()})
        checked = subprocess.run(["haproxy", "-c", "-q", "-f", CONFIGURATION], env=env, capture_output=True, text=True)
        same("haproxy -c has nothing to say", (0, ""), (checked.returncode, checked.stdout + checked.stderr))
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(["haproxy", "-db", "-f", CONFIGURATION], env=env, stdout=log, stderr=log)
        self.until(lambda: os.path.exists(self.socket) and set(self.states().values()) == {"UP"})

    def until(self, condition, seconds=300):
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            if condition():
                return True
            time.sleep(0.05)
        return condition()

    def command(self, text):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.socket)
            s.sendall(text.encode() + b"\n")
            got = b""
            while piece := s.recv(65536):
                got += piece
        return got.decode()

    def rows(self, backend="prefix"):
        head, *lines = self.command("show stat").strip("# \n").split("\n")
        rows = [dict(zip(head.split(","), line.split(","))) for line in lines]
        return {r["svname"]: r for r in rows if r["pxname"] == backend and r["svname"] not in ("FRONTEND", "BACKEND")}

    def states(self, backend="prefix"):
        """Of each server UP, DOWN, DRAIN and the like; without how far a change is."""
        return {name: r["status"].split(" ")[0] for name, r in self.rows(backend).items()}

    def downs(self):
        return sum(int(r["chkdown"] or 0) for r in self.rows().values())

    def total(self, name):
        return sum(int(r[name] or 0) for r in self.rows().values())

    def stop(self):
        self.process.terminate()
        self.process.wait(300)
        subprocess.run(["rm", "-rf", self.folder], check=False)


NO_SERVER = '503 {"error": {"message": "no server is ready"'


class Sample:
    """A request and its result."""
    n_without_server = 0

    def __init__(self, port, prefix, question, stream, patient=True):
        self.prefix, self.question, self.stream = prefix, question, stream
        self.send(port)
        while patient and self.error and self.error.startswith(NO_SERVER): # all are down at once: see always_up()
            Sample.n_without_server += 1
            time.sleep(1)
            self.send(port)

    def send(self, port):
        prefix, question, stream = self.prefix, self.question, self.stream
        self.error = self.server = self.text = None
        self.usage, self.began, self.events_at = {}, time.monotonic(), []
        more = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body(prefix, question, **more)),
                               {"Content-Type": "application/json"})
            reply = connection.getresponse()
            self.server = reply.getheader("x-served-by")
            (self.read_stream if stream else self.read_whole)(reply)
        except (OSError, http.client.HTTPException, ValueError) as e:
            self.error = repr(e)
        finally:
            connection.close()
            self.ended = time.monotonic()

    def read_whole(self, reply):
        text = reply.read().decode()
        if reply.status != 200:
            self.error = f"{reply.status} {text}"
            return
        value = json.loads(text)
        self.text, self.usage = value["choices"][0]["message"]["content"], value["usage"]

    def read_stream(self, reply):
        got = b""
        while line := reply.readline():
            self.events_at.append(time.monotonic())
            got += line
        text = got.decode()
        if reply.status != 200 or not text.endswith("data: [DONE]\n\n"):
            self.error = f"{reply.status} {text[-300:]}"
            return
        all_events = events(text)
        self.text = "".join(e["choices"][0]["delta"].get("content") or "" for e in all_events if e["choices"])
        self.usage = all_events[-1]["usage"]

    @property
    def cached(self):
        return self.usage["prompt_tokens_details"]["cached_tokens"]

    def __repr__(self):
        return f"{'stream' if self.stream else 'reply'} {self.prefix}/{self.question} of {self.server}: {self.error or self.text}"


class Load:
    """Clients that send one request after another while the `with` block runs, and until there are `n` samples."""

    def __init__(self, port, n):
        self.port, self.n, self.samples, self.left = port, n, [], False
        self.threads = [threading.Thread(target=self.client, args=(i,)) for i in range(N_CLIENTS)]

    def client(self, number):
        rng = random.Random(number)
        while not self.left or len(self.samples) < self.n:
            self.samples.append(Sample(self.port, rng.randrange(len(FIRST)), rng.randrange(len(QUESTIONS)), rng.random() < 0.5))

    def __enter__(self):
        self.began = time.monotonic()
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.left = True
        for t in self.threads:
            t.join()
        self.seconds = time.monotonic() - self.began

    def more(self, n):
        """Waits until so many further requests are answered."""
        end = len(self.samples) + n
        while len(self.samples) < end:
            time.sleep(0.02)

    def report(self, name):
        good = [s for s in self.samples if not s.error]
        tokens, prompt, cached = (sum(f(s) for s in good) for f in (
            lambda s: s.usage["completion_tokens"], lambda s: s.usage["prompt_tokens"], lambda s: s.cached))
        print(f"{name}: {len(self.samples)} requests, {len(self.samples) - len(good)} broken, in {self.seconds:.1f} s; "
              f"{tokens / self.seconds:.0f} tokens/s; {cached} of {prompt} prompt tokens cached ({100 * cached / prompt:.0f} %); "
              f"by server {dict(sorted(Counter(s.server for s in good).items()))}")

    def judge(self, name, wanted, may_break=lambda s: False):
        broken = [s for s in self.samples if s.error and not may_break(s)]
        check(f"{name}: no request failed", not broken, broken[:3])
        other = [s for s in self.samples if not s.error and s.text != wanted[s.prefix, s.question]]
        check(f"{name}: the texts of one server", not other, [(s, wanted[s.prefix, s.question]) for s in other[:2]])


def homes(proxy):
    """One request after another: the server of each first message, or None where that was not always the same one."""
    while True:
        downs, found, cached = proxy.downs(), defaultdict(set), []
        for prefix in range(len(FIRST)):
            for question in range(2):
                proxy.until(lambda: all(r["scur"] == "0" for r in proxy.rows().values())) # the one before has ended there too
                s = Sample(proxy.port, prefix, question, question == 1)
                found[prefix].add(s.server)
                cached.append(s.cached if not s.error else s.error)
        if proxy.downs() == downs and set(proxy.states().values()) == {"UP"}: # else a server was slow, and is to be up
            return [v.pop() if len(v) == 1 else None for v in found.values()], cached[1::2]
        proxy.until(lambda: set(proxy.states().values()) == {"UP"})


def affinity(proxy, wanted):
    home, cached = homes(proxy)
    check("each first message has one server", None not in home and set(home) == {"a", "b", "c"}, home)
    check("which has it in its cache", all(isinstance(n, int) and n >= 32 for n in cached), cached)
    with Load(proxy.port, 200) as load:
        pass
    load.report("three servers")
    load.judge("three servers", wanted)
    n_home = sum(s.server == home[s.prefix] for s in load.samples)
    print(f"three servers: {n_home} of {len(load.samples)} requests were answered by the server of their first message")
    check("under load it mostly is that server", n_home > 0.6 * len(load.samples), Counter((s.prefix, s.server) for s in load.samples))
    return home


def again(server):
    """Starts a server on the port of one that has ended."""
    server.__exit__()
    return Server(*FLAGS, "--port", str(server.port))


def killed(proxy, servers, wanted):
    with Load(proxy.port, 150) as load:
        load.more(30)
        n_retries = proxy.total("wredis")
        servers["b"].until(lambda: servers["b"].metric("clef_requests_running") >= 2)
        at = time.monotonic()
        servers["b"].process.kill()
        check("HAProxy sees that a server is killed", proxy.until(lambda: proxy.states()["b"] == "DOWN"), proxy.states())
        print(f"a server is killed: seen after {time.monotonic() - at:.2f} s")
        load.more(40)
        servers["b"] = again(servers["b"])
        check("and that it is back", proxy.until(lambda: proxy.states()["b"] == "UP"), proxy.states())
        back = time.monotonic()
        load.more(40)
    load.report("a server is killed")
    load.judge("a server is killed", wanted, lambda s: s.stream and s.server == "b" and s.began <= at <= s.ended)
    print(f"a server is killed: {proxy.total('wredis') - n_retries} requests were sent to another server; "
          f"{sum(bool(s.error) for s in load.samples)} streams broke")
    check("it has work again", any(s.server == "b" and s.began > back for s in load.samples))


def drained(proxy, servers, wanted):
    with Load(proxy.port, 100) as load:
        load.more(20)
        proxy.command("set server prefix/c state drain")
        at = time.monotonic()
        same("both backends drain it", ("DRAIN", "DRAIN"), (proxy.states()["c"], proxy.states("any")["c"]))
        check("a drained server gets idle", servers["c"].until(servers["c"].idle) and
              proxy.until(lambda: proxy.rows()["c"]["scur"] == "0"))
        load.more(20)
        same("it ends with 0", 0, servers["c"].stop())
        servers["c"] = again(servers["c"])
        ready = time.monotonic()
        proxy.command("set server prefix/c state ready")
        check("it is back", proxy.until(lambda: proxy.states()["c"] == "UP"), proxy.states())
        back = time.monotonic()
        load.more(40)
    load.report("a server is drained")
    load.judge("a server is drained", wanted)
    check("nothing new arrived while it was drained", not any(s.server == "c" and at + 0.5 < s.began and s.ended < ready for s in load.samples))
    check("it has work again after it", any(s.server == "c" and s.began > back for s in load.samples))


def ended(proxy, servers, wanted):
    """SIGTERM, of which HAProxy knows nothing before."""
    with Load(proxy.port, 100) as load:
        load.more(20)
        servers["a"].until(lambda: servers["a"].metric("clef_requests_running") >= 2)
        same("a server that is told to end: 0", 0, servers["a"].stop(signal.SIGTERM))
        load.more(20)
        servers["a"] = again(servers["a"])
        check("and it is back", proxy.until(lambda: proxy.states()["a"] == "UP"), proxy.states())
        load.more(20)
    load.report("a server is told to end")
    load.judge("a server is told to end", wanted)


def passes_on(proxy, servers, home):
    gaps = []
    for _ in range(5):
        s = Sample(proxy.port, 0, 0, True)
        gaps.append((s.events_at[0] - s.began, s.ended - s.began))
    check("events of a stream come one by one", any(first < 0.7 * whole for first, whole in gaps), gaps)
    # longer than HAProxy's buffer: refused by the server, for its length alone
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=600)
    connection.request("POST", "/v1/chat/completions", json.dumps({"messages": [{"role": "user", "content": "word " * 100000}]}),
                       {"Content-Type": "application/json"})
    reply = connection.getresponse()
    same("a body beyond the buffer arrives", (400, "context_length_exceeded"), (reply.status, json.loads(reply.read())["error"]["code"]))
    connection.request("GET", "/metrics")
    reply = connection.getresponse()
    same("the counters of one server are not shown", (404, "not_found"), (reply.status, json.loads(reply.read())["error"]["code"]))
    connection.request("POST", "/v1/embeddings", json.dumps({"input": "x"}), {"Content-Type": "application/json", "X-Request-ID": "my-id"})
    reply = connection.getresponse()
    same("an id goes through", (200, "my-id"), (reply.status, reply.getheader("x-request-id")))
    reply.read()
    connection.close()
    server = servers[home[0]]

    def leave():
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            client.sendall(long_request())
            time.sleep(0.05)
        return server.until(lambda: server.metric("clef_requests_cancelled_total", 'reason="disconnect"'), 0.5)

    check("a client that leaves HAProxy leaves the server", server.until(leave), server.log[-600:])
    with open(proxy.log, encoding="utf-8") as f:
        log = f.read()
    check("HAProxy's log has the id, the server and the client", re.search(r"^127\.0\.0\.1:\d+ any/[abc] .* 200 .* id my-id ", log, re.M), log[-300:])


def long_request(**more):
    text = json.dumps(body(0, 0, max_tokens=140, n=8, logprobs=True, top_logprobs=20, **more)).encode()
    return (b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(text) + text)


def last_line(proxy):
    with open(proxy.log, encoding="utf-8") as f:
        return f.read().rstrip("\n").rsplit("\n", 1)[-1]


def always_up(proxy):
    """A machine that is so busy that the checks of all three servers time out at once shows nothing of clef."""
    with open(proxy.log, encoding="utf-8") as f:
        late = re.search(r"is DOWN, reason: Layer. timeout", f.read())
    if Sample.n_without_server and late:
        print(f"{Sample.n_without_server} requests found no server, since all were stopped or very slow")
    check("there always was a server", Sample.n_without_server == 0 or late, Sample.n_without_server)


def one_by_one(proxy, servers, home, wanted):
    """Ends one server after another, each at a chosen moment of a request."""
    first = servers[home[0]].process
    first.send_signal(signal.SIGSTOP) # the request has come, and nothing is answered
    found = []
    thread = threading.Thread(target=lambda: found.append(Sample(proxy.port, 0, 0, False)))
    thread.start()
    proxy.until(lambda: proxy.rows()[home[0]]["scur"] == "1")
    time.sleep(0.2)
    first.kill()
    thread.join()
    s = found[0]
    check("killed before the first byte: another server answers", s.text == wanted[0, 0] and s.server != home[0], s)
    check("after one retry", proxy.until(lambda: " retries +1 " in last_line(proxy), 10), last_line(proxy))
    proxy.until(lambda: proxy.states()[home[0]] == "DOWN")
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=600) as client:
        client.sendall(long_request(stream=True))
        got = b""
        while b"\ndata: " not in got:
            got += client.recv(1000)
        second = re.search(rb"x-served-by: ([abc])", got).group(1).decode()
        servers[second].process.kill()
        try:
            while piece := client.recv(65536):
                got += piece
        except OSError:
            pass
    check("killed after the first byte: the stream breaks", b"[DONE]" not in got and not got.endswith(b"\r\n0\r\n\r\n"), got[-300:])
    check("and is not sent again", proxy.until(lambda: f"prefix/{second} " in last_line(proxy), 10) and " retries 0 " in last_line(proxy), last_line(proxy))
    for s in servers.values():
        s.process.kill()
        s.process.wait()
    s = Sample(proxy.port, 0, 0, False, patient=False)
    check("without a server: 503 in OpenAI's form", s.error and s.error.startswith(NO_SERVER), s)


def programs_of(number):
    """The children of a process that are servers or HAProxy."""
    found = []
    for child in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{child}/stat", "rb") as f:
                parent = int(f.read().rsplit(b")", 1)[1].split()[1])
            with open(f"/proc/{child}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except OSError: # it has ended
            continue
        if parent == number and (words[0] == b"haproxy" or words[1:2] == [b"serve"]):
            found.append(int(child))
    return found


def script():
    """examples/serve-three.sh, from its first line to Ctrl-C, which a shell in the background would ignore."""
    with subprocess.Popen([os.path.join(EXAMPLES, "serve-three.sh")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:
        lines = []
        while not lines or "listening on" not in lines[-1]:
            lines.append(process.stdout.readline())
            if not lines[-1]:
                break
        text = "".join(lines)
        found, pids = re.search(r"listening on http://127.0.0.1:(\d+)", text), [int(n) for n in re.findall(r"process (\d+)", text)]
        check("serve-three.sh starts three servers", found and len(pids) == 3, text)
        if not found:
            return
        s = Sample(int(found.group(1)), 0, 0, True)
        check("which answer", s.text and s.server in "abc", s)
        os.kill(pids[1], signal.SIGKILL)
        line = process.stdout.readline()
        same("one that is killed is started again", "server b ended with code 137; it is started again\n", line)
        end, children = time.monotonic() + 60, []
        while len(children) != 4 and time.monotonic() < end:
            time.sleep(0.05)
            children = programs_of(process.pid)
        same("three servers and HAProxy run", 4, len(children))
        process.send_signal(signal.SIGINT)
        try:
            code = process.wait(300)
        except subprocess.TimeoutExpired:
            process.terminate()
            code = "it goes on"
        same("Ctrl-C ends it", 130, code)
        alive = [n for n in children + pids if os.path.exists(f"/proc/{n}")]
        same("and leaves no process", [], alive)


servers = {}
for each in "abc": # the first one compiles what the others find in the cache
    servers[each] = Server(*FLAGS)
try:
    # Prompts with another salt share no prefix with later ones.
    replies = {(p, q): servers["a"].post("/v1/chat/completions", body(p, q, cache_salt="alone"))
               for p in range(len(FIRST)) for q in range(len(QUESTIONS))}
    texts = {key: r.json["choices"][0]["message"]["content"] for key, r in replies.items()}
    check("the texts of one server differ", len(set(texts.values())) > 10, texts)
    haproxy = Proxy(servers)
    try:
        first_homes = affinity(haproxy, texts)
        killed(haproxy, servers, texts)
        drained(haproxy, servers, texts)
        ended(haproxy, servers, texts)
        same("all are back, with the same first messages", first_homes, homes(haproxy)[0])
        passes_on(haproxy, servers, first_homes)
        always_up(haproxy)
        one_by_one(haproxy, servers, first_homes, texts)
    finally:
        haproxy.stop()
finally:
    for each in servers.values():
        each.__exit__()
script()
finish()

"""Pages of the prefix cache in files: restarts, damage, kill -9, a full disk, other salts and models."""
import glob
import os
import random
import resource
import shutil
import subprocess
import sys
import time

import serving
from serving import check, finish, same

TMP = sys.argv[1]
DEMO = os.path.join(os.environ["CLEF_SOURCE"], "share", "demo")
random.seed(os.environ.get("CLEF_TEST_SEED", "11"))


def ask(server, ids, **fields):
    """The text, and how many tokens of the prompt were cached."""
    reply = server.post("/v1/completions", {"model": "x", "prompt": ids, "max_tokens": 8, "temperature": 0, "ignore_eos": True, **fields})
    if reply.status != 200:
        return reply.text, -1
    return reply.json["choices"][0]["text"], reply.json["usage"]["prompt_tokens_details"]["cached_tokens"]


def pages(folder):
    return set(glob.glob(os.path.join(folder, "*.kv")) + glob.glob(os.path.join(folder, "*.memory")))


def prompt(n, seed, n_vocab=1024):
    drawn = random.Random(seed)
    return [drawn.randrange(5, n_vocab) for _ in range(n)]


def start(folder, *flags, model=DEMO, **kwargs):
    return serving.Server("--cache-disk", folder, *flags, model=model, **kwargs)


def read(name):
    with open(name, "rb") as f:
        return f.read()


def write(name, data):
    with open(name, "wb") as f:
        f.write(data)


# ---- a restart, and files that were spoilt before it ------------------------------------------------
folder = os.path.join(TMP, "cache")
ids, other = prompt(150, 1), prompt(150, 2)
spoilt, texts, size = {}, {}, 0
with start(folder) as server:
    text, n = ask(server, ids)
    same("the first start", 0, n)
    same("a salt", (text, 0), ask(server, ids, cache_salt="a"))
    check("two pages of each", len(pages(folder)) == 4, os.listdir(folder))
    size = os.path.getsize(min(pages(folder)))
    for what in [*(f"a bit of byte {at}" for at in (0, 20, 90, 400, size // 2, size - 1)), "cut", "empty", "longer", "swapped", "with it"]:
        before = pages(folder)
        texts[what] = ask(server, prompt(70, what))[0]
        spoilt[what] = (pages(folder) - before).pop()
    for k in range(20, 40):
        texts[k] = ask(server, prompt(70, k))[0]
same("others cannot read the secret of the salts", 0o600, os.stat(os.path.join(folder, "secret")).st_mode & 0o777)
good = {what: read(name) for what, name in spoilt.items()}
for what, name in spoilt.items():
    data = good[what]
    if what.startswith("a bit"):
        at = int(what.split()[-1])
        data = data[:at] + bytes([data[at] ^ 16]) + data[at + 1:]
    write(name, {"cut": data[:-1], "empty": b"", "longer": data + b"\0", "swapped": good["with it"], "with it": good["swapped"]}.get(what, data))
with start(folder) as server:
    same("the second start finds the pages", (text, 128), ask(server, ids))
    same("with the salt", (text, 128), ask(server, ids, cache_salt="a"))
    same("not with another", (text, 0), ask(server, ids, cache_salt="b"))
    same("a prompt that begins alike", 100, ask(server, ids[:100] + other[:30])[1])
    same("another prompt", 0, ask(server, other)[1])
    same("a whole page", (texts[20], 64), ask(server, prompt(70, 20)))
    for what, name in spoilt.items():
        got = ask(server, prompt(70, what))
        check(f"{what}: computed anew, and reported", got[0] == texts[what] and got[1] < 64 and os.path.basename(name) + " is damaged" in server.log, got)
with start(folder, "--no-prefix-cache", wait=False) as server:
    server.process.wait(timeout=60)
    check("without a prefix cache it is refused", server.process.returncode == 1 and "cache on disk" in server.log, server.log[-300:])
with start(folder, "--cache-disk-size", "100", wait=False) as server:
    server.process.wait(timeout=60)
    check("a limit below two pages is refused", server.process.returncode == 1 and "two pages" in server.log, server.log[-300:])

# ---- another model: a weight differs in its last bits ------------------------------------------------
model = os.path.join(TMP, "other")
shutil.copytree(DEMO, model)
data = bytearray(read(os.path.join(model, "model.safetensors")))
for at in range(8 + int.from_bytes(data[:8], "little"), len(data), 4096):
    data[at] ^= 1
write(os.path.join(model, "model.safetensors"), bytes(data))
with start(folder, model=model) as server:
    same("another model", 0, ask(server, ids)[1])

# ---- kill -9, a limit, a full disk --------------------------------------------------------------------
folder = os.path.join(TMP, "killed")
for i in range(2):
    with start(folder) as server:
        asking = subprocess.Popen([sys.executable, "-c", """
import http.client, json, sys
c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
for ids in json.loads(sys.argv[2]):
    c.request("POST", "/v1/completions", json.dumps(dict(model="x", prompt=ids, max_tokens=1)), {"Content-Type": "application/json"})
    c.getresponse().read()
""", str(server.port), str([prompt(70, k) for k in range(20, 40)])], stderr=subprocess.DEVNULL)
        time.sleep(random.uniform(0.05, 0.3))
        server.process.kill()
        server.process.wait()
        asking.wait()
half = os.path.join(folder, "0" * 64 + ".kv.tmp")
write(half, b"half")
os.utime(half, times=(time.time() - 7200, time.time() - 7200))  # a young one may be another server's
limit = 6 * size
with start(folder, "--cache-disk-size", str(limit)) as server:
    same("after kill -9 every text is right", [texts[k] for k in range(20, 40)], [ask(server, prompt(70, k))[0] for k in range(20, 40)])
check("nothing half-written stays for more than an hour", not os.path.exists(half), os.listdir(folder))
total = sum(os.path.getsize(name) for name in pages(folder))
check("the limit holds", 2 * size <= total <= limit, (total, limit))

folder = os.path.join(TMP, "full")
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1000, hard))
with start(folder) as server:
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    got = ask(server, ids), ask(server, prompt(70, 20))
    check("a full disk", got == ((text, 0), (texts[20], 0)) and "takes no more files" in server.log, (got, server.log[-400:]))
same("keeps no page", set(), pages(folder))
shutil.rmtree(TMP, ignore_errors=True)
finish()

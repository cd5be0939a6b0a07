"""clef pull against a Hub of this machine (hub.py)."""
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "serve")]
from hub import Hub, cut_after, noise, slowly, status
from serving import COMMAND, check, fail, finish, ok, same

TMP = sys.argv[1]
HUB_PYTHON = os.environ.get("HUB_PYTHON")
DEMO = os.path.join(os.environ["CLEF_SOURCE"], "share", "demo")
hub = Hub()
number = 0


def new_home():
    """A cache of its own."""
    global number
    number += 1
    return os.path.join(TMP, f"home{number}")


def env_of(home, token=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and k.lower() not in ("http_proxy", "all_proxy")}
    env.update(HF_HOME=home, HF_ENDPOINT=hub.url)
    if token:
        env["HF_TOKEN"] = token
    return env


def clef(home, *args, token=None, limit=None, timeout=120):
    def lower():
        if limit:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return subprocess.run([*COMMAND, *args], env=env_of(home, token), capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL, preexec_fn=lower)


def pull(home, *args, **kwargs):
    return clef(home, "pull", *args, **kwargs)


def cache_of(home, repo):
    return os.path.join(home, "hub", "models--" + repo.replace("/", "--"))


def is_whole(home, repo):
    """Every name in a snapshot leads to the right bytes, and every blob is one of them, or named as incomplete."""
    cache = cache_of(home, repo)
    for folder, _, names in os.walk(os.path.join(cache, "snapshots")):
        for name in names:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, os.path.join(cache, "snapshots")).split(os.sep, 1)[1]
            with open(path, "rb") as f:
                if f.read() != hub.repos[repo][relative]:
                    return f"{relative} has other bytes"
    wanted = {hub.etag(repo, name): data for name, data in hub.repos[repo].items()}
    for name in os.listdir(os.path.join(cache, "blobs")) if os.path.isdir(os.path.join(cache, "blobs")) else []:
        with open(os.path.join(cache, "blobs", name), "rb") as f:
            data = f.read()
        if not name.endswith(".incomplete") and wanted.get(name) != data:
            return f"blob {name} has other bytes"
    return ""


def has_snapshot(home, repo):
    return os.path.exists(os.path.join(cache_of(home, repo), "refs", "main"))


def refused(name, got, words, code=1, home=None, repo=None):
    """One line that says why; nothing under a final name."""
    lines = got.stderr.strip().split("\n")
    missing = [w for w in words if w not in got.stderr]
    if got.returncode != code or got.stdout or len(lines) != 1 or missing:
        fail(name, f"exit {got.returncode}, missing {missing}, stdout {got.stdout!r}, stderr {got.stderr!r}")
    elif home and (has_snapshot(home, repo) or is_whole(home, repo)):
        fail(name, f"a snapshot is there, {is_whole(home, repo)}")
    else:
        ok(f"{name}: {lines[0][:150]}")


def pulled(name, got, home, repo, files):
    cache = cache_of(home, repo)
    snapshot = os.path.join(cache, "snapshots", hub.commit(repo))
    there = sorted(os.path.relpath(os.path.join(f, n), snapshot) for f, _, names in os.walk(snapshot) for n in names)
    why = is_whole(home, repo)
    check(name, got.returncode == 0 and there == sorted(files) and not why and has_snapshot(home, repo),
          f"exit {got.returncode}, {got.stderr!r}, files {there}, {why}")


# ---- a folder, and its run ------------------------------------------------------------------------
def read_demo():
    files = {}
    for name in os.listdir(DEMO):
        with open(os.path.join(DEMO, name), "rb") as f:
            files[name] = f.read()
    return files


demo = read_demo()
needed = [n for n in demo if n.endswith((".json", ".txt", ".safetensors", ".jinja"))]
hub.repos["clef/demo"] = {**demo, ".gitattributes": b"* text", "README.md": b"# Demo", "pytorch_model.bin": noise(1000, 1),
                          "onnx/model.onnx": b"no", "original/params.json": b"{}"}
home = new_home()
got = pull(home, "clef/demo")
pulled("a folder", got, home, "clef/demo", needed)
snapshot = os.path.join(cache_of(home, "clef/demo"), "snapshots", hub.commit("clef/demo"))
same("its path is printed", snapshot + "\n", got.stdout)
check("the token is not needed", all("Authorization" not in h for _, _, h in hub.seen))
n_before = hub.n_sent
got = pull(home, "clef/demo", "-q")
check("again: nothing is sent", got.returncode == 0 and hub.n_sent == n_before and not got.stderr, got)
n_requests = len(hub.seen)
by_name = clef(home, "run", "clef/demo", "-p", "ROMEO:", "-n", "6", "--temp", "0", "-q")
by_path = clef(home, "run", DEMO, "-p", "ROMEO:", "-n", "6", "--temp", "0", "-q")
check("clef run org/repo", by_name.returncode == 0 and by_name.stdout == by_path.stdout, by_name)
same("without a connection", n_requests, len(hub.seen))
refused("a model that was not pulled", clef(home, "run", "clef/other", "-p", "x"), ["clef/other", "clef pull"])
refused("a quantisation of a folder", clef(home, "run", "clef/demo:Q4_K_M", "-p", "x"), ["clef/demo", "no GGUF"])
got = pull(home, "clef/demo", "--revision", "old")
check("a revision", got.returncode == 0 and os.path.exists(os.path.join(cache_of(home, "clef/demo"), "refs", "old")), got)
refused("no such revision", pull(home, "clef/demo", "--revision", "none"), ["404", "Invalid rev id"])

# ---- a server ------------------------------------------------------------------------------------
hub.repos["org/shards"] = {
    "config.json": b"{}", "model-00001-of-00002.safetensors": noise(70000, 2), "model-00002-of-00002.safetensors": noise(50000, 3),
    "model.safetensors.index.json": json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors",
                                                               "b": "model-00002-of-00002.safetensors"}}).encode(),
    "consolidated.safetensors": noise(100, 4), "1_Pooling/config.json": b"{\"a\": 1}", "a b.json": b"[]", "empty.txt": b""}
home = new_home()
pulled("shards by their index", pull(home, "org/shards"), home, "org/shards", set(hub.repos["org/shards"]) - {"consolidated.safetensors"})
for name, index in (("outside", "../../x.safetensors"), ("not there", "model-00003-of-00002.safetensors")):
    hub.repos["org/index"] = {"config.json": b"{}", "model.safetensors.index.json": json.dumps({"weight_map": {"a": index}}).encode()}
    home = new_home()
    refused(f"an index that names a file {name}", pull(home, "org/index"), ["org/index", "index.json", index], 1, home, "org/index")

# ---- GGUF ----------------------------------------------------------------------------------------
quants = {f"tiny-{q}.gguf": noise(300 + i, q) for i, q in enumerate(["IQ4_XS", "Q4_K_S", "Q4_K_M", "UD-Q4_K_XL", "Q8_0"])}
quants["BF16/tiny-BF16-00001-of-00002.gguf"], quants["BF16/tiny-BF16-00002-of-00002.gguf"] = noise(500, 5), noise(400, 6)
hub.repos["org/tiny-GGUF"] = {**quants, "README.md": b"x", "mmproj-F16.gguf": noise(10, 7), "config.json": b"{}"}
for quant, files in (("", ["tiny-Q4_K_M.gguf"]), (":q8_0", ["tiny-Q8_0.gguf"]), (":Q4_K_XL", ["tiny-UD-Q4_K_XL.gguf"]),
                     (":BF16", [n for n in quants if "BF16" in n]), (":tiny-IQ4_XS.gguf", ["tiny-IQ4_XS.gguf"]),
                     (":mmproj-F16.gguf", ["mmproj-F16.gguf"])):
    home = new_home()
    got = pull(home, "org/tiny-GGUF" + quant)
    pulled(f"GGUF {quant or 'without a quantisation'}", got, home, "org/tiny-GGUF", files)
    check("the printed path is there", os.path.isfile(got.stdout.strip()), got.stdout)
for quant in (":Q4_K", ":Q5_K_M"):
    refused(f"GGUF {quant}", pull(home, "org/tiny-GGUF" + quant), ["has no " + quant[1:], "tiny-Q8_0"])
hub.repos["org/two-GGUF"] = {"a-Q8_0.gguf": b"1", "b-Q8_0.gguf": b"2"}
refused("GGUF, one of several", pull(home, "org/two-GGUF"), ["expected :QUANT", "a-Q8_0, b-Q8_0"])
refused("GGUF, two of a quantisation", pull(home, "org/two-GGUF:Q8_0"), ["several files", "a-Q8_0, b-Q8_0"])
hub.repos["org/half-GGUF"] = {"a-Q8_0-00001-of-00002.gguf": b"1"}
refused("GGUF, a part is missing", pull(home, "org/half-GGUF"), ["a-Q8_0-00002-of-00002.gguf"])
hub.repos["org/pickle"] = {"config.json": b"{}", "pytorch_model.bin": b"1"}
refused("neither safetensors nor GGUF", pull(home, "org/pickle"), ["org/pickle", "safetensors or GGUF"])
gguf = os.path.join(TMP, "demo.gguf")
subprocess.run([*COMMAND, "convert", DEMO, gguf, "--type", "q8_0", "-q"], check=True, capture_output=True)
with open(gguf, "rb") as f:
    hub.repos["clef/demo-GGUF"] = {"demo-Q8_0.gguf": f.read(), "demo-Q2_K.gguf": b"another"}
home = new_home()
pulled("GGUF to run", pull(home, "clef/demo-GGUF:Q8_0"), home, "clef/demo-GGUF", ["demo-Q8_0.gguf"])
for name in ("clef/demo-GGUF", "clef/demo-GGUF:Q8_0"):
    same(f"clef run {name}", clef(home, "run", gguf, "-p", "ROMEO:", "-n", "4", "--temp", "0", "-q").stdout,
         clef(home, "run", name, "-p", "ROMEO:", "-n", "4", "--temp", "0", "-q").stdout)
process = subprocess.Popen([*COMMAND, "serve", "clef/demo-GGUF:Q8_0", "--port", "0"], env=env_of(home), stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
n_requests = len(hub.seen)
address = process.stdout.readline().split()[-1]
with urllib.request.urlopen(address + "/v1/models") as reply:
    same("clef serve calls it by its name", "clef/demo-GGUF:Q8_0", json.load(reply)["data"][0]["id"])
process.terminate()
process.communicate(timeout=60)
same("without a connection to the Hub", n_requests, len(hub.seen))
refused("a quantisation that was not pulled", clef(home, "run", "clef/demo-GGUF:Q2_K", "-p", "x"), ["has no Q2_K", "demo-Q8_0"])

# ---- who may ------------------------------------------------------------------------------------
hub.repos["org/secret"] = {"config.json": b"{}", "model.safetensors": noise(2000, 8)}
hub.private.add("org/secret")
home = new_home()
refused("401", pull(home, "org/secret"), ["401", "HF_TOKEN", "Repository not found"], 1, home, "org/secret")
refused("401, another token", pull(home, "org/secret", token="hf_wrong"), ["401", "HF_TOKEN"], 1, home, "org/secret")
hub.cdn_seen.clear()
pulled("with the token", pull(home, "org/secret", token="hf_right"), home, "org/secret", hub.repos["org/secret"])
check("the other host has not seen it", hub.cdn_seen and not any("authorization" in str(h).lower() or "hf_right" in str(h)
                                                                 for h in hub.cdn_seen), hub.cdn_seen)
home = new_home()
os.makedirs(home)
with open(os.path.join(home, "token"), "w") as f:
    f.write("hf_right\n")
pulled("with the token that `hf auth login` has written", pull(home, "org/secret"), home, "org/secret", hub.repos["org/secret"])
for token in ("hf_a\r\nX-Evil: 1", "hf a", "hf_é", "x" * 600):
    refused("a token that is none", pull(home, "org/secret", token=token), ["HF_TOKEN: expected one word"], 2)
hub.repos["org/gated"] = hub.repos["org/secret"]
hub.gated.add("org/gated")
home = new_home()
refused("403", pull(home, "org/gated", token="hf_right"), ["403", "/org/gated", "Access to this model is restricted"], 1, home, "org/gated")
refused("404", pull(home, "org/none", token="hf_right"), ["404", "org/none"])
for name in ("gpt2", "a/b/c", "../b", "a/..", "a--b/c", "/a/b", "a/b:../c", "a/b:/c", "a\nb/c", ""):
    refused(f"the name {name!r}", pull(home, name), ["expected org/repo"], 2)
refused("a revision that leads out", pull(home, "clef/demo", "--revision", "../../x"), ["--revision"], 2)

# ---- what comes again ---------------------------------------------------------------------------
cut = {"config.json": b"{}", "model.safetensors": noise(400_000, 9)}
hub.repos["org/cut"] = cut
random.seed(os.environ.get("CLEF_TEST_SEED", "7"))
places = sorted(random.randrange(1, 20_000) for _ in range(30))
home = new_home()
hub.faults += [cut_after(n) for n in places]
n_before = hub.n_sent
pulled("cut at 30 places", pull(home, "org/cut"), home, "org/cut", cut)
same("no byte is sent twice", sum(map(len, cut.values())), hub.n_sent - n_before)
home = new_home()
hub.faults += [cut_after(100_000)] + [status(503)] * 5
refused("cut, and then no more", pull(home, "org/cut", "-q"), ["org/cut", "503"], 1, home, "org/cut")
pulled("the next day", pull(home, "org/cut"), home, "org/cut", cut)
home = new_home()
hub.faults += [status(503), status(500), status(429, Retry_After="1")]
begin = time.monotonic()
pulled("500, 503 and 429", pull(home, "org/cut"), home, "org/cut", cut)
check("Retry-After is obeyed", time.monotonic() - begin >= 1)
home = new_home()
hub.api_status += [(429, {"Retry_After": "1"}), (502, {})]
pulled("429 and 502 of the list", pull(home, "org/cut"), home, "org/cut", cut)
home = new_home()
hub.api_status.append((429, {"Retry_After": "4000"}))
refused("429 for an hour", pull(home, "org/cut"), ["429", "4000 seconds"], 1, home, "org/cut")
home = new_home()
hub.ignores_ranges = True
hub.faults += [cut_after(1000), cut_after(100)]
pulled("a server without ranges", pull(home, "org/cut"), home, "org/cut", cut)
hub.ignores_ranges = False
home = new_home()
hub.has_no_revisions = True
pulled("a list without revisions", pull(home, "org/cut"), home, "org/cut", cut)
hub.has_no_revisions = False
home = new_home()
hub.relative = True
pulled("a redirect inside the Hub", pull(home, "org/cut"), home, "org/cut", cut)
hub.relative = False


# ---- what was left by an earlier pull --------------------------------------------------------------
def leave(home, repo, name, data):
    blobs = os.path.join(cache_of(home, repo), "blobs")
    os.makedirs(blobs, exist_ok=True)
    with open(os.path.join(blobs, hub.etag(repo, name) + ".incomplete"), "wb") as f:
        f.write(data)


whole = cut["model.safetensors"]
for name, data in (("half of it", whole[:200_000]), ("all of it", whole), ("other bytes", noise(1000, 10)), ("too much", whole + b"1"),
                   ("as many other bytes", noise(len(whole), 11))):
    home = new_home()
    leave(home, "org/cut", "model.safetensors", data)
    n_before = hub.n_sent
    pulled(f"left from before: {name}", pull(home, "org/cut"), home, "org/cut", cut)
    if name in ("half of it", "all of it"):
        same("only the rest is sent", len(whole) - len(data) + 2, hub.n_sent - n_before)
home = new_home()
blobs = os.path.join(cache_of(home, "org/cut"), "blobs")
os.makedirs(blobs)
with open(os.path.join(blobs, hub.etag("org/cut", "model.safetensors")), "wb") as f:
    f.write(b"short")
pulled("a blob of another size", pull(home, "org/cut"), home, "org/cut", cut)

# ---- what is wrong -------------------------------------------------------------------------------
hub.repos["org/wrong"] = {"config.json": b"{}", "model.safetensors": noise(5000, 12)}
for file, digest in (("model.safetensors", "a" * 64), ("config.json", "b" * 40)):
    hub.etags["org/wrong", file] = digest
    home = new_home()
    refused(f"another checksum of {file}", pull(home, "org/wrong"), [file, "checksum", digest], 1, home, "org/wrong")
    check("nothing of it is kept", not [n for n in os.listdir(os.path.join(cache_of(home, "org/wrong"), "blobs")) if n.startswith(digest)])
    del hub.etags["org/wrong", file]
for digest in ("../../x", "a/b", "..", "", "x" * 200, ".hidden"):
    hub.etags["org/wrong", "model.safetensors"] = digest
    home = new_home()
    refused(f"the ETag {digest[:10]!r}", pull(home, "org/wrong"), ["ETag"], 1, home, "org/wrong")
del hub.etags["org/wrong", "model.safetensors"]
for size in (4000, 6000):
    hub.sizes["org/wrong", "model.safetensors"] = size
    home = new_home()
    got = pull(home, "org/wrong", "-q")
    refused(f"{size} bytes told, 5000 come", got, ["org/wrong"], 1, home, "org/wrong")
hub.sizes["org/wrong", "model.safetensors"] = 1 << 45
refused("more than the disk holds", pull(home, "org/wrong"), ["32.0 TiB on the disk"], 1, home, "org/wrong")
del hub.sizes["org/wrong", "model.safetensors"]
for name in ("../evil", "/etc/evil", "a/../../evil", "a//b", "a\\b", "C:evil", "a/./b", "", "a\nb", "x" * 300):
    hub.extra["org/wrong"] = [name]
    home = new_home()
    refused(f"a file called {name[:12]!r}", pull(home, "org/wrong"), ["names of files inside"], 1, home, "org/wrong")
del hub.extra["org/wrong"]
hub.commits["org/wrong"] = "../../../x"
refused("a commit that leads out", pull(home, "org/wrong"), ["commit"], 1, home, "org/wrong")

# ---- the disk -------------------------------------------------------------------------------------
home = new_home()
refused("a full disk", pull(home, "org/cut", limit=100_000), ["cannot write", ".incomplete"], 1, home, "org/cut")
pulled("after it", pull(home, "org/cut"), home, "org/cut", cut)
file = os.path.join(TMP, "file")
open(file, "w").close()
refused("a cache that is a file", pull(file, "org/cut"), ["cannot make the folder"])

# ---- interrupted, and two at once -----------------------------------------------------------------
home = new_home()
hub.faults += [slowly(3)]
process = subprocess.Popen([*COMMAND, "pull", "org/cut"], env=env_of(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
time.sleep(1)
process.send_signal(signal.SIGINT)
out, err = process.communicate(timeout=60)
check("Ctrl-C", process.returncode == 130 and not out and "interrupted" in err and not has_snapshot(home, "org/cut"), (out, err))
n_before = hub.n_sent
pulled("after Ctrl-C", pull(home, "org/cut"), home, "org/cut", cut)
check("goes on from there", hub.n_sent - n_before < len(whole), hub.n_sent - n_before)
home = new_home()
hub.faults += [slowly(3)]
process = subprocess.Popen([*COMMAND, "pull", "org/cut"], env=env_of(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
time.sleep(1)
process.kill()
process.communicate()
pulled("after kill -9", pull(home, "org/cut"), home, "org/cut", cut)
home = new_home()
hub.faults += [slowly(1.5)]
n_before = hub.n_sent
both = [subprocess.Popen([*COMMAND, "pull", "org/cut"], env=env_of(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)]
time.sleep(0.7)
both.append(subprocess.Popen([*COMMAND, "pull", "org/cut"], env=env_of(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
said = [p.communicate(timeout=60)[1] for p in both]
check("two at once", [p.returncode for p in both] == [0, 0] and "another program gets it" in said[1], said)
pulled("both are served", pull(home, "org/cut"), home, "org/cut", cut)
check("by one transfer", hub.n_sent - n_before <= len(whole), hub.n_sent - n_before)
offline = subprocess.run([*COMMAND, "pull", "org/cut"], env={**env_of(home), "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True)
refused("HF_HUB_OFFLINE", offline, ["HF_HUB_OFFLINE"], 2)
gone = env_of(home)
gone["HF_ENDPOINT"] = "ftp://127.0.0.1"
refused("another scheme", subprocess.run([*COMMAND, "pull", "org/cut"], env=gone, capture_output=True, text=True), ["HF_ENDPOINT"], 2)

# ---- huggingface_hub ------------------------------------------------------------------------------
if HUB_PYTHON:
    script = """
import sys, os
from huggingface_hub import snapshot_download
print(snapshot_download(sys.argv[1], local_files_only=sys.argv[2] == "offline", allow_patterns=sys.argv[3:] or None))
"""
    home = new_home()
    pull(home, "clef/demo")
    read = subprocess.run([HUB_PYTHON, "-c", script, "clef/demo", "offline"], env={**env_of(home), "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True)
    same("huggingface_hub reads what clef wrote", os.path.join(cache_of(home, "clef/demo"), "snapshots", hub.commit("clef/demo")) + "\n", read.stdout)
    home = new_home()
    written = subprocess.run([HUB_PYTHON, "-c", script, "clef/demo", "online", *needed], env=env_of(home), capture_output=True, text=True)
    check("huggingface_hub takes this Hub for one", written.returncode == 0, written.stderr[-800:])
    by_name = clef(home, "run", "clef/demo", "-p", "ROMEO:", "-n", "6", "--temp", "0", "-q")
    check("clef reads what huggingface_hub wrote", by_name.returncode == 0 and by_name.stdout == by_path.stdout, by_name)
    n_before = hub.n_sent
    check("and pulls nothing of it again", pull(home, "clef/demo").returncode == 0 and hub.n_sent == n_before, hub.n_sent - n_before)
else:
    print("skipped: huggingface_hub is not here (tools/oracles transformers)")
shutil.rmtree(TMP, ignore_errors=True)
finish()

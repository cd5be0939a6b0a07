"""Sounds in requests: OpenAI's transcriptions and translations, their streams, and bodies that are refused."""
import io
import os
import random
import subprocess
import tempfile
import wave

from serving import COMMAND, Server, check, events, finish, same, tiny_model

SOURCE = os.environ["CLEF_SOURCE"]
MODEL = os.path.join(SOURCE, "tests", "fixtures", "whisper")
WAV = os.path.join(SOURCE, "tests", "fixtures", "speech", "short.wav")
PATH = "/v1/audio/transcriptions"
EDGE = "a-boundary"
with open(WAV, "rb") as file:
    SOUND = file.read()


def part(name, value, head=""):
    value = value if isinstance(value, bytes) else str(value).encode()
    return f"--{EDGE}\r\nContent-Disposition: form-data; name=\"{name}\"{head}\r\n\r\n".encode() + value + b"\r\n"


def form(*fields, sound=SOUND):
    """A body; fields: (name, value). `language` spares the model a guess, temperature 0.8 most of the tries."""
    parts = [part(name, value) for name, value in fields]
    if sound is not None:
        parts.insert(0, part("file", sound, "; filename=\"short.wav\"\r\nContent-Type: audio/wav"))
    return b"".join(parts) + f"--{EDGE}--\r\n".encode()


def post(s, body, path=PATH, kind=f"multipart/form-data; boundary={EDGE}"):
    return s.send("POST", path, body, {"Content-Type": kind})


def hear(s, *fields, path=PATH, **more):
    return post(s, form(("language", "en"), *fields, **more), path)


def code(r):
    return r.status, r.code, ((r.json or {}).get("error") or {}).get("param")


def cut_sound(seconds):
    out = io.BytesIO()
    with wave.open(out, "wb") as w:
        w.setnchannels(1)
        w.setsampwidth(1)
        w.setframerate(16000)
        w.writeframes(bytes((i * i // 4096 + 7 * i) % 251 for i in range(int(16000 * seconds))))
    return out.getvalue()


def forms(s):
    r = hear(s, ("temperature", 0), ("response_format", "verbose_json"), ("timestamp_granularities[]", "word"), ("timestamp_granularities[]", "segment"))
    said = r.json or {}
    check("verbose_json", r.status == 200 and said["task"] == "transcribe" and said["language"] == "english" and said["segments"] and said["words"], r)
    check("its duration", abs(said["duration"] - 0.38) < 0.01, said)
    words = hear(s, ("temperature", 1), ("response_format", "verbose_json"), ("timestamp_granularities[]", "word")).json
    check("words alone", "words" in words and "segments" not in words, words)
    for name, begin in (("srt", "1\n00:00:"), ("vtt", "WEBVTT\n\n00:00:")):
        r = hear(s, ("temperature", 1), ("response_format", name))
        check(name, r.status == 200 and r.text.startswith(begin) and "json" not in r.headers["content-type"], r)
    wanted = subprocess.run([*COMMAND, "transcribe", MODEL, WAV, "-l", "en", "-q", "--no-tune", "--no-proof", "--temperature", "1"],
                            capture_output=True, check=True).stdout
    r = hear(s, ("temperature", 1), ("response_format", "text"))
    same("text is that of clef transcribe", wanted.decode("utf-8", "replace").split(), r.text.replace("?", "\ufffd").split())
    plain = hear(s, ("temperature", 1)).json
    check("json", set(plain) == {"text", "usage"} and plain["usage"] == {"type": "duration", "seconds": 1}, plain)
    r = hear(s, ("temperature", 1), ("stream", "true"))
    all_events = events(r.text)
    same("a stream ends with the whole", ["transcript.text.done", plain["text"]], [all_events[-1]["type"], all_events[-1]["text"]])
    same("its deltas are the text", plain["text"], "".join(e["delta"] for e in all_events[:-1]))
    same("without /v1", 200, hear(s, ("temperature", 1), path="/audio/transcriptions").status)
    same("a translation", (200, "translate"), (lambda r: (r.status, r.json["task"]))(
        hear(s, ("temperature", 1), ("response_format", "verbose_json"), path="/v1/audio/translations")))
    r = hear(s, ("temperature", 1), ("user", "me"))
    same("a field that nobody knows", (200, "user"), (r.status, r.headers.get("clef-ignored")))


def fields(s):
    value, unsupported = "invalid_value", "unsupported_parameter"
    for name, field, wanted in (
            ("a form", ("response_format", "xml"), (400, value, "response_format")), ("a temperature", ("temperature", "2"), (400, value, "temperature")),
            ("a temperature that is none", ("temperature", "hot"), (400, value, "temperature")), ("NaN", ("temperature", "nan"), (400, value, "temperature")),
            ("stream", ("stream", "maybe"), (400, value, "stream")), ("words of json", ("timestamp_granularities[]", "word"), (400, value, "timestamp_granularities[]")),
            ("a granularity", ("timestamp_granularities[]", "letter"), (400, value, "timestamp_granularities[]")),
            ("include", ("include[]", "logprobs"), (400, unsupported, "include[]")), ("beams", ("beam_size", "5"), (400, unsupported, "beam_size")),
            ("no UTF-8", ("prompt", b"\xff\xfe"), (400, value, "prompt")), ("a file twice", ("file", SOUND), (400, value, "file"))):
        same(name, wanted, code(hear(s, field)))
    same("a language", (400, value, "language"), code(post(s, form(("language", "tlh")))))
    same("a language of a stream", (400, value, "language"), code(post(s, form(("language", "tlh"), ("stream", "true")))))
    same("a field twice", (400, value, "language"), code(post(s, form(("language", "en"), ("language", "de")))))
    same("a stream of subtitles", (400, value, "stream"), code(hear(s, ("stream", "true"), ("response_format", "srt"))))
    for name, sound in (("no file", None), ("an empty file", b""), ("no sound", b"hello" * 9), ("a cut sound", SOUND[:6000])):
        same(name, (400, value, "file"), code(hear(s, sound=sound)))


def bodies(s):
    whole = form(("language", "en"))
    bad = (400, "invalid_multipart", None)
    for name, body in (("an empty body", b""), ("no boundary in it", b"hello"), ("a part without a name", whole.replace(b'; name="file"', b"")),
                       ("a name without an end", whole.replace(b'name="file"; filename="short.wav"', b'name="file')),
                       ("base64", whole.replace(b"Content-Type: audio/wav", b"Content-Transfer-Encoding: base64")),
                       ("65 parts", form(*[("user", "x")] * 64)), ("no blank line", f"--{EDGE}\r\nA: b".encode())):
        same(name, bad, code(post(s, body)))
    for kind in ("multipart/form-data", "multipart/form-data; boundary=", f"multipart/form-data; boundary={'b' * 71}", "multipart/form-data; boundary=\"a\x01\""):
        same(f"type {kind[:40]!r}", 400, post(s, whole, kind=kind).status)
    for kind in ("application/json", "text/plain", "multipart/mixed; boundary=" + EDGE, "multipart/form-dataset; boundary=" + EDGE):
        same(f"type {kind}", (415, "unsupported_media_type", None), code(post(s, whole, kind=kind)))
    same("a quoted boundary", 200, post(s, form(("language", "en"), ("temperature", 1)), kind=f'multipart/form-data; charset=utf-8; boundary="{EDGE}"').status)
    same("a preamble and an epilogue", 200, post(s, b"hello\r\n" + form(("language", "en"), ("temperature", 1)) + b"bye").status)
    draw = random.Random(7)
    small = form(("language", "tlh"))  # refused at the latest there, so that nothing is computed
    for _ in range(100):
        at, n = draw.randrange(len(small)), draw.choice((1, 1, 2, 9))
        edit = draw.choice((b"", bytes(draw.randrange(256) for _ in range(n)), small[at:at + 40]))
        r = post(s, small[:at] + edit + (small[at + n:] if draw.random() < 0.7 else b""))
        if r.status not in (200, 400):
            check("a changed body", False, r)
    with s.open() as cut:  # it never ends
        cut.sendall(f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary={EDGE}\r\nContent-Length: {len(whole)}\r\n\r\n".encode() + whole[:900])
    head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary={EDGE}\r\n"
    check("a body that says it is huge", b" 413 " in s.raw((head + "Content-Length: 99999999999\r\n\r\n").encode())[:20])
    same("a chat", (400, "unsupported_parameter", "model"), code(s.chat()))
    same("embeddings", (400, "unsupported_parameter", "model"), code(s.post("/v1/embeddings", {"input": "a"})))


def clients_leave(s):
    body = form(("language", "en"), ("temperature", 0), sound=cut_sound(100))
    for stream in (False, True):
        text = form(("language", "en"), ("stream", "true"), sound=cut_sound(100)) if stream else body
        client = s.open()
        client.sendall(f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary={EDGE}\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
        check("it runs", s.until(lambda: s.metric("clef_requests_running") > 0))
        client.close()
        check(f"a client that leaves{' a stream' if stream else ''}", s.until(s.idle))


with Server("--threads", "2", model=MODEL, env={"CLEF_DEBUG": os.environ.get("CLEF_DEBUG", "") + ",fused=0"}) as server:
    forms(server)
    fields(server)
    bodies(server)
    clients_leave(server)
    check("gauges are back", server.until(server.idle))
    same("no error of the server", 0, sum(" 500 " in line for line in server.log.split("\n")))
    same("it still answers", 200, hear(server, ("temperature", 1)).status)
with tempfile.TemporaryDirectory() as folder:
    text = tiny_model(folder, "text", 1)
    with Server(text, MODEL, "--max-body", "20000", env={"CLEF_DEBUG": os.environ.get("CLEF_DEBUG", "") + ",fused=0"}) as server:
        same("two models: a sound", 200, hear(server, ("model", "whisper"), ("temperature", 1)).status)
        same("two models: a text", 200, server.text(model="text", max_tokens=2).status)
        same("the other one hears nothing", (400, "unsupported_parameter", "model"), code(hear(server, ("model", "text"))))
        same("another name", (404, "model_not_found", "model"), code(hear(server, ("model", "no"))))
        same("a chat with it", (400, "unsupported_parameter", "model"), code(server.chat(model="whisper")))
        same("a body beyond --max-body", (413, "body_too_large", None), code(hear(server, ("prompt", "x" * 20000))))
finish()

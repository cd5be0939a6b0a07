"""Pictures in requests: data: URLs and base64, in chats and in Anthropic's messages; what is refused; the cache of prefixes."""
import base64
import json
import os
import struct
import tempfile
import zlib

from serving import Server, check, finish, same

VISION = os.path.join(os.environ["CLEF_SHARED"], "oracle", "vision")
MODEL = os.path.join(VISION, "qwen2_vl")
# What the oracle's prompts are.
TEMPLATE = """{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.content is string %}{{ m.content }}{% else %}{% for c in m.content %}{% if c.type == 'image' -%}
Picture {{ loop.index }}: <|vision_start|><|image_pad|><|vision_end|>{% else %}{{ c.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>
{% endfor %}<|im_start|>assistant{{ '\\n' }}"""


def oracle(name):
    with open(os.path.join(MODEL, "expected.safetensors"), "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        begin, end = json.loads(f.read(n))[name]["data_offsets"]
        f.seek(8 + n + begin)
        return list(struct.unpack(f"<{(end - begin) // 8}q", f.read(end - begin)))


def url(name):
    with open(os.path.join(VISION, "pictures", name), "rb") as f:
        return "data:image/png;base64," + base64.b64encode(f.read()).decode()


def blank(width, height):
    """A PNG of 1 bit a pixel, all of them black: some kilobytes, whatever its size."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = zlib.compress(bytes((width // 8 + 1) * height), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def picture(name):
    return {"type": "image_url", "image_url": {"url": url(name)}}


def chat(s, *parts, **fields):
    return s.post("/v1/chat/completions", {"messages": [{"role": "user", "content": list(parts)}], "temperature": 0, "max_tokens": 16, "ignore_eos": True,
                                           "return_token_ids": True, **fields})


def texts(s):
    text = {"type": "text", "text": "What is this?"}
    prompt, greedy = oracle("one.input_ids"), oracle("one.greedy_ids")
    for name in ("first", "again"):
        r = chat(s, picture("gradient.png"), text)
        same(f"a picture, {name}", greedy[len(prompt):], r.json["choices"][0]["token_ids"] if r.status == 200 else r)
        same("tokens of its prompt", len(prompt), r.json["usage"]["prompt_tokens"])
    check("its prefix is cached", r.json["usage"]["prompt_tokens_details"]["cached_tokens"] > 16, r.json["usage"])
    r = chat(s, picture("shapes.jpg"), text)
    check("another picture is not", 0 < r.json["usage"]["prompt_tokens_details"]["cached_tokens"] < prompt.index(261) + 1, r.json["usage"])
    same("props say that it sees", True, s.get("/props").json["modalities"]["vision"])
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": url("gradient.png").split(",")[1]}}
    r = s.post("/v1/messages", {"max_tokens": 4, "messages": [{"role": "user", "content": [image, text]}]})
    same("a picture of Anthropic's messages", (200, len(prompt)), (r.status, r.json["usage"]["input_tokens"] + (r.json["usage"].get("cache_read_input_tokens") or 0)))
    parts = [{"type": "input_image", "image_url": url("gradient.png"), "detail": "auto"}, {"type": "input_text", "text": text["text"]}]
    r = s.post("/v1/responses", {"max_output_tokens": 4, "input": [{"role": "user", "content": parts}]})
    same("a picture of OpenAI's responses", (200, len(prompt)), (r.status, r.json["usage"]["input_tokens"] if r.status == 200 else r))
    more = s.post("/v1/responses", {"max_output_tokens": 4, "input": "And?", "previous_response_id": r.json["id"]})
    check("one that follows it sees it, too", more.status == 200 and more.json["usage"]["input_tokens"] > len(prompt), more)
    use = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c", "is_error": False, "content": [{"type": "text", "text": "It is here."}, image]}
    r = s.post("/v1/messages", {"max_tokens": 4, "messages": [{"role": "user", "content": "Look."}, {"role": "assistant", "content": [use]},
                                                              {"role": "user", "content": [result, text]}]})
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": {}}}
    wanted = s.post("/v1/chat/completions", {"max_tokens": 4, "messages": [
        {"role": "user", "content": "Look."}, {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "It is here."}, {"role": "user", "content": [picture("gradient.png"), text]}]})
    same("a picture that a call returned", (200, wanted.json["usage"]["prompt_tokens"]),
         (r.status, r.json["usage"]["input_tokens"] + (r.json["usage"].get("cache_read_input_tokens") or 0) if r.status == 200 else r))
    for path, body in (("chat", {"messages": [{"role": "user", "content": text["text"], "images": [url("gradient.png").split(",")[1]]}]}),
                       ("generate", {"prompt": text["text"], "images": [url("gradient.png").split(",")[1]]})):
        r = s.post("/api/" + path, {"stream": False, "options": {"num_predict": 4}, **body})
        same(f"a picture of /api/{path}", (200, len(prompt)), (r.status, r.json.get("prompt_eval_count")))


# A template without tools: what says them in its place must leave pictures where they are.
def tools(s):
    text, call = {"type": "text", "text": "What is this?"}, {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    before = [{"role": "user", "content": "a"}, {"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "a", "content": "b"}]

    def tokens(parts, messages=(), **fields):
        r = s.post("/v1/chat/completions", {"messages": [*messages, {"role": "user", "content": parts}], "max_tokens": 1, **fields})
        return r.json["usage"]["prompt_tokens"] if r.status == 200 else r.text
    alone = tokens([picture("gradient.png"), text]) - tokens([text])
    for name, fields in {"tools": {}, "a result before it": {"messages": before}}.items():
        fields = {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}], **fields}
        with_it, without = tokens([picture("gradient.png"), text], **fields), tokens([text], **fields)
        # Texts beside a picture are parts, between which templates may write something of their own.
        check(f"a picture with {name}", isinstance(with_it, int) and alone <= with_it - without <= alone + 16, (alone, with_it, without))


def refusals(s):
    def param(r):
        return r.status, (r.json.get("error") or {}).get("param")
    where = "messages[0].content[0].image_url"
    for name, value in {"http": "http://127.0.0.1:1/a.png", "https": "https://example.com/a.png", "a file": "file:///etc/passwd", "no base64": "data:image/png,abc",
                        "bad base64": "data:image/png;base64,****", "no data": "data:image/png;base64,", "no picture": "data:image/png;base64,aGFsbG8="}.items():
        same(f"a URL that is {name}", (400, where), param(chat(s, {"type": "image_url", "image_url": {"url": value}})))
    same("no URL", (400, where), param(chat(s, {"type": "image_url"})))
    r = s.post("/v1/messages", {"max_tokens": 4, "messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "http://127.0.0.1:1/"}}]}]})
    same("a URL in Anthropic's messages", 400, r.status)
    of_input = "input[1].content[0]"
    for name, role, where, fields in (("a URL", "user", of_input + ".image_url", {"image_url": "http://127.0.0.1:1/a.png"}), ("a file's id", "user", of_input + ".image_url", {"file_id": "f"}),
                                      ("a picture of the system", "system", of_input, {"image_url": url("gradient.png")})):
        r = s.post("/v1/responses", {"instructions": "Be brief.", "input": [{"role": "user", "content": "a"}, {"role": role, "content": [{"type": "input_image", **fields}]}]})
        same(f"{name} in OpenAI's responses", (400, where), param(r))
    r = s.post("/v1/chat/completions", {"messages": [{"role": "system", "content": [picture("gradient.png")]}], "max_tokens": 1})
    same("a picture of the system", 400, r.status)
    r = chat(s, *[picture("shapes.jpg")] * 6)
    check("pictures whose pixels take too much memory", r.status == 413 and "--body-memory" in r.text, r)
    r = chat(s, {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(blank(8192, 4096)).decode()}})
    check("a small file of a large picture is refused before it is decoded", r.status == 413 and "--body-memory" in r.text, r)
    same("the server still answers", 200, chat(s, {"type": "text", "text": "a"}).status)


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "template")
    with open(path, "w", encoding="utf-8") as f:
        f.write(TEMPLATE)
    with Server("--chat-template", path, "--ollama", "--exact", "--body-memory", "1", model=MODEL) as server:
        texts(server)
        tools(server)
        refusals(server)
with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
    # No message's text is in it, so none can be continued.
    template.write("{% for m in messages %}{% if m.content is string %}string{% else %}{% for c in m.content %}{% if c.type == 'image' %}<|vision_start|><|image_pad|>"
                   "<|vision_end|>{% endif %}{% endfor %}list{% endif %}{% endfor %}")
    template.flush()
    with Server("--chat-template", template.name, model=MODEL) as server:
        talk = [{"role": "user", "content": [picture("gradient.png")]}, {"role": "assistant", "content": "Sure."}]
        r = server.post("/apply-template", {"messages": talk})
        same("an answer beside a picture is a list of parts, also where it is not continued", "<|vision_start|><|image_pad|><|vision_end|>listlist", r.json.get("prompt", r))
with Server("--chat-template", "chatml") as server:
    same("a model without pictures", 400, chat(server, picture("gradient.png")).status)
finish()

"""Sends `clef serve` requests that are nearly right: mutated bodies, heads, chunks and lengths, halves and rubbish.

usage: fuzz_serve.py PORT [REQUESTS [SEED]]

Run the server of a build with AddressSanitizer, with `-q --header-timeout 1`. Prints how many were sent, and the
statuses of the replies. Exit code 1 when one is 500 or the server no longer answers."""
import collections
import json
import multiprocessing
import random
import socket
import sys

POSTS = ["/v1/chat/completions", "/v1/chat/completions/input_tokens", "/v1/completions", "/v1/messages", "/v1/messages/count_tokens", "/v1/responses",
         "/v1/responses/input_tokens", "/api/chat", "/api/generate", "/api/show", "/api/embed", "/completion", "/completions", "/infill", "/v1/embeddings", "/embedding",
         "/v1/rerank", "/v2/rerank", "/tokenize", "/detokenize", "/apply-template"]
FORMS = ["/v1/audio/transcriptions", "/v1/audio/translations"]
PATHS = [*POSTS * 4, *FORMS * 6, "/v1/chat/completions/control", "/v1/systemone", "/slots/0?action=save", "/slots", "/slots?fail_on_no_slot=1", "/lora-adapters", "/api/tags", "/api/ps", "/api/version",
         "/health", "/v1/responses/x", "/v1/responses/x/input_items?limit=2&order=asc&after=x", "/v1/models", "/v1/models/x", "/metrics", "/props", "/", "/v1/%00", "/" + "a" * 200]
USER = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}}
SEEDS = [
    {"messages": USER, "max_tokens": 2, "temperature": 0.5, "top_p": 0.9, "seed": 3, "logprobs": True, "top_logprobs": 2, "stop": ["a"]},
    {"messages": USER, "max_tokens": 2, "stream": True, "stream_options": {"include_usage": True}, "n": 2},
    {"messages": USER, "max_tokens": 3, "tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False},
    {"messages": USER, "max_tokens": 3, "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "properties": {"a": {"enum": [1, "b"]}}}}}},
    {"messages": USER + [{"role": "assistant", "content": None, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "4"}]}], "max_tokens": 1, "chat_template_kwargs": {"a": 1}},
    {"prompt": "Once", "max_tokens": 2, "echo": True, "logprobs": 1, "logit_bias": {"5": -100}}, {"prompt": [1, 2, 3], "max_tokens": 1, "grammar": 'root ::= "a"'},
    {"prompt": ["a", [5, 6]], "max_tokens": 2, "dry_multiplier": 1, "mirostat": 2, "samplers": ["top_k", "temperature"], "regex": "[ab]*"},
    {"messages": [{"role": "user", "content": "x"}], "max_new_tokens": 2, "guided_json": {"enum": [1, "a"]}, "stop_token_ids": [5], "seed": 2 ** 64 - 1, "do_sample": True},
    {"prompt": "x", "n_predict": 2, "structured_outputs": {"choice": ["a"]}, "logit_bias": [[5, 1], [6, False]], "stop_sequences": ["a"], "skip_special_tokens": False},
    {"prompt": ["a", "b"], "max_tokens": 0, "echo": True, "logprobs": 1, "format": "json", "repetition_penalty": 1.1, "options": {}},
    {"messages": [*USER, {"role": "assistant", "content": [{"type": "thinking", "thinking": "t"}, {"type": "tool_use", "id": "a", "name": "f", "input": {}}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "4"}]}, {"type": "text", "text": "b"}]}],
     "system": [{"type": "text", "text": "s"}], "max_tokens": 2, "stop_sequences": ["a"], "thinking": {"type": "enabled", "budget_tokens": 1024}},
    {"messages": USER, "max_tokens": 3, "stream": True, "tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": {"type": "any"}, "output_config": {"effort": "low"}},
    {"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}, {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "t"}]}, {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}, {"type": "function_call_output", "call_id": "a", "output": "4"}],
     "max_output_tokens": 2, "instructions": "i", "text": {"format": {"type": "json_schema", "name": "n", "schema": {"enum": [1]}}}, "include": ["message.output_text.logprobs"]},
    {"input": "a", "max_output_tokens": 3, "stream": True, "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}, "reasoning": {"effort": "low"}, "previous_response_id": "resp_x"},
    {"input": [{"type": "item_reference", "id": "msg_x"}, {"id": "fc_x"}, {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}]}], "max_output_tokens": 2},
    [{"id": 0, "scale": 1}], {"model": "x", "messages": [{"role": "user", "content": "a", "images": []}, {"role": "assistant", "content": "", "thinking": "t", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]}], "tools": [TOOL], "options": {"num_predict": 2, "temperature": 0.5, "stop": ["a"]}, "think": "low"},
    {"model": "x", "prompt": "a", "system": "s", "raw": True, "stream": False, "format": {"enum": [1]}, "options": {"num_predict": 2, "seed": 5}},
    {"input_prefix": "a", "input_suffix": "b", "prompt": "c", "input_extra": [{"filename": "f", "text": "t"}], "n_predict": 2, "stream": True}, {"prompt": "a", "suffix": "b", "max_tokens": 2},
    {"prompt": [[1, "a", 2], {"prompt_string": "b"}], "n_predict": 2, "n_probs": 2, "post_sampling_probs": True, "temperature": 0, "response_fields": ["content", "timings/prompt_n"], "n_indent": 1, "t_max_predict_ms": 5, "cache_prompt": False, "samplers": ["infill", "top_k"]},
    {"prompt": "a", "n_predict": 0, "stream": True, "logit_bias": {" a": -100}, "repeat_last_n": -1, "return_tokens": True, "n_cmpl": 2},
    {"messages": USER, "max_tokens": 2, "reasoning_format": "none", "parse_tool_calls": False, "timings_per_token": True, "stream": True, "return_progress": True},
    {"input": ["a", {"prompt_string": "b"}, {"content": [{"type": "text", "text": "c"}]}, [1, "d"]]}, {"content": ["a", [1, 2]]},
    {"input": ["a", "b"], "encoding_format": "base64"}, {"input": "a", "dimensions": 8, "prompt_name": "query", "truncate": True}, {"query": "q", "documents": ["a", {"text": "b"}], "top_n": 1, "return_documents": True},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]}], "max_tokens": 1}, {"content": "text", "with_pieces": True, "add_special": True}, {"tokens": [1, 2, 3]},
]
VALUES = [None, True, -1, 0, 1, 2 ** 31, 2 ** 63, 1e308, "", "x", "\u0000", "é😀", [], {}, [None], {"a": 1}, "a" * 5000, [[[[]]]], -0.5, "\\"]

# A sound of a few samples, and what a form says of it.
SOUND = b"RIFF\x64\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x80\x3e\0\0\0\x7d\0\0\2\0\x10\0data\x40\0\0\0" + bytes(range(64))
FORM = {"model": "x", "language": "en", "prompt": "a", "response_format": "verbose_json", "temperature": "0", "timestamp_granularities[]": "word", "stream": "false"}


def places(value, path=()):
    yield path
    if isinstance(value, dict):
        for k in value:
            yield from places(value[k], path + (k,))
    elif isinstance(value, list):
        for i in range(len(value)):
            yield from places(value[i], path + (i,))


def change(rng, value):
    """Replaces, removes or copies one part."""
    value = json.loads(json.dumps(value))
    path = rng.choice(list(places(value)))
    if not path:
        return rng.choice(VALUES) if rng.random() < 0.05 else value
    at = value
    for k in path[:-1]:
        at = at[k]
    how = rng.random()
    if how < 0.7:
        at[path[-1]] = rng.choice(VALUES)
    elif how < 0.8:
        del at[path[-1]]
    elif isinstance(at, dict):
        at[rng.choice(["n", "seed", "lora", "min_tokens", "ignore_eos", "choice", "cache_salt", "return_token_ids", "new"])] = rng.choice(VALUES)
    else:
        at.extend([at[path[-1]]] * rng.randrange(1, 30))
    return value


def spoil(rng, data):
    """Changes bytes."""
    data = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        if data:
            i = rng.randrange(len(data))
            data[i:i + rng.randrange(0, 3)] = bytes(rng.randrange(256) for _ in range(rng.randrange(0, 3)))
    return bytes(data)


def make_form(rng):
    """A body of multipart/form-data, and its boundary."""
    fields = FORM
    for _ in range(rng.randrange(0, 3)):
        fields = change(rng, fields)
    fields = [(k, str(v).encode()) for k, v in (fields if isinstance(fields, dict) else FORM).items()]
    fields.insert(rng.randrange(len(fields) + 1), ('file"; filename="a.wav', spoil(rng, SOUND) if rng.random() < 0.7 else SOUND))
    parts = [b'--xyz\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (k.encode(), v) for k, v in fields]
    return b"".join(parts) + b"--xyz--\r\n"


def make(rng):
    """A request as bytes, and whether a reply is to be expected on an open connection."""
    seed = rng.choice(SEEDS)
    for _ in range(rng.randrange(0, 4)):
        seed = change(rng, seed) if isinstance(seed, (dict, list)) else seed
    body = json.dumps(seed).encode()
    path = rng.choice(PATHS)
    kind = "application/json"
    if path in FORMS and rng.random() < 0.9:
        body, kind = make_form(rng), "multipart/form-data; boundary=xyz"
    if rng.random() < 0.1:
        body = spoil(rng, body)
    method = rng.choice(["POST"] * 12 + ["GET", "PUT", "HEAD", "OPTIONS", "X" * 30])
    heads = ["Host: localhost", "Content-Type: " + kind]
    how = rng.random()
    if how < 0.85:
        heads.append(f"Content-Length: {len(body)}")
    elif how < 0.95:
        heads.append("Transfer-Encoding: chunked")
        cut = rng.randrange(len(body) + 1)
        parts = [p for p in (body[:cut], body[cut:]) if p]
        body = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in parts) + b"0\r\n\r\n"
    else:
        heads.append(rng.choice(["Content-Length: 99999999999999999999", "Content-Length: -1", "Content-Length: 0\r\nTransfer-Encoding: chunked", "Transfer-Encoding: x",
                                 "Content-Length: 5\r\nContent-Length: 6"]))
    if rng.random() < 0.05:
        heads += [f"x-{i}: {'v' * rng.randrange(300)}" for i in range(rng.randrange(1, 130))]
    if rng.random() < 0.03:
        heads.append(rng.choice(["Origin: http://evil.example", "Authorization: Bearer " + "x" * 5000, "x-request-id: a\tb", "Expect: 100-continue", "Connection: close"]))
    head = f"{method} {path} HTTP/1.1\r\n" + "\r\n".join(heads) + "\r\n\r\n"
    data = head.encode("latin1") + body
    whole = how < 0.95
    if rng.random() < 0.06:
        data, whole = spoil(rng, data), False
    if rng.random() < 0.03:
        data, whole = data[:rng.randrange(len(data))], False
    return data, whole


def read_reply(s, is_head=False):
    """The status of one reply, which is read to its end; 0 where there is none."""
    f = s.makefile("rb")
    line = f.readline()
    parts = line.split()
    if len(parts) < 2 or not parts[1].isdigit():
        return 0, False
    status, length, chunked, close = int(parts[1]), 0, False, False
    if status == 100:
        return status, False
    while (line := f.readline().strip()):
        name, _, value = line.lower().partition(b":")
        length = int(value) if name == b"content-length" else length
        chunked |= name == b"transfer-encoding"
        close |= name == b"connection" and b"close" in value
    if is_head:
        return status, False
    if chunked:
        while (n := int(f.readline().strip() or b"0", 16)):
            f.read(n + 2)
        f.readline()
    else:
        f.read(length)
    return status, not close


def work(port, n, seed, results):
    rng, counts, s = random.Random(seed), collections.Counter(), None
    for _ in range(n):
        data, whole = make(rng)
        is_head = data.startswith(b"HEAD")
        try:
            if s is None:
                s = socket.create_connection(("127.0.0.1", port), timeout=30)
            s.settimeout(5 if whole else 0.02)
            s.sendall(data)
            status, goes_on = read_reply(s, is_head)
            counts[status] += 1
            if not whole or is_head or not goes_on:
                s.close()
                s = None
        except (OSError, ValueError):
            counts["cut"] += 1
            if s is not None:
                s.close()
            s = None
    results.put(counts)


def main():
    port, total, seed = int(sys.argv[1]), int((sys.argv[2:] or [1000])[0]), int((sys.argv[3:] or [1])[0])
    results, n_workers = multiprocessing.Queue(), 6
    workers = [multiprocessing.Process(target=work, args=(port, total // n_workers, seed * 1000 + i, results)) for i in range(n_workers)]
    for w in workers:
        w.start()
    counts = collections.Counter()
    for _ in workers:
        counts += results.get()
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as s:
            s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            alive = read_reply(s)[0] == 200
    except OSError:
        alive = False
    print(f"{sum(counts.values())} requests:", dict(counts.most_common()), "" if alive else "the server is gone")
    sys.exit(not alive or counts[500] > 0)


if __name__ == "__main__":
    main()

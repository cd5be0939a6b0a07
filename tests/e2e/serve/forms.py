"""Anthropic's messages and OpenAI's responses beside chat completions: the same prompts and texts, whole and as events."""
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile

from serving import COMMAND, Server, check, events, finish, same, tiny_model

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
TOOLS = {"chat": [{"type": "function", "function": {"name": n, "description": "d", "parameters": SCHEMA}} for n in ("get", "put")],
         "messages": [{"name": n, "description": "d", "input_schema": SCHEMA} for n in ("get", "put")],
         "responses": [{"type": "function", "name": n, "description": "d", "parameters": SCHEMA} for n in ("get", "put")]}
HI = [{"role": "user", "content": "Hello"}]


def messages(s, *said, **fields):
    return s.post("/v1/messages", {"max_tokens": 8, "temperature": 0, "messages": list(said) or HI, **fields})


def responses(s, given="Hello", **fields):
    return s.post("/v1/responses", {"max_output_tokens": 8, "temperature": 0, "input": given, **fields})


def chat(s, *said, **fields):
    return s.post("/v1/chat/completions", {"max_tokens": 8, "temperature": 0, "messages": list(said) or HI, **fields})


def n_input(reply):
    u = reply.json["usage"]
    return u["input_tokens"] + u.get("cache_read_input_tokens", 0) + u.get("cache_creation_input_tokens", 0)


def names(reply):
    return [line[7:] for line in reply.text.split("\n") if line.startswith("event: ")]


def anthropic_whole(s):
    system = {"role": "system", "content": "Be brief."}
    wanted, r = chat(s, system, *HI), messages(s, system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}])
    same("messages: the text of a chat", wanted.json["choices"][0]["message"]["content"], r.json["content"][0]["text"])
    same("its prompt", wanted.json["usage"]["prompt_tokens"], n_input(r))
    same("its members", ["content", "id", "model", "role", "stop_reason", "stop_sequence", "type", "usage"], sorted(r.json))
    same("its kind", ["message", "assistant", "max_tokens", None], [r.json[k] for k in ("type", "role", "stop_reason", "stop_sequence")])
    check("its id", r.json["id"].startswith("msg_"), r)
    counted = s.post("/v1/messages/count_tokens", {"messages": HI, "system": "Be brief."})
    same("count_tokens", {"input_tokens": n_input(r)}, counted.json)
    for path, body in (("chat/completions", {"messages": [system, *HI]}), ("responses", {"input": "Hello", "instructions": "Be brief."})):
        counted = s.post(f"/v1/{path}/input_tokens", body)
        same(f"the same of {path}", {"object": "response.input_tokens", "input_tokens": n_input(r)}, counted.json)
    text = r.json["content"][0]["text"]
    stopped = messages(s, system="Be brief.", stop_sequences=["zzz", text[3:5]])
    same("its usage", ["cache_creation", "cache_creation_input_tokens", "cache_read_input_tokens", "input_tokens", "output_tokens", "server_tool_use", "service_tier"], sorted(r.json["usage"]))
    strict = [{"name": "f", "input_schema": {"type": "object", "properties": {"a": {"uniqueItems": True}}}, "strict": True}]
    same("a strict tool holds to its whole schema", [400, 200], [messages(s, tools=[dict(strict[0], strict=on)]).status for on in (True, False)])
    same("a stop sequence", ["stop_sequence", text[3:5], text.split(text[3:5])[0]],
         [stopped.json["stop_reason"], stopped.json["stop_sequence"], stopped.json["content"][0]["text"]])
    begun = messages(s, *HI, {"role": "assistant", "content": [{"type": "text", "text": "The"}]})
    wanted = chat(s, *HI, {"role": "assistant", "content": "The"}, continue_final_message=True)
    same("a last message of the assistant goes on", wanted.json["choices"][0]["message"]["content"], begun.json["content"][0]["text"])


def anthropic_stream(s):
    whole, r = messages(s), messages(s, stream=True)
    got = events(r.text)
    same("messages: a stream's type", "text/event-stream; charset=utf-8", r.headers["content-type"])
    same("each event has its name", names(r), [e["type"] for e in got])
    kinds = [k for k in names(r) if k != "content_block_delta"]
    same("events", ["message_start", "ping", "content_block_start", "content_block_stop", "message_delta", "message_stop"], kinds)
    same("the text", whole.json["content"][0]["text"], "".join(e["delta"]["text"] for e in got if e["type"] == "content_block_delta"))
    same("the message begins empty", [], got[0]["message"]["content"])
    same("the end", ["max_tokens", 8], [got[-2]["delta"]["stop_reason"], got[-2]["usage"]["output_tokens"]])


def anthropic_tools(s):
    fields = {"tools": TOOLS["messages"], "max_tokens": 220, "tool_choice": {"type": "tool", "name": "put", "disable_parallel_tool_use": True}}
    r, stream = messages(s, **fields), messages(s, stream=True, **fields)
    call = r.json["content"][-1]
    same("messages: a call", ["tool_use", "put", ["a"]], [call["type"], call["name"], list(call["input"])])
    got = events(stream.text)
    begun = [e for e in got if e["type"] == "content_block_start"][-1]["content_block"]
    odd = {"name": "put", "input_schema": {**SCHEMA, "properties": {"a": {"const": 2500000000000000000000}}}}
    same("a call with a large integer", {"a": 2.5e21}, messages(s, **{**fields, "tools": [odd]}).json["content"][-1]["input"])
    same("a streamed call begins empty", ["tool_use", "put", {}], [begun["type"], begun["name"], begun["input"]])
    parts = [e["delta"]["partial_json"] for e in got if e["type"] == "content_block_delta" and e["delta"]["type"] == "input_json_delta"]
    same("its parts are the input", call["input"], json.loads("".join(parts)))
    said = [*HI, {"role": "assistant", "content": [{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "c1", "name": "get", "input": {"a": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "3"}]}, {"type": "text", "text": "And?"}]}]
    call = {"id": "c1", "type": "function", "function": {"name": "get", "arguments": {"a": 1}}}
    wanted = chat(s, *HI, {"role": "assistant", "content": "I look.", "tool_calls": [call]},
                  {"role": "tool", "tool_call_id": "c1", "content": "3"}, {"role": "user", "content": "And?"}, tools=TOOLS["chat"], max_tokens=2)
    same("results of calls", wanted.json["usage"]["prompt_tokens"], n_input(messages(s, *said, tools=TOOLS["messages"], max_tokens=2)))
    found = {"type": "search_result", "source": "u", "title": "t", "content": [{"type": "text", "text": "3"}]}
    hidden = {"type": "redacted_thinking", "data": "AAAA"}
    begun, result = said[-2]["content"], said[-1]["content"]
    other = [*HI, {"role": "assistant", "content": [hidden, *begun]}, {"role": "user", "content": [{**result[0], "content": [found]}, *result[1:]]}]
    same("with thoughts that cannot be read, and what a search found", wanted.json["usage"]["prompt_tokens"], n_input(messages(s, *other, tools=TOOLS["messages"], max_tokens=2)))
    same("or what a user says", n_input(messages(s, {"role": "user", "content": "3"})), n_input(messages(s, {"role": "user", "content": [found]})))
    wanted = chat(s, *HI, {"role": "system", "content": "Be brief."}, {"role": "user", "content": "And?"}, max_tokens=2)
    for text in ("Be brief.", [{"type": "text", "text": "Be brief."}]):
        later = messages(s, *HI, {"role": "system", "content": text}, {"role": "user", "content": "And?"}, max_tokens=2)
        same(f"a system message between others: {text}", wanted.json["usage"]["prompt_tokens"], n_input(later))
    same("thoughts between calls", 200, messages(s, thinking={"type": "between_tools"}).status)


def anthropic_errors(s):
    cases = {"no max_tokens": {"max_tokens": None}, "a role": {"messages": [{"role": "tool", "content": "a"}]},
             "an image": {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
             "a tool of another type": {"tools": [{"type": "bash_20250124", "name": "bash"}]}, "a tool choice": {"tools": TOOLS["messages"], "tool_choice": {"type": "some"}},
             "thinking": {"thinking": {"type": "loud"}}, "a container": {"container": "c"}, "a description": {"tools": [{**TOOLS["messages"][0], "description": 5}]}, "strict": {"tools": [{**TOOLS["messages"][0], "strict": "yes"}]}, "no list": {"messages": "Hello"}}
    for name, fields in cases.items():
        r = messages(s, **fields) if "messages" not in fields else s.post("/v1/messages", {"max_tokens": 8, **fields})
        same(f"messages: refused: {name}", [400, "error", "invalid_request_error"], [r.status, r.json["type"], r.json["error"]["type"]])
    same("an error has the request's id", [r.headers["x-request-id"], r.headers["request-id"]], [r.json["request_id"]] * 2)


def openai_whole(s):
    wanted, r = chat(s, {"role": "system", "content": "Be brief."}, *HI), responses(s, instructions="Be brief.", metadata={"k": "v"})
    item = r.json["output"][0]
    same("responses: the text of a chat", wanted.json["choices"][0]["message"]["content"], item["content"][0]["text"])
    same("its prompt", wanted.json["usage"]["prompt_tokens"], n_input(r))
    same("what it repeats", ["response", "Be brief.", {"k": "v"}, 8], [r.json[k] for k in ("object", "instructions", "metadata", "max_output_tokens")])
    same("a reply that was cut", ["incomplete", {"reason": "max_output_tokens"}, "incomplete"], [r.json["status"], r.json["incomplete_details"], item["status"]])
    same("no penalties", [0, 0], [r.json[k] for k in ("presence_penalty", "frequency_penalty")])
    same("how prompts are cached is not used", [(200, "prompt_cache_options")] * 2, [(x.status, x.headers["clef-ignored"]) for x in (f(s, prompt_cache_options={"mode": "auto"}) for f in (chat, responses))])
    check("what it repeats or has not", all(k in r.json and r.json[k] is None for k in ("completed_at", "conversation", "prompt", "user", "safety_identifier")), r)
    schema = responses(s, text={"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}}, max_output_tokens=200)
    check("a completed one says when", schema.json["status"] == "completed" and schema.json["completed_at"] >= schema.json["created_at"], schema)
    same("a schema", ["a"], list(json.loads(schema.json["output"][-1]["content"][0]["text"])))
    odds = responses(s, include=["message.output_text.logprobs"], top_logprobs=2, max_output_tokens=3)
    same("log-probabilities", [2, 2, 2], [len(e["top_logprobs"]) for e in odds.json["output"][0]["content"][0]["logprobs"]])


def openai_stream(s):
    whole, r = responses(s), responses(s, stream=True)
    got = events(r.text)
    kinds = [k for k in names(r) if not k.endswith(".delta")]
    same("responses: events", ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
                               "response.output_text.done", "response.content_part.done", "response.output_item.done", "response.incomplete"], kinds)
    same("they are numbered", list(range(len(got))), [e["sequence_number"] for e in got])
    same("the text", whole.json["output"][0]["content"][0]["text"], "".join(e["delta"] for e in got if e["type"].endswith(".delta")))
    got_odds = events(responses(s, stream=True, top_logprobs=2).text)
    parts = [e for e in got_odds if e["type"].endswith("text.delta")]
    deltas = [[o["token"] for o in e["logprobs"]] for e in parts]
    same("log-probabilities come with their deltas", [e["delta"] for e in parts], ["".join(d) for d in deltas])
    same("so many as tokens", 8, len(sum(deltas, [])))
    same("and all of them at the end", sum(deltas, []), [o["token"] for o in got_odds[-1]["response"]["output"][0]["content"][0]["logprobs"]])
    same("the last event has all of it", got[-2]["item"], got[-1]["response"]["output"][0])


def openai_calls(s):
    fields = {"tools": TOOLS["responses"], "tool_choice": "required", "parallel_tool_calls": False, "max_output_tokens": 220}
    r = responses(s, **fields)
    call = r.json["output"][-1]
    same("responses: a call", ["function_call", ["a"]], [call["type"], list(json.loads(call["arguments"]))])
    got = events(responses(s, stream=True, **fields).text)
    same("a streamed call", call["arguments"], "".join(e["delta"] for e in got if e["type"] == "response.function_call_arguments.delta"))
    answer = {"type": "json_schema", "name": "n", "schema": {"const": 4}}
    for choice in ("required", {"type": "function", "name": "put"}):
        both = responses(s, **{**fields, "tool_choice": choice}, text={"format": answer})
        same(f"tool_choice {choice} beside the format of an answer", "function_call", both.json["output"][-1]["type"])
    same("beside a grammar", 400, chat(s, tools=TOOLS["chat"], tool_choice={"type": "function", "function": {"name": "put"}}, grammar='root ::= "a"').status)
    only = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "put"}]}
    same("one of the allowed tools", "put", responses(s, **{**fields, "tool_choice": only}).json["output"][-1]["name"])
    nested = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "put"}}]}}
    in_chat = chat(s, tools=TOOLS["chat"], tool_choice=nested, parallel_tool_calls=False, max_tokens=220)
    same("also of a chat", "put", in_chat.json["choices"][0]["message"]["tool_calls"][0]["function"]["name"])
    same("no tool is allowed", 400, responses(s, **{**fields, "tool_choice": {**only, "tools": []}}).status)
    given = [{"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}, {"type": "reasoning", "summary": []},
             {"type": "function_call", "call_id": "c1", "name": "get", "arguments": '{"a": 1}'}, {"type": "function_call_output", "call_id": "c1", "output": "3"}]
    wanted = chat(s, *HI, {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "get", "arguments": '{"a": 1}'}}]},
                  {"role": "tool", "tool_call_id": "c1", "content": "3"}, tools=TOOLS["chat"], max_tokens=2)
    same("outputs of calls", wanted.json["usage"]["prompt_tokens"], n_input(responses(s, given, tools=TOOLS["responses"], max_output_tokens=2)))


def inputs(s, first):
    """What a stored response answers, in pages; items by their ids."""
    page = s.get(f"/v1/responses/{first.json['id']}/input_items").json
    same("its input", [("message", "user", "completed", [{"type": "input_text", "text": "Hello"}])], [tuple(i[k] for k in ("type", "role", "status", "content")) for i in page["data"]])
    same("as a list", ["list", False, page["data"][0]["id"]], [page["object"], page["has_more"], page["last_id"]])
    given = [{"role": "user", "content": "Add."}, {"type": "function_call", "id": "c", "call_id": "c", "name": "get", "arguments": "{}"}, {"type": "function_call_output", "call_id": "c", "output": "5"}]
    r = responses(s, given, tools=TOOLS["responses"])
    path = f"/v1/responses/{r.json['id']}/input_items"
    page = s.get(path).json
    same("the last item first", ["function_call_output", "function_call", "message"], [i["type"] for i in page["data"]])
    some = s.get(path + "?limit=2&order=asc").json
    same("a page", ([i["id"] for i in page["data"]][:0:-1], True), ([i["id"] for i in some["data"]], some["has_more"]))
    rest = s.get(path + f"?order=asc&after={some['last_id']}").json
    same("the rest", ([page["first_id"]], False), ([i["id"] for i in rest["data"]], rest["has_more"]))
    same("an id with escapes", rest["data"], s.get(path + f"?order=asc&after=%{ord(some['last_id'][0]):x}{some['last_id'][1:]}").json["data"])
    same("the page after the last one", ([], False), ((last := s.get(path + f"?after={page['last_id']}").json)["data"], last["has_more"]))
    same("after an item that is not there", (404, "after"), ((r404 := s.get(path + "?after=msg_x")).status, r404.json["error"]["param"]))
    same("queries that are wrong", [400] * 4, [s.get(path + q).status for q in ("?limit=0", "?limit=x", "?limit=+5", "?order=up")])
    same("none of it", [404] * 3, [s.get(f"/v1/responses/{p}").status for p in ("resp_x/input_items", r.json["id"] + "/x", r.json["id"] + "/input_items/x")])
    ids = [i["id"] for i in s.get(path + "?order=asc").json["data"]] + [r.json["output"][-1]["id"]]
    again = responses(s, [{"type": "item_reference", "id": ids[0]}, {"id": ids[1]}, {"type": None, "id": ids[2]}, {"id": ids[3]}, {"role": "user", "content": "And?"}], tools=TOOLS["responses"])
    follows = responses(s, "And?", previous_response_id=r.json["id"], tools=TOOLS["responses"])
    same("items by their ids", (200, n_input(follows)), (again.status, again.status == 200 and n_input(again)))
    got = [i["id"] for i in s.get(f"/v1/responses/{again.json['id']}/input_items?order=asc").json["data"]]
    same("which keep them", ids, got[:4])
    responses(s, "And?", previous_response_id=again.json["id"], tools=TOOLS["responses"])
    same("one whose id is that of a call, too, and whose conversation went on", 200, responses(s, [{"id": "c"}, given[2]], tools=TOOLS["responses"]).status)
    responses(s, [{"type": "reasoning", "id": "nothing", "summary": []}, *HI])
    same("as many as there may be", 200, responses(s, [{"id": "nothing"}] * 128 + HI).status)
    many = responses(s, [{"id": "nothing"}] * 129)
    same("one more", (400, "input[128]"), (many.status, many.json["error"]["param"]))
    missing = responses(s, [{"type": "item_reference", "id": "msg_x"}])
    same("an item that is not stored", (404, "input[0]"), (missing.status, missing.json["error"]["param"]))
    same("an id that is none", [400, 404], [responses(s, [{"type": "item_reference", "id": i}]).status for i in (5, 'a"b')])


def openai_stored(s):
    first = responses(s, instructions="Be brief.")
    text = first.json["output"][0]["content"][0]["text"]
    more = responses(s, "And?", previous_response_id=first.json["id"])
    wanted = chat(s, *HI, {"role": "assistant", "content": text}, {"role": "user", "content": "And?"})
    same("responses: one follows another", wanted.json["usage"]["prompt_tokens"], n_input(more))
    path = "/v1/responses/" + first.json["id"]
    same("a stored one", first.json, s.get(path).json)
    inputs(s, first)
    same("it is dropped", [200, True], [(r := s.send("DELETE", path)).status, r.json["deleted"]])
    same("and gone", [404, 404], [s.get(path).status, responses(s, previous_response_id=first.json["id"]).status])
    first = responses(s, "a\0b")
    text = first.json["output"][0]["content"][0]["text"]
    wanted = chat(s, {"role": "user", "content": "a\0b"}, {"role": "assistant", "content": text}, {"role": "user", "content": "And?"})
    same("one with \\u0000 is followed", (200, wanted.json["usage"]["prompt_tokens"]), ((more := responses(s, "And?", previous_response_id=first.json["id"])).status, more.status == 200 and n_input(more)))
    silent = responses(s, store=False)
    same("one that is not to be stored", 404, s.get("/v1/responses/" + silent.json["id"]).status)
    for name, fields in {"background": {"background": True}, "a conversation": {"conversation": "c"}, "another tool": {"tools": [{"type": "web_search"}]},
                         "an item": {"input": [{"type": "computer_call"}]}, "an image": {"input": [{"role": "user", "content": [{"type": "input_image"}]}]}}.items():
        same(f"responses: refused: {name}", 400, s.post("/v1/responses", {"input": "Hello", **fields}).status)
    for path, fields in {"metadata": {"metadata": 5}, "truncation": {"truncation": "x"}, "include[0]": {"include": ["x"]}, "include[1]": {"include": ["reasoning.encrypted_content", 5]}}.items():
        same(f"responses: refused: {fields}", [400, path], [(r := responses(s, **fields)).status, r.json["error"]["param"]])


def about(s):
    same("paths without /v1", [200] * 3, [s.get("/models").status, s.post("/messages", {"max_tokens": 1, "messages": HI}).status, s.get("/v1/props").status])
    page = s.get("/v1/models").json
    one = page["data"][0]
    same("models as Anthropic has them", ["model", one["id"], True], [one["type"], one["display_name"], bool(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", one["created_at"]))])
    same("on its page", [False, one["id"], one["id"]], [page[k] for k in ("has_more", "first_id", "last_id")])
    same("the model's context", [one["meta"]["n_ctx"]] * 2, [one["max_model_len"], one["context_length"]])
    slots = s.get("/slots").json
    same("slots", [(i, -1, False, one["meta"]["n_ctx"]) for i in range(8)], [(x["id"], x["id_task"], x["is_processing"], x["n_ctx"]) for x in slots])
    same("slots of a model that is not here", 404, s.get("/slots?model=none").status)
    same("slots of this one", slots, s.get("/slots?fail_on_no_slot=1&model=" + one["id"]).json)
    long = s.begin("/v1/completions", {"prompt": "Once", "max_tokens": 200, "n": 8, "ignore_eos": True, "temperature": 0.5, "seed": 7})
    busy = []
    s.until(lambda: busy.append(s.get("/slots").json) or all(x["is_processing"] for x in busy[-1]))
    same("slots that are busy", [(200, 0.5, 7)] * 8, [(x["params"]["n_predict"], x["params"]["temperature"], x["params"]["seed"]) for x in busy[-1]])
    check("their tokens", all(x["next_token"]["n_remain"] + x["next_token"]["n_decoded"] == 200 and x["n_prompt_tokens"] for x in busy[-1]), busy[-1])
    check("nobody's text is there", "Once" not in str(busy[-1]), busy[-1])
    long.close()
    props = s.get("/props").json
    check("what the template can do", props["chat_template_caps"]["supports_tools"], props)
    same("what it cannot read", {"vision": False, "audio": False}, props["modalities"])


def ollama(s):
    options = {"temperature": 0, "num_predict": 8}
    wanted = chat(s).json
    whole = s.post("/api/chat", {"model": "x", "messages": HI, "stream": False, "options": options}).json
    same("ollama: the text of a chat", wanted["choices"][0]["message"]["content"], whole["message"]["content"])
    same("its counts", [wanted["usage"]["prompt_tokens"], 8, True, "length"], [whole[k] for k in ("prompt_eval_count", "eval_count", "done", "done_reason")])
    r = s.post("/api/chat", {"messages": HI, "options": options})
    lines = [json.loads(line) for line in r.text.splitlines()]
    same("a stream of lines is the default", ["application/x-ndjson", [False] * (len(lines) - 1) + [True]], [r.headers["content-type"], [o["done"] for o in lines]])
    same("its text", whole["message"]["content"], "".join(o["message"]["content"] for o in lines))
    same("a prompt", whole["message"]["content"], s.post("/api/generate", {"prompt": "Hello", "stream": False, "options": options}).json["response"])
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
    same("a body need not have its type, but elsewhere", [b"200", b"415"], [s.raw(head % path).split(b" ")[1] for path in (b"/api/show", b"/tokenize")])
    raw = s.post("/api/generate", {"prompt": "Once", "raw": True, "stream": False, "options": options}).json
    same("an unknown option is reported", "num_gpu, num_thread", s.post("/api/generate", {"prompt": "a", "stream": False, "options": {**options, "num_gpu": 1, "num_thread": 2, "penalize_newline": True}}).headers["clef-ignored"])
    free, off = [s.post("/api/generate", {"prompt": "Hello", "stream": False, "options": {**options, "num_predict": 40, **penalty}}).json["response"]
                 for penalty in ({}, {"repeat_last_n": 0, "repeat_penalty": 100})]
    same("repeat_last_n 0 turns penalties off", free, off)
    check("which matter", off != s.post("/api/generate", {"prompt": "Hello", "stream": False, "options": {**options, "num_predict": 40, "repeat_penalty": 100}}).json["response"])
    same("a raw prompt", s.text("Once", max_tokens=8, temperature=0).json["choices"][0]["text"], raw["response"])
    call = s.post("/api/chat", {"messages": HI, "tools": TOOLS["chat"], "tool_choice": "required", "parallel_tool_calls": False, "stream": False,
                                "options": options | {"num_predict": 220}}).json["message"]["tool_calls"][0]
    same("a call has an object", ["a"], list(call["function"]["arguments"]))
    name = s.get("/api/tags").json["models"][0]["name"]
    embedded = s.post("/api/embed", {"model": name, "input": ["a", "b"]}).json
    usual = {"truncate": True, "options": {"num_ctx": 4096}, "keep_alive": "5m"}
    r = s.post("/api/embed", {"model": name, "input": "a", **usual})
    same("with the fields that clients send", [200, "keep_alive, options"], [r.status, ", ".join(sorted(r.headers["clef-ignored"].split(", ")))])
    same("of the same text", embedded["embeddings"][0], r.json["embeddings"][0])
    long, most = [s.post("/api/embed", {"input": "word " * 4000, "truncate": cut}) for cut in (True, False)]
    check("a long text is cut, or refused", long.status == 200 and long.json["prompt_eval_count"] > 100 and most.status == 400, (long, most))
    same("/api/embed", [2, 2], [len(embedded["embeddings"]), embedded["prompt_eval_count"]])
    check("vectors of length 1", all(abs(sum(x * x for x in v) - 1) < 1e-4 for v in embedded["embeddings"]), embedded)
    same("what it can do", ["completion", "tools"], s.post("/api/show", {"model": name}).json["capabilities"])
    running = s.get("/api/ps").json["models"][0]
    check("what is loaded", running["size_vram"] > 0 and running["context_length"] == 256 and running["expires_at"] > running["modified_at"] > "2020", running)
    odds = s.post("/api/chat", {"messages": HI, "stream": False, "logprobs": True, "top_logprobs": 1, "options": options}).json["logprobs"]
    same("log-probabilities", [whole["message"]["content"], [["logprob", "bytes", "token"]] * 8],
         ["".join(o["token"] for o in odds), [sorted(o["top_logprobs"][0], key=lambda k: (k != "logprob", k)) for o in odds]])
    lines = s.post("/api/generate", {"prompt": "Hello", "logprobs": True, "options": options}).text.splitlines()
    same("in a stream", len(odds), sum(len(json.loads(line).get("logprobs", [])) for line in lines))
    for path, body, empty in (("generate", {}, {"response": ""}), ("generate", {"prompt": ""}, {"response": ""}), ("chat", {"messages": []}, {"message": {"role": "assistant", "content": ""}})):
        r = s.post(f"/api/{path}", {"stream": False, **body})
        same(f"/api/{path} of nothing is a load: {body}", [200, "load", empty], [r.status, r.json["done_reason"], {k: r.json[k] for k in empty}])
    same("an empty suffix is none", whole["message"]["content"], s.post("/api/generate", {"prompt": "Hello", "suffix": "", "stream": False, "options": options}).json["response"])
    call = json.dumps('<tool_call>\n{"name": "put", "arguments": {"a": 2500000000000000000000, "b": "x\\u0000y\\ud800"}}\n</tool_call>')
    r = s.post("/api/chat", {"messages": HI, "stream": False, "tools": TOOLS["chat"], "grammar": f"root ::= {call}", "options": {"num_predict": 220}})
    same("no argument of a call is lost", {"a": 2.5e21, "b": "x\0y\ufffd"}, r.json["message"]["tool_calls"][0]["function"]["arguments"])
    check("a version that clients take", [int(n) for n in s.get("/api/version").json["version"].split(".")] >= [0, 6, 4])
    old = s.post("/api/embeddings", {"model": name, "prompt": "a", **usual})
    plain = s.post("/v1/embeddings", {"input": "a"}).json["data"][0]["embedding"]
    same("/api/embeddings", [{"embedding": plain}, 400], [old.json, s.post("/api/embeddings", {"prompt": ["a", "b"]}).status])
    for what, fields in {"a picture": {"messages": [{"role": "user", "content": "a", "images": ["x"]}]}, "an option": {"options": {"tfs_z": 0.5}},
                         "options that are none": {"options": [1]}, "a text as messages": {"messages": "hello"}, "a text as pictures": {"messages": [{"role": "user", "content": "a", "images": "eA=="}]}, "an option that may matter": {"options": {"stop_regex": "a"}}, "a number as a picture": {"messages": [{"role": "user", "content": "a", "images": [5]}]}, "a temperature": {"options": {"temperature": "hot"}}}.items():
        r = s.post("/api/chat", {"messages": HI, **fields})
        same(f"ollama: refused: {what}", [400, str], [r.status, type(r.json["error"])])
    same("a text as the pictures of a prompt", [400] * 2, [s.post("/api/generate", {"prompt": p, "images": "eA=="}).status for p in ("a", "")])
    same("a suffix of a model without tokens for it", 400, s.post("/api/generate", {"prompt": "a", "suffix": "b"}).status)


def with_numbers(source, out, numbers):
    """Copies a GGUF file with further keys, whose values are numbers."""
    with open(source, "rb") as f:
        data = f.read()
    n_tensors, n_keys = struct.unpack_from("<QQ", data, 8)
    added = b"".join(struct.pack("<Q", len(k)) + k.encode() + struct.pack("<II", 4, v) for k, v in numbers.items())
    # Where the tensors are depends on the length of what is before them, which is padded: so is this.
    pad = b"".join(struct.pack("<Q", 5) + b"pad.x" + struct.pack("<IQ", 8, n) + b" " * n for n in [(-(len(added) + 25)) % 32])
    with open(out, "wb") as f:
        f.write(data[:8] + struct.pack("<QQ", n_tensors, n_keys + len(numbers) + 1) + added + pad + data[24:])


def code_model(*names):
    """The demo with tokens for infilling: the last merges make room for them."""
    names = names or ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
    folder = tempfile.mkdtemp(prefix="clef-code-")
    source = os.path.join(os.environ["CLEF_SOURCE"], "share", "demo")
    for name in ("config.json", "generation_config.json", "model.safetensors", "tokenizer_config.json"):
        shutil.copy(os.path.join(source, name), folder)
    with open(os.path.join(source, "tokenizer.json"), encoding="utf-8") as f:
        tokenizer = json.load(f)
    vocab = {k: i for k, i in tokenizer["model"]["vocab"].items() if i < len(tokenizer["model"]["vocab"]) - 3}
    ids = {name: len(vocab) + i for i, name in enumerate(names)}
    tokenizer["model"]["merges"] = tokenizer["model"]["merges"][:-3]
    tokenizer["model"]["vocab"] = vocab | ids
    tokenizer["added_tokens"] += [dict(tokenizer["added_tokens"][0], id=i, content=name) for name, i in ids.items()]
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f:
        json.dump(tokenizer, f)
    return folder


def infill(s):
    more = {"max_tokens": 6, "temperature": 0, "return_token_ids": True}
    wanted = s.text("<|fim_prefix|>def f(<|fim_suffix|>):<|fim_middle|>", **more).json
    got = s.text("def f(", suffix="):", **more).json
    same("infill: the ids of a prompt with the tokens", wanted["prompt_token_ids"], got["prompt_token_ids"])
    same("and the text", wanted["choices"][0]["text"], got["choices"][0]["text"])
    own = s.post("/infill", {"input_prefix": "def f(", "input_suffix": "):", "n_predict": 6, "temperature": 0}).json
    same("/infill", [got["choices"][0]["text"], True, "limit", 6], [own[k] for k in ("content", "stop", "stop_type", "tokens_predicted")])
    begun = s.post("/infill", {"input_prefix": "a", "input_suffix": "b", "prompt": "c", "input_extra": [{"filename": "x", "text": "y"}], "n_predict": 1}).json
    extra = "\n\ny<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>c"
    same("with another file", len(s.post("/tokenize", {"content": extra}).json["tokens"]), begun["tokens_evaluated"])
    named = s.text("<|fim_middle|>", suffix="x", **more).json["prompt_token_ids"]
    check("a client's text makes no token", len(named) > 5, named)
    same("a suffix of /api/generate", got["choices"][0]["text"], s.post("/api/generate", {"prompt": "def f(", "suffix": "):", "stream": False, "options": {"num_predict": 6, "temperature": 0}}).json["response"])
    one = s.post("/completion", {"prompt": "Once", "n_predict": 6, "temperature": 0}).json
    same("/completion", s.text("Once", max_tokens=6, temperature=0).json["choices"][0]["text"], one["content"])
    lines = events(s.post("/completion", {"prompt": "Once", "n_predict": 6, "temperature": 0, "stream": True}).text)
    same("a stream of it", [one["content"], True], ["".join(e["content"] for e in lines), lines[-1]["stop"]])
    for name, r in {"no suffix": s.post("/infill", {"input_prefix": "a"}),
                    "ids with a suffix": s.text([5], suffix="a"), "a file without a text": s.post("/infill", {"input_suffix": "a", "input_extra": [{}]})}.items():
        same(f"infill: refused: {name}", 400, r.status)


def named_marks():
    """A GGUF file that says which tokens are for infilling, under the keys of today and of before."""
    model = code_model("<prefix-of-gap>", "<suffix-of-gap>", "<middle-of-gap>")
    path, env = os.path.join(model, "code.gguf"), dict(os.environ, CLEF_TUNE="0", CLEF_PROOF="0")
    subprocess.run([*COMMAND, "convert", model, path, "-q"], check=True, env=env)
    with Server(model=path) as s:
        same("tokens for infilling that no one names", 501, s.post("/infill", {"input_prefix": "a", "input_suffix": "b"}).status)
        ids = [s.post("/tokenize", {"content": f"<{n}-of-gap>"}).json["tokens"][0] for n in ("prefix", "suffix", "middle")]
    for keys in (("fim_pre", "fim_suf", "fim_mid"), ("prefix", "suffix", "middle")):
        with_numbers(path, path + ".named", {f"tokenizer.ggml.{k}_token_id": i for k, i in zip(keys, ids)})
        with Server(model=path + ".named") as s:
            more = {"max_tokens": 6, "temperature": 0, "return_token_ids": True}
            wanted = s.text("<prefix-of-gap>def f(<suffix-of-gap>):<middle-of-gap>", **more).json
            same(f"infill: tokens that the file names: {keys[0]}", wanted["prompt_token_ids"], s.text("def f(", suffix="):", **more).json["prompt_token_ids"])


THINKS = """{% for m in messages %}{{ m.role }}: {{ m.thinking }}{{ m.content }}
{% endfor %}effort {{ reasoning_effort | default('is not said') }}
assistant: <think>
{% if enable_thinking is defined and not enable_thinking %}
</think>

{% endif %}"""


def think_text(s, **fields):
    message = chat(s, max_tokens=30, **fields).json["choices"][0]["message"]
    return message.get("reasoning_content") or "", message["content"]


def thinking(s):
    """A budget of thinking tokens: the thought is as it was up to there, the tag ends it, and the text goes on."""
    free = chat(s, max_tokens=30, return_token_ids=True).json["choices"][0]
    same("a thought without an end", [None, 30], [free["message"]["content"] or None, len(free["token_ids"])])
    five = s.post("/detokenize", {"tokens": free["token_ids"][:5]}).json["content"]
    got = think_text(s, thinking_budget=5)
    same("a budget of 5 tokens", five.strip(), got[0].strip())
    said = s.chat("Hello", thinking_budget=5, temperature=0, max_tokens=30).json["choices"][0]["message"]["content"]
    command = [*COMMAND, "chat", os.path.join(os.environ["CLEF_SOURCE"], "share", "demo"), "--chat-template", template.name, "--thinking-budget", "5", "--temp", "0", "-n", "20", "-q"]
    spoken = subprocess.run(command, input="Hello", capture_output=True, text=True, check=False).stdout.strip()
    check("clef chat says the same with it", spoken and said.strip().startswith(spoken), (said, spoken))
    check("and then a text", got[1], got)
    for fields in ({"thinking_token_budget": 5}, {"reasoning_budget": 5}, {"reasoning": {"max_tokens": 5}}, {"thinking": {"type": "enabled", "budget_tokens": 5}},
                   {"thinking_budget_tokens": 5}, {"reasoning_budget_tokens": 5.0}):
        same(f"{fields}", got, think_text(s, **fields))
    stream = events(chat(s, max_tokens=30, thinking_budget=5, stream=True).text)
    deltas = [e["choices"][0]["delta"] for e in stream if e["choices"]]
    same("a stream", list(got), ["".join(d.get(k) or "" for d in deltas) for k in ("reasoning_content", "content")])
    r = messages(s, max_tokens=30, thinking={"type": "enabled", "budget_tokens": 5}).json["content"]
    same("messages: a budget", list(got), [r[0]["thinking"], r[1]["text"]])
    hidden = {"type": "enabled", "budget_tokens": 5, "display": "omitted"}
    same("a thought that is not shown", ["", got[1]], [b.get("thinking", b.get("text")) for b in messages(s, max_tokens=30, thinking=hidden).json["content"]])
    for shown in (True, False):
        deltas = [e["delta"] for e in events(messages(s, max_tokens=30, stream=True, thinking={**hidden, "display": "summarized"} if shown else hidden).text)
                  if e["type"] == "content_block_delta"]
        same(f"a thought's events, shown {shown}", [got[0] if shown else "", 1], ["".join(d.get("thinking", "") for d in deltas), sum(d["type"] == "signature_delta" for d in deltas)])
    same("refused: another display", 400, messages(s, thinking={**hidden, "display": "loud"}).status)
    r = responses(s, max_output_tokens=30, reasoning={"max_tokens": 5}).json["output"]
    odds = responses(s, max_output_tokens=30, reasoning={"max_tokens": 5}, include=["message.output_text.logprobs"]).json["output"][1]["content"][0]
    same("log-probabilities are those of the text", odds["text"], "".join(o["token"] for o in odds["logprobs"]).strip())
    same("responses: a budget", list(got), [r[0]["content"][0]["text"], r[1]["content"][0]["text"]])
    made = think_text(s, thinking_budget=3, response_format={"type": "json_schema", "json_schema": {"schema": {"enum": ["yes", "no"]}}})
    check("a constraint begins after the tag", made[1] in ('"yes"', '"no"') and len(made[0]) > 2, made)
    same("no budget beyond the default", free["message"]["reasoning_content"], think_text(s, thinking_budget=-1)[0])
    rendered = {str(f): s.post("/apply-template", {"messages": HI, **f}).json["prompt"] for f in ({}, {"enable_thinking": False})}
    check("the template is asked for no thought", rendered["{}"].endswith("<think>\n") and "</think>" in rendered["{'enable_thinking': False}"], rendered)
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    for said, calls in (({"reasoning_content": "Hm"}, []), ({"reasoning": "Hm"}, [call]), ({"thinking": "Hm", "content": ""}, [])):
        thought = {"role": "assistant", "content": None, "tool_calls": calls, **said}
        check(f"the template's name for {said}", "assistant: Hm" in s.post("/apply-template", {"messages": [thought]}).json["prompt"], calls)
    off = think_text(s, enable_thinking=False)
    for fields in ({"thinking_budget": 0}, {"reasoning_effort": "none"}, {"reasoning": {"effort": "none"}}, {"reasoning": {"enabled": False}}, {"thinking": {"type": "disabled"}}):
        got = think_text(s, **fields)
        check(f"no thought: {fields}", not got[0] and got[1] and ("effort" in str(fields) or got == off), (got, off))
    made = think_text(s, enable_thinking=False, response_format={"type": "json_schema", "json_schema": {"schema": {"enum": ["yes", "no"]}}})
    check("a constraint without a thought holds from the start", made[1] in ('"yes"', '"no"') and not made[0], made)
    for fields in ({"thinking_budget": -2}, {"thinking_budget": True}, {"thinking_budget": 1.5}, {"reasoning": 5}, {"reasoning": {"max_tokens": "5"}}, {"reasoning": {"effort": 1}},
                   {"reasoning": {"exclude": True}}, {"thinking": True}, {"thinking": {"type": "enabled", "budget_tokens": -1}}, {"thinking_budget": 1, "reasoning_budget": 2}):
        same(f"refused: {fields}", 400, chat(s, **fields).status)


PLAIN = """{% for m in messages %}{% if loop.index0 > 1 and m.role == messages[loop.index0 - 1].role %}{{ raise_exception('two of ' + m.role) }}{% endif %}
{{ m.role }}: {{ m.content }}
{% endfor %}assistant: """


def generic_tools(s):
    """A template that knows nothing of tools: the messages say what there is, and calls and results before are texts."""
    few = SCHEMA | {"properties": {"a": {"enum": [1, 2]}}}
    tools = [{"type": "function", "function": {"name": n, "parameters": few}} for n in ("get", "put")]
    fields = {"tools": tools, "max_tokens": 220, "parallel_tool_calls": False}
    r = chat(s, tool_choice={"type": "function", "function": {"name": "put"}}, **fields).json["choices"][0]
    same("generic: a call", ["tool_calls", "put", ["a"]],
         [r["finish_reason"], r["message"]["tool_calls"][0]["function"]["name"], list(json.loads(r["message"]["tool_calls"][0]["function"]["arguments"]))])
    call = {"id": "c1", "type": "function", "function": {"name": "get", "arguments": '{"a": 1}'}}
    said = [{"role": "system", "content": "Be brief."}, *HI, {"role": "assistant", "content": "I look.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "3"}]}, {"role": "user", "content": "And?"}]
    text = s.post("/apply-template", {"messages": said, "tools": tools}).json["prompt"]
    check("the prompt has the functions", '"name":"put"' in text and text.count('{"tool_calls": [') == 1 and "Be brief." in text, text)
    check("a call is as the model writes it", 'assistant: I look.\n{"tool_calls":[{"name":"get","arguments":{"a":1}}]}' in text, text)
    check("a result is a user's", "user: Result of get:\n3\n\nAnd?" in text, text)
    same("they are a chat", 200, chat(s, *said, **fields).status)
    text = s.post("/apply-template", {"messages": HI}).json["prompt"]
    check("without tools nothing is added", text.strip() == "user: Hello\nassistant:", text)
    same("messages: a call", ["put"], [b["name"] for b in messages(s, tools=[{"name": "put", "input_schema": few}], max_tokens=220, tool_choice={"type": "tool", "name": "put", "disable_parallel_tool_use": True})
                                       .json["content"] if b["type"] == "tool_use"])
    same("tools for none", 200, chat(s, tool_choice="none", **fields).status)
    said[2]["tool_calls"][0]["function"]["arguments"] = '{"a": 2500000000000000000000, "b": "x\\u0000y\\ud800"}'
    text = s.post("/apply-template", {"messages": said, "tools": tools}).json["prompt"]
    check("no argument is lost", '"arguments":{"a":2.5e21,"b":"x\\u0000y\ufffd"}' in text, text)


def turns(s):
    """Anthropic's messages: turns of one role are one, also where the template refuses two."""
    def turn(role, *texts):
        return {"role": role, "content": [{"type": "text", "text": t} for t in texts]}
    wanted, r = messages(s, turn("user", "a", "b")), messages(s, {"role": "user", "content": "a"}, turn("user", "b"))
    same("two turns of the user", [200, n_input(wanted), wanted.json["content"]], [r.status, n_input(r), r.json["content"]])
    begun = [chat(s, *HI, {"role": "assistant", "content": "The\ncat"}, continue_final_message=True).json["choices"][0]["message"]["content"]]
    begun += [messages(s, *HI, *last).json["content"][0]["text"] for last in ([turn("assistant", "The", "cat")], [turn("assistant", "The"), {"role": "assistant", "content": "cat"}])]
    same("texts of the assistant go on as one", begun[:1] * 3, begun)
    for last in ([{"type": "thinking", "thinking": "Well.", "signature": ""}], ""):
        same(f"a last message without a text: {last}", 200, messages(s, *HI, {"role": "assistant", "content": last}).status)


def custom_tools(s):
    """Custom tools of responses: their input is a text, and no JSON."""
    tool = {"type": "custom", "name": "patch", "description": "d", "format": {"type": "grammar", "syntax": "regex", "definition": "a{2,4}b"}}
    fields = {"tools": [tool], "tool_choice": {"type": "custom", "name": "patch"}, "max_output_tokens": 220, "parallel_tool_calls": False}
    r = responses(s, **fields).json
    item = r["output"][-1]
    same("custom: a call", ["custom_tool_call", "patch", "completed"], [item[k] for k in ("type", "name", "status")])
    check("its input fits the tool's grammar", re.fullmatch("a{2,4}b", item["input"]) and "arguments" not in item, item)
    check("its ids", item["id"].startswith("ctc_") and item["call_id"].startswith("call_"), item)
    same("the tools are as they were given", [tool], r["tools"])
    got = events(responses(s, stream=True, **fields).text)
    of = [e for e in got if e["type"].startswith("response.custom_tool_call_input.")]
    same("custom: events", [item["input"], item["input"]], ["".join(e.get("delta", "") for e in of), of[-1]["input"]])
    same("no event has JSON", [], [e["type"] for e in got if "function_call" in e["type"]])
    output = {"type": "custom_tool_call_output", "call_id": item["call_id"], "output": "done"}
    stored = responses(s, [output], previous_response_id=r["id"]).json["usage"]["input_tokens"]
    again = responses(s, [{"role": "user", "content": "Hello"}, item, output])
    same("custom: a call goes on, stored or sent", stored, again.json["usage"]["input_tokens"])
    for name, wrong in {"a grammar that clef does not have": dict(tool, format={"type": "grammar", "syntax": "lark", "definition": "start: A"}),
                        "no name": {"type": "custom"}, "another tool": {"type": "web_search"}}.items():
        same(f"custom: refused: {name}", 400, responses(s, tools=[wrong]).status)
    beside = responses(s, tools=[{"type": "web_search_preview"}, tool])
    same("a tool of OpenAI's servers beside one's own is left out", (200, "tools[0]"), (beside.status, beside.headers["clef-ignored"]))
    same("unless it is chosen", 400, responses(s, tools=[{"type": "web_search"}, tool], tool_choice={"type": "web_search"}).status)
    same("custom: refused: no input", 400, responses(s, [dict(item, input=5)]).status)


def custom_tools_of_chats(s):
    """The same in a chat, where what they have is in `custom`."""
    grammar = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a{2,4}b"}}
    tool = {"type": "custom", "custom": {"name": "patch", "description": "d", "format": grammar}}
    fields = {"tools": [tool], "tool_choice": {"type": "custom", "custom": {"name": "patch"}}, "max_tokens": 220, "parallel_tool_calls": False}
    call = s.chat(**fields).json["choices"][0]["message"]["tool_calls"][0]
    same("a chat's custom tool", ["custom", "patch", False], [call["type"], call["custom"]["name"], "function" in call])
    check("its input fits the tool's grammar", re.fullmatch("a{2,4}b", call["custom"]["input"]), call)
    streamed = [c for e in events(s.chat(stream=True, **fields).text) for c in e["choices"][0]["delta"].get("tool_calls", [])]
    check("in a stream", len(streamed) == 1 and streamed[0]["index"] == 0 and re.fullmatch("a{2,4}b", streamed[0]["custom"]["input"]), streamed)
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "custom", "custom": {"name": "patch"}}]}}
    other = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    got = s.chat(**dict(fields, tools=[other, tool], tool_choice=allowed)).json["choices"][0]["message"]["tool_calls"][0]
    same("of several allowed tools", "patch", got["custom"]["name"])
    talk = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": call["id"], "content": "done"}]
    as_function = {"id": call["id"], "type": "function", "function": {"name": "patch", "arguments": json.dumps({"input": call["custom"]["input"]}, separators=(",", ":"))}}
    tokens = [s.post("/v1/chat/completions", {"messages": [talk[0], dict(talk[1], tool_calls=[c]), talk[2]], "max_tokens": 1}).json["usage"]["prompt_tokens"] for c in (call, as_function)]
    same("a call goes on as that of a function", tokens[1], tokens[0])
    for name, wrong in {"a grammar that clef does not have": {"name": "x", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: A"}}}, "no name": {}}.items():
        same(f"a chat's custom tool: refused: {name}", 400, s.chat(tools=[{"type": "custom", "custom": wrong}]).status)
    same("a chat's custom tool: refused: no input", 400, s.post("/v1/chat/completions", {"messages": [talk[0], dict(talk[1], tool_calls=[{"id": "a", "type": "custom", "custom": {"name": "x"}}]), talk[2]]}).status)


with tempfile.NamedTemporaryFile("w", suffix=".jinja", encoding="ascii") as template:
    template.write(PLAIN)
    template.flush()
    with tempfile.TemporaryDirectory() as made, Server("--chat-template", template.name, model=tiny_model(made, "tiny", 1)) as server:
        generic_tools(server)
        turns(server)
with tempfile.NamedTemporaryFile("w", suffix=".jinja", encoding="ascii") as template:
    template.write(THINKS)
    template.flush()
    with Server("--chat-template", template.name) as server:
        thinking(server)
    with Server("--chat-template", template.name, "--thinking-budget", "5", "--spec", "ngram") as server:
        same("--thinking-budget", True, bool(think_text(server)[1]))
        same("a request may lift it", "", think_text(server, thinking_budget=-1)[1] or "")
with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
    template.write("a")
    template.flush()
    with Server("--chat-template", template.name, "--body-memory", "1") as server:
        first = responses(server, [{"role": "user", "content": "a"}] * 800)
        # 503: the first one's memory is not given back yet
        server.until(lambda: responses(server, previous_response_id=first.json.get("id")).status != 503)
        follows = responses(server, previous_response_id=first.json.get("id"))
        same("what a response follows counts for --body-memory", (200, 413), (first.status, follows.status))
        same("and a short one fits", 200, responses(server, previous_response_id=responses(server).json["id"]).status)
with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys: # only its owner may read it
    keys.write("b\n")
    keys.flush()
    with Server("--chat-template", "chatml", "--api-key-file", keys.name, env={"CLEF_API_KEY": "a"}) as server:
        def of_key(key, path, body):
            return server.post(path, body, headers={"X-Api-Key": key})
        item = of_key("a", "/v1/responses", {"input": "Hello", "max_output_tokens": 2}).json["output"][-1]["id"]
        same("an item is its key's", [200, 404], [of_key(k, "/v1/responses", {"input": [{"id": item}, *HI], "max_output_tokens": 2}).status for k in "ab"])
        same("no key chooses the adapter of another's requests", [501] * 2, [of_key(k, "/lora-adapters", []).status for k in "ab"])
with Server("--ollama", model=code_model()) as server:
    infill(server)
named_marks()
with Server(model=code_model("\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>")) as server:
    same("names with U+2581", 200, server.post("/infill", {"input_prefix": "a", "input_suffix": "b", "n_predict": 2}).status)
with Server("--chat-template", "chatml", "--tool-format", "hermes") as server:
    same("a model without tokens for it", 400, server.text("a", suffix="b").status)
    same("Ollama's paths are not there without --ollama", 404, server.get("/api/tags").status)
with Server("--chat-template", "chatml", "--tool-format", "hermes", "--ollama") as server:
    ollama(server)
    for part in (anthropic_whole, anthropic_stream, anthropic_tools, anthropic_errors, openai_whole, openai_stream, openai_calls, openai_stored, custom_tools, custom_tools_of_chats, about):
        part(server)
    check("all pages are back", server.until(server.idle))
finish()

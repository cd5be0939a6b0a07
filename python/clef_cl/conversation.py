"""Conversations: chat templates, and answers with tool calls and reasoning."""
from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Union

from ._native import c_text, call, ffi, lib, new_struct, path_bytes, text_of, utf8
from .generation import Generation
from .model import Model, _constraint_of
from .sampling import Sampling


_Path = Union[str, "os.PathLike[str]", None]


def _open_template(model: _Path, template: _Path, has_tools: bool) -> Any:
    out = ffi.new("clef_template **")
    call(lib.clef_template_open, path_bytes(model) if model else ffi.NULL,
         path_bytes(template) if template else ffi.NULL, int(has_tools), out)
    return ffi.gc(out[0], lib.clef_template_destroy)


def plain(value: Any) -> Any:
    """A message as JSON has it: of dicts and lists, and of objects with model_dump(), as the `openai` client and
    clef.openai() give them, whose empty fields are left out."""
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return plain(value.model_dump(exclude_none=True)) if hasattr(value, "model_dump") else value


def _messages(messages: Any) -> list[Any]:
    """The messages of a conversation; each has a role."""
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Iterable):
        raise TypeError(f"messages: expected a list of messages, got {type(messages).__name__}")
    found = [plain(message) for message in messages]
    for i, message in enumerate(found):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise ValueError(f'messages: expected {{"role": .., "content": ..}} as message {i}, got {message!r}')
    return found


class Template:
    """A chat template: a model's own, of its path; a built-in one ("chatml" ..) or a file; or Template.parse(source).

        clef.Template(name="chatml").render([{"role": "user", "content": "Hello"}])
    """

    def __init__(self, model: _Path = None, name: _Path = None, *, with_tools: bool = False) -> None:
        self._template = _open_template(model, name, with_tools)

    @classmethod
    def parse(cls, source: str, name: str = "template") -> Template:
        """The template of a source in Jinja."""
        data, out = utf8(source), ffi.new("clef_template **")
        call(lib.clef_template_parse, data, len(data), c_text(name), out)
        template = cls.__new__(cls)
        template._template = ffi.gc(out[0], lib.clef_template_destroy)
        return template

    @property
    def source(self) -> str:
        n = ffi.new("size_t *")
        source = lib.clef_template_source(self._template, n)
        return bytes(ffi.buffer(source, n[0])[:]).decode("utf-8", "replace")

    @property
    def tool_format(self) -> str:
        """How it writes calls of tools: one of tool_formats()."""
        data = utf8(self.source)
        return text_of(lib.clef_tool_format_name(lib.clef_tool_format_of_template(data, len(data))))

    def render(self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Any] | None = None,
               add_generation_prompt: bool = True, **arguments: Any) -> str:
        """The text of a conversation. arguments: further variables of the template."""
        with _rendered(self._template, "", messages, tools, arguments, add_generation_prompt) as out:
            return bytes(ffi.buffer(out.text, out.n_bytes)[:]).decode("utf-8")


def template_names() -> dict[str, str]:
    """The built-in templates and their sources."""
    found: dict[str, str] = {}
    while (name := lib.clef_template_builtin_name(len(found))) != ffi.NULL:
        found[text_of(name)] = text_of(lib.clef_template_builtin(name))
    return found


def tool_formats() -> dict[str, str]:
    """How families of models write calls of tools: names, and an example of each."""
    return {text_of(lib.clef_tool_format_name(i)): text_of(lib.clef_tool_format_example(i))
            for i in range(lib.CLEF_N_TOOL_FORMATS)}


@contextmanager
def _rendered(template: Any, path: str, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None,
              arguments: Mapping[str, Any], add_generation_prompt: bool) -> Iterator[Any]:
    """A clef_rendered. path: the model whose special tokens the template may name; "": none."""
    said = utf8(json.dumps(_messages(messages)))
    known = utf8(json.dumps(plain(tools))) if tools else None
    keep = [ffi.new("char[]", c_text(text)) for item in arguments.items() for text in (item[0], json.dumps(item[1]))]
    args = ffi.new("clef_template_arg[]", [{"name": keep[i], "json": keep[i + 1]} for i in range(0, len(keep), 2)])
    strings = [ffi.new("char[]", text) for text in (said, known or b"", c_text(path))]
    options = new_struct("clef_template_opts *", {
        "messages": strings[0], "messages_bytes": len(said), "model": strings[2] if path else ffi.NULL, "args": args,
        "n_args": len(arguments), "no_generation_prompt": int(not add_generation_prompt)})
    if known is not None:
        options.tools, options.tools_bytes = strings[1], len(known)
    out = ffi.new("clef_rendered *")
    call(lib.clef_template_render, template, options, out)
    try:
        yield out
    finally:
        lib.clef_rendered_finish(out)


class Rendered:
    """A conversation as text. `ids` are its tokens; what messages say makes no special token."""

    def __init__(self, model: Model, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None,
                 template: _Path, arguments: Mapping[str, Any], add_generation_prompt: bool = True) -> None:
        self.template = _open_template(model.path, template, bool(tools))
        with _rendered(self.template, model.path, messages, tools, arguments, add_generation_prompt) as out:
            self._read(model, out)

    def _read(self, model: Model, out: Any) -> None:
        self.text = ffi.buffer(out.text, out.n_bytes)[:].decode("utf-8")
        spans = [{"begin": part.begin, "end": part.end} for part in out.parts[0 : out.n_parts] if part.from_message]
        ids, n = ffi.new("int32_t **"), ffi.new("int32_t *")
        with model._working():
            call(lib.clef_tokenizer_encode_plain, model._tokenizer(), out.text, out.n_bytes,
                 ffi.new("clef_byte_span[]", spans), len(spans), ids, n)
        try:
            self.ids = list(ids[0][0 : n[0]])
        finally:
            lib.clef_tokens_free(ids[0])


def _format_of(template: Any, name: str | None) -> int:
    if name is not None:
        out = ffi.new("clef_tool_format *")
        call(lib.clef_tool_format_find, c_text(name), out)
        return int(out[0])
    n = ffi.new("size_t *")
    source = lib.clef_template_source(template, n)
    return int(lib.clef_tool_format_of_template(source, n[0]))


class _Parts:
    """Collects the parts that the reader of an answer gives."""

    def __init__(self) -> None:
        self.deltas: list[dict[str, Any]] = []

    def append(self, part: Any) -> None:
        if part.kind == lib.CLEF_REPLY_CALL:
            function = {"name": text_of(part.call.name), "arguments": text_of(part.call.arguments)}
            self.deltas.append({"tool_calls": [{"index": part.index, "id": text_of(part.call.id),
                                                "type": "function", "function": function}]})
        elif part.n_bytes:
            name = "content" if part.kind == lib.CLEF_REPLY_CONTENT else "reasoning_content"
            self.deltas.append({name: ffi.buffer(part.text, part.n_bytes)[:].decode("utf-8", "replace")})


def _choice(choice: Any) -> str:
    """"auto", "none", "required" or the name of a function."""
    name = (choice.get("function") or {}).get("name") if isinstance(choice, Mapping) else choice
    if not isinstance(name, str):
        raise ValueError('tool_choice: expected "auto", "none", "required", the name of a function, or '
                         f'{{"type": "function", "function": {{"name": ..}}}}, got {choice!r}')
    return name


class Answer(Iterator[dict[str, Any]]):
    """An answer while it comes: parts as OpenAI's streams have them as "delta". `finish` is "stop", "length" or
    "tool_calls" at the end."""

    def __init__(self, model: Model, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Any] | None = None,
                 tool_choice: str | Mapping[str, Any] = "auto", parallel_tool_calls: bool = True,
                 template: _Path = None, tool_format: str | None = None,
                 arguments: Mapping[str, Any] | None = None, max_tokens: int = 0, stop: str | Sequence[str] = (),
                 ignore_eos: bool = False, json_schema: Any = None, grammar: str | None = None,
                 regex: str | None = None, choice: Sequence[str] | None = None, **sampling: Any) -> None:
        name = _choice(plain(tool_choice))
        tools = None if name == "none" else plain(tools)
        rendered = Rendered(model, messages, tools, template, arguments or {})
        self.prompt_tokens = len(rendered.ids)
        self._format = _format_of(rendered.template, tool_format) if tools else lib.CLEF_TOOLS_NONE
        constraint = _constraint_of(json_schema, grammar, regex, choice)
        if tools and constraint is None:
            constraint = self._tool_constraint(model, tools, name, parallel_tool_calls)
        self._text = Generation(model, rendered.ids, max_tokens=max_tokens,
                                stop=[stop] if isinstance(stop, str) else stop, ignore_eos=ignore_eos,
                                sampling=Sampling(**sampling), constraint=constraint)
        self._reader = self._new_reader(tools, rendered.text.rstrip().endswith("<think>"))
        self._parts = _Parts()
        self._handle = ffi.new_handle(self._parts)
        self._has_ended = False
        self._has_calls = False

    def _tool_constraint(self, model: Model, tools: Sequence[Any], name: str, parallel: bool) -> Any:
        if self._format == lib.CLEF_TOOLS_NONE:
            raise ValueError("tools: the chat template shows no format of calls; name one with tool_format")
        choice = {"auto": lib.CLEF_TOOL_CHOICE_AUTO, "required": lib.CLEF_TOOL_CHOICE_REQUIRED}.get(
            name, lib.CLEF_TOOL_CHOICE_NAMED)
        data = ffi.new("char[]", utf8(json.dumps(list(tools))))
        function = ffi.new("char[]", c_text(name))
        options = new_struct("clef_tool_constraint_opts *", {
            "format": self._format, "tools": data, "tools_bytes": len(data) - 1, "choice": choice, "name": function,
            "parallel": int(parallel), "tok": model._tokenizer()})
        out = ffi.new("clef_constraint **")
        call(lib.clef_tool_constraint_create, options, out, ffi.NULL)
        return ffi.gc(out[0], lib.clef_constraint_destroy)

    def _new_reader(self, tools: Sequence[Any] | None, starts_thinking: bool) -> Any:
        data = ffi.new("char[]", utf8(json.dumps(list(tools or ()))))
        options = new_struct("clef_reply_opts *", {"format": self._format, "starts_thinking": int(starts_thinking)})
        if tools:
            options.tools, options.tools_bytes = data, len(data) - 1
        out = ffi.new("clef_reply_reader **")
        call(lib.clef_reply_reader_create, options, out)
        return ffi.gc(out[0], lib.clef_reply_reader_destroy)

    @property
    def finish(self) -> str | None:
        return "tool_calls" if self._has_calls and self._text.finish == "stop" else self._text.finish

    @property
    def completion_tokens(self) -> int:
        return len(self._text.ids)

    def __iter__(self) -> Answer:
        return self

    def __next__(self) -> dict[str, Any]:
        while not self._parts.deltas:
            if self._has_ended:
                raise StopIteration
            piece = next(self._text, None)
            if piece is None:
                self._has_ended = True
                call(lib.clef_reply_end, self._reader, lib.clef_py_part, self._handle)
            else:
                data = utf8(piece)
                call(lib.clef_reply_read, self._reader, data, len(data), lib.clef_py_part, self._handle)
        delta = self._parts.deltas.pop(0)
        self._has_calls |= "tool_calls" in delta
        return delta

    def message(self) -> dict[str, Any]:
        """The whole message; what was taken from the iterator before is not part of it."""
        content: list[str] = []
        reasoning: list[str] = []
        calls: list[dict[str, Any]] = []
        for delta in self:
            content += [delta["content"]] if "content" in delta else []
            reasoning += [delta["reasoning_content"]] if "reasoning_content" in delta else []
            calls += [{k: v for k, v in c.items() if k != "index"} for c in delta.get("tool_calls", ())]
        message: dict[str, Any] = {"role": "assistant", "content": "".join(content) if content or not calls else None}
        if reasoning:
            message["reasoning_content"] = "".join(reasoning)
        if calls:
            message["tool_calls"] = calls
        return message

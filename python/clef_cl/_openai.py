"""The interface of the `openai` package within the process: no server, no network."""
from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from .conversation import Answer
from .model import Model

# Names of OpenAI's that have another one here, and those that mean nothing in one process.
_renamed = {"max_completion_tokens": "max_tokens"}
_ignored = {"model", "user", "metadata", "store", "service_tier", "stream_options", "n", "timeout", "extra_headers",
            "extra_query", "logprobs", "top_logprobs", "echo", "suffix", "best_of"}
_ignored_of_embeddings = {"model", "user", "timeout", "extra_headers", "extra_query"}


def _options_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of generate(), of OpenAI's names. What would change the answer and is not there is refused."""
    for name, allowed in (("n", (None, 1)), ("logprobs", (None, False, 0)), ("top_logprobs", (None, 0)),
                          ("echo", (None, False)), ("suffix", (None,)), ("best_of", (None, 1))):
        if name in options and options[name] not in allowed:
            raise ValueError(f"{name}: expected {allowed[-1]}, got {options[name]!r}")
    given = {**options, **(options.get("extra_body") or {})}
    given.pop("extra_body", None)
    return {_renamed.get(name, name): value for name, value in given.items()
            if name not in _ignored and value is not None}


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


class _Object(SimpleNamespace):
    """An object with attributes, as the client's own; model_dump() and to_dict() give a dict, model_dump_json() and
    to_json() its text. exclude_none leaves out the fields that are None."""

    def model_dump(self, *, exclude_none: bool = False) -> dict[str, Any]:
        return {name: _plain(value, exclude_none) for name, value in vars(self).items()
                if value is not None or not exclude_none}

    to_dict = model_dump

    def model_dump_json(self, *, indent: int | None = None, exclude_none: bool = False) -> str:
        return json.dumps(self.model_dump(exclude_none=exclude_none), indent=indent, ensure_ascii=False)

    to_json = model_dump_json


def _plain(value: Any, exclude_none: bool) -> Any:
    if isinstance(value, _Object):
        return value.model_dump(exclude_none=exclude_none)
    return [_plain(item, exclude_none) for item in value] if isinstance(value, list) else value


def _is_ids(value: Any) -> bool:
    """Whether a prompt or an input is one list of ids."""
    return not isinstance(value, str) and len(value) > 0 and isinstance(value[0], (int, np.integer))


def _with_usage(options: Mapping[str, Any]) -> bool:
    return bool((options.get("stream_options") or {}).get("include_usage"))


def _objects(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _Object(**{name: _objects(item) for name, item in value.items()})
    return [_objects(item) for item in value] if isinstance(value, list) else value


class _Completions:
    def __init__(self, model: Model) -> None:
        self._model = model

    def create(self, *, messages: Sequence[Any], stream: bool = False,
               response_format: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """As client.chat.completions.create(): the fields that Model.chat() has, and response_format. Messages may be
        those of earlier answers."""
        given = _options_of(options)
        with_usage = _with_usage(options)
        kind = (response_format or {}).get("type", "text")
        if kind == "json_schema":
            given["json_schema"] = response_format["json_schema"]["schema"]  # type: ignore[index]
        elif kind == "json_object":
            given["json_schema"] = {"type": "object"}
        elif kind != "text":
            raise ValueError(f"response_format: expected text, json_object or json_schema, got {kind}")
        head = {"id": f"chatcmpl-{uuid.uuid4().hex[:24]}", "created": int(time.time()), "model": self._model.path}
        with self._model._working():
            answer = Answer(self._model, messages, **given)
            return _Stream(self._chunks(head, answer, with_usage)) if stream else self._whole(head, answer)

    @staticmethod
    def _whole(head: dict[str, Any], answer: Answer) -> Any:
        message = {"refusal": None, "tool_calls": None, **answer.message()}
        usage = _usage(answer.prompt_tokens, answer.completion_tokens)
        return _objects({**head, "object": "chat.completion", "usage": usage, "choices": [
            {"index": 0, "message": message, "finish_reason": answer.finish, "logprobs": None}]})

    @staticmethod
    def _chunks(head: dict[str, Any], answer: Answer, with_usage: bool) -> Iterator[Any]:
        def chunk(delta: Mapping[str, Any], finish: str | None = None) -> Any:
            whole = {"role": None, "content": None, "tool_calls": None, **delta}
            return _objects({**head, "object": "chat.completion.chunk", "usage": None, "choices": [
                {"index": 0, "delta": whole, "finish_reason": finish, "logprobs": None}]})

        yield chunk({"role": "assistant"})
        for delta in answer:
            yield chunk(delta)
        yield chunk({}, answer.finish)
        if with_usage:
            yield _objects({**head, "object": "chat.completion.chunk", "choices": [],
                            "usage": _usage(answer.prompt_tokens, answer.completion_tokens)})


class _Stream(Iterator[Any]):
    """A stream as the client's: an iterator, which also is its own context manager."""

    def __init__(self, chunks: Iterator[Any]) -> None:
        self._chunks = chunks

    def __next__(self) -> Any:
        return next(self._chunks)

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the text."""
        self._chunks = iter(())


class _TextCompletions:
    def __init__(self, model: Model) -> None:
        self._model = model

    def create(self, *, prompt: str | Sequence[int] | Sequence[str], stream: bool = False, **options: Any) -> Any:
        """As client.completions.create(): a text, or several; without max_tokens 16, as OpenAI's API has it."""
        given = {"max_tokens": 16, **_options_of(options)}
        head = {"id": f"cmpl-{uuid.uuid4().hex[:24]}", "object": "text_completion", "created": int(time.time()),
                "model": self._model.path}
        many: list[Any] = [prompt] if isinstance(prompt, str) or _is_ids(prompt) else list(prompt)
        if not many:
            raise ValueError("prompt: expected a text, ids, or a list of texts, got an empty list")
        if stream:
            if len(many) != 1:
                raise ValueError(f"prompt: expected one text with stream=True, got {len(many)}")
            return _Stream(self._chunks(head, self._model.generate(many[0], stream=True, **given),
                                        _with_usage(options)))
        return self._whole(head, many, given)

    def _whole(self, head: dict[str, Any], prompts: Sequence[Any], given: dict[str, Any]) -> Any:
        choices, n_prompt, n_new = [], 0, 0
        for i, prompt in enumerate(prompts):
            with self._model._working():
                text = self._model.generate(prompt, stream=True, **given)
                choices.append({"index": i, "text": "".join(text), "finish_reason": text.finish, "logprobs": None})
            n_prompt += text.prompt_tokens
            n_new += len(text.ids)
        return _objects({**head, "choices": choices, "usage": _usage(n_prompt, n_new)})

    @staticmethod
    def _chunks(head: dict[str, Any], text: Any, with_usage: bool) -> Iterator[Any]:
        def chunk(piece: str, finish: str | None = None) -> Any:
            return _objects({**head, "usage": None, "choices": [
                {"index": 0, "text": piece, "finish_reason": finish, "logprobs": None}]})

        for piece in text:
            yield chunk(piece)
        yield chunk("", text.finish)
        if with_usage:
            yield _objects({**head, "choices": [], "usage": _usage(text.prompt_tokens, len(text.ids))})


class _Models:
    def __init__(self, model: Model) -> None:
        self._model = model

    def list(self) -> Any:
        """The one model."""
        return _objects({"object": "list", "data": [{"id": self._model.path, "object": "model", "created": 0,
                                                      "owned_by": "clef"}]})


class _Embeddings:
    def __init__(self, model: Model) -> None:
        self._model = model

    def create(self, *, input: str | Sequence[Any], encoding_format: str = "float", dimensions: int | None = None,
               extra_body: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """As client.embeddings.create(): texts or lists of ids. encoding_format: "float", or "base64" for the bytes of
        float32. extra_body: options of Model.embed()."""
        unknown = options.keys() - _ignored_of_embeddings
        if unknown:
            raise TypeError(f"embeddings.create: unknown arguments: {', '.join(sorted(unknown))}")
        if encoding_format not in ("float", "base64"):
            raise ValueError(f"encoding_format: expected float or base64, got {encoding_format!r}")
        many: list[Any] = [input] if isinstance(input, str) or _is_ids(input) else list(input)
        rows = self._model.embed(many, **(extra_body or {}))
        if dimensions is not None:
            if not 1 <= dimensions <= rows.shape[1]:
                raise ValueError(f"dimensions: expected 1 to {rows.shape[1]}, got {dimensions}")
            rows = rows[:, :dimensions]
            rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        n = sum(len(self._model.tokenize(text)) if isinstance(text, str) else len(text) for text in many)
        return _objects({
            "object": "list", "model": self._model.path, "usage": {"prompt_tokens": n, "total_tokens": n}, "data": [
                {"object": "embedding", "index": i, "embedding": row.tolist() if encoding_format == "float" else
                 base64.b64encode(np.ascontiguousarray(row).tobytes()).decode()} for i, row in enumerate(rows)]})


class Client:
    """An object with `chat.completions.create`, `completions.create`, `embeddings.create` and `models.list`."""

    def __init__(self, model: Model) -> None:
        self.chat = SimpleNamespace(completions=_Completions(model))
        self.completions = _TextCompletions(model)
        self.embeddings = _Embeddings(model)
        self.models = _Models(model)


def openai(model: Model) -> Client:
    """`clef.openai(m).chat.completions.create(messages=[..])`: what the `openai` client does, without a server."""
    return Client(model)

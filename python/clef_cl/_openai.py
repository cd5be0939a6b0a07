"""The interface of the `openai` package within the process: no server, no network."""
from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from .conversation import Answer
from .model import Model

# Names of OpenAI's that have another one here, and those that mean nothing in one process.
_renamed = {"max_completion_tokens": "max_tokens"}
_ignored = {"model", "user", "metadata", "store", "service_tier", "stream_options", "n", "timeout", "extra_headers"}


class _Object(SimpleNamespace):
    """An object with attributes, as the client's own; model_dump() gives a dict."""

    def model_dump(self) -> dict[str, Any]:
        return {name: _plain(value) for name, value in vars(self).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, _Object):
        return value.model_dump()
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _objects(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _Object(**{name: _objects(item) for name, item in value.items()})
    return [_objects(item) for item in value] if isinstance(value, list) else value


class _Completions:
    def __init__(self, model: Model) -> None:
        self._model = model

    def create(self, *, messages: Sequence[Mapping[str, Any]], stream: bool = False,
               response_format: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """As client.chat.completions.create(): the fields that Model.chat() has, and response_format."""
        if options.get("n") not in (None, 1):
            raise ValueError(f"n: expected 1, got {options['n']}")
        given = {_renamed.get(name, name): value for name, value in options.items()
                 if name not in _ignored and value is not None}
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
            return self._chunks(head, answer) if stream else self._whole(head, answer)

    @staticmethod
    def _whole(head: dict[str, Any], answer: Answer) -> Any:
        message = {"tool_calls": None, **answer.message()}
        usage = {"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.completion_tokens,
                 "total_tokens": answer.prompt_tokens + answer.completion_tokens}
        return _objects({**head, "object": "chat.completion", "usage": usage, "choices": [
            {"index": 0, "message": message, "finish_reason": answer.finish, "logprobs": None}]})

    @staticmethod
    def _chunks(head: dict[str, Any], answer: Answer) -> Iterator[Any]:
        def chunk(delta: Mapping[str, Any], finish: str | None = None) -> Any:
            whole = {"role": None, "content": None, "tool_calls": None, **delta}
            return _objects({**head, "object": "chat.completion.chunk", "usage": None, "choices": [
                {"index": 0, "delta": whole, "finish_reason": finish, "logprobs": None}]})

        yield chunk({"role": "assistant"})
        for delta in answer:
            yield chunk(delta)
        yield chunk({}, answer.finish)


class _Embeddings:
    def __init__(self, model: Model) -> None:
        self._model = model

    def create(self, *, input: str | Sequence[str], **options: Any) -> Any:
        """As client.embeddings.create(), with floats."""
        rows = self._model.embed([input] if isinstance(input, str) else list(input))
        return _objects({"object": "list", "model": self._model.path, "data": [
            {"object": "embedding", "index": i, "embedding": row.tolist()} for i, row in enumerate(rows)]})


class Client:
    """An object with `chat.completions.create` and `embeddings.create`."""

    def __init__(self, model: Model) -> None:
        self.chat = SimpleNamespace(completions=_Completions(model))
        self.embeddings = _Embeddings(model)


def openai(model: Model) -> Client:
    """`clef.openai(m).chat.completions.create(messages=[..])`: what the `openai` client does, without a server."""
    return Client(model)

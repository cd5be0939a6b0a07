"""LangChain's interfaces: models of text, chat models, embeddings.

With langchain-core installed the classes are LangChain's own, so that `prompt | llm | parser` works. Without it they
are plain classes with the same methods: invoke(), stream(), batch(), embed_documents(), embed_query().
"""
from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from .model import Model

try:
    from langchain_core.callbacks import CallbackManagerForLLMRun
    from langchain_core.embeddings import Embeddings as _Embeddings
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.language_models.llms import LLM as _LLM
    from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
    from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult, GenerationChunk

    has_langchain = True
except ImportError:
    has_langchain = False

_roles = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "user": "user",
          "assistant": "assistant", "developer": "developer", "HumanMessageChunk": "user",
          "AIMessageChunk": "assistant", "SystemMessageChunk": "system", "ToolMessageChunk": "tool"}


def _role_of(message: Any) -> str:
    """A message's role as OpenAI's API has it."""
    if message.type in ("chat", "ChatMessageChunk"):  # it names its role itself
        return _roles.get(message.role, str(message.role))
    if message.type not in _roles:
        raise ValueError(f"messages: expected one of {', '.join(_roles)} or chat, got {message.type}")
    return _roles[message.type]


def _content_of(content: Any) -> Any:
    """The content of a message; parts that are all texts become one."""
    if not isinstance(content, list):
        return content
    parts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
    if any(part.get("type") != "text" for part in parts):
        return content
    return "".join(str(part["text"]) for part in parts)


def _options_with(options: dict[str, Any], stop: Sequence[str] | None, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The options of a call: those of the object, over them those of the call. The stop texts of all count."""
    stops: list[str] = []
    for given in (options.get("stop"), kwargs.get("stop"), stop):
        stops += [given] if isinstance(given, str) else given or ()
    return {**options, **kwargs, "stop": list(dict.fromkeys(stops))}


def _message_of(message: Any) -> dict[str, Any]:
    """A message as OpenAI's API has it: of LangChain's messages, of (role, text), of dicts, of texts."""
    if isinstance(message, dict):
        return dict(message)
    if isinstance(message, str):
        return {"role": "user", "content": message}
    if isinstance(message, tuple):
        if len(message) != 2 or message[0] not in _roles:
            raise ValueError(f"messages: expected (role, text) with one of {', '.join(_roles)}, got {message!r}")
        return {"role": _roles[message[0]], "content": message[1]}
    found: dict[str, Any] = {"role": _role_of(message), "content": _content_of(message.content)}
    if getattr(message, "tool_calls", None):
        found["tool_calls"] = [{"id": call["id"], "type": "function", "function": {
            "name": call["name"], "arguments": json.dumps(call["args"])}} for call in message.tool_calls]
    if getattr(message, "tool_call_id", None):
        found["tool_call_id"] = message.tool_call_id
    return found


def messages_of(given: Any) -> list[dict[str, Any]]:
    """A conversation as OpenAI's API has it."""
    if hasattr(given, "to_messages"):
        given = given.to_messages()
    return [_message_of(message) for message in ([given] if isinstance(given, (str, dict)) else given)]


def _calls_of(calls: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": call["function"]["name"], "args": json.loads(call["function"]["arguments"] or "{}"),
             "id": call["id"], "type": "tool_call"} for call in calls]


def _params_of(model: Model, options: dict[str, Any]) -> dict[str, Any]:
    """What an answer depends on, by which LangChain's caches tell models apart."""
    return {"model_name": model.path, **model._settings(), **options}


def _text_of(prompt: Any) -> str:
    return str(prompt.to_string()) if hasattr(prompt, "to_string") else str(prompt)


if has_langchain:

    class LLM(_LLM):
        """A text model for LangChain: clef.langchain.LLM(model=m, options={"temperature": 0})."""

        model: Any
        options: dict[str, Any] = {}

        @property
        def _llm_type(self) -> str:
            return "clef"

        @property
        def _identifying_params(self) -> dict[str, Any]:
            return _params_of(self.model, self.options)

        def _call(self, prompt: str, stop: list[str] | None = None,
                  run_manager: CallbackManagerForLLMRun | None = None, **kwargs: Any) -> str:
            return str(self.model.generate(prompt, **_options_with(self.options, stop, kwargs)))

        def _stream(self, prompt: str, stop: list[str] | None = None,
                    run_manager: CallbackManagerForLLMRun | None = None, **kwargs: Any) -> Iterator[GenerationChunk]:
            for piece in self.model.generate(prompt, stream=True, **_options_with(self.options, stop, kwargs)):
                if run_manager:
                    run_manager.on_llm_new_token(piece)
                yield GenerationChunk(text=piece)

    class ChatModel(BaseChatModel):
        """A chat model for LangChain: clef.langchain.ChatModel(model=m, options={"max_tokens": 100})."""

        model: Any
        options: dict[str, Any] = {}

        @property
        def _llm_type(self) -> str:
            return "clef-chat"

        @property
        def _identifying_params(self) -> dict[str, Any]:
            return _params_of(self.model, self.options)

        def _generate(self, messages: list[BaseMessage], stop: list[str] | None = None,
                      run_manager: CallbackManagerForLLMRun | None = None, **kwargs: Any) -> ChatResult:
            answer = self.model.chat(messages_of(messages), **_options_with(self.options, stop, kwargs))
            message = AIMessage(content=answer["content"] or "", tool_calls=_calls_of(answer.get("tool_calls", ())))
            return ChatResult(generations=[ChatGeneration(message=message)])

        def _stream(self, messages: list[BaseMessage], stop: list[str] | None = None,
                    run_manager: CallbackManagerForLLMRun | None = None,
                    **kwargs: Any) -> Iterator[ChatGenerationChunk]:
            options = _options_with(self.options, stop, kwargs)
            for part in self.model.chat(messages_of(messages), stream=True, **options):
                calls: Any = [{"name": call["function"]["name"], "args": call["function"]["arguments"],
                               "id": call["id"], "index": call["index"], "type": "tool_call_chunk"}
                              for call in part.get("tool_calls", ())]
                chunk = AIMessageChunk(content=part.get("content") or "", tool_call_chunks=calls)
                if run_manager:
                    run_manager.on_llm_new_token(chunk.content)
                yield ChatGenerationChunk(message=chunk)

        def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **kwargs: Any) -> Any:
            """The same model with tools, as LangChain has them. tool_choice: "auto", "none", the name of a tool, or
            "any", "required" or True: some tool is called."""
            from langchain_core.utils.function_calling import convert_to_openai_tool

            if tool_choice is True or tool_choice == "any":
                tool_choice = "required"
            choice = {"tool_choice": tool_choice} if tool_choice else {}
            return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **choice, **kwargs)

    _Base: Any = _Embeddings
else:
    _Base = object

    class _Runnable:
        def __init__(self, model: Model, options: dict[str, Any] | None = None) -> None:
            self.model, self.options = model, options or {}

        def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
            raise NotImplementedError

        def batch(self, inputs: Sequence[Any], config: Any = None, **kwargs: Any) -> list[Any]:
            return [self.invoke(input, config, **kwargs) for input in inputs]

    class LLM(_Runnable):  # type: ignore[no-redef]
        """A text model with LangChain's methods."""

        def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> str:
            return str(self.model.generate(_text_of(input), **{**self.options, **kwargs}))

        def stream(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[str]:
            yield from self.model.generate(_text_of(input), stream=True, **{**self.options, **kwargs})

    class _Message:
        """An answer: `content`, `tool_calls`, and `type` "ai"."""

        type = "ai"

        def __init__(self, content: str, tool_calls: list[dict[str, Any]]) -> None:
            self.content, self.tool_calls = content, tool_calls

    class ChatModel(_Runnable):  # type: ignore[no-redef]
        """A chat model with LangChain's methods."""

        def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> _Message:
            answer = self.model.chat(messages_of(input), **{**self.options, **kwargs})
            return _Message(answer["content"] or "", _calls_of(answer.get("tool_calls", ())))

        def stream(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[_Message]:
            for part in self.model.chat(messages_of(input), stream=True, **{**self.options, **kwargs}):
                yield _Message(part.get("content") or "", _calls_of(part.get("tool_calls", ())))


class Embeddings(_Base):  # type: ignore[misc]
    """Embeddings with LangChain's methods: clef.langchain.Embeddings(m)."""

    def __init__(self, model: Model, **options: Any) -> None:
        self.model, self.options = model, options

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The embeddings of texts."""
        return [[float(x) for x in row] for row in self.model.embed(texts, **{"truncate": True, **self.options})]

    def embed_query(self, text: str) -> list[float]:
        """The embedding of a text."""
        return self.embed_documents([text])[0]

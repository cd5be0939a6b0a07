"""Clients from PyPI against `clef serve`. Each makes five calls or more: plain ones, a stream, tools, structured output, an error.

The model chooses the likeliest tokens, so that no verdict depends on a random number. With CLEF_TEST_TURN=i/n every nth client runs."""
import asyncio
import json
import os
import sys
import tempfile
import traceback
from typing import Literal

os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", OPENAI_AGENTS_DISABLE_TRACING="1", OPENAI_API_KEY="none", ANTHROPIC_API_KEY="none")
sys.path.insert(0, os.path.join(os.environ["CLEF_SOURCE"], "tests", "e2e", "serve"))
from pydantic import BaseModel  # noqa: E402
from serving import Server, check, fail, finish, same, tiny_model  # noqa: E402
from turn import in_turn  # noqa: E402

SAID = [{"role": "user", "content": "How is the weather in Rome?"}]
PLACES = {"type": "object", "properties": {"place": {"enum": ["Rome", "Oslo"]}}, "required": ["place"], "additionalProperties": False}
CHAT_TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather of a place", "parameters": PLACES}}
WANTED = ("Rome", "Oslo")


class Weather(BaseModel, extra="forbid"):
    """The weather of a place."""
    sky: Literal["clear", "cloudy"]
    windy: bool


def text(name, value):
    check(f"{name}: a text", isinstance(value, str) and value, repr(value))


def stream(name, pieces):
    """The texts of a stream: how many depends on how fast they are read."""
    check(f"{name}: a stream", "".join(pieces), pieces)


def call(name, function, arguments):
    check(f"{name}: a call", function == "weather" and arguments.get("place") in WANTED, (function, arguments))


def structured(name, value):
    check(f"{name}: a structure", isinstance(value, Weather), repr(value))


def error(name, act, *kinds):
    """The client has an exception of its own for a request that is wrong, or for a model that is not there."""
    try:
        act()
        fail(f"{name}: an error", "no exception")
    except kinds as e:
        check(f"{name}: an error that names what is wrong", "temperature" in str(e) or "nothing-here" in str(e), e)


def anthropic_client(url):
    import anthropic
    client = anthropic.Anthropic(base_url=url, max_retries=0, _strict_response_validation=True)
    say = {"model": "tiny", "max_tokens": 24, "messages": SAID}
    text("anthropic", client.messages.create(**say).content[0].text)
    with client.messages.stream(**say) as events:
        stream("anthropic", list(events.text_stream))
        check("anthropic: the stream's message", events.get_final_message().stop_reason in ("max_tokens", "end_turn"))
    tools = {"tools": [{"name": "weather", "description": "d", "input_schema": PLACES}], "tool_choice": {"type": "any"}}
    asked = client.messages.create(**{**say, "max_tokens": 600}, **tools)
    use = next(b for b in asked.content if b.type == "tool_use")
    call("anthropic", use.name, use.input)
    back = [*SAID, {"role": "assistant", "content": [b.model_dump(exclude_none=True) for b in asked.content]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "sunny"}]}]
    text("anthropic: after a call", client.messages.create(**{**say, "messages": back}, tools=tools["tools"], tool_choice={"type": "none"}).content[0].text)
    structured("anthropic", client.messages.parse(**{**say, "max_tokens": 600}, output_format=Weather).parsed_output)
    error("anthropic", lambda: client.messages.create(**say, extra_body={"temperature": -1}), anthropic.BadRequestError)


def openai_chat(url):
    import openai
    client = openai.OpenAI(base_url=url + "/v1", max_retries=0, _strict_response_validation=True)
    say = {"model": "tiny", "max_tokens": 24, "messages": SAID}
    text("openai", client.chat.completions.create(**say).choices[0].message.content)
    chunks = list(client.chat.completions.create(**say, stream=True, stream_options={"include_usage": True}))
    stream("openai", [c.choices[0].delta.content or "" for c in chunks if c.choices])
    same("openai: a stream's usage", 24, chunks[-1].usage.completion_tokens)
    asked = client.chat.completions.create(**{**say, "max_tokens": 600}, tools=[CHAT_TOOL], tool_choice="required").choices[0].message
    use = asked.tool_calls[0]
    call("openai", use.function.name, json.loads(use.function.arguments))
    back = [*SAID, asked, {"role": "tool", "tool_call_id": use.id, "content": "sunny"}]
    text("openai: after a call", client.chat.completions.create(**{**say, "messages": back}, tools=[CHAT_TOOL], tool_choice="none").choices[0].message.content)
    structured("openai", client.chat.completions.parse(**{**say, "max_tokens": 600}, response_format=Weather).choices[0].message.parsed)
    error("openai", lambda: client.chat.completions.create(**say, temperature=-1), openai.BadRequestError)


def openai_responses(url):
    import openai
    client = openai.OpenAI(base_url=url + "/v1", max_retries=0, _strict_response_validation=True)
    say = {"model": "tiny", "max_output_tokens": 24, "input": "How is the weather in Rome?"}
    first = client.responses.create(**say)
    text("responses", first.output_text)
    text("responses: one that follows", client.responses.create(**say, previous_response_id=first.id).output_text)
    with client.responses.stream(**{**say, "max_output_tokens": 600}, text_format=Weather) as events:
        stream("responses", [e.delta for e in events if e.type == "response.output_text.delta"])
        structured("responses: the stream", events.get_final_response().output_parsed)
    tool = {"type": "function", "name": "weather", "description": "d", "parameters": PLACES, "strict": True}
    asked = client.responses.create(**{**say, "max_output_tokens": 600}, tools=[tool], tool_choice="required")
    use = next(o for o in asked.output if o.type == "function_call")
    call("responses", use.name, json.loads(use.arguments))
    result = [{"type": "function_call_output", "call_id": use.call_id, "output": "sunny"}]
    text("responses: after a call", client.responses.create(**{**say, "input": result}, previous_response_id=asked.id, tools=[tool], tool_choice="none").output_text)
    structured("responses", client.responses.parse(**{**say, "max_output_tokens": 600}, text_format=Weather).output_parsed)
    error("responses", lambda: client.responses.create(**say, temperature=-1), openai.BadRequestError)


def agents_sdk(url):
    import agents
    import openai
    client = openai.AsyncOpenAI(base_url=url + "/v1", max_retries=0)
    asked = []

    @agents.function_tool
    def weather(place: Literal["Rome", "Oslo"]) -> str:
        """The weather of a place."""
        asked.append(place)
        return "sunny"

    async def run(model, name):
        settings = {"max_tokens": 600, "temperature": 0}
        # this client takes no answer that was cut, and the model ends one only where a schema does
        agent = agents.Agent(name="a", instructions="Be brief.", model=model, output_type=Weather, model_settings=agents.ModelSettings(**settings))
        structured(name, (await agents.Runner.run(agent, "Hello")).final_output)
        streamed = agents.Runner.run_streamed(agent, "Hello")
        stream(name, [e.data.delta async for e in streamed.stream_events() if e.type == "raw_response_event" and e.data.type == "response.output_text.delta"])
        tools = agents.Agent(name="b", model=model, tools=[weather], tool_use_behavior="stop_on_first_tool",
                             model_settings=agents.ModelSettings(**settings, tool_choice="required"))
        same(f"{name}: what the tool said", "sunny", (await agents.Runner.run(tools, "Hello")).final_output)
        call(name, "weather", {"place": asked.pop()})
        wrong = agents.Agent(name="d", model=model, model_settings=agents.ModelSettings(temperature=-1))
        try:
            await agents.Runner.run(wrong, "Hello")
            fail(f"{name}: an error", "no exception")
        except openai.BadRequestError as e:
            check(f"{name}: an error", "temperature" in str(e), e)

    async def both():
        await run(agents.OpenAIResponsesModel("tiny", client), "agents")
        await run(agents.OpenAIChatCompletionsModel("tiny", client), "agents, chats")

    asyncio.run(both())


def litellm_client(url):
    import litellm
    for model, base in (("openai/tiny", url + "/v1"), ("anthropic/tiny", url), ("hosted_vllm/tiny", url + "/v1"), ("ollama_chat/tiny", url)):
        name = f"litellm {model}"
        say = {"model": model, "api_base": base, "api_key": "none", "max_tokens": 600, "messages": SAID, "num_retries": 0}
        text(name, litellm.completion(**say).choices[0].message.content)
        stream(name, [c.choices[0].delta.content or "" for c in litellm.completion(**say, stream=True)])
        if not model.startswith("ollama"):  # its API has no tool_choice
            use = litellm.completion(**say, tools=[CHAT_TOOL], tool_choice="required").choices[0].message.tool_calls[0]
            call(name, use.function.name, json.loads(use.function.arguments))
        structured(name, Weather.model_validate_json(litellm.completion(**say, response_format=Weather).choices[0].message.content))
        error(name, lambda s=say: litellm.completion(**{**s, "temperature": -1}), litellm.exceptions.BadRequestError, litellm.exceptions.APIConnectionError)


def langchain_client(url):
    import anthropic
    import openai
    from langchain_anthropic import ChatAnthropic
    from langchain_openai import ChatOpenAI

    def chat_openai(**more):
        return ChatOpenAI(model="tiny", base_url=url + "/v1", max_tokens=600, max_retries=0, **more)

    def chat_anthropic(**more):
        return ChatAnthropic(model="tiny", base_url=url, max_tokens=600, max_retries=0, **more)

    for name, make, wrong, forced in (
            ("langchain-openai", chat_openai, openai.BadRequestError, "required"),
            ("langchain-openai, responses", lambda **m: chat_openai(use_responses_api=True, **m), openai.BadRequestError, "required"),
            ("langchain-anthropic", chat_anthropic, anthropic.BadRequestError, "any")):
        model = make()
        text(name, model.invoke("Hello").text)
        stream(name, [c.text for c in model.stream("Hello")])
        use = model.bind_tools([CHAT_TOOL], tool_choice=forced).invoke("Hello").tool_calls[0]
        call(name, use["name"], use["args"])
        for method in ("json_schema", "function_calling"):
            structured(f"{name}, {method}", model.with_structured_output(Weather, method=method).invoke("Hello"))
        error(name, lambda m=make: m(temperature=-1).invoke("Hello"), wrong)


def pydantic_client(url):
    from pydantic_ai import Agent, NativeOutput, ToolOutput
    from pydantic_ai.exceptions import ModelHTTPError
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider
    openai, said = OpenAIProvider(base_url=url + "/v1", api_key="none"), {"max_tokens": 600}
    models = {"pydantic-ai": OpenAIChatModel("tiny", provider=openai), "pydantic-ai, responses": OpenAIResponsesModel("tiny", provider=openai),
              "pydantic-ai, anthropic": AnthropicModel("tiny", provider=AnthropicProvider(base_url=url, api_key="none"))}

    def weather(place: Literal["Rome", "Oslo"]) -> str:
        """The weather of a place."""
        asked.append(place)
        return "sunny"

    async def pieces(agent):
        async with agent.run_stream("Hello", model_settings=said) as result:
            return [p async for p in result.stream_text(delta=True, debounce_by=None)]

    for name, model in models.items():
        asked = []
        text(name, Agent(model).run_sync("Hello", model_settings=said).output)
        stream(name, asyncio.run(pieces(Agent(model))))
        Agent(model, output_type=weather).run_sync("Hello", model_settings=said)  # a function as output must be called
        call(name, "weather", {"place": asked[-1]})
        structured(name, Agent(model, output_type=ToolOutput(Weather)).run_sync("Hello", model_settings=said).output)
        if "anthropic" not in name:
            structured(f"{name}, native", Agent(model, output_type=NativeOutput(Weather)).run_sync("Hello", model_settings=said).output)
        error(name, lambda m=model: Agent(m).run_sync("Hello", model_settings={"temperature": -1}), ModelHTTPError)


def instructor_client(url):
    import anthropic
    import instructor
    import openai
    chat = openai.OpenAI(base_url=url + "/v1", max_retries=0)
    clients = {mode.name: instructor.from_openai(chat, mode=mode) for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA, instructor.Mode.RESPONSES_TOOLS)}
    clients["ANTHROPIC_TOOLS"] = instructor.from_anthropic(anthropic.Anthropic(base_url=url, max_retries=0))
    for name, client in clients.items():
        say = {"model": "tiny", "max_tokens": 600, "messages": SAID, "max_retries": 0}
        structured(f"instructor, {name}", client.create(response_model=Weather, **say))
        if "RESPONSES" not in name:
            parts = list(client.create_partial(response_model=Weather, **say, **({} if "JSON" in name or "ANTHROPIC" in name else {"parallel_tool_calls": False})))
            check(f"instructor, {name}: a stream", parts and parts[-1].sky in ("clear", "cloudy"), parts)
        error(f"instructor, {name}", lambda c=client, s=say: c.create(response_model=Weather, temperature=-1, **s), Exception)


def ollama_client(url):
    import ollama
    client = ollama.Client(host=url)
    say = {"model": "tiny", "messages": SAID, "options": {"num_predict": 600}}
    text("ollama", client.chat(**say).message.content)
    text("ollama: a prompt", client.generate(model="tiny", prompt="Hello", options={"num_predict": 9}).response)
    stream("ollama", [p.message.content for p in client.chat(**say, stream=True)])
    client.chat(**say, tools=[CHAT_TOOL])
    structured("ollama", Weather.model_validate_json(client.chat(**say, format=Weather.model_json_schema()).message.content))
    same("ollama: its models", ["tiny"], [m.model for m in client.list().models])
    check("ollama: show", client.show("tiny").details is not None)
    error("ollama", lambda: client.chat(model="tiny", messages=SAID, options={"temperature": -1}), ollama.ResponseError)


def greedy_model(folder):
    model = tiny_model(folder, "tiny", 5)
    with open(os.path.join(model, "generation_config.json"), "w", encoding="ascii") as f:
        json.dump({"top_k": 1}, f)
    return model


CLIENTS = (anthropic_client, openai_chat, openai_responses, agents_sdk, litellm_client, langchain_client, pydantic_client, instructor_client, ollama_client)

with tempfile.TemporaryDirectory() as made:
    with Server("--chat-template", "chatml", "--tool-format", "hermes", "--ollama", "--alias", "tiny", model=greedy_model(made)) as server:
        for number, part in enumerate(CLIENTS):
            if not in_turn(number, len(CLIENTS)):
                continue
            try:
                part(f"http://127.0.0.1:{server.port}")
            except Exception as e:  # a client that raises what it should not
                fail(part.__name__, "".join(traceback.format_exception(e)[-3:]))
        check("none is left", server.until(server.idle))
finish()

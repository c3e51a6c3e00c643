"""The clients of other APIs, as they are installed, against `rejoinder serve` on this machine."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import rejoinder
from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.persistence import load
from rejoinder.retrieval.index import Index
from tests.encoders.small import small_model
from tests.stores import place_of

pytestmark = pytest.mark.clients
TEXTS = ["turn the tap to the left", "the barrel takes 200 litres", "we open at nine", "it is on its way"]
KEY = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clients")
    small_model(folder / "tap" / "model")
    candidates = [Candidate(text, {"id": number}) for number, text in enumerate(TEXTS)]
    Index.build(load(str(folder / "tap" / "model")), candidates, folder / "index")
    return folder


@pytest.fixture(scope="module")
def url(folder):
    """The address of a server in a process of its own, which is ended afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = (folder / "log").open("wb")
    environment = os.environ | {"REJOINDER_READ_KEY": KEY, "REJOINDER_WRITE_KEY": KEY[::-1]}
    environment["TIKTOKEN_CACHE_DIR"] = _vocabulary_folder()
    words = [sys.executable, "-m", "rejoinder", "serve", place_of(folder / "index"), "--port", str(port), "--queue", "8"]
    server = subprocess.Popen(words, env=environment, stdout=log, stderr=log)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                if urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=2).status == 200:
                    break
            assert server.poll() is None, (folder / "log").read_text()
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)
        log.close()


def _vocabulary_folder():
    """A folder with tiktoken's vocabulary that a package brings along; nothing if none does."""
    try:
        import llama_index.core
    except ImportError:
        return ""
    return str(Path(llama_index.core.__file__).parent / "_static" / "tiktoken_cache")


@pytest.fixture(scope="module")
def model(folder):
    return load(str(folder / "tap" / "model"))


@pytest.fixture(scope="module")
def ranking(model):
    scores = model.score([["where is it"]], [TEXTS])[0]
    return np.argsort(-scores, kind="stable").tolist()


def test_openai(url, model):
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
    [facts] = client.models.list().data
    assert client.models.retrieve(facts.id).id == facts.id
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt")
    found = client.embeddings.create(model=facts.id, input=TEXTS, extra_body={"input_type": "document"})
    np.testing.assert_allclose([each.embedding for each in found.data], model.encode_responses(TEXTS), atol=1e-5)
    found = client.embeddings.create(model=facts.id, input="tap", encoding_format="float", user="x",
                                     extra_body={"truncate_prompt_tokens": 20, "input_type": None})  # fmt: skip
    assert found.model_extra["notes"] == ["truncate_prompt_tokens is ignored: a text is read as far as the model reads"]
    with pytest.raises(openai.UnprocessableEntityError, match="colour"):
        client.embeddings.create(model=facts.id, input="tap", extra_body={"colour": "red"})
    with pytest.raises(openai.BadRequestError, match="dimensions is 3"):
        client.embeddings.create(model=facts.id, input="tap", dimensions=3)


def test_many_requests_at_once_are_all_answered(url):
    openai = pytest.importorskip("openai")

    async def ask():
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=6) as client:
            asked = [client.embeddings.create(model="tap", input=f"tap {number}") for number in range(150)]
            return await asyncio.gather(*asked, return_exceptions=True)

    client = openai.OpenAI(base_url=f"{url}/v1", api_key=KEY)
    assert client.models.list().data[0].id == "tap"
    assert [each for each in asyncio.run(ask()) if isinstance(each, Exception)] == []


def test_cohere_in_both_versions(url, ranking):
    cohere = pytest.importorskip("cohere")
    first = cohere.Client(api_key=KEY, base_url=url)
    documents = [{"text": text, "id": str(place)} for place, text in enumerate(TEXTS)]
    found = first.rerank(query="where is it", documents=documents, model="tap", return_documents=True,
                         max_chunks_per_doc=3, rank_fields=["text"])  # fmt: skip
    assert [each.index for each in found.results] == ranking
    assert found.results[0].document.text == TEXTS[ranking[0]]
    assert [each.name for each in first.models.list().models] == ["tap"]
    assert first.models.get("tap").name == "tap"
    second = cohere.ClientV2(api_key=KEY, base_url=url)
    found = second.rerank(query="where is it", documents=[*TEXTS, " "], model="tap", max_tokens_per_doc=512, priority=1)
    assert [each.index for each in found.results] == [*ranking, 4]


def test_langchain_cohere(url, ranking):
    pytest.importorskip("langchain_cohere")
    import cohere
    from langchain_cohere import CohereRerank

    client = cohere.ClientV2(api_key=KEY, base_url=url)
    reranker = CohereRerank(client=client, model="tap", top_n=4, cohere_api_key=KEY)
    found = reranker.rerank(TEXTS, "where is it")
    assert [each["index"] for each in found] == ranking


def test_langchain_openai_sends_texts_or_tokens(url, model, monkeypatch):
    pytest.importorskip("langchain_openai")
    from langchain_openai import OpenAIEmbeddings

    options = {"model": "tap", "base_url": f"{url}/v1", "api_key": KEY}
    vector = model.encode_contexts([["turn the tap"]])[0]
    texts = OpenAIEmbeddings(**options, check_embedding_ctx_length=False)
    np.testing.assert_allclose(texts.embed_query("turn the tap"), vector, atol=1e-5)
    if not _vocabulary_folder():
        pytest.skip("no package here brings tiktoken's vocabulary along")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", _vocabulary_folder())
    tokens = OpenAIEmbeddings(**options, tiktoken_model_name="text-embedding-3-small")
    np.testing.assert_allclose(tokens.embed_query("turn the tap"), vector, atol=1e-5)


def test_llama_index(url, model, ranking):
    pytest.importorskip("llama_index.embeddings.openai_like")
    from llama_index.core.schema import NodeWithScore, TextNode
    from llama_index.embeddings.openai_like import OpenAILikeEmbedding
    from llama_index.postprocessor.cohere_rerank import CohereRerank

    embedding = OpenAILikeEmbedding(model_name="tap", api_base=f"{url}/v1", api_key=KEY)
    vector = model.encode_contexts([["turn the tap"]])[0]
    np.testing.assert_allclose(embedding.get_query_embedding("turn the tap"), vector, atol=1e-5)
    nodes = [NodeWithScore(node=TextNode(text=text)) for text in TEXTS]
    reranker = CohereRerank(api_key=KEY, model="tap", top_n=4, base_url=url)
    found = reranker.postprocess_nodes(nodes, query_str="where is it")
    assert [each.node.text for each in found] == [TEXTS[place] for place in ranking]


def test_litellm(url, model, ranking, monkeypatch):
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # or it would fetch prices
    litellm = pytest.importorskip("litellm")
    found = litellm.embedding("openai/tap", input=["turn the tap"], api_base=f"{url}/v1", api_key=KEY)
    vector = model.encode_contexts([["turn the tap"]])[0]
    np.testing.assert_allclose(found.data[0]["embedding"], vector, atol=1e-5)
    for provider, base in (("cohere", f"{url}/v2/rerank"), ("jina_ai", f"{url}/v1/rerank")):
        found = litellm.rerank(f"{provider}/tap", query="where is it", documents=TEXTS, top_n=4, api_base=base,
                               api_key=KEY, return_documents=False)  # fmt: skip
        assert [each["index"] for each in found.results] == ranking


def test_haystacks_rankers_and_embedder(url, model, ranking):
    pytest.importorskip("haystack")
    pytest.importorskip("haystack_integrations.components.rankers.jina")
    from haystack import Document
    from haystack.components.embedders import OpenAITextEmbedder
    from haystack.utils import Secret
    from haystack_integrations.components.rankers.cohere import CohereRanker
    from haystack_integrations.components.rankers.jina import JinaRanker

    documents = [Document(content=text) for text in TEXTS]
    jina = JinaRanker(model="tap", api_key=Secret.from_token(KEY), base_url=f"{url}/v1/rerank", top_k=4)
    found = jina.run(query="where is it", documents=documents)
    assert [each.content for each in found["documents"]] == [TEXTS[place] for place in ranking]
    assert found["meta"]["usage"]["total_tokens"] > 0
    cohere = CohereRanker(model="tap", api_key=Secret.from_token(KEY), api_base_url=url, top_k=4)
    found = cohere.run(query="where is it", documents=documents)
    assert [each.content for each in found["documents"]] == [TEXTS[place] for place in ranking]
    embedder = OpenAITextEmbedder(model="tap", api_key=Secret.from_token(KEY), api_base_url=f"{url}/v1")
    vector = model.encode_contexts([["turn the tap"]])[0]
    np.testing.assert_allclose(embedder.run("turn the tap")["embedding"], vector, atol=1e-5)


def test_the_log_has_the_notes(url, folder):
    body = {"query": "tap", "documents": TEXTS, "max_tokens_per_doc": 7, "return_documents": None}
    request = urllib.request.Request(f"{url}/v1/rerank", json.dumps(body).encode(),
                                     {"content-type": "application/json", "authorization": f"Bearer {KEY}"})  # fmt: skip
    note = "max_tokens_per_doc is ignored: a text is read as far as the model reads"
    assert json.load(urllib.request.urlopen(request, timeout=20))["notes"] == [note]
    time.sleep(0.2)
    assert note in (folder / "log").read_text()
    assert rejoinder.__version__

"""Embeddings, retriever and reranker in LangChain's own hands."""

import asyncio
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.persistence import load
from rejoinder.encoders.protocol import Ranker
from rejoinder.encoders.vectors import ContextVectors
from rejoinder.errors import InputError
from rejoinder.retrieval.index import Index
from tests.retrieval.conftest import HashEncoder

pytest.importorskip("langchain_core")
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

from rejoinder.integrations.langchain import (
    RejoinderEmbeddings,
    RejoinderReranker,
    RejoinderRetriever,
)

TEXTS = [f"reply number {number}" for number in range(6)]


def best_of(model, context):
    """The texts in the order of the model's own scores."""
    return [
        TEXTS[place]
        for place in np.argsort(-load(model).score([context], [TEXTS])[0], kind="stable")
    ]


def test_embeddings_serve_a_vector_store(model):
    embeddings = RejoinderEmbeddings(model)
    vector = load(model).encode_contexts([["number 3"]])[0]
    np.testing.assert_allclose(embeddings.embed_query("number 3"), vector, atol=1e-6)
    store = InMemoryVectorStore.from_texts(TEXTS, embeddings)
    assert [each.page_content for each in store.similarity_search("number 3", k=6)] == best_of(
        model, ["number 3"]
    )
    assert embeddings.embed_documents([]) == []


def test_the_retriever_reads_an_index_and_what_was_said_before(history_model, tmp_path):
    candidates = [Candidate(text, {"team": place % 2}) for place, text in enumerate(TEXTS)]
    index = Index.build(load(history_model), candidates, tmp_path / "index")
    retriever = RejoinderRetriever(index=index, k=3, search_kwargs={"where": {"team": 1}})
    chain = retriever | RunnableLambda(lambda found: [each.page_content for each in found])
    told = [text for text in best_of(history_model, ["number 3"]) if TEXTS.index(text) % 2]
    assert chain.invoke("number 3") == told
    assert asyncio.run(chain.ainvoke("number 3")) == told
    found = retriever.invoke(
        "number 3", history=["hello", {"role": "assistant", "content": "which one"}]
    )
    wanted = index.search([["hello", "which one", "number 3"]], 3, where={"team": 1})[0]
    assert [each.metadata for each in found] == [
        {"team": 1, "score": each.score, "position": each.position} for each in wanted
    ]


def test_the_retriever_takes_the_same_arguments_in_an_event_loop_and_k_among_further_ones(tmp_path):
    index = Index.build(HashEncoder(), TEXTS, tmp_path / "index")
    retriever = RejoinderRetriever(index=index, search_kwargs={"k": 2})
    asked = {"history": ["hello"], "where": lambda reply: reply.text != TEXTS[3]}
    told = retriever.invoke("number 3", **asked)
    assert len(told) == 2
    assert asyncio.run(retriever.ainvoke("number 3", **asked)) == told
    assert len(retriever.invoke("number 3", k=1)) == 1
    assert len(asyncio.run(retriever.ainvoke("number 3", k=3))) == 3
    assert len(RejoinderRetriever(index=index).invoke("number 3")) == 5


def test_the_reranker_orders_documents(model):
    documents = [
        Document(text, id=str(place), metadata={"page": place}) for place, text in enumerate(TEXTS)
    ]
    for given in (model, load(model)):
        found = RejoinderReranker(ranker=given, top_n=2).compress_documents(documents, "number 3")
        assert [each.page_content for each in found] == best_of(model, ["number 3"])[:2]
        assert [each.id for each in found] == [str(each.metadata["page"]) for each in found]
        assert found[0].metadata["relevance_score"] >= found[1].metadata["relevance_score"]
    assert RejoinderReranker(ranker=model).compress_documents([], "number 3") == []


class SeveralVectors(HashEncoder):
    def encode_contexts(self, contexts):
        return ContextVectors(super().encode_contexts(contexts)[:, None])


def test_what_cannot_serve_is_named():
    with pytest.raises(InputError, match="several vectors, but an embedding is one"):
        RejoinderEmbeddings(SeveralVectors())
    with pytest.raises(InputError, match="no model 'nothing'"):
        RejoinderEmbeddings("nothing")
    with pytest.raises(InputError, match=r"an embedding needs an encoder.*; given: 3"):
        RejoinderEmbeddings(3)
    with pytest.raises(InputError, match=r"a model that scores replies.*; given: 3"):
        RejoinderReranker(ranker=3)


def test_one_call_may_ask_for_more_or_other_replies(history_model, tmp_path):
    candidates = [Candidate(text, {"team": place % 2}) for place, text in enumerate(TEXTS)]
    retriever = RejoinderRetriever(index=Index.build(load(history_model), candidates, tmp_path / "index"), k=3)
    assert len(retriever.invoke("number 3", k=1)) == 1
    assert {each.metadata["team"] for each in retriever.invoke("number 3", k=6, where={"team": 1})} == {1}


@pytest.mark.parametrize("most", [-1, 0])
def test_a_number_of_documents_that_is_none_is_refused(model, most):
    documents = [Document(text) for text in TEXTS]
    with pytest.raises(InputError, match="whole number, 1 or more"):
        RejoinderReranker(ranker=model, top_n=most).compress_documents(documents, "number 3")


def test_a_document_without_text_is_ranked_last(model):
    documents = [Document(""), Document(" \n"), *map(Document, TEXTS)]
    found = RejoinderReranker(ranker=model).compress_documents(documents, "number 3")
    assert [each.page_content for each in found] == [*best_of(model, ["number 3"]), "", " \n"]
    assert found[-1].metadata["relevance_score"] < found[-3].metadata["relevance_score"]
    assert len(RejoinderReranker(ranker=model).compress_documents(documents[:2], "number 3")) == 2


def test_fields_with_the_names_of_ours_are_under_payload(tmp_path):
    payload = {"id": "r7", "score": "A+", "position": "top shelf", "also": "x", "team": 1}
    candidates = [Candidate("We open.", payload, title="hours"), Candidate("Bye.", {"id": 7})]
    index = Index.build(HashEncoder(), candidates, tmp_path / "index")
    found = {each.page_content: each for each in RejoinderRetriever(index=index).invoke("We open.")}
    first, second = found["We open."], found["Bye."]
    score = first.metadata.pop("score")
    assert isinstance(score, float)
    assert first.metadata == {
        "id": "r7", "position": 0, "also": "x", "team": 1, "title": "hours", "payload": payload
    }  # fmt: skip
    assert first.id == "r7"
    assert second.metadata.keys() == {"id", "score", "position"}
    assert second.id is None


HISTORY = ["Do you deliver?", "Yes, we do."]


@pytest.mark.parametrize(
    "history",
    [
        [HumanMessage(HISTORY[0]), AIMessage(HISTORY[1])],
        [SystemMessage("Be kind."), HumanMessage([{"type": "text", "text": HISTORY[0]}]), AIMessage(HISTORY[1])],
        [HumanMessage(HISTORY[0]), AIMessage("", tool_calls=[{"name": "find", "args": {}, "id": "1"}]),
         ToolMessage("2 km", tool_call_id="1"), AIMessage(HISTORY[1])],
        [("human", HISTORY[0]), ("ai", HISTORY[1])],
        [{"role": "human", "content": HISTORY[0]}, {"role": "ai", "content": HISTORY[1]}],
        [ChatMessage(HISTORY[0], role="user"), HISTORY[1]],
    ],
)  # fmt: skip
def test_the_retriever_takes_messages_of_langchain(history, history_model, tmp_path):
    index = Index.build(load(history_model), TEXTS, tmp_path / "index")
    retriever = RejoinderRetriever(index=index)
    assert retriever.invoke("number 3", history=history) == retriever.invoke("number 3", history=HISTORY)


def test_no_history_is_none_and_a_text_is_no_list(model, tmp_path):
    retriever = RejoinderRetriever(index=Index.build(load(model), TEXTS, tmp_path / "index"))
    assert retriever.invoke("number 3", history=None) == retriever.invoke("number 3")
    with pytest.raises(InputError, match="history is a list of messages"):
        retriever.invoke("number 3", history="hello")
    for wrong in (3, ("human", "a", "b"), ("human",), ("human", 3), None):
        with pytest.raises(InputError, match="a message is a text"):
            retriever.invoke("number 3", history=[wrong])


@pytest.mark.parametrize("most", [-1, 0])
def test_a_wrong_number_of_documents_is_refused_at_once(model, most):
    with pytest.raises(InputError, match="top_n is"):
        RejoinderReranker(ranker=model, top_n=most)


def test_the_reranker_is_typed_as_what_it_takes():
    assert {str, Path, Ranker} <= set(get_args(get_type_hints(RejoinderReranker)["ranker"]))

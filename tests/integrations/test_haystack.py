"""Components in pipelines of Haystack's own, which are written down and read again."""

from pathlib import Path

import numpy as np
import pytest

from rejoinder.encoders.persistence import load
from rejoinder.errors import InputError

pytest.importorskip("haystack")
from haystack import Document, Pipeline, component
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.document_stores.in_memory import InMemoryDocumentStore

from rejoinder.integrations.haystack import (
    RejoinderDocumentEmbedder,
    RejoinderRanker,
    RejoinderTextEmbedder,
)

TEXTS = [f"reply number {number}" for number in range(6)]
CONTEXT = ["hello", "which one", "number 3"]


def test_documents_are_embedded_found_and_ranked(history_model):
    filling = Pipeline()
    filling.add_component("embedder", RejoinderDocumentEmbedder(history_model))
    documents = filling.run({"embedder": {"documents": [Document(content=text) for text in TEXTS]}})
    store = InMemoryDocumentStore()
    store.write_documents(documents["embedder"]["documents"])

    asking = Pipeline()
    asking.add_component("embedder", RejoinderTextEmbedder(history_model))
    asking.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=6))
    asking.add_component("ranker", RejoinderRanker(history_model, top_k=4))
    asking.connect("embedder.embedding", "retriever.query_embedding")
    asking.connect("retriever.documents", "ranker.documents")
    written = asking.dumps()  # as YAML, with the model's name
    asking = Pipeline.loads(written, allowed_modules=["rejoinder.integrations.haystack"])
    asking.get_component("retriever").document_store = store
    said = {"history": CONTEXT[:2]}
    asked = {"embedder": {"text": CONTEXT[2], **said}, "ranker": {"query": CONTEXT[2], **said}}
    found = asking.run(asked, include_outputs_from={"retriever"})

    scores = load(history_model).score([CONTEXT], [TEXTS])[0]
    best = [TEXTS[place] for place in np.argsort(-scores, kind="stable")]
    assert [each.content for each in found["retriever"]["documents"]] == best
    assert [each.content for each in found["ranker"]["documents"]] == best[:4]
    given = [each.score for each in found["ranker"]["documents"]]
    np.testing.assert_allclose(given, np.sort(scores)[::-1][:4], atol=1e-6)


def test_nothing_to_rank_and_fewer_than_asked(model):
    ranker = RejoinderRanker(model)
    assert ranker.run("number 3", []) == {"documents": []}
    assert (
        len(
            ranker.run("number 3", [Document(content=text) for text in TEXTS], top_k=2)["documents"]
        )
        == 2
    )
    assert RejoinderDocumentEmbedder(model).run([]) == {"documents": []}


def test_a_document_without_a_score_is_worse_than_one_with_a_negative_score(model):
    documents = [Document(id="1", content="a b"), Document(id="1", content="a b c", score=-0.5),
                 Document(id="1", content="d")]  # fmt: skip
    for some in (documents, documents[::-1]):
        [found] = RejoinderRanker(model).run("a b", some)["documents"]
        assert found.content == "a b c"


def test_components_refuse_what_is_not_theirs_and_rank_an_id_once(model):
    with pytest.raises(TypeError, match="for a text use RejoinderTextEmbedder"):
        RejoinderDocumentEmbedder(model).run("a text")
    with pytest.raises(TypeError, match="for a list of Documents use RejoinderDocumentEmbedder"):
        RejoinderTextEmbedder(model).run([Document(content="a")])
    documents = [Document(id="1", content="a b", score=0.1), Document(id="1", content="a b c", score=0.5),
                 Document(id="2", content="d")]  # fmt: skip
    ranker = RejoinderRanker(model)
    found = ranker.run("a b", documents)["documents"]
    assert sorted(each.content for each in found) == ["a b c", "d"]
    with pytest.raises(InputError, match="1 or more"):
        ranker.run("a b", documents, top_k=-1)


def test_a_document_without_text_is_ranked_last(model):
    documents = [Document(content=None, meta={"file": "menu.png"}), Document(content=" ")]
    documents += [Document(content=text) for text in TEXTS]
    ranked = RejoinderRanker(model).run("number 3", documents)["documents"]
    assert [each.content for each in ranked[-2:]] == [None, " "]
    assert ranked[-1].score < ranked[-3].score


@component
class Memory:
    """What was said, as Haystack keeps it."""

    @component.output_types(messages=list[ChatMessage])
    def run(self):
        called = ToolCall("find", {})
        return {
            "messages": [
                ChatMessage.from_system("Be kind."),
                ChatMessage.from_user(CONTEXT[0]),
                ChatMessage.from_assistant(tool_calls=[called]),
                ChatMessage.from_tool("2 km", called),
                ChatMessage.from_assistant(CONTEXT[1]),
            ]
        }


def test_messages_of_haystack_are_taken_as_history(history_model):
    pipeline = Pipeline()
    pipeline.add_component("memory", Memory())
    pipeline.add_component("embedder", RejoinderTextEmbedder(history_model))
    pipeline.add_component("ranker", RejoinderRanker(history_model))
    pipeline.connect("memory.messages", "embedder.history")
    pipeline.connect("memory.messages", "ranker.history")
    documents = [Document(content=text) for text in TEXTS]
    asked = {"embedder": {"text": CONTEXT[2]}, "ranker": {"query": CONTEXT[2], "documents": documents}}
    found = pipeline.run(asked)
    told = {"history": CONTEXT[:2]}
    assert found["embedder"] == RejoinderTextEmbedder(history_model).run(CONTEXT[2], **told)
    assert found["ranker"] == RejoinderRanker(history_model).run(CONTEXT[2], documents, **told)


@component
class Texts:
    """Earlier messages as texts."""

    @component.output_types(texts=list[str])
    def run(self):
        return {"texts": CONTEXT[:2]}


def test_texts_of_another_component_are_taken_as_history(model):
    pipeline = Pipeline()
    pipeline.add_component("texts", Texts())
    pipeline.add_component("embedder", RejoinderTextEmbedder(model))
    pipeline.connect("texts.texts", "embedder.history")
    assert pipeline.run({"embedder": {"text": CONTEXT[2]}})["embedder"]["embedding"]


def test_a_folder_is_written_as_its_name_and_a_wrong_number_is_refused_at_once(model):
    pipeline = Pipeline()
    pipeline.add_component("embedder", RejoinderTextEmbedder(Path(model)))
    pipeline.add_component("ranker", RejoinderRanker(Path(model)))
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=["rejoinder.integrations.haystack"])
    assert again.get_component("embedder").model == again.get_component("ranker").model == model
    for most in (0, -1):
        with pytest.raises(InputError, match="top_k is"):
            RejoinderRanker(model, top_k=most)

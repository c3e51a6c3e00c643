"""LangChain's own suites for embeddings and retrievers."""

import pytest

pytest.importorskip("langchain_tests")
from langchain_tests.integration_tests import EmbeddingsIntegrationTests, RetrieversIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests

from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.persistence import load
from rejoinder.integrations.langchain import RejoinderEmbeddings, RejoinderRetriever
from rejoinder.retrieval.index import Index
from tests.encoders.small import small_model

pytestmark = [pytest.mark.clients, pytest.mark.asyncio]


@pytest.fixture(autouse=True)
def made(tmp_path, request):
    """A model and an index, which the suites' classes read as properties."""
    small_model(tmp_path / "model")
    request.instance.folder = tmp_path


class TestEmbeddings(EmbeddingsIntegrationTests):
    @property
    def embeddings_class(self):
        return RejoinderEmbeddings

    @property
    def embedding_model_params(self):
        return {"model": str(self.folder / "model")}


class TestEmbeddingsAlone(EmbeddingsUnitTests):
    @property
    def embeddings_class(self):
        return RejoinderEmbeddings

    @property
    def embedding_model_params(self):
        return {"model": str(self.folder / "model")}


class TestRetriever(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self):
        return RejoinderRetriever

    @property
    def retriever_constructor_params(self):
        candidates = [Candidate(f"reply number {number}") for number in range(6)]
        folder = self.folder / "index"
        if not folder.exists():
            Index.build(load(str(self.folder / "model")), candidates, folder)
        return {"index": Index.open(folder), "k": 3}

    @property
    def retriever_query_example(self):
        return "number 3"

"""A server in this process, over an index of hashes."""

import contextlib

import httpx2
import pytest
from starlette.testclient import TestClient

from rejoinder.corpora.schema import Candidate
from rejoinder.retrieval.index import Index
from rejoinder.serving.worker.answers import Answers
from rejoinder.serving.worker.sources import Sources
from rejoinder.serving.app import make_app
from rejoinder.serving.server_settings import ServerSettings
from rejoinder.serving.worker.computing import Computing
from tests.retrieval.conftest import HashEncoder

TEXTS = [f"reply number {i}" for i in range(20)]


@pytest.fixture
def sources(tmp_path):
    candidates = [
        Candidate(text, {"team": ["sales", "billing"][i % 2], "id": i})
        for i, text in enumerate(TEXTS)
    ]
    Index.build(HashEncoder(), candidates, tmp_path / "index")
    return Sources(index=tmp_path / "index", model="hash-model")


@pytest.fixture
def answers(sources):
    encoder = HashEncoder()
    with contextlib.closing(
        Answers(sources, Index.open(sources.index, encoder), encoder)
    ) as answers:
        yield answers


@pytest.fixture
def client(sources, answers):
    """Start a server with some settings, `below` a path of another server: a client of it."""
    with contextlib.ExitStack() as stack:

        def start(below="", **settings):
            app = make_app(ServerSettings(sources=sources, **settings), Computing(sources, answers))
            return stack.enter_context(
                TestClient(
                    app, base_url="http://localhost", root_path=below, raise_server_exceptions=False
                )
            )

        yield start


@contextlib.asynccontextmanager
async def running(answers, **settings):
    """Run a server in this event loop: many requests at a time may be sent by the client that this gives."""
    app = make_app(
        ServerSettings(sources=answers.sources, **settings), Computing(answers.sources, answers)
    )
    api = app.state.api
    async with (
        api.lifespan(app),
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app), base_url="http://localhost", timeout=20
        ) as client,
    ):
        yield client, api

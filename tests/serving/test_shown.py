"""What customers wrote is shown to the write key alone, by every address."""

import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.curation.editing import Editor
from rejoinder.curation.learning import learn_chosen
from rejoinder.retrieval.index import Index
from rejoinder.serving.worker.answers import Answers
from rejoinder.serving.app import make_app
from rejoinder.serving.server_settings import ServerSettings
from rejoinder.serving.guard import Keys, SHOWN
from rejoinder.serving.worker.computing import Computing
from tests.logs import log_of, recorder
from starlette.testclient import TestClient
from tests.retrieval.test_examples import WordEncoder

MARK = "quagmirezebra"
READ, WRITE = ({"Authorization": f"Bearer {key}"} for key in ("look", "change"))


@pytest.fixture
def server(sources):
    replies = [Candidate("We open at nine.", examples=(("when do you open",),)), Candidate("Bye.")]
    index = Index.build(WordEncoder(), replies, sources.index, overwrite=True)
    recorder(index).feedback([f"where is my {MARK}"], [0, 1], chosen=0)
    learn_chosen(index, log_of(index))
    Editor(index, log_of(index)).edit(0, title="hours")
    answers = Answers(sources, index, WordEncoder())
    app = make_app(
        ServerSettings(sources=sources, keys=Keys(b"look", b"change")), Computing(sources, answers)
    )
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client


def test_no_address_shows_a_read_key_what_customers_wrote(server):
    for route in server.app.routes:
        if "GET" in route.methods:
            path = route.path.replace("{name:path}", server.get("/v1/models", headers=READ).json()["data"][0]["id"])
            answer = server.get(path, headers=READ)
            assert MARK not in answer.text, route.path
            assert answer.status_code == (403 if route.path.startswith(SHOWN) else 200), route.path
    asked = {"messages": [f"where is my {MARK}"], "why": True, "k": 1}
    [found] = server.post("/v1/replies", json=asked, headers=READ).json()["replies"]
    assert (found["why"]["view"], found["why"]["like"], found["why"]["learned"]) == (
        "example",
        [],
        True,
    )


def test_the_write_key_and_servers_without_keys_show_all_of_it(server):
    examples = server.get("/v1/candidates", headers=WRITE).json()["candidates"][0]["examples"]
    assert examples == [["when do you open"], [f"where is my {MARK}"]]
    assert MARK in server.get("/v1/edits", headers=WRITE).text
    asked = {"messages": [f"where is my {MARK}"], "why": True, "k": 1}
    [found] = server.post("/v1/replies", json=asked, headers=WRITE).json()["replies"]
    assert found["why"]["like"] == [f"where is my {MARK}"]


def test_examples_that_somebody_wrote_are_shown_to_all(server):
    assert server.get("/v1/candidates", headers=READ).json()["candidates"][0]["examples"] == [
        ["when do you open"]
    ]
    asked = {"messages": ["when do you open"], "why": True, "k": 1}
    [found] = server.post("/v1/replies", json=asked, headers=READ).json()["replies"]
    assert found["why"]["like"] == ["when do you open"]

"""What each address answers: the library's answers, in the forms of known clients; errors that teach."""

import asyncio
import base64
import contextlib
import gc
import json
import os
import re
import shlex
import shutil
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

import rejoinder
from rejoinder.cli.serve import open_ranker
from rejoinder.curation.tickets import Ticket
from rejoinder.errors import InputError
from rejoinder.intents.classifier import train_classifier
from rejoinder.intents.data import TrainingTexts
from rejoinder.retrieval.encoding.confidence import Calibration
from rejoinder.retrieval.index import Index
from rejoinder.serving import edits
from rejoinder.serving.app import make_app
from rejoinder.serving.server_settings import ServerSettings
from rejoinder.serving.wire import requests
from rejoinder.serving.worker.answers import Answers
from rejoinder.stores.store import StaleError
from rejoinder.serving.worker.sources import Sources
from rejoinder.serving.guard import Keys
from rejoinder.serving.worker.computing import Computing
from rejoinder.serving.worker.jobs import Job, Lane
from tests.intents.toy import WordVectors, toy_data
from tests.retrieval.conftest import HashEncoder
from tests.serving.conftest import TEXTS, running

FILES = Path("/proc/self/fd")

ROOT = Path(__file__).parents[2]
CHAT = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi!"},
        {"role": "user", "content": TEXTS[3]}]  # fmt: skip


def texts(answer):
    assert answer.status_code == 200, answer.text
    return [reply["text"] for reply in answer.json()["replies"]]


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ({}, {"distinct": True}),
        ({"k": 3, "minimum_score": 0.1, "distinct": False}, {"k": 3, "minimum_score": 0.1}),
        ({"where": {"team": "sales", "id": [2, 4, 3]}}, {"where": {"team": "sales", "id": [2, 4, 3]}}),
        ({"no_repeat": True, "history": 0, "diversity": 0.5}, {"no_repeat": True, "history": 0, "diversity": 0.5}),
    ],
)
def test_replies_are_the_librarys(client, answers, asked, options):
    for messages in (["Hello!"], ["Hi!", TEXTS[3]]):
        answer = client().post("/v1/replies", json={"messages": messages, **asked})
        [found] = answers.index.search([messages], **{"distinct": True, **options, **{k: asked[k] for k in asked}})
        assert answer.json() | {"answer": ""} == {
            "replies": [reply.to_json() for reply in found],
            "confidence": None,
            "answer": "",
        }


def test_a_new_subject_is_read_alone(client, answers):
    class Joining(HashEncoder):
        subject_threshold = 0.5

        def encode_contexts(self, contexts):
            return self.encode_responses([" ".join(context) for context in contexts])

    answers.index.encoder = answers.encoder = Joining()
    asked = client()
    for history, read in ((None, [TEXTS[3]]), (1, [f"Lamps {TEXTS[3]}"])):
        given = {"messages": ["Lamps", TEXTS[3]]} | ({} if history is None else {"history": history})
        assert texts(asked.post("/v1/replies", json=given)) == [
            reply.text for reply in answers.index.search([read], distinct=True)[0]
        ]


def test_messages_may_be_those_of_chat_apis(client):
    assert texts(client().post("/v1/replies", json={"messages": CHAT, "k": 1})) == texts(
        client().post("/v1/replies", json={"messages": ["Hi! " + TEXTS[3]], "k": 1})
    )


def test_answers_in_a_crowd_are_those_of_one_alone(answers):
    asked = [
        {"messages": [f"question {i}", TEXTS[i % 20]], "k": 1 + i % 3, "where": {"team": "sales"} if i % 4 else None}
        for i in range(40)
    ]

    async def run():
        async with running(answers) as (client, _):
            alone = [(await client.post("/v1/replies", json=each)).json() for each in asked]
            answers.encoder.calls.clear()
            crowd = await asyncio.gather(*(client.post("/v1/replies", json=each) for each in asked))
            return alone, [each.json() for each in crowd]

    alone, crowd = asyncio.run(run())
    assert len({each.pop("answer") for each in alone + crowd}) == 80
    assert crowd == alone
    assert max(answers.encoder.calls) > 10


def test_the_bundled_model_in_a_crowd(tmp_path):
    model = rejoinder.load("convert-small")
    Index.build(model, TEXTS, tmp_path / "index")
    answers = Answers(Sources(index=tmp_path / "index"), Index.open(tmp_path / "index", model), model)

    async def run():
        async with running(answers) as (client, _):
            asked = [{"messages": ["Hello!"] * (i % 4) + [f"question {i}"]} for i in range(12)]
            alone = [(await client.post("/v1/replies", json=each)).json() for each in asked]
            crowd = await asyncio.gather(*(client.post("/v1/replies", json=each) for each in asked))
            return alone, [each.json() for each in crowd]

    for alone, crowd in zip(*asyncio.run(run()), strict=True):
        for one, other in zip(alone["replies"], crowd["replies"], strict=True):
            assert one["score"] == pytest.approx(other["score"], abs=0.02)


def test_embeddings_have_their_dimensions_also_where_the_index_was_empty(tmp_path):
    encoder = HashEncoder()
    index = Index.build(encoder, [], tmp_path / "empty")
    answers = Answers(Sources(index=tmp_path / "empty"), index, encoder)

    async def run():
        async with running(answers) as (client, _):
            added = await client.post("/v1/candidates", json={"candidates": ["the first one"]})
            assert added.status_code == 201
            asked = {"input": "Hi!", "dimensions": 24}
            return [await client.post("/v1/embeddings", json=asked | more) for more in ({}, {"dimensions": 25})]

    found, refused = asyncio.run(run())
    assert len(found.json()["data"][0]["embedding"]) == 24
    assert "the vectors of this model have 24" in refused.json()["error"]["message"]


def test_embeddings_in_openais_form(client, answers):
    server = client()
    for side, encoded in (("query", answers.encoder.encode_contexts([["a"], ["b"]])),
                          ("document", answers.encoder.encode_responses(["a", "b"]))):  # fmt: skip
        asked = {"input": ["a", "b"], "input_type": side, "model": "hash-model"}
        found = server.post("/v1/embeddings", json=asked).json()
        assert np.allclose([each["embedding"] for each in found["data"]], encoded)
        packed = server.post("/v1/embeddings", json={**asked, "encoding_format": "base64"}).json()
        raw = base64.b64decode(packed["data"][1]["embedding"])
        assert np.array_equal(np.frombuffer(raw, "<f4"), encoded[1])
    many = server.post("/v1/embeddings", json={"input": [f"text {i}" for i in range(200)]}).json()["data"]
    assert [each["index"] for each in many] == list(range(200))
    assert np.allclose(many[150]["embedding"], answers.encoder.encode_responses(["text 150"])[0])


def test_rerank_in_coheres_and_jinas_forms(client):
    server = client()
    asked = {"query": "b", "documents": ["a", {"text": "b"}, "c"], "model": "hash-model", "top_n": 2}
    for path in ("/v1/rerank", "/v2/rerank"):
        found = server.post(path, json={**asked, "return_documents": True}).json()["results"]
        assert found[0]["index"] == 1
        assert found[0]["relevance_score"] == pytest.approx(1, abs=1e-6)
        assert (len(found), found[0]["document"]) == (2, {"text": "b"})


class Reversed:
    """Likes texts the more the later they stand in the alphabet."""

    def score(self, _contexts, candidates):
        return np.array([[float(text.rsplit(" ")[-1]) for text in row] for row in candidates], dtype=np.float32)


def test_a_second_model_orders_the_best(client, answers):
    answers.ranker = Reversed()
    server = client()
    assert texts(server.post("/v1/replies", json={"messages": ["Hi!"], "k": 3, "rerank": 50})) == [
        "reply number 19", "reply number 18", "reply number 17"]  # fmt: skip
    refused = server.post("/v1/replies", json={"messages": ["Hi!"], "k": 51, "rerank": 50})
    assert (refused.status_code, "1 to 50" in refused.json()["error"]["message"]) == (400, True)
    found = server.post("/v1/rerank", json={"query": "Hi!", "documents": ["1", "3", "2"]}).json()["results"]
    assert [each["index"] for each in found] == [1, 2, 0]


def test_confidence_of_a_calibrated_index(client, answers, sources):
    server, asked = client(minimum_confidence=0.9), {"messages": [TEXTS[3]], "k": 1}
    refused = server.post("/v1/replies", json=asked)
    message = "the index is not calibrated; rejoinder calibrate INDEX --data CONVERSATIONS"
    assert (refused.status_code, refused.json()["error"]["message"]) == (400, message)
    facts = {"index": answers.index.fingerprint, "model": answers.encoder.fingerprint, "history": None}
    Calibration(**facts, score_weight=10.0, gap_weight=0.0, intercept=-5.0).save(sources.index)
    sure, unsure = (server.post("/v1/replies", json={**asked, "messages": [text]}).json() for text in (TEXTS[3], "?"))
    assert (len(sure["replies"]), sure["confidence"] > 0.9) == (1, True)
    assert (unsure["replies"], unsure["confidence"] < 0.9) == ([], True)
    assert texts(server.post("/v1/replies", json={**asked, "messages": ["?"], "minimum_confidence": None}))
    assert server.post("/v1/replies", json={**asked, "where": {"id": 3}}).status_code == 400


def test_a_calibrated_server_searches_again_where_the_index_has_just_changed(client, answers, sources, monkeypatch):
    facts = {"index": answers.index.fingerprint, "model": answers.encoder.fingerprint, "history": None}
    Calibration(**facts, score_weight=10.0, gap_weight=0.0, intercept=-5.0).save(sources.index)
    search, stale = answers.index.search_vectors, [StaleError("a table is gone")]

    def search_vectors(*arguments, **options):
        if stale:
            Index.open(sources.index, answers.encoder).add(["We open at ten."])
            raise stale.pop()
        return search(*arguments, **options)

    monkeypatch.setattr(answers.index, "search_vectors", search_vectors)
    found = client(minimum_confidence=0.9).post("/v1/replies", json={"messages": [TEXTS[3]], "k": 1})
    assert texts(found) == [TEXTS[3]]
    assert stale == []


def test_a_change_leaves_a_calibrated_server_answering(client, answers, sources, caplog):
    facts = {"index": answers.index.fingerprint, "model": answers.encoder.fingerprint, "history": None}
    Calibration(**facts, score_weight=10.0, gap_weight=0.0, intercept=-5.0).save(sources.index)
    server, asked = client(minimum_confidence=0.9), {"messages": [TEXTS[3]], "k": 1}
    before = server.post("/v1/replies", json=asked)
    assert "notes" not in before.json()
    for text in ("We open at ten.", "We close at six."):
        assert server.post("/v1/candidates", json={"candidates": [text]}).status_code == 201
        after = server.post("/v1/replies", json=asked)
        assert texts(after) == texts(before) == [TEXTS[3]]
        assert after.json()["notes"] == {"calibration": "earlier"}
    plain = server.post("/v1/replies", json={**asked, "minimum_confidence": None}).json()
    assert "notes" not in plain
    told = [record for record in caplog.records if record.message == "confidence is that of earlier replies"]
    assert len(told) == 1
    assert "calibrate again: rejoinder calibrate" in told[0].fields["reason"]
    with contextlib.closing(Answers(sources, Index.open(sources.index, answers.encoder), answers.encoder)) as restarted:
        assert restarted.calibrated().outdated
    Calibration(**{**facts, "model": "another"}, score_weight=1.0, gap_weight=0.0, intercept=0.0).save(sources.index)
    server.post("/v1/candidates", json={"candidates": ["We never close."]})
    refused = server.post("/v1/replies", json=asked)
    assert (refused.status_code, "of another model's scores" in refused.text) == (400, True)


def test_intents(client, answers):
    assert client().post("/v1/intents", json={"input": "hello"}).status_code == 404
    answers.classifier = train_classifier(WordVectors(), TrainingTexts(toy_data()))
    server = client()
    found = server.post("/v1/intents", json={"input": ["please", "i lost my card"]}).json()["data"]
    assert [each["index"] for each in found] == [0, 1]
    assert found[1]["labels"] == ["card_lost"] == [found[1]["ranking"][0]["label"]]


def test_candidates_are_added_listed_deleted_and_stay(client, sources):
    server = client()
    new = ["new", {"text": "newer", "payload": {"id": "n", "x": [1]}}]
    added = server.post("/v1/candidates", json={"candidates": new})
    assert (added.status_code, added.json()) == (201, {"positions": [20, 21]})
    assert texts(server.post("/v1/replies", json={"messages": ["newer"], "k": 1})) == ["newer"]
    assert server.delete("/v1/candidates/20").json() == {"deleted": 1}
    again = server.delete("/v1/candidates/20")
    assert (again.status_code, again.json()["error"]["message"]) == (404, "reply 20 of the index was deleted before")
    pages, following = [], 0
    while following is not None:
        page = server.get("/v1/candidates", params={"first": following, "limit": 8}).json()
        pages.append([each["position"] for each in page["candidates"]])
        following = page["next"]
    assert pages == [[*range(8)], [*range(8, 16)], [16, 17, 18, 19, 21]]
    assert page["total"] == 21
    assert [candidate.text for _, candidate in Index.open(sources.index, HashEncoder())][-1] == "newer"


def test_null_is_absent_in_a_request_for_replies(client):
    server = client()
    body = {"messages": [TEXTS[3]]}
    absent = dict.fromkeys(requests.RepliesRequest.model_fields.keys() - body.keys())
    plain = server.post("/v1/replies", json=body).json()
    answer = server.post("/v1/replies", json=body | absent)
    assert (answer.status_code, answer.json() | {"answer": ""}) == (200, plain | {"answer": ""})
    assert server.post("/v1/replies", json={"messages": None}).status_code == 422
    assert server.post("/v1/replies", json=body | {"colour": None}).status_code == 422


def test_what_others_change_is_seen_and_a_new_model_after_a_reload(client, sources, monkeypatch, caplog):
    server = client()
    Index.open(sources.index, HashEncoder()).add(["from outside"])

    def found():
        return texts(server.post("/v1/replies", json={"messages": ["from outside"], "k": 1}))

    until(lambda: found() == ["from outside"])
    other = HashEncoder("another")
    Index.build(other, ["other"], sources.index, overwrite=True)
    until(lambda: found() and "cannot be opened" in caplog.text)
    assert found() == ["from outside"]
    monkeypatch.setattr("rejoinder.serving.worker.opening.open_encoder", lambda _name, **_: other)
    assert server.post("/admin/reload").json() == {"status": "reloaded"}
    assert found() == ["other"]


@pytest.mark.folder
def test_what_is_open_answers_where_the_index_is_gone(client, sources):
    server = client()
    shutil.rmtree(sources.index)
    assert server.post("/admin/reload").status_code == 503
    body = {"messages": ["reply number 3"], "k": 1}
    assert texts(server.post("/v1/replies", json=body)) == ["reply number 3"]


@pytest.mark.parametrize("missing", ["model", "model of the index", "intents", "ranker"])
def test_a_reload_that_misses_a_model_says_so_without_its_place(sources, answers, tmp_path, monkeypatch, missing):
    place = tmp_path / "our models" / "support"
    settings = {
        "model": {"model": str(place)},
        "model of the index": {"model": None},
        "intents": {"intents": place},
        "ranker": {"ranker": str(place), "open_ranker": open_ranker},
    }[missing]
    if missing in ("intents", "ranker"):
        monkeypatch.setattr("rejoinder.serving.worker.opening.open_encoder", lambda *_, **__: HashEncoder())
    store = sources.store
    with store.lock():
        manifest = store.read_manifest()
        model = replace(manifest.model, name="", path=str(place))
        store.write_manifest(replace(manifest, model=model))
    own = replace(sources, **settings)
    app = make_app(ServerSettings(sources=own), Computing(own, answers))
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as server:
        answer = server.post("/admin/reload")
    assert answer.status_code == 503
    assert "support" in answer.json()["error"]["message"]
    assert str(tmp_path) not in answer.text


def until(holds):
    """Wait until something holds: other processes' changes of a database are seen within a second."""
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
@pytest.mark.parametrize("way", ["request", "signal"])
def test_a_reload_drops_no_request(answers, monkeypatch, way):
    """The old index and model answer until the new ones are open."""
    new, opened = HashEncoder("new", name="new"), threading.Event()
    monkeypatch.setattr("rejoinder.serving.worker.opening.open_encoder", lambda _name, **_: opened.wait(10) and new)

    async def run():
        async with running(answers) as (client, api):
            async def model():
                found = await client.post("/v1/replies", json={"messages": ["Hi!"]})
                assert found.status_code == 200
                return (await client.get("/v1/models")).json()["data"][0]["id"]

            Index.build(new, TEXTS, answers.sources.index, overwrite=True)
            if way == "signal":
                os.kill(os.getpid(), signal.SIGHUP)
            else:
                reload = asyncio.create_task(client.post("/admin/reload"))
            before = [await model() for _ in range(10)]
            opened.set()
            for _ in range(500):
                if api.texts.model == "new":
                    break
                await asyncio.sleep(0.01)
            assert way == "signal" or (await reload).status_code == 200
            return {*before}, await model()

    assert asyncio.run(run()) == ({"hash-model"}, "new")


@pytest.mark.parametrize(
    ("name", "shown"), [("convert-small", "convert-small"), ("runs/first/model", "first"), ("x/y", "y"), ("", "abc")]
)
def test_models_are_named_tellingly(answers, name, shown):
    answers.encoder.name, answers.encoder.fingerprint = name, "abc"
    assert answers.model == shown


@pytest.mark.parametrize("body", [b'{"messages": ["\xff\xfe"]}', b"", b"[" * 40_000, b'{"messages": [' + b"9" * 9999, rb'{"messages": ["\\ud83d', rb'{"a": "\ud83d'])
def test_what_is_no_json_is_refused(client, body):
    answer = client().post("/v1/replies", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["message"][:20]) == (422, "the body is not JSON")


@pytest.mark.parametrize(
    "body",
    [rb'{"messages": ["\ud83d"]}', rb'{"messages": ["a \uD83D b"]}', rb'{"messages": ["\ud83d\u0041"]}',
     rb'{"messages": [], "\ud83d": 1}'],
)  # fmt: skip
def test_half_a_character_is_named(client, body):
    answer = client().post("/v1/replies", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["message"]) == (
        422,
        r"the body has \ud83d, a lone surrogate, which is half a character; send whole characters",
    )


@pytest.mark.parametrize(
    "body",
    [rb'{"messages": [1e9', rb'{"messages": ["\ud83d\ude00"', rb'{"messages": ["\uD55C\uD83D\uDE00", '],
)  # fmt: skip
def test_what_is_not_json_is_not_parsed_again(client, monkeypatch, body):
    """In the event loop, where a large body holds up all other requests."""
    parsed = []
    load = json.loads
    monkeypatch.setattr(json, "loads", lambda text, **more: parsed.append(text) or load(text, **more))
    answer = client().post("/v1/replies", content=body, headers={"content-type": "application/json"})
    assert body not in parsed
    assert (answer.status_code, answer.json()["error"]["message"][:20]) == (422, "the body is not JSON")


def test_a_full_disk_is_said_and_nothing_is_added(client, sources, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Index, "add", full)
    refused = client().post("/v1/candidates", json={"candidates": ["new"]})
    assert (refused.status_code, refused.json()["error"]["message"]) == (507, "the disk is full; nothing was changed")
    assert len(Index.open(sources.index, HashEncoder())) == 20


@pytest.mark.skipif(not FILES.exists(), reason="Linux tells what a process has open")
def test_a_refused_change_leaves_no_file_open(answers, monkeypatch):
    monkeypatch.setattr("rejoinder.stores.folder.segments.IN_MEMORY", 0)
    computing = Computing(answers.sources, answers)
    gc.disable()
    try:
        before = len([*FILES.iterdir()])
        for _ in range(5):
            [refused] = computing.run(Lane.CHANGE, [Job(edits.delete, edits.Asked(99, Ticket("1", "")))])
            assert isinstance(refused, InputError)
        assert len([*FILES.iterdir()]) == before
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/v1/replies", {"messages": []}, 422, "messages"),
        ("/v1/replies", {"messages": ["Hi!", "  "]}, 422, "messages.1 is blank; leave it out"),
        ("/v1/replies", {"messages": [""]}, 422, "messages.0 is blank; leave it out"),
        ("/v1/rerank", {"query": " ", "documents": ["a"]}, 422, "query is blank; give a text"),
        ("/v1/replies", {"messages": "Hi!"}, 422, "messages must be a list"),
        ("/v1/replies", ["Hi!"], 422, "the body must be a JSON object"),
        ("/v1/replies", {}, 422, "messages is missing"),
        ("/v1/replies", {"messages": ["Hi!"], "k": 1.5}, 422, "k must be a whole number"),
        ("/v1/replies", {"messages": ["Hi!"], "k": True}, 422, "k: a number is needed"),
        ("/v1/replies", {"messages": ["Hi!"], "index": "x"}, 422, "index must be 'first' or 'second'"),
        ("/v1/replies", {"messages": ["x" * 20_001]}, 422, "at most 20000"),
        ("/v1/replies", {"messages": ["\ud800"]}, 422, "lone surrogate"),
        ("/v1/replies", {"messages": ["Hi!"], "treshold": 1}, 422, "treshold"),
        ("/v1/replies", {"messages": ["Hi!"], "\ud800": 1}, 422, "lone surrogate"),
        ("/v1/replies", {"messages": ["Hi!"], "k": 0}, 422, "k"),
        ("/v1/replies", {"messages": ["Hi!"], "hybrid": 1e307}, 422, "hybrid"),
        *(("/v1/replies", {"messages": ["Hi!"], name: wrong}, 422, name) for wrong in (True, "1")
          for name in ("k", "history", "minimum_score", "minimum_confidence", "diversity", "hybrid", "rerank")),
        *(("/v1/replies", {"messages": ["Hi!"], name: wrong}, 422, name) for wrong in (1, "yes")
          for name in ("no_repeat", "distinct")),
        ("/v1/embeddings", {"input": "Hi!", "dimensions": True}, 422, "dimensions"),
        ("/v1/rerank", {"query": "Hi!", "documents": ["a"], "top_n": True}, 422, "top_n"),
        ("/v1/replies", {"messages": ["Hi!"], "rerank": 50}, 400, "--ranker"),
        ("/v1/replies", {"messages": [{"role": "system", "content": "x"}]}, 400, "no message"),
        ("/v1/replies", {"messages": ["Hi!"], "where": {"color": "red"}}, 400, "the fields are id, team"),
        ("/v1/embeddings", {"input": [[1, 2]]}, 400, "input holds tokens, not texts"),
        ("/v1/embeddings", {"input": "a", "model": "gpt"}, 404, "it is 'hash-model'"),
        ("/v1/embeddings", {"input": "a", "dimensions": 3}, 400, "have 24"),
        ("/v1/rerank", {"query": "a", "documents": []}, 422, "documents"),
        ("/v1/candidates", {"candidates": [{"text": "a", "payload": {"x": float("inf")}}]}, 422, "not JSON"),
        ("/v1/candidates", {"candidates": ["a"] * 1001}, 422, "at most 1000"),
        ("/v1/examples", {"position": 1, "examples": [{"messages": ["Hi!"]}]}, 422, "examples.0 must be a string"),
        ("/v1/examples", {"examples": ["Hi!"]}, 422, "position is missing"),
        ("/v1/nothing", {}, 404, "Not Found"),
    ],
)
def test_errors_teach_in_one_form(client, path, body, status, said):
    raw = json.dumps(body).encode()
    answer = client().post(path, content=raw, headers={"content-type": "application/json"})
    found = answer.json()
    assert answer.status_code == status, answer.text
    assert set(found["error"]) == {"message", "type", "param", "code"}
    assert said in found["error"]["message"]
    assert found["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/candidates?offset=5", "there is no parameter 'offset' here, only first, limit"),
        ("/v1/edits?limit=1&first=2", "there is no parameter 'first' here, only limit"),
        ("/v1/report?format=html", "there is no parameter 'format' here, only form"),
    ],
)
def test_an_unknown_parameter_is_refused_where_there_are_any(client, path, said):
    answer = client().get(path)
    assert (answer.status_code, answer.json()["error"]["message"]) == (422, said)


def test_parameters_of_other_services_are_taken_where_there_are_none(client):
    assert client().get("/v1/models?page_size=20").status_code == 200


@pytest.mark.parametrize("path", ["/health", "/ready", "/"])
def test_monitors_may_ask_with_head(client, path):
    answer = client().head(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, client().get(path).headers["content-type"])


def test_notes_say_how_a_message_was_read_and_are_counted(client):
    server = client()
    message = "> Hi!\n\nWho is Reply? When is reply seven meant? \nwanderfull replyy\n-- \nKim"
    answer = server.post("/v1/replies", json={"messages": [message], "why": True}).json()
    assert answer["notes"]["parts"] >= 3
    assert "replyy" in answer["notes"]["corrected"]
    assert answer["replies"][0]["why"]["sentence"]
    assert "notes" not in server.post("/v1/replies", json={"messages": ["Hi!"]}).json()
    metrics = server.get("/metrics").text
    assert 'rejoinder_notes_total{note="parts"} 1.0' in metrics
    assert 'rejoinder_notes_total{note="corrected"} 1.0' in metrics


def test_metrics_and_the_description(client, answers):
    server = client()
    assert server.put("/v1/candidates").headers["allow"] == "GET, POST"
    server.post("/v1/replies", json={"messages": ["Hi!"]})
    metrics = server.get("/metrics").text
    assert 'rejoinder_requests_total{method="POST",route="/v1/replies",status="200"} 1.0' in metrics
    of = f'index="{answers.index.store.name}",model="hash-model"'
    assert f"rejoinder_candidates{{{of}}} 20.0" in metrics
    server.post("/v1/candidates", json={"candidates": ["One that nobody has searched for yet."]})
    assert f"rejoinder_candidates{{{of}}} 21.0" in server.get("/metrics").text
    described = server.get("/openapi.json").json()
    operations = [told["operationId"] for each in described["paths"].values() for told in each.values()]
    assert all(name.isidentifier() for name in operations)
    assert len(set(operations)) == len(operations)
    asked = described["components"]["schemas"]["RepliesRequest"]
    assert "examples" in asked
    assert (asked["properties"]["k"]["minimum"], asked["properties"]["k"]["maximum"]) == (1, 1000)
    assert "BM25" in asked["properties"]["hybrid"]["description"]
    assert not [name for name, told in asked["properties"].items() if "description" not in told]
    assert [server.get(path).json()["status"] for path in ("/health", "/ready")] == ["ok", "ready"]
    assert server.get("/v1/models").json()["data"][0]["id"] == "hash-model"


def test_the_documented_calls_work(client):
    server, calls = client(), 0
    for path in (ROOT / "README.md", ROOT / "docs" / "serving.md"):
        for line in re.findall(r"^curl .*$", path.read_text(encoding="utf-8"), re.MULTILINE):
            words = shlex.split(line)
            body = words[words.index("-d") + 1] if "-d" in words else None
            address = words[1].replace("localhost:8000", "http://localhost:8000")
            answer = server.request("GET" if body is None else "POST", address, content=body,
                                    headers={"content-type": "application/json"})  # fmt: skip
            assert answer.is_success, f"{line}\n{answer.text}"
            calls += 1
    assert calls > 4


def test_candidates_have_titles_and_examples_that_can_be_added(client):
    server = client()
    new = {"text": "At noon.", "title": "lunch", "examples": ["When do we eat?", ["Hi!", "Is there food?"]]}
    assert server.post("/v1/candidates", json={"candidates": [new]}).json() == {"positions": [20]}
    page = server.get("/v1/candidates", params={"first": 20}).json()["candidates"]
    assert page == [
        {"position": 20, "text": "At noon.", "payload": {}, "title": "lunch",
         "examples": [["When do we eat?"], ["Hi!", "Is there food?"]]}
    ]  # fmt: skip
    asked = {"messages": ["When do we eat?"], "k": 1, "why": True}
    [best] = server.post("/v1/replies", json=asked).json()["replies"]
    assert (best["position"], best["title"]) == (20, "lunch")
    assert best["why"]["view"] == "example"
    assert best["why"]["like"] == ["When do we eat?"]
    more = {"position": 3, "examples": [["Hello.", {"role": "user", "content": "What is number three?"}]]}
    assert server.post("/v1/examples", json=more).json() == {"added": 1}
    assert server.post("/v1/examples", json=more).json() == {"added": 0}
    asked = {"messages": ["What is number three?"], "k": 1}
    assert server.post("/v1/replies", json=asked).json()["replies"][0]["position"] == 3


def test_examples_of_no_candidate_or_no_conversation_are_refused(client):
    server = client()
    answer = server.post("/v1/examples", json={"position": 99, "examples": ["Hi!"]})
    assert answer.status_code == 404
    assert "no reply 99" in answer.json()["error"]["message"]
    system = {"position": 3, "examples": [[{"role": "system", "content": "Be kind."}]]}
    assert server.post("/v1/examples", json=system).status_code == 400
    assert server.post("/v1/examples", json={"position": 3, "examples": []}).status_code == 422
    server = client(keys=Keys(b"look", b"change"))
    add = {"position": 3, "examples": ["Hi!"]}
    for key, status in (("look", 403), ("change", 200)):
        headers = {"Authorization": f"Bearer {key}"}
        assert server.post("/v1/examples", json=add, headers=headers).status_code == status

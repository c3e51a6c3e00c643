"""Trouble that is not the request's: an index that is gone, many additions, values that no process can send."""

import asyncio
import contextlib
import json
import logging
import multiprocessing
import re
import shutil
import threading
from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from rejoinder.curation.feedback import FeedbackLog
from rejoinder.errors import InputError
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.options import SearchOptions
from rejoinder.serving import latest
from rejoinder.serving.wire import requests
from rejoinder.serving.app import make_app
from rejoinder.serving.server_settings import ServerSettings
from rejoinder.serving.worker.answers import Answers, Question
from rejoinder.serving.worker import loading
from rejoinder.serving.worker.computing import Computing
from rejoinder.serving.worker.jobs import Job, Lane
from rejoinder.serving.worker.process import ComputingProcess, _answer
from rejoinder.serving.worker.sources import Sources
from rejoinder.stores.store import DeniedError, UnreachableError
from tests.retrieval.conftest import HashEncoder
from tests.serving.conftest import TEXTS, running


def post(server, path, value):
    return server.post(
        path, content=json.dumps(value), headers={"content-type": "application/json"}
    )


def remove(index):
    shutil.rmtree(index)


def rename(index):
    index.rename(index.with_name("elsewhere"))


def cut(index):
    [vectors] = index.glob("segment-*/vectors.f32")
    vectors.write_bytes(vectors.read_bytes()[:-4])


def alter(index):
    (index / "manifest.json").write_text("{}")


@pytest.mark.folder
@pytest.mark.parametrize("harm", [remove, rename, cut, alter])
def test_an_index_that_is_gone_is_the_servers_trouble(client, sources, harm, monkeypatch):
    monkeypatch.setattr("rejoinder.serving.worker.condition.RETRY", 0.0)
    server = client()
    assert server.get("/ready").json() == {"status": "ready"}
    harm(sources.index)
    changes = [
        post(server, "/v1/candidates", {"candidates": ["new"]}),
        server.delete("/v1/candidates/3"),
    ]
    for answer in changes:
        assert (answer.status_code, answer.json()["error"]["type"]) == (503, "server_error")
        assert "cannot be opened, so nothing was changed" in answer.json()["error"]["message"]
        assert str(sources.index) not in answer.text
    ready = server.get("/ready")
    assert (ready.status_code, ready.json()["status"]) == (503, "not ready")
    assert "index" in ready.json()["reason"]
    assert str(sources.index) not in ready.text
    found = post(server, "/v1/replies", {"messages": [TEXTS[3]], "k": 1})
    assert found.json()["replies"][0]["text"] == TEXTS[3], "what is open goes on answering"


@pytest.mark.folder
def test_what_is_gone_is_said_without_its_place(client, sources):
    server = client()
    remove(sources.index)
    assert server.get("/ready").json()["reason"] == (
        "the index is gone; `rejoinder index build MODEL REPLIES -o INDEX` builds one"
    )
    assert post(server, "/v1/candidates", {"candidates": ["new"]}).json()["error"]["message"] == (
        "the index cannot be opened, so nothing was changed: the index is gone; "
        "`rejoinder index build MODEL REPLIES -o INDEX` builds one"
    )


@pytest.mark.folder
@pytest.mark.parametrize("harm", [remove, rename])
def test_of_a_folder_that_is_gone_it_is_said_during_a_change_too(sources, harm):
    index = Index.open(sources.index, HashEncoder())
    with index.store.lock():
        harm(sources.index)
        for read in (index.refresh, lambda: Index.open(sources.index, HashEncoder())):
            with pytest.raises(InputError, match=f"^no index {re.escape(str(sources.index))}; `rejoinder index build"):
                read()


@pytest.mark.folder
@pytest.mark.parametrize("given", ["replies", "./replies", "{}/replies", "link", "{}/link"])
def test_no_error_has_the_path_of_the_index_or_other_words_in_its_place(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rejoinder.serving.worker.condition.RETRY", 0.0)
    folder = tmp_path / "replies"
    encoder = HashEncoder()
    Index.build(encoder, TEXTS, folder)
    (tmp_path / "link").symlink_to("replies")
    sources = Sources(index=given.format(tmp_path))
    with contextlib.closing(Answers(sources, Index.open(sources.store, encoder), encoder)) as answers:
        app = make_app(ServerSettings(sources=sources), Computing(sources, answers))
        with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as server:
            options = {"messages": ["Hi!"], "k": 60, "rerank": 50}
            assert "; 50 replies are ranked again" in post(server, "/v1/replies", options).text
            file = {"name": "replies.csv", "content": "AAAA"}
            assert '"replies.csv is not imported' in post(server, "/v1/import", file).text
            wanted = {"messages": ["Hi!"], "minimum_confidence": 0.5}
            missing = "the index is not calibrated; rejoinder calibrate INDEX --data CONVERSATIONS"
            assert missing in post(server, "/v1/replies", wanted).text
            log = FeedbackLog(answers.index.store).database.path
            log.write_text("something else")
            unlogged = post(server, "/v1/feedback", {"messages": ["Hi!"], "offered": [1]})
            assert (unlogged.status_code, log.name in unlogged.text) == (503, True)
            alter(folder)
            refused = [unlogged, post(server, "/v1/candidates", {"candidates": ["new"]}), server.get("/ready")]
            remove(folder)
            gone = server.get("/ready")
            assert "the index is gone; `rejoinder index build MODEL REPLIES -o INDEX` builds one" in gone.text
            refused += [gone, post(server, "/v1/candidates", {"candidates": ["new"]})]
    assert {answer.status_code for answer in refused} == {503}
    assert not [answer.text for answer in refused if str(tmp_path) in answer.text or "link" in answer.text]


@pytest.mark.folder  # milvus-lite cannot keep two editions at one path open
def test_a_server_is_ready_where_the_index_waits_for_a_reload(client, sources, monkeypatch):
    monkeypatch.setattr("rejoinder.serving.worker.condition.RETRY", 0.0)
    server = client()
    Index.build(HashEncoder("another"), ["other"], sources.index, overwrite=True)
    assert server.get("/ready").status_code == 200
    assert post(server, "/v1/candidates", {"candidates": ["new"]}).status_code == 503


def test_additions_one_by_one_leave_few_segments(answers, sources, monkeypatch):
    monkeypatch.setattr("rejoinder.serving.edits.MAX_SEGMENTS", 5)

    async def run():
        counts = []
        async with running(answers) as (client, _):
            for number in range(60):
                added = await client.post("/v1/candidates", json={"candidates": [f"new {number}"]})
                assert (added.status_code, added.json()) == (201, {"positions": [20 + number]})
                counts.append(len(Index.open(sources.index).manifest.segments))
            found = await client.post("/v1/replies", json={"messages": ["new 41"], "k": 1})
            assert found.json()["replies"][0]["position"] == 61
        return counts

    assert max(asyncio.run(run())) <= 7
    assert len(Index.open(sources.index, verify=True)) == 80


@pytest.mark.slow
@pytest.mark.folder
def test_three_thousand_additions_leave_few_segments(client, sources):
    server = client()
    for number in range(3000):
        assert post(server, "/v1/candidates", {"candidates": [f"new {number}"]}).status_code == 201
        assert len(list(sources.index.glob("segment-*"))) < 60
    assert len(Index.open(sources.index, verify=True)) == 3020


def test_fields_of_a_message_that_are_not_read_go_no_further(client, monkeypatch):
    """They may hold anything, as what no process can send."""
    asked = []
    monkeypatch.setattr(
        Answers, "replies", lambda _, found: asked.extend(found) or [{"replies": []}] * len(found)
    )
    extra = "[" * 600 + "]" * 600
    body = f'{{"messages": [{{"role": "user", "content": "Hi!", "name": "me", "x": {extra}}}]}}'
    headers = {"content-type": "application/json"}
    assert client().post("/v1/replies", content=body, headers=headers).status_code == 200
    assert asked[0].messages == [{"role": "user", "content": "Hi!"}]


def test_of_jobs_that_no_process_can_send_only_these_fail():
    process = ComputingProcess.__new__(ComputingProcess)
    ours, theirs = multiprocessing.Pipe()
    process._pipes = {Lane.SEARCH: ours}

    thread = threading.Thread(target=_answer, args=(lambda jobs: [1] * len(jobs), theirs))
    thread.start()
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    found = process.run(Lane.SEARCH, [Job(Answers.replies, item) for item in ("a", deep, "b", "c")])
    ours.close()
    thread.join(10)
    assert [found[place] for place in (0, 2, 3)] == [1, 1, 1]
    assert isinstance(found[1], RuntimeError)


def test_of_unknown_keys_the_first_is_told(client):
    server = client()
    keys = {f"key {number}": 0 for number in range(1000)}
    for path, body, named in (
        ("/v1/replies", {"messages": ["Hi!"], **keys}, "key 0"),
        ("/v1/rerank", {"query": "a", "documents": ["a"], **keys}, "key 0"),
        ("/v1/candidates", {"candidates": ["a", {"text": "a", **keys}]}, "candidates.1.key 0"),
    ):
        answer = post(server, path, body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (422, named)


def test_one_error_is_made_where_many_keys_are_unknown():
    with pytest.raises(ValueError, match="no such field") as found:
        requests.RepliesRequest.model_validate(
            {"messages": ["Hi!"], **{str(number): 0 for number in range(1000)}}
        )
    assert len(found.value.errors()) == 1


def test_a_body_of_very_many_values_is_not_parsed(client, monkeypatch):
    server, parsed = client(), []
    decode = "rejoinder.serving.wire.bodies.msgspec.json.decode"
    monkeypatch.setattr(decode, lambda body: parsed.append(body) or {})
    for part in ("[],", "{},", '"a":0,'):
        body = part * (requests.MOST_MARKS + 1)
        answer = server.post(
            "/v1/candidates", content=body, headers={"content-type": "application/json"}
        )
        assert (answer.status_code, "50,000 at most" in answer.json()["error"]["message"]) == (
            413,
            True,
        )
    assert not parsed


def test_too_many_texts_are_told_as_such(client):
    answer = post(client(), "/v1/embeddings", {"input": ["a"] * 10_000})
    assert answer.status_code == 422
    assert "at most 2048 items" in answer.json()["error"]["message"]


def test_files_of_the_page_are_logged_as_answered(client):
    server = client()
    assert server.get("/").status_code == 200
    assert 'route="/",status="200"} 1.0' in server.get("/metrics").text


def fail(error):
    def check(*_arguments, **_options):
        raise error

    return check


@pytest.mark.parametrize(("approximate", "status"), [(None, 200), (object(), 503)])
def test_a_server_that_searches_in_memory_is_ready_without_its_database(
    client, answers, monkeypatch, approximate, status
):
    monkeypatch.setattr(answers.index.store, "check", fail(UnreachableError("it does not answer")))
    state = answers.index._state
    monkeypatch.setattr(answers.index, "_state", replace(state, manifest=replace(state.manifest, approximate=approximate)))
    ready = client().get("/ready")
    assert ready.status_code == status
    assert "it does not answer" in ready.json()["reason"]


def test_a_server_whose_role_may_only_read_is_ready_and_says_so_to_changes(client, answers, monkeypatch):
    denied = fail(DeniedError("this role may not do that"))
    monkeypatch.setattr(answers.log.database, "check", denied)
    monkeypatch.setattr(answers.log.database, "writing", denied)
    server = client()
    assert server.get("/ready").json() == {"status": "ready"}
    changes = {
        "/v1/candidates": {"candidates": ["new"]},
        "/v1/feedback": {"messages": ["Hi!"], "offered": [0], "chosen": 0},
        "/v1/edits": {"replace": {"position": 0, "title": "new"}},
    }
    for path, body in changes.items():
        answer = server.post(path, json=body)
        assert (answer.status_code, answer.json()["error"]["type"]) == (403, "permission_error")


def test_a_store_that_hangs_holds_up_neither_probes_nor_metrics(answers, monkeypatch):
    """A probe of Kubernetes waits for one second."""
    goes_on = threading.Event()
    monkeypatch.setattr(latest, "MOMENT", 0.05)

    async def run():
        async with running(answers) as (client, _):
            told = [(await client.get("/ready")).json()]
            monkeypatch.setattr("rejoinder.serving.worker.condition.RETRY", 0.0)
            monkeypatch.setattr(answers._condition, "_until", 0.0)
            monkeypatch.setattr(answers.index.store, "check", lambda: goes_on.wait(60))
            for _ in range(3):
                ready = await client.get("/ready")
                told.append((ready.status_code, ready.json()["reason"]))
            assert "rejoinder_candidates{" in (await client.get("/metrics")).text
            found = await client.post("/v1/replies", json={"messages": [TEXTS[3]], "k": 1})
            assert found.json()["replies"][0]["text"] == TEXTS[3]
            goes_on.set()
            while (last := (await client.get("/ready")).json()) != {"status": "ready"}:
                await asyncio.sleep(0.01)
            return [*told, last]

    well, *hung, last = asyncio.run(run())
    assert well == last == {"status": "ready"}
    assert hung == [(200, "it only searches: the index takes long to answer")] * 3


def test_a_store_that_hangs_while_a_change_is_loaded_holds_up_searches_once(answers, monkeypatch, caplog):
    goes_on = threading.Event()
    refreshed = answers.index.try_refresh
    monkeypatch.setattr(loading, "PATIENCE", 0.05)
    monkeypatch.setattr(answers.index, "try_refresh", lambda: goes_on.wait(60) and refreshed())
    Index.open(answers.sources.index, HashEncoder()).add(["a new reply"])
    answers._stamps.look()

    def best():
        answers.refresh()
        [answer] = answers.replies([Question(["a new reply"], SearchOptions(k=1))])
        return answer["replies"][0]["text"]

    assert all(best() in TEXTS for _ in range(3))
    assert caplog.text.count("the earlier one goes on answering") == 1
    goes_on.set()
    monkeypatch.setattr(loading, "PATIENCE", 60.0)
    answers._follower._loading._waits_until += 60.0
    assert best() == "a new reply"


def test_a_server_whose_process_is_started_again_is_not_ready(answers, monkeypatch):
    monkeypatch.setattr(latest, "MOMENT", 0.05)
    monkeypatch.setattr("rejoinder.serving.worker.condition.RETRY", 0.0)
    goes_on = threading.Event()

    async def run():
        async with running(answers) as (client, api):
            monkeypatch.setattr(answers._condition, "_until", 0.0)
            monkeypatch.setattr(answers.index.store, "check", lambda: goes_on.wait(60))
            api._worker.is_starting = True
            told = await client.get("/ready")
            goes_on.set()
            return told

    told = asyncio.run(run())
    assert (told.status_code, told.json()["reason"]) == (503, "the process that computes has ended and is started again")


def test_the_log_says_why_a_change_was_refused(client, monkeypatch, caplog):
    server = client()
    monkeypatch.setattr(Answers, "record", fail(UnreachableError("PostgreSQL does not answer")))
    with caplog.at_level(logging.INFO, "rejoinder.serving"):
        refused = post(server, "/v1/feedback", {"messages": ["Hi!"], "chosen": 3})
    assert refused.status_code == 503
    [record] = [record for record in caplog.records if record.getMessage() == "request"]
    assert (record.levelname, record.fields["reason"]) == ("WARNING", "PostgreSQL does not answer")


def test_an_answer_that_came_late_is_not_told_as_a_new_one(monkeypatch):
    monkeypatch.setattr(latest, "MOMENT", 0.05)
    asked = []

    async def run():
        goes_on = asyncio.Event()

        async def ask():
            asked.append(len(asked))
            await goes_on.wait()
            return asked[-1]

        known = latest.Latest(ask, None)
        assert not await known.refresh()
        goes_on.set()
        await asyncio.sleep(0)
        assert await known.refresh()
        return known.value

    assert asyncio.run(run()) == 1


def test_metrics_are_told_where_the_index_cannot_be_asked(client, answers, monkeypatch):
    server = client()
    monkeypatch.setattr(answers, "_latest", fail(UnreachableError("it does not answer")))
    told = server.get("/metrics")
    assert told.status_code == 200
    assert f"}} {len(TEXTS)}.0" in told.text

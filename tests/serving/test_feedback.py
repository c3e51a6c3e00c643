"""Feedback over HTTP: by an answer's id or by the conversation, under the write key."""

import asyncio
import base64
import errno
import hashlib
import sqlite3
import time
from pathlib import Path

import pytest

from rejoinder.curation.feedback import FeedbackLog
from rejoinder.curation.outcomes import Recorder
from rejoinder.retrieval.index import Index
from rejoinder.serving import changes, edits, recent_answers
from rejoinder.serving.worker import reports
from rejoinder.serving.worker.answers import Answers
from rejoinder.serving.worker.sources import Sources
from rejoinder.serving.guard import Keys
from rejoinder.serving.recent_answers import RecentAnswers, recent_answer
from tests.retrieval.conftest import HashEncoder
from tests.serving.conftest import TEXTS, running

REPLIES = [{"position": at, "text": text} for at, text in enumerate(TEXTS[:3])]


def ask(server, text):
    return server.post("/v1/replies", json={"messages": [text], "k": 3}).json()


def test_feedback_names_an_answer_or_sends_it(client, sources):
    server = client()
    answer = ask(server, TEXTS[3])
    positions = [reply["position"] for reply in answer["replies"]]
    by_id = server.post("/v1/feedback", json={"answer": answer["answer"], "chosen": 3, "source": "anna"})
    assert (by_id.status_code, by_id.json()) == (200, {"id": 1, "chosen": 3})
    whole = {"messages": [TEXTS[3]], "offered": positions, "chosen": 3, "text": None, "source": "anna"}
    assert server.post("/v1/feedback", json=whole).json() == {"id": 2, "chosen": 3}
    one, other = FeedbackLog(sources.index)
    assert (one.context, one.offered, one.chosen) == ((TEXTS[3],), tuple(TEXTS[at] for at in positions), TEXTS[3])
    assert (one.context, one.offered, one.chosen, one.source) == (other.context, other.offered, other.chosen, other.source)


def test_own_texts_and_none_taken(client, sources):
    server = client()
    name = ask(server, "Hm?")["answer"]
    assert server.post("/v1/feedback", json={"answer": name, "text": "Reply number 7!"}).json()["chosen"] == 7
    assert server.post("/v1/feedback", json={"answer": name, "text": "A friend will call."}).json()["chosen"] is None
    assert server.post("/v1/feedback", json={"answer": name}).json() == {"id": 3, "chosen": None}
    chat = [{"role": "user", "content": "Hi"}, {"role": "user", "content": "there"}]
    assert server.post("/v1/feedback", json={"messages": chat, "chosen": None, "text": None}).status_code == 200
    assert [(each.chosen, each.text) for each in FeedbackLog(sources.index)] == [
        (TEXTS[7], None), (None, "A friend will call."), (None, None), (None, None)]  # fmt: skip
    assert list(FeedbackLog(sources.index))[-1].context == ("Hi there",)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 400, "give answer, or messages and offered"),
        ({"messages": ["Hi!"], "answer": "x"}, 400, "give answer, or messages and offered"),
        ({"answer": "x", "offered": [1]}, 400, "give answer, or messages and offered"),
        ({"answer": "f" * 32}, 404, "send messages and offered instead"),
        ({"answer": "never"}, 404, "no answer 'never' here"),
        ({"messages": ["Hi!"], "offered": [99]}, 404, "the index has no reply 99"),
        ({"messages": ["Hi!"], "chosen": "x"}, 404, "the id 'x'"),
        ({"messages": ["Hi!"], "chosen": True}, 422, "chosen"),
        ({"messages": ["Hi!"], "chosen": 1.5}, 422, "chosen"),
        ({"messages": ["Hi!"], "offered": [-1]}, 422, "offered"),
        ({"messages": [], "offered": [1]}, 422, "messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, 400, "no message"),
        ({"messages": ["Hi!"], "text": "  "}, 422, "text"),
        ({"messages": ["Hi!"], "chose": 1}, 422, "chose"),
    ],
)
def test_wrong_feedback_is_told_what_was_wrong(client, sources, body, status, said):
    answer = client().post("/v1/feedback", json=body)
    assert (answer.status_code, said in answer.json()["error"]["message"]) == (status, True), answer.text
    assert not FeedbackLog(sources.index).database.path.exists()


def test_feedback_wants_the_write_key(client):
    server = client(keys=Keys(b"look", b"change"))
    for key, status in (("look", 403), ("change", 200), ("no", 401)):
        headers = {"Authorization": f"Bearer {key}"}
        body = {"messages": ["Hi!"], "offered": [1]}
        assert server.post("/v1/feedback", json=body, headers=headers).status_code == status


def test_feedback_on_the_second_index_is_in_its_log(client, answers, tmp_path):
    other = Index.build(HashEncoder(), ["only this"], tmp_path / "other")
    answers.second = Answers(Sources(index=tmp_path / "other"), other, HashEncoder())
    server = client()
    asked = {"messages": ["only this"], "index": "second"}
    name = server.post("/v1/replies", json=asked).json()["answer"]
    assert server.post("/v1/feedback", json={"answer": name, "chosen": 0}).json() == {"id": 1, "chosen": 0}
    [entry] = FeedbackLog(tmp_path / "other")
    assert entry.chosen == "only this"


def test_an_answer_names_the_replies_as_they_were_offered(client, sources):
    """Even after the index was built again."""
    server = client()
    answer = ask(server, TEXTS[3])
    Index.build(HashEncoder(), ["new"] * 20, sources.index, overwrite=True)
    ask(server, "new")
    server.post("/v1/feedback", json={"answer": answer["answer"], "chosen": answer["replies"][0]["position"]})
    [entry] = FeedbackLog(sources.index)
    assert entry.chosen == TEXTS[3]


def test_replies_that_another_process_has_just_added_are_known(client, sources):
    server = client()
    Index.open(sources.index, HashEncoder()).add(["from outside"])
    body = {"messages": ["Hi!"], "offered": [20], "chosen": 20}
    assert server.post("/v1/feedback", json=body).json() == {"id": 1, "chosen": 20}


def test_a_crowd_gives_feedback_and_all_of_it_is_there(answers):
    async def run():
        async with running(answers) as (client, _):
            bodies = [{"messages": [f"q {i}"], "offered": [i % 20], "chosen": i % 20} for i in range(60)]
            sent = await asyncio.gather(*(client.post("/v1/feedback", json=body) for body in bodies))
            return [each.json()["id"] for each in sent]

    ids = asyncio.run(run())
    found = {entry.id: entry.context[0] for entry in FeedbackLog(answers.sources.index)}
    assert [found[at] for at in ids] == [f"q {i}" for i in range(60)]


@pytest.mark.parametrize("when", ["at-once", "later"])
def test_a_choice_becomes_an_example_at_once_or_later(answers, monkeypatch, when):
    monkeypatch.setattr(changes, "LEARNING_PAUSE", 0.01)
    answers.log.set(learn=when)

    async def run():
        async with running(answers) as (client, _):
            for number in range(3):
                body = {"messages": [f"unheard of {number}"], "offered": [5], "chosen": 5, "source": "anna"}
                assert (await client.post("/v1/feedback", json=body)).status_code == 200
            end = time.monotonic() + (20 if when == "at-once" else 0.5)
            while time.monotonic() < end:
                found = (await client.post("/v1/replies", json={"messages": ["unheard of 2"], "k": 1})).json()
                if found["replies"] and found["replies"][0]["position"] == 5:
                    return True
                await asyncio.sleep(0.01)
            return False

    assert asyncio.run(run()) == (when == "at-once")


def test_browsers_show_the_report_with_its_style(client):
    answer = client().get("/v1/report?form=html")
    style = answer.text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    [policy] = answer.headers.get_list("content-security-policy")
    assert f"style-src 'sha256-{digest}'" in policy
    assert "default-src 'self'; frame-ancestors 'none'" in policy


def test_the_report_wants_the_write_key_and_has_three_forms(client, answers):
    Recorder(answers.index, answers.log).feedback(["<b>Hm?</b>"], [0], text="Well.")
    server = client(keys=Keys(b"look", b"change"))
    for key, status in (("look", 403), ("change", 200)):
        told = server.get("/v1/report", headers={"Authorization": f"Bearer {key}"})
        assert told.status_code == status
    assert (told.json()["entries"], told.json()["unanswered"]) == (1, 1)
    for form, start in (("html", "<!doctype html>"), ("markdown", f"# Use of {answers.index.store.name}")):
        shown = server.get(f"/v1/report?form={form}", headers={"Authorization": "Bearer change"})
        assert shown.headers["content-type"] == f"text/{form}; charset=utf-8"
        assert shown.text.startswith(start)
        assert "<b>" not in shown.text
    assert server.get("/v1/report?form=pdf", headers={"Authorization": "Bearer change"}).status_code == 422


@pytest.mark.parametrize(("number", "status"), [(errno.EACCES, 403), (errno.EROFS, 403), (errno.ENOSPC, 507)])
def test_a_disk_that_takes_nothing_is_said(client, monkeypatch, number, status):
    def refuse(*_):
        raise OSError(number, "no")

    monkeypatch.setattr(FeedbackLog, "append", refuse)
    answer = client().post("/v1/feedback", json={"messages": ["Hi!"], "offered": [1]})
    assert answer.status_code == status


def test_recent_answers_are_kept_until_others_need_their_room():
    ring = RecentAnswers(size=2000)
    names = [ring.add(recent_answer("first", [f"message {i}"], REPLIES)) for i in range(30)]
    found = [ring.get(name) for name in names]
    kept = [each is not None for each in found]
    assert kept == sorted(kept)
    assert 5 < sum(kept) < 30
    assert found[-1] == ("first", ["message 29"], [0, 1, 2], TEXTS[:3])
    assert ring.get(ring.add(recent_answer("first", ["x" * 3000], REPLIES))) is None
    assert ring.get("0" * 32) is ring.get("") is ring.get(names[-1] + "0") is ring.get("ffffffff" * 4) is None


def test_recent_answers_are_forgotten_after_a_day(monkeypatch):
    ring = RecentAnswers()
    name = ring.add(recent_answer("first", ["Hi!"], REPLIES))
    now = time.time()
    monkeypatch.setattr(recent_answers.time, "time", lambda: now + recent_answers.SECONDS + 1)
    assert ring.get(name) is None


def test_workers_read_each_others_answers_and_old_rings_go(tmp_path):
    one, other = RecentAnswers(tmp_path), RecentAnswers(tmp_path)
    name = one.add(recent_answer("second", ["Hi!"], REPLIES))
    assert other.get(name) == one.get(name) == ("second", ["Hi!"], [0, 1, 2], TEXTS[:3])
    third = RecentAnswers(tmp_path)
    assert len(list(tmp_path.iterdir())) == 4
    assert third.get("ffffffff" + name[8:]) is None


def test_workers_share_answers_by_files_that_only_they_can_read(tmp_path):
    key = b"k" * 32
    one, other = RecentAnswers(tmp_path, key=key), RecentAnswers(tmp_path, key=key)
    texts = [f"my secret number is {number}" for number in range(3)] + ["a large secret " * 1000]
    names = [one.add(recent_answer("first", [text], REPLIES)) for text in texts]
    assert [other.get(name).messages for name in names] == [[text] for text in texts]
    assert not [path for path in tmp_path.iterdir() if b"secret" in path.read_bytes()]
    assert RecentAnswers(tmp_path, key=b"l" * 32, workers=9).get(names[0]) is None


def test_workers_that_start_at_once_delete_the_same_old_rings(tmp_path, monkeypatch):
    for _ in range(3):
        RecentAnswers(tmp_path)
    glob = Path.glob

    def beside_another(folder, pattern):
        paths = sorted(glob(folder, pattern))
        paths[0].unlink()
        return paths

    monkeypatch.setattr(Path, "glob", beside_another)
    RecentAnswers(tmp_path)
    assert len(list(tmp_path.iterdir())) == 4


def test_large_conversations_displace_no_small_ones():
    ring = RecentAnswers()
    name = ring.add(recent_answer("first", ["Where is my order?"], REPLIES))
    large = [ring.add(recent_answer("first", ["x" * 20_000] * 4 + [f"last {at}"], REPLIES)) for at in range(1000)]
    assert ring.get(name) == ("first", ["Where is my order?"], [0, 1, 2], TEXTS[:3])
    assert ring.get(large[-1]).messages == ["x" * 20_000] * 3 + ["last 999"]
    assert ring.get(large[0]) is None


def test_an_id_that_points_into_a_text_names_no_answer():
    """Whoever writes a conversation could write what looks like a record."""
    header = recent_answers._HEADER.pack(b"12345678", time.time(), 5)
    ring = RecentAnswers()
    name = ring.add(recent_answer("first", ["Hi!"], REPLIES))
    ring._small.bytes[100 : 100 + len(header) + 5] = header + b"{]!{]"
    assert ring.get(f"{name[:8]}{100:08x}{b'12345678'.hex()}") is None
    assert ring.get(name) is not None


def test_a_background_task_that_fails_is_counted_shown_and_started_again(answers, monkeypatch):
    monkeypatch.setattr(changes, "LEARNING_PAUSE", 0.01)
    monkeypatch.setattr("rejoinder.serving.background.PAUSE", 0.01)
    answers.log.set(learn="at-once")
    failures = iter([KeyError("secret words"), sqlite3.ProgrammingError("closed")])
    learn = edits.learn

    def fail(*arguments):
        if (error := next(failures, None)) is not None:
            raise error
        return learn(*arguments)

    monkeypatch.setattr(edits, "learn", fail)

    async def run():
        async with running(answers) as (client, _):
            body = {"messages": ["unheard of"], "offered": [5], "chosen": 5}
            assert (await client.post("/v1/feedback", json=body)).status_code == 200
            for _ in range(500):
                found = (await client.post("/v1/replies", json={"messages": ["unheard of"], "k": 1})).json()
                if found["replies"] and found["replies"][0]["position"] == 5:
                    break
                await asyncio.sleep(0.01)
            else:
                pytest.fail("nothing was learned")
            ready = await client.get("/ready")
            monkeypatch.setattr("rejoinder.serving.background.RECENT", 0.0)
            later = await client.get("/ready")
            metrics = (await client.get("/metrics")).text
            return ready.status_code, ready.json()["reason"], later.json(), metrics

    status, reason, later, metrics = asyncio.run(run())
    assert (status, reason) == (200, "learning failed 2 times, at last by ProgrammingError")
    assert later == {"status": "ready"}  # it has not failed again
    assert 'rejoinder_background_failures_total{task="learning"} 2.0' in metrics


def test_a_change_that_is_being_made_is_not_told_as_late(answers, monkeypatch):
    add = edits.add

    def slow(*arguments):
        time.sleep(0.5)
        return add(*arguments)

    monkeypatch.setattr(edits, "add", slow)

    async def run():
        async with running(answers, seconds=0.2) as (client, _):
            new = [client.post("/v1/candidates", json={"candidates": [f"new {at}"]}) for at in range(3)]
            first = asyncio.create_task(new[0])
            await asyncio.sleep(0.05)
            return [await first, *await asyncio.gather(*new[1:])]

    answered = asyncio.run(run())
    texts = {reply.text for _, reply in Index.open(answers.sources.index)}
    for at, answer in enumerate(answered):
        assert (answer.status_code == 201) == (f"new {at}" in texts), answer.text
    assert answered[0].status_code == 201


def test_feedback_counts_for_replies_as_they_are_now(client):
    server = client()
    said = {"messages": ["open on Monday?"], "text": "We are closed on Mondays."}
    server.post("/v1/candidates", json={"candidates": ["We are closed on Mondays."]}).raise_for_status()
    assert server.post("/v1/feedback", json=said).json()["chosen"] == 20
    server.post("/v1/edits", json={"replace": {"position": 2, "payload": {"id": "first"}}}).raise_for_status()
    named = {"messages": ["Hi!"], "offered": ["first"], "chosen": "first"}
    assert server.post("/v1/feedback", json=named).json()["chosen"] == 2
    assert server.post("/v1/replies", json={"messages": ["Hi!"]}).status_code == 200
    assert server.post("/v1/feedback", json=named).json()["chosen"] == 2


def test_a_report_is_of_one_state_of_the_index(answers, monkeypatch):
    count = len(answers.index)
    Recorder(answers.index, answers.log).feedback(["Hi!"], [5])
    told = reports.usage

    def changing(index, log):
        usage = told(index, log)
        answers.change(lambda opened: opened.delete([5]))
        answers.refresh()
        return usage

    monkeypatch.setattr(reports, "usage", changing)
    [report] = answers.report([None])
    assert len(answers.index) == count - 1
    assert report.usage["entries"] == 1

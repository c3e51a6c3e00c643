"""Replies edited over HTTP: logged, undone, imported; and the index stays of few segments."""

import base64
from concurrent.futures import ThreadPoolExecutor

import pytest

from rejoinder.retrieval.index import Index
from rejoinder.serving.guard import Keys
from rejoinder.serving.worker.answers import Answers
from tests.retrieval.conftest import HashEncoder
from tests.serving.conftest import TEXTS


def replies(sources):
    return dict(Index.open(sources.index, HashEncoder()))


def edit(server, **body):
    answer = server.post("/v1/edits", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_reply_is_edited_found_and_the_edit_undone(client, sources):
    server = client()
    made = edit(server, replace={"position": 3, "text": "zebra", "title": "animal", "examples": ["what is striped"]})
    assert (made["change"], made["kind"], made["undone"]) == (1, "edit", False)
    [state] = made["replies"]
    assert (state["before"]["text"], state["after"]["text"]) == (TEXTS[3], "zebra")
    [best] = server.post("/v1/replies", json={"messages": ["what is striped"], "k": 1}).json()["replies"]
    assert (best["position"], best["text"], best["payload"]) == (3, "zebra", {"team": "billing", "id": 3})
    assert edit(server, undo=1)["kind"] == "undo"
    assert replies(sources)[3].text == TEXTS[3]
    listed = server.get("/v1/edits").json()["changes"]
    assert [(each["change"], each["undone"]) for each in listed] == [(2, False), (1, True)]


def test_an_edit_that_changes_nothing_is_answered_and_stands_in_no_list(client):
    server = client()
    for _ in range(2):
        made = edit(server, replace={"position": 3, "text": TEXTS[3]})
        assert (made["change"], made["replies"]) == (0, [])
    assert server.get("/v1/edits").json()["changes"] == []


def test_replies_are_merged_and_examples_moved(client, sources):
    server = client()
    server.post("/v1/examples", json={"position": 4, "examples": ["one question", ["Hi!", "another one"]]})
    edit(server, move={"example": ["Hi!", "another one"], "position": 4, "to": 5})
    edit(server, merge={"position": 6, "other": 4})
    found = replies(sources)
    assert 4 not in found
    assert (found[5].examples, found[6].examples) == ((("Hi!", "another one"),), (("one question",),))
    kinds = [each["kind"] for each in server.get("/v1/edits", params={"limit": 2}).json()["changes"]]
    assert kinds == ["merge", "move"]


def test_additions_and_deletions_are_changes_too(client, sources):
    server = client()
    server.post("/v1/candidates", json={"candidates": ["new one", "new two"]})
    server.delete("/v1/candidates/2")
    assert [each["kind"] for each in server.get("/v1/edits").json()["changes"]] == ["retire", "add"]
    edit(server, undo=2)
    edit(server, undo=1)
    assert list(replies(sources)) == list(range(20))


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 422, "give one of replace, merge, move and undo"),
        ({"undo": 1, "merge": {"position": 1, "other": 2}}, 422, "give one of"),
        ({"undo": 9}, 404, "no change 9"),
        ({"undo": True}, 422, "undo"),
        ({"replace": {"position": 99, "text": "x"}}, 404, "no reply 99"),
        ({"replace": {"position": 1, "text": " "}}, 422, "text"),
        ({"replace": {"position": 1, "txt": "x"}}, 422, "txt"),
        ({"replace": {"position": 1, "examples": [[{"role": "system", "content": "x"}]]}}, 400, "no message"),
        ({"merge": {"position": 1, "other": 1}}, 400, "with itself"),
        ({"merge": {"position": 1, "other": 99}}, 404, "no reply 99"),
        ({"move": {"example": "x", "position": 1, "to": 2}}, 404, "no such example"),
        ({"move": {"example": "x", "position": 1, "to": 1}}, 400, "name two replies"),
    ],
)
def test_wrong_edits_are_told_what_was_wrong(client, sources, body, status, said):
    answer = client().post("/v1/edits", json=body)
    assert (answer.status_code, said in answer.json()["error"]["message"]) == (status, True), answer.text
    assert replies(sources)[1].text == TEXTS[1]


def test_a_change_that_cannot_be_undone_is_not_told_as_missing(client):
    server = client()
    for text in ("zebra", "lion"):
        edit(server, replace={"position": 3, "text": text})
    for undone, status, said in ((1, 400, "has changed since"), (2, 200, ""), (2, 400, "undone already")):
        answer = server.post("/v1/edits", json={"undo": undone})
        assert (answer.status_code, said in answer.text) == (status, True), answer.text


def test_editing_and_reading_the_log_want_the_write_key(client):
    server = client(keys=Keys(b"look", b"change"))
    file = {"name": "a.txt", "content": base64.b64encode(b"new").decode()}
    for key, statuses in (("look", (403, 403, 403)), ("change", (404, 201, 200))):
        headers = {"Authorization": f"Bearer {key}"}
        found = (
            server.post("/v1/edits", json={"undo": 9}, headers=headers).status_code,
            server.post("/v1/import", json=file, headers=headers).status_code,
            server.get("/v1/edits", headers=headers).status_code,
        )
        assert found == statuses


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("replies.txt", f"one\ntwo\none\n{TEXTS[0]}\n", ["one", "two"]),
        ("faq.csv", "question,answer\nWhen?,At nine.\nWhere?,Here.\n", ["At nine.", "Here."]),
        ("replies.jsonl", '{"text": "at nine", "title": "hours", "examples": ["when"]}\n', ["at nine"]),
    ],
)
def test_files_are_imported_in_the_forms_that_people_have(client, sources, name, content, texts):
    server = client()
    body = {"name": name, "content": base64.b64encode(content.encode()).decode()}
    answer = server.post("/v1/import", json=body)
    assert answer.status_code == 201, answer.text
    assert [replies(sources)[at].text for at in answer.json()["positions"]] == texts
    assert answer.json()["known"] == (TEXTS[0] in content)
    assert name in answer.json()["notes"][0]
    again = server.post("/v1/import", json=body).json()
    assert (again["positions"], again["known"]) == ([], len(texts) + (TEXTS[0] in content))
    edit(server, undo=1)
    assert len(replies(sources)) == 20


@pytest.mark.parametrize(
    ("name", "content", "status", "said"),
    [
        ("a.txt", "", 400, "a.txt is empty"),
        ("a.json", "{", 400, "a.json"),
        ("../../etc/passwd.txt", "x", 201, ""),
        ("a.b/c", "{", 400, "a.b/c"),
        ("a.<script>", "{", 400, "a.<script>"),
    ],
)
def test_files_that_hold_no_replies_are_refused(client, name, content, status, said):
    body = {"name": name, "content": base64.b64encode(content.encode()).decode()}
    answer = client().post("/v1/import", json=body)
    assert answer.status_code == status, answer.text
    assert said in answer.json().get("error", {}).get("message", "")
    assert "/tmp" not in answer.text


def test_what_is_no_base64_is_refused(client):
    answer = client().post("/v1/import", json={"name": "a.txt", "content": "???"})
    assert (answer.status_code, "not base64" in answer.text) == (400, True)


def test_changes_of_two_servers_are_each_made_in_one_attempt(sources):
    """Neither opens the index only to find that the other has changed it."""
    attempts = []

    def change(index, text):
        attempts.append(text)
        index.add([text])

    def add(number):
        encoder = HashEncoder()
        answers = Answers(sources, Index.open(sources.index, encoder), encoder)
        for text in (f"reply {number} of {count}" for count in range(10)):
            answers.change(lambda index, text=text: change(index, text))
        answers.close()

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(add, range(2)))
    assert len(attempts) == 20
    assert set(attempts) <= {reply.text for _, reply in Index.open(sources.index, HashEncoder())}

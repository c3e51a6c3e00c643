"""The page: its files, what it asks of the server."""

import re


from rejoinder.retrieval.index import Index
from rejoinder.serving.answers import Answers, Sources
from rejoinder.serving.app import PAGE
from tests.retrieval.conftest import HashEncoder


def test_the_files_are_served_and_need_nothing_from_elsewhere(client):
    server = client()
    found = {path.name: server.get("/" if path.name == "index.html" else f"/{path.name}") for path in PAGE.iterdir()}
    assert {answer.status_code for answer in found.values()} == {200}
    assert sum(len(answer.content) for answer in found.values()) < 100_000
    asked = set(re.findall(r'(?:src|href)="([^"#]+)"', found["index.html"].text))
    asked |= set(re.findall(r'from "\./([^"]+)"', found["app.js"].text))
    assert asked == found.keys() - {"index.html", "suggest.js"}, "suggest.js is for pages of others"
    for answer in found.values():
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", answer.text)
    assert "style=" not in found["index.html"].text, "the server's policy would refuse it"
    assert server.post("/v1/nothing").status_code == 404
    assert server.get("/../app.py").status_code == 404


def test_it_is_told_what_there_is_and_may_compare_two_indexes(client, answers, tmp_path):
    facts = {"index": "index", "model": "hash-model", "size": 24, "candidates": 20, "calibrated": False}
    one = client()
    assert one.get("/v1/about").json() == {"first": facts, "second": None, "intents": False}
    asked = {"messages": ["reply number 3"], "k": 1, "index": "second"}
    assert "--beside" in one.post("/v1/replies", json=asked).json()["error"]["message"]
    other = tmp_path / "other"
    answers.second = Answers(Sources(index=other), Index.build(HashEncoder(), ["only this"], other), HashEncoder())
    two = client()
    assert two.get("/v1/about").json()["second"] == {**facts, "index": "other", "candidates": 1}
    assert [each["text"] for each in two.post("/v1/replies", json=asked).json()["replies"]] == ["only this"]
    assert two.post("/v1/replies", json={**asked, "index": "first"}).json()["replies"][0]["text"] == "reply number 3"


def test_there_is_no_map(client):
    server = client()
    assert server.get("/v1/map").status_code == 404
    assert server.get("/map.js").status_code == 404
    assert "/v1/map" not in server.get("/openapi.json").json()["paths"]

"""The page: its files, what it asks of the server, the map of the replies."""

import asyncio
import re
import threading

import numpy as np
import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.retrieval.index import Index
from rejoinder.serving.answers import Answers, Sources
from rejoinder.serving.app import PAGE
from rejoinder.serving.reports import LEAST, MOST, ReplyMap
from tests.retrieval.conftest import HashEncoder
from tests.serving.conftest import running


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


def test_the_map_is_drawn_once(client, monkeypatch):
    server, drawn = client(), []
    draw = ReplyMap.draw
    monkeypatch.setattr(ReplyMap, "draw", lambda index: drawn.append(1) or draw(index))
    for field in ("team", "none"):
        assert len(server.get("/v1/map", params={"field": field}).json()["points"]) == 20
    assert drawn == [1]


def test_who_no_longer_waits_for_the_map_starts_no_second_one(answers, monkeypatch):
    draw, drawn, free = ReplyMap.draw, [], threading.Event()
    monkeypatch.setattr(ReplyMap, "draw", lambda index: drawn.append(free.wait(10)) or draw(index))

    async def run():
        async with running(answers, seconds=0.2) as (client, _):
            late = [(await client.get("/v1/map")).status_code for _ in range(3)]
            free.set()
            while (last := (await client.get("/v1/map")).status_code) == 503:
                pass
            return late, last

    assert asyncio.run(run()) == ([503, 503, 503], 200)
    assert drawn == [True]


def test_the_map(tmp_path):
    candidates = [Candidate(f"reply {i}", {"team": ["a", "b", "c"][i % 3], "id": i}) for i in range(40)]
    index = Index.build(HashEncoder(), candidates, tmp_path / "index")
    drawn = ReplyMap.draw(index)
    assert drawn.fields() == ["team"], "an id tells every reply apart, which is no colour"
    found = drawn.to_json("team")
    assert (len(found["points"]), found["total"], found["groups"]) == (40, 40, ["a", "b", "c"])
    points = np.array([[each["x"], each["y"]] for each in found["points"]])
    assert (points.min(), points.max()) == (0, 1)
    assert [each["group"] for each in found["points"]] == [i % 3 for i in range(40)]
    by_id = drawn.to_json("id")["groups"]
    assert (len(by_id), by_id[-1]) == (10, "others")
    likeness = drawn.to_json(None)
    assert 1 < len(likeness["groups"]) <= 8


@pytest.mark.parametrize("count", [0, 1, LEAST - 1, MOST + 1])
def test_maps_of_few_and_of_many(tmp_path, count, monkeypatch):
    monkeypatch.setattr("rejoinder.serving.reports.project", lambda vectors, **_: vectors[:, :2])
    index = Index.build(HashEncoder(), [f"reply {i}" for i in range(count)], tmp_path / "index")
    found = ReplyMap.draw(index).to_json(None)
    assert found["total"] == count
    assert len(found["points"]) == (count if count <= MOST else -(-count // 2))


def test_a_map_is_kept_with_the_index_and_drawn_anew_when_it_is_another_or_damaged(tmp_path, monkeypatch):
    index = Index.build(HashEncoder(), [f"reply {i}" for i in range(40)], tmp_path / "index")
    drawn, kept = ReplyMap.draw(index), tmp_path / "index" / "map.json"
    asked = []
    monkeypatch.setattr("rejoinder.serving.reports.project", lambda vectors, **_: asked.append(1) or vectors[:, :2])
    assert (ReplyMap.draw(Index.open(index.folder)).to_json(None), asked) == (drawn.to_json(None), [])
    for number, damage in enumerate(("", "{}", '{"fingerprint": 1}', kept.read_text().replace("]]", "], [0, 0]]")), 1):
        kept.write_text(damage)
        assert len(ReplyMap.draw(index).points) == 40
        assert len(asked) == number
    index.add(["one more"])
    assert (len(ReplyMap.draw(index).points), len(asked)) == (41, 5)


def test_a_map_is_shown_where_nothing_can_be_written(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("rejoinder.serving.reports.atomic_file", full)
    index = Index.build(HashEncoder(), ["one", "two"], tmp_path / "index")
    assert len(ReplyMap.draw(index).points) == 2
    assert not (tmp_path / "index" / "map.json").exists()

"""The page: its files, what it asks of the server."""

import re


from rejoinder.corpora.schema import Candidate
from rejoinder.retrieval.index import Index
from rejoinder.serving.worker.answers import Answers
from rejoinder.serving.worker.sources import Sources
from rejoinder.serving.app import PAGE
from rejoinder.serving.guard import Keys
from tests.retrieval.conftest import HashEncoder


def test_the_files_are_served_and_need_nothing_from_elsewhere(client):
    server = client()
    found = {path.name: server.get("/" if path.name == "index.html" else f"/{path.name}") for path in PAGE.iterdir()}
    assert {answer.status_code for answer in found.values()} == {200}
    assert sum(len(answer.content) for answer in found.values()) < 100_000
    asked = set(re.findall(r'(?:src|href)="([^"#]+)"', found["index.html"].text))
    for name, answer in found.items():
        if name.endswith(".js") and name != "suggest.js":  # which is for pages of others
            asked |= set(re.findall(r'from "\./([^"]+)"', answer.text))
    assert asked == found.keys() - {"index.html", "suggest.js"}
    for answer in found.values():
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", answer.text)
    assert "style=" not in found["index.html"].text, "the server's policy would refuse it"
    assert server.post("/v1/nothing").status_code == 404
    assert server.get("/../app.py").status_code == 404


def test_it_is_told_what_there_is_and_may_compare_two_indexes(client, answers, tmp_path):
    facts = {"index": answers.index.store.name, "model": "hash-model", "size": 24, "candidates": 20, "calibrated": False, "minimum_score": None}
    one = client()
    own = {"intents": False, "minimum_confidence": None, "may_write": True}
    assert one.get("/v1/about").json() == {"first": facts, "second": None, **own}
    asked = {"messages": ["reply number 3"], "k": 1, "index": "second"}
    assert "--beside" in one.post("/v1/replies", json=asked).json()["error"]["message"]
    other = tmp_path / "other"
    answers.second = Answers(Sources(index=other), Index.build(HashEncoder(), ["only this"], other), HashEncoder())
    two = client()
    assert two.get("/v1/about").json()["second"] == {**facts, "index": answers.second.index.store.name, "candidates": 1}
    assert [each["text"] for each in two.post("/v1/replies", json=asked).json()["replies"]] == ["only this"]
    assert two.post("/v1/replies", json={**asked, "index": "first"}).json()["replies"][0]["text"] == "reply number 3"


def test_it_is_told_what_is_left_out_and_what_a_key_may_do(client, answers):
    replies = [Candidate("We open at nine.", examples=(("when do you open",),)), Candidate("Bye.", title="end")]
    index = Index.build(HashEncoder(), replies, answers.sources.index, overwrite=True)
    answers.index = index
    server = client(keys=Keys(b"a key that reads", b"a key that writes"), minimum_confidence=0.8)
    assert server.get("/v1/about").status_code == 401
    reads, writes = (
        server.get("/v1/about", headers={"authorization": f"Bearer a key that {verb}"}).json()
        for verb in ("reads", "writes")
    )
    assert (reads["may_write"], writes["may_write"]) == (False, True)
    assert reads["minimum_confidence"] == 0.8
    assert reads["first"]["minimum_score"] == index.manifest.head.minimum_score


def test_tabs_are_named_by_links_and_tied_to_their_panels(client):
    html = client().get("/").text
    tabs = re.findall(r'<a role="tab" id="(\S+)" href="#(\S+)" aria-controls="(\S+)"', html)
    assert [name for _, name, _ in tabs] == ["try", "replies", "use"]
    for tab, _, panel in tabs:
        assert f'<div id="{panel}" class="panel" role="tabpanel" aria-labelledby="{tab}"' in html
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert not {"try", "replies", "use"} & set(ids), "a link would scroll there"


def test_scripts_ask_for_elements_that_there_are(client):
    server = client()
    ids = set(re.findall(r' id="([^"]+)"', server.get("/").text))
    used = set()
    for path in PAGE.glob("*.js"):
        used |= set(re.findall(r'byId\("([^"]+)"\)', path.read_text(encoding="utf-8")))
    assert used - ids == set()
    assert len(used) > 30


def test_there_is_no_map(client):
    server = client()
    assert server.get("/v1/map").status_code == 404
    assert server.get("/map.js").status_code == 404
    assert "/v1/map" not in server.get("/openapi.json").json()["paths"]

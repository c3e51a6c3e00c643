"""Fields of the APIs that are imitated: each one obeyed, or ignored with a note; what a page says of them is so."""

import re
from pathlib import Path

import pytest

from rejoinder.serving.wire import imitated, requests
from rejoinder.serving.http import retries
from rejoinder.serving.wire.token_arrays import is_token_array
from tests.serving.conftest import TEXTS

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text()
ROWS = [
    (verb, name, effect)
    for verb, names, effect in re.findall(r"^\| (embeddings|rerank) (`[^|]*) \| [^|]* \| (.*) \|$", PAGE, re.MULTILINE)
    for name in re.findall(r"`(\w+)`", names)
]
FORMS = {
    "embeddings": (requests.EmbeddingsRequest, imitated.EMBEDDINGS),
    "rerank": (requests.RerankRequest, imitated.RERANK),
}


@pytest.mark.parametrize("verb", FORMS)
def test_the_page_lists_every_field_with_what_is_done(verb):
    form, fields = FORMS[verb]
    effects = {name: effect for own, name, effect in ROWS if own == verb}
    assert set(effects) == {*form.model_fields, *fields}
    for name, effect in effects.items():
        is_ignored = isinstance(fields.get(name), imitated.Ignored)
        assert effect.startswith("ignored") == is_ignored, name
        if isinstance(renamed := fields.get(name), imitated.Renamed) and renamed.name != name:
            assert f"`{renamed.name}`" in effect, name


BODIES = {"embeddings": {"input": ["a"]}, "rerank": {"query": "reply", "documents": TEXTS[:3]}}


@pytest.mark.parametrize(("verb", "name"), [(verb, name) for verb, name, effect in ROWS if effect.startswith("ignored")])
def test_a_field_that_is_ignored_is_noted_and_changes_nothing(client, verb, name):
    server = client()
    plain = server.post(f"/v1/{verb}", json=BODIES[verb]).json()
    answer = server.post(f"/v1/{verb}", json={**BODIES[verb], name: 7}).json()
    [note] = answer.pop("notes")
    assert note.startswith(f"{name} is ignored: ")
    assert answer | {"id": ""} == plain | {"id": ""}
    for value in (None, *FORMS[verb][1][name].as_done):
        assert "notes" not in server.post(f"/v1/{verb}", json={**BODIES[verb], name: value}).json()


@pytest.mark.parametrize("verb", FORMS)
def test_null_is_absent_and_fields_of_nobody_are_refused(client, verb):
    server = client()
    form, fields = FORMS[verb]
    optional = dict.fromkeys({*form.model_fields, *fields} - BODIES[verb].keys())
    assert server.post(f"/v1/{verb}", json={**BODIES[verb], **optional}).status_code == 200
    refused = server.post(f"/v1/{verb}", json={**BODIES[verb], "colour": "red"})
    assert (refused.status_code, refused.json()["error"]["param"]) == (422, "colour")


def test_sides_and_tasks_of_other_apis(client):
    server = client()

    def vector(**fields):
        return server.post("/v1/embeddings", json={"input": "reply", **fields}).json()["data"][0]["embedding"]

    sides = {side: vector(input_type=side) for side in ("query", "document")}
    for fields, side in (({"input_type": "search_document"}, "document"), ({"task": "retrieval.passage"}, "document"),
                         ({"task": "retrieval.query"}, "query"), ({"input_type": "passage"}, "document"),
                         ({"embedding_type": "float"}, "query"), ({"output_dimension": 24}, "query")):  # fmt: skip
        assert vector(**fields) == sides[side]
    refused = server.post("/v1/embeddings", json={"input": "a", "output_dtype": "int8"})
    assert refused.status_code == 400
    assert "output_dtype is 'int8'; it is one of float" in refused.text


def test_documents_with_fields_and_blank_ones(client):
    server = client()
    documents = [" ", {"text": TEXTS[1], "id": 7}, {"text": TEXTS[2]}, ""]
    body = {"query": TEXTS[2], "documents": documents, "return_documents": True}
    found = server.post("/v1/rerank", json=body).json()
    assert [each["index"] for each in found["results"]] == [2, 1, 0, 3]
    assert found["results"][1]["document"] == {"text": TEXTS[1], "id": 7}
    assert found["results"][2]["document"] == {"text": " "}
    assert {"prompt_tokens", "total_tokens"} == found["usage"].keys()
    fields = {"query": TEXTS[2], "documents": [{"title": TEXTS[2], "body": ""}, {"title": TEXTS[3]}]}
    assert "it needs text, or name others as rank_fields" in server.post("/v1/rerank", json=fields).text
    found = server.post("/v1/rerank", json={**fields, "rank_fields": ["title", "body"]}).json()["results"]
    assert [each["index"] for each in found] == [0, 1]
    assert len(server.post("/v1/rerank", json={"query": "a", "documents": ["", " "]}).json()["results"]) == 2


PARTS = [{"type": "text", "text": TEXTS[3]}, {"type": "image_url", "image_url": {"url": "x"}}]


@pytest.mark.parametrize("messages", [
    [{"role": "user", "content": PARTS}],
    ["", TEXTS[3]],
    [{"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}, {"role": "user", "content": TEXTS[3]}],
    [{"role": "user", "content": TEXTS[3]}, {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}],
    [{"role": "user", "content": TEXTS[3]}, {"role": "assistant", "content": ""}],
])  # fmt: skip
def test_messages_as_chat_apis_have_them(client, messages):
    server = client()
    wanted = server.post("/v1/replies", json={"messages": [TEXTS[3]]}).json()["replies"]
    answer = server.post("/v1/replies", json={"messages": messages})
    assert answer.json()["replies"] == wanted, answer.text


@pytest.mark.parametrize("messages", [["Hi", " "], [""], [{"role": "user", "content": " "}], []])
def test_a_blank_newest_message_is_refused(client, messages):
    assert client().post("/v1/replies", json={"messages": messages}).status_code in (400, 422)


def test_a_model_by_its_name(client):
    server = client()
    [facts] = (listed := server.get("/v1/models").json())["data"]
    assert server.get(f"/v1/models/{facts['id']}").json()["id"] == facts["id"]
    assert [each["name"] for each in listed["models"]] == [facts["id"]]
    assert server.get("/v1/models/gpt").status_code == 404


def test_tokens_are_told_from_texts(monkeypatch, client):
    assert is_token_array([1, 2])
    assert is_token_array([[1], [2, 3]])
    for value in ("a", ["a"], [], [True], [[]], [1, "a"]):
        assert not is_token_array(value)
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    refused = client().post("/v1/embeddings", json={"input": [1, 2]})
    assert "tokens, not texts" in refused.text
    assert "check_embedding_ctx_length=False" in refused.text


def test_times_to_come_again_are_spread_by_how_many_are_refused():
    pace = retries.Pace()
    pace.queue = 64
    assert pace.span() == 1
    times = [pace.after() for _ in range(86)]
    assert pace.span() == 7
    assert 0.5 <= min(times) < 1.5
    assert 3 < max(times) <= 7
    assert len({round(each, 3) for each in times}) > 40
    for _ in range(10_000):
        pace.after()
    assert pace.span() == 30
    headers = retries.retry_headers(429)
    assert int(headers["retry-after"]) * 1000 >= int(headers["retry-after-ms"]) > 0
    assert retries.retry_headers(400) == {}

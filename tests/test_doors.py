"""One conversation at every door: Python, command, HTTP, MCP and a desk find the same replies."""

import asyncio
import dataclasses
import json
import sys

import pytest
from fastapi.testclient import TestClient
from mcp.client import Client

import rejoinder
from rejoinder.cli.start import main
from rejoinder.integrations.mcp import make_server
from rejoinder.retrieval.options import SearchOptions
from rejoinder.serving.worker.sources import Sources
from rejoinder.serving.app import make_app
from rejoinder.serving.server_settings import ServerSettings
from rejoinder.serving.desk.index import SUGGESTED, IndexSearcher
from rejoinder.serving.wire.requests import RepliesRequest
from rejoinder.serving.worker.computing import Computing

ANSWERS = {
    "We open at nine.": ["when do you open", "opening hours"],
    "We open at nine!": ["are you open today"],
    "We will send another card.": ["i lost my card", "my card was stolen"],
    "You can pay by card.": ["how do i pay", "do you take cards"],
    "Your parcel is on its way.": ["where is my parcel", "has it been sent"],
}
CONVERSATIONS = [
    ["my card was stolen"],
    ["Hello!", "Good morning.", "when do you open?"],
    ["Dear team,\n\nI hope you are well. Where is my parcel?\n\nKind regards\nKim"],
]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("doors") / "index"
    return rejoinder.Index.build(rejoinder.load("convert-small"), ANSWERS, folder)


@pytest.fixture(scope="module")
def server(index):
    sources = Sources(index=index.folder)
    computing = Computing(sources)
    computing.open()
    with TestClient(make_app(ServerSettings(sources=sources), computing), base_url="http://localhost") as client:
        yield client


def positions(answer):
    return [reply["position"] for reply in answer["replies"]]


@pytest.mark.parametrize("messages", CONVERSATIONS, ids=["message", "conversation", "mail"])
def test_every_door_finds_the_same_replies(index, server, monkeypatch, capsys, messages):
    wanted = [reply.position for reply in index.search([messages])[0]]
    assert wanted

    monkeypatch.setattr(sys, "argv", ["rejoinder", "reply", str(index.folder), *messages, "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert positions(json.loads(capsys.readouterr().out)) == wanted

    assert positions(server.post("/v1/replies", json={"messages": messages}).json()) == wanted

    async def ask():
        async with Client(make_server(index)) as client:
            given = {"messages": messages, "count": SearchOptions.k}
            return await client.call_tool("suggest_replies", given)

    assert positions(json.loads(asyncio.run(ask()).content[0].text)) == wanted


def test_every_door_says_that_a_message_is_of_another_language(index, server, monkeypatch, capsys):
    message = "Wo bleibt denn meine Bestellung von letzter Woche?"
    monkeypatch.setattr(sys, "argv", ["rejoinder", "reply", str(index.folder), message, "--json"])
    with pytest.raises(SystemExit):
        main()
    told = json.loads(capsys.readouterr().out)
    assert (told["replies"], told["reason"]) == ([], "language")

    answer = server.post("/v1/replies", json={"messages": [message]}).json()
    assert (answer["replies"], answer["reason"]) == ([], "language")
    assert answer["notes"]["language"] == "unknown"

    async def ask():
        async with Client(make_server(index)) as client:
            return await client.call_tool("suggest_replies", {"messages": [message]})

    offered = json.loads(asyncio.run(ask()).content[0].text)
    assert (offered["replies"], offered["reason"]) == ([], "language")
    assert IndexSearcher(index).find([message]) == []


@pytest.mark.parametrize(
    ("message", "reason"),
    [("my card was not stolen", "denied"), ("the cat sleeps on my keyboard", None), ("do not juggle", None)],
)
def test_every_door_says_whether_only_the_opposite_is_answered(index, server, monkeypatch, capsys, message, reason):
    monkeypatch.setattr(sys, "argv", ["rejoinder", "reply", str(index.folder), message, "--json"])
    with pytest.raises(SystemExit):
        main()
    told = json.loads(capsys.readouterr().out)
    assert (told["replies"], told.get("reason")) == ([], reason)

    answer = server.post("/v1/replies", json={"messages": [message]}).json()
    assert (answer["replies"], answer.get("reason")) == ([], reason)

    async def ask():
        async with Client(make_server(index)) as client:
            return await client.call_tool("suggest_replies", {"messages": [message]})

    offered = json.loads(asyncio.run(ask()).content[0].text)
    assert (offered["replies"], offered.get("reason")) == ([], reason)
    assert index.silence([message]) == reason


@pytest.mark.parametrize("messages", CONVERSATIONS, ids=["message", "conversation", "mail"])
def test_a_desk_suggests_the_best_of_them(index, messages):
    wanted = index.search([messages], SUGGESTED, no_repeat=True)[0]
    assert IndexSearcher(index).find(messages) == wanted


def test_a_request_has_the_options_of_a_search_and_their_defaults():
    fields = RepliesRequest.model_fields
    options = {field.name: field.default for field in dataclasses.fields(SearchOptions)}
    assert {name: fields[name].default for name in options} == options
    assert set(fields) - set(options) == {"messages", "index"}

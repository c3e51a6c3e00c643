"""The tools of `rejoinder mcp`, by the library's own client: over standard input and output, and over HTTP."""

import asyncio
import json
import os
import subprocess
import sys

import pytest

import rejoinder
from rejoinder.corpora.schema import Candidate
from rejoinder.curation.feedback import FeedbackLog
from rejoinder.errors import InputError
from rejoinder.retrieval.index import Index
from rejoinder.stores.store import UnreachableError
from tests.logs import log_of
from tests.stores import place_of

pytest.importorskip("mcp")
from mcp import Client, StdioServerParameters

from rejoinder.integrations.mcp import make_server

REPLIES = [
    Candidate("We open at nine.", title="hours", examples=(("When do you open?",),)),
    Candidate("Your parcel is on its way.", examples=(("Where is my order?",),)),
    Candidate("A refund takes five days.", title="refund", examples=(("When is my money back?",),)),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mcp") / "index"
    Index.build(rejoinder.load("convert-small"), REPLIES, folder)
    return folder


async def used(server):
    """What a client is told by each tool, and the names of the tools."""
    async with Client(server, read_timeout_seconds=120) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        suggested = await client.call_tool(
            "suggest_replies", {"messages": ["Hi", "When do you open?"]}
        )
        foreign = await client.call_tool("suggest_replies", {"messages": ["Wo ist mein Paket?"]})
        assert foreign.structured_content["notes"] == {"language": "unknown"}
        found = foreign.structured_content["replies"]
        assert foreign.structured_content["reason"] == (None if found else "language")
        searched = await client.call_tool("search_replies", {"query": "refund", "count": 1})
        given = {"messages": ["When do you open?"], "offered": [0, 1]}
        taken = await client.call_tool("give_feedback", {**given, "text": "we open at nine"})
        assert taken.structured_content["chosen"] == 0
        wrong = await client.call_tool("give_feedback", {**given, "chosen": 99})
        assert wrong.is_error
        refused = await client.call_tool("suggest_replies", {"messages": []})
    return tools, suggested, searched, refused


def check(tools, suggested, searched, refused):
    assert tools == ["suggest_replies", "search_replies", "give_feedback"]
    assert suggested.structured_content["replies"][0]["text"] == "We open at nine."
    [found] = searched.structured_content["replies"]
    assert (found["position"], found["title"]) == (2, "refund")
    assert refused.is_error


def command(index, *words):
    return [sys.executable, "-m", "rejoinder", "mcp", place_of(index), *words]


def test_a_client_that_starts_the_command_is_answered(index):
    program, *words = command(index)
    check(
        *asyncio.run(used(StdioServerParameters(command=program, args=words, env=dict(os.environ))))
    )


def test_a_client_over_http_is_answered_and_other_hosts_are_not(index):
    server = subprocess.Popen(
        command(index, "--port", "0", "--json"), stdout=subprocess.PIPE, text=True
    )
    try:
        url = json.loads(server.stdout.readline())["url"]
        check(*asyncio.run(used(url)))
        assert url.startswith("http://127.0.0.1:")
        import httpx2

        answer = httpx2.post(url, json={}, headers={"host": "evil.example"}, trust_env=False)
        assert answer.status_code in (403, 421)
    finally:
        server.terminate()
        server.wait(30)


class Upper:
    """A classifier whose intents are the words of a text in capitals."""

    def predict(self, texts):
        from rejoinder.intents.prediction import Prediction

        return [
            Prediction((text.upper(),), ((text.upper(), 1.0),), out_of_scope=False)
            for text in texts
        ]


def test_intents_are_a_tool_if_there_is_a_classifier(index):
    async def classify():
        async with Client(make_server(Index.open(index), Upper())) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            return names, await client.call_tool("classify_intent", {"text": "refund"})

    names, answer = asyncio.run(classify())
    assert "classify_intent" in names
    assert answer.structured_content == {
        "labels": ["REFUND"], "out_of_scope": False, "ranking": {"REFUND": 1.0},
    }  # fmt: skip


def test_a_text_without_an_intent_is_refused_as_blank_messages_are(index):
    class Strict(Upper):
        def predict(self, texts):  # noqa: ARG002
            raise InputError("text 1 is blank")

    async def classify():
        async with Client(make_server(Index.open(index), Strict())) as client:
            return await client.call_tool("classify_intent", {"text": " "})

    answer = asyncio.run(classify())
    assert answer.is_error
    assert "text 1 is blank" in answer.content[0].text


def test_what_others_add_is_found(tmp_path):
    folder = tmp_path / "index"
    Index.build(rejoinder.load("convert-small"), REPLIES, folder)
    server = make_server(Index.open(folder))

    async def ask():
        async with Client(server) as client:
            Index.open(folder).add(["We ship to the moon."])
            return await client.call_tool("search_replies", {"query": "moon", "count": 1})

    [found] = asyncio.run(ask()).structured_content["replies"]
    assert found["text"] == "We ship to the moon."


def test_texts_have_bounds_and_a_disk_that_refuses_is_named(tmp_path, monkeypatch):
    folder = tmp_path / "index"
    opened = Index.build(rejoinder.load("convert-small"), REPLIES, folder)

    async def ask():
        async with Client(make_server(opened)) as client:
            long = await client.call_tool("suggest_replies", {"messages": ["x" * 20_001]})
            searched = await client.call_tool("search_replies", {"query": "x" * 20_001})
            given = {"messages": ["Hi"], "offered": [0]}
            told = await client.call_tool("give_feedback", {**given, "text": "x" * 20_001})

            def refuse(*_):
                raise OSError(30, "Read-only file system", str(folder))

            monkeypatch.setattr(FeedbackLog, "append", refuse)
            return long, searched, told, await client.call_tool("give_feedback", given)

    *long, refused = asyncio.run(ask())
    assert all(each.is_error and "20000" in each.content[0].text for each in long)
    assert "the log cannot be written: Read-only file system" in refused.content[0].text
    assert str(tmp_path) not in refused.content[0].text
    assert not log_of(opened).database.path.exists()


def test_an_index_that_cannot_be_opened_again_goes_on_answering(tmp_path, monkeypatch):
    def fail():
        raise UnreachableError("the database does not answer")

    opened = Index.build(rejoinder.load("convert-small"), REPLIES, tmp_path / "index")
    monkeypatch.setattr(opened.store, "stamp", fail)

    async def ask():
        async with Client(make_server(opened)) as client:
            found = await client.call_tool("search_replies", {"query": "refund", "count": 1})
            given = {"messages": ["When is my money back?"], "offered": [2], "chosen": 2}
            taken = await client.call_tool("give_feedback", given)
            monkeypatch.setattr(FeedbackLog, "append", lambda *_: fail())
            return found, taken, await client.call_tool("give_feedback", given)

    found, taken, refused = asyncio.run(ask())
    assert found.structured_content["replies"][0]["title"] == "refund"
    assert taken.structured_content == {"id": 1, "chosen": 2}
    assert refused.is_error
    assert refused.content[0].text.endswith("the database does not answer")


def test_unknown_arguments_and_blank_messages_are_refused_and_the_server_says_its_version(index):
    async def ask():
        async with Client(make_server(Index.open(index)), read_timeout_seconds=120) as client:
            unknown = await client.call_tool("suggest_replies", {"messages": ["Hi"], "limit": 3})
            blank = await client.call_tool("suggest_replies", {"messages": ["Hi", " "]})
            earlier = await client.call_tool("suggest_replies", {"messages": [" ", "When do you open?"]})
            return unknown, blank, earlier, client.server_info

    unknown, blank, earlier, info = asyncio.run(ask())
    assert unknown.is_error
    assert "suggest_replies has no argument 'limit'; it has messages, count" in unknown.content[0].text
    assert blank.is_error
    assert "the newest message is blank" in blank.content[0].text
    assert earlier.structured_content["replies"][0]["text"] == "We open at nine."
    assert info.version == rejoinder.__version__


def test_a_search_writes_nothing_to_standard_error(index):
    script = (
        "import asyncio, logging; from mcp import Client; from rejoinder.retrieval.index import Index\n"
        "from rejoinder.integrations.mcp import make_server\n"
        "async def ask():\n"
        f"    async with Client(make_server(Index.open({place_of(index)!r})), read_timeout_seconds=120) as client:\n"
        "        await client.call_tool('search_replies', {'query': 'refund'})\n"
        "asyncio.run(ask())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "bm25s" not in done.stderr


def test_a_found_reply_has_its_fields_and_whether_it_answers_another_question(tmp_path):
    folder = tmp_path / "index"
    replies = [
        Candidate("We open at nine.", {"id": "r1"}, title="hours", examples=(("When do you open?",),)),
        Candidate("Yes, we ship to France.", {"id": "r2"}, examples=(("Do you ship to France?",),)),
    ]
    index = Index.build(rejoinder.load("convert-small"), replies, folder)

    async def ask():
        async with Client(make_server(index)) as client:
            asked = {"messages": ["When do you open? Do you ship to France?"]}
            return await client.call_tool("suggest_replies", asked)

    found = asyncio.run(ask()).structured_content["replies"]
    assert {each["payload"]["id"]: each["also"] for each in found} == {
        reply.payload["id"]: reply.also for reply in index.reply("When do you open? Do you ship to France?", 3)
    }
    assert sorted(each["also"] for each in found) == [False, True]

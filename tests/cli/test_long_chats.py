"""`rejoinder chat`, however long a conversation becomes."""

import json
from pathlib import Path

from rejoinder.cli.replies import verbs
from tests.cli.test_retrieval_verbs import LINES, models  # noqa: F401 (a fixture)
from tests.retrieval.conftest import HashEncoder


def index(command):
    Path("replies.jsonl").write_text("\n".join(map(json.dumps, LINES)))
    assert command("index", "build", "model", "replies.jsonl", "-o", "idx").code == 0


def test_chat_does_the_same_work_for_each_line_of_a_long_conversation(command, monkeypatch):
    """Each line read the whole conversation again: 3,000 lines took 80 seconds."""
    lines = [f"message {i}" for i in range(60)]
    lines[3] = "your persona: i like trains"
    lines[40:40] = ["/back", "/back"]
    index(command)
    whole = command("chat", "idx", "--omit", "copies", "--json", stdin="\n".join(lines)).json
    seen, read = [], HashEncoder.encode_contexts

    def encode_contexts(self, contexts):
        seen.append(list(contexts[0]))
        return read(self, contexts)

    monkeypatch.setattr(HashEncoder, "encode_contexts", encode_contexts)
    monkeypatch.setattr(verbs, "RECENT", 4)
    assert (
        command("chat", "idx", "--omit", "copies", "--json", stdin="\n".join(lines)).json == whole
    )
    assert len(seen) == 60
    assert max(map(len, seen)) <= 2 * 5 + 1
    assert all("your persona: i like trains" in context for context in seen[3:])


def test_chat_repeats_nothing_that_was_said_long_ago(command, monkeypatch):
    monkeypatch.setattr(verbs, "RECENT", 1)
    index(command)
    lines = [
        "well then, hello there",
        "a b",
        "c d",
        "e f",
        "/back",
        "/back",
        "g h",
        "/reset",
        "i j",
    ]
    turns = command("chat", "idx", "--json", "-k", "1", stdin="\n".join(lines[:4])).json["turns"]
    said = [turn["replies"][0]["text"] for turn in turns if turn["replies"]]
    assert len(said) == len(set(said)) == 3
    turns = command("chat", "idx", "--json", "-k", "1", stdin="\n".join(lines[:7])).json["turns"]
    assert len(turns) == 3
    assert [bool(turn["replies"]) for turn in turns] == [True] * 3
    assert command("chat", "idx", "--json", "-k", "1", stdin="\n".join(lines)).json["turns"][0][
        "replies"
    ]

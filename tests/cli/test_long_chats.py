"""`rejoinder chat`, however long a conversation becomes."""

from rejoinder.cli import retrieval as verbs
from tests.cli.test_retrieval_verbs import models, replies  # noqa: F401 (fixtures)
from tests.retrieval.conftest import HashEncoder


def test_chat_does_the_same_work_for_each_line_of_a_long_conversation(command, replies, monkeypatch):
    """Each line read the whole conversation again: 3,000 lines took 80 seconds."""
    lines = [f"message {i}" for i in range(60)]
    lines[3] = "your persona: i like trains"
    lines[40:40] = ["/back", "/back"]
    assert command("index", "model", replies, "-o", "idx").code == 0
    whole = command("chat", "idx", "--repeat", "--json", stdin="\n".join(lines)).json
    seen, read = [], HashEncoder.encode_contexts

    def encode_contexts(self, contexts):
        seen.append(list(contexts[0]))
        return read(self, contexts)

    monkeypatch.setattr(HashEncoder, "encode_contexts", encode_contexts)
    monkeypatch.setattr(verbs, "RECENT", 4)
    assert command("chat", "idx", "--repeat", "--json", stdin="\n".join(lines)).json == whole
    assert len(seen) == 60
    assert max(map(len, seen)) <= 2 * 5 + 1
    assert all("your persona: i like trains" in context for context in seen[3:])


def test_chat_repeats_nothing_that_was_said_long_ago(command, replies, monkeypatch):
    monkeypatch.setattr(verbs, "RECENT", 1)
    assert command("index", "model", replies, "-o", "idx").code == 0
    lines = ["well then, hello there", "a b", "c d", "e f", "/back", "/back", "g h", "/reset", "i j"]
    turns = command("chat", "idx", "--json", "-k", "1", stdin="\n".join(lines[:4])).json["turns"]
    said = [turn["replies"][0]["text"] for turn in turns if turn["replies"]]
    assert len(said) == len(set(said)) == 3
    turns = command("chat", "idx", "--json", "-k", "1", stdin="\n".join(lines[:7])).json["turns"]
    assert len(turns) == 3
    assert [bool(turn["replies"]) for turn in turns] == [True] * 3
    assert command("chat", "idx", "--json", "-k", "1", stdin="\n".join(lines)).json["turns"][0]["replies"]

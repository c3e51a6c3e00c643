"""Replies with titles and examples by the command: built, searched, learned from chats, forgotten."""

import json
import shlex

import pytest

from rejoinder.curation import learning
from rejoinder.retrieval.index import Index
from tests.logs import recorder

REPLIES = [
    {"text": "We open at nine and close at six.", "title": "hours", "questions": ["When do you open?"]},
    {"text": "Your parcel is on its way to you.", "questions": ["Where is my order?"]},
    {"text": "Hello {{name}}, we are sorry about the broken box.", "title": "damage"},
]
CHATS = [
    (["Hi.", "Has my package been sent?"], "Your parcel is on its way to you!"),
    (["Can you track a parcel for me?"], "your parcel is on its way to you"),
    (["The box was crushed and wet."], "Hello Anna, we are sorry about the broken box."),
    (["What is the meaning of life?"], "Forty-two, they say."),
]


@pytest.fixture
def folder(tmp_path, answer):
    (tmp_path / "faq.jsonl").write_text("\n".join(map(json.dumps, REPLIES)), encoding="utf-8")
    chats = [{"context": context, "response": response} for context, response in CHATS]
    (tmp_path / "chats.jsonl").write_text("\n".join(map(json.dumps, chats)), encoding="utf-8")
    built = answer("index", "build", "convert-small", tmp_path / "faq.jsonl", "-o", tmp_path / "faq.index")
    assert (built["replies"], built["examples"], built["calibrated"]) == (3, 4, False)
    assert built["head"]["held_out"] == 0
    return tmp_path


def test_a_reply_is_found_by_its_question_and_says_so(folder, command):
    shown = command("reply", folder / "faq.index", "Where is my order?", "-k", 1, "--why").out
    assert "Your parcel is on its way" in shown
    assert "like: Where is my order? 1.00" in shown


def test_long_replies_are_said_to_be_found_by_their_sentences(tmp_path, answer, command):
    long = "Bring the box back to any of our shops. " * 3
    replies = tmp_path / "faq.txt"
    replies.write_text(f"{long}It takes a week.\n{long}We refund it.\n", encoding="utf-8")
    shown = command("index", "build", "convert-small", replies, "-o", tmp_path / "long").out
    assert "long replies, found by their sentences too" in shown
    built = answer("index", "build", "convert-small", replies, "-o", tmp_path / "again")
    assert (built["examples"], built["head"]["held_out"]) == (0, 0)


def test_what_scores_are_is_said_when_it_changes(tmp_path, command):
    (tmp_path / "short.txt").write_text("Hello!\n", encoding="utf-8")
    long = "Bring the box back to any of our shops. " * 3
    (tmp_path / "long.txt").write_text(f"{long}We refund it.\n{long}It is free.\n", encoding="utf-8")
    index = tmp_path / "index"
    command("index", "build", "convert-small", tmp_path / "short.txt", "-o", index)
    assert "another scale" not in command("index", "add", index, tmp_path / "long.txt").err
    assert "another scale now: set thresholds" in command("learn", index).err
    (tmp_path / "faq.json").write_text(json.dumps(REPLIES[:1]), encoding="utf-8")
    assert "another scale now" in command("index", "add", index, tmp_path / "faq.json").err
    assert "another scale" not in command("index", "add", index, tmp_path / "faq.json").err
    command("index", "delete", index, 1, 2, 3, 4)
    assert "another scale now: set thresholds" in command("learn", index).err
    assert "another scale" not in command("learn", index, "--forget").err


def test_what_belongs_to_no_reply_is_answered_with_none(folder, answer, command):
    assert answer("reply", folder / "faq.index", "jdkjfkd skjdksjd")["replies"] == []
    shown = command("reply", folder / "faq.index", "jdkjfkd skjdksjd").out
    assert "no reply: the message is not English; --minimum-score N searches all the same" in shown
    assert len(answer("reply", folder / "faq.index", "jdkjfkd", "--minimum-score", -9)["replies"]) == 3


def test_chats_are_learned_and_forgotten(folder, answer, command):
    index = folder / "faq.index"
    result = answer("learn", index, "--data", folder / "chats.jsonl")
    learned = result["learned"]
    assert (learned["messages"], learned["matched"], learned["unsent"]) == (4, 3, [0])
    assert learned["examples"] + learned["held_out"] == 3
    assert result["examples"] == 4 + learned["examples"]
    assert "messages" in command("learn", index, "--data", folder / "chats.jsonl").out
    forgotten = answer("learn", index, "--forget")
    assert (forgotten["forgotten"], forgotten["examples"]) == (learned["examples"], 4)
    assert "0 learned examples were taken away" in command("learn", index, "--forget").out


def test_feedback_is_learned(folder, answer, command):
    index = folder / "faq.index"
    recorder(Index.open(index)).feedback(["Is the shop open today?"], [1, 0], chosen=0)
    learned = answer("learn", index)
    assert (learned["learned"]["chosen"], learned["learned"]["examples"], learned["examples"]) == (1, 1, 5)
    assert "1 choice counts of the feedback" in command("learn", index).out


def test_without_feedback_an_index_stays_as_it_is_and_the_command_says_so(folder, answer, command):
    manifest = folder / "faq.index" / "manifest.json"
    before = manifest.read_bytes()
    learned = answer("learn", folder / "faq.index")["learned"]
    assert (learned["messages"], learned["chosen"], learned["is_fitted"]) == (0, 0, False)
    told = command("learn", folder / "faq.index")
    assert "no feedback to learn from; the index stays as it is" in told.out
    assert "Comparing" not in told.err
    assert manifest.read_bytes() == before
    extra = folder / "extra.jsonl"
    extra.write_text(json.dumps({"text": "It is free.", "questions": ["What does it cost?"]}), encoding="utf-8")
    answer("index", "add", folder / "faq.index", extra)
    assert "no feedback to learn from; the replies are fitted again" in command("learn", folder / "faq.index").out


@pytest.mark.parametrize("is_worse", [True, False])
def test_an_index_that_is_worse_after_learning_is_noted(folder, command, answer, monkeypatch, is_worse):
    monkeypatch.setattr(learning, "has_fallen", lambda *_: is_worse)
    words = ("learn", folder / "faq.index", "--data", folder / "chats.jsonl")
    told = command(*words).err
    assert ("the index is worse on the messages left out" in told) == is_worse
    assert (f"`rejoinder learn {folder / 'faq.index'} --forget`" in told) == is_worse
    assert answer(*words)["learned"]["is_worse"] == is_worse


def test_a_report_says_what_to_mend(folder, command):
    asked = ({"context": ["When do you open?"], "response": reply["text"]} for reply in REPLIES[:2])
    (folder / "held-out.jsonl").write_text("\n".join(map(json.dumps, asked)), encoding="utf-8")
    words = ("index", "evaluate", folder / "faq.index", "--data", folder / "held-out.jsonl")
    assert command(*words, "--report", folder / "report").code == 0
    assert "## The most confident mistakes" in (folder / "report/report.md").read_text(encoding="utf-8")


def test_learning_and_forgetting_at_once_is_refused(folder, refused):
    refused("learn", folder / "faq.index", "--forget", "--data", folder, said="leave --data out")


def test_as_written_reads_the_frame_too(folder, answer):
    texts = folder / "replies.txt"
    texts.write_text("Hi {{name}}, we open at nine.\nBye.\n", encoding="utf-8")
    for option, alike in (((), True), (("--as-written",), False)):
        place = folder / f"{len(option)}.index"
        answer("index", "build", "convert-small", texts, "-o", place, *option)
        plain = answer("reply", place, "When do you open?", "-k", 1)["replies"][0]["score"]
        if alike:
            expected = plain
    assert plain != expected


def test_the_command_to_try_asks_what_the_index_answers(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        {"text": "By card.", "title": "Ways to pay", "examples": [["Hi", "How may I pay?"], ["x" * 200], ["two\nlines"]]},
        {"text": "At nine.", "title": "Hours", "examples": ["When's it open?"]},
    ]
    (tmp_path / "two.jsonl").write_text("\n".join(map(json.dumps, rows)))
    built = command("index", "build", "convert-small", "two.jsonl", "-o", "two").out.splitlines()[-1]
    assert shlex.split(built) == ["Try:", "rejoinder", "reply", "two", "When's it open?"]
    assert "At nine." in command(*shlex.split(built)[2:]).out
    (tmp_path / "title.jsonl").write_text(json.dumps({"text": "By card.", "title": "Ways to pay"}))
    built = command("index", "build", "convert-small", "title.jsonl", "-o", "title").out
    assert built.endswith("Try: rejoinder reply title 'Ways to pay'\n")
    (tmp_path / "chats.jsonl").write_text(json.dumps({"context": ["a customer's words"], "response": "By card."}))
    assert command("learn", "title", "--data", "chats.jsonl").out.endswith("reply title 'Ways to pay'\n")


@pytest.mark.parametrize("title", ["", "-v"])
def test_no_text_that_reads_as_an_option_is_a_message_to_try(command, tmp_path, monkeypatch, title):
    monkeypatch.chdir(tmp_path)
    row = {"text": "Yes.", "title": title, "examples": [["-5 degrees is it ok?"], ["-"]]}
    (tmp_path / "cold.jsonl").write_text(json.dumps(row))
    built = command("index", "build", "convert-small", "cold.jsonl", "-o", "cold").out.splitlines()[-1]
    assert shlex.split(built) == ["Try:", "rejoinder", "reply", "cold", "How are you?"]


def test_one_is_counted_as_one(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.jsonl").write_text(json.dumps({"text": "We open at nine every day.", "questions": ["When is it open?"]}))
    (tmp_path / "chat.jsonl").write_text(json.dumps({"turns": ["Is it open?", "We open at nine every day."]}) + "\n{")
    assert "1 reply, 1 question\n" in command("index", "build", "convert-small", "one.jsonl", "--dry-run").out
    built = command("index", "build", "convert-small", "one.jsonl", "-o", "one").out
    assert built.startswith("one: 1 reply, ")
    assert "1 title or example" in built
    shown = command("data", "jsonl", "chat.jsonl", "-o", "out", "--skip-bad", "all").out
    assert "2 lines read, 1 bad one skipped, 0 without a reply; 0 blank messages left out" in shown
    (tmp_path / "chat.jsonl").write_text(json.dumps({"turns": ["Is it open?", "We open at nine every day."]}))
    learned = command("learn", "one", "--data", "chat.jsonl").out
    assert "1 of 1 message (100%) is a reply of the index\n0 replies were never sent\n" in learned
    assert "1 example is new\n" in learned
    assert command("chat", "one", stdin="/quit\n").out.startswith("1 reply; /help")

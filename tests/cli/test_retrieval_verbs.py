"""`rejoinder index`, `reply` and `chat`, from the command line to the exit code."""

import builtins
import json
import re
import shlex
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from rejoinder.cli.models import open_index
from rejoinder.cli.reply_files import ReplyFile
from rejoinder.curation.feedback import FeedbackLog, FeedbackSettings
from rejoinder.cli.replies import verbs
from rejoinder.corpora.schema import Example
from rejoinder.corpora.forms.examples import write_examples
from rejoinder.encoders import persistence, sentence
from rejoinder.errors import InputError
from rejoinder.retrieval.index import Index
from rejoinder.stores.milvus import collections
from rejoinder.stores.store import UnreachableError
from tests.retrieval.conftest import HashEncoder

LINES = [{"text": "Hello!", "id": "a1"}, {"text": "At noon.", "id": "a2", "tag": "time"}, {"text": "Bye.", "id": 3}]


@pytest.fixture(autouse=True)
def models(monkeypatch, tmp_path):
    """Model folders by what stands in their file `seed`: the same content is the same model."""

    def load(name, **_):
        try:
            return HashEncoder((tmp_path / name / "seed").read_text(), name=str(name))
        except OSError:
            raise InputError(f"no model folder {name}") from None

    monkeypatch.setattr(persistence, "load", load)
    monkeypatch.chdir(tmp_path)
    for name in ("model", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "seed").write_text(name)


@pytest.fixture
def slow(models, monkeypatch, tmp_path):  # noqa: ARG001 (it wraps what that one put in place)
    """A model folder whose model finds longer replies better."""
    load = persistence.load

    class Longest(HashEncoder):
        def score(self, contexts, candidates):  # noqa: ARG002
            return np.array([[len(text) for text in texts] for texts in candidates], dtype=np.float32)

    (tmp_path / "slow").mkdir()
    monkeypatch.setattr(persistence, "load", lambda name, **_: Longest() if name == "slow" else load(name))
    return "slow"


def test_an_index_of_a_sentence_encoder_knows_it_by_its_fingerprint(command, refused, replies, monkeypatch, tmp_path):
    prints = ["one"]

    def open_minilm(_precision, _device):
        return sentence.SentenceEncoder(
            "minilm", lambda texts, _: HashEncoder().encode_responses(texts), digest=lambda: prints[0]
        )

    monkeypatch.setattr(sentence, "open_minilm", open_minilm)
    (tmp_path / "minilm").mkdir()  # a folder of that name changes nothing
    assert command("index", "build", "minilm", replies, "-o", "idx").code == 0
    assert command("reply", "idx", "Well?", "At noon.", "--json").json["replies"][0]["text"] == "At noon."
    assert json.loads((tmp_path / "idx" / "manifest.json").read_text())["model"]["fingerprint"] == "one"
    prints[0] = "two"
    refused("reply", "idx", "Hi!", said="was built with the model minilm of fingerprint one, but minilm has two")
    refused("index", "build", "bm25", replies, "-o", "new", said="no model folder bm25")


@pytest.fixture
def replies(tmp_path):
    (tmp_path / "replies.jsonl").write_text("\n".join(map(json.dumps, LINES)))
    return "replies.jsonl"


@pytest.fixture
def index(command, replies):
    assert command("index", "build", "model", replies, "-o", "idx").code == 0
    return "idx"


def test_an_index_with_a_damaged_manifest_is_built_again_in_its_place(command, refused, replies, index, tmp_path):
    manifest = tmp_path / index / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:10])
    refused("reply", index, "Hi", said="is damaged (JSONDecodeError")
    refused("index", "build", "model", replies, "-o", index, said="replace it with --overwrite")
    assert command("index", "build", "model", replies, "-o", index, "--overwrite").code == 0
    assert command("reply", index, "Hi").code == 0


def test_index_says_what_it_made_and_shows_progress(command, replies):
    words = ("index", "build", "model", replies, "-o", "idx")
    made = command(*words, "--json").json
    assert (made["replies"], made["added"], made["size"]) == (3, 3, 24)
    assert made["fingerprint"] == Index.open("idx").fingerprint
    assert made["bytes"] > 3 * 24 * 4
    _, out, err = command(*words, "--overwrite")
    assert "3 replies" in out
    assert "Encoding: 3 of 3 replies" in err


def test_commands_to_try_can_be_pasted(command, replies, talks, refused):
    built = command("index", "build", "model", replies, "-o", "my index")
    assert shlex.split(built.out.splitlines()[-1])[1:5] == ["rejoinder", "reply", "my index", "How are you?"]
    refused("reply", "my index", "Hi", "--minimum-confidence", 0.8, said="rejoinder calibrate 'my index' --data")
    calibrated = command("calibrate", "my index", "--data", talks)
    assert shlex.split(calibrated.out.splitlines()[-1])[1:4] == ["rejoinder", "reply", "my index"]
    refused("reply", "no index", "Hi", said="index build MODEL REPLIES -o 'no index'`")
    refused("index", "delete", "my index", said="`rejoinder index delete 'my index' 17`")


def test_index_takes_limit_and_deduplicates(answer, tmp_path):
    (tmp_path / "replies.txt").write_text("a\na\nb\nc\n")
    for count, options in ((4, ()), (3, ["--deduplicate"]), (2, ["--limit", 2])):
        assert answer("index", "build", "model", "replies.txt", "-o", f"{count}", *options)["replies"] == count


def test_append_and_delete(command, index, replies, tmp_path):
    same = command("index", "add", index, replies, "--deduplicate", "--json").json
    assert (same["added"], same["replies"]) == (0, 3)
    (tmp_path / "more.txt").write_text("Hello!\nGood morning.\n")
    added = command("index", "add", index, "more.txt", "--deduplicate", "--json").json
    assert (added["added"], added["replies"]) == (1, 4)
    assert command("reply", index, "Good morning.", "--json").json["replies"][0]["position"] == 3
    gone = command("index", "delete", index, 3, "--id", "a1", "--id", "3", "--json").json
    assert (gone["deleted"], gone["replies"]) == (3, 1)
    assert gone["fingerprint"] == Index.open(index).fingerprint
    assert [each["text"] for each in command("reply", index, "Hello!", "--json").json["replies"]] == ["At noon."]


def test_compact_keeps_the_positions_and_takes_deletions_along(command, index, replies):
    command("index", "add", index, replies)
    command("index", "delete", index, 0)
    assert "1 deleted, 4 replies" in command("index", "delete", index, 4).out
    _, out, err = command("index", "compact", index)
    assert "data of 2 removed, 4 replies" in out
    assert "Copying: 4 of 4 replies" in err
    assert command("index", "compact", index, "--json").json["removed"] == 0
    assert [position for position, _ in Index.open(index)] == [1, 2, 3, 5]


def test_reencode_gives_another_model_the_same_replies(command, index, refused):
    command("index", "delete", index, 0)
    made = command("index", "reencode", index, "other", "-o", "new", "--json").json
    assert (made["replies"], made["model"]) == (2, "other")
    assert command("reply", "new", "Bye.", "-k", 1, "--json").json["replies"][0] == {
        "text": "Bye.", "score": pytest.approx(1), "position": 2, "payload": {"id": 3}}  # fmt: skip
    refused("index", "reencode", index, "other", "-o", "new", said="is an index already")
    refused("index", "reencode", "nothing", "other", "-o", "x", said="no index nothing")


WRONG = {
    "index build model -o x": "REPLIES",
    "index build nothing replies.jsonl -o x": "no model folder nothing",
    "index build model nothing.txt -o x": "nothing.txt does not exist",
    "index build model empty.txt -o x": "empty.txt is empty",
    "index build model blank.txt -o x": "blank.txt holds no replies",
    "index build model replies.jsonl -o idx": "take `rejoinder index add`, --overwrite",
    "index build model replies.jsonl -o ''": "-o is empty; name the file or folder to write",
    "calibrate idx --data talks.jsonl --output ''": "--output is empty",
    "index build model replies.jsonl -o x --split dev": "dev: give one of train, valid, test",
    "index build model replies.jsonl -o x --split test": "no test split",
    "index build model replies.jsonl -o x --ray 127.0.0.1:1": "--ray ",
    "index build model replies.jsonl -o x --ray auto --engine onnx": "--engine is for this machine",
    "index tune idx --method flat": "flat: give one of hnsw, ivf, scan, exact",
    "index tune idx --method exact --recall 0.9": "leave --recall out",
    "index tune idx --method exact --data talks.jsonl": "leave --data out",
    "index add x replies.jsonl": "no index x",
    "index delete idx": "`rejoinder index delete idx 17`, or --id ID",
    "index delete idx 7": "no reply 7",
    "index delete idx --id a9": "'a9'",
    "index compact x": "no index x",
    "index verify x": "no index x",
    "index bild model": "Did you mean 'build'?",
    "reply nothing Hi": "no index nothing",
    "reply model Hi": "no manifest.json",
    "reply idx ' '": "message 1 is blank",
    "reply idx \udcff": "message 1 is not UTF-8",
    "reply idx Hi --ranker nothing": ["no model folder nothing"],
    "reply idx": "no message",
    "reply idx Hi --input chats.jsonl": "leave the messages out",
    "reply idx --input none.jsonl": "none.jsonl",
    "reply idx --input blank.txt": "blank.txt holds no conversations",
    "reply idx --input replies.jsonl": "replies.jsonl:1: no field messages or turns or context; there is text, id",
    "reply idx Hi --where 'tag=a\nb'": "new-line character",
    "reply idx Hi --ranker slow --diversity 0.3": "leave it or rerank out",
    "reply idx Hi --diversity 2": "--diversity",
    "reply idx Hi --where team": "'team': write FIELD=VALUE",
    "reply idx Hi --where tag=time --where tag=x": "names tag twice",
    "reply idx Hi --where topic=x": "idx: no reply has a field 'topic'; the fields are id, tag",
    "chat idx --where topic=x": "the fields are id, tag",
    "chat nothing": "no index nothing",
    "reply idx Hi --minimum-confidence 0.8": "idx is not calibrated; rejoinder calibrate idx --data",
    "reply idx Hi --minimum-confidence 80": "--minimum-confidence",
    "reply idx Hi --minimum-confidence 0.8 --ranker slow": "leave rerank out",
    "reply idx Hi --minimum-confidence 0.8 --omit nothing": "leave copies (distinct=False) out",
    "reply idx Hi --minimum-confidence 0.8 --where team=billing": "leave where out",
    "calibrate nothing --data talks.jsonl": "no index nothing",
    "calibrate idx --data nothing.jsonl": "nothing.jsonl does not exist",
    "calibrate idx --data talks.jsonl -o picture.bmp": "ends in .png, .svg, .pdf",
    "calibrate idx --data few.jsonl": "needs 10 right and 10 wrong ones",
}


@pytest.fixture
def talks(tmp_path):
    """Conversations with replies that the index finds, and with others."""
    texts = [line["text"] for line in LINES] * 6
    talks = [{"context": [f"{i}", text], "response": text} for i, text in enumerate(texts)]
    talks += [{"context": [f"What is {i}?"], "response": "A number."} for i in range(20)]
    (tmp_path / "talks.jsonl").write_text("\n".join(map(json.dumps, talks)))
    return "talks.jsonl"


@pytest.mark.usefixtures("index", "slow", "talks")
def test_wrong_calls(refused, tmp_path):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "blank.txt").write_text("\n \n")
    (tmp_path / "few.jsonl").write_text((tmp_path / "talks.jsonl").read_text().partition("\n")[0])
    for line, said in WRONG.items():
        refused(*shlex.split(line), said=said)
    refused("reply", "idx", "-", stdin="", said="no message")
    refused("reply", "idx", "-", stdin=b"fine\n\xff\n", said="standard input:2: not UTF-8")
    assert len(Index.open("idx")) == 3
    assert not (tmp_path / "x").exists()


WITH_AN_ENGINE = ["index build model replies.jsonl -o x", "index reencode idx model -o x", "reply idx Hi", "chat idx"]


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize("line", WITH_AN_ENGINE)
def test_verbs_that_build_and_ask_take_an_engine(refused, tmp_path, line):
    refused(*shlex.split(line), "--engine", "onnx", said="has no ONNX programs")
    refused(*shlex.split(line), "--engine", "onnxruntime", said="onnxruntime: give one of auto, onnx, torch")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("line", ["reply FILE Hi", "chat FILE", "learn FILE", "index verify FILE", "index delete FILE 0"])
def test_a_file_of_replies_in_place_of_an_index_is_named_as_such(refused, replies, line):
    said = f"{replies} is a file, not an index; `rejoinder index build MODEL {replies} -o INDEX` builds one"
    refused(*line.replace("FILE", replies).split(), said=said)


def test_reply_gives_score_position_text_and_payload(command, index):
    shown = command("reply", index, "At noon.", "-k", 1).out
    assert shown.splitlines()[0].split() == ["1.000", "#1", "At", "noon."]
    assert '"tag": "time"' in shown
    found = command("reply", index, "Hi there", "At noon.", "-k", 2, "--json").json
    assert found["context"] == ["Hi there", "At noon."]
    assert len(found["replies"]) == 2
    best = found["replies"][0]
    assert best.pop("score") == pytest.approx(1)
    assert best == {"text": "At noon.", "position": 1, "payload": {"id": "a2", "tag": "time"}}
    found = command("reply", index, "-", "--json", stdin="Hi\r\n\n  At noon.\n").json  # from standard input
    assert (found["context"], found["replies"][0]["position"]) == (["Hi", "At noon."], 1)


def test_a_byte_order_mark_on_standard_input_is_no_part_of_a_message(command, index):
    marked = b"\xef\xbb\xbfAt noon.\r\nHi\r\n"
    assert command("reply", index, "-", "--json", stdin=marked).json["context"] == ["At noon.", "Hi"]
    turns = command("chat", index, "--json", stdin=marked).json["turns"]
    assert [turn["message"] for turn in turns] == ["At noon.", "Hi"]


def replies_with_ids(folder, count):
    lines = [json.dumps({"text": f"No. {number}", "id": f"n{number}"}) for number in range(count)]
    (folder / "ids.jsonl").write_text("\n".join(lines))
    return "ids.jsonl"


def test_reply_and_chat_take_a_part_of_the_replies(command, index, slow, tmp_path):
    (tmp_path / "more.jsonl").write_text('{"text": "Noon, in Ulm.", "id": "a,3", "tag": "time"}\n')
    assert command("index", "add", index, "more.jsonl").code == 0
    for where, passing in ("tag=time", {1, 3}), ("id=a1,3", {0, 2}), ('id="a,3" tag=time', {3}), ("tag=", set()):
        options = [word for each in where.split() for word in ("--where", each)]
        for more in ((), ("--ranker", slow)):
            _, out, err = command("reply", index, "Hi", *options, *more, "--json")
            assert {each["position"] for each in json.loads(out)["replies"]} == passing
            assert f"{len(passing)} of 4 replies pass --where" in err
    said = command("reply", index, "Hi", "--where", "tag=tme").out
    assert said == "no reply passes --where tag=tme; values of tag: time\n"
    said = command("reply", index, "Hi", "--where", "id=b", "--minimum-score", "0.5").out
    assert said.startswith("no reply passes --where id=b; values of id: ")
    both = command("reply", index, "Hi", "--where", "tag=time", "--where", "id=a1").out
    assert both == "no reply passes --where tag=time and id=a1 together\n"
    command("index", "add", index, replies_with_ids(tmp_path, 30))
    said = command("reply", index, "Hi", "--where", "id=n7x").out
    assert "values of id: n7" in said
    assert said.endswith(" others\n")
    assert len(said) < 120
    command("index", "delete", index, *range(4, 34))
    assert "pass --where" not in command("reply", index, "Hi", "-k", 2, "--where", "tag=time").err
    talk = command("chat", index, "--where", "tag=time", "--ranker", slow, stdin="Hi\nAnd?\nSo?\n").out
    assert talk.startswith("2 replies;")
    assert talk.index("Noon, in Ulm.") < talk.index("At noon.")
    assert "no reply passes --where" in talk


def test_reply_answers_many_conversations_one_a_line(command, refused, index, slow, monkeypatch, tmp_path):
    monkeypatch.setattr(verbs, "_AT_ONCE", 2)
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": " "}]
    turns = {"id": 7, "turns": ["Hello!", " ", "Bye."]}
    lines = ["At noon.", ["Hi", "Bye."], {"id": "a", "messages": chat}, turns, {"context": "Hi", "context/0": "Bye."}]
    said = [["At noon."], ["Hi", "Bye."], chat[:1], ["Hello!", "Bye."], ["Bye.", "Hi"]]
    (tmp_path / "chats.jsonl").write_text("\n\n".join(map(json.dumps, lines)))
    some = ["--omit", "both", "-k", 2, "--where", "id=a1,3", "--diversity", 0.9]
    for options in ([], some, ["--ranker", slow, "--json"]):
        _, out, err = command("reply", index, "--input", "chats.jsonl", *options)
        answers = list(map(json.loads, out.splitlines()))
        assert "Answering: 5 of 5 conversations" in err
        assert [answer["context"] for answer in answers] == said
        assert [answer.get("id") for answer in answers] == [None, None, "a", 7, None]
        for answer in answers:
            (tmp_path / "one.jsonl").write_text(json.dumps(answer["context"]))
            one = command("reply", index, "--input", "one.jsonl", *options).json
            assert one["replies"] == answer["replies"]
    wrong = {'{"messages": [3]}': "a message is a text", '"  "': "no message", "3": "list of messages", "{": "not JSON"}
    for bad, told in wrong.items():
        (tmp_path / "bad.jsonl").write_text(f'"Hi"\n{bad}')
        refused("reply", index, "--input", "bad.jsonl", said=["bad.jsonl:2", told])


def test_mistake_8_a_retrained_model_at_the_same_place_is_refused(refused, index, tmp_path):
    (tmp_path / "model" / "seed").write_text("retrained")
    refused("reply", index, "Hi", said=["idx was built with the model", "fingerprint"])


def test_a_moved_model_is_named_in_the_environment(command, refused, index, replies, tmp_path, monkeypatch):
    (tmp_path / "model").rename(tmp_path / "moved")
    refused("reply", index, "Hi", said=["which is gone", "REJOINDER_MODEL"])
    monkeypatch.setenv("REJOINDER_MODEL", "moved")
    assert command("reply", index, "Bye.", "--json").json["replies"][0]["position"] == 2
    monkeypatch.setenv("REJOINDER_MODEL", "other")
    for words in (["reply", index, "Hi"], ["index", "add", index, replies]):
        refused(*words, said=["built with the model", "REJOINDER_MODEL"])


def test_verify_checks_a_large_index(command, refused, index, tmp_path, monkeypatch):
    monkeypatch.setattr("rejoinder.retrieval.reader.SMALL", 0)
    vectors = next((tmp_path / index).glob("segment-*/vectors.f32"))
    vectors.write_bytes(b"\0" + vectors.read_bytes()[1:])
    assert command("reply", index, "Hi").code == 0
    refused("index", "verify", index, said="vectors.f32 was altered")


def test_control_characters_do_not_reach_the_terminal(command, tmp_path):
    (tmp_path / "evil.jsonl").write_text(json.dumps({"text": "red \x1b[31m\nalert", "x": "\x9b"}))
    command("index", "build", "model", "evil.jsonl", "-o", "evil")
    shown = command("reply", "evil", "Hi").out
    assert not {"\x1b", "\x9b"} & set(shown)
    assert "alert" in shown


def test_a_slow_model_ranks_the_best_replies_again(command, index, slow, monkeypatch):
    found = command("reply", index, "Bye.", "--ranker", slow, "-k", 3, "--json").json["replies"]
    assert [(each["text"], each["score"]) for each in found] == [("At noon.", 8), ("Hello!", 6), ("Bye.", 4)]
    assert found[0]["payload"] == {"id": "a2", "tag": "time"}
    with monkeypatch.context() as patch:
        patch.setattr("rejoinder.retrieval.options.RERANKED", 1)
        [only] = command("reply", index, "Bye.", "--ranker", slow, "-k", 1, "--json").json["replies"]
        assert only["text"] == "Bye."
        assert len(command("reply", index, "Bye.", "--ranker", slow, "-k", 2, "--json").json["replies"]) == 2
    assert command("reply", index, "Bye.", "--ranker", slow, "--minimum-score", 9, "--json").json["replies"] == []
    best = command("reply", index, "noon at", "--ranker", "bm25", "-k", 1, "--json").json["replies"][0]
    assert best["text"] == "At noon."
    talk = command("chat", index, "--ranker", slow, "-k", 1, stdin="Bye.\n").out
    assert talk.startswith("3 replies")
    assert "#1" in talk


def test_chat_keeps_the_conversation_as_context(command, index, monkeypatch):
    contexts = []
    encode = HashEncoder.encode_contexts
    spy = lambda self, given: contexts.extend(given) or encode(self, given)  # noqa: E731
    monkeypatch.setattr(HashEncoder, "encode_contexts", spy)
    command("chat", index, stdin="Hello!\nBye.\n/back\nAt noon.\n/reset\nHello!\n/quit\nnever said\n")
    assert contexts == [["Hello!"], ["Hello!", "Hello!", "Bye."], ["Hello!", "Hello!", "At noon."], ["Hello!"]]
    out = command("chat", index, stdin="/help\n/back\n/dance\n/quit\n").out
    assert all(each in out for each in ("/reset", "nothing to take back", "no command /dance"))
    assert "#" not in out


def test_chat_as_json_prints_one_object_and_the_rest_elsewhere(command, index):
    result = command("chat", index, "--json", stdin="Hello!\nBye.\n/back\n")
    [turn] = result.json["turns"]
    assert turn["message"] == "Hello!"
    assert turn["replies"][0]["position"] == 0
    assert "> Bye." in result.err


@pytest.mark.parametrize("end", [KeyboardInterrupt, EOFError])
def test_chat_in_a_terminal_leaves_cleanly(command, index, monkeypatch, end):
    monkeypatch.setattr(builtins, "input", Mock(side_effect=["Hello!", "  ", "At noon.", end]))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    result = command("chat", index)
    assert result.code == 0
    assert "#1" in result.out
    assert "Traceback" not in result.err


def test_chat_does_not_say_the_same_again_unless_told_to(command, index):
    talk = "Hello!\nHello!\nHello!\nHello!\n"
    answers = [turn["replies"][:1] for turn in command("chat", index, "--json", stdin=talk).json["turns"]]
    assert sorted(reply["text"] for best in answers for reply in best) == ["At noon.", "Bye.", "Hello!"]
    assert answers[3] == [], "all has been said"
    said = ("--omit", "copies")
    answers = [
        turn["replies"][0]["text"] for turn in command("chat", index, "--json", *said, stdin=talk).json["turns"]
    ]
    assert answers == ["Hello!"] * 4


def test_reply_reads_less_leaves_out_what_was_said_and_shows_copies(command, index, replies, monkeypatch):
    contexts = []
    encode = HashEncoder.encode_contexts
    monkeypatch.setattr(
        HashEncoder, "encode_contexts", lambda self, given: contexts.extend(given) or encode(self, given)
    )
    found = command("reply", index, "Hi", "bye", "Hello!", "--history", 1, "--omit", "both", "--json").json
    assert contexts == [["bye", "Hello!"]]
    assert found["context"] == ["Hi", "bye", "Hello!"]
    assert [reply["text"] for reply in found["replies"]] == ["At noon."]
    command("index", "add", index, replies)
    assert len(command("reply", index, "Hi", "-k", 6, "--json").json["replies"]) == 3
    assert len(command("reply", index, "Hi", "-k", 6, "--omit", "nothing", "--json").json["replies"]) == 6


def test_an_index_that_few_examples_calibrate_says_so(command, tmp_path):
    rows = [{"text": f"Reply {i}.", "examples": [f"topic{i} word{j}" for j in range(6)]} for i in range(10)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    built = command("index", "build", "model", "rows.jsonl", "-o", "faq").out
    few = "not calibrated: too few of them found their reply; rejoinder calibrate faq --data CONVERSATIONS"
    assert built.splitlines()[-2] == few


def test_a_calibrated_index_stays_silent_when_it_is_unsure(command, refused, index, talks, tmp_path):
    shown = command("calibrate", index, "--data", talks)
    assert shown.code == 0, shown.err
    assert "38 examples; 20 have a reply that the index lacks" in shown.out
    assert "right in 18 (47.4%)" in shown.out
    [line] = [line for line in shown.out.splitlines() if "of the answers are right from" in line]
    share, threshold, answered = re.match(r"(.*)% of .* from (.*) on, which answers (.*)%:", line).groups()
    rows = [re.sub("[%-]", "", row).split() for row in shown.out.splitlines() if re.match(r" +[\d.]+ +[\d.]+% +[\d.]+%", row)]
    assert float(share) >= 90
    assert {row[2] for row in rows if row[1] == answered} <= {share}, "the table says the same"
    assert all((float(row[0]) >= float(threshold)) == (float(row[1]) <= float(answered)) for row in rows)
    found = command("calibrate", index, "--data", talks, "--json").json
    assert found["calibration_error"] < 0.2
    assert sum(each["answers"] for each in found["bins"]) == 38
    assert (found["thresholds"][0], found["picture"]) == ({"threshold": 0, "coverage": 1, "precision": 18 / 38}, None)

    sure = command("reply", index, "At noon.", "--minimum-confidence", 0.6, "-k", 1)
    assert "At noon." in sure.out
    assert "the best is right with probability 0." in sure.out
    unsure = command("reply", index, "What is it?", "--minimum-confidence", 0.6)
    assert (unsure.code, unsure.out[:47]) == (0, "silent: the best reply is right with probabilit")
    assert "below 0.6" in unsure.out
    found = command("reply", index, "What is it?", "--minimum-confidence", 0.6, "--json").json
    assert found["replies"] == []
    assert 0 < found["confidence"] < 0.6
    talk = command("chat", index, "--minimum-confidence", 0.6, "--json", stdin="Hello!\nWhat is it?\n")
    assert [len(turn["replies"]) > 0 for turn in talk.json["turns"]] == [True, False]
    assert "(silent: " in talk.err

    refused("reply", index, "Hi", "--minimum-confidence", 0.6, "--history", 0, said="with --history 0")
    command("calibrate", index, "--data", talks, "--history", 0)
    assert command("reply", index, "Hi", "--minimum-confidence", 0.6, "--history", 0).code == 0
    (tmp_path / "more.txt").write_text("Good morning.\n")
    command("index", "add", index, "more.txt")
    refused("reply", index, "Hi", "--minimum-confidence", 0.6, said="calibrate again: rejoinder calibrate idx --data")


def test_a_calibration_that_answers_nothing_leaves_the_earlier_one_unless_it_is_told(command, index, talks, tmp_path):
    command("calibrate", index, "--data", talks)
    earlier = (tmp_path / index / "calibration.json").read_bytes()
    lines = [{"context": [f"Hi {i}", "At noon."], "response": "At noon." if i % 2 else "Ask them."} for i in range(60)]
    (tmp_path / "even.jsonl").write_text("\n".join(map(json.dumps, lines)))
    shown = command("calibrate", index, "--data", "even.jsonl").out
    assert "at no threshold 90% of the answers are right\nnot saved: idx keeps its earlier calibration" in shown
    assert (tmp_path / index / "calibration.json").read_bytes() == earlier
    shown = command("calibrate", index, "--data", "even.jsonl", "--json")
    assert shown.json["saved"] is False
    assert shown.json["thresholds"][-1] == {"threshold": 0.95, "coverage": 0, "precision": None}
    assert "NaN" not in shown.out
    assert command("calibrate", index, "--data", "even.jsonl", "--overwrite", "--json").json["saved"] is True
    assert "Replace a calibration that still holds" in " ".join(command("calibrate", "--help").out.replace("│", " ").split())
    assert (tmp_path / index / "calibration.json").read_bytes() != earlier
    (tmp_path / index / "calibration.json").unlink()
    assert command("calibrate", index, "--data", "even.jsonl", "--json").json["saved"] is True, "none is lost"


def test_tune_without_faiss_fails_before_it_says_that_it_tuned(command, index, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    code, out, err = command("index", "tune", index, "--method", "scan")
    assert (code, out) == (2, "")
    assert "the extra 'ann': pip install" in err
    assert "tuned" not in err


def test_a_calibration_is_drawn_where_matplotlib_is(command, refused, index, talks, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    assert command("calibrate", index, "--data", talks, "-o", "a.svg", "--json").json["picture"] == "a.svg"
    assert "expected calibration error" in (tmp_path / "a.svg").read_text()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    refused("calibrate", index, "--data", talks, "-o", "b.svg", said="'plots'")
    assert command("calibrate", index, "--data", talks).code == 0
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    refused("calibrate", index, "--data", talks, said="calibrating an index needs the extra 'intents'")
    assert command("reply", index, "At noon.", "--minimum-confidence", 0.6).code == 0, "it takes scikit-learn to calibrate"


def test_search_becomes_approximate_and_exact_again(command, refused, tmp_path):
    pytest.importorskip("faiss")
    (tmp_path / "replies.txt").write_text("".join(f"reply {i}\n" for i in range(50)))
    write_examples([Example((f"reply {i}",), f"reply {i}") for i in range(20)], tmp_path / "chats" / "valid-0.parquet")
    command("index", "build", "model", "replies.txt", "-o", "idx")
    made = command("index", "tune", "idx", "--json")
    assert "texts of the replies" in made.err
    found = made.json["approximate"]
    assert (made.json["replies"], found["method"], found["wanted"], found["measured_on"]) == (50, "hnsw", 0.95, 25)
    ended = command("index", "tune", "idx", "--recall", 0.5, "--data", "chats")
    assert "50 replies" in ended.out
    assert "search finds 100.0% of the 30 best (10 contexts)" in ended.out
    assert Index.open("idx").manifest.approximate.wanted == 0.5
    scan = command("index", "tune", "idx", "--method", "scan", "--json").json["approximate"]
    assert (scan["method"], scan["recall"]) == ("scan", 1)
    assert command("reply", "idx", "reply 7", "--json").json["replies"][0]["text"] == "reply 7"
    assert command("index", "tune", "idx", "--method", "exact", "--json").json["approximate"] is None
    refused("index", "tune", "idx", "--recall", 2, said="recall is 2.0; it goes from above 0 to 1")


def test_words_count_where_they_are_asked_for(command, answer, refused, tmp_path):
    (tmp_path / "replies.txt").write_text("".join(f"reply number{i}\n" for i in range(40)))
    answer("index", "build", "model", "replies.txt", "-o", "idx")
    chats = [Example((f"what of number{i}?",), f"reply number{i}") for i in range(40)]
    write_examples(chats, tmp_path / "chats" / "test-0.parquet")
    [best] = answer("reply", "idx", "what of number7?", "--hybrid", 1, "-k", 1)["replies"]
    assert best["text"] == "reply number7"
    ended = command("chat", "idx", "--hybrid", 1, stdin="what of number9?\n")
    assert "reply number9" in ended.out
    words = ("index", "evaluate", "idx", "--data", "chats")
    plain, both = (answer(*words, *more)["results"][0] for more in ([], ["--hybrid", 1]))
    assert plain["recall"]["1"]["value"] < both["recall"]["1"]["value"] == 1
    refused("reply", "idx", "Hi", "--hybrid", 1, "--minimum-confidence", 0.5, said="leave hybrid out")


@pytest.mark.parametrize("kind", ["milvus", "postgres"])
def test_the_same_verbs_search_and_change_an_index_in_a_database(answer, refused, replies, request, kind):
    if kind == "milvus":
        pytest.importorskip("pymilvus")
        name, more = "store", ("--store", "milvus")
    else:
        name, more = f"{request.getfixturevalue('postgres')}&index=verbs", ()
    made = answer("index", "build", "model", replies, "-o", name, *more)
    assert (made["replies"], made["added"], made["approximate"]) == (3, 3, None)
    assert answer("index", "add", name, replies)["replies"] == 6
    assert answer("index", "delete", name, 0, "--id", "a2")["deleted"] == 3
    found = answer("reply", name, "Bye.", "--where", "id=3", "--omit", "nothing", "--hybrid", 0.5)["replies"]
    assert [reply["position"] for reply in found] == [2, 5]
    assert answer("index", "compact", name)["removed"] == 3
    assert answer("index", "verify", name)["replies"] == 3
    assert answer("index", "reencode", name, "model", "-o", "folder")["replies"] == 3
    assert answer("feedback", name)["entries"] == 0
    assert answer("index", "tune", name)["approximate"]["method"] == "hnsw"
    assert answer("reply", name, "Bye.", "--omit", "nothing")["replies"][0]["score"] > 0.9
    refused("index", "build", "model", replies, "-o", name, *more, said="is an index already")
    refused("index", "tune", name, "--method", "ivf", said="has graphs alone")


def test_a_milvus_server_is_named_wherever_its_index_is_opened(command, refused, replies, monkeypatch):
    def connect(_folder, address):
        raise UnreachableError(f"no server at {address}")

    monkeypatch.setattr(collections, "connect", connect)
    line = ("index", "build", "model", replies, "-o", "store", "--store")
    refused(*line, "milvsu", said="--store milvsu: it is milvus, or a server's http://HOST:19530")
    server = "http://host:19530"
    assert f"set MILVUS_URI={server} wherever this index is opened" in command(*line, server).err
    monkeypatch.setenv(collections.SERVER, server)
    assert "MILVUS_URI" not in command(*line, server).err
    assert not Path("store").exists()


def test_the_search_of_an_index_is_evaluated(command, answer, refused, tmp_path):
    """The right reply stands where the message's own words lead, among all replies."""
    (tmp_path / "replies.txt").write_text("".join(f"reply {i}\n" for i in range(40)))
    for name in ("one", "two"):
        answer("index", "build", "model", "replies.txt", "-o", name)
    pairs = [Example((f"reply {i}",), f"reply {i}") for i in range(45)]
    write_examples(pairs, tmp_path / "chats" / "test-0.parquet")
    words = ("index", "evaluate", "one", "--data", "chats")
    one, two = answer(*words, "two", "--sample", 30, "--history", 0)["results"]
    assert (one["model"], two["model"], one["data"], one["context"]) == ("one", "two", "chats (test)", "0")
    assert one["examples"] + one["dropped"] == 30
    assert one["recall"]["1"]["value"] == two["mrr"]["value"] == 1
    ended = command(*words)
    assert "40 examples, 40 candidates each (the same for all); 5 left out: answered otherwise" in ended.out
    shown = [line.split()[0] for line in ended.out.splitlines() if line.startswith("R@")]
    assert shown == ["R@1", "R@3", "R@10", "R@30"]
    assert "not among the first 100 counts as the last" in ended.err
    for more, said in (
        (["--history", "history"], "--history"),
        (["model2"], "no index model2"),
        (["--data", "none"], "none does not exist; --data names the conversations"),
    ):
        refused(*words, *more, said=said)
    refused("index", "evaluate", "one", said="--data")


def test_indexes_of_different_replies_are_evaluated_without_a_gain(command, answer, tmp_path):
    (tmp_path / "replies.txt").write_text("".join(f"reply {i}\n" for i in range(10)))
    (tmp_path / "more.txt").write_text("another\n")
    for name in ("one", "two", "more"):
        answer("index", "build", "model", "replies.txt", "-o", name)
    answer("index", "add", "more", "more.txt")
    write_examples([Example((f"reply {i}",), f"reply {i}") for i in range(5)], tmp_path / "chats" / "test-0.parquet")
    words = ("index", "evaluate", "one", "two", "more", "--data", "chats")
    gains = ["recall_at_1_above_the_first" in row for row in answer(*words)["results"]]
    assert gains == [False, True, False]
    ended = command(*words)
    assert "the indexes hold different replies" in ended.err
    shown = [line for line in ended.out.splitlines() if "candidates each" in line or line.startswith("gain")]
    assert [line.split(" (")[0] for line in shown[:2]] == ["5 examples, 10 candidates each", "gain: R@1 above one, paired example by example"]
    assert shown[3].split(" (")[0] == "5 examples, 11 candidates each"
    assert len(shown) == 4, "no gain of the index alone"
    assert "different replies" not in command("index", "evaluate", "one", "two", "--data", "chats").err


def test_a_verb_changes_an_index_that_a_server_has_changed_meanwhile(command, index, replies, monkeypatch):
    def changed_after(function):
        def change(*arguments):
            result = function(*arguments)
            Index.open(index).add(["changed meanwhile"])
            return result

        return change

    monkeypatch.setattr(ReplyFile, "total", changed_after(ReplyFile.total))
    assert command("index", "add", index, replies, "--json").json["replies"] == 7
    assert command("index", "add", index, replies, "--replace", "--json").json["replies"] == 5
    monkeypatch.setattr("rejoinder.cli.index.open_index", changed_after(open_index))
    assert command("index", "tune", index, "--method", "scan", "--json").json["replies"] == 6


def test_a_new_edition_has_the_settings_of_the_log(command, index):
    command("feedback", index, "--set", "days=30", "--set", "learn=at-once")
    said = command("index", "reencode", index, "other", "-o", "new").err
    assert "feedback and changes stay with" in said
    assert FeedbackLog("new").settings() == FeedbackSettings(redact=True, days=30, learn="at-once")

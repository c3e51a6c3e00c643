"""`rejoinder data`, from the command line to the exit code."""

import errno
import gzip
import json
import sys
from unittest.mock import Mock

import pytest

from rejoinder.corpora import parquet as tables
from rejoinder.corpora.forms.examples import read_examples
from rejoinder.corpora.registry.sources import CORPORA
from rejoinder.corpora.pipeline.chunks import ChunkSizes
from tests.corpora.jobs import dialogues
from tests.corpora.toy import TOY, toy_lines

VERB = ["data"]


@pytest.fixture(autouse=True)
def chats(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return dialogues(tmp_path / "chats.jsonl", 0, 200)


def test_what_is_printed(command, chats):
    _, out, err = command("jsonl", chats, chats, "-o", "data")
    rows = {line.split()[0]: line.split() for line in out.splitlines()}
    kept = {split: len(list(read_examples("data", split))) for split in ("train", "valid", "test")}
    assert sum(kept.values()) == 400
    for split, count in kept.items():
        assert rows[split] == [split, str(2 * count), str(count), str(count), f"({count}", "duplicate)"]
    assert "400 lines read, 0 bad ones skipped" in out
    assert out.endswith("examples: data\n")
    size = 2 * chats.stat().st_size
    assert f"{size:,} of {size:,} bytes" in err


def test_an_empty_split_is_told_unless_the_user_assigned_all_inputs(command, tmp_path):
    chat = dialogues(tmp_path / "one.jsonl", 0, 1)
    assert "no conversation fell into" in command("jsonl", chat, "-o", "any").out
    assert "no conversation fell into" in command("jsonl", f"test={chat}", chat, "-o", "both").out
    assert "no conversation" not in command("jsonl", f"test={chat}", f"test={chat}", "-o", "assigned").out


def test_a_split_whose_examples_were_all_dropped_is_told(command, tmp_path):
    chat = dialogues(tmp_path / "one.jsonl", 0, 1)
    told = command("jsonl", f"train={chat}", f"test={chat}", "-o", "assigned").out
    assert "no example is left in test; all that were read were dropped" in told
    assert "no conversation fell into" not in told


def test_json_is_what_the_folder_says(answer, tmp_path):
    result = answer("jsonl", "chats.jsonl", "-o", "data", "--limit", 9, "--history", 0)
    assert result.pop("output") == "data"
    assert result == json.loads((tmp_path / "data" / "data.json").read_text())
    assert sum(split["kept"] for split in result["splits"].values()) == 9
    assert (result["limit"], result["history"]) == (9, 0)


def test_history_is_cut_kept_whole_or_refused(command, refused, tmp_path):
    (tmp_path / "long.jsonl").write_text(json.dumps({"turns": [f"turn {number}" for number in range(14)]}))
    assert "2 contexts lost their oldest messages (--history 10)" in command("jsonl", "long.jsonl", "-o", "cut").out
    assert "oldest messages" not in command("jsonl", "long.jsonl", "-o", "all", "--history", "all").out
    assert max(len(example.context) for example in read_examples("all")) == 13
    built = [json.loads((tmp_path / name / "data.json").read_text()) for name in ("cut", "all")]
    assert [(each["history"], each["cut_contexts"]) for each in built] == [(10, 2), (None, 0)]
    for wrong in ("-1", "many", "1" * 20):
        refused("jsonl", "long.jsonl", "-o", "no", f"--history={wrong}", said=f"--history {wrong}: give a number of 0 or more, or all")


def test_bad_lines_stop_or_are_skipped_and_shown(command, refused, chats):
    chats.write_text(chats.read_text() + "oops\n" * 30)
    line = refused("jsonl", chats, "-o", "data", said="--skip-bad 1000")
    assert line.startswith(f"rejoinder: error: {chats}:201: not JSON")
    refused("jsonl", chats, "-o", "data", "--skip-bad", 29, said="more than 29 bad lines")
    _, out, err = command("jsonl", chats, "-o", "data", "--skip-bad", 30)
    assert "30 bad ones skipped" in out
    assert err.count("skipped: ") == 11
    assert "skipped: 20 more bad lines there" in err
    assert "30 bad ones skipped" in command("jsonl", chats, "-o", "all", "--skip-bad", "all").out
    refused("jsonl", chats, "-o", "no", "--skip-bad", said="requires an argument")


def test_bad_input_is_one_line_and_code_2(refused, chats, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "binary.jsonl").write_bytes(bytes(range(256)))
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(chats.read_bytes())[:-20])
    for arguments, reason in (
        (["twitter", "chats.jsonl"], "no source 'twitter'"),
        (["chitchat", "chats.jsonl"], "leave chats.jsonl out"),
        (["jsonl"], "name at least one"),
        (["jsonl", "missing.jsonl"], "missing.jsonl does not exist"),
        (["jsonl", "."], ". is a folder; name the files in it"),
        (["jsonl", "empty.jsonl"], "empty.jsonl is empty"),
        (["jsonl", "binary.jsonl"], "binary data"),
        (["jsonl", "cut.jsonl.gz"], "cut.jsonl.gz is cut off"),
        (["jsonl", "chats.jsonl", "--limit", "0"], "--limit"),
        (["jsonl", "chats.jsonl", "--set", "a=1"], "unknown key 'a'; allowed: redact, respond"),
        (["jsonl", "chats.jsonl", "--ray", "auto", "--processes", "2"], "--processes is for this machine"),
        (["jsonl", "chats.jsonl", "--ray", "auto"], "--ray needs the extra 'cluster': pip install "),
    ):
        refused(*arguments, "-o", "data", said=reason)
    assert not (tmp_path / "data").exists()


def test_settings_of_a_corpus(command, refused, tmp_path, monkeypatch):
    monkeypatch.setitem(CORPORA, "toy", TOY)
    (tmp_path / "toy.txt").write_text("".join(f"{line}\n" for line in toy_lines(100)))
    words = ("toy", "toy.txt", "-o", "data", "--set")
    assert command(*words, "shortest=9", "--json").json["settings"] == {"shortest": 9}
    assert "short message" in command(*words, "shortest=9").out
    refused(*words, "shortest=x", said="it should be a valid integer")


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(("stop", "code", "said"), [(FULL, 1, "no space left"), (KeyboardInterrupt(), 130, "inter")])
def test_a_full_disk_and_ctrl_c_say_what_is_kept(command, tmp_path, monkeypatch, stop, code, said):
    monkeypatch.setattr(tables.pq.ParquetWriter, "write_table", Mock(side_effect=stop))
    given, out, err = command("jsonl", "chats.jsonl", "-o", "data")
    assert (given, out) == (code, "")
    assert said in err.splitlines()[-1]
    assert "Traceback" not in err
    assert f"finished work is kept in {tmp_path / '.data.work'}; the same command continues" in err


def test_ctrl_c_before_a_step_is_finished_says_that_nothing_is_kept(command, tmp_path, monkeypatch):
    monkeypatch.setattr("rejoinder.corpora.pipeline.chunks.example_digests", Mock(side_effect=KeyboardInterrupt()))
    code, out, err = command("jsonl", "chats.jsonl", "-o", "data")
    assert (code, out) == (130, "")
    assert "no step was finished; the same command begins again" in err
    assert "kept" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chats.jsonl"]


def test_an_error_that_the_same_command_repeats_does_not_say_that_it_continues(command, tmp_path):
    lines = [{"turns": ["Hi!", "Hello."]}, {"context": ["Hi!"], "response": "Yes", "candidates": ["Yes", "No"], "label": 0}]
    (tmp_path / "mix.jsonl").write_text("\n".join(map(json.dumps, lines)))
    code, out, err = command("jsonl", "train=mix.jsonl", "-o", "mix")
    assert (code, out) == (2, "")
    assert "some examples of the train part have candidates and some have none; make one data set" in err
    assert "continues" not in err
    assert "kept" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chats.jsonl", "mix.jsonl"]


def test_an_error_of_one_file_says_how_long_the_work_on_others_is_kept(command, tmp_path, monkeypatch):
    monkeypatch.setattr("rejoinder.corpora.pipeline.build.ChunkSizes", lambda: ChunkSizes(files=1))
    (tmp_path / "bad.jsonl").write_text("oops\n")
    code, _, err = command("jsonl", "chats.jsonl", "bad.jsonl", "-o", "data")
    assert code == 2
    assert f"finished work is kept in {tmp_path / '.data.work'} as long as no input is changed" in err
    assert "same command" not in err


ASKED = "Hello, where is my order? I am a@b.org, and I have been waiting for a week."
TOLD = "Let me look that up for you, and thank you for your patience with us."
FRAGE = "Guten Tag, wo bleibt meine Bestellung? Ich warte schon seit zwei Wochen darauf, und niemand antwortet."
MESSAGES = [("user", ASKED), ("assistant", TOLD), ("system", "closed")]
CHAT = {"messages": [{"role": role, "content": text} for role, text in MESSAGES]}
OTHERS = [{"turns": [FRAGE, "Das tut mir leid, " + "wir sehen nach " * 40]}, {"turns": ["你好,我想退款", "好的"]}]


def test_a_dry_run_says_what_the_files_hold_and_writes_nothing(command, answer, refused, tmp_path):
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, [CHAT, *OTHERS, CHAT])))
    before = sorted(tmp_path.rglob("*"))
    found = answer("jsonl", "own.jsonl", "--dry-run", "--set", "redact=true")
    assert [found[key] for key in ("chats", "messages", "examples", "too_long")] == [4, 8, 4, 1]
    assert found["messages_a_chat"] == {"median": 2, "p95": 2, "most": 2}
    assert found["lengths"]["most"] > 120
    assert (found["not_english"], found["judged_chats"]) == (2, 4)
    assert (found["personal"], found["messages_with_personal"]) == ({"email": 2, "iban": 0, "card": 0, "phone": 0}, 2)
    assert found["roles"] == {"user": 2, "assistant": 2, "system": 2}
    assert len(found["shown"]) == 3
    assert "<email>" in found["shown"][0]["context"][0]
    out = command("jsonl", "own.jsonl", "--dry-run", "--history", 0).out
    for said in ("2 of system (left out)", "2 of assistant (responses)", "1 of 8 (12.5%) messages are longer than",
                 "the middle is cut", "2 of 4 (50.0%) chats do not look English", "a@b.org",
                 "nothing was written"):  # fmt: skip
        assert said in out
    assert sorted(tmp_path.rglob("*")) == before
    (tmp_path / "own.jsonl").write_text(json.dumps(CHAT))
    agents = ("jsonl", "own.jsonl", "--dry-run", "--set", "respond=agent")
    refused(*agents, said="there are those of user (1), assistant (1)")
    refused("reddit", "own.jsonl", "--dry-run", said="its threads are scattered over its files")
    refused("csv", "own.jsonl", "-o", "data", "--set", "respond=agent", said="unknown key 'respond'")


TABLE = """\
conversation,author,text
1,bea,Hi
1,bot,Hello.
1,bea,Where is it?
1,bea,I wait.
1,bot,On its way.
2,cem,Hi
2,bot,Hello.
3,dan,Anybody?
"""


def test_the_counts_of_a_dry_run_agree(command, answer, tmp_path):
    (tmp_path / "own.csv").write_text(TABLE)
    found = answer("chats", "own.csv", "--dry-run")
    assert [found[key] for key in ("chats", "without_reply", "messages", "examples")] == [2, 1, 6, 3]
    out = command("chats", "own.csv", "--dry-run").out
    for said in ("table of messages, 3 chats, agent: bot", "2 chats with a reply, 1 without; 0 bad lines skipped",
                 "3 examples with 6 messages; consecutive messages of a role are one",
                 "messages in the files: 5 of customer (context), 3 of agent (responses)"):  # fmt: skip
        assert said in out
    (tmp_path / "own.csv").write_text("\n".join(TABLE.splitlines()[:3]))
    out = command("chats", "own.csv", "--dry-run").out
    assert "table of messages, 1 chat, agent: bot" in out
    assert "1 chat with a reply, 0 without; 0 bad lines skipped" in out
    assert "1 example with 2 messages" in out


def test_names_of_agents_that_nobody_has_are_told_with_the_participants(command, refused, tmp_path):
    (tmp_path / "own.csv").write_text(TABLE)
    told = "own.csv: nobody is called bott; there are messages of bea (3), bot (3), cem (1), dan (1)"
    for options in (["--dry-run"], ["-o", "data"]):
        agent = ["--set", "agent=bott"]
        said = f"own.csv: no example in 3 lines; {told}: `--set agent=NAME` names others"
        refused("chats", "own.csv", *options, *agent, said=said)
        assert told in command("chats", "own.csv", *options, "--set", "agent=Bot, bott", "--overwrite").out
    hidden = command("chats", "own.csv", "-o", "hidden", "--set", "agent=bot,bott", "--set", "redact=true").out
    assert "own.csv: nobody is called bott\n" in hidden
    assert "nobody is called" not in command("chats", "own.csv", "--dry-run", "--set", "agent=bot").out


def test_roles_choose_the_responses(command, tmp_path):
    (tmp_path / "own.jsonl").write_text(json.dumps(CHAT))
    out = command("jsonl", "train=own.jsonl", "--set", "respond=any", "-o", "data").out
    assert "messages: 1 of user (responses), 1 of assistant (responses), 1 of system (left out)" in out
    out = command("jsonl", "train=own.jsonl", "--set", "respond=user,assistant", "-o", "both").out
    assert "messages: 1 of user (responses), 1 of assistant (responses), 1 of system (left out)" in out

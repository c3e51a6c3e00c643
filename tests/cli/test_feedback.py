"""`rejoinder feedback` and learning from it by the command."""

import json

import pytest

import rejoinder
from rejoinder.corpora.forms.examples import read_examples
from rejoinder.retrieval.index import Index
from tests.logs import log_of, recorder

TEXTS = ["We open at nine.", "Refunds take five days."]


@pytest.fixture
def index(tmp_path):
    index = Index.build(rejoinder.load("convert-small"), TEXTS, tmp_path / "replies.index")
    recorder(index).feedback(["When?"], [0, 1], chosen=0, source="anna")
    recorder(index).feedback(["Money?"], [0, 1], chosen=1, source="ben")
    recorder(index).feedback(["Why?"], [0], text="Because.", source="ben")
    recorder(index).feedback(["Hm."], [0])
    return index


def test_the_log_is_counted_and_set_up(index, answer, command):
    shown = answer("feedback", index.folder)
    assert shown == {
        "log": str(log_of(index).database.path), "entries": 4, "first": 1, "offered": 1, "unoffered": 0, "text": 1, "none": 1,
        "settings": {"redact": True, "days": 365, "learn": "later"},
    }  # fmt: skip
    set_up = answer("feedback", index.folder, "--set", "days=30", "--set", "learn=at-once", "--set", "redact=false")
    assert set_up["settings"] == {"redact": False, "days": 30, "learn": "at-once"}
    text = command("feedback", index.folder).out
    assert "4 entries" in text
    assert "1 the first reply was taken" in text
    assert 'learn="at-once"' in text


def test_entries_are_written_as_examples(index, answer, tmp_path):
    assert answer("feedback", index.folder, "-o", tmp_path / "use.jsonl")["written"] == 3
    lines = [json.loads(line) for line in (tmp_path / "use.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(line["context"], line["response"]) for line in lines] == [
        (["When?"], TEXTS[0]), (["Money?"], TEXTS[1]), (["Why?"], "Because.")]  # fmt: skip
    assert lines[0]["offered"] == TEXTS
    assert "anna" not in str(lines)
    assert len(list(read_examples(tmp_path / "use.jsonl"))) == 3


def test_entries_are_deleted(index, answer, command):
    assert answer("feedback", index.folder, "--delete", "source=anna")["deleted"] == 1
    assert answer("feedback", index.folder, "--delete", "before=2020-01-31")["deleted"] == 0
    both = ("--delete", "source=anna", "--delete", 2)
    assert answer("feedback", index.folder, *both)["deleted"] == 0
    assert answer("feedback", index.folder, "--delete", 2, "--delete", 7)["entries"] == 2
    assert "2 deleted, with 0 learned examples" in command("feedback", index.folder, "--delete", "all").out
    assert len(log_of(index)) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--delete", "all", "--delete", "2"], "give all alone"),
        (["--delete", "source=a", "--delete", "source=b"], "'source=b': give all alone, or before=DAY"),
        (["--delete", "anna"], "'anna': give all alone, or before=DAY and source=NAME"),
        (["--delete", "before=yesterday"], "give a day, such as 2026-01-31"),
        (["--delete", "before=9999-12-31T23:59:59-23:00"], "give a day, such as 2026-01-31"),
        (["--delete", "before=0001-01-01T00:00:00+23:00"], "give a day, such as 2026-01-31"),
        (["--set", "days=0"], "days"),
        (["--set", "dasy=1"], "did you mean 'days'"),
        (["--set", "days"], "write it as key=value"),
    ],
)
def test_wrong_words_are_refused(index, refused, words, said):
    refused("feedback", index.folder, *words, said=said)


def test_a_folder_without_an_index_has_no_feedback(tmp_path, refused):
    refused("feedback", tmp_path / "none", said="no index")


def test_the_report_is_shown_written_and_given_as_json(index, answer, command, tmp_path):
    told = answer("report", index.folder)
    assert (told["entries"], told["unanswered"], told["taken"]["first"]) == (4, 2, 1)
    shown = command("report", index.folder).out
    assert "# Use of replies.index" in shown
    assert "Messages without a reply (2)" in shown
    assert "wrote" in command("report", index.folder, "-o", tmp_path / "report.html").out
    assert "<svg" in (tmp_path / "report.html").read_text(encoding="utf-8")
    command("report", index.folder, "-o", tmp_path / "report.md")
    assert (tmp_path / "report.md").read_text(encoding="utf-8").startswith("# Use of")


def test_a_report_of_another_form_is_refused(index, refused, tmp_path):
    refused("report", index.folder, "-o", tmp_path / "report.pdf", said="ends in .html or .md")

"""A review of an index: its mistakes on held-out messages, and examples that belong elsewhere."""

import json

import pytest

from rejoinder.corpora.schema import Candidate, Example
from rejoinder.curation.review import review
from rejoinder.curation.review_report import save_review
from rejoinder.errors import InputError
from rejoinder.retrieval.index import Index
from tests.retrieval.test_examples import WordEncoder, many

MISPLACED = ("topic4 topic4 topic4",)


@pytest.fixture
def index(tmp_path):
    replies = many()
    first = Candidate(replies[0].text, {}, "zero", (*replies[0].examples, MISPLACED))
    return Index.build(WordEncoder(), [first, *replies[1:]], tmp_path / "index")


def examples():
    right = [Example((f"topic{row} word3",), f"reply {row}") for row in range(30)]
    wrong = [Example(("topic7 topic7",), "Reply 8!"), Example(("topic7",), "reply 8")]
    return [*right, *wrong, Example(("hello",), "no reply of the index")]


def test_mistakes_are_found_and_said(index, tmp_path):
    found = review(index, examples())
    assert found.asked == 32
    assert found.right >= 28
    assert (8, 7, 2) in found.pairs
    assert any(need.position == 8 and need.asked - need.right >= 2 for need in found.needs)
    assert {mistake.message for mistake in found.mistakes} >= {"topic7 topic7", "topic7"}
    assert found.answered > 0.8
    assert [(each.message, each.right, each.found) for each in found.elsewhere if each.right == 0] == [
        (MISPLACED[0], 0, 4)
    ]
    save_review(index, found, tmp_path / "report")
    save_review(index, found, tmp_path / "report")
    text = (tmp_path / "report/report.md").read_text(encoding="utf-8")
    assert "| #8 reply 8 | #7 reply 7 | 2 |" in text
    assert "#0 zero" in text
    assert json.loads((tmp_path / "report/report.json").read_text(encoding="utf-8"))["asked"] == 32


def test_conversations_of_other_replies_are_refused(index):
    with pytest.raises(InputError, match="no response of the conversations is a reply"):
        review(index, examples()[-1:])


def test_an_index_without_examples_has_none_elsewhere(tmp_path):
    plain = Index.build(WordEncoder(), [f"reply {row}" for row in range(30)], tmp_path / "plain")
    found = review(plain, [Example(("reply 3",), "reply 3")])
    assert (found.right, found.refused, found.elsewhere, found.pairs) == (1, 0, (), ())

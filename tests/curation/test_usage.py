"""What the log of an index tells, and the report that shows it."""

import random
import time
from html.parser import HTMLParser

import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.curation.feedback import Entry
from rejoinder.curation.usage import SHOWN, group_by_meaning, usage
from rejoinder.curation.usage_report import usage_document
from rejoinder.retrieval.index import Index
from tests.logs import log_of
from tests.retrieval.test_examples import WordEncoder

DAY = 86_400
EVIL = '<script>alert("x")</script> | [x](javascript:1) & <img src=x onerror=alert(1)>'
REPLIES = [
    Candidate("We open at nine.", {}, "hours", (("when do you open",), ("opening hours please",))),
    Candidate("Refunds take five days.", {}, "", (("where is my money",), ("when is my refund paid",))),
    Candidate("It is on its way.", {}, "", (("where is my parcel",), ("has my order been sent",))),
    Candidate("Nobody ever takes this."),
]
TEXTS = [reply.text for reply in REPLIES]


@pytest.fixture
def index(tmp_path):
    return Index.build(WordEncoder(), REPLIES, tmp_path / "index")


def log(index, *entries):
    log_of(index).append([Entry(**{"text": None, "chosen": None, **entry}) for entry in entries])


def test_without_feedback_it_says_so(index):
    told = usage(index, log_of(index))
    assert (told.entries, told.periods, told.groups, told.unlike) == (0, (), (), None)
    assert "no feedback yet" in usage_document("index", dict(index), told).markdown()


def test_what_was_taken_is_counted_by_day(index):
    noon = time.time() // DAY * DAY + DAY / 2 - 10 * DAY
    offered = (TEXTS[0], TEXTS[1])
    log(
        index,
        {"context": ("a",), "offered": offered, "chosen": TEXTS[0], "time": noon},
        {"context": ("b",), "offered": offered, "chosen": TEXTS[1], "time": noon},
        {"context": ("c",), "offered": offered, "chosen": TEXTS[2], "time": noon + DAY},
        {"context": ("d",), "offered": offered, "text": "Well.", "time": noon + DAY},
        {"context": ("e",), "offered": (), "time": noon + 3 * DAY},
    )
    told = usage(index, log_of(index))
    assert told.taken == {"first": 1, "offered": 1, "unoffered": 1, "text": 1, "none": 1}
    assert [period.entries for period in told.periods] == [2, 2, 1]
    assert told.period == "day"
    assert told.periods[0].taken["first"] == told.periods[0].taken["offered"] == 1
    log(index, {"context": ("f",), "offered": offered, "chosen": TEXTS[0], "time": noon - 60 * DAY})
    later = usage(index, log_of(index))
    assert later.period == "week"
    assert sum(period.entries for period in later.periods) == later.entries == 6


def test_unused_replies_and_confusions(index):
    for message in ("x", "y"):
        log(index, {"context": (message,), "offered": (TEXTS[0], TEXTS[3], TEXTS[1]), "chosen": TEXTS[1]})
    log(index, {"context": ("z",), "offered": (TEXTS[1],), "chosen": "a reply that is gone"})
    told = usage(index, log_of(index))
    assert [(each.position, each.offered) for each in told.unused] == [(0, 2), (3, 2), (2, 0)]
    assert told.unused_count == 3
    assert [(each.taken, each.first, each.entries, each.message) for each in told.confusions] == [(1, 0, 2, "y")]


def test_messages_without_a_reply_are_grouped_largest_first(index):
    for message in ("is there parking for my car", "parking for a car", "car parking there", "CAR parking, there!"):
        log(index, {"context": ("Hi", message), "offered": (TEXTS[0],), "text": "Behind the house."})
    for message in ("do you sell gift cards", "sell me gift cards"):
        log(index, {"context": (message,), "offered": ()})
    log(index, {"context": ("when do you open",), "offered": (TEXTS[0],), "chosen": TEXTS[0]})
    told = usage(index, log_of(index))
    assert told.unanswered == 6
    first, second = told.groups[:2]
    assert (first.entries, second.entries) == (4, 2)
    assert {"parking", "car"} <= set(first.words)
    assert {"gift", "cards"} <= set(second.words)
    assert first.sent == ("Behind the house.",)
    assert second.sent == ()
    assert sum(group.entries for group in told.groups) == 6


def test_what_is_unlike_the_examples_is_seen(index):
    known = [example[0] for reply in REPLIES for example in reply.examples]
    for message in known:
        log(index, {"context": (f"hello {message}",), "offered": (), "time": time.time() - 5 * DAY})
    for number in range(6):
        log(index, {"context": (f"zebra quokka number{number}",), "offered": ()})
    old, new = usage(index, log_of(index)).periods
    assert old.unlike < 0.5 < new.unlike == 1.0


def test_without_examples_nothing_is_unlike_them(tmp_path):
    index = Index.build(WordEncoder(), TEXTS, tmp_path / "index")
    log(index, {"context": ("when",), "offered": (TEXTS[0],), "chosen": TEXTS[0]})
    assert usage(index, log_of(index)).unlike is None


def test_lists_are_bounded(tmp_path):
    index = Index.build(WordEncoder(), [f"reply {number}" for number in range(60)], tmp_path / "index")
    words = random.Random(0).sample(range(10**6), 200)
    for number in words:
        log(index, {"context": (f"word{number}",), "offered": ("reply 1",), "text": "no"})
    told = usage(index, log_of(index))
    assert (len(told.groups), len(told.unused), told.unused_count) == (SHOWN, SHOWN, 60)
    shown = usage_document("index", dict(index), told).markdown()
    assert f"Replies that nobody took (60; the {SHOWN} that were offered most)" in shown


def test_groups_of_one_message_and_of_none():
    assert group_by_meaning(WordEncoder(), []) == []
    assert group_by_meaning(WordEncoder(), ["one"]) == [0]


class Tags(HTMLParser):
    """Collects the tags and attributes of a page."""

    def __init__(self):
        super().__init__()
        self.tags = []
        self.attributes = []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attributes]


def test_the_report_is_whole_and_nothing_in_it_is_a_tag(tmp_path):
    replies = [Candidate(EVIL, {}, EVIL), Candidate("Other.", {}, "", ((EVIL,), ("b",)))]
    index = Index.build(WordEncoder(), replies, tmp_path / "index")
    log(index, {"context": (EVIL,), "offered": (EVIL, "Other."), "chosen": "Other."})
    log(index, {"context": (EVIL,), "offered": (EVIL,), "text": EVIL})
    told = usage(index, log_of(index))
    document = usage_document(EVIL, dict(index), told)
    page = Tags()
    page.feed(document.html())
    assert not {"script", "img", "a"} & set(page.tags)
    assert not [name for name in page.attributes if name.startswith("on") or name in ("href", "src", "style")]
    assert page.tags.count("table") == 4
    assert {"svg", "rect", "style"} <= set(page.tags)
    assert "<script" not in document.markdown()
    assert "<img" not in document.markdown()
    assert "<img" in document.plain()
    assert "&lt;" not in document.plain(), "a terminal shows texts as they are"
    tables = [line for line in document.markdown().splitlines() if line.startswith("| ")]
    assert {line.replace("\\|", "").count("|") for line in tables} == {3, 5, 7}
    assert len(document.markdown().split("\n# ")) == 1

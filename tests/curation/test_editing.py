"""Replies added, edited, retired and merged: what searches find then, what the log says, and undoing."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.schema import Candidate
from rejoinder.curation.changes import changes
from rejoinder.curation.editing import Editor
from rejoinder.curation.erasure import erase
from rejoinder.curation.learning import forget, learn, learn_chosen
from rejoinder.curation.usage import usage
from rejoinder.encoders.vectors import ContextVectors
from rejoinder.errors import InputError
from rejoinder.retrieval import index as index_module
from rejoinder.retrieval.index import Index
from tests.logs import log_of, recorder
from tests.retrieval.test_examples import WordEncoder

REPLIES = [
    Candidate("We open at nine.", {"id": 1}, "hours", (("when do you open",),)),
    Candidate("Refunds take five days.", {"id": 2}, "money", (("where is my money",), ("refund please",))),
    Candidate("Money comes back within a week.", {}, "refunds", (("give it back",), ("refund please",))),
    Candidate("It is on its way."),
]


@pytest.fixture(params=["small", "large"])
def index(tmp_path, monkeypatch, request):
    """An index that is fitted again by every change, and one whose changes are revisions."""
    if request.param == "large":
        monkeypatch.setattr(index_module, "MOST_FITTED", 0)
    return Index.build(WordEncoder(), REPLIES, tmp_path / "index")


@pytest.fixture
def editor(index):
    return Editor(index, log_of(index))


def best(index, message):
    [[reply]] = index.search([[message]], k=1, minimum_score=-9.0)
    return reply.position


def score(index, message, position):
    [found] = index.search([[message]], k=9, minimum_score=-9.0)
    return next(reply.score for reply in found if reply.position == position)


def test_an_edited_text_is_encoded_and_keeps_its_position(editor, index):
    change = editor.edit(3, text="Your zebra stands outside.", title="zebra")
    assert (change.kind, change.before[3], change.after[3].text) == ("edit", REPLIES[3], "Your zebra stands outside.")
    assert best(index, "zebra outside") == 3
    again = Index.open(index.store, WordEncoder(), verify=True)
    assert dict(again)[3].title == "zebra"
    assert [position for position, _ in again] == [0, 1, 2, 3]
    fresh = Index.build(WordEncoder(), [reply for _, reply in again], index.folder.parent / "fresh")
    np.testing.assert_allclose(again.vectors([3], of_texts=True), fresh.vectors([3], of_texts=True), atol=1e-6)


def test_an_edit_that_changes_nothing_is_not_made(editor, index):
    before = index.manifest
    reply = REPLIES[1]
    for fields in ({"text": reply.text}, {"title": "money"}, {"examples": list(reply.examples)}, {"payload": {"id": 2}}, {}):
        change = editor.edit(1, **fields)
        assert (change.id, change.before, change.after, change.new_examples) == (0, {}, {}, 0)
    assert index.manifest == before
    assert not changes(log_of(index).database)
    assert editor.edit(1, payload={"id": 2.0}).id == 1


@pytest.mark.parametrize("encoder", [WordEncoder])
def test_texts_alone_are_edited_without_a_head(tmp_path, encoder):
    index = Index.build(encoder(), ["one", "two"], tmp_path / "plain")
    Editor(index, log_of(index)).edit(1, text="a zebra")
    assert index.manifest.head is None
    assert best(index, "zebra") == 1


def test_a_model_of_several_vectors_keeps_examples_that_do_not_count(tmp_path):
    class Several(WordEncoder):
        def encode_contexts(self, contexts):
            return ContextVectors(super().encode_contexts(contexts)[:, None].repeat(2, axis=1))

    index = Index.build(Several(), REPLIES, tmp_path / "several")
    Editor(index, log_of(index)).edit(3, text="a zebra")
    assert (dict(index)[3].text, dict(index)[1].examples) == ("a zebra", REPLIES[1].examples)


def test_merging_moves_examples_and_retires_the_other(editor, index):
    before = score(index, "give it back", 1)
    editor.merge(1, 2)
    assert [position for position, _ in index] == [0, 1, 3]
    assert dict(index)[1].examples == (("where is my money",), ("refund please",), ("give it back",), ("refunds",))
    assert score(index, "give it back", 1) > before
    assert len(index.manifest.segments) > 1 or best(index, "give it back") == 1, "a regression counts more"
    editor.undo(1)
    assert dict(index) == dict(enumerate(REPLIES)), "what was retired comes back at its position"
    assert best(index, "give it back") == 2


def test_an_example_moves(editor, index):
    editor.move(("refund please",), 1, 0)
    assert dict(index)[1].examples == (("where is my money",),)
    assert dict(index)[0].examples == (("when do you open",), ("refund please",))
    assert best(index, "refund please") in (0, 2)
    editor.undo(1)
    assert dict(index) == dict(enumerate(REPLIES))


def test_additions_and_retirements_are_undone(editor, index):
    one, two = editor.add([[Candidate("new one")], [Candidate("new two"), Candidate("new three")]])
    assert (list(one.after), list(two.after)) == ([4], [5, 6])
    editor.undo(two.id)
    assert [position for position, _ in index] == [0, 1, 2, 3, 4]
    [gone] = editor.retire([0])
    back = editor.undo(gone.id)
    assert list(back.after) == [0]
    assert dict(index)[0] == REPLIES[0]
    editor.undo(back.id)
    assert 0 not in dict(index)
    assert best(Index.open(index.store, WordEncoder(), verify=True), "new one") == 4
    assert [(each.kind, each.undone) for each in changes(log_of(index).database)] == [
        ("undo", False), ("undo", True), ("retire", False), ("undo", False), ("add", True), ("add", False)]  # fmt: skip


def test_undoing_what_has_changed_since_or_was_undone_is_refused(editor, index):
    first = editor.edit(0, title="one")
    second = editor.edit(0, title="two")
    with pytest.raises(InputError, match="reply 0 has changed since change 1; undo later changes first"):
        editor.undo(first.id)
    editor.undo(second.id)
    editor.undo(first.id)
    assert dict(index)[0] == REPLIES[0]
    with pytest.raises(InputError, match="undone already"):
        editor.undo(first.id)
    with pytest.raises(InputError, match="no change 99"):
        editor.undo(99)


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (lambda editor: editor.edit(9, title="x"), "no reply 9"),
        (lambda editor: editor.edit(0, text="  "), "needs a text"),
        (lambda editor: editor.merge(1, 1), "with itself"),
        (lambda editor: editor.merge(1, 9), "no reply 9"),
        (lambda editor: editor.move(("nothing",), 0, 1), "no such example"),
        (lambda editor: editor.retire([0, 9]), "no reply 9"),
    ],
)
def test_wrong_changes_change_nothing(editor, index, work, words):
    before = index.fingerprint
    with pytest.raises(InputError, match=words):
        work(editor)
    assert (index.fingerprint, changes(log_of(index).database)) == (before, [])


def test_feedback_follows_replies_that_were_edited_or_merged(editor, index):
    recorder(index).feedback(["my zebra"], [2, 1], chosen=2)
    recorder(index).feedback(["my quokka"], [3], chosen=3)
    editor.merge(1, 2)
    editor.edit(3, text="Another text now.")
    editor.edit(3, text="And one more.")
    learn(index, log_of(index))
    assert ("my zebra",) in dict(index)[1].learned
    assert ("my quokka",) in dict(index)[3].learned
    assert [each.position for each in usage(index, log_of(index)).unused] == [0]


@pytest.mark.parametrize("most_fitted", [2000, 0])
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_undoing_everything_newest_first_gives_what_there_was(tmp_path_factory, most_fitted, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_module, "MOST_FITTED", most_fitted)
        undo_everything(tmp_path_factory, seed)


def undo_everything(tmp_path_factory, seed):
    chance = random.Random(seed)
    index = Index.build(WordEncoder(), REPLIES, tmp_path_factory.mktemp("undo") / "index")
    editor = Editor(index, log_of(index))
    for number in range(6):
        present = [position for position, _ in index]
        kind = chance.choice(["add", "edit", "retire", "merge"]) if len(present) > 2 else "add"
        one, two = chance.sample(present, 2)
        if kind == "add":
            editor.add([[Candidate(f"new {number}")]])
        elif kind == "edit":
            editor.edit(one, text=f"text {number}", examples=((f"example {number}",),))
        elif kind == "retire":
            editor.retire([one])
        else:
            editor.merge(one, two)
    index.compact()
    for change in changes(log_of(index).database):
        editor.undo(change.id)
    assert dict(index) == dict(enumerate(REPLIES))
    assert dict(Index.open(index.store, WordEncoder(), verify=True)) == dict(index)


def test_what_a_reply_has_learned_since_stays_when_a_change_is_undone(editor, index):
    edited = editor.edit(1, text="Refunds take six days.")
    [added] = editor.add([[Candidate("The zebra is striped.")]])
    merged = editor.merge(2, 3)
    for at, message in ((1, "pay me back"), (2, "give back my zebra"), (4, "which animal")):
        recorder(index).feedback([message], [at], chosen=at, source=message)
    assert learn_chosen(index, log_of(index))
    for change in (merged, added, edited):
        editor.undo(change.id)
    assert [position for position, _ in index] == [0, 1, 2, 3]
    assert dict(index)[1].text == REPLIES[1].text
    assert dict(index)[1].learned == (("pay me back",),)
    assert dict(index)[2].learned == (("give back my zebra",),)
    assert dict(index)[2].examples == REPLIES[2].examples


def test_what_was_forgotten_since_does_not_come_back(editor, index):
    recorder(index).feedback(["pay me back"], [1], chosen=1)
    assert learn_chosen(index, log_of(index))
    edited = editor.edit(1, title="refund")
    forget(index, log_of(index))
    editor.undo(edited.id)
    assert dict(index)[1] == REPLIES[1]


def test_a_change_that_was_undone_and_redone_counts_again(editor, index):
    recorder(index).feedback(["pay me back"], [1], chosen=1)
    edited = editor.edit(1, text="Money: a working week.")
    redone = editor.undo(editor.undo(edited.id).id)
    assert [each.undone for each in changes(log_of(index).database)] == [False, True, False]
    assert learn_chosen(index, log_of(index)), "feedback on the earlier text stays with the reply"
    editor.undo(redone.id)
    assert [each.undone for each in changes(log_of(index).database)] == [False, True, False, True]
    assert dict(index)[1].text == REPLIES[1].text


def test_an_added_reply_is_kept_as_the_index_keeps_it_and_undone(editor, index):
    [change] = editor.add([[Candidate("new", examples=("which zebra", ["which zebra"], ("when",)))]])
    assert change.after[4].examples == (("which zebra",), ("when",))
    editor.undo(change.id)
    assert 4 not in dict(index)


def test_changes_of_an_index_read_examples_as_building_does(index):
    index.edit({0: Candidate("We open at ten.", examples=("where is my order",)), 3: "It left us."})
    assert dict(index)[0].examples == (("where is my order",),)
    assert dict(index)[3].text == "It left us."
    index.fit({1: Candidate("Refunds.", examples=["how long"])})
    assert dict(index)[1].examples == (("how long",),)


def test_the_title_of_a_table_is_edited_in_both_places(editor, index):
    [added] = editor.add([[Candidate("new", {"title": "delivery", "team": "a"}, "delivery")]])
    editor.edit(4, title="shipping")
    assert dict(index)[4].payload == {"title": "shipping", "team": "a"}
    editor.edit(4, payload={"title": "own"})
    editor.edit(4, title="other")
    assert dict(index)[4].payload == {"title": "own"}
    assert added.after[4].payload["title"] == "delivery"


QUESTIONS = (("When are you open?",), ("hours?",))


@pytest.mark.parametrize(
    "examples", [["When are you open?", "hours?"], [["When are you open?"], ["hours?"]], np.array(["When are you open?", "hours?"])]
)
def test_an_edit_reads_examples_as_building_does_and_its_change_is_undone(editor, index, examples):
    change = editor.edit(0, examples=examples)
    assert change.after[0].examples == dict(index)[0].examples == QUESTIONS
    assert changes(log_of(index).database)[0] == change
    editor.undo(change.id)
    assert dict(index)[0] == REPLIES[0]


def test_an_edited_payload_is_logged_as_the_index_keeps_it(editor, index):
    change = editor.edit(0, payload={"when": ("a", np.str_("b")), 1: True}, title=np.str_("times"))
    assert change.after[0] == dict(index)[0]
    assert (change.after[0].payload, change.after[0].title) == ({"when": ["a", "b"], "1": True}, "times")
    editor.undo(change.id)


WRONG = [
    ({"title": None}, "the title of .* is None; give a text, '' for none"),
    ({"title": 5}, "the title of .* is 5; give a text"),
    ({"payload": None}, "the payload of .* is None; give a mapping"),
    ({"payload": {"a": {1}}}, "cannot be stored as JSON"),
    ({"examples": "When open?"}, "the examples of .* are a list of questions"),
    ({"examples": None}, "the examples of .* are a list of questions"),
    ({"examples": [5]}, "the examples of .* are a list of questions"),
    ({"text": None}, "the text of a reply is None; give a text"),
]


@pytest.mark.parametrize(("fields", "words"), [*WRONG, ({"foo": 1}, "a reply has no field 'foo'; .*text, payload, title, examples")])
def test_a_value_of_another_type_is_refused_before_anything_is_logged(editor, index, fields, words):
    before = index.fingerprint
    with pytest.raises(InputError, match=words):
        editor.edit(0, **fields)
    assert (index.fingerprint, changes(log_of(index).database)) == (before, [])


@pytest.mark.parametrize(("fields", "words"), WRONG)
def test_an_added_value_of_another_type_is_refused_too(editor, index, fields, words):
    reply = Candidate(**{"text": "x", **fields})
    for work in (lambda: editor.add([[reply]]), lambda: index.add([reply]), lambda: index.edit({0: reply})):
        with pytest.raises(InputError, match=words):
            work()
    assert changes(log_of(index).database) == []


def test_a_change_that_cannot_be_read_stays_in_the_list_and_blocks_nothing_else(editor, index):
    first = editor.edit(0, text="We open at ten.")
    second = editor.edit(1, text="Refunds take six days.")
    log = log_of(index)
    with log.database.writing() as connection:
        connection.execute("UPDATE change SET after = replace(after, '[\"when do you open\"]', '\"when\"') WHERE id = 1")
    assert [(each.id, each.after) for each in changes(log.database)] == [(second.id, second.after), (first.id, {})]
    with pytest.raises(InputError, match=r"the replies of change 1 cannot be read.*edit them instead"):
        editor.undo(first.id)
    recorder(index).feedback(["where is my order"], [3], chosen=3)
    assert learn_chosen(index, log)
    assert usage(index, log)
    erase(index, log)
    assert "when" not in str(log.database.rows("SELECT before, after FROM change WHERE id = 1", {}))
    editor.undo(second.id)
    assert dict(index)[1] == REPLIES[1]

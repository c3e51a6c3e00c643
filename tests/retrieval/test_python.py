"""The few lines of Python that a bot needs."""

import gc
import tempfile

import pytest

import rejoinder
from rejoinder.errors import InputError

FAQ = {
    "We will send another card.": ["I lost my card", "my card was stolen"],
    "We open at nine.": ["When do you open?", ["Hello!", "Are you open?"]],
    "By card.": [],
}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    model = rejoinder.load("convert-small")
    return rejoinder.Index.build(model, FAQ, tmp_path_factory.mktemp("faq") / "index")


def test_replies_come_with_the_questions_that_they_answer(index):
    replies = {reply.text: reply.examples for _, reply in index}
    assert replies == {
        "We will send another card.": (("I lost my card",), ("my card was stolen",)),
        "We open at nine.": (("When do you open?",), ("Hello!", "Are you open?")),
        "By card.": (),
    }


def test_one_message_or_one_conversation_gets_its_replies(index):
    assert index.reply("someone has stolen my card", k=1)[0].text == "We will send another card."
    conversation = ["Hi!", "Hello.", "When do you open?"]
    assert index.reply(conversation, 2) == index.search([conversation], 2)[0]
    assert index.reply("When?", 1, why=True)[0].why is not None


def test_an_index_without_a_folder_works_and_leaves_nothing():
    index = rejoinder.Index.build(rejoinder.load("convert-small"), FAQ)
    folder = index.folder
    index.add(["The door is on the left."])
    assert index.reply("Where is the door?", 1)[0].text == "The door is on the left."
    assert folder.is_dir()
    del index
    gc.collect()
    assert not folder.parent.exists()


def test_a_build_without_a_folder_that_fails_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(InputError, match="cannot be stored"):
        rejoinder.Index.build(rejoinder.load("convert-small"), [rejoinder.Candidate("a", {"b": {1}})])
    assert not list(tmp_path.iterdir())


def test_a_model_is_told_by_its_type_that_it_encodes(tmp_path):
    model = rejoinder.load("convert-small")
    assert isinstance(model, rejoinder.Ranker)
    assert isinstance(model, rejoinder.DualEncoder)
    with pytest.raises(InputError, match="a model that encodes replies"):
        rejoinder.Index.build("convert-small", FAQ, tmp_path / "index")


def test_a_reply_is_read_by_its_position(index):
    assert index.candidate(1).text == "We open at nine."


def test_one_question_is_no_list_of_questions(tmp_path):
    with pytest.raises(InputError, match="one text for its questions; give a list"):
        rejoinder.Index.build(
            rejoinder.load("convert-small"), {"At noon.": "When?"}, tmp_path / "index"
        )
    with pytest.raises(InputError, match=r"'At noon.' has None for its questions; give a list"):
        rejoinder.Index.build(rejoinder.load("convert-small"), {"At noon.": None})

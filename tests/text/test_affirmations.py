"""What is said to be so after all, and what is said or wished beside a denial."""

import pytest

from rejoinder.text.polarity import opposed, takes_side, wishes_besides


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("the plumber did show up in the end", "the plumber did not show up"),
        ("my parcel did arrive after all", "my parcel did not arrive"),
        ("the key card does work now", "my key card does not work"),
        ("the heating does come on again", "the heating does not come on"),
        ("you did charge me the right amount", "you did not charge me the right amount"),
        ("the door does really lock now", "the door doesn't lock"),
        ("my subscription does renew itself", "my subscription does not renew"),
        ("the transfer did go through", "the transfer did not go through"),
    ],
)
def test_a_stressed_verb_says_that_it_is_so(text, other):
    assert opposed(text, [other]) == other
    assert opposed(other, [text]) == text


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("how much does parking cost", "parking does not cost anything"),
        ("when does the pool close", "the pool does not close"),
        ("what time do trains leave", "trains do not leave"),
        ("which floors do lifts serve", "lifts do not serve the floor"),
        ("did the plumber show up", "the plumber did not show up"),
        ("please do call me back", "I want you to call me back"),
        ("I want to know what it does cost", "it does not cost anything"),
    ],
)
def test_a_question_and_a_request_stress_nothing(text, other):
    assert opposed(text, [other]) is None
    assert opposed(other, [text]) is None


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("we can make the appointment after all", "we cannot make the appointment"),
        ("I can log in again", "I can't log in"),
        ("my son can finally open the app", "I cannot open the app"),
        ("our group can now join the tour", "our group cannot join the tour"),
    ],
)
def test_what_can_be_done_again(text, other):
    assert opposed(text, [other]) == other
    assert opposed(other, [text]) == text


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("I can pay in cash", "I cannot pay by card"),
        ("I can now only pay by invoice", "I cannot pay by card"),
        ("tell me how I can log in again", "I can't log in"),
        ("send a link so that I can log in again", "I can't log in"),
        ("you can log in again?", "I can't log in"),
        ("I hope I can log in again soon", "I can't log in"),
        ("can I come again", "I cannot come"),
        ("if I can come again I will", "I cannot come"),
        ("I can't come on Monday but I can come on Tuesday now", "I cannot come to my appointment"),
        ("I can open the door again", "I can close the door again"),
    ],
)
def test_what_is_asked_or_limited_is_not_said_to_be_possible(text, other):
    assert opposed(text, [other]) is None
    assert opposed(other, [text]) is None


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("the technician never turned up", "the technician came"),
        ("the refund never showed up", "my refund has arrived"),
        ("the guide turned up", "the guide did not come"),
        ("the courier turned up after all", "nobody came, the courier did not show up"),
    ],
)
def test_who_shows_up_arrives(text, other):
    assert opposed(text, [other]) == other
    assert opposed(other, [text]) == text


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("the refund never showed up", "the refund has not come"),
        ("the refund never showed up", "where is my refund"),
        ("turn up the heating please", "my heating does not come"),
        ("why hasn't my parcel turned up", "my parcel did not show up"),
        ("Why hasn't my card arrived?", "my card has not arrived"),
        ("why isn't the lift working", "the lift does not work"),
    ],
)
def test_what_did_not_show_up_and_its_reason(text, other):
    assert opposed(text, [other]) is None
    assert opposed(other, [text]) is None


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("I never said I wanted to close my account", "how do I close my account"),
        ("nobody told you to cancel the table", "please cancel my table"),
        ("I never told you that we want to move out", "we want to move out"),
        ("I've never said that I'd like to terminate the lease", "I would like to terminate the lease"),
        ("no cot for us, thank you", "do you have cots"),
        ("no gift box any more, please", "do you have gift boxes"),
        ("no breakfast for my wife, thanks", "do you have breakfast"),
        ("We aren't bringing our cat", "can I bring a cat"),
        ("we won't bring a pram", "can we take a pram to the museum"),
        ("we are not taking the pushchair", "can I bring a pushchair"),
        ("there's no smell any more, thanks", "there is a smell"),
    ],
)
def test_what_was_never_said_and_is_not_taken(text, other):
    assert opposed(text, [other]) == other
    assert opposed(other, [text]) == text


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("nobody told me that it was cancelled", "my flight was cancelled"),
        ("you didn't tell us that the pool is closed", "the pool is closed"),
        ("I said that my card was declined", "my card was declined"),
        ("no hot water any more", "do you have hot water"),
        ("no cot in our room", "do you have cots"),
        ("I'm not bringing a pram", "can I take photos"),
        ("the machine did not take my coins", "can I bring coins"),
        ("I did not bring my passport", "do I need my passport"),
        ("I forgot to bring my racket, I don't have one", "can I rent a racket"),
        ("I do not want to bring my own towel", "do you have towels"),
    ],
)
def test_what_was_not_told_may_be_so(text, other):
    assert opposed(text, [other]) is None
    assert opposed(other, [text]) is None


@pytest.mark.parametrize(
    ("text", "is_wishing"),
    [
        ("I don't want to cancel the massage, I just want it an hour later", True),
        ("we never cancelled it but need a bigger table", True),
        ("Please don't call. Please send a mail.", True),
        ("I don't want another guide, I'm happy with this one", False),
        ("no gift box please, just the book", False),
        ("I want it, please do not cancel it", False),
        ("please don't cancel, please", False),
        ("I don't want a call and, please, no letter", False),
        ("please do not cancel it, that would be sad and I like it", False),
        ("please do not cancel it, I'd like to move it", True),
        ("I want a bigger table", False),
        ("", False),
    ],
)
def test_a_wish_behind_a_denial(text, is_wishing):
    assert wishes_besides(text) == is_wishing


@pytest.mark.parametrize(
    ("text", "is_side"),
    [("we have received our tickets", True), ("do not call", True), ("turn it off", True), ("is it open", False), ("", False)],
)
def test_what_another_text_may_oppose(text, is_side):
    assert takes_side(text) == is_side


@pytest.mark.parametrize(
    "text",
    [
        "I didn't mean to delete the file",
        "I did not want to delete the file",
        "we did not intend to delete the file",
        "I did not delete the file on purpose",
    ],
)
def test_what_nobody_meant_to_do_was_done_and_is_not_wished(text):
    assert opposed(text, ["I deleted a file"]) is None
    assert opposed(text, ["how do I delete a file"]) is not None


def test_what_is_not_wished_is_denied_still():
    assert opposed("I do not want to delete the file", ["I deleted a file"]) is not None
    assert opposed("I don't mean to delete the file", ["delete the file"]) is not None


def test_without_denies_no_wish_before_it():
    assert opposed("how do I remove a user without deleting his files", ["how do I remove a user"]) is None
    assert opposed("the tea without milk please", ["do you have milk"]) is not None


@pytest.mark.parametrize("text", ["I left nothing in the room", "I left nothing there"])
def test_nothing_denies_the_verb_before_it(text):
    assert opposed(text, ["I left something in the room"]) is not None


@pytest.mark.parametrize("text", ["I left nothing but my hat", "I left nothing else there", "I left nothing valuable, just a hat"])
def test_nothing_that_is_not_all_denies_no_verb(text):
    assert opposed(text, ["I left something in the room"]) is None


def test_who_does_not_want_a_thing_does_not_ask_when_it_comes():
    for text in ("I don't want a refund", "no refund, please", "I want another room, no refund please"):
        assert opposed(text, ["when will I get my refund?"]) is not None
    assert opposed("I did not receive my refund", ["when will I get my refund?"]) is None


def test_a_wish_needs_no_comma():
    for text in ("I dont want to move it i want to cancel it", "I don't want to move it but to cancel it"):
        assert wishes_besides(text)
    assert not wishes_besides("I don't want to move the one that i want to keep")


def test_setting_up_is_enabling():
    assert opposed("how do I disable the alarm", ["how do I set up the alarm"]) is not None

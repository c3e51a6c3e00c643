"""Sentences of a message: where one ends, and where none does."""

import pytest

from rejoinder.text.sentences.splitting import split_sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["They told me no.", "Where is the manager?"],
        ["the man said no.", "what now"],
        ["We open at 7 a.m.", "Do you have a pool?"],
        ["it shut at 10 p.m.", "Why so early?"],
        ["I paid it in feb.", "is that right"],
        ["We moved on 3 Oct.", "The new address is below."],
        ["I sold socks, hats etc.", "Do you buy them?"],
        ["It shut at 9 p.m.", "My bag is in there."],
        ["It took 10 min.", "Is that usual?"],
        ["The bus takes two hrs.", "Parking is free there."],
        ["My brother is Max.", "He wants a lamp."],
        ["Ask the dept.", "i think it is theirs"],
        ["It is max.", "so can i go"],
        ["It fits model E.", "The photo does too."],
        ["So did I.", "Anna Li did too."],
        ["It was over 38 C.", "What should we do?"],
        ["I want plan B.", "Keep the lamp."],
        ["I live in the Hauptstr.", "Where is the shop?"],
        ["Sold by Lamp Ltd.", "Please refund it."],
    ],
)
def test_a_short_form_ends_a_sentence_before_a_new_one(sentences):
    assert split_sentences(" ".join(sentences)) == sentences


@pytest.mark.parametrize(
    "text",
    [
        "It is no. 12 in the list.",
        "It is in room no. C7 there.",
        "I came on 4 Oct. by train.",
        "I came on Oct. 4 by train.",
        "Be there at 9 a.m. on Monday.",
        "I asked Mr. Brown and Dr. No.",
        "I like fruit, e.g. Conference pears.",
        "P.S. Where is it?",
        "about 5 approx. or so",
        "It came approx. 10 min. ago, in max. 3 parts",
        "It took 2 hrs. to come, incl. Sunday",
        "Send it to Hauptstr. 5 in Berlin, not to Lange Str. 7",
        "It was bought by J. R. Ortega and Paul D. Hubbard.",
        "Directors: A. Bee, C. Ortega",
        "Is it 7 a.m. Monday or 8 p.m. Friday?",
        "I came at 6 p.m. May 4 by train",
        "It was 8 p.m. Paris time",
        "Lamp Inc. Berlin sent it.",
        "They left on 4 Nov. Leeds was first",
    ],
)
def test_a_short_form_within_a_sentence_does_not_end_it(text):
    assert split_sentences(text) == [text]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("My parcel is wet.What now?", ["My parcel is wet.", "What now?"]),
        ("Is it open?Yes it is.The door is red", ["Is it open?", "Yes it is.", "The door is red"]),
        ("Hello.My name is Ann.Where is it?Bye", ["Hello.", "My name is Ann.", "Where is it?", "Bye"]),
        ("I lost it.Can you look", ["I lost it.", "Can you look"]),
        ("it broke!Send another one", ["it broke!", "Send another one"]),
        ("the towel was dirty.Lockers were full", ["the towel was dirty.", "Lockers were full"]),
    ],
)
def test_a_sentence_may_begin_without_a_blank(text, sentences):
    assert split_sentences(text) == sentences


@pytest.mark.parametrize(
    "text",
    [
        "Node.Js",
        "open Invoice.Pdf and report.Docx",
        "write to ann.Smith@shop.example",
        "see www.Shop.Example and shop.Example/Help?Page=The",
        "find it at Booking.Com or ASP.Net",
        "made in the U.S.A",
        "version 2.A",
        "call obj.toString",
    ],
)
def test_names_and_addresses_are_not_split(text):
    assert split_sentences(text) == [text]


@pytest.mark.parametrize("marks", [("-", "-", "-"), ("*", "*", "*"), ("\u2022", "\u2022", "\u2022"), ("1.", "2.", "3."), ("1)", "2)", "3)")])
def test_each_item_of_a_list_is_one(marks):
    items = ["who can tell me what it costs to send a sofa to the islands", "a chair", "Where is the key"]
    lines = [f"{mark} {item}" for mark, item in zip(marks, items, strict=True)]
    assert split_sentences("\n".join(lines)) == lines


def test_a_number_is_no_sentence():
    assert split_sentences("1. Where is it?") == ["1. Where is it?"]
    assert split_sentences("I have 2. You have 3.") == ["I have 2.", "You have 3."]


@pytest.mark.parametrize(
    "text",
    [
        "the app froze for 10 min. how do i correct my hours",
        "we were in the sauna for 15 min. lost my ring there",
        "we are 12 max. cancel our booking",
    ],
)
def test_behind_an_amount_a_sentence_begins(text):
    assert len(split_sentences(text)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "I called (three times!) about the lamp.",
        "Is the pool (the big one?) open on Friday?",
        "The lamp (a present...) has no plug",
        "We came (finally!!) and nobody was there.",
        "He asked (why?) for my name [really?] and my age.",
        "My son (he is two.) cannot reach it.",
    ],
)
def test_a_mark_within_brackets_ends_no_sentence(text):
    assert split_sentences(text) == [text]


@pytest.mark.parametrize(
    "sentences",
    [
        ["I called (three times!)", "What now?"],
        ["I lost my card (blue.)", "i need a new one"],
        ["i broke the lamp (again!)", "can you send another"],
        ["(I called three times!)", "what now?"],
        ["I called (three times)!", "nobody came."],
        ["It is dark :)?", "how do I turn it on?"],
        ["I called. (You were out.)", "please call back"],
        ["Is it open?)", "or not"],
    ],
)
def test_a_sentence_ends_behind_a_bracket(sentences):
    assert len(split_sentences(" ".join(sentences))) >= 2
    assert split_sentences(" ".join(sentences))[-1] == sentences[-1]

"""The wording of messages: short forms, emoji, and what only gives them a tone."""

import pytest

from rejoinder.text.tone import without_tone
from rejoinder.text.wording import plain_wording


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("omg where is my parcel?!?! :(", "where is my parcel?"),
        ("lol you closed again ^^", "you closed again"),
        ("can I pay by card hahaha", "can I pay by card"),
        ("will it come lol?", "will it come?"),
        ("STOP!!! It leaks!!!", "STOP! It leaks"),
        ("I was wondering... can I swap it…", "I was wondering. can I swap it"),
        ("it leaks :):) !!1!", "it leaks"),
        ("tbh I want my money back", "I want my money back"),
        ("really?? \nyes!!", "really? \nyes"),
    ],
)
def test_what_only_gives_a_tone_is_left_out(typed, read):
    assert without_tone(typed) == read


@pytest.mark.parametrize(
    "text",
    [
        "lol", "haha!!", ":)", "...", "?!?!", "3) the third", "it costs 5 : 3", "see 8)", "http://a.b:/c", "note: (below)",
        "wait...what", "the LOL dolls are out", "Is it open?", "  two  blanks", "x D", "lollipops", "Omgenius", "",
        "Do you sell paracetamol 500 mg?", "MFG date?",
    ],
)  # fmt: skip
def test_whatever_says_something_stays(text):
    assert without_tone(text) == text


def test_a_text_is_read_in_plain_words():
    assert plain_wording("omg r u open tmrw??? \U0001f64f") == "are you open tomorrow?"


@pytest.mark.parametrize("text", ["Kunt u mijn bestelling annuleren?", "ich bin um 8 da, pls"])
def test_short_forms_of_english_are_words_of_other_languages(text):
    assert plain_wording(text) == text


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("See [our page](https://shop.example/returns?a=b#c) for it", "See [our page] for it"),
        ("The page www.shop.example/returns is empty. Why?", "The page is empty. Why?"),
        ("The broken lamp is here <https://shop.example>.", "The broken lamp is here."),
        ("https://shop.example/pool", "https://shop.example/pool"),  # says nothing besides
        ("see https://shop.example/returns", "see https://shop.example/returns"),
    ],
)
def test_words_of_a_web_address_are_not_read_beside_others(text, read):
    assert plain_wording(text) == read


def test_a_word_of_another_language_too_is_read_before_an_english_word():
    assert plain_wording("wat time are u open") == "what time are you open"
    assert plain_wording("wat is u prijs, graag") == "wat is u prijs, graag"

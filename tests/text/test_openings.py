"""What opens a question without a comma is not searched for, and what only looks like it stays."""

import pytest

from rejoinder.text.messages import read_message
from rejoinder.text.sentences.openings import count_opening

QUESTION = "where is my parcel"


@pytest.mark.parametrize(
    "opening",
    [
        "hi ",
        "morning all ",
        "hey bot ",
        "ok so ",
        "hope your well ",
        "hiya, hope your well x ",
        "xx ",
        "Hope you are well, ",
        "sorry to bother you again ",
        "quick question from my side: ",
        "What I wanted to ask: ",
        "just wondering, ",
        "can you tell me ",
        "Could you please let me know ",
        "I'd like to know ",
        "I would like to know: ",
        "hi there quick q can you help me ",
    ],
)
def test_a_question_is_read_without_what_opens_it(opening):
    assert count_opening(f"{opening}{QUESTION}") == len(opening)
    assert read_message(f"{opening}{QUESTION}").parts[-1] == QUESTION


@pytest.mark.parametrize(
    "sentence",
    ["so far it works", "x is a letter", "morning classes", "can you help me find it", "can you tell me about prices", "please do it", "I hope it works", ""],
)
def test_what_says_something_opens_nothing(sentence):
    assert count_opening(sentence) == 0


@pytest.mark.parametrize("ending", [" tia", " cheers mate", " KR Kim", " - Kim", " please let me know", " any ideas", " xx", ", please help"])
def test_a_question_is_read_without_what_ends_it(ending):
    assert read_message(f"{QUESTION}{ending}").parts[-1] == QUESTION


@pytest.mark.parametrize("sentence", [f"hiya, hope ur well x {QUESTION}", f"Hello! x {QUESTION}", f"{QUESTION}? xxx"])
def test_kisses_are_no_part_of_a_question(sentence):
    assert [part.rstrip("?") for part in read_message(sentence).parts] == [QUESTION]

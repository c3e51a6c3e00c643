"""Salutations in small letters, and requests that look like them."""

import pytest

from rejoinder.text.mails.cleaning import clean_mail
from rejoinder.text.messages import read_message

ASKED = "Where is the key to room nine?"


@pytest.mark.parametrize(
    "line",
    [
        "Dear hotel,",
        "dear vet,",
        "Dear hotel reception,",
        "Dear museum people,",
        "Dear swimming pool,",
        "Dear all at the museum,",
        "Dear team behind the lamps,",
        "Dear friends of the museum,",
        "Dear Harrowgate museum,",
        "Hi museum,",
        "Hello hotel team,",
        "Hello Harrowgate hotel,",
        "Good evening museum staff,",
        "To the hotel,",
        "To whom this may concern,",
    ],
)
@pytest.mark.parametrize("below", ["\n", "\n\n"])
def test_a_salutation_may_have_small_letters(line, below):
    assert clean_mail(f"{line}{below}{ASKED}") == ASKED


@pytest.mark.parametrize("line", ["Hello yoga studio,", "Dear museum", "good morning puppet theatre,"])
def test_a_salutation_of_more_words_stands_above_a_blank_line(line):
    assert clean_mail(f"{line}\n\n{ASKED}") == ASKED


@pytest.mark.parametrize(
    "line",
    [
        "Hi refund,",
        "Hello wet towels,",
        "Hi question about the hotel,",
        "Dear all my lamp broke,",
        "Dear team lamp broken,",
        "Dear museum please call,",
        "Dear museum the lamp is dark,",
        "Hi there lost key,",
        "Hi order 4711,",
        "Hello not the hotel,",
        "hi broken hotel,",
        "To the hotel I went",
        "Good morning the lift has stopped,",
    ],
)
def test_a_request_behind_a_greeting_stays(line):
    assert clean_mail(f"{line}\nThe order is A-77") == f"{line}\nThe order is A-77"


@pytest.mark.parametrize(
    "line",
    [
        "Hi cancel booking tomorrow,",
        "Hello change address,",
        "Hi broken screen,",
        "Hi refund,",
        "To the hotel from the airport,",
        "To the museum from here,",
    ],
)
def test_a_request_above_a_blank_line_stays(line):
    assert clean_mail(f"{line}\n\nThe order is A-77") == f"{line}\n\nThe order is A-77"


@pytest.mark.parametrize("below", ["Ann Li", "please help", "Can you help me?"])
def test_a_greeting_stays_above_nothing_else(below):
    assert clean_mail(f"Hi wet towels,\n\n{below}") == f"Hi wet towels,\n\n{below}"


@pytest.mark.parametrize(
    "text",
    [
        "Hi, can I have the key?",
        "Dear Sir, my key is lost",
        "Hello lamps, lamps, lamps",
        "Dear Mum is ill, may she come later?",
    ],
)
def test_a_greeting_in_one_line_with_its_body_leaves_that(text):
    assert text[-10:] in read_message(text).parts[0]


@pytest.mark.parametrize("line", ["Dear museum,", "Dear hotel team,", "Dear all at the hotel,"])
def test_a_salutation_in_the_line_of_the_question_is_not_searched_for(line):
    assert read_message(f"{line} where is the key to room nine?").parts == ("where is the key to room nine?",)

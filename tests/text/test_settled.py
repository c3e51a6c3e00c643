"""What says that a matter is settled asks for no reply to the problem, or to how it is done."""

import pytest

from rejoinder.text.polarity import left_open
from rejoinder.text.signs.settled import is_settled


@pytest.mark.parametrize(
    "text",
    [
        "The printer works again",
        "our trains arrive again now",
        "The room is clean now. Thanks",
        "My payment went through now",
        "the pages are loading fine again",
        "I could open the door, thanks",
        "I was able to renew my ticket, thank you",
        "we managed to log in, thanks",
        "I found my glasses, thanks!",
        "I did get the letter, thanks",
        "The parcel has arrived, thank you very much",
        "The login no longer fails",
        "the app does not crash any more",
        "The heating works now, it was the valve",
        "The heating works again and the light is fine",
        "the heating is fixed now, you can close my ticket",
        "The power is back on, thank you",
        "the light is on again",
        "great, everything works",
        "perfect, it works",
        "never mind, I found it",
        "problem solved",
        "the issue has been resolved, thank you",
        "your answer helped, thanks",
    ],
)
def test_these_say_that_it_is(text):
    assert is_settled(text)


@pytest.mark.parametrize(
    "text",
    [
        "The printer does not work again",
        "the printer stopped working again",
        "the room is dirty now",
        "the error is back again",
        "The parcel has arrived",  # nobody gives thanks: something may be wrong with it
        "the wrong parcel has arrived, thanks",
        "I found a scratch, thanks",
        "I got an email again",
        "I work here now",
        "It works now but how do I print?",
        "It works now, I want to cancel the repair",
        "I received the green one again",
        "My case arrived again with a hole, thanks",
        "I am back at the login page again",
        "It works again and it is slow",
        "The payment worked now. It was taken two times.",
        "I found my card now, you can unblock it",
        "I could log in yesterday, thanks, today I can't",
        "I found out that it is gone, thanks",
        "does it work now",
        "are you okay now",
        "now restore the settings",
        "please make it work again",
        "the app crashes again",
        "the printer will work again",
        "trains do not fail",
        "the printer is on fire again",
        "we are back on the waiting list, thanks",
        "great, the wrong size arrived",
        "my problem was fixed and came back",
        "nobody helped, thanks",
        "never mind",
        "Thanks",
        "",
        "it works now " * 20,
    ],
)
def test_these_do_not(text):
    assert not is_settled(text)


def test_a_problem_and_how_it_is_done_are_left_open():
    assert left_open("The printer works again", ["The printer is broken"]) == "The printer is broken"
    assert left_open("I could open the door, thanks", ["how do I open the door?"]) == "how do I open the door?"
    assert left_open("The printer works again", []) is None


@pytest.mark.parametrize("known", ["the printer works", "thank you", "the printer was repaired"])
def test_replies_to_the_same_event_and_to_thanks_remain(known):
    assert left_open("The printer works again, thanks", ["The printer is broken", known]) is None


def test_replies_to_an_event_of_another_thing_do_not_remain():
    assert left_open("My passport has arrived, thanks", ["I found a wallet"]) == "I found a wallet"
    assert left_open("I received your letter, thanks", ["I have received a letter"]) is None

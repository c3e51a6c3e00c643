"""Units and exceptions, by which a message that resembles a reply says something else."""

import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.corpora.sent_replies import ReplyMatcher
from rejoinder.corpora.units import are_other_units


def found(reply, message):
    return ReplyMatcher([(0, Candidate(reply)), (1, Candidate("Our shop is closed on holidays."))]).find(message)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("A refund takes 5 days after we got the parcel.", "A refund takes 5 weeks after we got the parcel."),
        ("The fee is 5 EUR per month.", "The fee is 5 USD per month."),
        ("Your parcel weighs 5 kg at most.", "Your parcel weighs 5 lb at most."),
        ("Sie können es 14 Tage lang zurückgeben.", "Sie können es 14 Wochen lang zurückgeben."),
        ("We ship to all countries in Europe.", "We ship to all countries in Europe except Norway."),
        ("We ship to all countries in Europe except Norway.", "We ship to all countries in Europe."),
    ],
)
def test_another_unit_or_an_exception_is_another_reply(reply, message):
    assert found(reply, message) is None


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("A refund takes 5 days after we got the parcel.", "A refund takes 5 day after we got the parcel."),
        ("A refund takes 5 days after we got the parcel.", "Sorry for the hours of waiting! A refund takes 5 days after we got the parcel."),
        ("The fee is {amount} per month for users.", "The fee is 5 EUR per month for users."),
        ("We ship to all countries in Europe except Norway.", "Hi, we ship to all countries in Europe except Norway."),
    ],
)
def test_the_same_one_is_not(reply, message):
    assert found(reply, message) == 0


def test_units_are_compared_by_their_kinds():
    assert are_other_units(["days"], ["weeks"])
    assert not are_other_units(["days"], ["jours"])
    assert not are_other_units(["days"], ["kg"])
    assert not are_other_units(["days"], ["day", "week"])

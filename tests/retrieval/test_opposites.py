"""Replies to the opposite of a message lose their place, and where nothing else fits there is none."""

import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.choice.opposites import MARGIN, PENALTY, SILENCE, SaidParts, push_back
from rejoinder.retrieval.options import ANY_SCORE, SearchOptions
from rejoinder.retrieval.replies import Reply
from tests.retrieval.test_examples import TOPICS, WordEncoder, faq

DENIED = "please do not close my account"
NEAR = 0.9 - MARGIN + 0.01  # of a score of 0.9
FAR = 0.9 - MARGIN - 0.01


def reply(position, score, example, part=0):
    return Reply(f"Reply {position}", score, position, {}, examples=((example,),), part=part)


def judge(replies, texts=(DENIED,), minimum=-1.0):
    said = SaidParts(texts, lambda: [False] * len(texts))
    return push_back(replies, said, SearchOptions(minimum_score=minimum))


def test_a_reply_that_fits_nearly_as_well_is_given():
    found = judge([reply(0, 0.9, "close my account"), reply(1, NEAR, "open an account")])
    assert [each.position for each in found] == [1, 0]
    assert found[0].score == NEAR
    assert found[1].score == pytest.approx(0.9 - PENALTY)
    assert found[1].opposes == "close my account"


def test_nothing_is_given_where_only_the_opposite_fits():
    replies = [reply(0, 0.9, "close my account"), reply(1, FAR, "change my account")]
    assert judge(replies) == []
    assert judge(replies[:1]) == []
    found = judge(replies, minimum=ANY_SCORE)
    assert [each.position for each in found] == [1, 0]
    assert [each.score for each in found] == pytest.approx([FAR - SILENCE, 0.9 - PENALTY - SILENCE])


def test_no_problem_is_left_where_a_message_says_that_it_is_settled():
    replies = [reply(0, 0.9, "the printer is broken"), reply(1, 0.8, "where is a printer"), reply(2, FAR, "thanks")]
    found = judge(replies, ("the printer works again, thanks",))
    assert [(each.position, each.score) for each in found] == [(2, FAR)]
    assert judge(replies[:2], ("the printer works again, thanks",)) == []


def test_a_sentence_that_tells_more_leaves_a_matter_open():
    works, slow = "the printer works again, thanks", "it is terribly slow"
    replies = [reply(0, 0.9, "the printer is broken", part=1)]
    assert judge(replies, (f"{works} {slow}", works, slow)) == replies
    assert judge(replies, (f"{works} where is it?", works, "where is it?")) == []


def test_a_worse_opposite_silences_nobody():
    found = judge([reply(0, 0.9, "keep my account"), reply(1, 0.8, "close my account")])
    assert [each.position for each in found] == [0, 1]
    assert found[0].score == 0.9


def test_a_reply_to_the_same_in_other_words_is_given():
    replies = [reply(0, 0.9, "remove the insurance"), reply(1, FAR, "add insurance"), reply(2, FAR, "insure a car")]
    found = judge(replies, ("please don't remove the insurance",))
    assert [each.position for each in found] == [1]
    assert found[0].score == FAR
    assert judge(replies[::2], ("please don't remove the insurance",)) == []


def test_a_wish_behind_a_denial_may_be_answered():
    replies = [reply(0, 0.9, "close my account"), reply(1, FAR, "change my account")]
    for wish, count in (("I just want another one", 1), ("I like it", 0), ("I am happy with it", 0)):
        found = judge(replies, (f"{DENIED}, {wish}",), minimum=0)
        assert [(each.position, each.score) for each in found] == [(1, FAR)] * count


@pytest.mark.parametrize(("thanks", "count"), [(", thanks", 0), (" thank you!", 0), (". Thanks", 1), (", help", 1), ("", 1)])
def test_thanks_right_behind_a_refusal_belong_to_it(thanks, count):
    first = "no cot for us"
    texts = (f"{first}{thanks}", first)
    assert len(judge([reply(0, 0.9, "do you have cots", part=1)], texts)) == count


def test_another_part_of_the_message_is_answered():
    texts = (DENIED, "Where can I pay?")
    found = judge([reply(0, 0.9, "close my account"), reply(1, 0.2, "where do I pay", part=1)], texts)
    assert [each.position for each in found] == [1]
    assert found[0].score == 0.2


def test_a_sentence_with_and_without_its_courtesy_is_judged_as_one():
    texts = (f"Hi, my name is Kim, {DENIED}", DENIED)
    assert judge([reply(0, 0.9, "close my account", part=1), reply(1, FAR, "change my account")], texts) == []


@pytest.mark.parametrize(("denial", "count"), [("Please don't!", 0), ("No way.", 0), ("Please do.", 1)])
def test_a_sentence_may_deny_the_one_before(denial, count):
    first = "You want to close my account."
    texts = (f"{first} {denial}", first)
    assert len(judge([reply(0, 0.9, "close my account", part=1)], texts)) == count


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("I have not lost my key. Why do I pay a fee?", [0]),
        ("I have not lost my key, so why do I pay a fee?", [0]),
        ("I have not lost my key, but I pay a fee", [0]),
        ("I have not lost my key.", []),
        ("I have not lost my key. I just want to tell you.", []),
        ("I have not lost my key, it is still here", []),
        ("I have not lost my key, I found my key", []),
    ],
)
def test_a_reply_to_what_stands_beside_a_denial_is_given(tmp_path, message, found):
    known = ("I lost my key", "I pay a fee")
    reply = Candidate("A lost key costs a fee.", examples=tuple((each,) for each in known))
    index = Index.build(WordEncoder(), [reply], tmp_path / "index")
    replies = index.search([[message]], 1, 0.2)[0]
    assert [each.position for each in replies] == found


def test_an_index_is_silent_where_only_the_opposite_fits(tmp_path):
    index = Index.build(WordEncoder(), faq(slice(1, 3)), tmp_path / "index")
    [[best, *_]] = index.search([["track my package"]], 4)
    assert best.text == list(TOPICS)[1]
    assert index.search([["never track my package"]], 4) == [[]]
    [every] = index.search([["never track my package"]], 4, ANY_SCORE)
    assert len(every) == 4
    [[best, *_]] = index.search([["Never track my package. Please send it back."]], 4)
    assert best.text == list(TOPICS)[2]


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 25])
@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("never track my package", "denied"),
        ("Hello there. Never track my package!", "denied"),
        ("never juggle", None),
        ("the cat is not asleep", None),
    ],
)
def test_the_reason_of_a_silence_does_not_depend_on_the_number_of_replies(tmp_path, k, message, reason):
    index = Index.build(WordEncoder(), faq(slice(1, 3)), tmp_path / "index")
    assert reason is None or index.search([[message]], k) == [[]]
    for options in (SearchOptions(k=k), SearchOptions(k=k, diversity=0.5), SearchOptions(k=k, hybrid=0.1)):
        assert index.silence([message], options) == reason
    assert index.silence([message], SearchOptions(k=k, minimum_score=1000)) is None


def test_a_message_that_denies_nothing_has_the_reason_too(tmp_path):
    lateness = Candidate("Sorry for that.", examples=(("the juggler did not arrive",), ("a late juggler",)))
    index = Index.build(WordEncoder(), [*faq(slice(1, 3)), lateness], tmp_path / "index")
    assert index.search([["the juggler did arrive"]]) == [[]]
    assert index.silence(["the juggler did arrive"]) == "denied"
    assert index.search([["the juggler did not arrive"]])[0][0].text == lateness.text


def test_the_first_reply_does_not_depend_on_the_number_of_replies(tmp_path):
    index = Index.build(WordEncoder(), faq(), tmp_path / "index")
    questions = [questions[0] for questions in TOPICS.values()]
    denied = [f"never {question}" for question in questions]
    messages = [[f"{one.capitalize()}. {other.capitalize()}?"] for one in denied for other in (*questions, *denied)]
    by_count = {k: index.search(messages, k) for k in (1, 2, 3, 5, 20)}
    firsts = {k: [[reply.position for reply in own[:1]] for own in found] for k, found in by_count.items()}
    assert any(own != [] for own in firsts[1])
    assert any(own == [] for own in firsts[1])
    assert all(own == firsts[1] for own in firsts.values())

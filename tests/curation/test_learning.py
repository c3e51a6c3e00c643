"""Old chats become examples of the replies that were sent in them."""

import random
from dataclasses import replace

import numpy as np
import pytest

from rejoinder.corpora.schema import Candidate, Example
from rejoinder.curation.examples import MOST_EXAMPLES, most_different
from rejoinder.curation.learning import LEAST_THREADS, forget, has_fallen, learn, learn_chosen
from rejoinder.corpora.sent_replies import ReplyMatcher
from rejoinder.curation.matching import Match, match
from rejoinder.encoders.vectors import ContextVectors
from rejoinder.errors import InputError
from rejoinder.retrieval import index as index_module
from rejoinder.retrieval.calibration import read_calibration
from rejoinder.retrieval.encoding.confidence import Calibration
from rejoinder.retrieval.index import Index
from rejoinder.stores.names import CALIBRATION
from tests.logs import log_of, recorder
from tests.retrieval.test_examples import WordEncoder, faq

SUBJECTS = ["order", "parcel", "invoice", "refund", "password", "account", "delivery", "address", "voucher",
            "plan", "size", "colour"]
VERBS = ["check", "change", "cancel", "resend", "return", "confirm", "find", "update"]
FILLINGS = {"name": ["Anna", "Mr Smith", "Jo"], "number": ["4711", "A-20-99"], "date": ["Monday", "3 May 2024"]}
REPLIES = [
    (f"Hello {{name}}, to {verb} your {subject} please open the page of your {subject} and press {verb}."
     if number % 3 == 0 else
     f"We can {verb} the {subject} for you, and it takes until {{date}} at the latest."
     if number % 3 == 1 else
     f"Sorry, nobody can {verb} a {subject} after it left us.")
    for number, (subject, verb) in enumerate((subject, verb) for subject in SUBJECTS for verb in VERBS)
]  # fmt: skip


def filled(text, generator):
    for name, values in FILLINGS.items():
        text = text.replace(f"{{{name}}}", generator.choice(values))
    return text


def mistyped(text, generator):
    """Swap, double or drop a letter in one of twelve words."""
    words = text.split(" ")
    for row in range(len(words)):
        if len(words[row]) > 3 and generator.random() < 1 / 12:
            at = generator.randrange(1, len(words[row]) - 1)
            word = words[row]
            words[row] = generator.choice(
                [word[:at] + word[at + 1 :], word[:at] + 2 * word[at] + word[at + 1 :],
                 word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :]]
            )  # fmt: skip
    return " ".join(words)


def edited(text, generator):
    """Add what agents add before or after."""
    return generator.choice(["{}", "{} Anything else?", "Thanks for waiting. {}", "{} :)"]).format(text)


def chats(count, seed=0):
    """Yield conversations, and the number of the reply that was sent, or None."""
    generator = random.Random(seed)
    for number in range(count):
        if number % 4 == 3:
            other = f"I have asked a colleague about the {generator.choice(SUBJECTS)}, she will call you."
            yield Example(("Hello?",), other, thread=str(number)), None
        else:
            sent = generator.randrange(len(REPLIES))
            text = edited(mistyped(filled(REPLIES[sent], generator), generator), generator)
            subject, verb = SUBJECTS[sent // len(VERBS)], VERBS[sent % len(VERBS)]
            asked = generator.choice(["how do i {} my {}", "please {} the {}", "{} {}"]).format(verb, subject)
            yield Example(("Hello!", "Hi, how can I help?", asked), text, thread=str(number)), sent


@pytest.fixture
def index(tmp_path):
    return Index.build(WordEncoder(), REPLIES, tmp_path / "index")


def test_what_was_sent_is_recognised_in_2000_chats():
    pairs = list(chats(2000))
    matcher = ReplyMatcher((number, Candidate(text)) for number, text in enumerate(REPLIES))
    found = [matcher.find(example.response) for example, _ in pairs]
    sent = [number for _, number in pairs]
    was_sent = np.array([number is not None for number in sent])
    right = np.array([a == b for a, b in zip(found, sent, strict=True)])
    wrong = np.array([a is not None and a != b for a, b in zip(found, sent, strict=True)])
    assert right[was_sent].mean() >= 0.95
    assert wrong.mean() < 0.01


@pytest.mark.parametrize(
    ("reply", "message", "is_it"),
    [
        ("We open at nine.", "we open at  NINE", True),
        ("We open at nine.", "We opne at nine", True),
        ("We open at nine.", "We close at nine.", False),
        ("Hi {{name}}, it is on its way.", "Hi Anna Maria, it is on its way.", True),
        ("Your order {number} left us on {date}.", "Your order 4711 left us on 3 May.", True),
        ("Your order {number} left us on {date}.", "Your money left us.", False),
        ("Yes.", "No.", False),
        ("{{text}}", "Anything at all.", False),
        ("We open at nine.", "", False),
    ],
)
def test_a_message_is_a_reply_or_not(reply, message, is_it):
    matcher = ReplyMatcher([(7, Candidate(reply)), (8, Candidate("Something else entirely, my friend."))])
    assert matcher.find(message) == (7 if is_it else None)


def test_blank_messages_take_no_place_among_the_newest_ones():
    example = Example(("Hello!", "Where is my parcel?", "", " ", "\n", ""), "It is on its way.")
    [found] = match([(0, Candidate("It is on its way."))], [example])
    assert found.context == ("Hello!", "Where is my parcel?")


def test_a_message_that_two_replies_equal_as_well_is_neither():
    matcher = ReplyMatcher([(0, Candidate("We open at nine today.")), (1, Candidate("We open at nine daily."))])
    assert matcher.find("We open at nine d.") is None


def test_an_index_is_better_after_learning_and_can_forget(index):
    examples = [example for example, _ in chats(800)]
    before = dict(index)
    vectors = index.vectors(before)
    learned = learn(index, log_of(index), examples)
    assert learned.messages == 800
    assert learned.matched >= 0.95 * 600
    assert learned.after[1] > learned.before[1] + 0.2
    assert learned.held_out > 50
    assert not learned.is_worse
    assert set(learned.unsent).isdisjoint({sent for _, sent in chats(800)} - {None}) or len(learned.unsent) < 5
    assert 0 < learned.examples == sum(len(reply.learned) for _, reply in index)
    again = Index.open(index.store, WordEncoder())
    assert dict(again) == dict(index)
    assert max(len(reply.learned) for _, reply in again) <= MOST_EXAMPLES
    assert learn(index, log_of(index), examples).examples == 0, "nothing is learned twice"
    assert forget(index, log_of(index)) == learned.examples
    assert dict(index) == before
    np.testing.assert_allclose(index.vectors(before), vectors, atol=1e-6)
    assert index.manifest.head is None


def test_chats_that_teach_nothing_change_nothing(index):
    before = index.fingerprint
    learned = learn(index, log_of(index), [Example(("hi",), "nothing alike here", thread="t")])
    assert (learned.matched, learned.examples, index.fingerprint) == (0, 0, before)


def calibration_of(index):
    return Calibration(
        index=index.fingerprint,
        model=index.manifest.model.fingerprint,
        history=None,
        score_weight=1.0,
        gap_weight=1.0,
        intercept=0.0,
    )


def test_an_index_without_anything_to_learn_from_stays_with_its_calibration(index):
    index.add(["One more reply."])
    calibration_of(index).save(index.store)
    before = index.manifest
    learned = learn(index, log_of(index))
    assert (learned.chosen, learned.examples, learned.is_fitted) == (0, 0, False)
    assert Index.open(index.store, WordEncoder()).manifest == before
    assert read_calibration(index) == calibration_of(index)


def test_an_index_that_is_fitted_to_its_examples_stays_with_its_calibration(tmp_path):
    index = Index.build(WordEncoder(), faq(), tmp_path / "index")
    calibration_of(index).save(index.store)
    before = index.manifest
    assert not learn(index, log_of(index)).is_fitted
    assert Index.open(index.store, WordEncoder()).manifest == before
    assert read_calibration(index) == calibration_of(index)


def test_a_calibration_of_other_replies_is_renewed_or_removed(tmp_path):
    index = Index.build(WordEncoder(), faq(), tmp_path / "index")
    replace(calibration_of(index), index="another").save(index.store)
    assert learn(index, log_of(index)).is_fitted
    assert not index.store.has_file(CALIBRATION)


def test_an_index_that_was_compacted_is_fitted_to_what_was_added(tmp_path):
    index = Index.build(WordEncoder(), faq(), tmp_path / "index")
    index.add([Candidate("It is free.", {}, "", (("what does it cost",),))])
    index.compact()
    assert learn(index, log_of(index)).is_fitted
    assert not learn(index, log_of(index)).is_fitted


def test_an_index_whose_learned_examples_are_gone_is_fitted_without_them(tmp_path, monkeypatch):
    monkeypatch.setattr(index_module, "MOST_FITTED", 3)
    index = Index.build(WordEncoder(), REPLIES, tmp_path / "index")
    learn(index, log_of(index), [example for example, _ in chats(100)])
    forget(index, log_of(index))
    assert index.manifest.head is not None
    assert learn(index, log_of(index)).is_fitted
    assert index.manifest.head is None


def test_copies_of_a_reply_were_sent_too(tmp_path):
    index = Index.build(WordEncoder(), ["Same text.", "Same text.", "Other."], tmp_path / "copies")
    learned = learn(index, log_of(index), [Example((f"question {n}",), "same text", thread=str(n)) for n in range(9)])
    assert learned.unsent == (2,)


def test_an_index_without_replies_learns_nothing(tmp_path):
    index = Index.build(WordEncoder(), [Candidate("Yes.", {}, "", (("is it",),))], tmp_path / "gone")
    index.delete([0])
    assert learn(index, log_of(index)).examples == 0


def test_what_was_learned_is_given_as_an_example(index):
    learn(index, log_of(index), [example for example, _ in chats(200)])
    asked = next(example.context for example, sent in chats(200) if sent is not None)
    [[best]] = index.search([asked], k=1, why=True, minimum_score=-9.0)
    assert best.why.view == "example"


def test_positions_stay_after_learning(index):
    index.delete([3, 4])
    learn(index, log_of(index), [example for example, _ in chats(100)])
    assert [position for position, _ in index] == [0, 1, 2, *range(5, len(REPLIES))]


def test_without_examples_what_was_added_is_fitted_too(index):
    learn(index, log_of(index), [example for example, _ in chats(100)])
    index.add([Candidate("It is free.", {}, "", (("what does it cost",),))])
    vector = index.vectors([len(REPLIES)])
    learned = learn(index, log_of(index))
    assert (learned.matched, learned.held_out, learned.before) == (0, 0, {})
    assert not np.array_equal(index.vectors([len(REPLIES)]), vector)


@pytest.mark.parametrize(
    ("lost", "gained", "threads", "expected"),
    [
        (12, 1, 60, True),
        (6, 4, 60, False),
        (1, 12, 60, False),
        (0, 0, 60, False),
        (LEAST_THREADS - 1, 0, LEAST_THREADS - 1, False),
        (LEAST_THREADS, 0, LEAST_THREADS, True),
        (LEAST_THREADS, 0, 1, False),
    ],
)
def test_a_clear_fall_on_the_messages_left_out_is_told(lost, gained, threads, expected):
    count = max(threads, lost + gained)
    matches = [Match(0, ("hi",), str(number % threads)) for number in range(count)]
    before = np.arange(count) < lost
    after = (np.arange(count) >= lost) & (np.arange(count) < lost + gained)
    assert has_fallen(matches, before, after) == expected


def test_the_most_different_are_kept():
    vectors = np.eye(4, dtype=np.float32)[[0, 0, 1, 1, 2]]
    assert sorted(most_different(vectors, 1, 2)) == [2, 4]
    assert len(most_different(vectors, 0, 9)) == 5


def test_a_model_of_several_vectors_cannot_learn(tmp_path):
    class Several(WordEncoder):
        def encode_contexts(self, contexts):
            return ContextVectors(super().encode_contexts(contexts)[:, None].repeat(2, axis=1))

    index = Index.build(Several(), REPLIES[:3], tmp_path / "index")
    with pytest.raises(InputError, match="several vectors"):
        learn(index, log_of(index))


def test_progress_counts_examples(index):
    done = []
    match(index, [example for example, _ in chats(7)], done.append)
    assert sum(done) == 7


def test_a_large_index_learns_choices_beside_its_replies_and_is_fitted_again_by_learn(tmp_path, monkeypatch):
    monkeypatch.setattr(index_module, "MOST_FITTED", 3)
    index = Index.build(WordEncoder(), faq(), tmp_path / "index")
    head = index.manifest.head
    recorder(index).feedback(["my zebra is late"], [1, 2], chosen=1)
    assert learn_chosen(index, log_of(index)) == 1
    assert index.manifest.head == head
    assert [record.revises for record in index.manifest.segments] == [False, True]
    assert index.search([["my zebra is late"]], 1)[0][0].position == 1
    recorder(index).feedback(["is there a quokka"], [3], chosen=3)
    assert learn(index, log_of(index)).examples == 1
    assert index.manifest.head.file != head.file, "in one rewriting, with what was learned"
    assert [record.revises for record in index.manifest.segments] == [False]
    assert [reply.learned for _, reply in index] == [(), (("my zebra is late",),), (), (("is there a quokka",),)]
    assert learn_chosen(index, log_of(index)) == 0
    index.edit({0: Candidate("We open at ten.", title="opening")})
    assert len(index.manifest.segments) == 2
    learn(index, log_of(index))
    assert len(index.manifest.segments) == 1, "also where there is nothing new"
    recorder(index).feedback(["one quokka more"], [3], chosen=3)
    learn_chosen(index, log_of(index))
    assert forget(index, log_of(index)) == 3
    assert not any(reply.learned for _, reply in [*index, *index.candidates(deleted=True)])


OPPOSITES = [
    ("We ship to Canada.", "We do not ship to Canada, sorry."),
    ("Your order has been shipped.", "Your order has not been shipped."),
    ("You can pay by card.", "You cannot pay by card."),
    ("You can pay by card.", "You can't pay by card."),
    ("Your account is active.", "Your account is inactive."),
    ("Yes, this model works with it.", "No, this model works with it."),
    ("Thank you!", "No thank you!"),
    ("Wir liefern auch in die Schweiz.", "Wir liefern nicht in die Schweiz."),
    ("Refunds take 5 days after we get it.", "Refunds take 15 days after we get it."),
    ("We open at 9 on every day.", "We open at 10 on every day."),
    ("We are closed on Monday this week.", "We are closed on Sunday this week."),
]


@pytest.mark.parametrize(("reply", "message"), OPPOSITES)
def test_what_denies_or_has_another_number_is_another_reply(reply, message):
    assert ReplyMatcher([(0, Candidate(reply))]).find(message) is None
    assert ReplyMatcher([(0, Candidate(message))]).find(reply) is None


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("Refunds take 5 days.", "Hi Tom, refunds take five days. Best, Kim"),
        ("Your order has been shipped.", "Hi Ben, your order 4711 has been shiped."),
        ("We do not ship to Canada.", "Hi Ann, we do not ship to Canada. Bye"),
        ("Your order {order} ships on {date}.", "Your order 4711 ships on Monday."),
    ],
)
def test_what_is_around_a_reply_does_not_matter(reply, message):
    assert ReplyMatcher([(0, Candidate(reply))]).find(message) == 0

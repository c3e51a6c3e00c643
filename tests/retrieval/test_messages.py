"""Messages as customers write them: mails by their sentences, and bursts as one turn."""

import numpy as np
import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.curation.editing import Editor
from rejoinder.curation.learning import learn
from rejoinder.curation.outcomes import Outcome
from rejoinder.retrieval.choice import parts
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.options import ANY_SCORE, SearchOptions
from rejoinder.retrieval.queries import encode
from rejoinder.retrieval.cascade import Cascade
from rejoinder.retrieval.turns import read_parts
from tests.logs import log_of, recorder
from tests.retrieval.test_examples import TOPICS, WordEncoder, faq

REPLIES = list(TOPICS)
BEFORE = "Dear team,\n\nMy sister praised the blue curtains. Our neighbours admire them every single day. "
AFTER = " Meanwhile the garden blooms and everybody visits. Summer brings many guests.\n\nBest regards\nKim Example"


@pytest.fixture
def index(tmp_path):
    return Index.build(WordEncoder(), faq(), tmp_path / "index")


@pytest.mark.parametrize(("place", "question"), [*enumerate(known[1] for known in TOPICS.values())])
def test_a_question_in_a_mail_finds_what_it_finds_alone(index, place, question):
    mail = BEFORE + question.capitalize() + "?" + AFTER
    [[found]] = index.search([[mail]], 1, ANY_SCORE, why=True)
    assert found.text == REPLIES[place]
    assert found.why.sentence == question.capitalize() + "?"
    assert found.to_json()["why"]["sentence"] == found.why.sentence
    [[alone]] = index.search([[question]], 1, ANY_SCORE, why=True)
    assert "sentence" not in alone.to_json()["why"]
    texts = read_parts([mail], None).message.parts
    assert found.score == pytest.approx(alone.score - parts.PENALTY * np.log2(len(texts)), abs=1e-5)


def test_a_short_message_is_searched_for_as_it_is(index):
    question = "when do you open"
    queries = encode(index.encoder, [[question]], SearchOptions())
    assert queries.inputs == [question]
    vectors = index.encoder.encode_contexts([[question]])
    [direct] = index.search_vectors(vectors, SearchOptions(minimum_score=ANY_SCORE))
    assert index.search([[question]], 5, ANY_SCORE) == [direct]


def test_several_messages_at_once_find_what_each_finds_alone(index):
    mails = [[BEFORE + known[1] + "." + AFTER] for known in TOPICS.values()]
    mixed = [mails[0], ["track my order"], *mails[1:], ["hello", "i cannot log in"]]
    for options in ({}, {"distinct": True}, {"diversity": 0.3}, {"no_repeat": True}, {"hybrid": 0.1}):
        together = index.search(mixed, 3, ANY_SCORE, **options)
        for one, found in zip(mixed, together, strict=True):
            [alone] = index.search([one], 3, ANY_SCORE, **options)
            assert [each.position for each in alone] == [each.position for each in found]
            assert [each.score for each in alone] == pytest.approx([each.score for each in found], abs=1e-6)


def test_no_reply_comes_twice_and_none_below_the_lowest_score(index):
    message = "When do you open? Track my package. I cannot log in."
    [found] = index.search([[message]], 4, ANY_SCORE)
    assert len({each.position for each in found}) == len(found) == 4
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    least = found[1].score
    [fewer] = index.search([[message]], 4, least)
    assert [each.position for each in fewer] == [each.position for each in found[:2]]


@pytest.mark.parametrize(
    "conversation",
    [
        ["hello", "where is my order", "hello?", "anyone there?"],
        ["hello\nwhere is my order\nhello?\nanyone there?"],
        [{"role": "user", "content": text} for text in ("hello", "where is my order", "hello?", "anyone there?")],
        ["when do you open", "where is my order", "??"],
    ],
)
def test_a_burst_is_one_turn(index, conversation):
    [[best]] = index.search([conversation], 1, ANY_SCORE)
    assert best.text == REPLIES[1]


def test_small_talk_is_read_before_a_message_that_asks_again():
    assert read_parts(["Hi", "I am so happy.", "hello?"], None).message.text == "I am so happy."
    assert read_parts(["Do you enjoy to read?", "what now?"], None).message.text == "Do you enjoy to read?"
    assert read_parts(["Hi", "It broke.", "hello?"], None).message.text == "It broke."
    for call in ("HELLO", "any news?", "please help", "urgent!!!"):
        assert read_parts(["Hi", "Where is my lamp?", call], None).message.text == "Where is my lamp?"
        assert read_parts(["Hi", "My lamp broke.", call], None).message.text.startswith("My lamp broke.")
    assert read_parts(["Where is my lamp?", "thanks"], None).message.text == "Where is my lamp?"
    assert read_parts(["Is there anything else I can help you with?", "thanks"], None).message.text == "thanks"
    assert read_parts(["Hi", "HELLO"], None).message.text == "HELLO"
    assert read_parts(["3", "Hello!"], None).message.text == "Hello!"
    assert "It broke. 4711" in read_parts(["It broke.", "4711", "HELLO"], None).message.text
    for answer in ("one please", "asap", "not now please", "no hurry"):
        assert read_parts(["How many lamps do you want?", answer], None).message.text == answer
    for call in ("hello?", "help", "I need help"):
        assert read_parts(["Hi! How can I help you with your order?", call], None).message.text == call


def test_thanks_are_a_message_of_their_own():
    assert read_parts(["where is my order", "It comes.", "thanks!"], None).message.parts == ("thanks!",)


def test_roles_are_turns():
    talk = [
        {"role": "user", "content": "hello"},
        {"role": "user", "content": "where is it"},
        {"role": "assistant", "content": "Which one?"},
        {"role": "user", "content": "a lamp"},
    ]
    reading = read_parts(talk, None)
    assert list(reading.history) == ["where is it", "Which one?"]
    assert reading.message.parts == ("a lamp",)
    assert read_parts(talk, 1).history == ["Which one?"]
    assert read_parts(talk, 0).history == []


def test_what_is_learned_is_cleaned(index):
    Editor(index, log_of(index)).add_examples({0: [["Dear team,\n\nopening times please\n\nBest regards\nKim"]]})
    assert ("opening times please",) in dict(index)[0].examples


def test_chosen_replies_learn_cleaned_messages(index):
    mail = "Hi team,\n\ncan i see what the store costs\n\nThanks,\nKim\n-- \nSent from my iPhone"
    recorder(index).record([Outcome(messages=[mail], offered=[0], chosen=0)])
    learn(index, log_of(index))
    assert dict(index)[0].learned == (("can i see what the store costs",),)


def test_emoji_are_told_apart(tmp_path):
    examples = {0: "\U0001f44d", 1: "\U0001f620"}
    replies = [
        type(each)(each.text, each.payload, each.title, ((examples[at],),) if at in examples else each.examples)
        for at, each in enumerate(faq())
    ]
    index = Index.build(WordEncoder(), replies, tmp_path / "emoji")
    for at, text in examples.items():
        [[best]] = index.search([[text + "\ufe0f"]], 1, ANY_SCORE)
        assert best.position == at


def test_typos_find_what_the_words_find(index):
    for written, right in (("trakc my pakage", "track my package"), ("wen do you oepn", "when do you open")):
        typed, meant = index.search([[written], [right]], 4, ANY_SCORE)
        assert typed == meant


def test_the_words_of_new_replies_are_known_at_once(index):
    assert index.spelling()().correct("your zyrkonai lamp")[1] == ()
    index.add(["The zyrkonia is a lamp."])
    assert index.spelling()().correct("your zyrkonai lamp")[0] == "your zyrkonia lamp"


def test_a_reply_to_the_opposite_gives_way(tmp_path):
    index = Index.build(WordEncoder(), faq(slice(1, 3)), tmp_path / "index")
    [found] = index.search([["do not track my package"]], 4, ANY_SCORE, why=True)
    [asked] = index.search([["track my package"]], 4, ANY_SCORE, why=True)
    assert asked[0].text == REPLIES[1]
    assert not asked[0].why.opposes
    opposing = next(each for each in found if each.text == REPLIES[1])
    assert opposing.to_json()["why"]["opposes"] == "track my package"
    assert opposing.score < 0
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    assert REPLIES[1] not in [each.text for each in index.search([["do not track my package"]], 4, 0.0)[0]]


def test_as_many_replies_come_although_some_give_way(tmp_path):
    replies = [
        *(type(each)(each.text, examples=(("please send the parcel",),)) for each in faq()),
        type(faq()[0])("We send nothing.", examples=(("please do not send the parcel",),)),
    ]
    index = Index.build(WordEncoder(), replies, tmp_path / "index")
    [[best]] = index.search([["do not send the parcel"]], 1, ANY_SCORE)
    assert best.text == "We send nothing."
    [found] = index.search([["do not send the parcel"]], 5, ANY_SCORE, distinct=True)
    assert len(found) == 5


@pytest.mark.parametrize(
    "message",
    ["When do you open? And where is my order?", "When do you open and where is my order?", "when do you open, where is my order"],
)
def test_two_questions_have_two_answers(index, message):
    [found] = index.search([[message]], 3, ANY_SCORE, why=True)
    assert {found[0].text, found[1].text} == {REPLIES[0], REPLIES[1]}
    assert [each.also for each in found] == [False, True, False]
    assert "also" not in found[0].to_json()
    assert found[1].to_json()["also"] is True
    for one in ("When do you open?", "Hello! When do you open?", "Hello where is, when do you open?", BEFORE + "When do you open?" + AFTER):
        assert not any(each.also for each in index.search([[one]], 3, ANY_SCORE)[0])


def test_the_first_reply_answers_the_message_where_that_to_the_other_sentence_goes(tmp_path):
    """A program that shows the first reply without `also` must not show one that fits neither."""
    index = Index.build(WordEncoder(), faq(slice(1, 3)), tmp_path / "index")
    other = "At what hour do you open on sunday in may?"
    [asked] = index.search([[f"Track my package. {other}"]], 4, ANY_SCORE)
    assert [(each.text, each.also) for each in asked[:2]] == [(REPLIES[1], False), (REPLIES[0], True)]
    said = [{"role": "assistant", "content": REPLIES[1]}]
    question = {"role": "user", "content": f"Track my package. {other}"}
    denied = [f"Do not track my package. {other}"]
    for conversation, options in ((denied, {}), ([question, *said, question], {"no_repeat": True})):
        [found] = index.search([conversation], 4, ANY_SCORE, **options)
        assert found[0].text == REPLIES[0]
        assert not any(each.also for each in found)


def test_a_reply_to_what_is_denied_is_no_second_answer(tmp_path):
    index = Index.build(WordEncoder(), faq(slice(1, 3)), tmp_path / "index")
    [found] = index.search([["Do not track my package. When do you open?"]], 4, ANY_SCORE)
    assert REPLIES[1] in [each.text for each in found]
    assert not any(each.also for each in found)


def test_the_second_answer_is_among_the_replies_however_few_are_wanted(tmp_path):
    opening = [Candidate(f"We open at {hour}.", examples=((f"when do you open on day {hour}",),)) for hour in range(9)]
    replies = [*opening, Candidate("It comes on Monday.", examples=(("where is my order",),))]
    index = Index.build(WordEncoder(), replies, tmp_path / "index")
    [found] = index.search([["When do you open on day 3? Where is my order?"]], 2, ANY_SCORE)
    assert [(each.text, each.also) for each in found] == [("We open at 3.", False), ("It comes on Monday.", True)]
    [found] = index.search([["When do you open on day 3? Where is my order?"]], 5, ANY_SCORE)
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    assert sum(each.also for each in found) == 1


def test_long_messages_of_one_turn_are_sentences_of_their_own(index):
    asked = ["when do you open on the second sunday of the next month", "where is my order"]
    conversation = [{"role": "user", "content": text} for text in asked]
    [reading] = index.read([conversation], None)
    assert reading.message.parts[1:] == tuple(asked)


@pytest.mark.parametrize(
    ("courteous", "is_named"),  # a sentence that is searched for alone is not named
    [("Hi, my name is Kim, {}, thanks", True), ("hello there {}", False), ("Good morning, {}", False)],
)
def test_courtesy_around_a_question_changes_neither_reply_nor_score(index, courteous, is_named):
    question = "when do you open"
    [[alone], [found]] = index.search([[question], [courteous.format(question)]], 1, ANY_SCORE, why=True)
    assert (found.text, found.score) == (alone.text, pytest.approx(alone.score, abs=1e-6))
    assert found.why.sentence == (question if is_named else "")


def test_notes_say_how_a_message_was_read(index):
    def notes(text):
        return read_parts([text], None, index.spelling()).message.notes()

    assert notes("where is my order") == {}
    assert notes("when do you oepn") == {"corrected": {"oepn": "open"}}
    assert notes("Where is my order? When do you open?") == {"parts": 3}
    assert notes("wo ist meine bestellung") == {"language": "unknown"}
    assert notes("\u0433\u0434\u0435 \u043c\u043e\u0439 \u0437\u0430\u043a\u0430\u0437") == {"language": "unknown"}
    assert notes("Kowalski") == {}
    assert notes("It came. " * 4000)["cut"] is True


def test_a_slow_ranker_reads_the_sentence_that_is_answered(index):
    read = []

    class Ranker:
        def score(self, contexts, candidates):
            read.extend(contexts)
            return np.zeros((len(contexts), len(candidates[0])))

    Cascade(index, Ranker(), 4).search([[BEFORE + "Where is my order?" + AFTER], ["when do you open"]], 1)
    assert [context[-1] for context in read] == ["Where is my order?", "when do you open"]


def test_candidates_above_which_some_may_be_missing_are_not_given():
    found = [
        (np.array([0, 1]), np.array([0.9, 0.8])),
        (np.array([2, 3]), np.array([0.5, 0.4])),
    ]
    joined = parts.join_parts(found, ["Where is it?", "When do you open?"], wanted=2)
    assert joined.numbers[joined.answers_first(-1.0)].tolist() == [0, 2, 1], "a third of the first part may beat 3"
    every = parts.join_parts(found, ["Where is it?", "When do you open?"], wanted=3)
    assert every.numbers[every.answers_first(-1.0)].tolist() == [0, 2, 1, 3]


@pytest.mark.parametrize(
    ("texts", "also"),
    [
        # one question, cut at its comma
        (["We wait for hours, do we get it?", "We wait for hours", "do we get it?"], set()),
        # a sentence that asks twice
        (["Where is it, and do we get it?", "Where is it?", "do we get it?"], {2}),
        # the clauses of two sentences
        (["I wait, do I get it? We came, may I go?", "I wait, do I get it?", "I wait", "do I get it?",
          "We came, may I go?", "We came", "may I go?"], {6}),
    ],
)  # fmt: skip
def test_a_sentence_and_its_clauses_ask_one_question(texts, also):
    found = [(np.array([number]), np.array([0.5 + number / 100])) for number in range(len(texts))]
    found[1] = (np.array([1]), np.array([0.9]))
    joined = parts.join_parts(found, texts, wanted=2)
    assert joined.numbers[0] == 1
    assert joined.also == also


@pytest.mark.parametrize(("count", "lost"), [(1, 0.2), (2, 0.2), (4, 0.3), (8, 0.45)])
def test_what_is_told_in_many_sentences_weighs_less_beside_a_question(count, lost):
    told = [f"Sentence {number} tells." for number in range(count)]
    asked, *others = parts.penalties(["Where is it?", *told])
    assert others == pytest.approx([asked + lost] * count)
    assert len(set(parts.penalties(told))) == 1, "where nothing is asked, all of it counts alike"


@pytest.mark.parametrize(
    ("sentence", "clause", "told"),
    [
        ("My parcel has not come, I paid by card", "I paid by card", True),
        ("My parcel has come, I paid by card", "I paid by card", False),
        ("My parcel has not come, when does it come?", "when does it come?", False),
        ("My parcel has not come, I want to pay by card", "I want to pay by card", False),
        ("My parcel has not come. I paid by card.", "I paid by card.", False),  # of another sentence
    ],
)
def test_what_a_sentence_tells_behind_a_denial_counts_less(sentence, clause, told):
    assert parts.denial_before([sentence, clause], 1) == (sentence if told else "")
    assert parts.penalties([sentence, clause])[1] == (parts.TOLD_PENALTY if told else 0)

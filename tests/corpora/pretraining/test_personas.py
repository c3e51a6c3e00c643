"""Statements of one who replies, from elsewhere in the conversation."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from rejoinder.corpora.examples import read_examples
from rejoinder.corpora.pretraining.build import build_corpus
from rejoinder.corpora.pretraining.messages import FEWEST, MOST, persona_of, statements
from rejoinder.corpora.pretraining.plan import Source
from rejoinder.models.dialogue import HistoryText
from rejoinder.ranker import PERSONA
from tests.corpora.pretraining.test_build import recipe, write

OWN = ["i like to ski a lot.", "my dog is called rex.", "i have two older sisters.", "we live by the sea."]
MORE = ["i cook for my friends.", "my job is to teach.", "i never learned to swim.", "we grow our own beans."]


def talk(count=8):
    """Two who take turns; the second one says what is in OWN, one statement each time."""
    said = [*OWN, *MORE]
    return [f"so tell me, number {n // 2}, who are you?" if n % 2 == 0 else said[n // 2 % 8] for n in range(count)]


def test_statements_are_sentences_of_some_words_in_the_first_person() -> None:
    found = statements(["Hi! I love old films. Do I know you well? You have a hat.", "Yes.", "My cat sleeps all day"])
    assert found == [(0, "I love old films."), (2, "My cat sleeps all day")]


def test_a_persona_is_of_the_one_who_replies_and_says_nothing_of_the_reply_and_its_neighbours() -> None:
    turns = [*talk(8), "and?", "well, i like to ski a lot. i cook each day."]
    persona = persona_of(9, turns[9], statements(turns), random.Random(0))
    assert persona == "", "without the response and the message before it two are left"
    turns = [*talk(12), "who?", OWN[0]]
    persona = persona_of(13, "ok", statements(turns), random.Random(0))
    assert {text.strip() for text in persona.split(PERSONA)[1:]} <= {*OWN, MORE[0]}, "not what is said just before"
    assert FEWEST <= persona.count(PERSONA) <= MOST
    assert persona_of(12, "ok", statements(turns), random.Random(0)) == "", "the other one only asked"


@given(st.lists(st.sampled_from([*OWN, "what?", "i go there every day.", "yes"]), max_size=14), st.integers(0, 13))
def test_a_persona_is_never_taken_from_near_the_response(turns: list[str], place: int) -> None:
    turns = [f"{n} {turn}" for n, turn in enumerate(turns)]
    said = statements(turns)
    persona = persona_of(place, "ok", said, random.Random(1))
    assert persona.count(PERSONA) in {0, *range(FEWEST, MOST + 1)}
    places = {other for other, text in said if PERSONA + text in persona}
    assert all(other % 2 == place % 2 and abs(other - place) > 2 for other in places)


def test_the_model_reads_the_persona_before_the_history() -> None:
    assert HistoryText(persona_first=True).join((f"{PERSONA}i ski.", "older", "input")) == "i ski. older"


def test_training_examples_of_alternating_sources_get_personas_and_tests_none(tmp_path) -> None:
    records = [{"id": f"{n}", "turns": [f"{n} {turn}" for turn in talk(16)]} for n in range(120)]
    folder = write(tmp_path / "in", a=records, b=[{**each, "turns": each["turns"][::-1]} for each in records])
    sources = (
        Source(name="a", licence="none", file="a.jsonl", alternating=True),
        Source(name="b", licence="none", file="b.jsonl"),
    )
    build_corpus(recipe("a", "b", source=sources, personas=0.5), folder, tmp_path / "out")
    train = list(read_examples(tmp_path / "out", "train"))
    mine = [example for example in train if example.source == "a" and not example.response.endswith("?")]
    given_one = [example for example in mine if example.context[0].startswith(PERSONA)]
    assert 0.3 < len(given_one) / len(mine) < 0.7
    others = [example for example in train if example.source == "b"]
    held_out = [example for part in (tmp_path / "out/test").iterdir() for example in read_examples(part, "test")]
    assert others
    assert held_out
    assert not any(message.startswith(PERSONA) for example in (*others, *held_out) for message in example.context)


def test_only_the_dialogues_that_are_asked_for_are_read(tmp_path) -> None:
    """They are asked for by a text, not by a pattern: as a regular expression this one would take ages for one id."""
    name = "a" * 40
    ids = [f"{name}{end}-{number}" for end in ("!", "(a+)+$") for number in range(40)]
    folder = write(tmp_path / "in", a=[{"id": each, "turns": [f"{each} {turn}" for turn in talk()]} for each in ids])
    source = Source(name="a", licence="none", file="a.jsonl", only="(a+)+$")
    build_corpus(recipe("a", source=(source,)), folder, tmp_path / "out")
    assert {example.id[40] for example in read_examples(tmp_path / "out", "train")} == {"("}

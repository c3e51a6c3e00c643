"""Filters, cleaners and the recipe: small functions of their own."""

import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.conversations import PERSONA
from rejoinder.corpora.keys import words_of
from rejoinder.corpora.forms.examples import read_examples
from rejoinder.errors import InputError
from tests.workshop.corpus.test_build import recipe, write
from workshop.corpus import messages
from workshop.corpus.build import build_corpus
from workshop.corpus.messages import FEWEST, MOST, RULES, clean, fault_of, persona_of, statements
from workshop.corpus.plan import Filters, Source, load_corpus_plan

OPEN = Path(__file__).parents[3] / "recipes" / "corpus" / "open.toml"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Hello, how are you?", ""),
        ("I'll be there at 10:30, bring 2 chairs", ""),
        ("こんにちは、元気ですか", ""),
        ("...", "no words"),
        ("word " * 129, "too long"),
        ("https://example.org/a?b=c", "only links"),
        ("look at https://example.org", ""),
        ("+1 202-898-1200.", "mostly no letters"),
        ("no no no no no never", "repeated word"),
        ("no no no", ""),
        ("!paste", "command"),
        ("and/or", ""),
    ],
)
def test_filters(text, reason):
    number = fault_of(text, words_of(text), Filters())
    assert ("", *RULES)[number] == reason


@pytest.mark.parametrize(
    ("text", "names", "cleaned"),
    [
        ("[01:08:04.19] Okay... [laughs]", ["brackets"], "Okay..."),
        ("(groans) I roll (I think)  a 7", ["parentheses"], "I roll (I think) a 7"),
        ("Yeah , it 's fine , is n't it ?", ["spacing"], "Yeah, it's fine, isn't it?"),
        ("a  b", ["brackets", "spacing"], "a  b"),
        ("[laughs]", ["brackets"], ""),
    ],
)
def test_cleaners(text, names, cleaned):
    assert clean(text, names) == cleaned


def test_spacing_out_puts_a_space_before_the_marks_that_end_a_word():
    texts = ["Yeah, it's fine, isn't it?", "at 10:30, e.g. 3.5", "..."]
    spaced = ["Yeah , it's fine , isn't it ?", "at 10:30 , e.g . 3.5", "..."]
    assert [messages.spaced_out(text) for text in texts] == spaced


def test_the_recipe_of_the_shipped_weights_reads():
    recipe = load_corpus_plan(OPEN)
    names = [source.name for source in recipe.source]
    assert len(names) == 17
    mixed = recipe.source[names.index("synthetic_persona_chat_valtest")]
    assert mixed.only == "-test-", "the other half has the personas of ConvAI2's validation set"
    assert all(source.licence for source in recipe.source)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ('kind = "corpus"', 'kind = "corpus"\nsed = 1'),
            "unknown key 'sed'; did you mean 'seed'?",
        ),
        (("cap = 60_000", "cap = 0"), "cap = 0 is not allowed"),
        (
            ('name = "multiwoz21_valtest"', 'name = "byu_chitchat"'),
            "two sources are called 'byu_chitchat'",
        ),
        (('clean = ["spacing"]', 'clean = ["spaces"]'), "is not allowed"),
        (('name = "self_dialogue"', 'name = "../self"'), "is not allowed"),
    ],
)
def test_a_wrong_recipe_is_explained(tmp_path, change, message):
    path = tmp_path / "wrong.toml"
    path.write_text(OPEN.read_text(encoding="utf-8").replace(*change, 1), "utf-8")
    with pytest.raises(InputError, match=re.escape(message)):
        load_corpus_plan(path)


def test_a_recipe_may_be_another_one_with_other_caps(tmp_path):
    (tmp_path / "open.toml").write_text(OPEN.read_text("utf-8"), "utf-8")
    path = tmp_path / "less.toml"
    path.write_text(
        'kind = "corpus"\nbase = "open.toml"\n[caps]\ngutenberg_dialogue = 7\n', "utf-8"
    )
    whole, less = load_corpus_plan(OPEN), load_corpus_plan(path)
    caps = {source.name: source.cap for source in less.source}
    assert caps == {source.name: source.cap for source in whole.source} | {"gutenberg_dialogue": 7}
    assert (less.evaluation, less.filters, less.personas) == (
        whole.evaluation,
        whole.filters,
        whole.personas,
    )
    path.write_text('kind = "corpus"\nbase = "open.toml"\n[caps]\ngutenberg = 7\n', "utf-8")
    with pytest.raises(InputError, match="'gutenberg', which is not a source"):
        load_corpus_plan(path)


OWN = [
    "i like to ski a lot.",
    "my dog is called rex.",
    "i have two older sisters.",
    "we live by the sea.",
]
MORE = [
    "i cook for my friends.",
    "my job is to teach.",
    "i never learned to swim.",
    "we grow our own beans.",
]


def talk(count=8):
    """Two who take turns; the second one says what is in OWN, one statement each time."""
    said = [*OWN, *MORE]
    return [
        f"so tell me, number {n // 2}, who are you?" if n % 2 == 0 else said[n // 2 % 8]
        for n in range(count)
    ]


@given(
    st.lists(st.sampled_from([*OWN, "what?", "i go there every day.", "yes"]), max_size=14),
    st.integers(0, 13),
)
def test_a_persona_is_never_taken_from_near_the_response(turns: list[str], place: int) -> None:
    turns = [f"{n} {turn}" for n, turn in enumerate(turns)]
    said = statements(turns)
    persona = persona_of(place, "ok", said, random.Random(1))
    assert persona.count(PERSONA) in {0, *range(FEWEST, MOST + 1)}
    places = {other for other, text in said if PERSONA + text in persona}
    assert all(other % 2 == place % 2 and abs(other - place) > 2 for other in places)


def test_training_examples_of_alternating_sources_get_personas_and_tests_none(tmp_path) -> None:
    records = [{"id": f"{n}", "turns": [f"{n} {turn}" for turn in talk(16)]} for n in range(120)]
    folder = write(
        tmp_path / "in", a=records, b=[{**each, "turns": each["turns"][::-1]} for each in records]
    )
    sources = tuple(
        Source(name=n, licence="none", file=f"{n}.jsonl", alternating=n == "a") for n in "ab"
    )
    build_corpus(recipe("a", "b", source=sources, personas=0.5), folder, tmp_path / "out")
    train = list(read_examples(tmp_path / "out", "train"))
    mine = [
        example for example in train if example.source == "a" and not example.response.endswith("?")
    ]
    given_one = [example for example in mine if example.context[0].startswith(PERSONA)]
    assert 0.3 < len(given_one) / len(mine) < 0.7
    others = [example for example in train if example.source == "b"]
    held_out = [
        example
        for part in (tmp_path / "out/test").iterdir()
        for example in read_examples(part, "test")
    ]
    assert others
    assert held_out
    assert not any(
        message.startswith(PERSONA)
        for example in (*others, *held_out)
        for message in example.context
    )


def test_only_the_dialogues_that_are_asked_for_are_read(tmp_path) -> None:
    """They are asked for by a text, not by a pattern: as a regular expression this one would take ages for one id."""
    name = "a" * 40
    ids = [f"{name}{end}-{number}" for end in ("!", "(a+)+$") for number in range(40)]
    folder = write(
        tmp_path / "in",
        a=[{"id": each, "turns": [f"{each} {turn}" for turn in talk()]} for each in ids],
    )
    source = Source(name="a", licence="none", file="a.jsonl", only="(a+)+$")
    build_corpus(recipe("a", source=(source,)), folder, tmp_path / "out")
    assert {example.id[40] for example in read_examples(tmp_path / "out", "train")} == {"("}

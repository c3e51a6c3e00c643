"""Filters, cleaners and the recipe: small functions of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from rejoinder.corpora.example import conversation_thread, words_of
from rejoinder.corpora.pretraining.messages import RULES, clean, fault_of, spaced_out
from rejoinder.corpora.pretraining.plan import Filters, load_corpus_plan
from rejoinder.errors import InputError

OPEN = Path(__file__).parents[3] / "recipes" / "corpus" / "open.toml"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Hello, how are you?", ""),
        ("ok", ""),
        ("I'll be there at 10:30, bring 2 chairs", ""),
        ("こんにちは、元気ですか", ""),
        ("...", "no words"),
        (":-)", "no words"),
        ("word " * 129, "too long"),
        ("https://example.org/a?b=c", "only links"),
        ("www.example.org http://example.com", "only links"),
        ("look at https://example.org", ""),
        ("+1 202-898-1200.", "mostly no letters"),
        ("no no no no no never", "repeated word"),
        ("no no no", ""),
        ("!paste", "command"),
        ("/join", "command"),
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


@pytest.mark.parametrize(
    ("text", "spaced"),
    [
        ("Yeah, it's fine, isn't it?", "Yeah , it's fine , isn't it ?"),
        ("at 10:30, e.g. 3.5", "at 10:30 , e.g . 3.5"),
        ("...", "..."),
    ],
)
def test_spacing_out_puts_a_space_before_the_marks_that_end_a_word(text, spaced):
    assert spaced_out(text) == spaced


def test_a_conversation_is_known_by_its_words_alone():
    one = conversation_thread(["Hi there!", "how ARE you", "...", "fine"])
    assert one == conversation_thread(["hi", "there how are", "You? Fine."])
    assert one != conversation_thread(["hi there", "how are you", "great"])


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
        (('kind = "corpus"', 'kind = "corpus"\nsed = 1'), "unknown key 'sed'; did you mean 'seed'?"),
        (("cap = 60_000", "cap = 0"), "cap = 0 is not allowed"),
        (('name = "multiwoz21_valtest"', 'name = "byu_chitchat"'), "two sources are called 'byu_chitchat'"),
        (('clean = ["spacing"]', 'clean = ["spaces"]'), "is not allowed"),
        (('name = "self_dialogue"', 'name = "../self"'), "is not allowed"),
    ],
)
def test_a_wrong_recipe_is_explained(tmp_path, change, message):
    path = tmp_path / "wrong.toml"
    path.write_text(OPEN.read_text(encoding="utf-8").replace(*change, 1), "utf-8")
    with pytest.raises(InputError) as error:
        load_corpus_plan(path)
    assert message in str(error.value)


def test_a_missing_recipe_is_explained(tmp_path):
    with pytest.raises(InputError, match="no such recipe"):
        load_corpus_plan(tmp_path / "none.toml")


def test_a_recipe_may_be_another_one_with_other_caps(tmp_path):
    (tmp_path / "open.toml").write_text(OPEN.read_text("utf-8"), "utf-8")
    path = tmp_path / "less.toml"
    path.write_text('kind = "corpus"\nbase = "open.toml"\n[caps]\ngutenberg_dialogue = 7\n', "utf-8")
    whole, less = load_corpus_plan(OPEN), load_corpus_plan(path)
    caps = {source.name: source.cap for source in less.source}
    assert caps == {source.name: source.cap for source in whole.source} | {"gutenberg_dialogue": 7}
    assert (less.evaluation, less.filters, less.personas) == (whole.evaluation, whole.filters, whole.personas)
    path.write_text('kind = "corpus"\nbase = "open.toml"\n[caps]\ngutenberg = 7\n', "utf-8")
    with pytest.raises(InputError, match="'gutenberg', which is no source"):
        load_corpus_plan(path)


def test_the_recipe_of_everyday_talk_reads():
    talk = load_corpus_plan(OPEN.parent / "talk.toml")
    assert sum(source.cap is not None for source in talk.source) == 12

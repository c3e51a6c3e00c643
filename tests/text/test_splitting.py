"""Words and separators, and the lowering of letters."""

import sys
import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.text.splitting import lower, tokens

ODD_TEXT = st.text(st.one_of(st.sampled_from("aZ1 .,'\n\t$\u00a0\u2019\ufe4f😀é\u0301日"), st.characters(codec=None)))


def naive_tokens(text):
    """The rule of the original, character by character."""
    runs = []
    for character in text:
        separator = unicodedata.category(character)[0] in "PZ"
        if runs and (unicodedata.category(runs[-1][0])[0] in "PZ") == separator:
            runs[-1] += character
        else:
            runs.append(character)
    last = len(runs) - 1
    return [run for number, run in enumerate(runs) if run != " " or number in (0, last)]


def assigned_here(text):
    """False for characters that this Python's Unicode does not know yet, but the frozen table may."""
    return all(unicodedata.category(character) != "Cn" for character in text)


@settings(deadline=None, max_examples=300)
@given(ODD_TEXT.filter(assigned_here))
def test_tokens_are_those_of_the_rule(text):
    assert tokens(text) == naive_tokens(text)


def test_frozen_classes_are_those_of_unicode():
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))
        if category != "Cn":
            # Between two letters a separator is a token of its own, the plain space excepted.
            assert (len(tokens(f"a{chr(code)}b")) > 1) == (category[0] in "PZ"), hex(code)


def test_only_ascii_letters_are_lowered():
    assert lower("HELLO Wörld ÄÖ İ ẞ \u212a \ud800Z") == "hello wörld ÄÖ İ ẞ \u212a \ud800z"

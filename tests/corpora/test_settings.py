"""Settings of a corpus: shown with their documentation, read strictly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.jsonl import CORPUS as JSONL
from rejoinder.corpora.settings import read_settings, settings_of
from rejoinder.errors import InputError


@dataclass(frozen=True)
class Common:
    shortest: int = 9
    """Fewest characters of a
    message."""


@dataclass(frozen=True)
class ToySettings(Common):
    """Settings of the toy."""

    longest: int = 127
    """Most characters of a message."""
    share: float = 0.5
    """How much."""
    kinds: tuple[str, ...] = ("a", "b")
    """Which."""
    side: Literal["left", "right"] = "left"
    """Where."""
    bots: bool = False
    """Whether bots count."""

    def __post_init__(self):
        if self.shortest > self.longest:
            raise InputError(f"shortest is {self.shortest}, longest is {self.longest}; it cannot be less")


TOY = Corpus("toy", "", "", "", "", "", settings=ToySettings)


def test_settings_are_shown_with_types_defaults_and_meanings():
    assert [str(setting) for setting in settings_of(TOY)] == [
        "shortest (int, default 9): Fewest characters of a message.",
        "longest (int, default 127): Most characters of a message.",
        "share (float, default 0.5): How much.",
        'kinds (tuple[str, ...], default ["a", "b"]): Which.',
        "side (Literal['left', 'right'], default \"left\"): Where.",
        "bots (bool, default false): Whether bots count.",
    ]
    assert settings_of(JSONL) == []


def test_values_are_those_of_toml_and_bare_words():
    assert read_settings(TOY, []) == ToySettings()
    given = ["longest=50", " share = 1", "kinds=['x']", "side=right", "bots=true", "longest=60"]
    assert read_settings(TOY, given) == ToySettings(longest=60, share=1.0, kinds=("x",), side="right", bots=True)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("longst=3", r"--set longst=3: toy has no such setting; did you mean longest\? allowed: shortest \(int, def"),
        ("longest", "write it as name=value"),
        ("=3", "write it as name=value"),
        ("longest=many", r"--set longest=\"many\" is not allowed: it should be a valid integer; longest \(int"),
        ("longest=1.5", "is not allowed: it should be a valid integer"),
        ("bots=1", "is not allowed: it should be a valid boolean"),
        ("side=up", "it should be 'left' or 'right'"),
        ("kinds=[1]", r"--set kinds=\[1\] is not allowed: it should be a valid string; kinds"),
        ("kinds=[", "the value is not TOML"),
        ("longest=1\nshortest=1", "give one value"),
        ("longest=3", r"settings of toy: shortest is 9, longest is 3; it cannot be less"),
    ],
)
def test_what_is_not_allowed_is_an_error_that_lists_what_is(given, reason):
    with pytest.raises(InputError, match=reason):
        read_settings(TOY, [given])


def test_a_corpus_without_settings_says_so():
    with pytest.raises(InputError, match="--set a=1: jsonl has no settings"):
        read_settings(JSONL, ["a=1"])

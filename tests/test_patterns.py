"""Every expression that reads texts of others takes time linear in their length."""

import ast
import importlib
import pkgutil

import pytest

import rejoinder
from rejoinder import patterns
from tests import adversary
from tests.adversary import COMMON, LONG, check_linear, fragments, texts
from tests.test_architecture import ROOT, SOURCE, parse, room_of

ROOMS = (
    "text", "corpora", "retrieval", "encoders", "evaluation", "intents", "serving", "integrations", "stores", "curation",
)  # fmt: skip
# The guard's two expressions read bytes of one header, whose length the server bounds. A store's is a name, letter by
# letter, and is made of the place that it hides.
OTHERS = ("serving/guard.py", "stores/store.py")
# Adapters need their libraries; what is run by itself does something when it is imported.
NOT_IMPORTED = ("rejoinder.integrations", "rejoinder.__main__", "rejoinder.serving.ray")
FRAGMENTS = 10  # of an expression, each two of which are combined


def _import_all():
    for module in pkgutil.walk_packages(rejoinder.__path__, "rejoinder."):
        if not module.name.startswith(NOT_IMPORTED):
            importlib.import_module(module.name)


_import_all()
SEARCHED = list(patterns.searched())
MATCHED = list(patterns.matched())


def _texts_of(pattern, length):
    own = fragments(pattern.pattern, pattern.flags)[:FRAGMENTS]
    listed = [*texts(own, length), *texts(COMMON, length, pairs=False)]
    return [text.encode("latin-1", "replace") for text in listed] if isinstance(pattern.pattern, bytes) else listed


def _check(pattern, function):
    check_linear(function, lambda length: _texts_of(pattern, length))


@pytest.mark.parametrize("pattern", SEARCHED, ids=lambda pattern: repr(pattern.pattern)[:60])
def test_searches_take_linear_time(pattern):
    _check(pattern, lambda text: pattern.sub(text[:0], text))


@pytest.mark.parametrize("pattern", MATCHED, ids=lambda pattern: repr(pattern.pattern)[:60])
def test_matches_take_linear_time(pattern):
    _check(pattern, pattern.fullmatch)
    _check(pattern, pattern.match)


@pytest.mark.parametrize("expression", [r"\s*x", r"\w+@\w+", r"<!--.*?-->|<a>", r"\[([^\]]*)\]", r"a*a*b"])
def test_the_square_of_the_length_is_noticed(expression, monkeypatch):
    monkeypatch.setattr(adversary, "LIMIT", 0.3)
    monkeypatch.setattr(adversary, "PATIENCE", 1.0)
    pattern = patterns.re.compile(expression)
    with pytest.raises(AssertionError, match=f"of {LONG:,} letters"):
        _check(pattern, lambda text: pattern.sub("", text))


def test_expressions_that_read_texts_are_made_in_one_place():
    made = frozenset(("compile", "search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer"))
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: re.{node.attr}"
        for path in SOURCE.rglob("*.py")
        if room_of(path) in ROOMS and path.relative_to(SOURCE).as_posix() not in OTHERS
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Attribute) and node.attr in made and ast.unparse(node.value) == "re"
    ]
    assert not wrong, "make them with rejoinder.patterns"

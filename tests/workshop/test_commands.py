"""The workshop's commands in the documents, recipes and cards: each is one that it takes."""

import importlib
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = (
    "*.md",
    "docs/**/*.md",
    "recipes/**/*.toml",
    "src/**/*.md",
    "weights/**/*.md",
    "workshop/*.md",
)
TEXTS = sorted(path for place in PLACES for path in ROOT.glob(place))
COMMAND = re.compile(r"python -m (workshop\.\w+)([^`\"\n]*)")
REMARK = re.compile(r"\s+#\s.*|\s{3,}\S.*")


def commands(path):
    """The commands of a file that are all there: with arguments, or the one that takes none."""
    for module, words in COMMAND.findall(path.read_text("utf-8")):
        rest = shlex.split(REMARK.sub("", words))
        if rest or module == "workshop.notebooks":
            yield module, rest


COMMANDS = {(module, *words): path for path in TEXTS for module, words in commands(path)}


def test_the_commands_are_found():
    assert len(COMMANDS) > 15
    assert {module for module, *_ in COMMANDS} == {
        f"workshop.{name}"
        for name in (
            "average",
            "bundle",
            "corpus",
            "documentation",
            "match_deviation",
            "notebooks",
            "page_picture",
            "probe",
            "results",
        )
    }


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_it_is_taken(command, monkeypatch):
    monkeypatch.chdir(ROOT)
    module, *words = command
    if module == "workshop.notebooks":  # it takes no arguments
        pytest.importorskip("nbclient")
        assert callable(importlib.import_module(module).main)
        return
    name = "workshop.corpus.__main__" if module == "workshop.corpus" else module
    importlib.import_module(name).arguments(words)
    for word in words:
        if re.fullmatch(r"recipes/[a-z0-9/-]+\.toml", word):
            assert Path(word).is_file(), f"there is no {word}"

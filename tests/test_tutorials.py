"""The tutorials, and the page of integrations, run from top to bottom as they are written, and print what they show.

A block of `bash` holds here-documents and commands of ours, those of `python` share one namespace.
Each line of `text` is a part of what the block above it printed, whatever its numbers are.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from rejoinder.cli.start import main

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"^cat > (\S+) << 'EOF'\n(.*?)^EOF\n", re.DOTALL | re.MULTILINE)
NEEDS = {
    "tutorials/support-team": ["sklearn"],
    "tutorials/bot-builder": ["sklearn"],
    "tutorials/researcher": ["chitchat_dataset"],
    "tutorials/platform-engineer": ["chitchat_dataset", "onnxruntime", "onnxscript"],
    "integrations": ["haystack", "langchain_core", "sklearn", "spacy"],
}


def run(commands: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the files of here-documents, then run the commands, each of which must end well."""
    for name, content in FILE.findall(commands):
        Path(name).write_text(content, encoding="utf-8")
    for line in FILE.sub("", commands).replace("\\\n", "").splitlines():
        words = shlex.split(line)
        assert words[0] == "rejoinder", f"not a command of ours: {line}"
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code, line


def plain(text: str) -> str:
    """Text without its numbers, and with single spaces."""
    return " ".join(re.sub(r"-?\d[\d.,]*", "#", text).split())


def test_every_tutorial_is_run():
    assert {f"tutorials/{path.stem}" for path in (DOCS / "tutorials").glob("*.md")} | {
        "integrations"
    } == set(NEEDS)


@pytest.mark.parametrize("name", NEEDS)
def test_a_tutorial_runs_as_written(name, tmp_path, monkeypatch, capsys):
    for module in NEEDS[name]:
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    printed = ""
    for kind, block in BLOCK.findall((DOCS / f"{name}.md").read_text(encoding="utf-8")):
        if kind == "text":
            missing = [line for line in block.splitlines() if plain(line) not in plain(printed)]
            assert not missing, f"{missing}\nis not in\n{printed}"
            continue
        if kind == "bash":
            run(block, monkeypatch)
        else:
            assert kind == "python"
            exec(block, names)
        printed = capsys.readouterr().out

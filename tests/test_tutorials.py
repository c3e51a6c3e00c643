"""The tutorials, and the page of integrations, run from top to bottom as they are written, and print what they show.

A block of `bash` holds here-documents and commands of ours, those of `python` share one namespace.
Each line of `text` is a part of what the block above it printed, with nearly the same numbers. If it shows scores, it
shows all lines that were printed.
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
NUMBER = re.compile(r"-?\d[\d.,]*")
SCORED = re.compile(r"\s*-?\d\.\d+\s")
DIFFERENCE = 0.05
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


def numbers(text: str) -> list[float]:
    return [float(each.rstrip(".,").replace(",", "")) for each in NUMBER.findall(text)]


def is_printed(line: str, printed: str) -> bool:
    """Return whether a line is a part of what was printed, with numbers that differ by DIFFERENCE at most."""
    texts = (r"\s+".join(map(re.escape, re.split(r"\s+", text))) for text in NUMBER.split(line.strip()))
    return any(
        all(abs(a - b) <= DIFFERENCE for a, b in zip(numbers(line), numbers(found[0]), strict=True))
        for found in re.finditer(NUMBER.pattern.join(texts), printed)
    )


def check_shown(block: str, printed: str) -> None:
    """Refuse a block of `text` that is not what was printed."""
    shown = block.splitlines()
    missing = [line for line in shown if not is_printed(line, printed)]
    assert not missing, f"{missing}\nis not in\n{printed}"
    if any(map(SCORED.match, shown)):
        assert len(shown) == len(printed.splitlines()), f"{block}\nis not all of\n{printed}"


def test_a_block_with_another_score_or_fewer_lines_than_printed_is_refused():
    printed = " 0.62  #1   It is late.\n 0.41  #5   I sent it.\n"
    check_shown("0.60 #1 It is late.\n0.41 #5 I sent it.\n", printed)
    check_shown("It is late.\n", printed)
    for wrong in ("0.62 #1 It is late.\n", printed.replace("0.62", "0.56"), printed.replace("#5", "#6"), "It came.\n"):
        with pytest.raises(AssertionError):
            check_shown(wrong, printed)


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
            check_shown(block, printed)
            continue
        if kind == "bash":
            run(block, monkeypatch)
        else:
            assert kind == "python"
            exec(block, names)
        printed = capsys.readouterr().out

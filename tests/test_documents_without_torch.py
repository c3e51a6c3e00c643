"""What README, tutorials and docs show, but training, works where PyTorch cannot be imported.

A page's commands run in their order and as they are written, in one process, on small files of the
names that they have; a model that a training would have made is the bundled one. What else is left
out says why.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from tests.corpora.readers.workbook import workbook
from tests.raw_files import dialogues, said, whatsapp, write_files
from tests.test_documented_commands import ROOT, commands_of
from tests.test_without_torch import BLOCKED

PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
TUTORIALS = ("support-team", "bot-builder")  # the others are about training
HIDDEN = re.sub(
    r"^HIDDEN = .*$",
    'HIDDEN = ("torch", "transformers", "sentence_transformers")',
    BLOCKED,
    flags=re.MULTILINE,
)
LEFT_OUT = {
    ("train",): "trains",
    ("lab",): "trains, or reads what was trained",
    ("intents", "fine-tune"): "trains",
    ("export",): "reads PyTorch's modules",
    ("join",): "reads PyTorch's modules",
    ("intents", "export"): "reads PyTorch's modules",
    ("serve",): "does not end; see test_start.py",
    ("desk",): "does not end",
    ("mcp",): "does not end",
    ("chat",): "asks somebody",
    ("data", "chitchat"): "its extra holds the conversations",
    ("index", "build", "use"): "fetches a model",
    ("index", "build", "e5"): "fetches a model",
}
ELSEWHERE = re.compile(r"--ray|--store|postgresql:|/shared/|dumps/|10001")  # other machines, extras and amounts
TRAINED = re.compile(r"(runs|demo)/\S*model(#r)?|runs/tuned|my-model|hybrid:my-model")
FETCHED = re.compile(r"(sim:|map:)?(minilm|use)|map:.*")
BEFORE = {
    "Textbaustein": (
        "faq.csv",
        "Textbaustein,Kundenfrage,Thema\nBy card.,How do I pay?,Payment\nAt nine.,When do you open?,Hours\n",
    ),
    "delimiter=semicolon": ("faq.csv", "1;By card.\n2;At nine.\n"),
    "conversation=Fall": (
        "tickets.csv",
        "Fall,Von,Inhalt,Zeit\n"
        + "".join(
            f"{case},{'Shop' if place % 2 else f'Kunde {case}'},{said(case, place)},2024-01-{case + 1:02}T09:{place:02}:00\n"
            for case in range(20)
            for place in range(4)
        ),
    ),
    "test.csv --train": ("test.csv", "text,label\nmy card is gone,card\nare you open,hours\n"),
}
"""Files that a command wants, where another has the same name: by a part of it."""
PREPARED = (
    "rejoinder index build bi-small replies.txt -o my-index",
    "rejoinder data jsonl train=chats.jsonl valid=valid.jsonl test=test.jsonl -o my-data",
)
COPIES = {
    "my-data": ("data/chats", "data/support", "data/general", "demo/data"),
    "my-index": ("replies.index",),
}
RUN = """
import contextlib, glob, io, json, os, shutil
from pathlib import Path
from rejoinder.cli.start import main
faults, count = [], 0
def run(place, words):
    if "-o" in words:  # what another page's command of that name made
        made = Path(words[words.index("-o") + 1])
        shutil.rmtree(made) if made.is_dir() else made.unlink(missing_ok=True)
    spread = [sorted(glob.glob(word)) if "*" in word else [word] for word in words]
    sys.argv = ["rejoinder", *(name for names in spread for name in names)]
    told = io.StringIO()
    with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
        try:
            main()
        except SystemExit as end:
            if end.code:
                faults.append([place, words, told.getvalue()[-400:]])
prepared, copies, pages = json.loads(Path("commands.json").read_text())
home = Path.cwd()
os.chdir(home / "files")
for words in prepared:
    run("prepared", words)
for name, others in copies.items():
    for other in others:
        shutil.copytree(name, other)
for place, lines in pages:
    shutil.copytree(home / "files", home / place)
    os.chdir(home / place)
    for words, (name, content) in lines:
        if name:
            Path(name).write_text(content)
        run(place, [stand_in if not Path(word).exists() else word for word, stand_in in words])
        count += 1
print(json.dumps([count, faults, sorted({"torch", "transformers"} & sys.modules.keys())]))
"""


def without_torch(folder: Path, code: str, *given: str) -> str:
    """Return the last line that a program prints where PyTorch is hidden."""
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN + textwrap.dedent(code), *given],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()[-1]


def reason(words: tuple[str, ...]) -> str:
    """Why a command is not run here; "" for one that is."""
    for start, why in LEFT_OUT.items():
        if words[: len(start)] == start:
            return why
    return "is for another machine, extra or amount" if ELSEWHERE.search(shlex.join(words)) else ""


def to_run(path: Path) -> list[tuple[list[tuple[str, str]], tuple[str, str]]]:
    """The commands of a page, each word with what stands in for a model that is not there."""
    found = []
    for command in commands_of(path):
        again = path.stem == "rasa" and command.words[:2] == (
            "intents",
            "train",
        )  # of the page on intents
        if command.whole and not again and not reason(command.words):
            line = shlex.join(command.words)
            words = [word for word in command.words if not FETCHED.fullmatch(word)]
            before = next((file for part, file in BEFORE.items() if part in line), ("", ""))
            found.append(([(word, TRAINED.sub("convert-small", word)) for word in words], before))
    return found


def telegram_chat(number: int) -> dict[str, object]:
    """A chat as Telegram exports it."""
    messages = [
        {
            "id": place,
            "type": "message",
            "date": f"2024-03-{number % 28 + 1:02}T09:{place:02}:00",
            "from": "Shop" if place % 2 else f"Bea {number}",
            "from_id": "user1" if place % 2 else f"user{number + 9}",
            "text": said(number, place),
        }
        for place in range(6)
    ]
    return {"name": f"Bea {number}", "type": "personal_chat", "id": number, "messages": messages}


def write_inputs(folder: Path) -> None:
    """Write the files that the documents name."""
    write_files(folder)
    replies = [
        f"{said(number, 2)}." for first in (0, 100, 200, 300) for number in range(first, first + 10)
    ]
    (folder / "replies.txt").write_text("\n".join(replies) + "\n")
    (folder / "more.txt").write_text("We are closed.\nWe will call you.\n")
    (folder / "replies.csv").write_text("text\n" + "\n".join(replies) + "\n")
    rows = [{"text": text, "id": f"r{number}"} for number, text in enumerate(replies)]
    (folder / "replies.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "macros.json").write_text(json.dumps(rows[:5]))
    for place, name in enumerate(("held-out.jsonl", "test.jsonl", "valid.jsonl"), start=1):
        (folder / name).write_text(dialogues(100 * place, 20))
    (folder / "result.json").write_text(
        json.dumps({"chats": {"list": [telegram_chat(number) for number in range(30)]}})
    )
    (folder / "faq.xlsx").write_bytes(
        workbook([["question", "answer"], ["When do you open?", "At nine."]])
    )
    with zipfile.ZipFile(folder / "whatsapp.zip", "w") as archive:
        archive.writestr("_chat.txt", whatsapp(20))
    lines = [f"I lost my card {number},card" for number in range(8)]
    lines += [f"when do you open on day {number},hours" for number in range(8)]
    (folder / "intents.csv").write_text("text,label\n" + "\n".join(lines) + "\n")
    bot = folder / "my-bot"
    bot.mkdir()
    (bot / "domain.yml").write_text(
        "responses:\n  utter_delivery:\n  - text: Delivery is 3 euros.\n"
    )


def test_pages_run_without_torch(tmp_path):
    (tmp_path / "files").mkdir()
    write_inputs(tmp_path / "files")
    pages = [(path.stem, lines) for path in PAGES if (lines := to_run(path))]
    prepared = [shlex.split(line)[1:] for line in PREPARED]
    (tmp_path / "commands.json").write_text(json.dumps([prepared, COPIES, pages]))
    count, faults, loaded = json.loads(without_torch(tmp_path, RUN))
    assert not faults, "\n".join(map(str, faults))
    assert not loaded
    assert count > 50


def test_tutorials_run_without_torch(tmp_path):
    """As written but for trainings, their Python too, by what test_tutorials.py runs them with."""
    pytest.importorskip("sklearn")
    code = """
    import os
    import re
    from pathlib import Path
    import pytest
    sys.path.insert(0, sys.argv[1])
    from tests.test_tutorials import BLOCK, DOCS, run
    home = Path.cwd()
    for name in sys.argv[2:]:
        (home / name).mkdir()
        os.chdir(home / name)
        names = {}
        with pytest.MonkeyPatch.context() as patch:
            for kind, block in BLOCK.findall((DOCS / "tutorials" / f"{name}.md").read_text(encoding="utf-8")):
                if kind == "bash":
                    block = re.sub(r"^rejoinder train .*\\n", "", block.replace("\\\\\\n", ""), flags=re.MULTILINE)
                    run(block.replace("run/model", "bi-small"), patch)
                elif kind == "python":
                    exec(block, names)
    print(sorted({"torch", "transformers"} & sys.modules.keys()))
    """
    assert without_torch(tmp_path, code, str(ROOT), *TUTORIALS) == "[]"


def test_what_is_left_out_is_documented():
    """Each reason is that of some command, so that none hides another one."""
    words = [command.words for path in PAGES for command in commands_of(path) if command.whole]
    unused = [start for start in LEFT_OUT if not any(each[: len(start)] == start for each in words)]
    assert not unused

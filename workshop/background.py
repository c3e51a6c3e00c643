"""Everyday messages that belong to no reply, for the heads of indexes and for intents.

`REJOINDER_DATA=DATA python -m workshop.background` draws messages of many kinds from the open
conversations, adds questions to bots of any trade (`workshop/questions.txt`), commands to voice
assistants (of the forms in `workshop/commands.txt`), sentences in other languages
(`workshop/languages.txt`) and gibberish, and writes src/rejoinder/text/background.txt. All draws
are from a fixed seed.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import re
import string
from collections.abc import Iterable, Iterator
from pathlib import Path

import zstandard

from rejoinder.cli.shell import guarded
from rejoinder.corpora.keys import text_key
from rejoinder.errors import InputError
from rejoinder.files import atomic_file

SOURCES = {
    "byu_chitchat": "MIT",
    "ms_personality_chat": "MIT",
    "multiwoz21_valtest": "MIT",
    "self_dialogue": "BSD-3-Clause",
    "persuasion_for_good": "Apache-2.0",
    "taskmaster4_coffee": "CC BY 4.0",
    "synthetic_persona_chat_valtest": "CC BY 4.0",
    "ubuntu_irc_gold": "CC BY 4.0",
    "schema_guided_dialogue": "CC BY-SA 4.0",
    "dstc11_track5_val": "CDLA-Sharing-1.0",
    "topical_chat_devtest": "CDLA-Sharing-1.0",
}
SEED = 0
DIALOGUES = 3000  # that are read of each source
MESSAGES = 200  # that are taken of each source, one of a dialogue
TURNS = 6  # of a dialogue, its first, of which the message is one
WORDS = range(3, 21)
GIBBERISH = 150
COMMANDS = 3  # that are drawn of each form, equal ones once; more cost other messages their share
SYLLABLES = (
    "ba",
    "ko",
    "li",
    "me",
    "tor",
    "zu",
    "pli",
    "gra",
    "nim",
    "sto",
    "vek",
    "ha",
    "dro",
    "fi",
)
ROOT = Path(__file__).parents[1]
_CHOICE = re.compile(r"\(([^()]*)\)")
TARGET = ROOT / "src/rejoinder/text/background.txt"


def main() -> None:
    """Write the messages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, default=TARGET)
    options = parser.parse_args()
    folder = os.environ.get("REJOINDER_DATA", "")
    if not folder:
        raise InputError(
            "REJOINDER_DATA is not set; it names the folder that has open/SOURCE.jsonl.zst"
        )
    with atomic_file(options.output) as part:
        part.write_text("\n".join(lines(Path(folder) / "open")) + "\n", encoding="utf-8")


def lines(folder: Path) -> Iterator[str]:
    """Yield the lines of the file."""
    generator = random.Random(SEED)
    yield "# Messages that belong to no reply: drawn by workshop/background.py, one a line."
    for source, licence in SOURCES.items():
        yield f"# {source}, {licence}"
        yield from _messages(folder / f"{source}.jsonl.zst", generator)
    yield "# Questions to other bots, Apache-2.0"
    yield from (ROOT / "workshop/questions.txt").read_text(encoding="utf-8").splitlines()
    yield "# Commands to voice assistants, Apache-2.0"
    forms = (ROOT / "workshop/commands.txt").read_text(encoding="utf-8").splitlines()
    yield from commands(forms, random.Random(SEED))
    yield "# Other languages, Apache-2.0"
    yield from (ROOT / "workshop/languages.txt").read_text(encoding="utf-8").splitlines()
    yield "# Gibberish, Apache-2.0"
    yield from (_gibberish(generator) for _ in range(GIBBERISH))


def _messages(path: Path, generator: random.Random) -> Iterator[str]:
    dialogues = []
    with path.open("rb") as file:
        reader = zstandard.ZstdDecompressor(max_window_size=1 << 31).stream_reader(file)
        for line, _ in zip(
            io.TextIOWrapper(reader, encoding="utf-8"), range(DIALOGUES), strict=False
        ):
            dialogues.append(json.loads(line)["turns"])
    generator.shuffle(dialogues)
    seen: set[str] = set()
    for turns in dialogues:
        message = " ".join(generator.choice(turns[:TURNS]).split())
        key = text_key(message)
        if len(message.split()) in WORDS and key not in seen and not message.startswith("#"):
            seen.add(key)
            yield message
        if len(seen) == MESSAGES:
            return


def commands(forms: Iterable[str], generator: random.Random) -> list[str]:
    """Return commands of some forms: "turn (on|off) the (light|fan)" has four."""

    def draw(form: str) -> str:
        chosen = _CHOICE.sub(lambda match: generator.choice(match[1].split("|")), form)
        return " ".join(chosen.split())

    return list(dict.fromkeys(draw(form) for form in forms for _ in range(COMMANDS)))


def _gibberish(generator: random.Random) -> str:
    kind = generator.random()
    if kind < 0.4:
        return " ".join(
            "".join(generator.choices(string.ascii_lowercase, k=generator.randint(2, 10)))
            for _ in range(generator.randint(1, 4))
        )
    if kind < 0.6:
        return "".join(generator.choices("asdfghjkl", k=generator.randint(4, 16)))
    if kind < 0.8:
        return " ".join(
            "".join(generator.choices(SYLLABLES, k=generator.randint(1, 4)))
            for _ in range(generator.randint(1, 5))
        )
    return "x" + "".join(
        generator.choices(string.digits + string.punctuation, k=generator.randint(3, 12))
    )


if __name__ == "__main__":
    guarded(main)()

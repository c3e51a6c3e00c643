"""ConvAI2 (PersonaChat): chat between two people who play a persona, as ParlAI writes it.

The format is that of `FbDialogTeacher`: `N your persona: TEXT`, or
`N MESSAGE<tab>RESPONSE[<tab>REWARD<tab>CANDIDATE|CANDIDATE|...]`; the number 1 begins a dialogue.
The persona, before the history, is never cut off. See docs/corpora.md.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.records import BadRecordError, parse_lines
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import content_thread
from rejoinder.errors import InputError
from rejoinder.patterns import match_pattern
from rejoinder.settings import documented

_SILENCE = "__SILENCE__"
_NUMBERED = match_pattern(r"(\d{1,9}) (.*)", re.DOTALL)
_PERSONA = match_pattern(r"(your|partner's) persona: ")
_SIDES = {
    "all": ("your", "partner's"),
    "self": ("your",),
    "other": ("partner's",),
    "none": (),
}  # of persona lines


@documented
class Convai2Settings:
    """Settings of `rejoinder data convai2`."""

    personas: Literal["all", "self", "other", "none"] = "all"
    """Whose persona lines go into the contexts: all that the file has, those of the one who
    responds, the other's."""
    draw: int = 0
    """Candidates to draw for each example from the responses of the file's other dialogues, where
    the file gives none; 19 make ConvAI2's 1-of-20. The whole file is held in memory for that."""
    seed: int = 0
    """Of the draw."""

    def __post_init__(self) -> None:
        if self.draw < 0:
            raise InputError(
                f"draw is {self.draw}; it is the number of candidates to draw, 0 for none"
            )


class _Row(NamedTuple):
    number: int
    message: str  # blank where the one who responds speaks first
    response: str
    candidates: tuple[str, ...] = ()


def read_convai2(path: Path, reading: Reading, settings: Convai2Settings) -> Iterator[Example]:
    """Yield the examples of a file; InputError also: too few dialogues to draw candidates from."""
    examples = (
        example
        for dialogue in _dialogues(path, reading)
        for example in _convai2_examples(*dialogue, path, reading, settings)
    )
    return draw_candidates(examples, path, reading, settings) if settings.draw else examples


def draw_candidates(
    examples: Iterator[Example], path: Path, reading: Reading, settings: Convai2Settings
) -> Iterator[Example]:
    """Add candidates of other threads to examples without any, the right one last, as in ParlAI.

    They are distinct, none is the response, and they follow from the seed, the id and the file's
    responses alone. InputError: there are too few.
    """
    held = list(examples)
    threads: dict[str, str | None] = {}
    for example in held:
        first = threads.setdefault(example.response, example.thread)
        if first != example.thread:
            threads[example.response] = None  # in several threads: in another one
    pool = list(threads.items())
    if any(not example.candidates for example in held):
        drawn = (
            f"{settings.draw} for each example were drawn from its other dialogues "
            f"(seed {settings.seed})"
        )
        advice = "so figures do not compare with published ones"
        reading.notes.append(f"{path}: no candidates in the file; {drawn}, {advice}")
    for example in held:
        yield example if example.candidates else _with_candidates(example, pool, path, settings)


def _with_candidates(
    example: Example, pool: Sequence[tuple[str, str | None]], path: Path, settings: Convai2Settings
) -> Example:
    """Draw from a pool of distinct responses, each with its thread or None for several."""
    # A text is hashed by SHA-512: the same everywhere.
    rng = random.Random(f"{settings.seed} {example.id}")
    drawn: dict[str, None] = {}
    for position in _places(rng, len(pool), 4 * settings.draw):
        response, thread = pool[position]
        if thread != example.thread and response != example.response:
            drawn[response] = None
        if len(drawn) == settings.draw:
            return replace(example, candidates=(*drawn, example.response), label=len(drawn))
    raise InputError(
        f"{path}: {len(drawn)} responses of other dialogues for draw={settings.draw}; draw fewer"
    )


def _places(rng: random.Random, count: int, attempts: int) -> Iterator[int]:
    """Yield random places with repetitions; where they do not suffice, all in random order."""
    for _ in range(attempts):
        yield rng.randrange(count)
    yield from rng.sample(range(count), count)


def _dialogues(path: Path, reading: Reading) -> Iterator[tuple[list[str], list[_Row]]]:
    """Give the persona lines and the messages of each dialogue."""
    personas = list[str]()
    rows = list[_Row]()
    last = 0
    for number, more_personas, more_rows in parse_lines(path, reading, _parse_convai2):
        if number <= last:  # it starts again at 1, or at 2 if that line was bad
            yield personas, rows
            personas = []
            rows = []
        last = number
        personas += more_personas
        rows += more_rows
    yield personas, rows


def _parse_convai2(number: int, line: str) -> list[tuple[int, list[str], list[_Row]]]:
    """Return a line's number, its persona lines, and its messages with their responses."""
    match = _NUMBERED.fullmatch(line)
    if match is None:
        raise BadRecordError(
            "no number at its beginning; a line is N, a space and a text, or two with a tab between"
        )
    text, *fields = (part.strip().replace("\\n", "\n") for part in match[2].split("\t"))
    parts = [part.strip() for part in text.split("\n")]
    personas = [part for part in parts if _PERSONA.match(part)]
    messages = ["" if part == _SILENCE else part for part in parts if not _PERSONA.match(part)]
    response = fields[0] if fields else ""
    if personas and response and not messages:
        raise BadRecordError("a response to a persona line; a response follows a message and a tab")
    rows = [_Row(number, message, "") for message in messages[:-1]]
    if messages and (messages[-1] or response):
        listed = fields[2].split("|") if len(fields) > 2 and fields[2] else []
        candidates = tuple(text.strip() for text in listed)
        if candidates and response not in candidates:
            raise BadRecordError("the response is not among the candidates of its line")
        if len(candidates) == 1:
            raise BadRecordError("one candidate; ranking needs at least 2")
        rows.append(_Row(number, messages[-1], response, candidates))
    return [(int(match[1]), personas, rows)]


def _convai2_examples(
    personas: list[str], rows: list[_Row], path: Path, reading: Reading, settings: Convai2Settings
) -> Iterator[Example]:
    """Yield the examples of a dialogue, after the persona that the settings name."""
    spoken = (text for row in rows for text in (row.message, row.response) if text)
    thread = content_thread(itertools.islice(spoken, 2))
    lines = " ".join(line for line in personas if line.startswith(_SIDES[settings.personas]))
    persona = [lines] if lines else []
    messages: list[str] = []
    for row in rows:
        messages += [row.message] if row.message else []
        if not row.response:
            continue
        if context := (*persona, *reading.newest(messages)):
            name = f"{reading.stem(path)}:{row.number}"
            label = None
            if row.candidates:  # which end with the response in ParlAI; it may also stand before
                label = len(row.candidates) - 1 - row.candidates[::-1].index(row.response)
            yield Example(context, row.response, name, thread, "convai2", row.candidates, label)
        else:
            reading.drop("responses with nothing before them")
        messages.append(row.response)
    reading.without_reply += bool(rows) and not any(row.response for row in rows)


CONVAI2 = Corpus(
    name="convai2",
    title="ConvAI2 (PersonaChat): chat between two people who play a persona, next utterance among "
    "20.",
    reads="{train,valid}_{self,other,both,none}_{original,revised}{,_no_cands}.txt in ParlAI's "
    "format",
    licence="CC BY 4.0",
    origin="parl.ai/downloads/convai2/convai2_fix_723.tgz",
    expected="17,878 training dialogues with 131,438 examples, 1,000 validation dialogues with "
    "7,801; 20 candidates",
    read=read_convai2,
    settings=Convai2Settings,
)

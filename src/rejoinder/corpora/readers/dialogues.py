"""Research corpora of dialogues: ConvAI2, the chit-chat of students, and DSTC7."""

from __future__ import annotations

import importlib.resources
import itertools
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rejoinder.corpora.corpus import (
    BadRecordError,
    Corpus,
    Threads,
    dialogue_examples,
    json_objects,
    parse_lines,
    parse_records,
    tab_pairs,
)
from rejoinder.corpora.formats import record_examples, text_of
from rejoinder.corpora.lines import Reading, strip_compression
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import content_thread, conversation_thread
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.patterns import match_pattern

# ConvAI2 (PersonaChat): chat between two people who play a persona, in ParlAI's format
# (`FbDialogTeacher`).
#
# `N your persona: TEXT`, or `N MESSAGE<tab>RESPONSE[<tab>REWARD<tab>CANDIDATE|CANDIDATE|...]`; the
# number 1 begins a dialogue. The persona, before the history, is never cut off. See
# docs/corpora.md.

_SILENCE = "__SILENCE__"
_NUMBERED = match_pattern(r"(\d{1,9}) (.*)", re.DOTALL)
_PERSONA = match_pattern(r"(your|partner's) persona: ")
_SIDES = {
    "all": ("your", "partner's"),
    "self": ("your",),
    "other": ("partner's",),
    "none": (),
}  # of persona lines


@dataclass(frozen=True)
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
        each
        for dialogue in _dialogues(path, reading)
        for each in _convai2_examples(*dialogue, path, reading, settings)
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
    for example in held:
        yield example if example.candidates else _with_candidates(example, pool, path, settings)
    if any(not example.candidates for example in held):
        drawn = (
            f"{settings.draw} for each example were drawn from its other dialogues "
            f"(seed {settings.seed})"
        )
        advice = "so figures do not compare with published ones"
        reading.notes.append(f"{path}: no candidates in the file; {drawn}, {advice}")


def _with_candidates(
    example: Example, pool: Sequence[tuple[str, str | None]], path: Path, settings: Convai2Settings
) -> Example:
    """Draw from a pool of distinct responses, each with its thread or None for several."""
    # A text is hashed by SHA-512: the same everywhere.
    rng = random.Random(f"{settings.seed} {example.id}")
    drawn: dict[str, None] = {}
    for place in _places(rng, len(pool), 4 * settings.draw):
        response, thread = pool[place]
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
    for place, more_personas, more_rows in parse_lines(path, reading, _parse_convai2):
        if place <= last:  # it starts again at 1, or at 2 if that line was bad
            yield personas, rows
            personas = []
            rows = []
        last = place
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
    said = ["" if part == _SILENCE else part for part in parts if not _PERSONA.match(part)]
    response = fields[0] if fields else ""
    if personas and response and not said:
        raise BadRecordError("a response to a persona line; a response follows a message and a tab")
    rows = [_Row(number, message, "") for message in said[:-1]]
    if said and (said[-1] or response):
        listed = fields[2].split("|") if len(fields) > 2 and fields[2] else []
        candidates = tuple(text.strip() for text in listed)
        if candidates and response not in candidates:
            raise BadRecordError("the response is not among the candidates of its line")
        if len(candidates) == 1:
            raise BadRecordError("one candidate; ranking needs at least 2")
        rows.append(_Row(number, said[-1], response, candidates))
    return [(int(match[1]), personas, rows)]


def _convai2_examples(
    personas: list[str], rows: list[_Row], path: Path, reading: Reading, settings: Convai2Settings
) -> Iterator[Example]:
    spoken = (text for row in rows for text in (row.message, row.response) if text)
    thread = content_thread(itertools.islice(spoken, 2))
    lines = " ".join(line for line in personas if line.startswith(_SIDES[settings.personas]))
    persona = [lines] if lines else []
    said: list[str] = []
    for row in rows:
        said += [row.message] if row.message else []
        if not row.response:
            continue
        if context := (*persona, *reading.newest(said)):
            name = f"{strip_compression(path).stem}:{row.number}"
            label = None
            if row.candidates:  # which end with the response in ParlAI; it may also stand before
                label = len(row.candidates) - 1 - row.candidates[::-1].index(row.response)
            yield Example(context, row.response, name, thread, "convai2", row.candidates, label)
        else:
            reading.drop("responses with nothing before them")
        said.append(row.response)
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


# The BYU chit-chat conversations of students, from the PyPI package `chitchat-dataset` (MIT).
#
# The thread is the hash of a conversation's words, so that another corpus which carries the same
# conversations holds out the same ones (`byu_chitchat` of the pretraining corpus does).


def packaged_file() -> Path:
    """Return the file of the installed package, or raise MissingExtraError."""
    try:
        file = importlib.resources.files("chitchat_dataset") / "dataset.json"
    except ModuleNotFoundError:
        raise MissingExtraError("the corpus chitchat", "demo") from None
    return Path(str(file))


def read_chitchat(path: Path, reading: Reading, _: object = None) -> Iterator[Example]:
    """Read the examples of all conversations of the package's file."""
    # Not by the package's own reader, which assumes the encoding of the user's locale.
    conversations = json.loads(path.read_text(encoding="utf-8"))
    threads = Threads()
    for name, conversation in conversations.items():
        turns = [
            " ".join(utterance["text"] for utterance in message)
            for message in conversation["messages"]
        ]
        reading.lines += 1
        record = {"turns": turns, "thread": conversation_thread(turns)}
        yield from record_examples(record, name, "chitchat", reading, threads)


CHITCHAT = Corpus(
    name="chitchat",
    title="BYU chit-chat: 4,017 conversations of students, from the PyPI package chitchat-dataset.",
    reads="the file that the package brings; no INPUT",
    licence="MIT",
    origin="pip install chitchat-dataset (in the extra demo); https://github.com/BYU-PCCL/chitchat-dataset",
    expected="7,168 conversations, 3,151 of them of one message",
    read=read_chitchat,
    packaged=packaged_file,
)


# DSTC7 track 1 (NOESIS), sentence selection: Ubuntu support chat and student advising, as a JSON
# array of dialogues.
#
# Of training dialogues every utterance but the first is a response, without candidates (POLY,
# section 5), of others the last. Of several right answers (Advising) the first among the
# candidates is the response, and the others leave the list.

_NONE = "NONE"  # stands for the id of the right candidate where none is right (subtask 4)


@dataclass(frozen=True)
class Dstc7Settings:
    """Settings of `rejoinder data dstc7`."""

    answers: str = ""
    """File with the answers of the test set."""

    def __post_init__(self) -> None:
        if self.answers and not Path(self.answers).is_file():
            raise InputError(
                f"answers is {self.answers}, which is no file; "
                "name the file with the test set's answers"
            )


def read_dstc7(path: Path, reading: Reading, settings: Dstc7Settings) -> Iterator[Example]:
    """Yield the examples of a file, dialogue by dialogue; a fault names the dialogue's number."""
    answers = {}
    wanted = "no answer; a line is an example id, a tab and ids of candidates"
    for name, rest in tab_pairs(settings.answers, reading, wanted) if settings.answers else ():
        ids, _, text = rest.partition("\t")
        answers[name] = {each.strip(): text for each in ids.split(",")}

    def parse(number: int, record: dict[str, Any]) -> Iterator[Example]:
        try:
            yield from _dstc7_examples(record, answers, reading)
        except BadRecordError as error:
            raise BadRecordError(f"dialogue {number}: {error}") from None

    yield from parse_records(path, reading, enumerate(json_objects(path, reading), 1), parse)


def _dstc7_examples(
    record: Mapping[str, Any], known: Mapping[str, Mapping[str, str]], reading: Reading
) -> Iterator[Example]:
    name = _id(record.get("example-id"), "example-id")
    said = [
        text_of(message.get("utterance"), f"messages-so-far[{place}].utterance")
        for place, message in enumerate(_objects(record.get("messages-so-far"), "messages-so-far"))
    ]
    answers = known.get(name)
    if "options-for-correct-answers" in record:
        answers = _options(record, "options-for-correct-answers")
    if answers is None:
        raise BadRecordError(
            f"example {name} has no answer; name the file of the answers: --set answers=FILE"
        )
    answers = {each: text for each, text in answers.items() if each.upper() != _NONE}
    messages = [message for message in said if message.strip()]
    reading.blank_messages += len(said) - len(messages)
    if not messages:
        raise BadRecordError("messages-so-far is blank; it needs at least one message")
    thread = content_thread(messages[:2])
    options = _options(record, "options-for-next") if "options-for-next" in record else {}
    if (reading.part or record.get("data-split")) != "train":
        response, candidates, label = _choice(options, answers, reading)
        if response:
            yield Example(
                reading.newest(messages), response, name, thread, "dstc7", candidates, label
            )
        return
    messages += [text for text in answers.values() if text.strip()][:1]
    yield from dialogue_examples(
        messages, name=name, thread=thread, source="dstc7", reading=reading
    )


def _choice(
    options: Mapping[str, str], answers: Mapping[str, str], reading: Reading
) -> tuple[str, tuple[str, ...], int | None]:
    """Return response, candidates and its place among them; a blank response if there is none."""
    if len(options) < 2:
        raise BadRecordError(f"{len(options)} candidates in options-for-next; 2 or more are read")
    right = [each for each in answers if each in options]
    if not right or not options[right[0]].strip():
        reading.drop("dialogues without a right candidate" if not right else "blank responses")
        return "", (), None
    kept = [each for each in options if each == right[0] or each not in right]
    return options[right[0]], tuple(options[each] for each in kept), kept.index(right[0])


def _options(record: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return texts by candidate ids, in the order of the list; repeated candidates count once."""
    options: dict[str, str] = {}
    for place, option in enumerate(_objects(record[name], name)):
        each = _id(option.get("candidate-id"), f"{name}[{place}].candidate-id")
        options[each] = text_of(option.get("utterance"), f"{name}[{place}].utterance")
    return options


def _objects(value: Any, name: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise BadRecordError(f"{name} is missing or no list of objects")
    return value


def _id(value: Any, name: str) -> str:
    """Return an id as text; Ubuntu's examples and Advising's candidates have numbers."""
    if type(value) is int:
        return str(value)
    if not value:
        raise BadRecordError(f"{name} is missing or blank")
    return text_of(value, name)


DSTC7 = Corpus(
    name="dstc7",
    title="DSTC7 track 1: next utterance among 100, Ubuntu support chat and student advising.",
    reads="ubuntu_{train,dev,test}_subtask_*.json and Advising's; answers of the test sets from "
    "their .tsv",
    licence="none stated for the data; the repository of the task is MIT",
    origin="ibm.github.io/dstc-noesis/public/datasets.html; Ubuntu's files also "
    "parl.ai/downloads/dstc7/dstc7_v2.tgz",
    expected="Ubuntu subtask 1: 100,000 training, 5,000 development and 1,000 test dialogues, 100 "
    "candidates each",
    read=read_dstc7,
    settings=Dstc7Settings,
)

"""Build a pretraining corpus: read, decide, write; a folder whole or not at all.

The files are read twice: once for the table in memory (`turns`), by which is decided (`selection`), and once more to
write what stays. Memory holds the words of all messages, some 0.8 GB for three million pairs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rejoinder.corpora.dialogues import dialogue_examples
from rejoinder.corpora.example import SPLITS, Example, Split
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.pretraining.cleaning import clean, spaced_out
from rejoinder.corpora.pretraining.counts import corpus_counts, markdown
from rejoinder.corpora.pretraining.evaluation_sets import find_files, read_sets
from rejoinder.corpora.pretraining.personas import persona_of, statements, with_persona
from rejoinder.corpora.pretraining.recipe import CorpusRecipe, Source
from rejoinder.corpora.pretraining.selection import TEST, Selection, dialogue_splits, select
from rejoinder.corpora.pretraining.turns import Dialogue, TurnTable, read_dialogues
from rejoinder.corpora.splits import conversation_thread
from rejoinder.corpora.tables import ExampleWriter
from rejoinder.errors import InputError
from rejoinder.files import atomic_folder, check_replaceable

COUNTS = "counts.json"
"""The file that says what was read, kept and left out, and that a folder is a corpus."""
SHARD_ROWS = 1 << 19
"""A file of examples is closed when it has so many."""
Advance = Callable[[int], object]


def build_corpus(
    recipe: CorpusRecipe,
    folder: str | Path,
    output: str | Path,
    *,
    evaluation: str | Path | None = None,
    progress: Advance | None = None,
) -> dict[str, Any]:
    """Build a corpus.

    `output` gets `train-*.parquet` and `valid-*.parquet`, for each source `test/SOURCE/test-00000.parquet`, and the
    counts as `counts.json` and `counts.md`.

    Args:
        recipe: what is wanted.
        folder: where the sources' files are.
        output: the folder to write; an earlier corpus there is replaced when the new one is complete.
        evaluation: folder of the recipe's evaluation sets; None: leaks are looked for in the held-out tests alone.
        progress: called with the number of further bytes of the files that are read; each is read twice.

    Returns:
        The counts.

    Raises:
        InputError: a file is missing or bad, `output` holds something else, or nothing stays to train on.
    """
    output, files = Path(output), source_files(recipe, Path(folder))
    check_replaceable(output, COUNTS)
    if evaluation is not None:
        find_files(recipe.evaluation, Path(evaluation))
    table, threads, trees = read_sources(recipe, files, progress)
    evaluated = None if evaluation is None else read_sets(recipe.evaluation, Path(evaluation))
    chosen = select(table, threads, trees, recipe, evaluated)
    stays = chosen.stays(table)
    if not (stays & (chosen.split != TEST)).any():
        raise InputError(f"{folder}: nothing is left to train on; see the limits in [filters] and [leaks]")
    counts = corpus_counts(recipe, files, table, chosen, evaluated)
    with atomic_folder(output, marker=COUNTS) as part:
        _write(recipe, files, table, chosen, part, progress)
        (part / COUNTS).write_text(json.dumps(counts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        (part / "counts.md").write_text(markdown(counts), encoding="utf-8")
    return counts


def source_files(recipe: CorpusRecipe, folder: Path) -> list[Path]:
    """The file of each source.

    Raises:
        InputError: one is not there.
    """
    files = [folder / (source.file or f"{source.name}.jsonl.zst") for source in recipe.source]
    for source, file in zip(recipe.source, files, strict=True):
        if not file.is_file():
            raise InputError(
                f"{file} is not there; source {source.name} reads it. Name the folder of the files, or take the source "
                "out of the recipe"
            )
    return files


def read_sources(
    recipe: CorpusRecipe, files: list[Path], progress: Advance | None = None
) -> tuple[TurnTable, list[str], list[str]]:
    """All dialogues as a table; the thread of each by its words, and its reply tree's name."""
    table, threads, trees = TurnTable(), [], []
    for number, dialogue in _dialogues(recipe, files, progress):
        table.add(dialogue.turns, dialogue.first, number, recipe.filters)
        threads.append(conversation_thread(dialogue.turns))
        trees.append(f"{number} {dialogue.tree}")
    return table.close(), threads, trees


@dataclasses.dataclass(frozen=True)
class Found:
    """Where a corpus has a conversation.

    Attributes:
        id: its name in the file that was asked about.
        sources: of the corpus that have it; none: no source has it as a whole.
        split: the part that its examples are in. None: in no part, since no source has it, or since its own words hold
            it out and those of a dialogue that belongs to it do not.
    """

    id: str
    sources: list[str]
    split: Split | None

    @property
    def held_out(self) -> bool:
        """Whether a source has it and nobody trains or validates on it."""
        return bool(self.sources) and self.split in (None, "test")


def find_dialogues(
    recipe: CorpusRecipe, folder: str | Path, asked: str | Path, *, progress: Advance | None = None
) -> list[Found]:
    """Tell where the corpus of this recipe has each conversation of a file, by the words of the whole conversation.

    Args:
        recipe: of the corpus.
        folder: where the sources' files are: dialogues that belong together share a split, so all are read.
        asked: a file of dialogues in the sources' form, as published: it is cleaned as each source is.
        progress: called with the number of further bytes of the sources that are read.

    Raises:
        InputError: a file is missing or bad.
    """
    conversations = list(read_dialogues(Path(asked), Reading()))
    table, threads, trees = read_sources(recipe, source_files(recipe, Path(folder)), progress)
    splits = dialogue_splits(table, threads, trees, recipe)
    places: dict[tuple[tuple[str, ...], str], list[int]] = {}
    for number, (thread, source) in enumerate(zip(threads, table.source.tolist(), strict=True)):
        places.setdefault((recipe.source[source].clean, thread), []).append(number)
    found = []
    for conversation in conversations:
        numbers = []
        for cleaners in dict.fromkeys(source.clean for source in recipe.source):
            thread = conversation_thread(clean(turn, cleaners) for turn in conversation.turns)
            numbers += places.get((cleaners, thread), [])
        sources = list(dict.fromkeys(recipe.source[table.source[number]].name for number in sorted(numbers)))
        there = {splits[number] for number in numbers}
        split = next((part for part in ("train", "valid", "test") if part in there), None)
        found.append(Found(conversation.name, sources, split))
    return found


def _dialogues(
    recipe: CorpusRecipe, files: list[Path], progress: Advance | None
) -> Iterator[tuple[int, Dialogue]]:
    for number, (source, file) in enumerate(zip(recipe.source, files, strict=True)):
        pattern = re.compile(source.only)
        for dialogue in read_dialogues(file, Reading(on_bytes=progress), source.clean):
            if pattern.search(dialogue.name):
                yield number, dialogue


def _write(
    recipe: CorpusRecipe, files: list[Path], table: TurnTable, chosen: Selection, folder: Path, progress: Advance | None
) -> None:
    """Read the files again and write what stays."""
    stays = chosen.stays(table)
    row = count = 0
    with contextlib.ExitStack() as stack:
        writers = _Writers(folder, stack)
        for number, dialogue in _dialogues(recipe, files, progress):
            rows = slice(row, row + len(dialogue.turns))
            row, count = rows.stop, count + 1
            if row > len(stays) or table.rows[count] != row:
                raise InputError(f"{files[number]} changed while it was read; leave it alone and build again")
            if stays[rows].any():
                thread = chosen.threads[count - 1]
                source, held_out = recipe.source[number], chosen.split[rows.start] == TEST
                changed = _Changes(recipe, source, thread, [] if held_out else dialogue.turns)
                for example, place in _examples(dialogue, source, thread, recipe.history):
                    if stays[rows.start + place]:
                        written = example if held_out else changed(example, place)
                        writers.add(SPLITS[chosen.split[rows.start + place]], written)


def _examples(dialogue: Dialogue, source: Source, thread: str, history: int) -> Iterator[tuple[Example, int]]:
    """The examples of a dialogue, each with the place of its response."""
    reading = Reading(history=history)
    examples = dialogue_examples(
        dialogue.turns, name=dialogue.name, thread=thread, source=source.name, first=dialogue.first, reading=reading
    )
    return zip(examples, np.arange(max(1, dialogue.first), len(dialogue.turns)).tolist(), strict=True)


class _Writers:
    """The files of a corpus, opened as they are needed."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._writers: dict[str, ExampleWriter] = {}
        self._shards: dict[str, int] = {}

    def add(self, split: str, example: Example) -> None:
        key = f"test/{example.source}/test" if split == "test" else split
        writer = self._writers.get(key)
        if writer is None or writer.count >= SHARD_ROWS:
            shard = self._shards[key] = self._shards.get(key, -1) + 1
            path = self._folder / f"{key}-{shard:05}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            writer = self._writers[key] = self._stack.enter_context(ExampleWriter(path))
        writer.add(example)


class _Changes:
    """What training and validation examples of a dialogue get: spaces before marks, and personas.

    Both are drawn by a hash of the thread and the seed, so that one does not depend on the other.
    """

    def __init__(self, recipe: CorpusRecipe, source: Source, thread: str, turns: list[str]) -> None:
        self._seed = f"{recipe.seed} {{}} {thread}"
        digest = hashlib.sha256(self._seed.format("spaced").encode()).digest()
        self._spaced = int.from_bytes(digest[:4], "big") < recipe.spaced * 2**32
        self._personas = recipe.personas if source.alternating else 0.0
        self._said = statements(turns) if self._personas else []

    def __call__(self, example: Example, place: int) -> Example:
        """The example whose response is at `place` of the dialogue."""
        changed = _spaced(example) if self._spaced else example
        if not self._said:
            return changed
        rng = self._rng(f"persona {place}")
        persona = persona_of(place, example.response, self._said, rng) if rng.random() < self._personas else ""
        return with_persona(changed, persona)

    def _rng(self, what: str) -> random.Random:
        return random.Random(self._seed.format(what))  # a text is hashed by SHA-512: the same everywhere


def _spaced(example: Example) -> Example:
    context = tuple(spaced_out(message) for message in example.context)
    return dataclasses.replace(example, context=context, response=spaced_out(example.response))

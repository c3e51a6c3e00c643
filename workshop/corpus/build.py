"""Build a pretraining corpus: read, decide, write; a folder whole or not at all.

The files are read twice: for the hashes in memory, by which `selection` decides, and to write what
stays.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rejoinder import __version__
from rejoinder.corpora.dialogues import Threads, dialogue_examples
from rejoinder.corpora.forms.formats import spoken_turns, text_of
from rejoinder.corpora.lines import Reading, strip_compression
from rejoinder.corpora.parquet import ExampleWriter
from rejoinder.corpora.records import parse_lines, parse_object
from rejoinder.corpora.registry.sources import CORPORA, read_settings
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import SPLITS, conversation_thread
from rejoinder.digests import file_digest
from rejoinder.errors import InputError
from rejoinder.files import atomic_folder
from rejoinder.folder_kinds import Kind, check_replaceable
from rejoinder.json_parsing import parse_json
from rejoinder.progress import Advance
from workshop.corpus.messages import clean, persona_of, spaced_out, statements
from workshop.corpus.plan import CorpusPlan, Evaluation
from workshop.corpus.selection import REASONS, TEST, Mask, Selection, TurnTable, select

FORMAT = "rejoinder corpus 1"
# the file that says what was read, kept and left out, and that a folder is a corpus
COUNTS = "counts.json"
FOLDER = Kind(
    "a corpus",
    COUNTS,
    lambda counts: counts["format"] == FORMAT,
    (
        COUNTS,
        "counts.md",
        "train-*.parquet",
        "valid-*.parquet",
        "test/*/test-*.parquet",
        "transfer/*/valid-*.parquet",
    ),
)
SHARD_ROWS = 1 << 19  # most examples of a file


def build_corpus(
    plan: CorpusPlan,
    folder: str | Path,
    output: str | Path,
    *,
    evaluation: str | Path | None = None,
    progress: Advance | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Build a corpus: Parquet files of each part, and counts.

    They are `train-*.parquet`, `valid-*.parquet`, `test/SOURCE/test-*.parquet`, `counts.json` and
    `counts.md`. Of transfer sources there is `transfer/SOURCE/valid-*.parquet` instead of a test.
    The sources' files are in `folder`, and the plan's evaluation sets in `evaluation`; without
    that, leaks are looked for in the held-out tests alone. Returns the counts. InputError: a file
    is missing or bad, `output` holds something else, or nothing stays.
    """
    output = Path(output)
    files = source_files(plan, Path(folder))
    check_replaceable(output, FOLDER, overwrite=overwrite)
    if evaluation is not None:
        _check_evaluation(plan.evaluation, Path(evaluation))
    table = TurnTable(plan.leaks.gram, plan.filters)
    for number, dialogue in _dialogues(plan, files, progress):
        thread = conversation_thread(dialogue.turns)
        table.add(dialogue.turns, dialogue.first, number, thread, f"{number} {dialogue.tree}")
    table.close()
    evaluated = () if evaluation is None else _read_evaluation(plan, Path(evaluation))
    chosen = select(table, plan, evaluated)
    if not (chosen.stays(table) & (chosen.split != TEST)).any():
        raise InputError(
            f"{folder}: nothing is left to train on; see the limits in [filters] and [leaks]"
        )
    counts = _counts(plan, files, table, chosen, evaluated)
    with atomic_folder(output, FOLDER, overwrite=overwrite) as part:
        _write(plan, files, table, chosen, part, progress)
        (part / COUNTS).write_text(
            json.dumps(counts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        (part / "counts.md").write_text(markdown(counts), encoding="utf-8")
    return counts


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A line of a file: its turns, none blank, and the first one that is a new response."""

    name: str
    turns: list[str]
    first: int = 1
    tree: str = ""  # lines that are branches of one reply tree have the same


def read_dialogues(
    path: Path, reading: Reading, cleaners: Sequence[str] = ()
) -> Iterator[Dialogue]:
    """Read a file of dialogues, one JSON object a line.

    Messages that are blank once cleaned were not said.
    """
    threads = Threads()
    stem = strip_compression(path).stem

    def parse(number: int, line: str) -> list[Dialogue]:
        record = parse_object(line)
        turns, first = spoken_turns(record)
        if cleaners:
            cleaned = [clean(turn, cleaners) for turn in turns]
            turns, first = spoken_turns({"turns": cleaned, "from": min(first, max(1, len(turns)))})
        name = text_of(record.get("id") or f"{stem}:{number}", "id")
        reading.without_reply += len(turns) <= first
        return [Dialogue(name, turns, first, threads.find(turns, first))]

    return parse_lines(path, reading, parse)


def source_files(plan: CorpusPlan, folder: Path) -> list[Path]:
    """Return the file of each source; InputError if one is not there."""
    files = [folder / (source.file or f"{source.name}.jsonl.zst") for source in plan.source]
    if missing := next((file for file in files if not file.is_file()), None):
        raise InputError(
            f"{missing} is not there;"
            " name the folder of the files, or take the source out of the recipe"
        )
    return files


def _dialogues(
    plan: CorpusPlan, files: list[Path], progress: Advance | None
) -> Iterator[tuple[int, Dialogue]]:
    for number, (source, file) in enumerate(zip(plan.source, files, strict=True)):
        for dialogue in read_dialogues(file, Reading(on_bytes=progress), source.clean):
            if source.only in dialogue.name:
                yield number, dialogue


def _check_evaluation(sets: Sequence[Evaluation], folder: Path) -> None:
    readers = ["texts", *(name for name, corpus in CORPORA.items() if corpus.read is not None)]
    for each in sets:
        if each.reader not in readers:
            raise InputError(
                f"evaluation set {each.name}: no reader {each.reader!r};"
                f" there are {', '.join(readers)}"
            )
        if missing := next(
            (folder / name for name in each.files if not (folder / name).is_file()), None
        ):
            raise InputError(
                f"evaluation set {each.name}: {missing} is not there;"
                " check the folder of evaluation sets"
            )


def _read_evaluation(plan: CorpusPlan, folder: Path) -> tuple[TurnTable, TurnTable]:
    """Return the pairs and the single texts of all sets.

    Each set's place is the source of its dialogues.
    """
    pairs = TurnTable(plan.leaks.gram)
    texts = TurnTable(plan.leaks.gram)
    for number, each in enumerate(plan.evaluation):
        corpus = CORPORA.get(each.reader)
        for name in each.files:
            if corpus is None or corpus.read is None:
                for text in _texts(folder / name):
                    texts.add([text], 1, number)
                continue
            for example in corpus.read(
                folder / name, Reading(history=0), read_settings(corpus, each.settings)
            ):
                pairs.add((example.context[-1], example.response), 1, number)
    return pairs.close(), texts.close()


def _texts(file: Path) -> list[str]:
    try:
        if file.suffix == ".csv":
            with file.open(encoding="utf-8", newline="") as opened:
                return [row[0] for row in list(csv.reader(opened))[1:] if row]
        if file.suffix == ".json":
            return [
                str(text)
                for part in parse_json(file.read_text(encoding="utf-8")).values()
                for text, _ in part
            ]
        return file.read_text(encoding="utf-8").splitlines()
    except (ValueError, AttributeError, TypeError) as error:  # UnicodeDecodeError is a ValueError
        raise InputError(
            f"{file}: not a file of texts ({error}); see [[evaluation]] in workshop/corpus.md"
        ) from None


def _write(
    plan: CorpusPlan,
    files: list[Path],
    table: TurnTable,
    chosen: Selection,
    folder: Path,
    progress: Advance | None,
) -> None:
    """Read the files again and write what stays."""
    stays = chosen.stays(table)
    last = 0
    transfer = {source.name for source in plan.source if source.transfer}
    files_of: dict[str, list[ExampleWriter]] = {}
    with contextlib.ExitStack() as stack:

        def add(split: str, example: Example) -> None:
            key = split
            if split == "test":
                name = example.source
                key = f"transfer/{name}/valid" if name in transfer else f"test/{name}/test"
            writers = files_of.setdefault(key, [])
            if not writers or writers[-1].count >= SHARD_ROWS:
                path = folder / f"{key}-{len(writers):05}.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                writers.append(stack.enter_context(ExampleWriter(path)))
            writers[-1].add(example)

        for count, (number, dialogue) in enumerate(_dialogues(plan, files, progress)):
            start = last
            last = last + len(dialogue.turns)
            if last > len(stays) or table.rows[count + 1] != last:
                raise InputError(
                    f"{files[number]} changed while it was read; leave it alone and build again"
                )
            if not stays[start:last].any():
                continue
            source = plan.source[number]
            thread = chosen.threads[count]
            said = statements(dialogue.turns) if source.alternating and plan.personas else []
            reading = Reading(history=plan.history)
            first = dialogue.first
            examples = dialogue_examples(
                dialogue.turns,
                name=dialogue.name,
                thread=thread,
                source=source.name,
                reading=reading,
                first=first,
            )
            for place, example in enumerate(examples, max(1, dialogue.first)):
                if stays[start + place]:
                    split = SPLITS[chosen.split[start + place]]
                    add(split, example if split == "test" else _altered(example, place, said, plan))


def _altered(
    example: Example, place: int, said: list[tuple[int, str]], plan: CorpusPlan
) -> Example:
    """Give a training example a persona, and spaces before marks.

    Each is drawn by a hash of thread and seed.
    """
    context = example.context
    response = example.response
    persona = ""
    if said:
        rng = random.Random(f"{plan.seed} persona {place} {example.thread}")
        persona = persona_of(place, response, said, rng) if rng.random() < plan.personas else ""
    digest = hashlib.sha256(f"{plan.seed} spaced {example.thread}".encode()).digest()
    if int.from_bytes(digest[:4], "big") < plan.spaced * 2**32:
        context = tuple(map(spaced_out, context))
        response = spaced_out(response)
    return replace(example, context=(persona, *context) if persona else context, response=response)


def _counts(
    plan: CorpusPlan,
    files: list[Path],
    table: TurnTable,
    chosen: Selection,
    evaluated: Sequence[TurnTable],
) -> dict[str, Any]:
    """Count everything. For each source and split: pairs = kept + all that is left out."""
    sources = {}
    for number, (source, file) in enumerate(zip(plan.source, files, strict=True)):
        mine = table.source == number
        sources[source.name] = {
            "licence": source.licence,
            "sha256": file_digest(file),
            "dialogues": int(mine.sum()),
            **_split_counts(table, chosen, mine[table.dialogue]),
        }
    sets = None
    if evaluated:
        pairs, texts = (
            np.bincount(each.source, minlength=len(plan.evaluation)).tolist() for each in evaluated
        )
        sets = {
            each.name: {"pairs": pairs[n], "texts": texts[n]}
            for n, each in enumerate(plan.evaluation)
        }
    names = [*(source.name for source in plan.source), *(each.name for each in plan.evaluation)]
    leaks = zip(names, chosen.leaks.tolist(), strict=True)
    return {
        "format": FORMAT,
        "version": __version__,
        "recipe": asdict(plan),
        "sources": sources,
        "total": _split_counts(table, chosen, np.ones(len(table.counts), dtype=bool)),
        "evaluation": sets,
        "leaks": {
            name: {"equal": equal, "near": near} for name, (equal, near) in leaks if equal or near
        },
    }


def _split_counts(table: TurnTable, chosen: Selection, rows: Mask) -> dict[str, Any]:
    pairs = rows & table.pair
    found: dict[str, Any] = {"pairs": int(pairs.sum())}
    for number, split in enumerate(SPLITS):
        here = pairs & (chosen.split == number)
        by_reason = np.bincount(chosen.reason[here], minlength=len(REASONS))
        found[split] = {
            "pairs": int(here.sum()),
            "kept": int(by_reason[0]),
            "dropped": {
                REASONS[reason]: int(count)
                for reason, count in enumerate(by_reason)
                if reason and count
            },
            "response words": int(table.counts[here & (chosen.reason == 0)].sum()),
        }
    return found


def markdown(counts: Mapping[str, Any]) -> str:
    """Return the counts as tables for a model card."""

    def cells(source: Mapping[str, Any]) -> str:
        kept = " | ".join(f"{source[split]['kept']:,}" for split in SPLITS)
        dropped = sorted(source["train"]["dropped"].items(), key=lambda item: -item[1])
        return (
            f"{source['pairs']:,} | {kept} |"
            f" {', '.join(f'{count:,} {reason}' for reason, count in dropped)}"
        )

    lines = [
        (
            "| source | licence | dialogues | pairs | training | validation | test | left out"
            " of training |"
        )
    ]
    lines.append("|---|---|--:|--:|--:|--:|--:|---|")
    for name, source in counts["sources"].items():
        lines.append(
            f"| {name} | {source['licence']} | {source['dialogues']:,} | {cells(source)} |"
        )
    dialogues = sum(source["dialogues"] for source in counts["sources"].values())
    lines.append(f"| **all** | | {dialogues:,} | {cells(counts['total'])} |")
    lines += [
        "",
        "| evaluated set | equal pairs left out of training | near-duplicates left out |",
        "|---|--:|--:|",
    ]
    for name in dict.fromkeys([*counts["sources"], *(counts["evaluation"] or {})]):
        found = counts["leaks"].get(name, {"equal": 0, "near": 0})
        shown = f"{name} (test)" if name in counts["sources"] else name
        lines.append(f"| {shown} | {found['equal']:,} | {found['near']:,} |")
    if counts["evaluation"] is None and counts["recipe"]["evaluation"]:
        lines += [
            "",
            "Not compared with the evaluation sets of the recipe, only with the held-out tests.",
        ]
    return "\n".join(lines) + "\n"

"""Arguments of the verbs: their options, and the models, indexes and replies that they name.

See `encoders.open` for the names of models. Models note how many texts they truncated.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from rejoinder.errors import InputError
from rejoinder.progress import Advance, note, track

if TYPE_CHECKING:
    from rejoinder.cluster import RayEngine
    from rejoinder.corpora.lines import Reading
    from rejoinder.corpora.schema import Candidate, Example
    from rejoinder.corpora.tables import Choice
    from rejoinder.encoders.protocol import Ranker
    from rejoinder.evaluation.report import ContextReading
    from rejoinder.retrieval.index import Index
    from rejoinder.retrieval.stores import Store

Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Overwrite: TypeAlias = Annotated[
    bool, typer.Option("--overwrite", help="Replace an earlier result.")
]
Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; repeatable."),
]
Split: TypeAlias = Literal["train", "valid", "test"]
TestSplit: TypeAlias = Annotated[
    Split | None,
    typer.Option("--split", help="Split to use. Default: `test` of a data folder, all of a file."),
]
Limit: TypeAlias = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Use at most N random examples.")
]
Processes: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Worker processes. Default: one per core, fewer for small inputs."
    ),
]
Ray: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="auto|HOST:PORT|ray://HOST:PORT",
        help="Ray cluster to work on; auto: RAY_ADDRESS, or this machine's. Default: no cluster.",
    ),
]
DeviceName: TypeAlias = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="auto|cpu|cuda[:N]|mps",
        help="Where to compute; auto: a CUDA card if there is one.",
    ),
]
IndexFolder: TypeAlias = Annotated[
    Path, typer.Argument(metavar="INDEX", help="A folder that `rejoinder index build` wrote.")
]
RankerName: TypeAlias = Annotated[
    str | None, typer.Option(metavar="MODEL", help="Model to re-rank the 50 best replies with.")
]
Threshold: TypeAlias = Annotated[
    float | None,
    typer.Option(metavar="SCORE", help="Minimum score, as `reply` shows it."),
]
MinConfidence: TypeAlias = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        metavar="P",
        help="Minimum probability that the best reply is right; see `calibrate`.",
    ),
]
Earlier: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--context",
        metavar="N",
        min=0,
        help="Number of earlier messages to use. Default: only those on the same subject.",
    ),
]
Omitted: TypeAlias = Literal["copies", "repeats", "both", "nothing"]
Omit: TypeAlias = Annotated[
    Omitted,
    typer.Option(
        help="Omit near-duplicates of better replies, repeats of earlier messages, or both."
    ),
]
Filter: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="FIELD=VALUE,...",
        help="Only replies with one of the values in the field; repeatable.",
    ),
]
Hybrid: TypeAlias = Annotated[
    float,
    typer.Option(
        min=0, metavar="W", help="Weight of BM25, added to each score (for example 0.02)."
    ),
]
Host: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS", help="Address to listen on; other machines need a key or secret."
    ),
]


def number_or_all(least: int) -> Callable[[str], int | None]:
    """Return a parser of options: a number from `least` on, or "all" (None)."""

    def number(text: str) -> int | None:
        text = str(text)
        if text == "all":
            return None
        if text.isascii() and text.isdecimal() and len(text) < 10 and int(text) >= least:
            return int(text)
        raise typer.BadParameter(
            f"it must be a number of {least} or more, or all, not {text[:40]!r}"
        )

    return number


_HISTORY = typer.Option(
    parser=number_or_all(0), metavar="N|all", help="Earlier messages to keep in a context."
)
History: TypeAlias = Annotated[int | None, _HISTORY]


def check_processes(ray: str | None, processes: int | None) -> None:
    """Refuse a number of processes beside a Ray cluster."""
    if ray is not None and processes is not None:
        raise InputError(
            "--processes is for this machine; a Ray cluster uses the CPUs that its nodes offer"
        )


def ray_engine(address: str, output: Path, files: Iterable[Path]) -> RayEngine:
    """Return the engine of a Ray cluster.

    Its nodes must see the input files and the folder in which `output` lies.
    """
    from rejoinder.cluster import RayEngine

    files = list(files)
    if pipes := [file for file in files if not file.is_file()]:
        raise InputError(f"{pipes[0]} is no file on a disk; the nodes of a cluster cannot read it")
    return RayEngine(address, folders=[Path(os.path.realpath(output)).parent], files=files)


# --- Models and indexes ---------------------------------------------------------------------------

# examples per call, except for BM25, whose scores depend on all candidates of a call
ENCODER_BLOCK = 5000
EXAMPLES = 10_000  # drawn at random to choose or fit one number or a few


class Rankers:
    """Opens and fits rankers (fulfils `lab.measurement.Rankers`)."""

    def __init__(self, device: str = "cpu") -> None:
        from rejoinder.lab.rankers import LabOpener

        self._opener = LabOpener(device)

    def open(
        self, name: str, training: Callable[[], Sequence[Example]]
    ) -> tuple[Ranker, dict[str, Any] | None]:
        """See `lab.measurement.Rankers`."""
        ranker = self.ranker(name)
        return ranker, fit_ranker(name, ranker, training)

    def identity(self, name: str) -> str:
        """See `lab.measurement.Rankers`."""
        from rejoinder.encoders.open import identity

        return identity(name)

    def block_size(self, name: str) -> int | None:
        """See `lab.measurement.Rankers`."""
        from rejoinder.encoders.open import HYBRID

        return None if name == "bm25" or name.startswith(HYBRID) else ENCODER_BLOCK

    def ranker(self, name: str) -> Ranker:
        """Open a ranker by its name."""
        return self._opener.open(name)

    def report_truncated(self) -> None:
        """Note how many messages the models have truncated."""
        for model in self._opener.opened:
            report_truncated(model, "messages")


def report_truncated(model: Any, what: str) -> None:
    """Note how many of `what` a model has truncated, copies counted once."""
    from rejoinder.encoders.conversation import TruncationCounter

    if isinstance(model, TruncationCounter) and model.truncated:
        count = len(model.truncated)
        verb = "is" if count == 1 else "are"
        length = model.message_length
        tokenizer = model.tokenizer
        name = os.path.normpath(model.name)
        note(
            f"{count:,} of the {what} {verb} longer"
            f" than the {length} {tokenizer.unit} that {name} reads: the {tokenizer.cut} is cut"
        )


def read_training(
    rankers: Mapping[str, Ranker],
    path: Path,
    split: Split | None,
    cut: ContextReading,
    fit_on: Path | None,
) -> list[Example]:
    """Read the examples that learning rankers are fitted to.

    They come from `fit_on` or the training part of `path`.
    """
    from rejoinder.encoders.protocol import FittedRanker
    from rejoinder.evaluation.tasks import ranked_part, training_examples

    if not (
        names := [name for name, ranker in rankers.items() if isinstance(ranker, FittedRanker)]
    ):
        return []
    with track(f"Reading {fit_on or path} for {', '.join(names)}", unit="examples") as advance:
        found = training_examples(fit_on or path, path, ranked_part(path, split), progress=advance)
    return [replace(example, context=tuple(cut.cut(example.context))) for example in found]


def read_sample(path: Path, advance: Advance) -> list[Example]:
    """Draw `EXAMPLES` from a file, or from the split `valid` of a data folder."""
    from rejoinder.corpora.examples import read_examples
    from rejoinder.evaluation.tasks import sample

    part = read_examples(path, "valid" if path.is_dir() else None)
    return sample(part, EXAMPLES, progress=advance)


def fit_ranker(
    name: str, ranker: Ranker, training: Callable[[], Sequence[Example]]
) -> dict[str, Any] | None:
    """Fit a ranker that learns; show and return what it learned, None for one that does not."""
    from rejoinder.encoders.protocol import FittedRanker

    if not isinstance(ranker, FittedRanker):
        return None
    examples = training()
    with track(f"Fitting {name}", total=2 * len(examples), unit="texts") as advance:
        learned = dict(ranker.fit(examples, advance))
    shown = [f"{key} {_short(value)}" for key, value in learned.items() if key != "curves"]
    note(f"{name}: {', '.join(shown)}")
    return learned


def _short(value: object) -> str:
    return (
        f"{value:.4g}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


def named_model() -> str | None:
    """Return the model in the environment, by which an index or a classifier is opened."""
    from rejoinder.retrieval.manifest import MODEL

    return os.environ.get(MODEL) or None


def open_index(folder: Path, *, light: bool = False, device: str = "cpu") -> Index | Store:
    """Open an index with the model in the environment, or with the one that it names.

    `light` and `device` are `encoders.open.load`'s.
    """
    from rejoinder.encoders.conversation import track_truncation
    from rejoinder.encoders.open import open_encoder
    from rejoinder.retrieval import stores

    index = stores.open_index(folder)
    model = named_model() or index.manifest.model.locate(folder)
    index.use(track_truncation(open_encoder(model, light=light, device=device)))
    return index


# --- Files of replies -----------------------------------------------------------------------------

SHOWN = 5  # replies of a survey, and questions of each
ReplyForm: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="format=NAME (of `rejoinder formats`; for tables also"
        " table,encoding=cp1252,delimiter=semicolon,header=no), columns=text=NAME,questions=NAME."
        " Default: detected.",
    ),
]
DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Show what the file holds without writing anything.")
]


@dataclass(frozen=True)
class ReplySettings:
    """Settings of a file of replies, as those of exported chats."""

    format: str = ""
    columns: str = ""
    inactive: str = ""


def parse_settings(settings: Sequence[str] | None) -> Choice:
    """Return the choices of `--set`: format, columns, inactive=keep."""
    from rejoinder.corpora.tables import parse_choice
    from rejoinder.settings import parse_setting, text_fields, validate

    texts = text_fields(ReplySettings)
    values = dict(parse_setting(text, "name=value", texts) for text in settings or ())
    chosen = validate(ReplySettings, values, "settings of replies")
    return parse_choice(chosen.format, chosen.columns, chosen.inactive)


MOST_KEPT = 100_000  # replies that are kept from their counting to their encoding


@dataclass
class ReplyFile:
    """Replies that are checked and counted before they are encoded.

    A large file is read twice.
    """

    path: Path
    split: Split | None
    limit: int | None
    deduplicate: bool
    choice: Choice
    _counted: list[Candidate] | None = field(default=None, init=False, repr=False)

    def read(
        self, known: Sequence[str] = (), reading: Reading | None = None
    ) -> Iterator[Candidate]:
        """Yield the replies; on request without duplicates of each other or of known ones."""
        from rejoinder.corpora.recognition import distinct, read_candidates

        if reading is None and self._counted is not None:
            return iter(self._counted)
        replies = read_candidates(self.path, self.split, self.choice, reading)
        return itertools.islice(
            distinct(replies, known) if self.deduplicate else replies, self.limit
        )

    def total(self, known: Sequence[str] = ()) -> int:
        """Return the number of replies; print how the file was understood."""
        from rejoinder.corpora.lines import Reading

        total = 0
        reading = Reading()
        counted: list[Candidate] = []
        with track(f"Reading {self.path}", unit="replies") as advance:
            for total, candidate in enumerate(self.read(known, reading), 1):
                advance(1)
                if total <= MOST_KEPT:
                    counted.append(candidate)
        if total <= MOST_KEPT:
            self._counted = counted
        for text in (*reading.notes, *_left_out(reading.dropped)):
            note(text)
        if not total and not known:
            raise InputError(f"{self.path} holds no replies; each line of it should be one")
        return total

    def survey(self) -> dict[str, Any]:
        """Return what the file holds: how it was understood, numbers, and the first few replies."""
        from rejoinder.corpora.lines import Reading

        reading = Reading()
        shown: list[Candidate] = []
        replies = 0
        questions = 0
        for candidate in self.read(reading=reading):
            replies += 1
            questions += len(candidate.examples)
            if len(shown) < SHOWN:
                shown.append(candidate)
        if not replies:
            raise InputError(f"{self.path} holds no replies; each line of it should be one")
        return {
            "file": str(self.path),
            "notes": reading.notes,
            "replies": replies,
            "questions": questions,
            "dropped": reading.dropped,
            "shown": [asdict(candidate) for candidate in shown],
        }


def _left_out(dropped: Mapping[str, int]) -> list[str]:
    return [f"left out: {count:,} {reason}" for reason, count in dropped.items()]


def survey_text(result: Mapping[str, Any]) -> str:
    """Return a survey for people."""
    lines = [*result["notes"], f"{result['replies']:,} replies, {result['questions']:,} questions"]
    lines += _left_out(result["dropped"])
    for reply in result["shown"]:
        lines += ["", *([f"# {reply['title']}"] if reply["title"] else [])]
        lines += [f"? {' / '.join(messages)}" for messages in reply["examples"][:SHOWN]]
        more = len(reply["examples"]) - SHOWN
        lines += [f"? and {more:,} more"] if more > 0 else []
        lines.append(f"> {reply['text']}")
        if reply["payload"]:
            lines.append(f"  {json.dumps(reply['payload'], ensure_ascii=False, default=str)[:300]}")
    return "\n".join(
        [*lines, "", "nothing was written; -o INDEX instead of --dry-run builds the index"]
    )

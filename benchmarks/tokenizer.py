"""Rejoinder's subwords beside the WordPiece of the `tokenizers` library.

Encoding and building are timed with one thread each. Both programs get a vocabulary of the same
size, built from the same chit-chat messages, and encode the same texts. Their passes alternate, so
that a busy machine slows both. WordPiece is timed until its encodings are there, ours until the ids
are one array; what it takes to bring WordPiece's ids into one array too is a row of its own.

    python benchmarks/tokenizer.py
"""

from __future__ import annotations

import argparse
import os

# The library reads both before its first batch.
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import chitchat_dataset
import numpy as np
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.trainers import WordPieceTrainer

from common import write_result
from rejoinder.text.subwords import Subwords
from rejoinder.text.vocabulary_building import build_subwords

TYPOGRAPHY = str.maketrans({"'": "\u2019", '"': "\u201d"})
COLD, WARM = "Rejoinder, empty cache", "Rejoinder, cache filled by other texts"
FULL, FAST, FLAT = (
    "WordPiece encode_batch",
    "WordPiece encode_batch_fast",
    "WordPiece encode_batch_fast, ids in one array",
)


def main() -> None:
    """Build, encode, print a table, write `results/tokenizer.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=16_000, help="wanted number of subwords")
    parser.add_argument("--texts", type=int, default=10_000, help="number of messages to encode")
    parser.add_argument("--repetitions", type=int, default=7, help="passes of each program")
    options = parser.parse_args()
    messages = list(chitchat_dataset.MessageDataset())
    ours, theirs, building = build(messages, options.size)
    # Far apart in the corpus: the cache may know the language of the texts, but not the texts.
    texts, others = messages[: options.texts], messages[-options.texts :]
    encoding = {
        "chit-chat": encode(ours, theirs, texts, others, options.repetitions),
        "chit-chat, typographic quotes": encode(
            ours,
            theirs,
            [text.translate(TYPOGRAPHY) for text in texts],
            [text.translate(TYPOGRAPHY) for text in others],
            options.repetitions,
        ),
    }
    single = one_by_one(ours, theirs, texts[:2000])
    show(encoding, building, single)
    written = write_result(
        "tokenizer",
        {
            "tokenizers": version("tokenizers"),
            "numpy": version("numpy"),
            "chitchat-dataset": version("chitchat-dataset"),
            "threads": 1,
            "vocabulary": {"rejoinder": ours.size, "wordpiece": theirs.get_vocab_size()},
            "messages": {"built from": len(messages), "encoded": len(texts)},
            "repetitions": options.repetitions,
            "encoding": encoding,
            "building_seconds": building,
            "one_message_microseconds": single,
        },
    )
    print(f"written to benchmarks/results/{written.name}")


def build(messages: list[str], size: int) -> tuple[Subwords, Tokenizer, dict[str, float]]:
    """Build both vocabularies, WordPiece's as large as ours came out, and time it."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        # the size is only near: both get the one that came out
        warnings.simplefilter("ignore", UserWarning)
        ours = build_subwords(messages, target_size=size)
    searched = time.perf_counter()
    build_subwords(messages, minimum_count=10)
    built = time.perf_counter()
    theirs = Tokenizer(WordPiece(unk_token="[UNK]"))
    theirs.normalizer = BertNormalizer(lowercase=True)
    theirs.pre_tokenizer = BertPreTokenizer()
    trainer = WordPieceTrainer(vocab_size=ours.size, special_tokens=["[UNK]"], show_progress=False)
    theirs.train_from_iterator(messages, trainer)
    return (
        ours,
        theirs,
        {
            "Rejoinder, minimum count searched": searched - start,
            "Rejoinder, minimum count given": built - searched,
            "WordPiece": time.perf_counter() - built,
        },
    )


def encode(
    ours: Subwords, theirs: Tokenizer, texts: list[str], others: list[str], repetitions: int
) -> dict[str, dict[str, float]]:
    """Time the passes in turns.

    Of each program return median seconds, rates, and times as fast as the fastest WordPiece.
    """
    seconds: dict[str, list[float]] = {name: [] for name in (COLD, WARM, FULL, FAST, FLAT)}
    for _ in range(repetitions):
        fresh = Subwords(ours.subwords, ours.buckets)
        seconds[COLD].append(timed(lambda: fresh.encode_ragged(texts)))  # noqa: B023
        warm = Subwords(ours.subwords, ours.buckets)
        warm.encode_ragged(others)
        seconds[WARM].append(timed(lambda: warm.encode_ragged(texts)))  # noqa: B023
        seconds[FULL].append(timed(lambda: theirs.encode_batch(texts)))
        seconds[FAST].append(timed(lambda: theirs.encode_batch_fast(texts)))
        seconds[FLAT].append(
            timed(lambda: np.concatenate([e.ids for e in theirs.encode_batch_fast(texts)]))
        )
    counts = {"Rejoinder": len(ours.encode_ragged(texts)[0])}
    counts["WordPiece"] = sum(len(encoding.ids) for encoding in theirs.encode_batch_fast(texts))
    return {name: figures(name, seconds, counts, len(texts)) for name in seconds}


def figures(
    name: str, seconds: dict[str, list[float]], counts: dict[str, int], texts: int
) -> dict[str, float]:
    """The figures of one program.

    Its speed is compared within each repetition, with whichever WordPiece was faster.
    """
    median = statistics.median(seconds[name])
    fastest = map(min, seconds[FULL], seconds[FAST])
    ratios = [theirs / ours for theirs, ours in zip(fastest, seconds[name], strict=True)]
    return {
        "seconds": median,
        "messages_per_second": texts / median,
        "ids": counts[name[: len("Rejoinder")]],
        "ids_per_second": counts[name[: len("Rejoinder")]] / median,
        "times_as_fast": statistics.median(ratios),
        "times_as_fast_at_worst": min(ratios),
    }


def one_by_one(ours: Subwords, theirs: Tokenizer, texts: Sequence[str]) -> dict[str, float]:
    """Median microseconds for one message alone."""
    programs: dict[str, Callable[[str], Any]] = {
        "Rejoinder": ours.encode,
        "WordPiece": theirs.encode,
    }
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for text in texts:
        for name, program in programs.items():
            seconds[name].append(timed(lambda: program(text)))  # noqa: B023
    return {name: 1e6 * statistics.median(values) for name, values in seconds.items()}


def timed(work: Callable[[], object]) -> float:
    """Seconds that the work takes; what it returns is freed outside of them."""
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    del result
    return seconds


def show(
    encoding: dict[str, dict[str, dict[str, float]]],
    building: dict[str, float],
    single: dict[str, float],
) -> None:
    """Print the figures as tables."""
    console = Console()
    for title, rows in encoding.items():
        table = Table(
            "program", "messages/s", "ids/s", "times as fast", "at worst", title=f"encoding {title}"
        )
        for name, row in rows.items():
            rates = (f"{row['messages_per_second']:,.0f}", f"{row['ids_per_second']:,.0f}")
            table.add_row(
                name, *rates, f"{row['times_as_fast']:.2f}", f"{row['times_as_fast_at_worst']:.2f}"
            )
        console.print(table)
    for title, figures_, unit in (
        ("building", building, "s"),
        ("one message alone", single, "\u00b5s"),
    ):
        table = Table("program", unit, title=title)
        for name, value in figures_.items():
            table.add_row(name, f"{value:,.1f}")
        console.print(table)


if __name__ == "__main__":
    main()

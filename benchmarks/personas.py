"""ConvAI2's validation set with and without personas.

Run `python benchmarks/personas.py valid_self_original_no_cands.txt`. The bundled model reads
persona and history as they are. MiniLM reads one text: the newest message, or the persona and the
newest message, joined. 1-of-100, 5,000 examples, the same ones for all.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path

import rejoinder
from common import write_result
from rejoinder.conversations import PERSONA, Context
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.dialogues.convai2 import Convai2Settings, read_convai2
from rejoinder.corpora.schema import Example
from rejoinder.encoders.protocol import Ranker
from rejoinder.encoders.words.keywords import BM25
from rejoinder.evaluation.ranking import evaluate
from rejoinder.evaluation.tasks import sample


def as_it_is(context: Context) -> Context:
    """Persona, history and newest message."""
    return context


def without(context: Context) -> Context:
    """History and newest message."""
    return tuple(message for message in context if not message.startswith(PERSONA))


def one_text(context: Context) -> Context:
    """The persona's statements and the newest message, as one message."""
    said = [
        message.replace(PERSONA, " ").strip()
        for message in context[:-1]
        if message.startswith(PERSONA)
    ]
    return (" ".join([*said, context[-1]]),)


def main() -> None:
    """Run from the shell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--limit", type=int, default=5000)
    given = parser.parse_args()
    read = list(read_convai2(given.file, Reading(), Convai2Settings(personas="self")))
    # all have something to reply to
    replies = [example for example in read if without(example.context)]
    examples = sample(iter(replies), given.limit, seed=0)
    ours, sentences = rejoinder.load("convert-small"), rejoinder.load("minilm")
    rows: list[tuple[str, Ranker, Callable[[Context], Context]]] = [
        ("convert-small, history", ours, without),
        ("convert-small, persona and history", ours, as_it_is),
        ("MiniLM, newest message", sentences, without),
        ("MiniLM, persona and newest message as one text", sentences, one_text),
        ("BM25, newest message", BM25(), without),
        ("BM25, persona and newest message as one text", BM25(), one_text),
    ]
    figures = {name: _measure(ranker, examples, shown) for name, ranker, shown in rows}
    print(write_result("personas", {"examples": len(examples), "recall at 1, low, high": figures}))


def _measure(
    ranker: Ranker, examples: list[Example], shown: Callable[[Context], Context]
) -> list[float]:
    read = [
        dataclasses.replace(example, context=tuple(shown(example.context))) for example in examples
    ]
    found = evaluate(ranker, read).recall[1]
    values = [round(100 * value, 1) for value in (found.value, found.low, found.high)]
    print(f"{values[0]:5.1f} [{values[1]:.1f}, {values[2]:.1f}]", end="  ", flush=True)
    return values


if __name__ == "__main__":
    main()

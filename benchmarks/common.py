"""Dated result files of benchmarks, which name machine, versions and command."""

from __future__ import annotations

import itertools
import json
import os
import platform
import random
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from rejoinder.corpora.forms.examples import read_examples
from rejoinder.corpora.splits import split_of
from rejoinder.files import atomic_file
from rejoinder.progress import track

RESULTS = Path(__file__).parent / "results"


def write_result(name: str, result: dict[str, Any]) -> Path:
    """Write `results/NAME.json`: the figures, after date, machine, versions and command line.

    Args:
        name: of the benchmark; an earlier result of that name is replaced.
        result: the figures, as JSON values.

    Returns:
        The file written.
    """
    circumstances = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": version("torch"),
    }
    path = RESULTS / f"{name}.json"
    with atomic_file(path) as part:
        part.write_text(
            json.dumps(circumstances | result, indent=2, ensure_ascii=False) + "\n",
            encoding="utf-8",
        )
    return path


def use_threads(count: int) -> None:
    """Let PyTorch, NumPy and FAISS compute with so many threads."""
    torch.set_num_threads(count)
    threadpool_limits(count)


def read_texts(
    replies: str | None, contexts: str | None, count: int, queries: int
) -> tuple[list[str], list[list[str]]]:
    """Return distinct replies and, of other conversations, contexts.

    They come from the two files, or are messages of chit-chat.
    """
    if replies is None or contexts is None:
        import chitchat_dataset

        messages = list(
            dict.fromkeys(text for text in chitchat_dataset.MessageDataset() if text.strip())
        )
        random.Random(0).shuffle(messages)
        return messages[queries:][:count], [[text] for text in messages[:queries]]
    found: list[list[Any]] = []
    for name, most in ((replies, count), (contexts, queries)):
        with Path(name).open(encoding="utf-8") as lines:
            found.append([json.loads(line) for line in itertools.islice(lines, most)])
    return [each["text"] for each in found[0]], found[1]


def read_conversations(
    data: Sequence[str], replies: int, contexts: int
) -> tuple[list[str], list[list[str]]]:
    """Return distinct responses of conversations, and contexts of others, in a random order."""
    if not data:
        import chitchat_dataset

        messages = [text for text in chitchat_dataset.MessageDataset() if text.strip()]
        random.Random(0).shuffle(messages)
        return list(dict.fromkeys(messages[contexts:]))[:replies], [
            [text] for text in messages[:contexts]
        ]
    responses: dict[str, None] = {}
    others: dict[str, list[str]] = {}
    for name in data:
        with track(f"Reading {name}") as advance:
            for example in read_examples(name):
                if (part := split_of(example.thread)) == "train":
                    responses[example.response] = None
                elif part == "test":
                    others.setdefault(example.thread, list(example.context))
                advance(1)
    rng = random.Random(0)
    drawn = rng.sample(list(responses), min(replies, len(responses)))
    return drawn, rng.sample(list(others.values()), min(contexts, len(others)))


def cpu_model() -> str:
    """The processor's name, as far as the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"

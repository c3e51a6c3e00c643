"""A toy corpus whose threads are scattered: a line is `thread number text`; the reply follows by number."""

from __future__ import annotations

import io
import random

import pyarrow as pa

from rejoinder.corpora import lines as line_files
from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.schema import Example
from rejoinder.corpora.parquet import batch_of
from rejoinder.settings import documented


@documented
class ToySettings:
    shortest: int = 1
    """Fewest characters of a message."""


def block_lines(block, reading):
    """The lines of a block, as `open_lines` gives those of a file."""
    for number, line in enumerate(io.BytesIO(block.data), block.number):
        text = line_files._decode(line, block.path, number, reading)
        if text is not None:
            yield number, text


def scatter(block, reading, settings):
    threads, lines = [], []
    for number, line in block_lines(block, reading):
        reading.lines += 1
        thread, _, rest = line.partition(" ")
        place, _, text = rest.partition(" ")
        if not place.isdecimal():
            reading.bad_line(block.path, number, "no number")
        elif len(text) < settings.shortest:
            reading.drop("short message")
        else:
            threads.append(thread)
            lines.append(line)
    return pa.RecordBatch.from_pydict(
        {"thread": pa.array(threads, pa.string()), "line": pa.array(lines, pa.string())}
    )


def assemble(records, reading, _settings):
    threads, examples = {}, []
    for record in records["line"].to_pylist():
        thread, place, text = record.split(" ", 2)
        threads.setdefault(thread, {})[int(place)] = text
    for thread, messages in threads.items():
        texts = [messages[place] for place in sorted(messages)]
        reading.without_reply += len(texts) < 2
        for place in range(1, len(texts)):
            context = tuple(texts[max(0, place - 1 - reading.history) : place])
            examples.append(Example(context, texts[place], f"{thread}:{place}", thread, "toy"))
    if examples:
        yield batch_of(examples)


TOY = Corpus("toy", "", "", "", "", scatter=scatter, assemble=assemble, settings=ToySettings)


def toy_lines(threads, seed=0, *, messages=4, words=3):
    source = random.Random(seed)
    lines = [
        f"t{seed}-{thread} {place} " + " ".join(f"w{source.randrange(90)}" for _ in range(words))
        for thread in range(threads)
        for place in range(messages)
    ]
    source.shuffle(lines)
    return lines

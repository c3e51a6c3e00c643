"""The Reddit pipeline in Apache Beam, for comparison.

The rules are the same, laid out as in DATA19's published pipeline. Read lines, parse, key by
thread, group, walk the paths down each thread, split by the hash of the thread, write JSON. It runs
on Beam's local runner (`DirectRunner`: Prism where Beam can download that, otherwise, as on
machines that are offline, the one inside Python), in an interpreter of its own (Beam 2.77 pins
older versions of protobuf, pyarrow and pillow than Rejoinder's constraints), and imports nothing of
Rejoinder. `benchmarks/reddit.py` starts it:

    BEAM_PYTHON benchmarks/reddit_beam.py OUTPUT RC_2018-01.zst... [--parser msgspec] [--shuffle]
    [--workers 2]

prints one JSON object with seconds and version.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

MINIMUM, MAXIMUM, DEPTH = 9, 127, 10
SPLITS = ("train", "valid", "test")


class Comment(NamedTuple):
    """What the pipeline carries of a comment."""

    id: str
    thread: str
    parent: str
    body: str
    cut: bool


def parser(name: str) -> Callable[[str], dict[str, Any]]:
    """Parse a line with Python's `json`, as DATA19's pipeline does, or the faster `msgspec`."""
    if name == "json":
        return json.loads
    import msgspec

    return msgspec.json.decode


def normalise(row: dict[str, Any]) -> tuple[str, Comment]:
    """The thread of a comment, and the comment with its body cut."""
    body, parent = row["body"], row["parent_id"]
    above = parent[3:] if parent.startswith("t1_") else ""
    thread = row["link_id"][3:]
    return thread, Comment(row["id"], thread, above, cut_text(body), len(body) > MAXIMUM)


def cut_text(text: str) -> str:
    """At most `MAXIMUM` characters, no word cut in two."""
    if len(text) <= MAXIMUM:
        return text
    end = MAXIMUM
    while end and text[end].isalnum() == text[end - 1].isalnum():
        end -= 1
    return text[:end]


def counts(comment: Comment) -> bool:
    """Whether it can be a response, or the message answered."""
    return (
        not comment.cut
        and len(comment.body) >= MINIMUM
        and comment.body not in ("[deleted]", "[removed]")
    )


def paths(comments: dict[str, Comment]) -> Iterator[list[Comment]]:
    """Every way down the trees, of two comments or more, from the last `DEPTH` ancestors on."""
    children = defaultdict(list)
    level = []
    for comment in comments.values():
        if comment.parent in comments:
            children[comment.parent].append(comment)
        else:
            level.append([comment])
    while level:
        deeper = []
        for path in level:
            for child in children.get(path[-1].id, ()):
                longer = [*path[-DEPTH:], child]
                deeper.append(longer)
                yield longer
        level = deeper


def thread_examples(group: tuple[str, Iterable[Comment]]) -> Iterator[dict[str, Any]]:
    """The examples of a thread."""
    comments = {comment.id: comment for comment in group[1]}
    for path in paths(comments):
        response, answered = path[-1], path[-2]
        if counts(response) and counts(answered):
            context = [comment.body for comment in path[:-1] if comment.body.strip()]
            yield {
                "id": response.id,
                "thread": response.thread,
                "context": context,
                "response": response.body,
            }


def split_number(example: dict[str, Any], _: int = 3) -> int:
    """Place in `SPLITS` of the part that the example belongs to."""
    share = (1 + int(hashlib.md5(example["thread"].encode()).hexdigest(), 16) % 4096) / 4096
    return 0 if share < 0.88 else 1 if share < 0.9 else 2


def run(output: Path, inputs: list[str], parse: str, shuffle: bool, workers: int) -> float:
    """Run the pipeline.

    Return the seconds it takes, without the start of Python and the import of Beam.
    """
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    mode = ["--direct_running_mode=multi_processing"] if workers > 1 else []
    options = PipelineOptions(["--runner=DirectRunner", f"--direct_num_workers={workers}", *mode])
    begin = time.perf_counter()
    with beam.Pipeline(options=options) as pipeline:
        files = [pipeline | f"read {path}" >> beam.io.ReadFromText(path) for path in inputs]
        lines = files | beam.Flatten() if len(files) > 1 else files[0]
        examples = (
            lines
            | "parse" >> beam.Map(parser(parse))
            | "normalise" >> beam.Map(normalise)
            | "group" >> beam.GroupByKey()
            | "examples" >> beam.FlatMap(thread_examples)
        )
        if shuffle:  # as DATA19's pipeline does at this point
            examples |= "random keys" >> beam.Map(lambda example: (str(uuid.uuid4()), example))
            examples |= "mix" >> beam.GroupByKey()
            examples |= "mixed" >> beam.FlatMap(lambda pair: pair[1])
        parts = examples | "split" >> beam.Partition(split_number, len(SPLITS))
        for name, part in zip(SPLITS, parts, strict=True):
            written = part | f"text {name}" >> beam.Map(json.dumps)
            _ = written | f"write {name}" >> beam.io.WriteToText(
                str(output / name), file_name_suffix=".jsonl"
            )
    return time.perf_counter() - begin


def main() -> None:
    """Run, and print what came out."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("output", type=Path)
    arguments.add_argument("inputs", nargs="+")
    arguments.add_argument("--parser", choices=["json", "msgspec"], default="json")
    arguments.add_argument("--shuffle", action="store_true")
    arguments.add_argument("--workers", type=int, default=1)
    given = arguments.parse_args()
    seconds = run(given.output, given.inputs, given.parser, given.shuffle, given.workers)
    from importlib.metadata import version

    print(json.dumps({"seconds": seconds, "apache-beam": version("apache-beam")}))


if __name__ == "__main__":
    import reddit_beam  # by its name, so that Beam's worker processes find its classes there too

    reddit_beam.main()

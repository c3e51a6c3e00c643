"""Reddit's comments to examples: one process, two, and the same rules in Apache Beam.

Also memory as the input grows. A dump of invented comments (`reddit_dump.py`) is read by `rejoinder
data reddit`, whole command and start of Python included, once with one process and once with two,
alternating. Memory is that of all processes together, sampled. Beam (`reddit_beam.py`, its local
runner) reads a part of the same dump that it finishes in reasonable time, without its start; so
does Rejoinder, and both outputs are compared as sets. The machine's limit is what decompressing,
parsing and judging each comment take alone. What all of Reddit takes is worked out from these rates
(`reddit_scale.py`).

    python benchmarks/reddit.py --beam-python ~/beam/bin/python  # with apache-beam, msgspec
    python benchmarks/reddit.py --comments 100000                    # a small trial
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from common import write_result
from reddit_dump import write_dump
from reddit_scale import all_of_reddit, limits
from rejoinder.corpora.forms.examples import read_examples

HERE = Path(__file__).parent
MONTHS = 5
COMMAND = [sys.executable, "-c", "from rejoinder.cli.start import main; main()", "data", "reddit"]
BEAM = {
    "plain": [],
    "with the parser msgspec": ["--parser", "msgspec"],
    "with DATA19's shuffle": ["--shuffle"],
}
Pair = tuple[tuple[str, ...], str]


@dataclass
class Run:
    """One run of a command."""

    comments: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    """Memory of the process and all below it, the greatest sum that was seen."""
    disk_bytes: int
    """Size of the files it leaves or works with, the greatest sum that was seen."""

    @property
    def rate(self) -> float:
        """Comments per second."""
        return self.comments / self.seconds


def main() -> None:
    """Measure, print tables, write `results/reddit.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--comments", type=int, default=5_000_000, help=f"of the whole dump, in {MONTHS} files"
    )
    parser.add_argument("--part", type=int, help="comments for Beam; a tenth if not given")
    parser.add_argument(
        "--beam-python", help="an interpreter that has apache-beam; without it Beam is not measured"
    )
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument(
        "--dump", type=Path, help="a folder for the dump itself, kept there and used again"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help="where dumps and outputs go, about 1 GB; a temporary one otherwise",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        result = measure(Path(folder), options)
    show(result)
    print(f"written to benchmarks/results/{write_result('reddit', result).name}")


def measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All figures."""
    comments, part = options.comments, options.part or options.comments // 10
    months = dump(options.dump or folder, "dump", comments, MONTHS)
    # the same seed: the first lines of the same dump
    (portion,) = dump(options.dump or folder, "part", part, 1)
    steps = limits(months[0])
    runs: dict[int, list[Run]] = {1: [], 2: []}
    for _ in range(options.repetitions):
        for processes, done in runs.items():
            done.append(rejoinder(months, folder / "job" / "out", comments, processes)[0])
    first = {
        n: rejoinder(months[:1], folder / "job" / "out", comments // MONTHS, n)[0] for n in runs
    }
    ours = {n: rejoinder([portion], folder / "job" / "out", part, n, compared=True) for n in runs}
    beam, equal = {}, {}
    if options.beam_python:
        for name, arguments in BEAM.items():
            tries = [
                run_beam(options.beam_python, portion, folder / "beam", part, arguments)
                for _ in range(options.repetitions)
            ]
            beam[name] = sorted((run for run, _ in tries), key=lambda run: run.seconds)[
                len(tries) // 2
            ]
            equal[name] = all(pairs == own for _, pairs in tries for _, own in ours.values())
    middle = {
        n: sorted(done, key=lambda run: run.seconds)[len(done) // 2] for n, done in runs.items()
    }
    result = {
        "comments": comments,
        "bytes": sum(path.stat().st_size for path in months),
        "steps_alone": steps,
        "repetitions": options.repetitions,
        "rejoinder": {n: [described(run) for run in done] for n, done in runs.items()},
        "rejoinder_first_month": {n: described(run) for n, run in first.items()},
        "rejoinder_part": {n: described(run) for n, (run, _) in ours.items()},
        "examples_of_part": len(ours[1][1]),
        "beam_part": {name: described(run) for name, run in beam.items()},
        "beam_gives_the_same_examples": equal,
        "two_processes_to_one": statistics.median(
            a.seconds / b.seconds for a, b in zip(runs[1], runs[2], strict=True)
        ),
        "times_as_fast_as_beam": {
            name: {n: middle[n].rate / run.rate for n in runs} for name, run in beam.items()
        },
        "times_less_processor_time_than_beam": {
            name: run.cpu_seconds / ours[1][0].cpu_seconds for name, run in beam.items()
        },
        ("memory_five_times_as_many_comments"): {
            n: middle[n].peak_bytes / first[n].peak_bytes for n in runs
        },
    }
    alone = middle[1]
    return result | {
        "all_of_reddit": all_of_reddit(alone.comments, alone.cpu_seconds, alone.disk_bytes, steps)
    }


def dump(folder: Path, name: str, comments: int, files: int) -> list[Path]:
    """The files of a dump, written unless they are there."""
    place = folder / f"{name}-{comments}"
    return (
        sorted(place.glob("RC_*.zst"))
        if (place / "complete").exists()
        else _written(place, comments, files)
    )


def _written(place: Path, comments: int, files: int) -> list[Path]:
    paths = write_dump(place, comments, files)
    (place / "complete").touch()
    return paths


def rejoinder(
    inputs: Sequence[Path], output: Path, comments: int, processes: int, *, compared: bool = False
) -> tuple[Run, set[Pair]]:
    """Build a data folder; the run, and its pairs if they are to be compared."""
    shutil.rmtree(output.parent, ignore_errors=True)
    names = map(str, inputs)
    command = [*COMMAND, *names, "-o", str(output), "--processes", str(processes), "--json"]
    run, _ = watched(command, comments, output.parent)
    pairs = (
        {(example.context, example.response) for example in read_examples(output)}
        if compared
        else set()
    )
    shutil.rmtree(output.parent)
    return run, pairs


def run_beam(
    python: str, path: Path, output: Path, comments: int, more: Sequence[str]
) -> tuple[Run, set[Pair]]:
    """Run the Beam pipeline; the run with its own seconds, and its pairs."""
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir()
    run, text = watched(
        [python, str(HERE / "reddit_beam.py"), str(output), str(path), *more], comments, output
    )
    run.seconds = json.loads(text.splitlines()[-1])["seconds"]
    pairs: set[Pair] = set()
    for file in output.glob("*.jsonl"):
        with file.open(encoding="utf-8") as lines:
            pairs.update((tuple(row["context"]), row["response"]) for row in map(json.loads, lines))
    return run, pairs


def watched(command: Sequence[str], comments: int, folder: Path) -> tuple[Run, str]:
    """Run a command that works in a folder and watch time, memory and disk.

    Return the run, and its standard output.
    """
    begin = time.perf_counter()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        # Compiled modules are kept, as those of an installed package are.
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        )
        peaks, over = [0, 0], threading.Event()
        watcher = threading.Thread(target=watch, args=(process.pid, folder, peaks, over))
        watcher.start()
        assert process.stdout is not None
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        over.set()
        watcher.join()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            sys.exit(f"{' '.join(command[:4])} ... failed:\n{errors.read()[-2000:]}")
    return Run(comments, seconds, usage.ru_utime + usage.ru_stime, *peaks), text


def watch(root: int, folder: Path, peaks: list[int], over: threading.Event) -> None:
    """Track the greatest memory of a process and all below it, and of a folder.

    Memory is read 5 times a second, the folder each second. More often would take time from what is
    watched.
    """
    looks = 0
    while not over.wait(0.2):
        peaks[0] = max(peaks[0], sum(map(resident, family(root))))
        looks += 1
        if looks % 5 == 0:
            peaks[1] = max(peaks[1], folder_bytes(folder))


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below a folder, without those that are removed meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(place) / name).stat().st_size
    return total


def family(root: int) -> Iterator[int]:
    """A process and all below it (Linux)."""
    yield root
    for file in Path(f"/proc/{root}/task").glob("*/children"):
        try:
            children = file.read_text().split()
        except OSError:  # it has just ended
            continue
        for child in children:
            yield from family(int(child))


def resident(process: int) -> int:
    """Bytes of memory that a process has; none if it has just ended."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf(
            "SC_PAGE_SIZE"
        )
    except (OSError, IndexError):
        return 0


def described(run: Run) -> dict[str, float]:
    """A run as the result file holds it."""
    each = {
        "comments_per_second": run.rate,
        "cpu_microseconds_per_comment": 1e6 * run.cpu_seconds / run.comments,
    }
    return asdict(run) | each


def show(result: dict[str, Any]) -> None:
    """Print the figures as tables."""
    table = Table("program", "comments", "comments/s", "CPU \u00b5s each", "memory, MB")
    rows = [
        (f"Rejoinder, processes: {n}", run)
        for n, done in result["rejoinder"].items()
        for run in done
    ]
    rows += [
        (f"the same, first month: {n}", run) for n, run in result["rejoinder_first_month"].items()
    ]
    rows += [(f"the same, Beam's part: {n}", run) for n, run in result["rejoinder_part"].items()]
    rows += [(f"Beam, {name}", run) for name, run in result["beam_part"].items()]
    for name, run in rows:
        cells = (
            f"{run['comments']:,}",
            f"{run['comments_per_second']:,.0f}",
            (f"{run['cpu_microseconds_per_comment']:.1f}"),
            f"{run['peak_bytes'] / 1e6:,.0f}",
        )
        table.add_row(name, *cells)
    console = Console()
    console.print(table)
    for name, value in result["steps_alone"].items():
        console.print(f"{name.replace('_', ' ')}, one process: {value:,.0f}")
    console.print(f"two processes to one: {result['two_processes_to_one']:.2f}")
    for name, ratios in result["times_as_fast_as_beam"].items():
        same = (
            "the same examples"
            if result["beam_gives_the_same_examples"][name]
            else "OTHER EXAMPLES"
        )
        console.print(
            f"times as fast as Beam {name}: "
            + ", ".join(f"{r:.1f}" for r in ratios.values())
            + f" ({same})"
        )
    for name, value in result["all_of_reddit"].items():
        told = value if isinstance(value, dict) else {"": value}
        amounts = ", ".join(
            f"{cores or ''} {amount:,.1f}".strip() for cores, amount in told.items()
        )
        console.print(f"all of Reddit, {name.replace('_', ' ')}: {amounts}")
    for name, ratio in result["times_less_processor_time_than_beam"].items():
        console.print(
            f"times less processor time than Beam {name}, its part, starts included: {ratio:.1f}"
        )
    for n, ratio in result["memory_five_times_as_many_comments"].items():
        console.print(
            f"memory for {MONTHS} times as many comments, processes: {n}: {ratio:.2f} times"
        )


if __name__ == "__main__":
    main()

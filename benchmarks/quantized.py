"""The quantised folder beside the full one and beside all-MiniLM-L6-v2: bytes, memory, speed.

And what training costs. Each program runs in a process of its own, which does nothing else: it
opens its model, encodes the same chat messages, none longer than 60 subwords, in one call, again
and again, and says the median rate and the most memory that it ever had. The programs take turns,
and the median of the rounds is told. How fast the quantised folder is beside the full one is
measured once more with both in one process, taking turns at every call. Weights are random, of the
paper's size: neither bytes, speed nor memory depends on what was learned. MiniLM runs in
sentence-transformers, 128 messages a time. Of the model that reads earlier messages too there are
bytes alone.

Training: the median time of a step of the small recipe's stages, with and without rounded
parameters, on the same batches, the runs taking turns.

    python benchmarks/quantized.py
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rejoinder.text.subwords import Subwords

ROOT = Path(__file__).parent.parent
SUBWORDS = 31_476
"""Size of the paper's vocabulary."""

FULL, QUANTISED, MINILM = "ConveRT", "ConveRT quantised", "MiniLM sentence-transformers"
MULTI = "ConveRT multi-context"
OURS = {
    f"{name} {precision}": (name, precision)
    for precision in ("auto", "int8")
    for name in (FULL, QUANTISED)
}
"""Our programs: which folder, and the precision that is asked for."""


def main() -> None:
    """Measure, print, write `results/quantized.json`.

    Or, as a process of the above, measure one program.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--size", choices=["paper", "small"], default="paper", help="of the model that encodes"
    )
    parser.add_argument("--sentences", type=int, default=640)
    parser.add_argument("--repetitions", type=int, default=5, help="in each process")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each program")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--training-steps", type=int, default=12, help="of each run; 0: do not train"
    )
    parser.add_argument("--measure", metavar="PROGRAM", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options)))
        return
    with tempfile.TemporaryDirectory() as folder:
        options.folder = Path(folder)
        result: dict[str, Any] = {
            "size": options.size,
            "threads": options.threads,
            "bytes": write_models(options),
        }
        result["rows"] = encoding(options)
        result["ratios"] = race(options) | ratios(result["rows"])
        if options.training_steps:
            result["training"] = training(options)
    show(result)
    from common import write_result

    write_result("quantized", result)


def write_models(options: argparse.Namespace) -> dict[str, int]:
    """Both folders of each model and the messages to encode; bytes of each folder."""
    import chitchat_dataset
    import torch

    from rejoinder.encoders.export.folder import export_quantized
    from rejoinder.encoders.families import build_module
    from rejoinder.encoders.persistence import save
    from rejoinder.training.recipe_files import load_recipe

    messages = [text for text in chitchat_dataset.MessageDataset() if text.strip()]
    subwords = vocabulary(messages, SUBWORDS if options.size == "paper" else 16_000)
    lengths = subwords.encode_ragged(messages)[1]
    order = torch.randperm(len(messages), generator=torch.Generator().manual_seed(0)).tolist()
    chosen = [messages[i] for i in order if lengths[i] <= 60][: options.sentences]
    (options.folder / "messages.json").write_text(json.dumps(chosen), encoding="utf-8")
    size = "" if options.size == "paper" else "-small"
    found: dict[str, int] = {}
    for name, recipe in ((FULL, f"convert{size}.toml"), (MULTI, f"convert-multi{size}.toml")):
        module = build_module(load_recipe(ROOT / "recipes" / recipe).model, subwords.rows)
        save(options.folder / name, module, subwords, max_length=60, card="")
        written = export_quantized(options.folder / name, options.folder / f"{name} quantised")
        found |= {name: written["full_bytes"], f"{name} quantised": written["bytes"]}
    return found


def vocabulary(messages: Sequence[str], size: int) -> Subwords:
    """So many subwords: all single characters, and the most frequent of the others."""
    from rejoinder.text.subwords import MARK, Subwords
    from rejoinder.text.vocabulary_building import build_subwords

    subwords = build_subwords(messages, minimum_count=1).subwords
    needed = [subword for subword in subwords if len(subword.removeprefix(MARK)) <= 1]
    others = [subword for subword in subwords if len(subword.removeprefix(MARK)) > 1]
    return Subwords([*needed, *others[: size - len(needed)]])


def encoding(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Rate and memory of each program: medians over the rounds."""
    names = [*OURS, f"{MINILM} fp32", f"{MINILM} bf16"]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(options.rounds):
        for name in names:
            found[name].append(in_a_process(name, options))
    return {
        name: {key: statistics.median(each[key] for each in measured) for key in measured[0]}
        for name, measured in found.items()
    }


def in_a_process(name: str, options: argparse.Namespace) -> dict[str, float]:
    """What a fresh process measures of one program."""
    given = {
        "measure": name,
        "folder": options.folder,
        "repetitions": options.repetitions,
        "threads": options.threads,
    }
    arguments = [text for key, value in given.items() for text in (f"--{key}", str(value))]
    done = subprocess.run(
        [sys.executable, __file__, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{name} failed:\n{done.stderr}")
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def measure(name: str, options: argparse.Namespace) -> dict[str, float]:
    """Open a program's model and encode the messages.

    Figures are the rate, seconds to open, and the most memory that the process had.
    """
    messages = json.loads((options.folder / "messages.json").read_text(encoding="utf-8"))
    started = time.perf_counter()
    encode = program(name, options)
    encode(messages[:1])
    opened = time.perf_counter() - started
    encode(messages)
    seconds = []
    for _ in range(options.repetitions):
        started = time.perf_counter()
        encode(messages)
        seconds.append(time.perf_counter() - started)
    rate = len(messages) / statistics.median(seconds)
    return {
        "sentences_per_second": rate,
        "peak_memory_bytes": peak_memory(),
        "seconds_to_open": opened,
    }


def program(name: str, options: argparse.Namespace) -> Callable[[Sequence[str]], object]:
    """Import what the program needs, and nothing else, and open its model."""
    import torch

    torch.set_num_threads(options.threads)
    if name.startswith(MINILM):
        from peers import sentence_transformer

        return sentence_transformer(name.rpartition(" ")[2], 128)
    import rejoinder
    from rejoinder.encoders.families import text_encoder

    folder, precision = OURS[name]
    return text_encoder(
        rejoinder.load(options.folder / folder, precision=precision)
    ).encode_responses


def peak_memory() -> int:
    """Most memory that this process had resident, in bytes.

    Linux counts it from the start of the program; `getrusage`, asked elsewhere, may count what the
    parent had.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text(encoding="utf-8").splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def ratios(rows: dict[str, dict[str, float]]) -> dict[str, float]:
    """The comparisons of memory that the project holds itself to."""
    memory = {name: row["peak_memory_bytes"] for name, row in rows.items()}
    minilm = f"{MINILM} fp32"
    return {
        f"memory, {QUANTISED} / {FULL}": memory[f"{QUANTISED} auto"] / memory[f"{FULL} auto"],
        f"memory, {QUANTISED} / {minilm}": memory[f"{QUANTISED} auto"] / memory[minilm],
    }


def race(options: argparse.Namespace) -> dict[str, float]:
    """Return the speed of the quantised folder over that of the full one, in each precision.

    Both are medians of calls that take turns.
    """
    import torch

    import rejoinder
    from rejoinder.encoders.families import text_encoder

    torch.set_num_threads(options.threads)
    messages = json.loads((options.folder / "messages.json").read_text(encoding="utf-8"))
    result = {}
    for precision in ("auto", "int8"):
        names = [name for name, (_, wanted) in OURS.items() if wanted == precision]
        models = {
            name: rejoinder.load(options.folder / OURS[name][0], precision=precision)
            for name in names
        }
        encoders = {name: text_encoder(model) for name, model in models.items()}
        seconds: dict[str, list[float]] = {name: [] for name in names}
        for turn in range(1 + options.rounds * options.repetitions):
            for name, encoder in encoders.items():
                started = time.perf_counter()
                encoder.encode_responses(messages)
                if turn:  # the first warms up
                    seconds[name].append(time.perf_counter() - started)
        full, quantised = (statistics.median(seconds[name]) for name in names)
        result[f"speed, {QUANTISED} / {FULL}, {precision}"] = full / quantised
    return result


def training(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Return seconds of a step of each stage of the small recipe, and their ratio.

    A step is measured without and with rounded parameters.
    """
    import torch

    from rejoinder.corpora.pipeline.build import build_data
    from rejoinder.training.recipe_files import load_recipe

    torch.set_num_threads(options.threads)
    build_data("chitchat", [], options.folder / "data")
    recipe = load_recipe(ROOT / "recipes" / "convert-quick.toml", ["vocabulary.minimum_count=6"])
    result = {}
    for stage in recipe.stage:
        found: dict[bool, list[float]] = {False: [], True: []}
        for number in range(options.rounds):
            for quantised, seconds in found.items():
                run = options.folder / f"{stage.name}-{quantised}-{number}"
                seconds.extend(step_seconds(recipe, stage, quantised, run, options))
        without, with_ = (statistics.median(seconds) for seconds in found.values())
        figures = {
            "steps_per_second": 1 / without,
            "quantised_steps_per_second": 1 / with_,
            "ratio": without / with_,
        }
        result[f"small, stage '{stage.name}'"] = figures
    return result


def step_seconds(
    recipe: Any, stage: Any, quantised: bool, run: Path, options: argparse.Namespace
) -> list[float]:
    """Seconds of each step but the first of one stage from random weights."""
    from dataclasses import replace

    from rejoinder.training.display import Display, Progress
    from rejoinder.training.loop import train
    from rejoinder.training.recipe.settings import Checkpoint, Quantization, Validation

    times: list[float] = []

    class Clock(Display):
        def show(self, progress: Progress) -> None:  # noqa: ARG002
            times.append(time.perf_counter())

    one_stage = replace(
        recipe,
        data=replace(
            recipe.data, train=str(options.folder / "data"), cache=str(options.folder / "tokens")
        ),
        stage=(replace(stage, minutes=None, epochs=None, steps=options.training_steps),),
        validation=Validation(examples=0),
        checkpoint=Checkpoint(every_seconds=None),
        compute=replace(recipe.compute, threads=options.threads),
        quantization=Quantization(enabled=quantised),
    )
    train(one_stage, run, display=Clock())
    return [after - before for before, after in itertools.pairwise(times)]


def show(result: dict[str, Any]) -> None:
    """Print the tables."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for name, size in result["bytes"].items():
        console.print(f"{name}: {size / 1e6:.1f} MB on disk")
    table = Table("program", "sentences/s", "memory, MB", "opened in, s")
    for name, row in result["rows"].items():
        figures = (
            row["sentences_per_second"],
            row["peak_memory_bytes"] / 1e6,
            row["seconds_to_open"],
        )
        table.add_row(name, f"{figures[0]:,.0f}", f"{figures[1]:,.0f}", f"{figures[2]:.1f}")
    console.print(table)
    for name, ratio in result["ratios"].items():
        console.print(f"{name}: {ratio:.2f}")
    for name, row in result.get("training", {}).items():
        without, with_ = row["steps_per_second"], row["quantised_steps_per_second"]
        console.print(
            f"training {name}: {without:.2f} steps/s,"
            f" quantised {with_:.2f}, ratio {row['ratio']:.3f}"
        )


if __name__ == "__main__":
    main()

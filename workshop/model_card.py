r"""Write the model card of a bundled model from its runs, results and probe.

    python -m workshop.model_card src/rejoinder/weights/convert-small --name convert-small --run
    runs/convert-small \
        --corpus recipes/corpus/open.toml open/counts.json --results results.json --probe probe.json
        \ --watts 30 --machine "2 cores of an AMD EPYC (Zen 4)"

workshop/model-card.md is the template, with fields such as $name. Results are files of
`rejoinder evaluate --json`, and the probe is the output of `workshop/probe.py`. A model's
fingerprint does not cover its card.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from rejoinder.cli.shell import guarded
from rejoinder.encoders import folders, persistence
from rejoinder.errors import InputError
from rejoinder.files import atomic_file
from rejoinder.training.run.folder import RunFolder
from rejoinder.training.run.summary import RunSummary, load_summary
from workshop import probe as bias_probe

TEMPLATE = Path(__file__).parent / "model-card.md"


@dataclass(frozen=True, kw_only=True)
class Making:
    """What went into a model.

    Attributes:
        runs: folders of the runs that made it, in order; each but the first started from the one
            before.
        corpora: recipe and counts of each corpus that they were trained on.
        watts: what the machine drew in these runs, stated and not measured.
        machine: in words.
        other_hours: of experiments before, at the same watts.
    """

    runs: Sequence[Path]
    corpora: Sequence[tuple[str, Mapping[str, Any]]]
    watts: float
    machine: str
    other_hours: float = 0.0


def card(
    model: Path,
    name: str,
    making: Making,
    results: Sequence[Mapping[str, Any]],
    probe: Mapping[str, Any],
) -> str:
    """The Markdown of the card.

    Args:
        model: the model folder.
        name: what it is opened by.
        making: its runs and their corpora.
        results: the "results" of `rejoinder evaluate --json`, of all files.
        probe: what `workshop/probe.py` wrote.

    Raises:
        InputError: a folder or file is not what it should be.
    """
    _, config = persistence.read_config(model)
    described = folders.describe(model)
    summaries = [_summary(RunFolder(run)) for run in making.runs]
    values = {
        "name": name,
        "kind": _kind(config["model"], config["max_length"]),
        "parameters": f"{described['parameters'] / 1e6:.1f}M",
        "megabytes": f"{described['bytes'] / 1e6:.1f}",
        "fingerprint": described["fingerprint"],
        "max_length": config["max_length"],
        "data": corpora_table(making.corpora),
        "results": results_table(results),
        "probe": bias_probe.markdown(probe).strip(),
        "compute": compute(summaries, making),
    }
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(values)


def _kind(model: Mapping[str, Any], longest: int) -> str:
    """Return a noun phrase for the kind of model; texts are truncated to `longest` subwords."""
    history = ""
    if model.get("history"):
        history = (
            f" that reads the newest {longest} subwords of up to {model['history']} earlier"
            " messages"
        )
    blocks = f"of {model['blocks']} blocks" if model.get("blocks") else "without transformer blocks"
    return f"ConveRT {blocks}{history}" if model["kind"] == "convert" else str(model["kind"])


def results_table(results: Sequence[Mapping[str, Any]]) -> str:
    """Return R@1 in % with its interval: a line for each data set, a column for each model.

    The order is that of the results.
    """
    models = list(dict.fromkeys(row["model"] for row in results))
    data = list(dict.fromkeys(row["data"] for row in results))
    found = {(row["model"], row["data"]): row for row in results}
    counts = sorted({row["candidates"] for row in results})
    candidates = " or ".join(f"{count:,}" for count in counts)
    header = ["data", "examples", *models]
    lines = [_row(header), _row(["---", *["--:"] * (len(header) - 1)])]
    for name in data:
        rows = [found.get((model, name)) for model in models]
        any_ = next(row for row in rows if row is not None)
        lines.append(_row([_data_name(name), f"{any_['examples']:,}", *map(_recall_at_1, rows)]))
    return (
        f"R@1 of {candidates} candidates in %, with 95% intervals over whole dialogues."
        " Ties count against the model.\n\n" + "\n".join(lines)
    )


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _data_name(place: str) -> str:
    """The folder's own name: the folders above it are those of one machine."""
    path, space, split = place.partition(" ")
    return Path(path).name + space + split


def _recall_at_1(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    value, low, high = (100 * row["recall"]["1"][key] for key in ("value", "low", "high"))
    return f"{value:.1f} [{low:.1f}, {high:.1f}]"


def compute(summaries: Sequence[RunSummary], making: Making) -> str:
    """Return the hours of the runs, and the energy as watts times hours."""
    own = sum(each.seconds for each in summaries) / 3600
    before = f" and {making.other_hours:g} hours of experiments" if making.other_hours else ""
    energy = (own + making.other_hours) * making.watts / 1000
    return (
        f"Compute: {own:.2f} hours{before} on {making.machine}.\n"
        f"Estimated energy at {making.watts:g} W: {energy:.2f} kWh."
    )


def _summary(folder: RunFolder) -> RunSummary:
    if not folder.summary.is_file():
        raise InputError(f"{folder.path} is not a finished run: it has no {folder.summary.name}")
    return load_summary(folder)


def corpora_table(corpora: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Return the sources by licence, and the number of training pairs of each corpus."""
    sources = {name: source for _, counts in corpora for name, source in counts["sources"].items()}
    by_licence: dict[str, list[str]] = {}
    for name, source in sources.items():
        by_licence.setdefault(source["licence"], []).append(name)
    lines = [f"- {licence}: {', '.join(names)}" for licence, names in by_licence.items()]
    lines.append("")
    for recipe, counts in corpora:
        lines.append(f"`{Path(recipe).name}`: {counts['total']['train']['kept']:,} training pairs.")
    return "\n".join(lines)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error})") from None


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read a command line."""
    parser = argparse.ArgumentParser(
        prog="python -m workshop.model_card",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path, help="model folder; its README.md is written")
    parser.add_argument("--name", required=True, help="what it is opened by")
    parser.add_argument(
        "--run", type=Path, action="append", required=True, help="that made it; repeatable"
    )
    parser.add_argument(
        "--corpus",
        nargs=2,
        metavar=("RECIPE", "COUNTS"),
        action="append",
        required=True,
        help="recipe of a training corpus and its counts.json; repeatable",
    )
    parser.add_argument(
        "--results", type=Path, action="append", required=True, help="of rejoinder evaluate"
    )
    parser.add_argument("--probe", type=Path, required=True, help="what workshop/probe.py wrote")
    parser.add_argument(
        "--watts", type=float, required=True, help="power of the machine while it trained"
    )
    parser.add_argument("--machine", required=True, help="in words")
    parser.add_argument("--other-hours", type=float, default=0.0, help="of experiments before")
    return parser.parse_args(words)


def main() -> None:
    """Run from the shell."""
    options = arguments()
    corpora = [(recipe, _json(Path(counts))) for recipe, counts in options.corpus]
    making = Making(
        runs=options.run,
        corpora=corpora,
        watts=options.watts,
        machine=options.machine,
        other_hours=options.other_hours,
    )
    results = [row for path in options.results for row in _json(path)["results"]]
    text = card(options.model, options.name, making, results, _json(options.probe))
    with atomic_file(options.model / folders.CARD) as part:
        part.write_text(text, encoding="utf-8")
    print(options.model / folders.CARD)


if __name__ == "__main__":
    guarded(main)()

"""Pages of tables and pictures of the files that the benchmarks leave (benchmarks/results/*.json).

    python -m workshop.results benchmarks/results -o docs/results

A figure is written once, in its file: the pages are made of the files alone. What the papers have
stands beside it, and says so where the data differ. The folder's own folder `recorded` has what
other commands printed: a file gives its title, what there is to say about it, the command, where
and when it ran, and the table's columns and rows as they were.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from rejoinder.cli.shell import guarded
from rejoinder.errors import InputError
from rejoinder.evaluation import plots
from rejoinder.evaluation.report import markdown_table
from rejoinder.files import atomic_file, parse_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CIRCUMSTANCES = ("date", "command", "cpu", "cores", "python", "torch")
Json: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = list[list[str]]

SYSTEMS = {  # of quality.json, with R@1 of DATA19 and CONVERT on Reddit
    "tfidf": ("TF-IDF", "26.4"),
    "bm25": ("BM25", "27.5"),
    "sim:use": ("USE, cosine", "36.6"),
    "sim:minilm": ("MiniLM, newest message", ""),
    "sim-history:minilm": ("MiniLM, with history", ""),
    "sim-history:st:minilm-static": ("MiniLM's subwords (Model2Vec), with history", ""),
    "sim-history:st:all-mpnet-base-v2": ("mpnet, with history", ""),
    "demo/scratch/model": ("ConveRT from scratch, 1.5 minutes", "68.2"),
    "convert-small": ("`convert-small`, as it comes", ""),
    "demo/tuned/model": ("`convert-small`, fine-tuned", ""),
    "bi-base": ("`bi-base`, as it comes", ""),
}


@dataclass(frozen=True)
class Section:
    """A page's section on a file: text, rows with the head first, and perhaps a picture.

    The picture may have several panels.
    """

    title: str
    about: str
    rows: Callable[[Json], Rows]
    panels: Sequence[Callable[[Axes, Json], None]] = ()


def number(value: float | None, digits: int = 0, factor: float = 1) -> str:
    """Return a number with so many digits after the point; nothing for None."""
    return "" if value is None else f"{factor * value:,.{digits}f}"


def percent(value: Sequence[float]) -> str:
    """Return a share and its interval, both in % already."""
    return f"{value[0]:.1f} [{value[1]:.1f}, {value[2]:.1f}]"


def write_results(folder: Path, output: Path) -> list[Path]:
    """Write the pages of a folder's files, with their pictures as SVG; return what was written.

    Raises:
        InputError: there is no file of figures.
        MissingExtraError: matplotlib is missing.
    """
    figures = read_figures(folder)
    texts = pages(folder)
    output.mkdir(parents=True, exist_ok=True)
    written = [output / name for name in texts]
    for name in figures:
        if name in SECTIONS and (panels := SECTIONS[name].panels):
            figure, axes = plots.new_grid(len(panels), 4.6 * len(panels), 3.6)
            for axis, draw in zip(axes, panels, strict=True):
                draw(axis, figures[name])
            written.append(output / f"{name}.svg")
            with atomic_file(written[-1]) as part:
                plots.save_figure(figure, part, "svg")
    for name, text in texts.items():
        with atomic_file(output / name) as part:
            part.write_text(text, encoding="utf-8")
    return written


def read_figures(folder: Path) -> dict[str, Json]:
    """Return the files of a folder by their names; see `write_results`."""
    figures: dict[str, Json] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            figures[path.stem] = parse_json(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{path} is not JSON ({error}); measure it anew") from error
    if not figures:
        raise InputError(
            f"{folder} holds no .json of a benchmark;"
            " run one, such as python benchmarks/encoding.py"
        )
    return figures


def pages(folder: Path) -> dict[str, str]:
    """Return the pages by their names: written by benchmarks, then recorded, if any."""
    made = "by `python -m workshop.results benchmarks/results -o docs/results`"
    head = (
        f"# Tables\n\nMade of the files in benchmarks/results {made};"
        " each names the command that measures it anew."
    )
    texts = {"tables.md": f"{head}\n\n{sections(read_figures(folder))}"}
    if (recorded := folder / "recorded").is_dir():
        head = (
            "# Recorded tables\n\n"
            f"Made of the files in benchmarks/results/recorded {made}. No program wrote"
        )
        head += (
            " these files: their figures were copied from what the command below a table printed."
        )
        texts["recorded.md"] = f"{head}\n\n{sections(read_figures(recorded))}"
    return texts


def sections(figures: Mapping[str, Json]) -> str:
    """Return the sections that are known in their order, then other files as they are."""
    names = [
        *(name for name in SECTIONS if name in figures),
        *(name for name in figures if name not in SECTIONS),
    ]
    return "\n".join(section(name, figures[name]) for name in names)


def section(name: str, figures: Json) -> str:
    """Return a file's section."""
    about = str(figures.get("about", ""))
    known = SECTIONS.get(name) or Section(
        figures.get("title", name.replace("_", " ").capitalize()), about, everything
    )
    command = figures.get("command", name)
    cpu = figures.get("cpu", "")
    made = f"{cpu}, {figures.get('cores', '?')} cores, {str(figures.get('date', ''))[:10]}"
    made = (
        f"Recorded on {made}:\n```\n{command}\n```\n"
        if "columns" in figures
        else f"`{command}`, {made}.\n"
    )
    parts = [
        f"## {known.title}\n",
        *([f"{known.about}\n"] if known.about else []),
        table(name, figures),
        made,
    ]
    if known.panels:
        parts.insert(2, f"![{known.title}]({name}.svg)\n")
    return "\n".join(parts)


def table(name: str, figures: Json) -> str:
    """Return a file's table."""
    try:
        if "columns" in figures:
            return markdown_table([figures["columns"], *figures["rows"]])
        return markdown_table(
            SECTIONS[name].rows(figures) if name in SECTIONS else everything(figures)
        )
    except (KeyError, IndexError, TypeError) as error:
        raise InputError(
            f"{name}.json has not the form that benchmarks/{name}.py writes ({error}); run that"
        ) from error


def everything(figures: Json) -> Rows:
    """Return every figure of a file by its path of keys."""

    def below(value: Any, path: str) -> Rows:
        if isinstance(value, Mapping):
            return [
                row
                for key, each in value.items()
                for row in below(each, f"{path}, {key}" if path else str(key))
            ]
        if isinstance(value, list) and not all(isinstance(each, int | float) for each in value):
            return [
                row
                for place, each in enumerate(value)
                for row in below(each, f"{path} {place + 1}")
            ]
        values = value if isinstance(value, list) else [value]
        return [
            [
                path,
                ", ".join(
                    f"{each:,.4g}" if isinstance(each, float) else str(each) for each in values
                ),
            ]
        ]

    return [
        ["", ""],
        *below({key: value for key, value in figures.items() if key not in CIRCUMSTANCES}, ""),
    ]


def _named(
    key: str, heads: Sequence[str], cells: Callable[[Any], Sequence[str]]
) -> Callable[[Json], Rows]:
    """Return the rows of a mapping by name: its key, then `cells` of the value."""
    return lambda figures: [
        ["", *heads],
        *([name, *cells(value)] for name, value in figures[key].items()),
    ]


# --- What the files hold
# ------------------------------------------------------------------------------


def _systems(figures: Json) -> dict[str, Json]:
    names = {name: SYSTEMS.get(name, (name, ""))[0] for name in figures["rows"]}
    order = [
        *(name for name in SYSTEMS if name in names),
        *(name for name in names if name not in SYSTEMS),
    ]
    return {names[name]: figures["rows"][name] for name in order}


def _quality(figures: Json) -> Rows:
    papers = dict(SYSTEMS.values())
    rows = [
        [
            name,
            percent(row["recall"][("1")]),
            percent(row["recall"]["10"]),
            number(row["texts_per_second"]),
            number(row["bytes"], 1, 1e-6),
            papers.get(name, ""),
        ]
        for name, row in _systems(figures).items()
    ]
    return [["", "R@1", "R@10", "texts/s", "MB", "R@1 of the papers, on Reddit"], *rows]


def _against(key: str, label: str, factor: float) -> Callable[[Axes, Json], None]:
    def draw(axis: Axes, figures: Json) -> None:
        shown = {name: row for name, row in _systems(figures).items() if row[key]}
        for place, (name, row) in enumerate(shown.items()):
            colour = plots.COLOURS[place % 7]
            axis.scatter(
                row[key] * factor,
                row["recall"][("1")][0],
                color=colour,
                marker=plots.MARKERS[place % 8],
                label=name.replace("`", ""),
            )
        # whole decades: their ticks have room
        ends = [math.log10(row[key] * factor) for row in shown.values()]
        limits = 10.0 ** math.floor(min(ends)), 10.0 ** math.ceil(max(ends))
        axis.set(xlabel=label, xscale="log", xlim=limits, ylabel="R@1, %", ylim=(0, None))
        axis.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)

    return draw


def _curves(axis: Axes, figures: Json) -> None:
    for place, (name, points) in enumerate(figures["curves"].items()):
        steps = [point["steps"] for point in points]
        recall = [point["recall"] for point in points]
        axis.plot(
            steps, recall, color=plots.COLOURS[place], marker=plots.MARKERS[place], label=name
        )
    axis.set(xlabel="steps", ylabel="R@1 in validation, %", ylim=(0, None))
    axis.legend(fontsize=7)


def _recall_latency(axis: Axes, figures: Json) -> None:
    for place, row in enumerate(figures["rows"]):
        colour = plots.COLOURS[place]
        marker = plots.MARKERS[place]
        axis.scatter(row["ms"], row["recall"], color=colour, marker=marker, label=row["search"])
    axis.set(
        xscale="log", xlabel="ms, median", ylabel=f"recall of the 30 best of {figures['replies']:,}"
    )
    axis.legend(fontsize=7)


def _limit(axis: Axes, figures: Json) -> None:
    rows = figures["rows"]
    axis.barh(
        list(rows), [100 * row["limit_share"] for row in rows.values()], color=plots.COLOURS[0]
    )
    axis.set(xlim=(0, 100), xlabel="% of what the machine's products could do")
    axis.invert_yaxis()


def _reply_speed(figures: Json) -> Rows:
    # POLY's Table 5 by the name's beginning: ms on 80 cores, of 1,000 and of 100,000 candidates.
    papers = {
        "bi": "115; 160",
        "poly-16": "122; 678",
        "poly-64": "126; 692",
        "cross": "21,700; 2,200,000",
    }
    rows = []
    for row in figures["rows"]:
        name = row["model"].removeprefix("runs/").removesuffix("/model")
        total = number(row["encoding_ms"] + row["scoring_ms"], 1)
        paper = papers.get(name, "").split("; ")
        cells = number(row["encoding_ms"], 1), number(row["scoring_ms"], 1), total
        rows.append(
            [
                name,
                f"{row['candidates']:,}",
                *cells,
                paper[row["candidates"] > 1000] if paper[0] else "",
            ]
        )
    return [
        ["", "candidates", "encoding, ms", "scoring, ms", "both", "POLY's Table 5, 80 cores"],
        *rows,
    ]


def _quantized(figures: Json) -> Rows:
    sizes = figures["bytes"]
    papers = {"ConveRT quantised": "59", "ConveRT multi-context quantised": "73"}
    head = ["", "on disk, MB", "the paper's", "sentences/s", "most memory, MB", "opened in, s"]
    rows = [
        [name, number(size, 1, 1e-6), papers.get(name, ""), "", "", ""]
        for name, size in sizes.items()
    ]
    for name, row in figures["rows"].items():
        cells = number(row["sentences_per_second"]), number(row["peak_memory_bytes"], 0, 1e-6)
        rows.append([name, "", "", *cells, number(row["seconds_to_open"], 1)])
    return [head, *rows]


def _pairs(figures: Json) -> Rows:
    """Return ours, theirs and the ratio of `examples_per_second`."""
    ours = figures["examples_per_second"]["ours"]
    peer = figures["examples_per_second"]["peer"]
    return [
        ["", ("examples/s")],
        ["ours", number(ours, 1)],
        ["sentence-transformers", number(peer, 1)],
        ["ratio", number(figures["ratio"], 2)],
    ]


def _reddit(figures: Json) -> Rows:
    runs = [
        (f"Rejoinder, {count} process{'es' * (count != '1')}", run)
        for key in ("rejoinder", "rejoinder_first_month")
        for count, each in figures[key].items()
        for run in (each if isinstance(each, list) else [each])
    ]
    runs += [(f"Beam, {name}", run) for name, run in figures["beam_part"].items()]
    return [
        ["", "comments", "comments/s", "processor time each, µs", "memory, MB"],
        *(
            [
                name,
                number(run["comments"]),
                number(run["comments_per_second"]),
                number(run["cpu_microseconds_per_comment"], 1),
                number(run["peak_bytes"], 0, 1e-6),
            ]
            for name, run in runs
        ),
    ]


def _tokenizer(figures: Json) -> Rows:
    return [
        ["chit-chat", "messages/s", "times as fast", "at worst"],
        *(
            [
                name,
                number(row["messages_per_second"]),
                number(row["times_as_fast"], 1),
                number(row["times_as_fast_at_worst"], 1),
            ]
            for name, row in figures["encoding"]["chit-chat"].items()
        ),
    ]


def _poly(figures: Json) -> Rows:
    names = list(figures["rows"][0]["ratios"])
    return [
        ["candidates", "m", *names],
        *(
            [
                (f"{row['candidates']:,}"),
                str(row["vectors"]),
                *(number(row["ratios"][name], 2) for name in names),
            ]
            for row in figures["rows"]
        ),
    ]


def _behaviour(row: Json) -> list[str]:
    changes = row["changes of subject"]
    subjects = (
        row[f"right subject, {part}"]
        for part in ("whole conversation", "in a search", "newest message")
    )
    said = f"{row['said before']} of {row['answers']}", "{} of {}".format(*row["in chat"])
    return [*said, *(f"{right} of {changes}" for right in subjects)]


def _serving(figures: Json) -> Rows:
    loads = {
        name: row for name, row in figures.items() if isinstance(row, Mapping) and "p99_ms" in row
    }
    return [
        ["", "requests/s", "median, ms", "99 %, ms"],
        *(
            [
                name.replace(("_"), " "),
                number(row["per_second"]),
                number(row["p50_ms"], 1),
                number(row["p99_ms"], 1),
            ]
            for name, row in loads.items()
        ),
    ]


def _hostile(row: Json) -> list[str]:
    counts = (number(row[name]) for name in ("answers", "wrong"))
    return [*counts, *(number(row[name], 1) for name in ("p50_ms", "p99_ms", "grown_mb"))]


def _milvus(figures: Json) -> Rows:
    disk = "index on disk"
    lite = "milvus-lite"
    seconds = figures["building_seconds"]
    taken = figures["ms"]
    return [
        ["", disk, lite],
        ["building, s", number(seconds[disk]), number(seconds[f"index in {lite}"])],
        ["a conversation alone, ms", number(taken["exact"]), number(taken[lite])],
        [("conversations a second, 200 at once"), "", number(figures["queries_a_second_at_once"])],
        ["of the ten best are found, %", "100", number(figures["recall@10"], 1, 100)],
        [
            ("conversations with the very ten, %"),
            "100",
            number(figures["queries_with_the_very_ten"], 1, 100),
        ],
        ["there after a restart", "", number(figures["there_after_a_restart"])],
        ["MB", "", number(figures["bytes"], 0, 1e-6)],
    ]


def _bounds(figures: Json) -> Rows:
    named = {
        "scored": "that must be scored",
        "scored at most": "of the worst context",
        "in reach": "in cells that a bound cannot leave out",
    }
    rows = [
        [name, *(number(figures[f"best {k}"][key], 3, 100) for k in (1, 10, 100))]
        for key, name in named.items()
    ]
    times = [number(figures[f"{what}, ms"]) for what in ("search", "products alone")]
    return [
        ["replies", "best 1, %", "best 10, %", "best 100, %"],
        *rows,
        ["a search for ten, ms; products alone", *times, ""],
    ]


SECTIONS = {
    "quality": Section(
        "Every system on the demo's conversations",
        (
            "1-of-100 on held-out chit-chat, in % with 95 % intervals. **Other data**:"
            " the papers' figures are of Reddit; 68.2 is ConveRT at the paper's size,"
            " trained on 654 million pairs (multi-context 71.8, n-gram 61.3)."
        ),
        _quality,
        [
            _against(("bytes"), "MB of weights", 1e-6),
            _against("texts_per_second", "texts/s", 1),
            _curves,
        ],
    ),
    "personas": Section(
        ("Personas"),
        (
            "ConvAI2's validation dialogues, R@1 of 100, in %."
            " Half of them chose `model.persona_weight`."
        ),
        _named("recall at 1, low, high", ["R@1"], lambda value: [percent(value)]),
    ),
    "behaviour": Section(
        ("Behaviour in conversation"),
        "50 dialogues answered with the best of 2,000 replies; 50 changes of subject.",
        _named(
            ("models"),
            [
                "answers said before",
                "as `rejoinder chat` searches",
                "right subject, whole conversation",
                "as a search reads it",
                "newest message alone",
            ],
            _behaviour,
        ),
    ),
    "encoding": Section(
        "Encoding",
        "640 chat messages, tokenisation included; one sentence alone.",
        _named(
            "rows",
            ["sentences/s", "one sentence, ms", "% of the limit"],
            lambda row: [
                number(row["sentences_per_second"]),
                number(row["one_sentence_ms"], 2),
                number(row["limit_share"], 0, 100),
            ],
        ),
    ),
    "single_text": Section(
        "One short text",
        "Texts of 14 tokens, one at a time.",
        _named("milliseconds", ["ms"], lambda value: [number(value, 2)]),
    ),
    "quantized": Section(
        "Few bits at the paper's sizes",
        "Random weights. The paper's are megabytes, too.",
        _quantized,
    ),
    "training": Section(
        "Training against the machine's limit",
        (
            "The limit counts products with weights on real tokens. **Other machines**:"
            " ConveRT's paper has 14.7 steps of 512 a second on 12 GPUs, 7,526 examples."
        ),
        _named(
            "rows",
            ["examples/s", "tokens/s", "padding, %", "% of the limit"],
            lambda row: [
                number(row[("examples_per_second")]),
                number(row["real_tokens_per_second"]),
                number(row[("padding_share")], 1, 100),
                number(row["limit_share"], 0, 100),
            ],
        ),
        [_limit],
    ),
    "trainer": Section(
        "Training beside sentence-transformers", "A BERT of ConveRT's layers and width.", _pairs
    ),
    "bi_trainer": Section(
        "Bi-encoder's training beside sentence-transformers",
        "MiniLM's weights; ours updates two transformers, theirs one.",
        _pairs,
    ),
    "cross_scoring": Section(
        "Cross-encoder",
        "Pairs scored a second, MiniLM's weights.",
        _named(
            "precisions",
            ["pairs/s", "sentence-transformers", "ratio"],
            lambda row: [
                number(row[("ours")], 1),
                number(row["peer"], 1),
                number(row["ours"] / row["peer"], 2),
            ],
        ),
    ),
    "approximate": Section(
        "Recall against latency of the searches",
        (
            "**Other data**: ACL19's HNSW is 130 times as fast as its exact search at 95 %"
            " of the 30 best; of how many replies, and how fast exact search was, it does not say."
        ),
        lambda figures: [
            ["", "recall@30", "median, ms", "times as fast as exact"],
            *(
                [
                    row["search"],
                    number(row["recall"], 3),
                    number(row["ms"], 2),
                    number(figures["rows"][0]["ms"] / row["ms"], 0),
                ]
                for row in figures[("rows")]
            ),
        ],
        [_recall_latency],
    ),
    "poly_bounds": Section(
        "Exact search with sixteen vectors",
        (
            "A million messages of open conversations,"
            " vectors of 256 numbers, 15 contexts, m = 16; other work beside."
        ),
        _bounds,
    ),
    "milvus": Section(
        "An index in Milvus",
        "Messages of chit-chat, vectors of 256 numbers, the ten best.",
        _milvus,
    ),
    "extras": Section(
        "What an extra adds",
        "Files of an extra and of all that it needs, in MB, beside the base.",
        lambda figures: [
            ["", "MB"],
            ["base", f"{number(figures['base'])}, of which PyTorch {number(figures['PyTorch'])}"],
            *([name, number(value)] for name, value in figures["extras"].items()),
        ],
    ),
    "exact_search": Section(
        "A scan of all replies in 8 bits",
        (
            "Medians of one query at a time, the ten best, in ms;"
            " how often they are the very ones of float32."
        ),
        lambda figures: [
            [
                ("replies"),
                "numbers",
                *figures["rows"][0]["ms"],
                "times as fast as FAISS",
                "the very ten",
            ],
            *(
                [
                    (f"{row['replies']:,}"),
                    str(row["size"]),
                    *(number(ms, 1) for ms in row["ms"].values()),
                    number(row["times FAISS"], 2),
                    (f"{row['same ten']:.1%}"),
                ]
                for row in figures["rows"]
            ),
        ],
    ),
    "poly_scoring": Section("Poly-encoder scoring", "Ratios of times.", _poly),
    "reply_speed": Section(
        "Time to pick a reply",
        "MiniLM's sizes on one thread. **Other models**: the paper's are of BERT's size.",
        _reply_speed,
    ),
    "ngram": Section(
        "The n-gram dual encoder",
        "Texts encoded a second.",
        _named("encoding", ["texts/s"], lambda value: [number(value)]),
    ),
    "serving": Section(
        "Serving", "A load generator with up to 64 connections on the same machine.", _serving
    ),
    "hostile": Section(
        "Honest clients beside hostile ones",
        "Two honest clients, and two hostile ones of a kind, on the same machine.",
        _named(
            ("rows"),
            ["answers", "wrong ones", "median, ms", "99 %, ms", "MB more at the peak"],
            _hostile,
        ),
    ),
    "tokenizer": Section(
        "Tokenizer", "10,000 chat messages beside WordPiece of the library tokenizers.", _tokenizer
    ),
    "reddit": Section(
        "Building examples",
        "Invented comments of 1 KB, beside the same rules in Apache Beam.",
        _reddit,
    ),
}


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read a command line."""
    parser = argparse.ArgumentParser(
        prog="python -m workshop.results",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="files of figures, in recorded/ those copied")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder to write")
    return parser.parse_args(words)


def main() -> None:
    """Run from the shell."""
    options = arguments()
    for path in write_results(options.folder, options.output):
        print(path)


if __name__ == "__main__":
    guarded(main)()

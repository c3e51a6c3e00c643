"""What the files of figures hold, and how a page of results shows each (see `results`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from workshop.result_pictures import SYSTEMS, Json, against, curves, limit, recall_latency, systems

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rows: TypeAlias = list[list[str]]


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


def _peers(row: Json) -> str:
    """Return each figure of the peer with its circumstances."""
    named = {name: value for name, value in row.items() if name.startswith("peer")}
    parts = []
    for name, value in named.items():
        how = name.removeprefix("peer").replace("_", " ").strip()
        parts.append(f"{number(value)}{f' ({how})' if how else ''}")
    return ", ".join(parts)


def percent(value: Sequence[float]) -> str:
    """Return a share and its interval, both in % already."""
    return f"{value[0]:.1f} [{value[1]:.1f}, {value[2]:.1f}]"


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


def _quality(figures: Json) -> Rows:
    papers = dict(SYSTEMS.values())
    rows = [
        [
            name,
            percent(row["recall"]["1"]),
            percent(row["recall"]["10"]),
            number(row["texts_per_second"]),
            number(row["bytes"], 1, 1e-6),
            papers.get(name, ""),
        ]
        for name, row in systems(figures).items()
    ]
    return [["", "R@1", "R@10", "texts/s", "MB", "R@1 of the papers, on Reddit"], *rows]


def _poly(figures: Json) -> Rows:
    names = ("attended / least work", "attended / scores, float32", "attended / best ten, float32")
    return [
        ["candidates", "m", "least work", "all scores", "best ten"],
        *(
            [
                f"{row['candidates']:,}",
                str(row["vectors"]),
                *(number(row["ratios"][name], 2) for name in names),
            ]
            for row in figures["rows"]
        ),
    ]


def _reply_speed(figures: Json) -> Rows:
    # POLY's Table 5 by the name's beginning: ms on 80 cores, of 1,000 and of 100,000 candidates.
    papers = {
        "bi": ("115", "160"),
        "poly-16": ("122", "678"),
        "poly-64": ("126", "692"),
        "poly-360": ("160", "837"),
        "cross": ("21,700", "2,200,000"),
    }
    totals: dict[str, list[str]] = {}
    for row in figures["rows"]:
        name = row["model"].removeprefix("runs/").removesuffix("/model")
        totals.setdefault(name, []).append(number(row["encoding_ms"] + row["scoring_ms"], 1))
    counts = sorted({row["candidates"] for row in figures["rows"]})
    heads = [head for count in counts for head in (f"{count:,}, ms", "POLY's Table 5")]
    rows = [
        [
            name,
            *(
                cell
                for pair in zip(cells, papers.get(name, ("", "")), strict=True)
                for cell in pair
            ),
        ]
        for name, cells in totals.items()
    ]
    return [["candidates", *heads], *rows]


def _quantized(figures: Json) -> Rows:
    papers = {"ConveRT quantised": "59", "ConveRT multi-context quantised": "73"}
    rows = [
        [f"{name} (the paper: {paper})", number(figures["bytes"][name], 1, 1e-6), "", "", ""]
        for name, paper in papers.items()
    ]
    for name, row in figures["rows"].items():
        if name.startswith("ConveRT"):
            cells = number(row["sentences_per_second"]), number(row["peak_memory_bytes"], 0, 1e-6)
            rows.append([name, "", *cells, number(row["seconds_to_open"], 1)])
    return [["", "MB on disk", "sentences/s", "MB of memory", "opened in, s"], *rows]


def _pairs(figures: Json) -> Rows:
    """Return ours, theirs and the ratio of `examples_per_second`."""
    ours = figures["examples_per_second"]["ours"]
    peer = figures["examples_per_second"]["peer"]
    return [
        ["", "examples/s"],
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
        ["", "comments", "comments/s", "MB"],
        *(
            [
                name,
                number(run["comments"]),
                number(run["comments_per_second"]),
                number(run["peak_bytes"], 0, 1e-6),
            ]
            for name, run in runs
        ),
    ]


def _encoding(figures: Json) -> Rows:
    columns = ["fp32", "bf16", "int8", "onnxruntime fp32", "onnxruntime int8"]
    cells: dict[str, dict[str, str]] = {}
    for name, row in figures["rows"].items():
        column = next(end for end in reversed(columns) if name.endswith(end))
        model = name.removesuffix(f" {column}").removesuffix(" sentence-transformers")
        both = number(row["sentences_per_second"]), number(row["one_sentence_ms"], 2)
        cells.setdefault(model, {})[column] = "; ".join(both)
    rows = [[name, *(row.get(column, "") for column in columns)] for name, row in cells.items()]
    return [["", *columns], *rows]


def _onnx_int8(figures: Json) -> Rows:
    columns = ["fp32", "int8"]
    rows = [["", *columns, "R@1 fp32", "R@1 int8", "difference"]]
    for processor, found in figures["processors"].items():
        for model in dict.fromkeys(name.rpartition(" ")[0] for name in found["speed"]):
            speeds = [found["speed"][f"{model} {column}"] for column in columns]
            cells = [
                f"{number(each['sentences_per_second'])}; {number(each['one_sentence_ms'], 2)}"
                for each in speeds
            ]
            recall = found["recall"].get(model)
            cells += ["", "", ""] if recall is None else _difference(recall)
            rows.append([f"{model}, {processor}", *cells])
    return rows


def _difference(recall: Json) -> list[str]:
    bounds = f"[{recall['low']:+.2f}, {recall['high']:+.2f}]"
    shares = [number(recall[each], 1) for each in ("fp32", "int8")]
    return [*shares, f"{recall['difference']:+.2f} {bounds}"]


def _index_build(figures: Json) -> Rows:
    return [
        ["", "replies/s", "peak, MB"],
        *(
            [name, number(figures["replies_per_second"][key], 0), number(figures["peak_mb"][key])]
            for key, name in (("encode", "encoder alone"), ("build", "index"))
        ),
        ["ratios", ", ".join(number(ratio, 2) for ratio in figures["ratios"]), ""],
    ]


def _behaviour(figures: Json) -> Rows:
    models = figures["models"]
    answers, changes = (
        next(iter(models.values()))[key] for key in ("answers", "changes of subject")
    )
    heads = f"repeated, of {answers} answers", "in `rejoinder chat`"
    subjects = f"right subject, of {changes}", "in a search"
    rows = [
        [
            name,
            number(row["said before"]),
            number(row["in chat"][0]),
            number(row["right subject, whole conversation"]),
            number(row["right subject, in a search"]),
        ]
        for name, row in models.items()
    ]
    return [["", *heads, *subjects], *rows]


def _serving(figures: Json) -> Rows:
    loads = {
        name: row for name, row in figures.items() if isinstance(row, Mapping) and "p99_ms" in row
    }
    return [
        ["", "requests/s", "median, ms", "99 %, ms"],
        *(
            [
                name.replace("_", " "),
                number(row["per_second"]),
                number(row["p50_ms"], 1),
                number(row["p99_ms"], 1),
            ]
            for name, row in loads.items()
        ),
    ]


def _hostile(row: Json) -> list[str]:
    return [number(row["wrong"]), number(row["p99_ms"], 1), number(row["grown_mb"], 1)]


def _stores(figures: Json) -> Rows:
    stores = figures["stores"]

    def row(title: str, value: Callable[[Json], str]) -> list[str]:
        return [title, *(value(each) for each in stores.values())]

    def beside(figures: Json, what: str, name: str) -> str:
        return number(figures.get(what, {}).get(name), 1)

    return [
        ["", *stores],
        row("building, s", lambda each: number(each["building_seconds"])),
        row("one search, ms", lambda each: number(each["exact"]["ms"], 1)),
        row("tuning, s", lambda each: number(each["tuning_seconds"])),
        row("one search by graphs, ms", lambda each: number(each["graph"]["ms"], 1)),
        row("of the ten best, %", lambda each: number(each["graph"]["recall@10"], 1, 100)),
        row("the graphs' part of it, ms", lambda each: number(each["named"]["ms"], 1)),
        row("with a filter of 1 %, ms", lambda each: number(each["filtered"]["ms"], 1)),
        row("of the ten best, %", lambda each: number(each["filtered"]["recall@10"], 1, 100)),
        row("MB", lambda each: number(each["bytes"], 0, 1e-6)),
        row("a process, MB", lambda each: number(each["process_bytes"], 0, 1e-6)),
        row("additions and deletions a second", lambda each: beside(each, "changes", "a_second")),
        row("one search meanwhile, ms", lambda each: beside(each, "changes", "ms")),
        row("by another process", lambda each: beside(each, "changes_elsewhere", "a_second")),
        row("one search meanwhile, ms", lambda each: beside(each, "changes_elsewhere", "ms")),
        row("choices logged a second", lambda each: beside(each, "feedback", "a_second")),
        row("one search meanwhile, ms", lambda each: beside(each, "feedback", "ms")),
    ]


def _several_servers(figures: Json) -> Rows:
    rows = []
    for name, row in figures["servers"].items():
        seen = row.get("seen_ms", {})
        changing = row.get("changing", {})
        rows.append(
            [
                name.replace("1 servers", "1 server"),
                number(row["per_second"]),
                number(row["p50_ms"], 1),
                number(row["p99_ms"], 1),
                number(seen.get("median")),
                number(seen.get("most")),
                number(changing.get("a_second")),
                number(changing.get("ms"), 1),
                number(changing.get("search_ms"), 1),
            ]
        )
    return [
        [
            "",
            "requests/s",
            "median, ms",
            "99 %, ms",
            "change seen by all, ms",
            "at most, ms",
            "additions/s",
            "median, ms",
            "a search meanwhile, ms",
        ],
        *rows,
    ]


def _growing_chats(figures: Json) -> Rows:
    rows = [
        [
            model,
            number(row["growing"]["per_second"]),
            number(row["forgotten"]["per_second"]),
            number(row["ratio"], 2),
            number(row["growing"]["p50_ms"]),
            number(row["forgotten"]["p50_ms"]),
        ]
        for model, row in figures["servers"].items()
    ]
    return [
        ["", "requests/s", "forgotten", "times", "median, ms", "forgotten"],
        *rows,
    ]


def _bounds(figures: Json) -> Rows:
    named = {
        "scored": "that must be scored",
        "scored at most": "of the worst context",
        "in reach": "in cells that a bound cannot exclude",
    }
    rows = [
        [name, *(number(figures[f"best {k}"][key], 3, 100) for k in (1, 10, 100))]
        for key, name in named.items()
    ]
    return [["replies", "best 1, %", "best 10, %", "best 100, %"], *rows]


SECTIONS: dict[str, Section] = {
    "quality": Section(
        "Every system on the demo's conversations",
        (
            "1-of-100 on held-out chit-chat, in % with 95 % intervals. The papers' figures are of"
            " Reddit: 68.2 is ConveRT trained on 654 million pairs. USE, Model2Vec, mpnet, ConveRT"
            " from scratch and the fine-tuned `convert-small` ran on 2026-11-24, on a slower"
            " machine of this kind, `bi-base` and `bi-large` on 2026-11-26."
        ),
        _quality,
        [
            against("bytes", "MB of weights", 1e-6),
            against("texts_per_second", "texts/s", 1),
            curves,
        ],
    ),
    "personas": Section(
        ("Personas"),
        (
            "ConvAI2's validation dialogues, R@1 of 100, in %. `model.persona_weight` was chosen on"
            " half of them."
        ),
        _named("recall at 1, low, high", ["R@1"], lambda value: [percent(value)]),
    ),
    "behaviour": Section(
        ("Behaviour in conversation"),
        "50 dialogues, 2,000 replies, and 50 changes of subject.",
        _behaviour,
    ),
    "encoding": Section(
        "Encoding",
        ("640 chat messages with tokenisation, sentences a second; one sentence alone, ms."),
        _encoding,
    ),
    "onnx_int8": Section(
        "Encoding without PyTorch",
        (
            "ONNX programs on one thread: chat messages a second; one alone, ms. Recall of replies"
            " is of validation examples, with a paired interval of the difference. AVX2 is the same"
            " processor with AVX-512 and VNNI hidden from onnxruntime."
        ),
        _onnx_int8,
    ),
    "processors": Section(
        "Encoding by instruction set",
        (
            "Chat messages a second on one processor, with instructions hidden by settings of"
            " PyTorch and oneDNN. Its speed varied between rows, so compare within a row."
        ),
        _named(
            "rows",
            ["fp32", "bf16", "int8", "int8 / fp32"],
            lambda row: [
                *(number(row[precision]) for precision in ("fp32", "bf16", "int8")),
                number(row["int8 / fp32"], 2),
            ],
        ),
    ),
    "quantized": Section(
        "Few bits at the paper's sizes",
        "Random weights.",
        _quantized,
    ),
    "training": Section(
        "Training against the machine's limit",
        (
            "The limit counts products with weights on real tokens. ConveRT's paper has 14.7 steps"
            " of 512 examples a second on 12 GPUs: 7,526 examples."
        ),
        _named(
            "rows",
            ["examples/s", "tokens/s", "% of the limit"],
            lambda row: [
                number(row["examples_per_second"]),
                number(row["real_tokens_per_second"]),
                number(row["limit_share"], 0, 100),
            ],
        ),
        [limit],
    ),
    "gpu": Section(
        "A card beside sentence-transformers",
        "The same weights, texts, batches and precision (bf16). In training Rejoinder tokenises"
        " once, before; the peer in every step unless a row says otherwise. `busy` is the card's"
        " utilisation in our part.",
        lambda figures: [
            ["", "unit", "Rejoinder", "busy, %", "sentence-transformers"],
            *(
                [row["piece"], row["unit"], number(row["ours"]), number(row["busy"]), _peers(row)]
                for row in figures["rows"]
            ),
        ],
    ),
    "launches": Section(
        "Operators of a training step on a card",
        "Beside PyTorch's own encoder of the same shape, whatever the lengths of the texts.",
        lambda figures: [
            ["", "Rejoinder", "PyTorch's encoder", "ratio"],
            *(
                [
                    row["model"],
                    number(row["ours"]),
                    number(row["plain"]),
                    number(row["ours"] / row["plain"], 2),
                ]
                for row in figures["rows"]
            ),
        ],
    ),
    "trainer": Section(
        "Training beside sentence-transformers",
        "A BERT with ConveRT's number of layers and width.",
        _pairs,
    ),
    "bi_trainer": Section(
        "Bi-encoder's training beside sentence-transformers",
        "MiniLM's weights. Rejoinder updates two transformers, the other one.",
        _pairs,
    ),
    "cross_scoring": Section(
        "Cross-encoder",
        "Pairs scored a second, with MiniLM's weights.",
        _named(
            "precisions",
            ["pairs/s", "sentence-transformers", "ratio"],
            lambda row: [
                number(row["ours"], 1),
                number(row["peer"], 1),
                number(row["ours"] / row["peer"], 2),
            ],
        ),
    ),
    "approximate": Section(
        "Recall against latency of the searches",
        (
            "ACL19's HNSW is 130 times as fast as its exact search, whose size and speed it does"
            " not give."
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
                for row in figures["rows"]
            ),
        ],
        [recall_latency],
    ),
    "poly_bounds": Section(
        "Exact search with sixteen vectors",
        ("A million messages, vectors of 256 numbers, 15 contexts, m = 16."),
        _bounds,
    ),
    "stores": Section(
        "An index in a database",
        "Messages of chit-chat, the ten best; searches one by one, encoding included. At most 100 "
        "changes a second were tried. milvus-lite's column is of an earlier run of that day.",
        _stores,
    ),
    "stores_large": Section(
        "A million replies in a database",
        "Responses of conversations, the ten best; searches one by one, encoding included. "
        "PostgreSQL has 4 GB of shared_buffers; with its default, 128 MB, a search by graphs took "
        "twice as long. At most 100 changes a second were tried. The folder is tuned to 95 % of "
        "the 30 best, PostgreSQL to 93 %. Building and tuning shared the cores with other work.",
        _stores,
    ),
    "several_servers": Section(
        "Several servers over one database",
        "10,000 replies, 64 connections, PostgreSQL and the clients on the same two cores. At most "
        "100 additions a second were tried, beside 100 searches a second.",
        _several_servers,
    ),
    "growing_chats": Section(
        "Chats that grow",
        "One server, 1,000 replies, 64 connections; the load generator is on the same two cores. "
        "Chats are asked about with 1, 3, 5, 7 and 9 messages. Forgotten: the same requests, so "
        "far apart that the server no longer has what it has read of the earlier messages.",
        _growing_chats,
    ),
    "extras": Section(
        "What an extra adds",
        "MB, dependencies included.",
        lambda figures: [
            ["", "MB"],
            ["base", number(figures["base"])],
            *(
                [
                    ", without ".join([name, *figures["not installed here"].get(name, [])]),
                    number(value),
                ]
                for name, value in figures["extras"].items()
            ),
        ],
    ),
    "exact_search": Section(
        "A scan of all replies in 8 bits",
        ("Medians of a query for the ten best, in ms; how often float32 finds the same ten."),
        lambda figures: [
            [
                ("replies"),
                "numbers",
                *figures["rows"][0]["ms"],
                "times as fast as FAISS",
                "same ten",
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
    "poly_scoring": Section(
        "Poly-encoder scoring",
        "How many times as fast as POLY's form, which builds attended vectors."
        " **Least work**: products with a packed context and a softmax, the bound of any form."
        " The ten best of 1,000 take 0.3 to 4 ms.",
        _poly,
    ),
    "reply_speed": Section(
        "Time to pick a reply",
        "MiniLM's sizes on one thread; POLY's models have BERT's size, on 80 cores.",
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
        "Two honest clients beside two hostile ones of each kind.",
        _named(
            ("rows"),
            ["wrong answers", "99 %, ms", "MB more"],
            _hostile,
        ),
    ),
    "reddit": Section(
        "Building examples",
        "Invented comments of 1 KB.",
        _reddit,
    ),
    "index_build": Section("Index build", "20,000 replies, one thread.", _index_build),
}

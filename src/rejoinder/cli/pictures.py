"""`rejoinder plot` and `calibrate`: encodings and probabilities, measured and drawn."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from rejoinder.cli.arguments import (
    EXAMPLES,
    Earlier,
    IndexFolder,
    Json,
    Rankers,
    open_index,
    read_sample,
    report_truncated,
)
from rejoinder.cli.evaluate import FitOn
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError
from rejoinder.progress import track

if TYPE_CHECKING:
    from rejoinder.arrays import FloatArray
    from rejoinder.corpora import Example
    from rejoinder.evaluation.plots import Probabilities, Right

_ENCODED_AT_ONCE = 512  # texts between two steps of the progress bar
THRESHOLDS = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
PRECISION = 0.9


Panels: TypeAlias = Annotated[
    list[str],
    typer.Argument(metavar="MODEL...", help="An encoder, as for evaluate; or TITLE=MODEL."),
]
Texts: TypeAlias = Annotated[
    Path, typer.Option(metavar="FILE", help="CSV with the columns text and category, or JSONL.")
]
Picture: TypeAlias = Annotated[
    Path, typer.Option("--output", "-o", metavar="PICTURE", help="A .png, .svg or .pdf to write.")
]
Method: TypeAlias = Annotated[
    Literal["tsne", "pca"], typer.Option(help="Projection to two dimensions.")
]
Perplexity: TypeAlias = Annotated[
    float,
    typer.Option(min=1, metavar="N", help=("Perplexity of t-SNE: about the number of neighbours.")),
]
Categories: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="N|NAME",
        help="Number of the largest categories to show, or a category; repeatable. Default: 10.",
    ),
]
AtMost: TypeAlias = Annotated[
    int, typer.Option(min=3, metavar="N", help="At most N texts, drawn at random.")
]


def plot(
    models: Panels,
    data: Texts,
    output: Picture,
    method: Method = "tsne",
    perplexity: Perplexity = 30.0,
    categories: Categories = None,
    limit: AtMost = 2000,
    fit_on: FitOn = None,
    as_json: Json = False,
) -> None:
    """Draw encoded texts, coloured by category, a panel for each model.

    The purity below each panel is the share of a text's 10 nearest neighbours, by cosine, in
    its category.

    Example: rejoinder plot DIRECT=runs/general/model MiniLM=sim:minilm --data banking77/test.csv -o
    banking.png
    """
    from rejoinder.evaluation import plots
    from rejoinder.files import atomic_file
    from rejoinder.intents.data import read_intents

    kind = plots.picture_kind(output)
    plots.require("matplotlib.figure")
    plots.require("sklearn", "a projection of encodings")
    read = read_intents(data)
    rows = [(text, category) for text, (category,) in zip(read.texts, read.labels, strict=True)]
    order = _categories(rows, categories or ["10"])
    rows = [row for row in rows if row[1] in order]
    drawn = sorted(random.Random(0).sample(range(len(rows)), min(limit, len(rows))))
    texts = [rows[place][0] for place in drawn]
    kinds = [rows[place][1] for place in drawn]
    panels: list[plots.Panel] = []
    found: list[dict[str, Any]] = []
    lines = [f"{len(texts):,} texts of {len(order)} categories"]
    for model in models:
        title, spec = split_title(model)
        vectors = _encode(spec, texts, fit_on)
        purity = plots.neighbour_purity(vectors, kinds, plots.NEIGHBOURS)
        caption = f"{plots.NEIGHBOURS}-neighbour purity {100 * purity:.1f} %"
        points = plots.project(vectors, method, perplexity=perplexity)
        panels.append(plots.Panel(title, points, caption))
        found.append({"title": title, "model": spec, "purity": purity})
        lines.append(f"{title}: {caption}")
    figure = plots.draw_panels(panels, kinds, order)
    with atomic_file(output) as part:
        plots.save_figure(figure, part, kind)
    result = {"picture": output, "texts": len(texts), "categories": order, "method": method}
    result |= {"neighbours": plots.NEIGHBOURS, "models": found}
    emit(result, as_json, lambda _: "\n".join([*lines, f"picture: {output}"]))


def _categories(rows: Sequence[tuple[str, str]], wanted: Sequence[str]) -> list[str]:
    """Return the categories to draw: a number of those with the most texts, or named ones."""
    counts = Counter(category for _, category in rows)
    if len(wanted) == 1 and wanted[0].isdecimal():
        if int(wanted[0]) < 2:
            raise InputError(f"--categories {wanted[0]}: a picture needs 2 or more")
        return [category for category, _ in counts.most_common(int(wanted[0]))]
    if unknown := [category for category in wanted if category not in counts]:
        raise InputError(f"there is no category '{unknown[0]}'; there are {', '.join(counts)}")
    return list(dict.fromkeys(wanted))


def split_title(model: str) -> tuple[str, str]:
    """Return title and model of "TITLE=MODEL"; anything else is its own title."""
    title, equals, spec = model.partition("=")
    if not equals or Path(model).exists():
        return model, model
    if not title.strip() or not spec.strip():
        raise InputError(f"{model!r}: write TITLE=MODEL, or MODEL alone")
    return title.strip(), spec.strip()


def _encode(spec: str, texts: Sequence[str], fit_on: Path | None) -> FloatArray:
    """Encode texts, each as a conversation of one message: (n, d)."""
    import numpy as np

    from rejoinder.encoders import ContextVectors, DualEncoder
    from rejoinder.evaluation.tasks import training_examples

    def training() -> Sequence[Example]:
        if fit_on is None:
            raise InputError(
                f"{spec} learns from examples before it encodes; name some with --fit-on DATA"
            )
        return training_examples(fit_on, fit_on, "test")

    ranker, learned = Rankers().open(spec, training)
    if not isinstance(ranker, DualEncoder):
        raise InputError(
            f"{spec} gives scores and no vectors, so there is nothing to draw;"
            " name a model that encodes"
        )
    pieces = []
    with track(f"Encoding with {spec}", total=len(texts), unit="texts") as advance:
        for start in range(0, len(texts), _ENCODED_AT_ONCE):
            piece = texts[start : start + _ENCODED_AT_ONCE]
            # responses of a fitted ranker: MAP changes only these
            contexts = [[text] for text in piece]
            vectors = (
                ranker.encode_contexts(contexts)
                if learned is None
                else ranker.encode_responses(piece)
            )
            if isinstance(vectors, ContextVectors):
                raise InputError(
                    f"{spec} gives a conversation several vectors; name a model that gives one"
                )
            pieces.append(vectors)
            advance(len(piece))
    return np.concatenate(pieces)


Data: TypeAlias = Annotated[
    Path,
    typer.Option(
        metavar="DATA",
        help="Conversations with their replies, outside the training data, of a folder its split"
        f" valid: up to {EXAMPLES:,} at random.",
    ),
]


def calibrate(
    index: IndexFolder,
    data: Data,
    context: Earlier = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="PICTURE", help="Picture to write: .png, .svg or .pdf."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Learn from conversations the probability that the best reply is right.

    `reply` and `chat` use it with --min-confidence. The reply that was sent, or one with the same
    words, is right. If the index lacks it, no reply is right. The calibration is kept in the index.
    It becomes invalid when replies are added or deleted. The figures are cross-validated.

    Example: rejoinder calibrate replies.index --data data/support -o calibration.png
    """
    from rejoinder.evaluation import plots
    from rejoinder.files import atomic_file
    from rejoinder.retrieval.calibration import calibrate as fit_calibration

    if picture is not None:
        kind = plots.picture_kind(picture)
        plots.require("matplotlib.figure")
    opened = open_index(index)
    with track(f"Reading {data}") as advance:
        examples = read_sample(data, advance)
    with track("Searching", total=len(examples), unit="examples") as advance:
        fit = fit_calibration(opened, examples, history=context, progress=advance)
    report_truncated(opened.encoder, "messages")
    fit.calibration.save(index)
    if picture is not None:
        with atomic_file(picture) as file:
            drawn = plots.draw_calibration(fit.probabilities, fit.right, f"{index} on {data}")
            plots.save_figure(drawn, file, kind)
    result = {
        "index": str(index),
        "data": str(data),
        "examples": len(examples),
        "right": int(fit.right.sum()),
        "without_right_reply": fit.absent,
        **_figures(fit.probabilities, fit.right),
        "picture": None if picture is None else str(picture),
    }
    emit(result, as_json, _text)


def _figures(probabilities: Probabilities, right: Right) -> dict[str, Any]:
    """Return how well the best replies' probabilities match how often they are right."""
    from rejoinder.evaluation import plots

    precise = plots.for_precision(probabilities, right, PRECISION)
    thresholds = [plots.at_threshold(probabilities, right, threshold) for threshold in THRESHOLDS]
    return {
        "calibration_error": plots.calibration_error(probabilities, right),
        "bins": [part._asdict() for part in plots.bins(probabilities, right)],
        "thresholds": [point._asdict() for point in thresholds],
        "precision": {"wanted": PRECISION, **(precise._asdict() if precise else {})},
    }


def _text(result: Mapping[str, Any]) -> str:
    count = result["examples"]
    lines = [
        f"{count:,} examples; {result['without_right_reply']:,} have a reply that the index lacks",
        f"the best reply is right in {result['right']:,} ({result['right'] / count:.1%})",
        f"expected calibration error {result['calibration_error']:.3f}",
        "",
        "--min-confidence  answered  of these right",
    ]
    for point in result["thresholds"]:
        right = f"{point['precision']:15.1%}" if point["coverage"] else "              -"
        lines.append(f"{point['threshold']:16g}  {point['coverage']:8.1%}  {right}")
    precise = result["precision"]
    wanted = f"{PRECISION:.0%} of the answers are right"
    if "threshold" in precise:
        lines.append(
            f"{wanted} from {precise['threshold']:.3f} on, which answers {precise['coverage']:.1%}"
        )
    else:
        lines.append(f"at no threshold {wanted}")
    lines += [result["picture"]] if result["picture"] else []
    return "\n".join(
        [*lines, f'Try: rejoinder reply {result["index"]} "How are you?" --min-confidence 0.8']
    )

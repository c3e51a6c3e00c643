"""`rejoinder lab plot`: encoded texts in two dimensions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from rejoinder.cli.arguments import Json
from rejoinder.cli.evaluate import FitOn
from rejoinder.cli.intents import note_reading
from rejoinder.cli.models import OpenRankers
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError
from rejoinder.progress import counted, track

if TYPE_CHECKING:
    from rejoinder.arrays import FloatArray
    from rejoinder.corpora.schema import Example

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
Projection: TypeAlias = Annotated[
    Literal["tsne", "pca"], typer.Option("--projection", help="Projection to two dimensions.")
]
Perplexity: TypeAlias = Annotated[
    float | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Perplexity of t-SNE: about the number of neighbours. Default: 30, less of few texts.",
    ),
]
Categories: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="N|NAME",
        help="Number of the largest categories to show, or a category; repeatable. Default: 10.",
    ),
]
AtMost: TypeAlias = Annotated[
    int, typer.Option("--sample", min=3, metavar="N", help="Use at most N random texts.")
]


def plot(
    models: Panels,
    data: Texts,
    output: Picture,
    projection: Projection = "tsne",
    perplexity: Perplexity = None,
    categories: Categories = None,
    sampled: AtMost = 2000,
    fit_on: FitOn = None,
    as_json: Json = False,
) -> None:
    """Draw encoded texts, coloured by category, a panel for each model.

    The purity below each panel is the share of a text's 10 nearest neighbours, by cosine, in
    its category.

    Example: rejoinder lab plot DIRECT=runs/general/model MiniLM=sim:minilm --data
    banking77/test.csv -o banking.png
    """
    from rejoinder.evaluation import plots
    from rejoinder.files import atomic_file
    from rejoinder.intents.reading.texts import read_intents
    from rejoinder.lab.encodings import choose_categories
    from rejoinder.lab.panels import Panel, draw_panels
    from rejoinder.lab.purity import NEIGHBOURS, neighbour_purity

    kind = plots.picture_kind(output)
    plots.require("matplotlib.figure")
    plots.require("sklearn", "a projection of encodings")
    read = read_intents(data)
    note_reading(read)
    rows = [(text, category) for text, (category,) in zip(read.texts, read.labels, strict=True)]
    order = choose_categories(rows, categories or ["10"])
    rows = [row for row in rows if row[1] in order]
    drawn = sorted(random.Random(0).sample(range(len(rows)), min(sampled, len(rows))))
    texts = [rows[row][0] for row in drawn]
    kinds = [rows[row][1] for row in drawn]
    panels: list[Panel] = []
    purities: list[dict[str, Any]] = []
    lines = [f"{counted(len(texts), 'text')} of {counted(len(order), 'category', 'categories')}"]
    for model in models:
        title, spec = split_title(model)
        vectors = _encode(spec, texts, fit_on)
        purity = neighbour_purity(vectors, kinds, NEIGHBOURS)
        caption = f"{NEIGHBOURS}-neighbour purity {100 * purity:.1f} %"
        points = plots.project(vectors, projection, perplexity=perplexity)
        panels.append(Panel(title, points, caption))
        purities.append({"title": title, "model": spec, "purity": purity})
        lines.append(f"{title}: {caption}")
    figure = draw_panels(panels, kinds, order)
    with atomic_file(output) as part:
        plots.save_figure(figure, part, kind)
    result = {"picture": output, "texts": len(texts), "categories": order, "projection": projection}
    result |= {"neighbours": NEIGHBOURS, "models": purities}
    emit(result, as_json, lambda _: "\n".join([*lines, f"picture: {output}"]))


def split_title(model: str) -> tuple[str, str]:
    """Return title and model of "TITLE=MODEL"; anything else is its own title."""
    title, equals, spec = model.partition("=")
    if not equals or Path(model).exists():
        return model, model
    if not title.strip() or not spec.strip():
        raise InputError(f"{model!r}: write TITLE=MODEL, or MODEL alone")
    return title.strip(), spec.strip()


def _encode(spec: str, texts: Sequence[str], fit_on: Path | None) -> FloatArray:
    from rejoinder.evaluation.tasks import training_examples
    from rejoinder.lab.encodings import encode_texts

    def training() -> Sequence[Example]:
        if fit_on is None:
            raise InputError(
                f"{spec} learns from examples before it encodes; name some with --fit-on DATA"
            )
        return training_examples(fit_on, fit_on, "test")

    ranker, learned = OpenRankers().open(spec, training)
    with track(f"Encoding with {spec}", total=len(texts), unit="texts") as advance:
        return encode_texts(spec, ranker, texts, fitted=learned is not None, advance=advance)

"""`rejoinder plot`: encoded texts of several categories as points, models side by side."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rejoinder.cli.options import Json
from rejoinder.cli.rankers import Rankers
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError
from rejoinder.progress import track

if TYPE_CHECKING:
    from rejoinder.corpora.example import Example
    from rejoinder.ranker import FloatArray

_ENCODED_AT_ONCE = 512


def plot(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL...", help="As for evaluate, if it encodes; or TITLE=MODEL.")
    ],
    data: Annotated[Path, typer.Option(metavar="FILE", help="CSV with the columns text and category, or JSONL.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PICTURE", help="File to write: .png, .svg or .pdf.")
    ],
    method: Annotated[
        Literal["tsne", "pca", "isomap"], typer.Option(help="How vectors become points.")
    ] = "tsne",
    perplexity: Annotated[float, typer.Option(min=1, help="Of t-SNE: about how many neighbours count.")] = 30.0,
    categories: Annotated[
        int, typer.Option(min=2, metavar="N", help="The N categories with the most texts.")
    ] = 10,
    names: Annotated[
        list[str] | None, typer.Option("--category", metavar="NAME", help="These categories instead; repeatable.")
    ] = None,
    limit: Annotated[int, typer.Option(min=3, metavar="N", help="At most N texts, drawn at random.")] = 2000,
    neighbours: Annotated[int, typer.Option(min=1, metavar="K", help="Of the purity below each panel.")] = 10,
    fit_on: Annotated[
        Path | None, typer.Option(metavar="DATA", help="Examples to fit models on that learn from some (map:).")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the draw and of t-SNE.")] = 0,
    as_json: Json = False,
) -> None:
    """Draw encoded texts, coloured by category, a panel for each model; below it the purity of its neighbourhoods.

    Purity: the share of a text's 10 nearest neighbours, by the cosine of the encodings, that are of its category.

    Example: rejoinder plot DIRECT=runs/general/model MiniLM=sim:minilm --data banking77/test.csv -o banking.png
    """
    from rejoinder.evaluation import plots
    from rejoinder.files import atomic_file
    from rejoinder.intents.data import read_intents

    kind = plots.picture_kind(output)
    plots.require("matplotlib.figure")
    plots.require("sklearn", "a projection of encodings")
    read = read_intents(data)
    rows = [(text, category) for text, (category,) in zip(read.texts, read.labels, strict=True)]
    counts = Counter(category for _, category in rows)
    order = list(dict.fromkeys(names or [category for category, _ in counts.most_common(categories)]))
    if unknown := [category for category in order if category not in counts]:
        raise InputError(f"there is no category '{unknown[0]}'; there are {', '.join(counts)}")
    rows = [row for row in rows if row[1] in order]
    drawn = sorted(random.Random(seed).sample(range(len(rows)), min(limit, len(rows))))
    texts, kinds = zip(*(rows[place] for place in drawn), strict=True)
    panels, found = [], []
    for model in models:
        title, spec = split_title(model)
        vectors = _encode(spec, texts, fit_on, seed)
        purity = plots.neighbour_purity(vectors, kinds, neighbours)
        points = plots.project(vectors, method, perplexity=perplexity, seed=seed)
        panels.append(plots.Panel(title, points, f"{neighbours}-neighbour purity {100 * purity:.1f} %"))
        found.append({"title": title, "model": spec, "purity": purity})
    figure = plots.draw_panels(panels, kinds, order)
    with atomic_file(output) as part:
        plots.save_figure(figure, part, kind)
    result = {"picture": output, "texts": len(texts), "categories": order, "method": method, "seed": seed,
              "neighbours": neighbours, "models": found}  # fmt: skip
    emit(result, as_json, _text)


def split_title(model: str) -> tuple[str, str]:
    """Return title and model of "TITLE=MODEL"; anything else is its own title."""
    title, equals, spec = model.partition("=")
    if not equals or Path(model).exists():
        return model, model
    if not title.strip() or not spec.strip():
        raise InputError(f"{model!r}: write TITLE=MODEL, or MODEL alone")
    return title.strip(), spec.strip()


def _encode(spec: str, texts: Sequence[str], fit_on: Path | None, seed: int) -> FloatArray:
    """Return vectors of texts, each as a conversation of one message: array (n, d).

    Of a ranker that is fitted it is the side of responses: MAP leaves a context's vector as the encoder gives it.
    """
    import numpy as np

    from rejoinder.evaluation.tasks import training_examples
    from rejoinder.ranker import DualEncoder

    def training() -> Sequence[Example]:
        if fit_on is None:
            raise InputError(f"{spec} learns from examples before it encodes; name some with --fit-on DATA")
        return training_examples(fit_on, fit_on, "test", seed=seed)

    ranker, learned = Rankers().open(spec, training)
    if not isinstance(ranker, DualEncoder):
        raise InputError(f"{spec} gives scores and no vectors, so there is nothing to draw; name a model that encodes")
    pieces = []
    with track(f"Encoding with {spec}", total=len(texts), unit="texts") as advance:
        for start in range(0, len(texts), _ENCODED_AT_ONCE):
            piece = texts[start : start + _ENCODED_AT_ONCE]
            contexts = [[text] for text in piece]
            pieces.append(ranker.encode_contexts(contexts) if learned is None else ranker.encode_responses(piece))
            advance(len(piece))
    return np.concatenate(pieces)


def _text(result: Any) -> str:
    lines = [f"{result['texts']:,} texts of {len(result['categories'])} categories"]
    purity = f"{result['neighbours']}-neighbour purity"
    lines += [f"{each['title']}: {purity} {100 * each['purity']:.1f} %" for each in result["models"]]
    return "\n".join([*lines, f"picture: {result['picture']}"])

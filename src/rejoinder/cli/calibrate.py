"""`rejoinder calibrate`: how probably is the best reply right?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from rejoinder.cli.options import Json, Seed, ValidSplit
from rejoinder.cli.rankers import open_index, report_truncated
from rejoinder.cli.retrieval import Earlier, IndexFolder, Model
from rejoinder.cli.shell import emit
from rejoinder.progress import track

THRESHOLDS = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
PRECISION = 0.9


def calibrate(
    index: IndexFolder,
    data: Annotated[
        Path,
        typer.Option(
            metavar="DATA",
            help="Conversations that the model has not learned from, with the replies.",
        ),
    ],
    split: ValidSplit = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="N examples at most, at random.")
    ] = None,
    context: Earlier = None,
    model: Model = None,
    picture: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PICTURE", help="Also draw it: .png, .svg or .pdf."),
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Learn from conversations how probably the best reply is right.

    `reply` and `chat` use it with --min-confidence. The reply that was given is right, or one of
    the same words; if the index lacks it, none is. The calibration is kept in the index, and
    becomes invalid when replies are added or deleted. The figures are cross-validated.

    Example: rejoinder calibrate replies.index --data data/support -o calibration.png
    """
    from rejoinder.corpora.examples import read_examples
    from rejoinder.evaluation import calibration, plots
    from rejoinder.evaluation.tasks import sample
    from rejoinder.files import atomic_file
    from rejoinder.retrieval.calibration import calibrate as fit_calibration

    if picture is not None:
        kind = plots.picture_kind(picture)
        plots.require("matplotlib.figure")
    opened = open_index(index, model)
    with track(f"Reading {data}") as advance:
        part = "valid" if split is None and data.is_dir() else split
        examples = sample(read_examples(data, part), limit, seed, progress=advance)
    with track("Searching", total=len(examples), unit="examples") as advance:
        fit = fit_calibration(opened, examples, history=context, seed=seed, progress=advance)
    report_truncated(opened.encoder, "messages")
    fit.calibration.save(index)
    if picture is not None:
        with atomic_file(picture) as file:
            drawn = calibration.draw(fit.probabilities, fit.right, f"{index} on {data}")
            plots.save_figure(drawn, file, kind)
    precise = calibration.for_precision(fit.probabilities, fit.right, PRECISION)
    thresholds = [
        calibration.at_threshold(fit.probabilities, fit.right, threshold)
        for threshold in THRESHOLDS
    ]
    result = {
        "index": str(index),
        "data": str(data),
        "examples": len(examples),
        "right": int(fit.right.sum()),
        "without_right_reply": fit.absent,
        "calibration_error": calibration.calibration_error(fit.probabilities, fit.right),
        "bins": [part._asdict() for part in calibration.bins(fit.probabilities, fit.right)],
        "thresholds": [point._asdict() for point in thresholds],
        "precision": {"wanted": PRECISION, **(precise._asdict() if precise else {})},
        "picture": None if picture is None else str(picture),
    }
    emit(result, as_json, _text)


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

"""`rejoinder calibrate`: how probable it is that the best reply is right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from rejoinder.cli.arguments import Earlier, IndexName, Json
from rejoinder.cli.models import EXAMPLES, open_index, read_sample, report_truncated
from rejoinder.cli.replies.sample_message import message_to_try, try_line
from rejoinder.cli.shell import emit
from rejoinder.progress import counted, track

if TYPE_CHECKING:
    from rejoinder.evaluation.coverage import Probabilities, Right

THRESHOLDS = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
PRECISION = 0.9


DataOption: TypeAlias = Annotated[
    Path,
    typer.Option(
        metavar="DATA",
        help="Conversations with their replies, outside the training data, of a folder its split"
        f" valid: up to {EXAMPLES:,} at random.",
    ),
]
OverwriteCalibration: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--overwrite",
        help="Replace a calibration that still holds, even if no threshold reaches"
        f" {PRECISION:.0%}.",
    ),
]


def calibrate(
    index: IndexName,
    data: DataOption,
    history: Earlier = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="PICTURE", help="Picture to write: .png, .svg or .pdf."
        ),
    ] = None,
    overwrite: OverwriteCalibration = False,
    as_json: Json = False,
) -> None:
    """Learn from conversations the probability that the best reply is right.

    `reply` and `chat` use it with --minimum-confidence. The reply that was sent is right, filled in
    or with pleasantries around it, as `learn` recognises it. If the index lacks it, no
    reply is right. The index keeps the calibration. It becomes invalid when replies are added or
    deleted. The figures are cross-validated. If at no threshold 90% of the answers are right, an
    earlier calibration that still holds stays; --overwrite replaces it.

    Example: rejoinder calibrate replies.index --data data/support -o calibration.png
    """
    from rejoinder.evaluation import plots
    from rejoinder.files import atomic_file
    from rejoinder.retrieval.calibration import calibrate as fit_calibration
    from rejoinder.retrieval.calibration import why_uncalibrated

    if picture is not None:
        kind = plots.picture_kind(picture)
        plots.require("matplotlib.figure")
    opened = open_index(index)
    with track(f"Reading {data}") as advance:
        examples = read_sample(data, advance)
    with track("Searching", total=len(examples), unit="examples") as advance:
        fit = fit_calibration(opened, examples, history=history, progress=advance)
    report_truncated(opened.encoder, "messages")
    figures = _figures(fit.probabilities, fit.right)
    is_useful = "threshold" in figures["precision"]
    saved = is_useful or overwrite or why_uncalibrated(opened) is not None
    if saved:
        fit.calibration.save(opened.store)
    if picture is not None:
        with atomic_file(picture) as file:
            title = f"{opened.store} on {data}"
            drawn = plots.draw_calibration(fit.probabilities, fit.right, title)
            plots.save_figure(drawn, file, kind)
    result = {
        "index": str(opened.store),
        "data": str(data),
        "examples": len(examples),
        "right": int(fit.right.sum()),
        "without_right_reply": fit.absent,
        **figures,
        "saved": saved,
        "picture": None if picture is None else str(picture),
        "message_to_try": message_to_try(opened),
    }
    emit(result, as_json, _text)


def _figures(probabilities: Probabilities, right: Right) -> dict[str, Any]:
    """Return how well the best replies' probabilities match how often they are right."""
    from rejoinder.evaluation import coverage

    precise = coverage.for_precision(probabilities, right, PRECISION)
    thresholds = [
        coverage.at_threshold(probabilities, right, threshold) for threshold in THRESHOLDS
    ]
    return {
        "calibration_error": coverage.calibration_error(probabilities, right),
        "bins": [part._asdict() for part in coverage.bins(probabilities, right)],
        "thresholds": [  # nothing answered has no precision, and JSON no NaN
            {**point._asdict(), "precision": point.precision if point.coverage else None}
            for point in thresholds
        ],
        "precision": {"wanted": PRECISION, **(precise._asdict() if precise else {})},
    }


def _text(result: Mapping[str, Any]) -> str:
    """Return what a calibration found, as lines: thresholds, coverage and precision."""
    count = result["examples"]
    lines = [
        f"{counted(count, 'example')};"
        f" {counted(result['without_right_reply'], 'has', 'have')} a reply that the index lacks",
        f"the best reply is right in {result['right']:,} ({result['right'] / count:.1%})",
        f"expected calibration error {result['calibration_error']:.3f}",
        "",
        "--minimum-confidence  answered  of these right",
    ]
    for point in result["thresholds"]:
        right = f"{point['precision']:15.1%}" if point["coverage"] else "              -"
        lines.append(f"{point['threshold']:20g}  {point['coverage']:8.1%}  {right}")
    precise = result["precision"]
    if "threshold" in precise:
        lines.append(
            f"{precise['precision']:.1%} of the answers are right from {precise['threshold']:.6g}"
            f" on, which answers {precise['coverage']:.1%}: the most with {PRECISION:.0%} right"
        )
    else:
        lines.append(f"at no threshold {PRECISION:.0%} of the answers are right")
    if not result["saved"]:
        lines.append(
            f"not saved: {result['index']} keeps its earlier calibration, which still holds;"
            " --overwrite replaces it by this one"
        )
    lines += [result["picture"]] if result["picture"] else []
    options = " --minimum-confidence 0.8"
    return "\n".join([*lines, try_line(result["index"], result["message_to_try"], options)])

"""The grid of intent classifiers (CONVERT, section 4.3), the best by validation first."""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rejoinder.documents import markdown_table
from rejoinder.errors import InputError
from rejoinder.files import atomic_file
from rejoinder.intents.fitting import fit
from rejoinder.intents.heads import SETTINGS, Encoded, FeedForward, Settings, accuracy
from rejoinder.json_parsing import parse_json
from rejoinder.progress import Advance, silent
from rejoinder.settings import validate


def paper_grid() -> Iterator[FeedForward]:
    """Yield the paper's grid (CONVERT, section 4.3).

    It has 54 settings, since networks without hidden layers have one size.
    """
    adam: dict[str, Any] = {"optimizer": "adam", "learning_rate": 4e-4, "decay": "linear"}
    shapes = [(0, 512), *itertools.product((1, 2), (128, 256, 512, 1024))]
    for (layers, size), rate, optimizer in itertools.product(shapes, (0.75, 0.5, 0.25), ({}, adam)):
        yield FeedForward(
            hidden_size=size,
            hidden_layers=layers,
            input_dropout=rate,
            hidden_dropout=rate,
            **optimizer,
        )


@dataclass(frozen=True)
class GridRow:
    """Settings with their accuracy on the validation texts."""

    settings: Settings
    accuracy: float
    epochs: int
    seconds: float


def run_grid(
    grid: Sequence[Settings],
    data: Encoded,
    valid: Encoded,
    log: Path,
    *,
    seed: int = 0,
    advance: Advance = silent,
) -> list[GridRow]:
    """Train the settings of a grid that the log lacks, and return all rows, the best first.

    The log has a line of JSON for each finished setting. Early stopping and the order of the rows
    use `valid`.
    """
    sha256 = hashlib.sha256(f"{seed} {data.multi_label}".encode())
    for array in (data.vectors, data.targets, valid.vectors, valid.targets):
        sha256.update(array.tobytes())
    digest = sha256.hexdigest()
    rows = _read_log(log, digest)
    for settings in grid:
        if settings not in rows:
            start = time.perf_counter()
            fitted = fit(settings, data, valid=valid, seed=seed)
            seconds = time.perf_counter() - start
            rows[settings] = GridRow(settings, accuracy(fitted.head, valid), fitted.epochs, seconds)
            lines = (json.dumps({"data": digest, **asdict(row)}) + "\n" for row in rows.values())
            with atomic_file(log, durable=False) as part:
                part.write_text("".join(lines), encoding="utf-8")
        advance(1)
    return sorted((rows[settings] for settings in grid), key=lambda row: -row.accuracy)


def _read_log(log: Path, digest: str) -> dict[Settings, GridRow]:
    rows: dict[Settings, GridRow] = {}
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        try:
            values = parse_json(line)
            if values.pop("data") != digest:
                raise InputError(
                    f"{log} is from other texts, vectors or another seed; name another folder"
                )
            settings = validate(SETTINGS, values.pop("settings"), str(log))
            rows[settings] = GridRow(settings, **values)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(
                f"{log} is damaged ({error}); delete it to run the grid again"
            ) from None
    return rows


def grid_table(rows: Iterable[GridRow]) -> str:
    """Return the rows of a grid as a Markdown table."""
    lines = [["classifier", "dropout", "optimiser", "held-out accuracy", "epochs", "seconds"]]
    for row in rows:
        kind: str = row.settings.kind
        dropout = ""
        optimizer = "L-BFGS"
        if isinstance(net := row.settings, FeedForward):
            kind = f"{net.hidden_layers} x {net.hidden_size}" if net.hidden_layers else "linear"
            dropout = f"{net.input_dropout:g}"
            optimizer = f"{net.optimizer} {net.learning_rate:g}"
        figures = [f"{100 * row.accuracy:.1f}", str(row.epochs), f"{row.seconds:.1f}"]
        lines.append([kind, dropout, optimizer, *figures])
    return markdown_table(lines, left=range(len(lines[0])))

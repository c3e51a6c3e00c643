"""A grid of settings, each trained once and judged on validation texts; goes on where it was interrupted."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rejoinder.errors import InputError
from rejoinder.files import full_disk_named, parse_json
from rejoinder.intents.fitting import Encoded, accuracy, fit
from rejoinder.intents.settings import FeedForward, Settings, settings_from


@dataclasses.dataclass(frozen=True)
class GridRow:
    """One setting and what it reached on the validation texts."""

    settings: Settings
    accuracy: float
    epochs: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {**dataclasses.asdict(self), "settings": dataclasses.asdict(self.settings)}


def run_grid(
    grid: Iterable[Settings],
    data: Encoded,
    valid: Encoded,
    log: Path,
    *,
    seed: int = 0,
    advance: Callable[[int], None] | None = None,
) -> list[GridRow]:
    """Train every setting of a grid that the log does not have yet.

    Args:
        grid: the settings.
        data: training texts.
        valid: what early stopping and the choice look at.
        log: JSONL file; each setting is a line as soon as it is done.
        seed: of every training.
        advance: called with 1 after each setting, also one that was done before.

    Returns:
        All rows, the best first; of equal ones the one that comes first in the grid.

    Raises:
        InputError: the log is of other data or damaged.
    """
    digest = _digest(data, valid, seed)
    done = {_key(row.settings): row for row in _read_log(log, digest)}
    rows = []
    log.parent.mkdir(parents=True, exist_ok=True)
    for settings in grid:
        row = done.get(_key(settings))
        if row is None:
            start = time.perf_counter()
            fitted = fit(settings, data, valid=valid, seed=seed)
            row = GridRow(settings, accuracy(fitted.head, valid), fitted.epochs, time.perf_counter() - start)
            with full_disk_named(log), log.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"data": digest, **row.to_json()}) + "\n")
        rows.append(row)
        if advance is not None:
            advance(1)
    return sorted(rows, key=lambda row: -row.accuracy)


def grid_table(rows: Iterable[GridRow]) -> str:
    """The rows as a Markdown table."""
    head = "| classifier | dropout | optimiser | held-out accuracy | epochs | seconds |"
    lines = [head, "|---|---:|---|---:|---:|---:|"]
    for row in rows:
        kind, dropout, optimizer = _described(row.settings)
        lines.append(
            f"| {kind} | {dropout} | {optimizer} | {100 * row.accuracy:.1f} | {row.epochs} | {row.seconds:.1f} |"
        )
    return "\n".join(lines) + "\n"


def _described(settings: Settings) -> tuple[str, str, str]:
    if not isinstance(settings, FeedForward):
        return f"logistic, {settings.strength:g}", "", "L-BFGS"
    kind = f"{settings.hidden_layers} x {settings.hidden_size}" if settings.hidden_layers else "linear"
    return kind, f"{settings.input_dropout:g}", f"{settings.optimizer} {settings.learning_rate:g}"


def _key(settings: Settings) -> str:
    return json.dumps(dataclasses.asdict(settings), sort_keys=True)


def _digest(data: Encoded, valid: Encoded, seed: int) -> str:
    digest = hashlib.sha256(f"{seed} {data.several}".encode())
    for part in (data, valid):
        digest.update(part.vectors.tobytes())
        digest.update(part.targets.tobytes())
    return digest.hexdigest()


def _read_log(log: Path, digest: str) -> list[GridRow]:
    if not log.exists():
        return []
    rows = []
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        if not line.endswith("\n"):  # cut off when the process died: this setting is trained again
            log.write_text("".join(lines[:-1]), encoding="utf-8")
            break
        try:
            values = parse_json(line)
            same = values.pop("data") == digest
            rows.append(GridRow(**{**values, "settings": settings_from(values["settings"])}))
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"{log}:{number} is damaged ({error}); delete the file to run the grid again") from None
        if not same:
            raise InputError(f"{log} is of other texts, vectors or another seed; name another folder")
    return rows

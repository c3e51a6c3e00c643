"""Metrics of a run as JSON lines, and the same for TensorBoard."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from rejoinder.errors import InputError, MissingExtraError
from rejoinder.files import atomic_file, parse_json
from rejoinder.training.run_folder import RunFolder


class MetricsLog:
    """Writes metrics.jsonl and TensorBoard's files; use it as a context manager.

    Args:
        folder: the run's.
        step: batches done so far; whatever an earlier process wrote about later ones is taken out, since they are
            going to be done again.
    """

    def __init__(self, folder: RunFolder, step: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtraError("training", "train") from None
        _cut_back(folder.metrics, step)
        self._lines = folder.metrics.open("a", encoding="utf-8")
        purge = step + 1 if folder.tensorboard.exists() else None
        _wait_for_a_later_second(folder.tensorboard)
        self._board = SummaryWriter(str(folder.tensorboard), purge_step=purge, flush_secs=30)

    def write(self, step: int, stage: str, values: Mapping[str, float]) -> None:
        """Write one line; the numbers go to TensorBoard under their names."""
        self._lines.write(json.dumps({"step": step, "stage": stage, **values}) + "\n")
        self._lines.flush()
        for name, value in values.items():
            self._board.add_scalar(name, value, step)

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.close()
        self._board.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All whole lines of a metrics.jsonl; a last one that was cut short is left out.

    Raises:
        InputError: a line is damaged.
    """
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    return [_parsed(line, f"{path}:{number}") for number, line in enumerate(lines, 1)]


def _parsed(line: bytes, where: str) -> dict[str, Any]:
    """One line of metrics: numbers, among them a step, and the name of the stage."""
    try:
        values: dict[str, Any] = parse_json(line)
        numbers = [value for name, value in values.items() if name != "stage"]
        if not isinstance(values["stage"], str) or not all(type(value) in (int, float) for value in numbers):
            raise ValueError("not a stage and numbers")
        if type(values["step"]) is not int:
            raise ValueError("step is no integer")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{where}: damaged ({type(error).__name__}: {error}); take the line out") from None
    return values


def _wait_for_a_later_second(board: Path) -> None:
    """TensorBoard reads a run's files in the order of their names, which begin with the second of their creation.

    A run that continues within the second in which it was started would have its files read in any order, and what
    the killed process wrote too much would not be taken out.
    """
    while list(board.glob(f"events.out.tfevents.{int(time.time()):010d}.*")):
        time.sleep(0.02)


def _cut_back(path: Path, step: int) -> None:
    kept = [line for line in read_metrics(path) if line["step"] <= step]
    if path.exists():
        with atomic_file(path) as part:
            part.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")

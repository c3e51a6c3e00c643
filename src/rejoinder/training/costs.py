"""How fast a run trained and what that costs: the columns of the paper's table of ablations (CONVERT, Table 4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rejoinder.training.metrics import read_metrics
from rejoinder.training.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast a run, or one stage of it, trained.

    Attributes:
        steps: batches done.
        steps_per_second: of training alone, without validation and checkpoints.
    """

    steps: int
    steps_per_second: float


@dataclass(frozen=True, slots=True)
class RunCost:
    """What a run took.

    Attributes:
        run: its folder.
        whole: speed of the whole run.
        stages: speed of each stage by its name, in their order.
        seconds: time of the run so far, validation and checkpoints included.
    """

    run: str
    whole: Speed
    stages: dict[str, Speed]
    seconds: float

    def to_json(self, price_per_hour: float | None = None, steps: int | None = None) -> dict[str, Any]:
        """Plain values: the speeds, the time, and what it costs.

        Args:
            price_per_hour: of the machine, in any currency; None leaves all costs out.
            steps: also tell the time and cost of so many steps at the speed of the whole run (CONVERT: 966,000).
        """
        plain = {name: {"steps": s.steps, "steps_per_second": s.steps_per_second} for name, s in self.stages.items()}
        result: dict[str, Any] = {
            "run": self.run,
            "steps": self.whole.steps,
            "steps_per_second": self.whole.steps_per_second,
            "stages": plain,
            **_account(self.seconds, price_per_hour),
        }
        if steps is not None:
            stated = _account(steps / self.whole.steps_per_second, price_per_hour)
            result["stated"] = {"steps": steps, **stated}
        return result


def run_cost(run: Path) -> RunCost | None:
    """What a run took, from its metrics; None if there are none yet, or the folder is no run."""
    lines = read_metrics(RunFolder(run).metrics)
    measured = list(_measured(lines))
    if not measured:
        return None
    stages: dict[str, list[tuple[int, float]]] = {}
    for stage, steps, seconds in measured:
        stages.setdefault(stage, []).append((steps, seconds))
    return RunCost(
        run=str(run),
        whole=_speed([(steps, seconds) for _, steps, seconds in measured]),
        stages={stage: _speed(parts) for stage, parts in stages.items()},
        seconds=max(line["seconds"] for line in lines if "seconds" in line),
    )


def _measured(lines: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, int, float]]:
    """Stage, steps and seconds of training between each line of metrics and the one before."""
    step = examples = 0
    for line in lines:
        if not {"examples_per_second", "examples"} <= line.keys():  # a line of validation
            continue
        steps, pairs = line["step"] - step, line["examples"] - examples
        step, examples = line["step"], line["examples"]
        if line["examples_per_second"] > 0:
            yield line["stage"], steps, pairs / line["examples_per_second"]


def _speed(parts: Iterable[tuple[int, float]]) -> Speed:
    steps, seconds = (sum(column) for column in zip(*parts, strict=True))
    return Speed(int(steps), steps / seconds)


def _account(seconds: float, price_per_hour: float | None) -> dict[str, float]:
    cost = {} if price_per_hour is None else {"cost": seconds / 3600 * price_per_hour}
    return {"seconds": seconds, **cost}

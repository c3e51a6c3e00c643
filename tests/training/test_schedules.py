"""Learning rates and scale: golden values, and following the clock."""

from __future__ import annotations

import math

import pytest

from rejoinder.training.budget import Budget, run_share, stage_budget
from rejoinder.training.recipe import Scale, Stage
from rejoinder.training.recipe_schedules import Constant, Cosine, InverseSqrt, Schedule, Step
from rejoinder.training.schedules import Progress, learning_rate, score_scale


def rates(schedule: Schedule, rate: float, steps: list[int], total: int) -> list[float]:
    return [learning_rate(schedule, rate, Progress(step, step / total)) for step in steps]


def test_the_papers_cosine() -> None:
    found = rates(Cosine(final_learning_rate=0.001), 1.0, [0, 250, 500, 750, 1000], 1000)
    quarter = 0.001 + 0.999 * (1 + math.cos(math.pi / 4)) / 2
    assert found == pytest.approx([1.0, quarter, 0.5005, 1.001 - quarter, 0.001])


def test_cosine_after_a_warm_up_in_steps_covers_what_is_left() -> None:
    found = rates(Cosine(warm_up_steps=10), 2.0, [0, 4, 9, 10, 55, 100], 100)
    assert found == pytest.approx([0.2, 1.0, 2.0, 2.0, 1.0, 0.0])


def test_a_warm_up_by_share_follows_the_clock() -> None:
    schedule = Cosine(warm_up_share=0.2)
    found = [learning_rate(schedule, 1.0, Progress(7, share)) for share in (0.0, 0.1, 0.2, 0.6, 1.0)]
    assert found == pytest.approx([0.0, 0.5, 1.0, 0.5, 0.0])


def test_a_warm_up_in_steps_under_a_clock_ends_at_the_full_rate() -> None:
    schedule = Cosine(warm_up_steps=10)
    found = [learning_rate(schedule, 1.0, Progress(step, step / 100)) for step in (9, 10, 55)]
    assert found == pytest.approx([1.0, 1.0, 0.5])
    slow = [learning_rate(schedule, 1.0, Progress(step, min(1.0, step / 5))) for step in (1, 4, 5)]
    assert slow == pytest.approx([0.2, 0.5, 0.6]), "the time was over before the warm-up was"


def test_constant() -> None:
    assert rates(Constant(warm_up_steps=2), 0.3, [0, 1, 2, 99], 100) == pytest.approx([0.15, 0.3, 0.3, 0.3])


def test_step_drops_as_in_the_n_gram_paper() -> None:
    schedule = Step(factor=0.3, at=(0.875, 0.95))
    found = rates(schedule, 0.03, [0, 3_499_999, 3_500_000, 3_799_999, 3_800_000], 4_000_000)
    assert found == pytest.approx([0.03, 0.03, 0.009, 0.009, 0.0027])


def test_inverse_square_root_after_a_linear_warm_up() -> None:
    found = rates(InverseSqrt(warm_up_steps=100), 2e-4, [0, 49, 99, 399, 9999], 10_000)
    assert found == pytest.approx([2e-6, 1e-4, 2e-4, 1e-4, 2e-5])


def test_the_papers_scale_rises_over_10_000_steps_and_stays() -> None:
    scale = Scale(steps=10_000)
    found = [score_scale(scale, 512, Progress(step, 0.0)) for step in (0, 5_000, 10_000, 900_000)]
    last = math.sqrt(512)
    assert found == pytest.approx([1.0, (1 + last) / 2, last, last])


def test_the_scale_may_follow_the_share_of_the_run() -> None:
    scale = Scale(first=2.0, last=10.0, share=0.5)
    assert [score_scale(scale, 512, Progress(0, share)) for share in (0, 0.25, 0.5, 1)] == pytest.approx([2, 6, 10, 10])


@pytest.mark.parametrize("scale", [Scale(last=5.0, steps=0), Scale(last=5.0, share=0.0)])
def test_no_annealing_starts_at_the_last_value(scale: Scale) -> None:
    assert score_scale(scale, 512, Progress(0, 0.0)) == 5.0


def stage(**budget: float) -> Stage:
    from rejoinder.training.recipe import Adadelta

    return Stage(name="a", batch_size=2, optimizer=Adadelta(), learning_rate=1.0, **budget)  # type: ignore[arg-type]


def test_budgets() -> None:
    assert stage_budget(stage(steps=7), 100) == Budget(7, in_seconds=False)
    assert stage_budget(stage(epochs=1.5), 100) == Budget(150, in_seconds=False)
    assert stage_budget(stage(epochs=0.001), 100) == Budget(1, in_seconds=False)
    assert stage_budget(stage(minutes=0.5), 100) == Budget(30.0, in_seconds=True)


def test_shares_of_a_stage_and_of_the_run() -> None:
    clock, steps = Budget(30.0, in_seconds=True), Budget(30, in_seconds=False)
    assert (clock.share(99, 15.0), clock.share(99, 31.0), steps.share(15, 99.0)) == (0.5, 1.0, 0.5)
    budgets = [Budget(10, in_seconds=False), Budget(30, in_seconds=False)]
    assert [run_share(budgets, 0, 0.5), run_share(budgets, 1, 0.0), run_share(budgets, 1, 1.0)] == [0.125, 0.25, 1.0]

"""The minimiser, on functions whose minimum is known."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.intents.lbfgs import minimise


@given(st.integers(1, 12), st.integers(0, 20), st.sampled_from([1.0, 30.0]))
def test_a_quadratic_function_is_solved(size: int, seed: int, condition: float) -> None:
    generator = np.random.default_rng(seed)
    axes, _ = np.linalg.qr(generator.standard_normal((size, size)))
    matrix = torch.from_numpy(axes @ np.diag(np.linspace(1, condition, size)) @ axes.T)
    target = torch.from_numpy(generator.standard_normal(size))

    def function(x: torch.Tensor) -> tuple[float, torch.Tensor]:
        gradient = matrix @ (x - target)
        return float((x - target) @ gradient / 2), gradient

    found, steps = minimise(function, torch.zeros(size, dtype=torch.float64), iterations=200, tolerance=1e-9)
    np.testing.assert_allclose(found, target, atol=1e-7)
    assert steps < 200


def test_every_step_lowers_a_function_whose_first_step_would_leap_too_far() -> None:
    values = []

    def function(x: torch.Tensor) -> tuple[float, torch.Tensor]:
        values.append(float(torch.cosh(3 * x).sum()))
        return values[-1], 3 * torch.sinh(3 * x)

    found, _ = minimise(function, torch.tensor([2.0, -1.5]), iterations=50)
    np.testing.assert_allclose(found, [0, 0], atol=1e-3)
    assert values[-1] == min(values)


def test_it_stops_at_a_minimum_and_after_its_iterations() -> None:
    start = torch.zeros(3)
    found, steps = minimise(lambda x: (float(x @ x), 2 * x), start, iterations=5)
    assert steps == 0
    assert torch.equal(found, start)
    assert minimise(lambda x: (float((x**4).sum()), 4 * x**3), torch.ones(2), iterations=3)[1] == 3


@pytest.mark.parametrize("memory", [1, 10])
def test_the_memory_may_be_short(memory: int) -> None:
    start = torch.zeros(4)
    found, _ = minimise(lambda x: (float(((x - 2) ** 2).sum()), 2 * (x - 2)), start, iterations=50, memory=memory)
    np.testing.assert_allclose(found, np.full(4, 2.0), atol=1e-4)


def test_logistic_regression_does_not_import_the_compiler() -> None:
    import subprocess

    code = """
import sys
import numpy as np
from rejoinder.intents.fitting import Encoded, fit
from rejoinder.intents.settings import Logistic
fit(Logistic(), Encoded(np.eye(4, dtype=np.float32), np.eye(4, dtype=np.float32)))
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"

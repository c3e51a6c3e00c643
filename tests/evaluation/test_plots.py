"""Projections of encodings."""

import sys

import numpy as np
import pytest

from rejoinder.errors import InputError, MissingExtraError
from rejoinder.evaluation.plots import METHODS, new_grid, project


def clusters(categories=4, texts=15, size=12, spread=0.02, seed=0):
    """Vectors in tight bundles, shuffled, and the bundle of each."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(np.repeat(np.arange(categories), texts))
    centres = np.eye(size)[:categories]
    vectors = centres[names] + spread * rng.standard_normal((len(names), size))
    return vectors.astype(np.float32), [f"c{name}" for name in names]


@pytest.mark.parametrize("method", METHODS)
def test_bundles_stay_bundles_and_a_seed_gives_the_same_points(method):
    pytest.importorskip("sklearn")
    vectors, categories = clusters(categories=3)
    points = project(vectors, method, perplexity=8)
    assert (points.shape, points.dtype) == ((45, 2), np.float32)
    assert np.isfinite(points).all()
    assert (points == project(2 * vectors, method, perplexity=8)).all()  # directions alone count
    centre = {name: points[[c == name for c in categories]].mean(0) for name in set(categories)}
    nearest = [
        min(centre, key=lambda name: np.linalg.norm(point - centre[name])) for point in points
    ]
    assert np.mean([a == b for a, b in zip(nearest, categories, strict=True)]) > 0.95


def test_what_cannot_be_projected_and_what_is_not_installed(monkeypatch):
    pytest.importorskip("sklearn")
    vectors, _ = clusters()
    for count, said in ((60, "perplexity is 60; with 60 texts"), (2, "2 texts are too few")):
        with pytest.raises(InputError, match=said):
            project(vectors[:count], perplexity=60)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(MissingExtraError, match="the extra 'plots'"):
        project(vectors)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match="the extra 'plots'"):
        new_grid(1, 3.0, 3.0)

"""The purity of neighbourhoods, and pictures of encodings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.errors import InputError
from rejoinder.evaluation.plots import save_figure
from rejoinder.lab import purity
from rejoinder.lab.panels import Panel, draw_panels
from rejoinder.lab.purity import neighbour_purity
from tests.evaluation.test_plots import clusters


def purity_by_hand(vectors, categories, k):
    """The definition, one text after the other."""
    rows = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    shares = []
    for i in range(len(rows)):
        others = sorted(
            (j for j in range(len(rows)) if j != i), key=lambda j: (-float(rows[i] @ rows[j]), j)
        )[:k]
        shares.append(sum(categories[j] == categories[i] for j in others) / k)
    return sum(shares) / len(shares)


@settings(max_examples=30)
@given(st.integers(4, 40), st.integers(1, 3), st.integers(0, 1000))
def test_purity_is_its_definition_whatever_the_lengths_of_vectors(count, k, seed):
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((count, 5)).astype(np.float32)
    categories = [f"c{n}" for n in rng.integers(0, 3, count)]
    expected = purity_by_hand(vectors, categories, k)
    assert neighbour_purity(vectors, categories, k) == pytest.approx(expected)
    longer = vectors * rng.uniform(0.5, 2.0, (count, 1)).astype(np.float32)
    assert neighbour_purity(longer, categories, k) == pytest.approx(expected)


def test_purity_of_bundles_and_of_chance(monkeypatch):
    vectors, categories = clusters()
    assert neighbour_purity(vectors, categories) == 1.0
    shuffled = list(np.random.default_rng(1).permutation(categories))
    assert 0.1 < neighbour_purity(vectors, shuffled) < 0.4
    whole = neighbour_purity(vectors, shuffled)
    monkeypatch.setattr(purity, "_BLOCK", 7)
    assert neighbour_purity(vectors, shuffled) == pytest.approx(whole)
    with pytest.raises(InputError, match="purity of 60 neighbours needs more texts than these 60"):
        neighbour_purity(vectors, categories, 60)


def test_every_category_has_its_own_colour_and_shape(tmp_path):
    pytest.importorskip("matplotlib")
    vectors, categories = clusters(categories=12, texts=3, size=20)
    names = sorted(set(categories))
    figure = draw_panels(
        [Panel(title, vectors[:, :2], "below") for title in "abcde"], categories, names
    )
    shown = [axis for axis in figure.axes if axis.get_visible()]  # five of a grid of six
    assert [axis.get_title() for axis in shown] == list("abcde")
    assert {axis.get_xlabel() for axis in shown} == {"below"}
    assert [sum(len(dots.get_offsets()) for dots in axis.collections) for axis in shown] == [36] * 5
    looks = {
        (dots.get_facecolor().tobytes(), dots.get_paths()[0].vertices.tobytes())
        for dots in shown[0].collections
    }
    assert len(looks) == 12
    assert [text.get_text() for text in figure.legends[0].get_texts()] == names
    save_figure(figure, tmp_path / "p.svg", "svg")
    assert "c11" in (tmp_path / "p.svg").read_text()


def test_titles_and_categories_of_a_picture_are_no_formulas(tmp_path):
    pytest.importorskip("matplotlib")
    panel = Panel("model $^$", np.eye(3, dtype=np.float32)[:, :2], "below")
    save_figure(draw_panels([panel], ["a $^$"] * 3, ["a $^$"]), tmp_path / "p.svg", "svg")
    drawn = (tmp_path / "p.svg").read_text()
    assert "model $^$" in drawn
    assert "a $^$" in drawn

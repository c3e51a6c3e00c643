"""Messages unlike all examples of an index: their scores fall, and nothing else changes."""

import json
from dataclasses import replace

import numpy as np
import pytest

from rejoinder.arrays import unit_rows
from rejoinder.corpora.schema import Candidate
from rejoinder.retrieval.encoding import density
from rejoinder.retrieval.encoding.density import fit_density, read_density
from rejoinder.retrieval.encoding.views import Views
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.options import ANY_SCORE
from rejoinder.stores.folder.store import MANIFEST
from rejoinder.text.background import background, gibberish
from tests.retrieval.test_examples import TOPICS, WordEncoder, faq

SIZE = 12


def made(count=40, others=200, seed=0):
    """Examples near a plane, and a background in all directions."""
    draw = np.random.default_rng(seed)
    near = draw.normal(size=(count, SIZE)) * np.where(np.arange(SIZE) < 2, 1, 0.1)
    apart = draw.normal(size=(others, SIZE))
    views = Views(unit_rows(near.astype(np.float32)), np.arange(count), np.ones(count, np.float32))
    return views, unit_rows(apart.astype(np.float32)), [f"text {at}" for at in range(others)]


def test_a_message_unlike_all_examples_falls_and_one_like_them_stays():
    fitted = fit_density(*made())
    examples, others, _ = made(seed=1)
    assert (fitted.density.changes(examples.vectors) <= 0).all()
    typical = np.median(fitted.density.changes(examples.vectors))
    assert typical > -0.2
    assert np.median(fitted.density.changes(others)) < typical - 0.5


def test_changes_of_examples_are_those_of_a_density_without_them():
    views, others, texts = made()
    fitted = fit_density(views, others, texts)
    ridge = density.RIDGE / SIZE * np.eye(SIZE)
    moment = others.T @ others / len(others)
    among_others = np.linalg.inv(moment + ridge)
    spread = [
        x @ (among_others - np.linalg.inv(own_moment(views.vectors) + ridge)) @ x for x in others
    ]
    for at in (0, 7, 39):
        x = views.vectors[at]
        left = np.delete(views.vectors, at, axis=0)
        # the formula keeps the sum of ridge and moment in proportion
        share = len(left) / len(views.vectors)
        inverse = np.linalg.inv(own_moment(left) + ridge / share)
        value = density.WEIGHT / np.std(spread) * (x @ (among_others - inverse) @ x)
        expected = min(0.0, value - fitted.density.typical)
        assert fitted.views[at] == pytest.approx(expected, abs=0.02)


def own_moment(rows):
    return rows.T @ rows / len(rows)


def test_too_few_examples_have_no_density():
    views, others, texts = made(count=density.LEAST_EXAMPLES - 1)
    assert fit_density(views, others, texts) is None


def test_gibberish_counts_more_in_the_background():
    views, others, _ = made(others=100)
    texts = [f"text {at}" for at in range(100)]
    marked = [sorted(gibberish())[0], *texts[1:]]
    plain = fit_density(views, others, texts).density
    heavy = fit_density(views, others, marked).density
    assert heavy.changes(others[:1])[0] < plain.changes(others[:1])[0]
    assert gibberish() < frozenset(background())


@pytest.fixture
def index(tmp_path):
    return Index.build(WordEncoder(), faq(slice(1, 3)), tmp_path / "index")


def without_density(index):
    head = replace(index.manifest.head, density_end=0)
    index.store.write_manifest(replace(index.manifest, head=head))
    return Index.open(index.store, WordEncoder())


def test_a_density_lowers_all_scores_of_a_message_alike(index):
    assert json.loads((index.folder / MANIFEST).read_text())["format"] == 6
    message = "zebra quilt lantern of no topic"
    [with_it] = index.search([[message]], 5, ANY_SCORE)
    [again] = Index.open(index.store, WordEncoder()).search([[message]], 5, ANY_SCORE)
    assert again == with_it
    [plain] = without_density(index).search([[message]], 5, ANY_SCORE)
    assert [each.position for each in plain] == [each.position for each in with_it]
    falls = {round(one.score - two.score, 4) for one, two in zip(with_it, plain, strict=True)}
    assert len(falls) == 1
    assert falls.pop() < 0


def test_replies_that_were_added_later_keep_their_scores(index):
    end = index.manifest.end
    assert index.manifest.head.density_end == end
    message = "zebra quilt lantern"
    index.add([Candidate("It is in the attic.", examples=((message,), (message + " please",)))])
    [with_it] = index.search([[message]], 1, ANY_SCORE)
    assert with_it[0].position == end
    [plain] = without_density(index).search([[message]], 1, ANY_SCORE)
    assert with_it[0].score == pytest.approx(plain[0].score)
    index = Index.open(index.store, WordEncoder())
    index.fit()
    assert index.manifest.head.density_end == end + 1


def test_titles_alone_have_no_density(tmp_path):
    replies = [Candidate(f"Reply {at}.", title=f"{topic}") for at, topic in enumerate(TOPICS)] * 2
    index = Index.build(WordEncoder(), replies, tmp_path / "index")
    assert index.manifest.head.density_end == 0
    assert read_density(index.store, index.manifest.head) is None

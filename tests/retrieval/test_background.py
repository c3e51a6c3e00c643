"""Background messages are encoded once for each model."""

import numpy as np
import pytest

import rejoinder
from rejoinder import cache
from rejoinder.encoders.bundled import BUNDLED, FOLDER
from rejoinder.retrieval.encoding import background as vectors
from rejoinder.text.background import background


class Counting:
    """An encoder that counts what it reads."""

    fingerprint = "counting"
    unit_length = True

    def __init__(self):
        self.read = 0

    def encode_contexts(self, contexts):
        self.read += len(contexts)
        return np.array([[len(text), 1.0] for [text] in contexts], np.float32)

    def encode_responses(self, texts):
        self.read += len(texts)
        return np.array([[len(text), 1.0] for text in texts], np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "user_cache_path", lambda *_, **__: tmp_path / "cache")
    monkeypatch.setattr(vectors, "cached_vectors", cache.cached_vectors)
    return tmp_path / "cache"


def test_a_second_index_encodes_none_of_them():
    first, second = Counting(), Counting()
    found = vectors.encode_background(first)
    assert first.read == len(background())
    assert np.array_equal(vectors.encode_background(second), found)
    assert second.read == 0
    assert found[0, 0] == pytest.approx(len(background()[0]), rel=1e-3)


def test_another_model_and_what_is_damaged_are_computed(folder):
    vectors.encode_background(Counting())
    other = Counting()
    other.fingerprint = "another"
    vectors.encode_background(other)
    assert other.read == len(background())
    for path in folder.glob("*.npy"):
        path.write_bytes(path.read_bytes()[:100])
    again = Counting()
    vectors.encode_background(again)
    assert again.read == len(background())


def test_a_folder_that_cannot_be_written_costs_only_time(folder):
    folder.write_text("a file where the folder would be")
    encoder = Counting()
    assert len(vectors.encode_background(encoder)) == len(background())


def test_an_encoder_without_a_fingerprint_is_asked_each_time(folder):
    encoder = Counting()
    encoder.fingerprint = ""
    vectors.encode_background(encoder)
    vectors.encode_background(encoder)
    assert encoder.read == 2 * len(background())
    assert not folder.exists()


def test_the_mean_of_responses_is_kept_too():
    first, second = Counting(), Counting()
    found = vectors.mean_background(first)
    assert found.shape == (2,)
    assert np.array_equal(vectors.mean_background(second), found)
    assert second.read == 0


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_models_bring_theirs(name, folder):
    model = rejoinder.load(name, precision="fp32")
    for kind, compute in vectors.COMPUTED.items():
        path = FOLDER / f"{vectors.file_name(kind, model.fingerprint, background())}.npz"
        stored = vectors.read_bundled(path)
        assert len(stored) == (1 if kind == "mean" else len(background()))
        if kind == "mean":
            np.testing.assert_allclose(stored, compute(model), atol=1e-3)
    some = list(range(0, len(background()), 200))
    expected = model.encode_contexts([[background()[row]] for row in some])
    np.testing.assert_allclose(vectors.encode_background(model)[some], expected, atol=2e-3)
    assert not folder.exists()


def test_the_cache_is_counted_and_emptied():
    vectors.encode_background(Counting())
    vectors.mean_background(Counting())
    count, size = cache.cache_size()
    assert count == 2
    assert size > 10_000
    assert cache.empty_cache() == 2
    assert cache.cache_size() == (0, 0)

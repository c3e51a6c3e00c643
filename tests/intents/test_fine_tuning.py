"""Fine-tuning the encoder on intents."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import rejoinder
from rejoinder.arrays import unit_rows
from rejoinder.encoders import folders
from rejoinder.encoders import persistence
from rejoinder.encoders.export.folder import export_quantized
from rejoinder.encoders.joined import JoinedEncoder
from rejoinder.encoders.open import open_texts
from rejoinder.errors import InputError
from rejoinder.intents.data import IntentData
from rejoinder.intents.fine_tuning import FineTuning, draw_pairs, fine_tune
from rejoinder.intents.heads import change_settings
from tests.intents.toy import toy_data


def contrast(folder, vectors):
    """How much nearer texts of one intent are than those of different ones."""
    data = toy_data(8, seed=2)
    rows = unit_rows(open_texts(str(folder), vectors).encode(data.texts))
    names = np.array([names[0] for names in data.labels])
    same = (names[:, None] == names) & ~np.eye(len(names), dtype=bool)
    cosines = (rows - rows.mean(axis=0)) @ (rows - rows.mean(axis=0)).T
    return float(cosines[same].mean() - cosines[names[:, None] != names].mean()) / float(
        np.diag(cosines).mean()
    )


@given(st.lists(st.integers(2, 6), min_size=2, max_size=12), st.integers(2, 8), st.integers(0, 5))
def test_a_batch_has_two_different_texts_of_different_intents(sizes, intents, seed):
    ends = np.cumsum(sizes)
    groups = [np.arange(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    owner = np.repeat(np.arange(len(sizes)), sizes)
    first, second = draw_pairs(groups, intents, np.random.default_rng(seed))
    assert len(first) == min(intents, len(sizes)) == len(set(owner[first]))
    assert (owner[first] == owner[second]).all()
    assert (first != second).all()


@pytest.mark.parametrize("vectors", ["r", "h"])
def test_texts_of_one_intent_come_together(model, tmp_path, vectors):
    settings = FineTuning(steps=30, learning_rate=3e-3, dropout=0.0, vectors=vectors)
    done: list[int] = []
    result = fine_tune(
        model, toy_data(), tmp_path / "tuned", settings=settings, advance=done.append
    )
    assert result.last_loss < result.first_loss
    assert sum(done) == result.steps == 30
    assert contrast(tmp_path / "tuned", vectors) > contrast(model, vectors) + 0.1
    assert (tmp_path / "tuned" / "README.md").read_text().startswith("# A model")
    assert "Fine-tuned on intents" in (tmp_path / "tuned" / "README.md").read_text()


def test_equal_seeds_give_equal_models_and_leave_torch_alone(model, tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        fine_tune(
            model, toy_data(), tmp_path / name, settings=FineTuning(steps=3, dropout=0.3), seed=seed
        )
    assert torch.rand(1) == expected
    one, two, three = (
        rejoinder.load(tmp_path / name, precision="fp32").transfer(["lost card"]) for name in "abc"
    )
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, three)


def test_the_learned_scale_of_a_model_stays_for_a_training_that_goes_on(model, tmp_path):
    module, tokenizer, _ = persistence.load_module(folders.find(model))
    persistence.save(tmp_path / "a", module, tokenizer, max_length=20, card="# A\n", scale=7.5)
    fine_tune(tmp_path / "a", toy_data(), tmp_path / "b", settings=FineTuning(steps=1))
    assert persistence.read_config(tmp_path / "b")[1]["scale"] == 7.5


def test_what_cannot_be_tuned_is_refused(model, tmp_path):
    singles = IntentData(("a", "b", "c"), (("x",), ("y",), ("y",)))
    for data, out, said in (
        (singles, tmp_path / "out", "1 of 2 intents have two texts"),
        (IntentData(("a",), ((),)), tmp_path / "out", "one intent"),
        (toy_data(), model, "name another folder"),
    ):
        with pytest.raises(InputError, match=said):
            fine_tune(model, data, out)
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="steps = 0 is not allowed"):
        change_settings(FineTuning(), ["steps=0"])
    assert change_settings(FineTuning(), ["vectors=h", "steps=5"]) == FineTuning(
        vectors="h", steps=5
    )


def test_a_quantised_model_is_tuned(model, tmp_path):
    export_quantized(model, tmp_path / "small")
    fine_tune(tmp_path / "small", toy_data(), tmp_path / "tuned", settings=FineTuning(steps=2))
    assert rejoinder.load(tmp_path / "tuned").encode_responses(["lost card"]).any()


def test_a_joined_model_is_refused_by_its_name(model, tmp_path):
    part = rejoinder.load(model)
    persistence.save_joined(tmp_path / "joined", JoinedEncoder(part, part))
    with pytest.raises(InputError, match=r"/joined is a joined model: take a part of it, .*/joined/first and"):
        fine_tune(tmp_path / "joined", toy_data(), tmp_path / "tuned")

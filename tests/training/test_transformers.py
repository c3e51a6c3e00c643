"""Bi-, poly- and cross-encoders through the training loop, from a checkpoint to a model folder."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from rejoinder.errors import InputError
from rejoinder.models.checkpoints import load_checkpoint
from rejoinder.models.persistence import load
from rejoinder.training.loop import train
from rejoinder.training.losses import InBatchLoss, SummedLoss, list_losses
from rejoinder.training.negatives import RandomNegatives
from rejoinder.training.validation import Validator
from tests.training.tiny import recipe, stage
from tests.training.transformers import transformer_recipe, write_checkpoint

BI = {"kind": "bi-encoder", "reduction": "mean"}
POLY = {"kind": "poly-encoder", "m": 4, "reduction": "mean"}
CROSS = {"kind": "cross-encoder"}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("start") / "bert")


def weights(run):
    return load_file(run / "model" / "model.safetensors")


def test_a_multi_context_bi_encoder_trains_on_histories_too(tmp_path, data, start):
    sections = {
        "init": {"transformer": str(start)},
        "vocabulary": None,
        "model": {"kind": "multi-context-bi-encoder"},
        "scale": {"first": 10.0, "last": 10.0, "steps": 0},
    }
    train(recipe(data, **sections, text={"max_length": 20}, stage=[stage(steps=2)]), tmp_path / "run")
    assert "loss_history" in (tmp_path / "run" / "metrics.jsonl").read_text()
    assert load(tmp_path / "run" / "model").encode_contexts([["abc", "de"], ["f"]]).shape == (2, 16)
    with pytest.raises(InputError, match=r"text.max_length = 65, but the transformer has 64 positions"):
        train(recipe(data, **sections, text={"max_length": 65}), tmp_path / "longer")


@pytest.mark.parametrize("model", [BI, CROSS], ids=["bi", "cross"])
def test_training_starts_from_the_checkpoint(tmp_path, data, start, model):
    stages = [stage(steps=1, negatives=5 * (model is CROSS), learning_rate=1e-9)]
    train(transformer_recipe(data, start, model, stage=stages), tmp_path)
    stored, given = weights(tmp_path), dict(load_checkpoint(start)[0].named_parameters())
    sides = ["context.", "response."] if model is BI else ["transformer."]
    for side in sides:
        for name, value in given.items():
            torch.testing.assert_close(stored[side + name], value, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("keys", "changed"),
    [
        ({"trained_blocks": 1}, {"blocks.1."}),
        ({"trained_blocks": 2}, {"blocks.0.", "blocks.1."}),
        ({"rates": {"embedding": 0.0}}, {"blocks.0.", "blocks.1."}),
        ({}, {"embeddings.", "blocks.0.", "blocks.1."}),
    ],
)
def test_which_layers_train(tmp_path, data, start, keys, changed):
    train(transformer_recipe(data, start, BI, stage=[stage(steps=2, **keys)], validation={"examples": 0}), tmp_path)
    stored, given = weights(tmp_path), dict(load_checkpoint(start)[0].named_parameters())
    last = "blocks.1.expand.weight"
    assert not torch.equal(stored[f"context.{last}"], stored[f"response.{last}"]), "the two sides are trained apart"
    found = {name for name, value in given.items() if not torch.equal(stored[f"context.{name}"], value)}
    assert {next(p for p in ("embeddings.", "blocks.0.", "blocks.1.") if n.startswith(p)) for n in found} == changed


def test_a_plateau_lowers_the_rate_when_the_loss_stalls(tmp_path, data, start, monkeypatch):
    losses = iter([5.0, 4.0, 4.5, 4.2, 3.0, 3.0])
    monkeypatch.setattr(Validator, "__call__", lambda *_: {"recall@1": 0.5, "mrr": 0.5, "loss": next(losses)})
    stages = [stage(steps=25, schedule={"kind": "plateau", "factor": 0.5}, learning_rate=0.008)]
    validation = {"every_epochs": 0.5, "examples": 40, "candidates": 20}  # 320 pairs: 10 batches of 32
    train(transformer_recipe(data, start, BI, stage=stages, validation=validation), tmp_path)
    import json

    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    rates = [line["learning_rate"] for line in lines if "learning_rate" in line]
    assert rates == [0.008] * 10 + [0.004] * 5 + [0.002] * 10


@pytest.mark.parametrize(("model", "keys", "says"), [
    (BI, {"trained_blocks": 3}, "trained_blocks = 3, but only 2"),
    (CROSS, {}, "negatives = 15"),
    (POLY, {"hard_negatives": {}}, "mined by cosine"),
])  # fmt: skip
def test_a_stage_that_does_not_fit_is_refused(tmp_path, data, start, model, keys, says):
    with pytest.raises(InputError, match=says):
        train(transformer_recipe(data, start, model, stage=[stage(**keys)]), tmp_path)


def test_random_negatives_are_of_other_examples_and_follow_from_the_seed():
    draw = RandomNegatives(5, 40, (1, 0))
    rows = np.array([0, 3, 4])
    found = draw(rows)
    assert found.shape == (3, 40)
    assert (found != rows[:, None]).all()
    assert set(found[0].tolist()) == {1, 2, 3, 4}
    assert (found == draw(rows)).all()
    assert (found != draw(rows + 0 * rows[::-1] + np.array([1, 0, 0]))).any()


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_scores_that_are_there_have_the_loss_of_the_products(smoothing):
    """The dense form against `InBatchLoss`, with equal responses and further ones."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(4, 6, generator=generator), torch.randn(9, 6, generator=generator)
    equal = torch.tensor([[0, 1, 1, 1, 1], [3, 0, 2, 3, 4]])
    wanted = InBatchLoss(smoothing)(x, y, 0.7, equal, pairs=4)
    losses, hits = list_losses(x @ y.T * 0.7, 0, smoothing, equal)
    torch.testing.assert_close(losses.mean(), wanted.value)
    assert hits.mean() == wanted.accuracy
    one = InBatchLoss(smoothing)(x[:, None], y, 0.7, equal, pairs=4)  # a poly-encoder of one vector
    torch.testing.assert_close(one.value, wanted.value)


def test_a_cross_encoders_loss_is_the_cross_entropy_of_its_lists():
    scores = torch.tensor([[1.0, 2.0, 0.5], [3.0, 3.0, -1.0]])
    found = SummedLoss(InBatchLoss(0.0))({"scores": scores}, 1.0, torch.empty(2, 0, dtype=torch.int64), 0, 2)
    wanted = torch.nn.functional.cross_entropy(scores, torch.zeros(2, dtype=torch.int64))
    torch.testing.assert_close(found.value, wanted)
    assert found.accuracy == 0.0, "a tie counts against the model"


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"model": {"kind": "convert"}}, "made of transformers: bi-encoder"),
        ({"model": {"kind": "bi-encoder", "hidden_size": 32}}, "hidden_size = 32"),
        ({"init": {"transformer": "nowhere/to/be/found"}}, "no folder with config.json"),
        ({"vocabulary": {"kind": "bpe"}}, "leave .vocabulary. out"),
        ({"init": {"transformer": "minilm", "model": "x"}}, "at most one of model, transformer"),
    ],
)
def test_what_contradicts_the_checkpoint_is_refused(data, start, sections, says):
    with pytest.raises(InputError, match=says):
        transformer_recipe(data, start, **({"model": BI} | sections))


def test_another_checkpoint_at_the_same_place_is_refused(tmp_path, data):
    folder = write_checkpoint(tmp_path / "bert")
    wanted = transformer_recipe(data, folder, BI)
    write_checkpoint(folder, seed=1)
    with pytest.raises(InputError, match="replaced"):
        train(wanted, tmp_path / "run")


def test_from_scratch_with_a_vocabulary_of_its_own(tmp_path, data):
    shape = {"hidden_size": 16, "blocks": 1, "heads": 2, "feed_forward_size": 16, "positions": 64, "context_length": 40}
    words, short = {"kind": "bpe", "merges": 50}, [stage(steps=2)]
    wanted = recipe(data, vocabulary=words, model={**POLY, **shape}, text={"max_length": 20}, stage=short)
    train(wanted, tmp_path / "run")
    start = {"model": str(tmp_path / "run" / "model")}
    tuned = recipe(data, vocabulary=None, model={"dropout": 0.3}, init=start, stage=[stage(steps=3)])
    assert train(tuned, tmp_path / "tuned").steps == 3

"""Runs that train for few bits."""

import numpy as np
import pytest
import torch

import rejoinder
from rejoinder.corpora.forms.examples import read_examples
from rejoinder.encoders import persistence
from rejoinder.encoders.export.folder import export_quantized
from rejoinder.encoders.persistence import load_module
from rejoinder.encoders.families import build_module
from rejoinder.errors import InputError
from rejoinder.evaluation.ranking import evaluate
from rejoinder.networks.convert import Convert
from rejoinder.networks.packing import pack
from rejoinder.networks.quantization.training import QuantizedTraining
from rejoinder.text.subwords import Subwords
from rejoinder.training.distributed import Machine, choose_half, loss_scaler
from rejoinder.training.loop import train
from rejoinder.training.metrics import read_metrics
from rejoinder.training.recipe.settings import Quantization
from rejoinder.training.recipe_files import parse_recipe
from tests.training.test_loop import TWO_STAGES, losses
from tests.training.tiny import checkpoint_of, document, recipe, stage

TEXTS = ["abcd efgh", "mnop", "", "abba abba abba abba"]


def quantized(data, **sections):
    return recipe(
        data,
        **{"quantization": {"enabled": True, "range_every": 7}, "stage": TWO_STAGES} | sections,
    )


def in_training(run, settings):
    """The network as it stood when the run wrote its last checkpoint."""
    subwords = Subwords.load(run / "model" / "vocabulary.json")
    module = build_module(settings.model, subwords.rows)
    training = QuantizedTraining(module, choose_half(settings.quantization, "fp32"))
    checkpoint_of(run).restore_module(module.eval())
    return training, subwords


@pytest.fixture(scope="module")
def run(tmp_path_factory, data):
    """A run without validation: its model is the last one, that of its checkpoint."""
    folder = tmp_path_factory.mktemp("quantized")
    train(quantized(data, validation={"examples": 0}), folder)
    return folder


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_an_exported_run_encodes_as_it_was_trained_to(tmp_path, data, half):
    settings = quantized(
        data, validation={"examples": 0}, quantization={"enabled": True, "half": half}
    )
    train(settings, tmp_path / "run")
    written = export_quantized(tmp_path / "run" / "model", tmp_path / "small")
    assert (written["trained"], written["half"]) == (True, half)
    training, subwords = in_training(tmp_path / "run", settings)
    with torch.no_grad(), training.rounded():
        exact = training.module.encode(
            pack(*subwords.encode_ragged(TEXTS, 60), subwords.padding_id), "context"
        ).numpy()
    vectors = rejoinder.load(tmp_path / "small", precision="fp32").encode_contexts(
        [[text] for text in TEXTS]
    )
    assert (vectors * exact).sum(axis=1).min() > 0.9999
    assert np.abs(vectors - exact).max() < 1e-5


def test_training_and_validation_see_the_rounded_model(tmp_path, data, monkeypatch):
    levels = {True: [], False: []}
    plain = Convert.reduce

    def reduce(self, *arguments):
        levels[self.training].append(self.embedding.weight.detach().unique().numel())
        return plain(self, *arguments)

    monkeypatch.setattr(Convert, "reduce", reduce)
    train(quantized(data), tmp_path)
    assert len(levels[True]) == 30
    assert levels[False], "the validations"
    assert max(levels[True] + levels[False]) <= 256
    assert load_module(tmp_path / "model")[0].embedding.weight.unique().numel() > 256


def test_it_learns_about_as_well_as_without(tmp_path, data):
    plain, few = (
        train(recipe(data, quantization={"enabled": e}), tmp_path / str(e)) for e in (False, True)
    )
    assert few.validation["mrr"] == pytest.approx(plain.validation["mrr"], abs=0.05)
    assert losses(tmp_path / "True") != losses(tmp_path / "False")


@pytest.mark.parametrize(
    ("wanted", "precision", "half"),
    [
        ("auto", "bf16", "bfloat16"),
        ("auto", "fp32", "float16"),
        ("auto", "fp16", "float16"),
        ("bfloat16", "fp32", "bfloat16"),
        ("float16", "bf16", "float16"),
    ],
)
def test_sixteen_bit_float(wanted, precision, half):
    assert choose_half(Quantization(enabled=True, half=wanted), precision) == half


def half_precision(**settings):
    """fp16 with loss scaling, as on a GPU."""
    return Machine(
        torch.device("cpu"), "fp16", loss_scaler("cpu", "fp16", Quantization(**settings))
    )


def step(machine, optimizer):
    machine.scaler.step(optimizer)
    machine.scaler.update()


def test_the_loss_is_scaled_by_the_recipes_factor_and_the_update_is_not():
    machine = half_precision(enabled=True, loss_scale=128.0)
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    for before in (1.0, 0.75):
        optimizer.zero_grad()
        machine.scaler.scale((weight * 0.25).sum()).backward()
        assert weight.grad == 128 * 0.25
        step(machine, optimizer)
        assert weight.item() == before - 0.25
    assert machine.scaler.state_dict()["scale"] == 128.0, "constant, and part of the checkpoint"


def test_a_gradient_too_large_for_float16_costs_a_step_and_halves_the_factor():
    machine, weight = half_precision(enabled=True), torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    machine.scaler.scale((weight * float("inf")).sum()).backward()
    step(machine, optimizer)
    assert weight.item() == 1.0
    assert machine.scaler.get_scale() == 64.0


def test_scaling_is_pytorchs_without_quantisation_and_off_without_float16():
    assert (
        half_precision().scaler.get_growth_interval()
        == torch.amp.GradScaler("cpu").get_growth_interval()
    )
    assert not loss_scaler("cpu", "bf16", Quantization(enabled=True)).is_enabled()


def starting_from(model, data, **sections):
    whole = document(data, **{"init": {"model": str(model)}, "stage": [stage(steps=1)]} | sections)
    return parse_recipe(
        {key: value for key, value in whole.items() if key not in ("vocabulary", "model")}
    )


@pytest.mark.parametrize("enabled", [False, True])
def test_a_run_starts_from_the_rounded_values_of_a_quantised_folder(run, data, tmp_path, enabled):
    export_quantized(run / "model", tmp_path / "small")
    settings = starting_from(tmp_path / "small", data, quantization={"enabled": enabled})
    assert settings.init.quantized
    train(settings, tmp_path / "tuned")
    first = read_metrics(tmp_path / "tuned" / "metrics.jsonl")[0]
    small = rejoinder.load(tmp_path / "small", precision="fp32")
    expected = evaluate(small, list(read_examples(data, "valid")), candidates=20)
    assert first["step"] == 0
    assert first["valid_mrr"] == pytest.approx(expected.mrr.value, abs=0.02 if enabled else 1e-12)
    _, config = persistence.read_config(tmp_path / "tuned" / "model")
    assert not persistence.is_quantized(config), "what comes out can be trained on as any other"
    card = (tmp_path / "tuned" / "model" / "README.md").read_text()
    assert (
        f"`{settings.init.fingerprint}`, quantised: training began with its rounded weights" in card
    )


def test_what_a_recipe_says_of_its_start_must_be_so(run, data):
    with pytest.raises(InputError, match=r"init.quantized = True, but of .*model it is False"):
        starting_from(run / "model", data, init={"model": str(run / "model"), "quantized": True})
    with pytest.raises(InputError, match="quantized is given, but no model"):
        parse_recipe(document(data, init={"quantized": True}))

"""Runs that train for few bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rejoinder
from rejoinder.corpora.examples import read_examples
from rejoinder.errors import InputError
from rejoinder.evaluation.ranking import evaluate
from rejoinder.models import persistence
from rejoinder.models.convert import Convert
from rejoinder.models.export import export_quantized
from rejoinder.models.families import build_module
from rejoinder.models.packing import pack
from rejoinder.models.persistence import load_module
from rejoinder.models.quantization import QuantizedTraining, bounds_of, round_to_levels, table_names
from rejoinder.text.subwords import Subwords
from rejoinder.training.compute import Machine, choose_half, loss_scaler
from rejoinder.training.loop import train
from rejoinder.training.metrics import read_metrics
from rejoinder.training.recipe import Quantization, Recipe
from rejoinder.training.recipe_files import parse_recipe
from tests.training.test_loop import TWO_STAGES, losses
from tests.training.tiny import checkpoint_of, document, recipe, stage

TEXTS = ["abcd efgh", "mnop", "", "abba abba abba abba"]


def quantized(data: Path, **sections: Any) -> Recipe:
    return recipe(data, **{"quantization": {"enabled": True, "range_every": 7}, "stage": TWO_STAGES} | sections)


def in_training(run: Path, settings: Recipe) -> tuple[QuantizedTraining, Subwords]:
    """The network as it stood when the run wrote its last checkpoint."""
    subwords = Subwords.load(run / "model" / "vocabulary.json")
    module = build_module(settings.model, subwords.rows)
    training = QuantizedTraining(module, choose_half(settings.quantization, "fp32"))
    loaded = checkpoint_of(run)
    loaded.restore_module(module)
    module.eval()
    return training, subwords


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """A run without validation: its model is the last one, that of its checkpoint."""
    folder = tmp_path_factory.mktemp("quantized")
    train(quantized(data, validation={"examples": 0}), folder)
    return folder


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_an_exported_run_encodes_as_it_was_trained_to(tmp_path: Path, data: Path, half: str) -> None:
    settings = quantized(data, validation={"examples": 0}, quantization={"enabled": True, "half": half})
    train(settings, tmp_path / "run")
    written = export_quantized(tmp_path / "run" / "model", tmp_path / "small")
    assert (written["trained"], written["half"]) == (True, half)
    training, subwords = in_training(tmp_path / "run", settings)
    with torch.no_grad(), training.rounded():
        exact = training.module.encode(pack(*subwords.encode_ragged(TEXTS, 60), subwords.padding_id), "context").numpy()
    vectors = rejoinder.load(tmp_path / "small", precision="fp32").encode_contexts([[text] for text in TEXTS])
    assert (vectors * exact).sum(axis=1).min() > 0.9999
    assert np.abs(vectors - exact).max() < 1e-5


def test_training_and_validation_see_the_rounded_model(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels: dict[bool, list[int]] = {True: [], False: []}
    plain = Convert.reduce

    def reduce(self: Convert, *arguments: Any) -> torch.Tensor:
        levels[self.training].append(self.embedding.weight.detach().unique().numel())
        return plain(self, *arguments)

    monkeypatch.setattr(Convert, "reduce", reduce)
    train(quantized(data), tmp_path)
    assert len(levels[True]) == 30
    assert levels[False], "the validations"
    assert max(levels[True] + levels[False]) <= 256
    assert load_module(tmp_path / "model")[0].embedding.weight.unique().numel() > 256


def test_it_learns_about_as_well_as_without(tmp_path: Path, data: Path) -> None:
    figures = [
        train(recipe(data, quantization={"enabled": enabled}), tmp_path / str(enabled)).validation["mrr"]
        for enabled in (False, True)
    ]
    assert figures[1] == pytest.approx(figures[0], abs=0.05)
    assert losses(tmp_path / "True") != losses(tmp_path / "False")


def test_what_is_saved_are_the_float32_originals(run: Path) -> None:
    loaded = checkpoint_of(run)
    state = {name: value for name, value in loaded.tensors.items() if not name.startswith("rng")}
    assert {value.dtype for value in state.values()} == {torch.float32}
    assert "trained for 8-bit embeddings and 16-bit weights" in (run / "model" / "README.md").read_text()
    module, _, config = load_module(run / "model")
    tables = table_names(module)
    assert config["quantization"]["ranges"].keys() == set(tables)
    for name, parameter in module.named_parameters():
        assert torch.equal(parameter, loaded.tensors[f"weights/{name}"])
        if name in tables:
            bounds = torch.tensor(config["quantization"]["ranges"][name])
            assert bounds[0] <= parameter.min()
            assert parameter.max() <= bounds[1]
            assert not torch.equal(round_to_levels(parameter, bounds), parameter)


def test_the_ranges_are_fitted_as_often_as_the_recipe_says(run: Path, data: Path, tmp_path: Path) -> None:
    """30 steps: at 7 the last fitting was at 28; at 1,000 only what a value left was fitted."""
    train(quantized(data, validation={"examples": 0}, quantization={"enabled": True, "range_every": 30}), tmp_path)
    often, once = (load_module(place / "model") for place in (run, tmp_path))
    for (module, _, config), fitted_last in ((often, False), (once, True)):
        name = "token_embedding.subwords.weight"
        bounds = torch.tensor(config["quantization"]["ranges"][name])
        assert torch.equal(bounds, bounds_of(dict(module.named_parameters())[name], room=True)) is fitted_last


def test_in_bfloat16_the_originals_and_their_gradients_are_float32(tmp_path: Path, data: Path) -> None:
    compute = {"device": "cpu", "precision": "bf16", "threads": 1}
    train(quantized(data, compute=compute, stage=[TWO_STAGES[0]], validation={"examples": 0}), tmp_path)
    assert json.loads((tmp_path / "model" / "config.json").read_text())["quantization"]["half"] == "bfloat16"
    loaded = checkpoint_of(tmp_path)
    assert {value.dtype for name, value in loaded.tensors.items() if "rng" not in name} == {torch.float32}


@pytest.mark.parametrize(("wanted", "precision", "half"), [
    ("auto", "bf16", "bfloat16"), ("auto", "fp32", "float16"), ("auto", "fp16", "float16"),
    ("bfloat16", "fp32", "bfloat16"), ("float16", "bf16", "float16"),
])  # fmt: skip
def test_sixteen_bit_float(wanted: str, precision: str, half: str) -> None:
    assert choose_half(Quantization(enabled=True, half=wanted), precision) == half


def half_precision(**settings: Any) -> Machine:
    """fp16 with loss scaling, as on a GPU."""
    return Machine(torch.device("cpu"), "fp16", loss_scaler("cpu", "fp16", Quantization(**settings)))


def step(machine: Machine, optimizer: torch.optim.Optimizer) -> None:
    machine.scaler.step(optimizer)
    machine.scaler.update()


def test_the_loss_is_scaled_by_the_recipes_factor_and_the_update_is_not() -> None:
    machine = half_precision(enabled=True, loss_scale=128.0)
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    for before in (1.0, 0.75):
        optimizer.zero_grad()
        machine.backward((weight * 0.25).sum())
        assert weight.grad == 128 * 0.25
        step(machine, optimizer)
        assert weight.item() == before - 0.25
    assert machine.scaler.state_dict()["scale"] == 128.0, "constant, and part of the checkpoint"


def test_a_gradient_too_large_for_float16_costs_a_step_and_halves_the_factor() -> None:
    machine = half_precision(enabled=True)
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    machine.backward((weight * float("inf")).sum())
    step(machine, optimizer)
    assert weight.item() == 1.0
    assert machine.scaler.get_scale() == 64.0


def test_scaling_is_pytorchs_without_quantisation_and_off_without_float16() -> None:
    assert half_precision().scaler.get_growth_interval() == torch.amp.GradScaler("cpu").get_growth_interval()
    assert not loss_scaler("cpu", "bf16", Quantization(enabled=True)).is_enabled()


def starting_from(model: Path, data: Path, **sections: Any) -> Recipe:
    whole = document(data, init={"model": str(model)}, stage=[stage(steps=1)], **sections)
    return parse_recipe({key: value for key, value in whole.items() if key not in ("vocabulary", "model")})


def test_a_run_starts_from_the_originals(run: Path, data: Path, tmp_path: Path) -> None:
    summary = train(starting_from(run / "model", data, quantization={"enabled": True}), tmp_path / "tuned")
    assert summary.steps == 1
    was, is_ = (load_module(place / "model")[0].embedding.weight for place in (run, tmp_path / "tuned"))
    assert (was - is_).abs().max() < 0.1, "a step away from the originals"
    assert "rounded weights" not in (tmp_path / "tuned" / "model" / "README.md").read_text()


@pytest.mark.parametrize("enabled", [False, True])
def test_a_run_starts_from_the_rounded_values_of_a_quantised_folder(
    run: Path, data: Path, tmp_path: Path, enabled: bool
) -> None:
    export_quantized(run / "model", tmp_path / "small")
    settings = starting_from(tmp_path / "small", data, quantization={"enabled": enabled})
    assert settings.init.quantized
    train(settings, tmp_path / "tuned")
    first = read_metrics(tmp_path / "tuned" / "metrics.jsonl")[0]
    expected = evaluate(rejoinder.load(tmp_path / "small", precision="fp32"), list(read_examples(data, "valid")),
                        candidates=20)  # fmt: skip
    assert first["step"] == 0
    assert first["valid_mrr"] == pytest.approx(expected.mrr.value, abs=0.02 if enabled else 1e-12)
    _, config = persistence.read_config(tmp_path / "tuned" / "model")
    assert not persistence.is_quantized(config), "what comes out can be trained on as any other"
    card = (tmp_path / "tuned" / "model" / "README.md").read_text()
    assert f"`{settings.init.fingerprint}`, quantised: training began with its rounded weights" in card


def test_what_a_recipe_says_of_its_start_must_be_so(run: Path, data: Path) -> None:
    given = {"model": str(run / "model"), "quantized": True}
    whole = document(data, init=given)
    with pytest.raises(InputError, match=r"init.quantized = True, but of .*model it is False"):
        parse_recipe({key: value for key, value in whole.items() if key not in ("vocabulary", "model")})
    with pytest.raises(InputError, match="quantized is given, but no model"):
        parse_recipe(document(data, init={"quantized": True}))

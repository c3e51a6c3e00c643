"""`rejoinder export` and `rejoinder list models`, from the command line to the exit code."""

import json
import shutil

import pytest
import torch

import rejoinder
from rejoinder.encoders import bundled
from rejoinder.encoders.bundled import Weights
from rejoinder.encoders.persistence import save
from rejoinder.networks.convert import Convert
from rejoinder.networks.quantization.training import QuantizedTraining
from rejoinder.text.subwords import MARK, Subwords
from tests.encoders.conftest import small_config

SUBWORDS = Subwords([MARK, *"abcdefghijklmnopqrstuvwxyz .,?!'\n"])


@pytest.fixture
def run(tmp_path):
    torch.manual_seed(0)
    save(
        tmp_path / "run" / "model",
        Convert(small_config(), SUBWORDS.rows),
        SUBWORDS,
        max_length=40,
        card="# Mine\n",
    )
    metrics = {
        "step": 7200,
        "stage": "only",
        "examples": 720,
        "examples_per_second": 0.1,
        "seconds": 9000.0,
    }
    (tmp_path / "run" / "metrics.jsonl").write_text(json.dumps(metrics) + "\n")
    return tmp_path / "run"


def test_a_quantised_folder_opens_and_says_whether_it_was_trained_for_it(command, run, tmp_path):
    result = command(
        "export", run / "model", "--to", "quantized", "-o", tmp_path / "small", "--json"
    ).json
    assert (result["form"], result["trained"], result["half"]) == ("quantized", False, "float16")
    assert result["bytes"] < result["full_bytes"] / 2
    assert result["fingerprint"] == rejoinder.load(tmp_path / "small").fingerprint
    card = (tmp_path / "small" / "README.md").read_text()
    assert card.startswith("# Mine\n")
    assert "without training for it" in card
    _, out, _ = command(
        "export", run / "model", "--to", "quantized", "-o", tmp_path / "small", "--overwrite"
    )
    assert "embeddings in 8 bits, the rest in float16" in out
    assert "rounded after training" in out
    eight = (
        "export",
        run / "model",
        "--to",
        "eight-bits",
        "-o",
        tmp_path / "small",
        "--overwrite",
    )
    assert "embeddings and linear layers in 8 bits, the rest in float16" in command(*eight).out
    module = Convert(small_config(), SUBWORDS.rows)
    QuantizedTraining(module, "bfloat16")
    save(tmp_path / "trained", module, SUBWORDS, max_length=40, card="")
    out = command(
        "export", tmp_path / "trained", "--to", "quantized", "-o", tmp_path / "small", "--overwrite"
    ).out
    assert "the rest in bfloat16" in out
    assert "after training" not in out


def test_a_sentence_transformers_folder_is_still_a_model(command, run, tmp_path):
    arguments = ("export", run / "model", "--to", "sentence-transformers", "-o", tmp_path / "st")
    result = command(*arguments, "--side", "response", "--json").json
    assert (result["form"], result["side"]) == ("sentence-transformers", "response")
    assert result["fingerprint"] == rejoinder.load(tmp_path / "st").fingerprint
    out = command(*arguments, "--overwrite").out
    assert "trust_remote_code=True" in out
    assert "encode for contexts" in out


def test_one_form_and_its_own_options(refused, run, tmp_path):
    for wrong, word in (
        ([], "give a format with --to: quantized, eight-bits, onnx"),
        (["--to", "tflite"], "tflite: give one of quantized, eight-bits, onnx"),
        (["--to", "onnx", "--side", "context"], "--side is for --to sentence-transformers;"),
        (
            ["--to", "sentence-transformers", "--side", "answer"],
            "answer: give one of context, response",
        ),
    ):
        refused("export", run / "model", *wrong, "-o", tmp_path / "out", said=word)
    refused("export", tmp_path / "nothing", "--to", "quantized", "-o", tmp_path / "out", said="no model")
    assert not (tmp_path / "out").exists()


def test_sizes_and_speeds(command, run, tmp_path):
    command("export", run / "model", "--to", "quantized", "-o", tmp_path / "small")
    full, small = command("list", "models", tmp_path, "--sizes", "--json").json["models"]
    assert full["sizes"] == small["sizes"]
    assert full["sizes"]["embedding_parameters"] == (SUBWORDS.rows + 47 + 11) * 32
    assert small["run"] is None
    assert (full["run"]["steps_per_second"], full["run"]["seconds"]) == (1.0, 9000.0)
    shutil.rmtree(tmp_path / "small")
    _, out, _ = command("list", "models", tmp_path, "--sizes")
    head, row, blank, run_head, run_row = out.splitlines()
    assert head.split() == ["model", "embedding", "network", "fp32", "quantised", "folder"]
    assert (row.startswith(str(run / "model")), row[-3:], blank) == (True, " MB", "")
    assert run_head.split() == ["run", "steps", "steps/s", "time"]
    assert run_row.split()[1:] == ["7,200", "1.00", "2", "h", "30", "min"]


def test_models_with_a_name(command, refused, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bundled, "FOLDER", tmp_path.parent / f"{tmp_path.name}-weights")
    fingerprint = rejoinder.load(run / "model").fingerprint
    monkeypatch.setattr(bundled, "BUNDLED", {"tiny": Weights(fingerprint, "MIT, CC0")})
    assert [model["path"] for model in command("list", "models", "--json").json["models"]] == ["run/model"]
    refused("list", "models", "tiny", said="the weights of tiny are not in this installation")
    shutil.copytree(run / "model", bundled.FOLDER / "tiny")
    first, second = command("list", "models").out.splitlines()
    assert first.startswith("tiny  convert, ")
    assert first.endswith(f" MB, {fingerprint[:12]}, trained on data under MIT, CC0")
    assert second.startswith("run/model  convert, ")
    [one] = command("list", "models", "tiny", "--json", "--sizes").json["models"]
    assert (one["name"], one["data_licence"], one["fingerprint"]) == (
        "tiny",
        "MIT, CC0",
        fingerprint,
    )
    assert command("list", "models", "--sizes")[1].splitlines()[1].startswith("tiny ")
    assert refused("list", "models", "nowhere").endswith("or a model: tiny")

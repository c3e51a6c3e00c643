"""What computes a model: PyTorch, or its ONNX programs."""

import json
import shutil
import sys

import pytest

from rejoinder.encoders.onnx.encoder import OnnxEncoder
from rejoinder.encoders.onnx.folder import MANIFEST
from rejoinder.encoders.folders import find
from rejoinder.encoders.open import load, open_encoder
from rejoinder.encoders.torch import Encoder
from rejoinder.errors import InputError
from rejoinder.digests import signed
from rejoinder.retrieval.index import Index
from rejoinder.serving.worker.opening import open_answers
from rejoinder.serving.worker.sources import Sources

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A model with weights and programs, one with weights alone, one with programs alone."""
    made = tmp_path_factory.mktemp("engines")
    bundled = find("convert-small")
    shutil.copytree(bundled, made / "both")
    shutil.copytree(bundled, made / "weights", ignore=shutil.ignore_patterns("*.onnx", MANIFEST))
    shutil.copytree(bundled, made / "programs", ignore=shutil.ignore_patterns("config.json"))
    manifest = json.loads((made / "programs" / MANIFEST).read_text())
    del manifest["files"]["config.json"]
    (made / "programs" / MANIFEST).write_text(json.dumps(signed(manifest)))
    return made


def opened(name, **options):
    return {Encoder: "torch", OnnxEncoder: "onnx"}[type(open_encoder(name, **options))]


@pytest.mark.parametrize("missing", [None, "onnxruntime", "torch"])
def test_a_folder_with_weights_and_programs_opens_as_either(folders, monkeypatch, missing):
    there = {"onnxruntime": True, "torch": True, missing: None}
    monkeypatch.setattr("rejoinder.encoders.engines.find_spec", there.get)
    default, light = {None: ("torch", "onnx"), "onnxruntime": ("torch", "torch"), "torch": ("onnx", "onnx")}[missing]
    for name in ("convert-small", str(folders / "both")):
        assert (opened(name), opened(name, light=True)) == (default, light)
    assert open_encoder("convert-small", light=True).name == "convert-small"
    assert open_encoder("convert-small").fingerprint == open_encoder("convert-small", light=True).fingerprint


def test_a_named_engine_computes(folders):
    for name in ("convert-small", folders / "both"):
        for light in (False, True):
            assert opened(name, engine="onnx", light=light) == "onnx"
            assert opened(name, engine="torch", light=light) == "torch"
    assert opened(folders / "both", engine="onnx", device="auto") == "onnx"
    assert opened(folders / "both", light=True, device="auto") == "onnx"
    assert opened(folders / "weights", light=True) == "torch"
    assert opened(folders / "programs") == "onnx"
    vectors = [open_encoder("convert-small", engine=engine).encode_responses(["Hello!"]) for engine in ("onnx", "torch")]
    assert abs(vectors[0] - vectors[1]).max() < 0.05  # torch may compute in bfloat16


def test_an_engine_without_its_library_is_not_replaced(monkeypatch):
    monkeypatch.delattr("rejoinder.encoders.persistence")
    monkeypatch.setitem(sys.modules, "rejoinder.encoders.persistence", None)
    with pytest.raises(ImportError, match="convert-small needs "):
        load("convert-small", engine="torch")


@pytest.mark.parametrize(("engine", "kind"), [("auto", OnnxEncoder), ("onnx", OnnxEncoder), ("torch", Encoder)])
def test_a_server_computes_with_the_engine_that_is_named(tmp_path, engine, kind):
    Index.build(load("convert-small", light=True), ["Hello!", "Bye."], tmp_path / "index")
    assert type(open_answers(Sources(index=tmp_path / "index", engine=engine)).encoder) is kind


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("both", {"engine": "tensorflow"}, "engine 'tensorflow' is unknown; allowed are auto, onnx, torch"),
        ("weights", {"engine": "onnx"}, "has no ONNX programs; `rejoinder export "),
        ("programs", {"engine": "torch"}, "holds ONNX programs alone.* take engine auto"),
        ("both", {"engine": "onnx", "device": "cuda"}, "on the processor, not on cuda; take device cpu"),
        ("both", {"engine": "onnx", "precision": "bf16"}, "'bf16' is unknown to ONNX programs"),
        ("absent", {"engine": "onnx"}, "no model "),
    ],
)
def test_what_an_engine_cannot_do_is_said(folders, name, options, said):
    with pytest.raises(InputError, match=said):
        load(folders / name, **options)


@pytest.mark.parametrize(("name", "engine", "own"), [("minilm", "onnx", "torch"), ("e5", "torch", "auto"), ("use", "onnx", "auto")])
def test_other_libraries_have_an_engine_of_their_own(name, engine, own):
    with pytest.raises(InputError, match=f"{name} is not computed by engine {engine}; take engine {own}"):
        load(name, engine=engine)

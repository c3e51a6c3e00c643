"""Model folders that somebody else has made, signed as ours: one clear line, no more memory than their files."""

import json
import shutil
import struct
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from rejoinder.encoders.onnx import encoder as onnx_encoder
from rejoinder.encoders.bundled import weights
from rejoinder.encoders.onnx.encoder import OnnxEncoder
from rejoinder.encoders.persistence import load
from rejoinder.errors import InputError
from rejoinder.digests import file_digest, signed
from rejoinder.safetensors_files import check_header
from tests.encoders.conftest import saved

CONFIG, WEIGHTS, VOCABULARY = "config.json", "model.safetensors", "vocabulary.json"


@pytest.fixture
def folder(tmp_path):
    return saved(tmp_path / "model", 40)


def resign(folder, change=lambda _: None):
    path = folder / CONFIG
    config = json.loads(path.read_text())
    config["files"] = {
        name: file_digest(folder / name) for name in config["files"] if (folder / name).is_file()
    }
    changed = change(config)
    path.write_text(json.dumps(signed(config) if changed is None else changed))


def change_tensors(change):
    def damage(folder):
        tensors = load_file(folder / WEIGHTS)
        change(tensors, next(iter(sorted(tensors))))
        save_file(tensors, folder / WEIGHTS)
        resign(folder)

    return damage


def header(content, length=None):
    def damage(folder):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (folder / WEIGHTS).write_bytes(struct.pack("<Q", length or len(data)) + data)
        resign(folder)

    return damage


def config(**changes):
    return lambda folder: resign(folder, lambda known: known.update(changes))


def model(**changes):
    return lambda folder: resign(folder, lambda known: known["model"].update(changes))


def whole_config(text):
    return lambda folder: (folder / CONFIG).write_text(text)


def vocabulary(text):
    def damage(folder):
        path = folder / VOCABULARY
        path.write_text(
            text if isinstance(text, str) else json.dumps({**json.loads(path.read_text()), **text})
        )
        resign(folder)

    return damage


def cut(name, to):
    def damage(folder):
        (folder / name).write_bytes((folder / name).read_bytes()[:to])
        resign(folder)

    return damage


EMPTY = {f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(80_000)}
DAMAGES = {
    "weights cut in the header": cut(WEIGHTS, 50),
    "weights cut in the numbers": cut(WEIGHTS, -8),
    "weights of 3 bytes": cut(WEIGHTS, 3),
    "no weights": cut(WEIGHTS, 0),
    "wrong type": change_tensors(lambda t, name: t.update({name: t[name].half()})),
    "strange type": change_tensors(lambda t, name: t.update({name: t[name].to(torch.float64)})),
    "wrong shape": change_tensors(lambda t, name: t.update({name: t[name].flatten()})),
    "a tensor is missing": change_tensors(lambda t, name: t.pop(name)),
    "a tensor too many": change_tensors(lambda t, _: t.update(more=torch.ones(2))),
    "header is a list": header([1]),
    "header is not JSON": header(b"{" * 100),
    "header of 2**63": header(b"{}", length=2**63),
    "many empty tensors": header(EMPTY),
    "offsets beyond the end": header(
        {"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}
    ),
    "config is a list": whole_config("[]"),
    "config is a number": whole_config("3"),
    "config is empty": whole_config(""),
    "files is a list": config(files=[]),
    "files of nothing": config(files={}),
    "files elsewhere": config(files={WEIGHTS: "0", VOCABULARY: "0", "../../secret": "0"}),
    "files absolute": config(files={WEIGHTS: "0", VOCABULARY: "0", "/etc/passwd": "0"}),
    "unknown kind": model(kind="gpt"),
    "kind is a list": model(kind=["convert"]),
    "kind is none": model(kind=None),
    "negative size": model(embedding_size=-4),
    "size of zero": model(output_size=0),
    "size of a half": model(heads=0.5),
    "unknown key": model(surprise=1),
    "negative length": config(max_length=-1),
    "length of zero": config(max_length=0),
    "length without end": config(max_length=10**12),
    "length is true": config(max_length="40"),
    "blocks below zero": config(active_blocks=-1),
    "blocks beyond": config(active_blocks=99),
    "scale is none": config(scale="nan"),
    "quantisation unknown": config(quantization={"half": "float8"}),
    "quantisation is a list": config(quantization=[]),
    "as if quantised": config(quantization={"half": "float16", "trained": False, "stored": True}),
    "vocabulary is not JSON": vocabulary("{"),
    "vocabulary is a list": vocabulary("[]"),
    "vocabulary of numbers": vocabulary({"subwords": [1, 2]}),
    "vocabulary of nothing": vocabulary({"subwords": []}),
    "buckets below zero": vocabulary({"buckets": -4}),
    "buckets without end": vocabulary({"buckets": 10**12}),
    "buckets are many": vocabulary({"buckets": 2**62}),
    "vocabulary is of another": vocabulary({"format": "x"}),
}

HUGE = [
    {key: 2**30}
    for key in (
        "embedding_size",
        "head_size",
        "heads",
        "feed_forward_size",
        "reduction_heads",
        "feed_forward_2_size",
        "output_size",
        "blocks",
        "feed_forward_2_layers",
    )
]
HUGE += [
    {"positions": [2**30, 11]},
    {"embedding_size": 2**20, "output_size": 2**20},
    {"blocks": 20_000},
]


@pytest.mark.parametrize("name", DAMAGES)
def test_a_broken_folder_is_one_clear_line(folder, name):
    DAMAGES[name](folder)
    with pytest.raises(InputError) as refused:
        load(folder)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 800


BOUNDED = """
import json, resource, sys
from rejoinder.errors import InputError
from rejoinder.encoders.export.folder import sizes
from rejoinder.encoders.persistence import load
for folder in json.loads(sys.argv[1]):
    for call in (load, sizes):
        try:
            call(__import__("pathlib").Path(folder))
        except InputError as error:
            assert len(str(error)) < 800, error
        else:
            assert call is sizes, folder
        if folder.endswith("warm"):
            break
    if folder.endswith("warm"):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(grown)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts the process's memory as Linux does")
def test_sizes_are_compared_before_memory_is_taken(folder, tmp_path):
    folders = []
    for number, values in enumerate([{"output_size": 25}, *HUGE]):
        copy = shutil.copytree(folder, tmp_path / ("warm" if number == 0 else f"huge-{number}"))
        more = (
            {"attention_spans": [3] * values["blocks"]}
            if 0 < values.get("blocks", 0) <= 20_000
            else {}
        )
        model(**values, **more)(copy)
        folders.append(str(copy))
    command = [sys.executable, "-c", BOUNDED, json.dumps(folders)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 200_000, "kilobytes"


def resign_onnx(folder, **changes):
    path = folder / "onnx.json"
    manifest = json.loads(path.read_text()) | changes
    if "files" not in changes:
        names = [name for name in manifest["files"] if (folder / name).is_file()]
        manifest["files"] = {name: file_digest(folder / name) for name in names}
    path.write_text(json.dumps(signed(manifest)))


def cut_onnx(name, to):
    def damage(folder):
        (folder / name).write_bytes((folder / name).read_bytes()[:to])
        resign_onnx(folder)

    return damage


def replaced(name, other):
    return lambda folder: (shutil.copyfile(folder / other, folder / name), resign_onnx(folder))


ONNX_DAMAGES = {
    "trunk cut off": cut_onnx("trunk.onnx", 5000),
    "trunk empty": cut_onnx("trunk.onnx", 0),
    "side cut off": cut_onnx("response.onnx", 5000),
    "trunk is not ONNX": cut_onnx("trunk.onnx", 40),
    "trunk is a side": replaced("trunk.onnx", "response.onnx"),
    "side is a trunk": replaced("response.onnx", "trunk.onnx"),
    "no response": lambda folder: ((folder / "response.onnx").unlink(), resign_onnx(folder)),
    "no trunk": lambda folder: ((folder / "trunk.onnx").unlink(), resign_onnx(folder)),
    "weights cut off": cut_onnx(WEIGHTS, 100_000),
    "manifest is a list": lambda folder: (folder / "onnx.json").write_text("[]"),
    "manifest is not JSON": lambda folder: (folder / "onnx.json").write_text("{"),
    "vocabulary is not JSON": cut_onnx(VOCABULARY, 20),
    **{
        f"{key} = {value}": (
            lambda folder, key=key, value=value: resign_onnx(folder, **{key: value})
        )
        for key, value in [
            ("size", 255),
            ("size", -1),
            ("size", 10**12),
            ("size", "256"),
            ("size", None),
            ("reduction_size", 1),
            ("max_length", 0),
            ("max_length", "x"),
            ("history", 3),
            ("history", {"messages": "x"}),
            ("history", []),
            ("files", []),
            ("files", {"../../x": "0"}),
            ("model", None),
            ("subject_threshold", "x"),
            ("subject_threshold", float("nan")),
        ]
    },
}


@pytest.mark.parametrize("name", ONNX_DAMAGES)
def test_a_broken_onnx_folder_is_one_clear_line(tmp_path, name, monkeypatch):
    pytest.importorskip("onnxruntime")
    folder = shutil.copytree(weights("convert-small").folder, tmp_path / "model")
    if name.startswith("weights"):
        monkeypatch.setattr(onnx_encoder, "locate", lambda _: folder)
    ONNX_DAMAGES[name](folder)
    with pytest.raises(InputError) as refused:
        OnnxEncoder(folder).encode_responses(["Hello!"])
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 800


def test_a_file_of_many_empty_tensors_is_not_read(tmp_path):
    """Three megabytes of names would take hundreds."""
    header(EMPTY)(saved(tmp_path / "model", 40))
    with pytest.raises(InputError, match="has a header of"):
        check_header(tmp_path / "model" / WEIGHTS)

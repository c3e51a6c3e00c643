"""`rejoinder doctor`: what it finds on this machine, and what it advises on others."""

import numpy as np
import torch

import rejoinder
from rejoinder import cache
from rejoinder.cli import doctor
from rejoinder.cli.doctor import advice

VERB = ["doctor"]


def test_this_machine_is_described(command):
    found = command("--json").json
    assert found["rejoinder"] == rejoinder.__version__
    assert found["torch"]["version"] == torch.__version__
    assert "convert-small" in found["models"]
    assert found["extras"]["dev"]["pytest"], "it runs this"
    assert found["extras"]["bench"].keys() >= {"datasets"}
    text = command().out
    assert torch.__version__ in text
    assert all(line in text for line in found["advice"])
    assert found["telemetry"]["ORT_DISABLE_TELEMETRY"] == "1"
    assert "ORT_DISABLE_TELEMETRY=1" in text


def test_a_machine_without_pytorch_is_described(command, monkeypatch):
    monkeypatch.setattr(doctor, "find_spec", lambda _: None)
    found = command("--json").json
    assert found["torch"] is None
    assert found["processor"]["bfloat16"] is None
    assert "PyTorch is not installed" in found["advice"][0]
    text = command().out
    assert "no torch" in text
    assert "bfloat16 unknown" in text


def test_the_cache_is_shown_and_emptied(command, tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "user_cache_path", lambda *_, **__: tmp_path)
    cache.cached_vectors("made", lambda: np.ones((2, 3), np.float32))
    (tmp_path / "other.txt").write_text("a file of somebody else")
    size = (tmp_path / "made.npy").stat().st_size
    shown = {"folder": str(tmp_path), "files": 1, "bytes": size, "removed": None}
    assert command("--json").json["cache"] == shown
    assert f"cache: 1 files, 0.0 MB in {tmp_path}" in command().out
    assert command("--empty-cache", "--json").json["cache"] == shown | {"files": 0, "bytes": 0, "removed": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["other.txt"]


def test_what_is_slow_has_a_reason():
    fast = {
        "torch": {"build": "CPU", "threads": 4, "devices": []},
        "processor": {"cores": 4, "bfloat16": True, "exact_int8": True, "packed_linears": True},
        "extras": {},
    }
    assert advice(fast) == []
    for part, key, value, said in (
        ("processor", "bfloat16", False, "bfloat16"),
        ("processor", "exact_int8", False, "VNNI"),
        ("processor", "packed_linears", False, "oneDNN"),
        ("torch", "threads", 1, "1 of 4 cores"),
        ("torch", "build", "CUDA", "without a GPU"),
    ):
        [line] = advice({**fast, part: {**fast[part], key: value}})
        assert said in line

"""`rejoinder doctor`: what it finds on this machine, and what it advises on others."""

import torch

import rejoinder
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

"""Device and precision."""

import pytest
import torch

from rejoinder.errors import InputError
from rejoinder.training import compute
from rejoinder.training.compute import choose_device, choose_precision, without_denormals


@pytest.mark.parametrize(("there", "wanted", "chosen"), [
    (False, "auto", "cpu"), (True, "auto", "cuda"), (True, "cpu", "cpu"), (True, "cuda", "cuda"),
])  # fmt: skip
def test_device(monkeypatch, there, wanted, chosen):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert choose_device(wanted) == chosen


def test_cuda_without_a_device_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="sees no CUDA device"):
        choose_device("cuda")


@pytest.mark.parametrize(("device", "native", "wanted", "chosen"), [
    ("cpu", True, "auto", "bf16"),
    ("cpu", False, "auto", "fp32"),
    ("cpu", False, "bf16", "bf16"),
    ("cuda", True, "auto", "bf16"),
    ("cuda", False, "auto", "fp16"),
    ("cuda", False, "fp32", "fp32"),
])  # fmt: skip
def test_precision(monkeypatch, device, native, wanted, chosen):
    monkeypatch.setattr(compute, "has_fast_bfloat16", lambda: native)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: native)
    assert choose_precision(wanted, device) == chosen


def test_half_precision_on_a_cpu_is_refused():
    with pytest.raises(InputError, match="'fp16' needs a CUDA device"):
        choose_precision("fp16", "cpu")


def test_denormal_numbers_are_zero_while_training_and_only_then():
    tiny = torch.full((100_000,), 1e-39)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot")
    torch.set_flush_denormal(False)
    with without_denormals():
        assert (tiny * 0.5).abs().max() == 0
    assert (tiny * 0.5).abs().max() > 0

"""Checkpoints: everything comes back, and a failed write leaves the last one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from rejoinder.errors import InputError
from rejoinder.models.convert import Convert
from rejoinder.models.families import build_module
from rejoinder.models.packing import pack
from rejoinder.training import checkpoint
from rejoinder.training.checkpoint import load_checkpoint, save_checkpoint
from rejoinder.training.losses import InBatchLoss
from rejoinder.training.optimization import build_optimizer, prepare_stage
from rejoinder.training.recipe import Stage
from rejoinder.training.state import RunState
from tests.training.tiny import MODEL, recipe, stage


def setting(kind: str, seed: int, **changes: object) -> tuple[Convert, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    module = build_module({**MODEL, **changes}, 20)
    optimizer_config = {"kind": kind, "momentum": 0.9} if kind == "sgd" else {"kind": kind}
    config: Stage = recipe("data", stage=[stage(active_blocks=1, optimizer=optimizer_config)]).stage[0]
    prepare_stage(module, config)
    return module, build_optimizer(module, config)


def step(module: Convert, optimizer: torch.optim.Optimizer) -> float:
    lengths = np.full(8, 3, np.int32)
    x, y = module(pack(np.arange(24, dtype=np.int32) % 19, lengths, 19), contexts=4)
    loss = InBatchLoss(0.2)(x, y, 5.0).value
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


@pytest.mark.parametrize("kind", ["adadelta", "sgd", "adam", "adamw", "adamax"])
def test_training_goes_on_bit_for_bit(tmp_path: Path, kind: str) -> None:
    """Weights and optimiser state come back; dropout is the loop's, a function of seed and step."""
    path = tmp_path / "last.safetensors"
    module, optimizer = setting(kind, 0)
    step(module, optimizer)
    step(module, optimizer)
    save_checkpoint(path, RunState(step=2), module, optimizer, {})
    torch.manual_seed(5)
    expected = [step(module, optimizer) for _ in range(3)]
    other, other_optimizer = setting(kind, 1)
    loaded = load_checkpoint(path)
    assert loaded is not None
    loaded.restore_module(other)
    loaded.restore_optimizer(other, other_optimizer)
    torch.manual_seed(5)
    assert [step(other, other_optimizer) for _ in range(3)] == expected


def test_the_state_and_the_loss_scaling_come_back(tmp_path: Path) -> None:
    sums = {"loss": 1e-17, "accuracy": 0.5}
    state = RunState(step=9, stage=1, stage_seconds=0.1 + 0.2, best=1 / 3, validation={"mrr": 0.7}, sums=sums)
    module, _ = setting("sgd", 0)
    save_checkpoint(tmp_path / "c", state, module, None, {"scale": 65536.0, "_growth_tracker": 3})
    loaded = load_checkpoint(tmp_path / "c")
    assert loaded is not None
    assert loaded.state == state
    assert loaded.scaler == {"scale": 65536.0, "_growth_tracker": 3}


def test_parameters_that_parts_share_are_written_once(tmp_path: Path) -> None:
    module, _ = setting("sgd", 0, feed_forward_2="original")
    save_checkpoint(tmp_path / "c", RunState(), module, None, {})
    other, _ = setting("sgd", 1, feed_forward_2="original")
    loaded = load_checkpoint(tmp_path / "c")
    assert loaded is not None
    loaded.restore_module(other)
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), other.parameters(), strict=True))


def test_there_may_be_none(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path / "c") is None


@pytest.mark.parametrize("content", [b"", b"garbage that is long enough", b"\x02\x00\x00\x00\x00\x00\x00\x00{}"])
def test_a_damaged_one_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "c").write_bytes(content)
    with pytest.raises(InputError, match="not a whole checkpoint"):
        load_checkpoint(tmp_path / "c")


def test_a_cut_one_is_refused(tmp_path: Path) -> None:
    module, _ = setting("sgd", 0)
    save_checkpoint(tmp_path / "c", RunState(), module, None, {})
    (tmp_path / "c").write_bytes((tmp_path / "c").read_bytes()[:-100])
    with pytest.raises(InputError, match="not a whole checkpoint"):
        load_checkpoint(tmp_path / "c")


def test_a_flipped_bit_is_never_trained_on(tmp_path: Path) -> None:
    """Most bits of a checkpoint are numbers of which every one is a number."""
    path = tmp_path / "c"
    module, optimizer = setting("adamw", 0)
    step(module, optimizer)
    save_checkpoint(path, RunState(step=1, best=0.5), module, optimizer, {})
    content, whole = path.read_bytes(), load_checkpoint(path)
    assert whole is not None
    header = 8 * int.from_bytes(content[:8], "little")
    refused = 0
    for bit in [*range(64, header, 251), *range(header, 8 * len(content), 8 * len(content) // 60)]:
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        try:
            found = load_checkpoint(path)
        except InputError:
            refused += 1
            continue
        assert found is not None  # white space of the header: nothing has changed
        assert found.state == whole.state
        assert found.tensors.keys() == whole.tensors.keys()
        assert all(torch.equal(found.tensors[name], value) for name, value in whole.tensors.items())
    assert refused > 80


def test_one_of_an_earlier_version_has_no_digest_and_opens(tmp_path: Path) -> None:
    content = {"format": 2, "state": {"step": 7}, "scaler": {}}
    save_file({"weights/w": torch.ones(3)}, tmp_path / "c", {"checkpoint": json.dumps(content)})
    loaded = load_checkpoint(tmp_path / "c")
    assert loaded is not None
    assert loaded.state.step == 7


def test_a_full_disk_leaves_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "last.safetensors"
    module, _ = setting("sgd", 0)
    save_checkpoint(path, RunState(step=1), module, None, {})

    def full(tensors: object, part: Path, metadata: object) -> None:  # noqa: ARG001
        part.write_bytes(b"half of it")
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*last\.safetensors'"):
        save_checkpoint(path, RunState(step=2), module, None, {})
    loaded = load_checkpoint(path)
    assert loaded is not None
    assert loaded.state.step == 1
    assert list(tmp_path.iterdir()) == [path]

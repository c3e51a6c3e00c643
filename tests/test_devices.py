"""Devices: their names, and batches on their way to one."""

from dataclasses import dataclass

import pytest
import torch

from rejoinder import devices
from rejoinder.errors import InputError

META = torch.device("meta")


@dataclass(frozen=True)
class Inner:
    floats: torch.Tensor
    name: str = "inner"


@dataclass(frozen=True)
class Outer:
    ids: torch.Tensor
    inner: tuple[Inner, ...]
    masks: dict[str, Inner]
    nothing: torch.Tensor | None = None
    count: int = 3


def outer():
    return Outer(
        ids=torch.arange(7),
        inner=(Inner(torch.rand(3, 5)), Inner(torch.rand(1, 0))),
        masks={"a": Inner(torch.tensor([True, False, True]), "mask")},
    )


def tensors(batch):
    return [batch.ids, *(each.floats for each in batch.inner), batch.masks["a"].floats]


def test_a_batch_moves_whole_and_in_one_copy(monkeypatch):
    batch = outer()
    copied = []
    original = torch.Tensor.to

    def to(tensor, *args, **options):
        copied.append(tensor)
        return original(tensor, *args, **options)

    monkeypatch.setattr(torch.Tensor, "to", to)
    moved = devices.move(batch, META)
    assert len(copied) == 1
    assert copied[0].dtype == torch.uint8
    kinds = [(each.device, each.dtype, each.shape) for each in tensors(moved)]
    assert kinds == [(META, each.dtype, each.shape) for each in tensors(batch)]
    assert moved.inner[1].name == "inner"
    assert moved.masks["a"].name == "mask"
    assert moved.nothing is None
    assert moved.count == 3


def test_a_copy_has_the_same_values(monkeypatch):
    """Its bytes are laid out and found again; the CPU stands for a card."""

    class Card:
        type = "card"

    batch = outer()
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, *_, **__: tensor.clone())
    moved = devices.move(batch, Card())
    for before, after in zip(tensors(batch), tensors(moved), strict=True):
        assert torch.equal(before, after)
        assert before.data_ptr() != after.data_ptr() or not before.numel()


def test_on_the_cpu_nothing_is_copied():
    batch = outer()
    assert devices.move(batch, devices.CPU) is batch


def test_auto_is_a_card_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert devices.find_device("auto") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert devices.find_device("auto") == torch.device("cuda")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a machine with a card")
def test_a_card_that_is_not_there_is_refused():
    with pytest.raises(InputError, match=r"device 'cuda:7' cannot be used: .*; 'cpu' always can"):
        devices.find_device("cuda:7")

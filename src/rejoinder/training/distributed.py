"""Training in several processes: what they tell each other.

Each process has its part of every batch. It encodes its pairs, gets the responses of the others (with gradients), and
computes the loss of its own contexts against all responses; gradients are summed. So N processes compute what one would
with the same batch. The processes are started by `torchrun` or by Ray; this module reads what these leave in the
environment. Weights, optimiser and state are the same in all processes; only the first one writes.

`torch.nn.parallel.DistributedDataParallel` would sum gradients during the backward pass, but it expects one backward
pass a step in which every parameter takes part: gradient caching has several, and stages skip blocks.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rejoinder.errors import InputError
from rejoinder.training.losses import Loss
from rejoinder.training.presence import ElsewhereError, PeerLostError, Presence

T = TypeVar("T")
R = TypeVar("R")

TIMEOUT = timedelta(minutes=10)
"""Longest that a process waits for the others within a step, at a validation or at a checkpoint."""

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
"""Variables that torchrun and Ray Train set: number of this process and of all, on all machines and on this one."""


class Processes:
    """The processes of a run, seen from one of them. This class is the case of a single one.

    Attributes:
        rank: number of this process, from 0.
        count: how many there are.
    """

    rank = 0
    count = 1

    @property
    def first(self) -> bool:
        """Whether this process writes the run's folder and shows progress."""
        return self.rank == 0

    def gather(self, rows: Tensor) -> Tensor:
        """The matrices of all processes, equal in shape, one below the other: (n, d) -> (count · n, d).

        The gradient of a row is the sum of the gradients that it gets in all processes.
        """
        return rows

    def sum_gradients(self, parameters: Iterable[nn.Parameter], loss: Loss) -> Loss:  # noqa: ARG002
        """Sum the gradients, in place, and the shares of the loss over all processes."""
        return loss

    def agree(self, value: float, figure: float = 0.0) -> tuple[float, float]:
        """The first process's value, and the sum of everybody's figure (float64)."""
        return value, figure

    def divide(self, items: Sequence[T], work: Callable[[T], R]) -> list[R]:
        """Do some work on each item, each process its share; everybody gets all results, in the items' order."""
        return [work(item) for item in items]

    def first_before_others(self, work: Callable[[], T]) -> T:
        """Do some work in the first process and, once it is done there, in the others, who find what it left."""
        return work()

    def meet(self) -> None:
        """Wait for all the others."""

    def equalise(self, module: nn.Module) -> None:
        """Give all processes the first one's weights."""


class Group(Processes):
    """Several processes that have found each other.

    Args:
        presence: tells who is there.
        handle: their process group: gloo for what is on a CPU, NCCL for what is on a GPU.
    """

    def __init__(self, presence: Presence, handle: dist.ProcessGroup) -> None:
        self.rank, self.count = presence.rank, presence.count
        self.presence, self.handle = presence, handle
        self._turns = itertools.count()

    def gather(self, rows: Tensor) -> Tensor:
        """See `Processes.gather`."""
        gathered: Tensor = _Gather.apply(rows, self)  # type: ignore[no-untyped-call]
        return gathered

    def stack(self, rows: Tensor) -> Tensor:
        """`gather` without gradient."""
        everything = rows.new_empty((self.count * rows.shape[0], *rows.shape[1:]))
        with _lost_peers():
            dist.all_gather(list(everything.chunk(self.count)), rows.contiguous(), group=self.handle)
        return everything

    def add_up(self, values: Tensor) -> Tensor:
        """Sum a tensor over all processes, in place."""
        with _lost_peers():
            dist.all_reduce(values, group=self.handle)
        return values

    def sum_gradients(self, parameters: Iterable[nn.Parameter], loss: Loss) -> Loss:
        """See `Processes.sum_gradients`.

        A parameter may have a gradient in some processes only (none of the others' pairs had a history, say); it
        then gets one everywhere. One that has none anywhere stays without. Of sparse gradients only the rows go over
        the wire, so the cost does not depend on the size of the table.
        """
        learning = [parameter for parameter in parameters if parameter.requires_grad]
        sparse = self._sparse_somewhere(learning)
        for parameter in sparse:
            parameter.grad = self._sum_rows(parameter)
        learning = [parameter for parameter in learning if all(parameter is not other for other in sparse)]
        has = loss.value.new_tensor([parameter.grad is not None for parameter in learning], dtype=torch.float32)
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in learning]
        figures = [loss.value.detach(), loss.accuracy, *loss.figures.values()]
        pieces = [torch.stack(figures), has, *gradients]
        flat = self.add_up(torch.cat([piece.reshape(-1).float() for piece in pieces]))
        totals, anywhere, *sums = torch.split(flat, [piece.numel() for piece in pieces])
        for number, (parameter, gradient, total) in enumerate(zip(learning, gradients, sums, strict=True)):
            gradient.copy_(total.view_as(gradient))
            if parameter.grad is None and bool(anywhere[number]):
                parameter.grad = gradient
        value, accuracy, *others = totals
        return Loss(value, accuracy, dict(zip(loss.figures, others, strict=True)))

    def _sparse_somewhere(self, parameters: Sequence[nn.Parameter]) -> list[nn.Parameter]:
        """The parameters that have a sparse gradient in at least one process."""
        has = [parameter.grad is not None and parameter.grad.is_sparse for parameter in parameters]
        anywhere = self.add_up(torch.tensor(has, dtype=torch.float32)).tolist()
        return [parameter for parameter, there in zip(parameters, anywhere, strict=True) if there]

    def _sum_rows(self, parameter: nn.Parameter) -> Tensor:
        """The sum of a parameter's sparse gradients, its rows ascending."""
        rows = torch.empty(0, dtype=torch.int64, device=parameter.device)
        values = parameter.new_empty(0, *parameter.shape[1:])
        if parameter.grad is not None:
            gradient = parameter.grad.coalesce()
            rows, values = gradient.indices()[0], gradient.values()
        counts = self.stack(torch.tensor([len(rows)])).tolist()
        longest = max(counts)
        all_rows = self.stack(_filled(rows, longest)).chunk(self.count)
        all_values = self.stack(_filled(values, longest)).chunk(self.count)
        index = torch.cat([part[:count] for part, count in zip(all_rows, counts, strict=True)])
        value = torch.cat([part[:count] for part, count in zip(all_values, counts, strict=True)])
        return torch.sparse_coo_tensor(index[None], value, parameter.shape).coalesce()

    def agree(self, value: float, figure: float = 0.0) -> tuple[float, float]:
        """See `Processes.agree`."""
        told = torch.tensor([value if self.first else 0.0, figure], dtype=torch.float64)
        agreed, total = self.add_up(told).tolist()
        return agreed, total

    def divide(self, items: Sequence[T], work: Callable[[T], R]) -> list[R]:
        """See `Processes.divide`."""
        own = [work(item) for item in items[self.rank :: self.count]]
        everything: list[Any] = [None] * self.count
        with _lost_peers():
            dist.all_gather_object(everything, own, group=self.handle)
        return [everything[i % self.count][i // self.count] for i in range(len(items))]

    def first_before_others(self, work: Callable[[], T]) -> T:
        """See `Processes.first_before_others`. The others wait as long as the first one lives."""
        turn = f"turn/{next(self._turns)}"
        if not self.first:
            self.presence.wait_for_first(turn)
        done = work()
        if self.first:
            self.presence.announce(turn)
        return done

    def meet(self) -> None:
        """See `Processes.meet`."""
        self.agree(0.0)

    def equalise(self, module: nn.Module) -> None:
        """See `Processes.equalise`."""
        with _lost_peers(), torch.no_grad():
            for tensor in (*module.parameters(), *module.buffers()):
                dist.broadcast(tensor, dist.get_global_rank(self.handle, 0), group=self.handle)


def _filled(values: Tensor, length: int) -> Tensor:
    """The values with zeros up to a length, since processes exchange tensors of one shape."""
    return torch.cat([values, values.new_zeros(length - len(values), *values.shape[1:])])


class _Gather(torch.autograd.Function):
    """All processes' rows; backwards, each process gets the sum of all gradients of its rows."""

    @staticmethod
    def forward(context: Any, rows: Tensor, group: Group) -> Tensor:
        context.group, context.rows = group, rows.shape[0]
        return group.stack(rows)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        total = context.group.add_up(gradient.clone(memory_format=torch.contiguous_format))
        start = context.group.rank * context.rows
        return total[start : start + context.rows], None


def started_with() -> dict[str, int]:
    """What the launcher says of this process; without one, the first of one.

    Returns:
        A number for each of `NAMES`.

    Raises:
        InputError: it says only some of it, or no number.
    """
    said = {name: os.environ.get(name, "") for name in NAMES}
    if not said["RANK"] or not said["WORLD_SIZE"]:  # one of them alone is another tool's
        return dict(zip(NAMES, (0, 1, 0, 1), strict=True))
    for name, value in said.items():
        if not value.isdecimal():
            raise InputError(
                f"RANK and WORLD_SIZE are set, as for one of several processes, but {name} is {value!r}; start them "
                "with torchrun, or unset RANK and WORLD_SIZE"
            )
    return {name: int(value) for name, value in said.items()}


def is_first() -> bool:
    """Whether this process is the one that shows and prints."""
    return started_with()["RANK"] == 0


def check_division(name: str, batch_size: int, count: int) -> None:
    """Refuse a batch that the processes cannot share evenly.

    Raises:
        InputError: so it is; the message says which sizes can.
    """
    if batch_size % count:
        below = batch_size // count * count
        fits = f"{below} or {below + count}" if below > 1 else f"{below + count}"
        raise InputError(
            f"stage '{name}': batch_size = {batch_size} (of all processes together) cannot be shared evenly by {count} "
            f"processes; set it to {fits}, or start another number of processes"
        )


@contextmanager
def joined(timeout: timedelta = TIMEOUT) -> Iterator[Processes]:
    """Find the other processes of the job, if there are any.

    If one of them disappears, an error says which, and the others end too.

    Args:
        timeout: see `TIMEOUT`.

    Raises:
        RejoinderError: another process is gone; the message says which and what to do.
        ElsewhereError: the same, where another process has said so already.
    """
    if started_with()["WORLD_SIZE"] == 1:
        yield Processes()
        return
    group = _find_each_other(timeout)
    presence = group.presence
    try:
        yield group
        group.meet()
        dist.destroy_process_group(group.handle)
    except PeerLostError as lost:
        raise presence.verdict(lost) from None
    except BaseException as error:
        if presence.leave(error):
            raise ElsewhereError(str(error), error) from None
        raise
    finally:
        presence.close()


def _find_each_other(timeout: timedelta) -> Group:
    if not dist.is_available():
        raise InputError("this build of PyTorch cannot train in several processes; start one")
    with _lost_peers():
        if not dist.is_initialized():  # Ray has done it
            dist.init_process_group(timeout=timeout)
        gpus = torch.cuda.is_available() and dist.is_nccl_available()
        handle = dist.new_group(timeout=timeout, backend="cpu:gloo,cuda:nccl" if gpus else "gloo")
    assert handle is not None
    return Group(Presence(dist.get_rank(), dist.get_world_size()), handle)


@contextmanager
def _lost_peers() -> Iterator[None]:
    """Tell a failure of the connection from other errors."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise PeerLostError(" ".join(str(error).split())) from error

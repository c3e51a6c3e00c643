"""Devices, precision and processes of a run; `torchrun` or Ray starts the processes.

Each process encodes its part of every batch, gathers the responses of the others (with gradients),
and computes the loss of its own contexts against all responses; gradients are summed, so N
processes compute what one would. Only the first writes. If a process dies, the others' next
exchange fails, and they end too; a silent machine is given up after `SILENCE`.

`DistributedDataParallel` expects one backward pass a step in which every parameter takes part;
gradient caching has several, and stages skip blocks. The gather with gradients of
`torch.distributed.nn.functional` is deprecated.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rejoinder.connections import probe_connections
from rejoinder.devices import half_precision
from rejoinder.errors import InputError, RejoinderError
from rejoinder.networks.quantization.rounding import Half
from rejoinder.processor import has_fast_bfloat16
from rejoinder.training.recipe.losses import Loss
from rejoinder.training.recipe.settings import Compute, Quantization

T = TypeVar("T")
R = TypeVar("R")

# for the others, within a step, at a validation or at a checkpoint
STEP_TIMEOUT = timedelta(minutes=10)
# while the first one works alone: tokenising much data takes hours
SETUP_TIMEOUT = timedelta(days=20)

SILENCE = 120
"""Seconds without a sign of life of another machine, such as one that lost its power. A process
that computes for long is none: its machine answers."""

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
"""Variables that torchrun and Ray Train set: number of this process and of all, on all machines and
on this one."""


_PEER = re.compile(r"\[([0-9A-Fa-f.:]+)\]:\d+")  # in errors of gloo

CARD_SWITCH_INTERVAL = 1e-4  # seconds after which a thread must give up Python's lock


class LostProcessError(RejoinderError):
    """An exchange between the processes failed."""


class RankZeroFailedError(RejoinderError):
    """The first process ended the job and reports why; `code` is the exit code of its error."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class Processes:
    """The processes of a run, seen from number `rank` of `count`.

    `group` is for steps, `setup_group` for long waits.
    """

    def __init__(
        self, group: dist.ProcessGroup | None = None, setup_group: dist.ProcessGroup | None = None
    ) -> None:
        self.group = group
        self.setup_group = setup_group
        self.rank = 0 if group is None else dist.get_rank()
        self.count = 1 if group is None else dist.get_world_size()

    @property
    def first(self) -> bool:
        """Return whether this process writes the run's folder and shows progress."""
        return self.rank == 0

    def gather(self, rows: Tensor) -> Tensor:
        """Stack the matrices of all processes, (n, d) -> (count · n, d).

        Gradients of a row are summed over them.
        """
        return rows if self.count == 1 else _Gather.apply(rows, self)  # type: ignore[no-untyped-call]

    def sum_gradients(self, parameters: Iterable[nn.Parameter], loss: Loss) -> Loss:
        """Sum gradients, in place, and shares of the loss.

        A gradient that some processes lack is given to all.
        """
        if self.count == 1:
            return loss
        learning = [parameter for parameter in parameters if parameter.requires_grad]
        sparse = self.all_reduce(*(p.grad is not None and p.grad.is_sparse for p in learning))
        for parameter in itertools.compress(learning, sparse):
            self._sum_rows(parameter)
        learning = [
            parameter for parameter, anywhere in zip(learning, sparse, strict=True) if not anywhere
        ]
        has = loss.value.new_tensor(
            [parameter.grad is not None for parameter in learning], dtype=torch.float32
        )
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in learning]
        figures = [loss.value.detach(), loss.accuracy, *loss.figures.values()]
        pieces = [torch.stack(figures), has, *gradients]
        flat = self.sum_tensor(torch.cat([piece.reshape(-1).float() for piece in pieces]))
        totals, anywhere, *sums = torch.split(flat, [piece.numel() for piece in pieces])
        for number, (parameter, gradient, total) in enumerate(
            zip(learning, gradients, sums, strict=True)
        ):
            gradient.copy_(total.view_as(gradient))
            if parameter.grad is None and bool(anywhere[number]):
                parameter.grad = gradient
        value, accuracy, *others = totals
        return Loss(value, accuracy, dict(zip(loss.figures, others, strict=True)))

    def _sum_rows(self, table: nn.Parameter) -> None:
        """Sum the sparse gradients of a table.

        Its rows alone are exchanged, through gloo, since NCCL sums none.
        """
        gradient = table.grad
        if gradient is None:
            index = torch.empty((1, 0), dtype=torch.int64)
            values = torch.empty((0, *table.shape[1:]))
            gradient = torch.sparse_coo_tensor(index, values, table.shape, check_invariants=False)
        rows = gradient.coalesce().cpu()
        with _lost_processes():
            dist.all_reduce(rows, group=self.setup_group)
        table.grad = rows.coalesce().to(table.device)

    def sum_tensor(self, values: Tensor) -> Tensor:
        """Sum a tensor over all processes, in place."""
        with _lost_processes():
            dist.all_reduce(values, group=self.group)
        return values

    def all_reduce(self, *values: float) -> list[float]:
        """Sum each number over all processes, in float64."""
        if self.count == 1:
            return list(values)
        total: list[float] = self.sum_tensor(torch.tensor(values, dtype=torch.float64)).tolist()
        return total

    def parallel_map(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Divide the items among the processes; all of them get all results, in order."""
        own = [work(item) for item in items[self.rank :: self.count]]
        if self.count == 1:
            return own
        everything: list[Any] = [None] * self.count
        with _lost_processes():
            dist.all_gather_object(everything, own, group=self.group)
        return [everything[i % self.count][i // self.count] for i in range(len(items))]

    def rank_zero_first(self, work: Callable[[], T]) -> T:
        """Do some work in the first process, then in the others, which find its files.

        They raise a RankZeroFailedError if it failed.
        """
        failure: list[Any] = [None]
        if self.first:
            try:
                done = work()
            except BaseException as error:
                code = (
                    130
                    if isinstance(error, KeyboardInterrupt)
                    else 2
                    if isinstance(error, InputError)
                    else 1
                )
                failure = [(str(error), code)]
                raise
            finally:
                self._broadcast(failure)
            return done
        self._broadcast(failure)
        if failure[0] is not None:
            text, code = failure[0]
            raise RankZeroFailedError(text, code)
        return work()

    def _broadcast(self, values: list[Any]) -> None:
        if self.setup_group is not None:
            with _lost_processes():
                dist.broadcast_object_list(
                    values, dist.get_global_rank(self.setup_group, 0), group=self.setup_group
                )

    def barrier(self) -> None:
        """Wait for all the others."""
        self.all_reduce(0.0)

    def broadcast_parameters(self, module: nn.Module) -> None:
        """Give all processes the first one's weights."""
        if self.group is None:
            return
        with _lost_processes(), torch.no_grad():
            for tensor in (*module.parameters(), *module.buffers()):
                dist.broadcast(tensor, dist.get_global_rank(self.group, 0), group=self.group)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, rows: Tensor, processes: Processes) -> Tensor:
        context.processes = processes
        context.rows = rows.shape[0]
        everything = rows.new_empty((processes.count * rows.shape[0], *rows.shape[1:]))
        with _lost_processes():
            dist.all_gather(
                list(everything.chunk(processes.count)), rows.contiguous(), group=processes.group
            )
        return everything

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        total = context.processes.sum_tensor(gradient.clone(memory_format=torch.contiguous_format))
        start = context.processes.rank * context.rows
        return total[start : start + context.rows], None


def launch_place() -> dict[str, int]:
    """Return what the launcher says of this process, a number for each of `NAMES`.

    Without one, it is the first of one.
    """
    values = {name: os.environ.get(name, "") for name in NAMES}
    if not values["RANK"] or not values["WORLD_SIZE"]:  # one of them alone is another tool's
        return dict(zip(NAMES, (0, 1, 0, 1), strict=True))
    for name, value in values.items():
        if not value.isdecimal():
            raise InputError(
                "RANK and WORLD_SIZE are set, as for one of several processes,"
                f" but {name} is {value!r}; start them with torchrun, or unset RANK and WORLD_SIZE"
            )
    return {name: int(value) for name, value in values.items()}


def is_first() -> bool:
    """Return whether this process is the one that shows and prints."""
    return launch_place()["RANK"] == 0


def check_division(name: str, batch_size: int, count: int) -> None:
    """Refuse a batch that the processes cannot share evenly."""
    if batch_size % count:
        below = batch_size // count * count
        fits = f"{below} or {below + count}" if below > 1 else f"{below + count}"
        raise InputError(
            f"stage '{name}': batch_size = {batch_size}"
            f" (of all processes together) cannot be shared evenly by {count} processes;"
            f" set it to {fits}, or start another number of processes"
        )


@contextmanager
def joined(timeout: timedelta = STEP_TIMEOUT) -> Iterator[Processes]:
    """Connect the processes of the job, if there are several."""
    if launch_place()["WORLD_SIZE"] == 1:
        yield Processes()
        return
    if not dist.is_available():
        raise InputError("this build of PyTorch cannot train in several processes; start one")
    with _lost_processes():
        if not dist.is_initialized():  # Ray has done it
            dist.init_process_group(timeout=timeout)
        gpus = torch.cuda.is_available() and dist.is_nccl_available()
        group = dist.new_group(timeout=timeout, backend="cpu:gloo,cuda:nccl" if gpus else "gloo")
        setup_group = dist.new_group(timeout=SETUP_TIMEOUT, backend="gloo")
    probe_connections(seconds=SILENCE)
    processes = Processes(group, setup_group)
    yield processes
    processes.barrier()
    dist.destroy_process_group(group)
    dist.destroy_process_group(setup_group)


@contextmanager
def _lost_processes() -> Iterator[None]:
    """Tell a failure of the connection from other errors."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        peer = _PEER.search(str(error))
        origin = f" on {peer[1]}" if peer else ""
        raise LostProcessError(
            f"another process of the job{origin} is gone: it failed, was killed or ran out of"
            " memory, or its machine is down; the same command continues the run from its last"
            f" checkpoint ({' '.join(str(error).split())})"
        ) from error


@dataclass(frozen=True)
class Machine:
    """Device and precision of a run."""

    device: torch.device
    precision: str  # "fp32", "bf16" or "fp16"
    scaler: torch.amp.GradScaler  # multiplies the loss in fp16, so that small gradients survive

    autocast: Callable[[], AbstractContextManager[object]] = field(init=False)
    """Casts products to 16 bits, if the precision says so; weights stay float32."""

    def __post_init__(self) -> None:
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.precision)
        cast = nullcontext if dtype is None else partial(torch.autocast, self.device.type, dtype)
        object.__setattr__(self, "autocast", cast)


def set_up(compute: Compute, quantization: Quantization) -> Machine:
    """Resolve device and precision for this process; refuse what the machine cannot do."""
    if compute.threads:
        torch.set_num_threads(compute.threads)
    kind = choose_device(compute.device)
    device = torch.device(kind)
    if kind == "cuda":
        variables = launch_place()
        devices = torch.cuda.device_count()
        if variables["LOCAL_WORLD_SIZE"] > devices:
            raise InputError(
                f"{variables['LOCAL_WORLD_SIZE']} processes were started on this machine with"
                f" {devices} CUDA devices; start at most one process for each,"
                " or set compute.device = 'cpu'"
            )
        device = torch.device(kind, variables["LOCAL_RANK"])
        torch.cuda.set_device(device)
    precision = choose_precision(compute.precision, kind)
    return Machine(device, precision, loss_scaler(kind, precision, quantization))


def choose_device(wanted: str) -> str:
    """Resolve "auto": CUDA where there is a device."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "compute.device = 'cuda', but PyTorch sees no CUDA device; use 'auto' or 'cpu'"
        )
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return wanted


def choose_precision(wanted: str, device: str) -> str:
    """Resolve "auto": the fastest that the device has instructions for."""
    if wanted == "fp16" and device == "cpu":
        raise InputError(
            "compute.precision = 'fp16' needs a CUDA device; on a CPU use 'bf16', 'fp32' or 'auto'"
        )
    if wanted != "auto":
        return wanted
    if device == "cuda":
        return half_precision(torch.device(device))
    return "bf16" if has_fast_bfloat16() else "fp32"


def loss_scaler(device: str, precision: str, quantization: Quantization) -> torch.amp.GradScaler:
    """Scale the loss in fp16 as PyTorch does.

    With quantisation it starts at the recipe's factor (CONVERT: 128) and falls.
    """
    if precision != "fp16":
        return torch.amp.GradScaler(device, enabled=False)
    if quantization.enabled:
        return torch.amp.GradScaler(
            device, init_scale=quantization.loss_scale, growth_interval=2**31 - 1
        )
    return torch.amp.GradScaler(device)


def choose_half(config: Quantization, precision: str) -> Half:
    """Resolve "auto": bfloat16 for a run in bf16, else float16.

    The former's products round to it anyway.
    """
    if config.half != "auto":
        return config.half
    return "bfloat16" if precision == "bf16" else "float16"


@contextmanager
def tuned(machine: Machine) -> Iterator[None]:
    """Set what makes training faster in this process, and set it back.

    Denormals are zero: rare tokens' averages decay into them, and computing with them is 20 times
    slower. On a card what a 16-bit run leaves in float32 is multiplied as TF32 ("fp32" stays
    exact), and the thread that makes batches lets the one that launches kernels go on at once:
    that one gives up Python's lock at each call, and would wait milliseconds for it.
    """
    card = machine.device.type == "cuda"
    matmul = torch.get_float32_matmul_precision()
    interval = sys.getswitchinterval()
    torch.set_flush_denormal(True)
    if card:
        sys.setswitchinterval(CARD_SWITCH_INTERVAL)
        if machine.precision != "fp32":
            torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_float32_matmul_precision(matmul)
        sys.setswitchinterval(interval)

"""Networks without numbers: parameters that have a name and a shape, to be filled, or only to be counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


@contextmanager
def skeleton() -> Iterator[None]:
    """A network that is built inside takes neither memory nor time: its parameters are on the meta device.

    Initial values are not drawn either. On the meta device there is nothing to draw, but PyTorch would import a
    symbolic mathematics library for it: several seconds and 80 MB, more than a small model's weights.
    """
    with torch.device("meta"), _WithoutInitialValues():
        yield


class _WithoutInitialValues(TorchFunctionMode):
    """Leaves out everything of `torch.nn.init`, and drawing random numbers in place."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"]
        if func in (Tensor.normal_, Tensor.uniform_):
            return args[0]
        return func(*args, **kwargs)

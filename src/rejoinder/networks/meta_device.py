"""Networks that are built without initial values, in no memory and no time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


@contextmanager
def on_meta_device() -> Iterator[None]:
    """Build networks inside on the meta device.

    They have no initial values and take neither memory nor time. To draw these PyTorch would import
    a symbolic mathematics library: several seconds and 80 MB.
    """
    with torch.device("meta"), _WithoutInitialValues():
        yield


class _WithoutInitialValues(TorchFunctionMode):
    """Leaves out everything of `torch.nn.init`, and drawing random numbers in place."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"]
        if func in (Tensor.normal_, Tensor.uniform_):
            return args[0]
        return func(*args, **kwargs)

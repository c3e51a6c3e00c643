"""A program of an ONNX file, computed by onnxruntime."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rejoinder.errors import InputError


def open_program(path: Path, threads: int | None = None) -> Callable[..., list[Any]]:
    """Return a function that takes an ONNX file's inputs by their names and returns its outputs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    setting = os.environ.get("OMP_NUM_THREADS", "")  # onnxruntime itself does not ask
    options.intra_op_num_threads = threads or (int(setting) if setting.isdigit() else 0)
    # The threads of one file's session would otherwise keep a core busy while another one's
    # compute.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    with _known(path):
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(**inputs: Any) -> list[Any]:
        with _known(path):
            return list(session.run(None, inputs))

    return run


@contextlib.contextmanager
def _known(path: Path) -> Iterator[None]:
    """Turn what onnxruntime says of a file that it cannot compute into an InputError.

    Its classes have no base.
    """
    try:
        yield
    except Exception as error:
        if "onnxruntime" not in type(error).__module__ and not isinstance(error, ValueError):
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise InputError(f"{path} cannot be computed ({reason}); copy the folder again") from error

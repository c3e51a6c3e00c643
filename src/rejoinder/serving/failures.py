"""Failures, as answers of HTTP."""

from __future__ import annotations

import errno
import os
from typing import Any

from rejoinder.curation.tickets import ReusedKeyError
from rejoinder.errors import BusyError, InputError, NotFoundError
from rejoinder.serving.http.errors import error_answer
from rejoinder.serving.http.exchange import CURRENT
from rejoinder.serving.http.logs import logger
from rejoinder.serving.worker.condition import READ_ONLY
from rejoinder.serving.worker.jobs import OverloadedError, UnavailableError
from rejoinder.serving.worker.sources import Sources
from rejoinder.stores.log.database import LogError
from rejoinder.stores.store import DeniedError, StaleError, UnreachableError

FAILURES = (OverloadedError, UnavailableError, BusyError, InputError, OSError)
"""What a request may raise that is no error of the program."""
_PASSING = (BusyError, LogError, StaleError, UnavailableError, UnreachableError)
_FULL = (errno.ENOSPC, errno.EDQUOT)


def failure_answer(error: Exception, sources: Sources) -> Any:
    """Return what a request that raised one of `FAILURES` is answered, without names of paths.

    The log has the whole reason.
    """
    if isinstance(error, OverloadedError):
        status = 429
    elif isinstance(error, _PASSING):
        status = 503
    elif isinstance(error, DeniedError):
        status = 403
    elif isinstance(error, NotFoundError):
        status = 404
    elif isinstance(error, OSError):
        return _disk_answer(error)
    elif isinstance(error, ReusedKeyError):
        status = 422
    else:
        status = 400
    answer = error_answer(status, sources.hide_stores(str(error)))
    exchange = CURRENT.get()
    exchange.reason = exchange.reason and str(error)
    return answer


def _disk_answer(error: OSError) -> Any:
    """Answer what the disk has refused: nothing was changed."""
    if error.errno in _FULL:
        return error_answer(507, "the disk is full; nothing was changed")
    if error.errno in READ_ONLY:
        return error_answer(
            403,
            "this server may not write to its index or to the log beside it; nothing was changed",
        )
    reason = os.strerror(error.errno) if error.errno else type(error).__name__
    logger.error("the disk has refused something", extra={"fields": {"reason": reason}})
    return error_answer(503, f"the disk has refused it ({reason}); nothing was changed")

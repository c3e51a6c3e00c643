"""The log of a server: one JSON object a line, on the standard error."""

from __future__ import annotations

import logging
import traceback

import msgspec

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "rejoinder.serving.http.logs.JsonLines"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "loggers": {
        name: {"handlers": ["stderr"], "level": "INFO"} for name in ("rejoinder.serving", "uvicorn")
    },
}
logger = logging.getLogger("rejoinder.serving")


def places(error: Exception) -> list[str]:
    """Return where in the code an error was raised, innermost first."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames)]


class JsonLines(logging.Formatter):
    """A log of one JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
        }
        line |= {"event": record.getMessage(), **getattr(record, "fields", {})}
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
        return msgspec.json.encode(line).decode()

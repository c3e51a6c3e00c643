"""Responses as JSON or plain text, and the metrics of all of them.

The metrics for Prometheus of several workers are added up if PROMETHEUS_MULTIPROC_DIR names a
folder for them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from prometheus_client import Counter, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_JOBS = (1, 2, 4, 8, 16, 32, 64, 128)


def plain_response() -> Any:
    """Return the class of answers in plain text."""
    from fastapi.responses import PlainTextResponse

    return PlainTextResponse


def json_answer(value: Any, status: int = 200) -> Any:
    """Return a value as an answer."""
    from fastapi import Response

    return Response(msgspec.json.encode(value), status, media_type="application/json")


def forget_worker(pid: int | None) -> None:
    """Leave a worker that has ended out of the sums over those that live."""
    from prometheus_client.multiprocess import mark_process_dead

    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        mark_process_dead(pid)  # type: ignore[no-untyped-call]


class Metrics:
    """Requests, latencies, batches, the queue, and the names of model and index."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = registry = CollectorRegistry()
        # looking them up takes time
        self._of: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        by = ("route", "method")
        self.requests = Counter(
            "rejoinder_requests", "Requests answered.", (*by, "status"), registry=registry
        )
        self.seconds = Histogram(
            ("rejoinder_request_seconds"),
            "Seconds from a request to its answer.",
            by,
            buckets=_SECONDS,
            registry=registry,
        )
        self.batches = Histogram(
            "rejoinder_batch_jobs", "Jobs computed at once.", buckets=_JOBS, registry=registry
        )
        self.computing = Histogram(
            "rejoinder_batch_seconds", "Seconds of a batch.", buckets=_SECONDS, registry=registry
        )
        self.notes = Counter(
            "rejoinder_notes",
            "Messages that were not read as they came.",
            ("note",),
            registry=registry,
        )
        self.queue = Gauge(
            "rejoinder_queue", "Jobs that wait.", registry=registry, multiprocess_mode="livesum"
        )
        self.failures = Counter(
            "rejoinder_background_failures",
            "Failures of tasks beside the requests.",
            ("task",),
            registry=registry,
        )
        self.served = Gauge(
            "rejoinder_candidates",
            "Replies of the index.",
            ("index", "model"),
            registry=registry,
            multiprocess_mode="livemostrecent",
        )

    def observe_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request."""
        if (series := self._of.get((route, method, status))) is None:
            series = self.requests.labels(route, method, status), self.seconds.labels(route, method)
            self._of[route, method, status] = series
        series[0].inc()
        series[1].observe(seconds)

    def observe_notes(self, notes: Iterable[str]) -> None:
        """Count what was noted of a message."""
        for note in notes:
            self.notes.labels(note).inc()

    def observe_batch(self, jobs: int, seconds: float, waiting: int) -> None:
        """Count a batch."""
        self.batches.observe(jobs)
        self.computing.observe(seconds)
        self.queue.set(waiting)

    def observe_failure(self, task: str) -> None:
        """Count a failure of a task beside the requests."""
        self.failures.labels(task).inc()

    def text(self, index: str, model: str, candidates: int) -> bytes:
        """Return all of it in Prometheus' form."""
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.multiprocess import MultiProcessCollector

        self.served.labels(index, model).set(candidates)
        registry: Any = self.registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)

"""Telemetry of libraries, switched off."""

from __future__ import annotations

import os

TELEMETRY_OFF = {
    "HAYSTACK_TELEMETRY_ENABLED": "False",  # pipelines that run, to PostHog
    "HF_HUB_DISABLE_TELEMETRY": "1",  # huggingface_hub and what builds on it
    "ORT_DISABLE_TELEMETRY": "1",  # onnxruntime from 1.29 on
    "RAY_USAGE_STATS_ENABLED": "0",  # clusters that are started here
}


def switch_telemetry_off() -> None:
    """Set the variables that turn telemetry off, for this process and those that it starts.

    The libraries read them when they are imported. A value that is set already stays.
    """
    for name, value in TELEMETRY_OFF.items():
        os.environ.setdefault(name, value)

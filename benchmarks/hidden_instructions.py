"""Hide AVX-512 and VNNI from onnxruntime, as on a processor without: a script for gdb.

    gdb -q -batch -x benchmarks/hidden_instructions.py --args python PROGRAM ...

onnxruntime has no setting for that. It asks the processor by the instruction cpuid when its library
is loaded; here each answer is shorn of what is to be hidden. Nothing else is slower for it. Needs
Linux, gdb with Python, and objdump.
"""

import re
import subprocess
from pathlib import Path

import gdb

LIBRARY = "onnxruntime_pybind11_state"
# bits of leaf 7 of cpuid: AVX-512 in all its parts, VNNI, AMX, and AVX-VNNI in its second page
EBX = (16, 17, 21, 26, 27, 28, 30, 31)
ECX = (1, 6, 11, 12, 14)
EDX = (2, 3, 8, 22, 23, 24, 25)
EAX_1 = (4, 5, 21, 22)


def main() -> None:
    """Run the program to its end."""
    for setting in ("pagination off", "confirm off", "breakpoint pending on"):
        gdb.execute(f"set {setting}")
    gdb.execute(f"catch load {LIBRARY}")
    gdb.execute("run")
    base, path = mapped()
    gdb.execute("delete")
    questions = {base + address for address in addresses(path)}
    for address in questions:
        gdb.execute(f"break *{address:#x}", to_string=True)
    while gdb.selected_inferior().pid:
        gdb.execute("continue", to_string=True)
        if gdb.selected_inferior().pid and register("pc") in questions:
            answer()
    gdb.execute("quit")


def mapped() -> tuple[int, str]:
    """Return where the library lies in memory, and its file."""
    maps = Path(f"/proc/{gdb.selected_inferior().pid}/maps").read_text(encoding="utf-8")
    line = next(line for line in maps.splitlines() if LIBRARY in line)
    return int(line.partition("-")[0], 16), line.split(maxsplit=5)[5]


def addresses(path: str) -> list[int]:
    """Return where a library asks the processor."""
    command = ["objdump", "-d", "--no-show-raw-insn", path]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [int(found, 16) for found in re.findall(r"^ *([0-9a-f]+):\s+cpuid\s*$", shown, re.M)]


def answer() -> None:
    """Let the processor answer, and take away what is to be hidden."""
    leaf, page = register("eax"), register("ecx")
    gdb.execute("stepi", to_string=True)
    if (leaf, page) == (7, 0):
        for name, bits in (("rbx", EBX), ("rcx", ECX), ("rdx", EDX)):
            clear(name, bits)
    elif (leaf, page) == (7, 1):
        clear("rax", EAX_1)


def register(name: str) -> int:
    """Return a register's number, without a sign."""
    size = 64 if name == "pc" else 32
    return int(gdb.parse_and_eval(f"${name}")) % (1 << size)


def clear(name: str, bits: tuple[int, ...]) -> None:
    """Clear bits of a register."""
    value = int(gdb.parse_and_eval(f"${name}")) % (1 << 32)
    for bit in bits:
        value &= ~(1 << bit)
    gdb.execute(f"set ${name} = {value}")


main()

"""Lines out of plain and compressed files, and every way in which a file can be bad."""

import bz2
import contextlib
import errno
import gzip
import itertools
import lzma
import os
import re
import socket
import threading
import tracemalloc

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora import lines as lines_module
from rejoinder.corpora.lines import Reading, open_blocks, open_lines, open_pieces
from rejoinder.errors import InputError
from tests.corpora.toy import block_lines

COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress,
            ".zst": zstandard.ZstdCompressor().compress}  # fmt: skip
COMPRESSED = [suffix for suffix in COMPRESS if suffix]


def write(path, data: bytes, suffix: str = ""):
    path = path / f"file.txt{suffix}"
    path.write_bytes(COMPRESS[suffix](data))
    return path


def texts(path, reading=None) -> list[str]:
    return [line for _, line in open_lines(path, reading)]


@pytest.mark.parametrize("suffix", COMPRESS)
def test_lines_and_their_numbers(tmp_path, suffix):
    path = write(tmp_path, "one\r\n\n  drei \u2028 日本\nlast".encode(), suffix)
    assert list(open_lines(path)) == [(1, "one"), (2, ""), (3, "  drei \u2028 日本"), (4, "last")]


def test_a_window_of_two_gibibytes_is_allowed(tmp_path):
    """A frame made by hand: magic number, no flags, window of 2^31, one last raw block of five bytes."""
    path = tmp_path / "window.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + b"\x00" + bytes([21 << 3]) + (1 | 5 << 3).to_bytes(3, "little") + b"text\n")
    assert zstandard.get_frame_parameters(path.read_bytes()).window_size == 2**31
    assert texts(path) == ["text"]


CHECKED = {**COMPRESS, ".zst": zstandard.ZstdCompressor(write_checksum=True).compress}
PARTS = [b"one\ntw", b"", b"o\n", b"three\n"]


def outcome(path, read) -> bytes | str:
    """What is read; "error" for an error that names the file and a place in it."""
    try:
        return read(path)
    except InputError as error:
        said = str(error)
    named = re.match(rf"{re.escape(str(path))}(:\d| is (damaged|cut off).* bytes? \d)", said)
    return "error" if named else said


READERS = {
    "lines": lambda path: "".join(f"{line}\n" for _, line in open_lines(path)).encode(),
    "blocks": lambda path: b"".join(bytes(block.data) for block in open_blocks(path, size=1 << 10)),
    "pieces": lambda path: b"".join(open_pieces(path)),
}


@pytest.mark.parametrize("suffix", COMPRESSED)
def test_each_flipped_bit_is_harmless_or_an_error(tmp_path, suffix):
    path, data = tmp_path / f"file{suffix}", b"".join(map(CHECKED[suffix], PARTS))
    readers = itertools.cycle(READERS.values())
    for place in range(len(data)):
        for change in (0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, data[place]):
            path.write_bytes(data[:place] + bytes([data[place] ^ change]) + data[place + 1 :])
            assert outcome(path, next(readers)) in (b"".join(PARTS), "error"), (place, change)


@pytest.mark.parametrize("suffix", COMPRESSED)
def test_a_file_may_end_between_two_streams_and_nowhere_else(tmp_path, suffix):
    streams_ = [CHECKED[suffix](part) for part in PARTS]
    ends = list(itertools.accumulate(map(len, streams_)))
    path, data = tmp_path / f"file{suffix}", b"".join(streams_)
    for cut in range(1, len(data) + 1):
        path.write_bytes(data[:cut])
        with contextlib.nullcontext() if cut in ends else pytest.raises(InputError, match=r"cut off.* byte"):
            assert texts(path)[0] == "one"


@pytest.mark.parametrize("suffix", COMPRESSED)
@pytest.mark.parametrize("garbage", [b"x", b"no stream", b"<html>" * 9_999, b"\0\0\0\0x", b"\0", b"\0" * 99_999])
def test_what_follows_the_last_stream_is_padding_or_an_error(tmp_path, suffix, garbage):
    """A file may be padded with zero bytes, between streams too."""
    path = tmp_path / f"file{suffix}"
    for after in (b"", CHECKED[suffix](b"two\n")):
        path.write_bytes(CHECKED[suffix](b"one\n") + garbage + after)
        expected = "error" if garbage.strip(b"\0") else (b"one\ntwo\n" if after else b"one\n")
        assert outcome(path, READERS["pieces"]) == expected


@pytest.mark.parametrize("suffix", COMPRESSED)
def test_a_compressed_file_without_the_ending_is_named(tmp_path, suffix):
    path = tmp_path / "file.jsonl"
    path.write_bytes(COMPRESS[suffix](b"text\n"))
    with pytest.raises(InputError, match=rf"holds {suffix} data; name it so that it ends in {suffix}"):
        texts(path)


def test_parquet_that_is_named_so_is_told_what_is_read(tmp_path):
    path = tmp_path / "file.parquet"
    path.write_bytes(b"PAR1 and more")
    with pytest.raises(InputError, match="is Parquet, but lines of text are read here; save it as JSON lines"):
        texts(path)


@pytest.mark.parametrize(("content", "reason"), [
    (b"", "is empty"),
    (b"fine\nab\0c\n", r"file\.txt:2: binary data"),
    (b"fine\n\nna\xefve\n", r"file\.txt:3: not UTF-8 \(byte 0xef at position 2\); convert"),
    (b"PK\x03\x04" + bytes(30), r"file\.txt is a zip archive, .*; unpack it \(unzip file\.txt\)"),
    ("text\n".encode("utf-16"), "is UTF-16; convert it: iconv"),
    (b"fine\n\xed\xa0\x80\n", r"file\.txt:2: not UTF-8"),
])  # fmt: skip
def test_bad_content(tmp_path, content, reason):
    with pytest.raises(InputError, match=reason):
        texts(write(tmp_path, content))


@pytest.mark.parametrize("suffix", COMPRESS)
def test_an_error_of_the_disk_is_not_called_damage(tmp_path, suffix, monkeypatch):
    path = write(tmp_path, b"text\n" * 9, suffix)

    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(lines_module._Counted, "readinto", fail)
    with pytest.raises(OSError, match="Input/output error"):
        texts(path)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_line_above_the_limit_is_one_bad_line(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 1 << 20)
    path = write(tmp_path, b"a\n" + b"x" * 2_500_000 + b"\nb\n" + b"y" * (1 << 20), suffix)
    with pytest.raises(InputError, match=r":2: longer than 1 MiB"):
        texts(path)
    reading = Reading(skip_bad=True)
    assert texts(path, reading) == ["a", "b", "y" * (1 << 20)]
    assert reading.bad_lines == 1


def test_a_zstd_bomb_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 1 << 20)
    path = write(tmp_path, b"0" * 15_000_000, ".zst")  # more is not even read
    tracemalloc.start()
    with pytest.raises(InputError, match="longer than"):
        texts(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 2**20


@pytest.mark.parametrize("suffix", COMPRESS)
def test_files_are_closed_when_the_reader_stops_early(tmp_path, suffix, monkeypatch):
    opened = []
    real = lines_module._Counted
    monkeypatch.setattr(lines_module, "_Counted", lambda *given: opened.append(real(*given)) or opened[-1])
    given = open_lines(write(tmp_path, b"some text\n" * 100_000, suffix))
    next(given)
    assert not opened[0].closed
    given.close()
    assert opened[0].closed


@pytest.mark.parametrize("gone", [False, True])
def test_a_pipe_of_the_shell_can_be_read(gone):
    reader, writer = os.pipe()
    os.write(writer, b"one\ntwo\n")
    thread = threading.Thread(target=os.close, args=(writer,))
    thread.start()
    if gone:
        thread.join()
    assert texts(f"/dev/fd/{reader}") == ["one", "two"]
    thread.join()
    os.close(reader)


@pytest.mark.parametrize("version", ["3.11", "3.12"])
def test_a_file_is_read_where_only_pipes_can_be_set_to_wait(tmp_path, monkeypatch, version):
    """As on Windows: without the flag, and before Python 3.12 without the function."""

    def refuse(*_):
        raise OSError(errno.EINVAL, "The parameter is incorrect")

    monkeypatch.delattr(os, "O_NONBLOCK")
    if version == "3.11":
        monkeypatch.delattr(os, "set_blocking")
    else:
        monkeypatch.setattr(os, "set_blocking", refuse)
    assert texts(write(tmp_path, b"one\ntwo\n")) == ["one", "two"]


def test_a_file_that_cannot_be_set_to_wait_is_closed(tmp_path, monkeypatch):
    handles = []

    def refuse(handle, _):
        handles.append(handle)
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "set_blocking", refuse)
    with pytest.raises(OSError, match="Invalid argument"):
        texts(write(tmp_path, b"one\n"))
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handles[0])


def test_what_has_no_end_is_refused(tmp_path):
    os.mkfifo(tmp_path / "fifo.jsonl")
    (tmp_path / "zeros.zst").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for name, kind in {"fifo.jsonl": "a named pipe", "zeros.zst": "a device", "socket": "a socket"}.items():
            with pytest.raises(InputError, match=rf"{name} is {kind}; name a file"):
                texts(tmp_path / name)


LINES = st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")), min_size=1, max_size=30)


def in_blocks(path, reading, size):
    blocks = list(open_blocks(path, size=size))
    most = lines_module.MAX_LINE_BYTES
    assert all(block.data.endswith(b"\n") or len(block.data) > most for block in blocks[:-1])
    assert all(block.data[:-1].rfind(b"\n") < size for block in blocks)
    return blocks, [line for block in blocks for line in block_lines(block, reading)]


@settings(max_examples=150)
@given(lines=LINES, size=st.integers(1, 40), ended=st.booleans(), longest=st.integers(1, 14))
def test_blocks_hold_the_lines_of_the_file(tmp_path_factory, lines, size, ended, longest):
    """Whatever the blocks' size: the same lines, numbers and faults, too long ones included."""
    path = tmp_path_factory.mktemp("blocks") / "file.txt"
    path.write_bytes(b"\n".join(lines) + (b"\n" if ended else b""))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "MAX_LINE_BYTES", longest)
        patch.setattr(lines_module, "_MAGIC", {})
        patch.setattr(lines_module, "_BYTE_ORDER_MARKS", ())
        one, other = Reading(skip_bad=True), Reading(skip_bad=True)
        try:
            expected = list(open_lines(path, one))
        except InputError as error:
            with pytest.raises(InputError, match=re.escape(str(error))):
                in_blocks(path, other, size)
            return
        assert in_blocks(path, other, size)[1] == expected
    assert (one.lines, one.bad_lines) == (other.lines, other.bad_lines)
    assert sorted(one.faults) == sorted(other.faults) or one.bad_lines > 10


@pytest.mark.parametrize("suffix", [suffix for suffix in COMPRESS if suffix])
def test_a_small_file_does_not_become_an_endless_one(tmp_path, suffix):
    """Two hundred thousand bytes of gzip are 200 million blank lines, which took a minute."""
    count = 0
    with pytest.raises(InputError, match="decompresses to more than 200 times its size; if it is meant to"):  # noqa: PT012
        for _ in open_blocks(write(tmp_path, b"\n" * 20_000_000, suffix)):
            count += 1
    assert count <= 2
    assert len(texts(write(tmp_path, b"as people write, at times \n" * 100, suffix))) == 100

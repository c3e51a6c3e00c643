"""Records brought together by thread: which files workers read, and what is written in partitions."""

from __future__ import annotations

import gzip

import pytest
import zstandard

from rejoinder.corpora import gather, lines
from rejoinder.corpora.chunks import Job
from rejoinder.corpora.corpus import Input
from tests.corpora.jobs import SMALL
from tests.corpora.toy import TOY, toy_lines

MIB = 1 << 20


def stream(path, window_log=None):
    """A zstd file whose size is not in its header, as those of dumps."""
    parameters = zstandard.ZstdCompressionParameters(window_log=window_log) if window_log else None
    compressor = zstandard.ZstdCompressor(compression_params=parameters)
    with path.open("wb") as file, compressor.stream_writer(file) as writer:
        writer.write(b'{"id": "a"}\n' * 100)
    return Input(path)


def written(path, data):
    path.write_bytes(data)
    return Input(path)


def test_the_window_of_a_file(tmp_path):
    assert 1 < gather.window_size(stream(tmp_path / "a.zst").path) <= 8 * MIB
    assert gather.window_size(stream(tmp_path / "long.zst", 31).path) == 2048 * MIB
    assert gather.window_size(written(tmp_path / "a.jsonl", b"{}\n").path) == 0
    assert gather.window_size(written(tmp_path / "damaged.zst", b"{}\n").path) == 0
    assert gather.window_size(tmp_path / "nowhere.zst") == 0


@pytest.mark.parametrize(
    ("workers", "expected"),
    [(1, []), (2, [0, 1, 2, 8]), (5, [0, 1, 2, 8, 9]), (3, [0, 1, 2]), (8, [])],  # dealt out evenly, or cut here
)
def test_files_with_small_windows_are_read_by_workers(tmp_path, workers, expected):
    plain = [written(tmp_path / "a.jsonl", b"{}\n")]
    small = [stream(tmp_path / f"small{number}.zst") for number in range(2)]
    large = [stream(tmp_path / f"large{number}.zst", 27) for number in range(5)]
    slow = [written(tmp_path / f"{number}.bz2", b"") for number in range(2)]
    assert gather.files_for_workers([*plain, *small, *large, *slow], workers) == expected


@pytest.mark.parametrize("whole", [[], [0]])
def test_records_come_back_by_partition_also_when_merged(tmp_path, monkeypatch, whole):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 2_000)
    wanted = toy_lines(40)
    text = "\n".join([*wanted[:50], "x" * 3_000, *wanted[50:]])
    inputs = [written(tmp_path / "a.txt.gz", gzip.compress(text.encode()))]
    job = Job(TOY, TOY.settings(), tmp_path, skip_bad=True, sizes=SMALL)
    total, names = job.reading(), []
    (tmp_path / "done").mkdir()
    for task in gather.scatter_tasks(job, inputs, whole):
        done = gather.scatter(job, 3, *task)
        names += done["files"]
        total.add(done["counts"])
    assert (total.lines, total.bad_lines) == (len(wanted) + 1, 1)
    assert len(names) > 2
    found = [list(read(job, names, number)) for number in range(3)]
    assert sorted(line for part in found for line in part) == sorted(wanted)
    threads = [{line.split()[0] for line in part} for part in found]
    assert len(set.union(*threads)) == sum(map(len, threads)) == 40
    gather.merge_files(job, "merged", None, names)
    assert [list(read(job, ["merged"], number)) for number in range(3)] == found


def read(job, names, number):
    for records in gather.read_partition(job, names, number, 3):
        yield from records["line"].to_pylist()

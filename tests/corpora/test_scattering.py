"""Which files are read where they are scattered: compressed ones that can be dealt out, none with a large window."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard

from rejoinder.corpora import lines
from rejoinder.corpora.job import Input, Job
from rejoinder.corpora.scattering import places_for_workers, scatter_task, scatter_tasks
from rejoinder.corpora.segments import read_records
from rejoinder.corpora.streams import window_size

from .jobs import SMALL
from .toy import TOY, toy_lines

MIB = 1 << 20


def stream(path: Path, window_log: int | None = None) -> Input:
    """A zstd file whose size is not told in its header, as those of dumps."""
    parameters = zstandard.ZstdCompressionParameters(window_log=window_log) if window_log else None
    compressor = zstandard.ZstdCompressor(compression_params=parameters)
    with path.open("wb") as file, compressor.stream_writer(file) as writer:
        writer.write(b'{"id": "a"}\n' * 100)
    return Input(path)


def plain(path: Path) -> Input:
    path.write_bytes(b"{}\n")
    return Input(path)


def test_the_window_of_a_file(tmp_path: Path) -> None:
    assert 0 < window_size(stream(tmp_path / "a.zst").path) <= 8 * MIB
    assert window_size(stream(tmp_path / "long.zst", 31).path) == 2048 * MIB
    assert window_size(plain(tmp_path / "a.jsonl").path) == 0
    assert window_size(plain(tmp_path / "damaged.zst").path) == 0
    assert window_size(tmp_path / "nowhere.zst") == 0


@pytest.mark.parametrize(
    ("count", "processes", "whole", "shared"),
    [
        (5, 1, [], []),  # nobody to deal out to
        (5, 2, [0, 1, 2, 3], [4]),
        (6, 3, [0, 1, 2, 3, 4, 5], []),
        (1, 2, [], [0]),
        (3, 8, [], []),  # too few: their blocks can go to all of the eight
        (4, 8, [0, 1, 2, 3], []),
        (9, 8, [0, 1, 2, 3, 4, 5, 6, 7], []),  # the rest is cut here
    ],
)
def test_small_windows_are_dealt_out_evenly(
    tmp_path: Path, count: int, processes: int, whole: list[int], shared: list[int]
) -> None:
    inputs = [stream(tmp_path / f"{number}.zst") for number in range(count)]
    assert places_for_workers(inputs, processes) == (whole, shared)


def test_plain_files_and_large_windows_are_cut_here(tmp_path: Path) -> None:
    large = [stream(tmp_path / f"large{number}.zst", 27) for number in range(4)]
    small = [stream(tmp_path / f"small{number}.zst") for number in range(2)]
    assert places_for_workers([plain(tmp_path / "a.jsonl"), *large, *small], 2) == ([5, 6], [])


def test_workers_that_share_a_file_count_its_long_lines_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 2_000)
    wanted = toy_lines(40)
    text = "\n".join([*wanted[:50], "x" * 3_000, *wanted[50:]])
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text.encode()))
    job = Job(TOY, TOY.settings(), tmp_path, skip_bad=True, sizes=SMALL)
    (tmp_path / "done").mkdir()
    inputs = [Input(tmp_path / "a.txt.gz")]
    reading, names = job.reading(), []
    for task in scatter_tasks(job, inputs, [], [0], 3, job.reading()):
        done = scatter_task(job, 2, task)
        names += done["files"]
        for counts in filter(None, (done["counts"], done["long"])):
            reading.add(counts)
    assert (reading.lines, reading.bad_lines) == (len(wanted) + 1, 1)
    paths = [tmp_path / "records" / name for name in sorted(names)]
    found = [row["line"] for number in (0, 1) for row in read_records(paths, number, TOY.columns).to_pylist()]
    assert sorted(found) == sorted(wanted)

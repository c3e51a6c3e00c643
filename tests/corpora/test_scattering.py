"""Which files are read where they are scattered: compressed ones that can be dealt out, none with a large window."""

from __future__ import annotations

from pathlib import Path

import pytest
import zstandard

from rejoinder.corpora.job import Input
from rejoinder.corpora.scattering import places_for_workers
from rejoinder.corpora.streams import window_size

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
    ("count", "processes", "places"),
    [
        (5, 1, []),  # nobody to deal out to
        (5, 2, [0, 1, 2, 3]),  # the rest is cut here
        (6, 3, [0, 1, 2, 3, 4, 5]),
        (1, 2, []),
        (3, 8, []),  # too few: their blocks can go to all of the eight
        (4, 8, [0, 1, 2, 3]),
    ],
)
def test_small_windows_are_dealt_out_evenly(tmp_path: Path, count: int, processes: int, places: list[int]) -> None:
    inputs = [stream(tmp_path / f"{number}.zst") for number in range(count)]
    assert places_for_workers(inputs, processes) == places


def test_plain_files_and_large_windows_are_cut_here(tmp_path: Path) -> None:
    large = [stream(tmp_path / f"large{number}.zst", 27) for number in range(4)]
    small = [stream(tmp_path / f"small{number}.zst") for number in range(2)]
    assert places_for_workers([plain(tmp_path / "a.jsonl"), *large, *small], 2) == [5, 6]

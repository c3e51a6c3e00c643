"""What verbs that write an index print of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rejoinder.cli.replies.sample_message import message_to_try, try_line
from rejoinder.progress import counted, note

if TYPE_CHECKING:
    from rejoinder.retrieval.index import Index
    from rejoinder.stores.manifest import Manifest


def note_scores(before: Manifest, after: Manifest) -> None:
    """Say that scores of an index are others, if a change made or removed its head or examples."""
    scales = [manifest.head and manifest.examples > 0 for manifest in (before, after)]
    if scales[0] != scales[1]:
        note("scores are on another scale now: set thresholds and calibrate again")


def describe(
    opened: Index, *, added: int = 0, deleted: int = 0, replaced: int = 0
) -> dict[str, Any]:
    """Return what the verbs print of an index, as JSON."""
    from rejoinder.retrieval.calibration import why_uncalibrated

    record = opened.manifest.approximate
    head = opened.manifest.head
    uncalibrated = why_uncalibrated(opened)
    return {
        "index": str(opened.store),
        "replies": len(opened),
        "added": added,
        "deleted": deleted,
        "replaced": replaced,
        "size": opened.manifest.size,
        "approximate": None if record is None else asdict(record),
        "examples": opened.manifest.examples,
        "head": None if head is None else asdict(head),
        "calibrated": uncalibrated is None,
        "uncalibrated": uncalibrated,
        "bytes": opened.store.size(),
        "model": opened.manifest.model.name,
        "fingerprint": opened.fingerprint,
        "message_to_try": message_to_try(opened),
    }


def describe_verified(opened: Index) -> dict[str, int]:
    """Return what was compared of an index that was opened with `verify`."""
    manifest = opened.manifest
    digests = sum(len(record.files) for record in manifest.segments)
    digests += manifest.head is not None
    digests += manifest.approximate is not None and bool(manifest.approximate.digest)
    return {
        "replies": sum(record.count for record in manifest.segments),
        "segments": len(manifest.segments),
        "digests": digests,
    }


def describe_text(result: Mapping[str, Any]) -> str:
    """Return the text of what `describe` returned."""
    facts = [f"{result['added']:,} added"] if 0 < result["added"] != result["replies"] else []
    facts += [f"{result['deleted']:,} deleted"] if result["deleted"] else []
    facts += [f"{result['replaced']:,} replaced"] if result["replaced"] else []
    facts += [f"data of {result['removed']:,} removed"] if result.get("removed") else []
    facts += [counted(result["replies"], "reply", "replies"), f"vectors of {result['size']}"]
    if record := result["approximate"]:
        measured = counted(record["measured_on"], "context")
        facts += [f"search finds {record['recall']:.1%} of the 30 best ({measured})"]
    facts += [f"{result['bytes'] / 1e6:.1f} MB"]
    lines = [f"{result['index']}: {', '.join(facts)}", *_head_lines(result)]
    if verified := result.get("verified"):
        lines.append(
            f"verified: {counted(verified['replies'], 'stored reply', 'stored replies')} in"
            f" {counted(verified['segments'], 'segment')},"
            f" {counted(verified['digests'], 'digest')} as in the manifest"
        )
    return "\n".join([*lines, try_line(result["index"], result["message_to_try"])])


def _head_lines(result: Mapping[str, Any]) -> list[str]:
    """Return lines about titles, examples and sentences."""
    head = result["head"]
    count = counted(result["examples"], "title or example", "titles and examples")
    if head is None:
        ignored = f"{count}, ignored: the model gives a conversation several vectors"
        return [ignored] if result["examples"] else []
    if head["minimum_score"] is None:
        return [
            "long replies, found by their sentences too; to refuse messages set --minimum-score"
        ]
    lowest = (
        f"a message below a score of {head['minimum_score']:.2f} finds no reply (--minimum-score)"
    )
    if not head["held_out"]:
        return [f"{count}, too few to hold some out and measure; {lowest}"]
    held_out = f"of {head['held_out']:,} that were left out {head['right']:.1%} found their reply"
    return [
        f"{count}; {held_out}",
        f"{lowest}: {head['refused']:.1%} of everyday messages find none",
        (
            "calibrated with them: --minimum-confidence P answers if the best reply is right with"
            " probability P"
        )
        if result["calibrated"]
        else f"not calibrated: {result['uncalibrated']}",
    ]

"""The figures in documents: a paragraph's are those of the stored files whose tables it or its section links to."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from workshop.results import SECTIONS, read_figures, section, table

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks" / "results"
STORED = {"tables": read_figures(FOLDER), "recorded": read_figures(FOLDER / "recorded")}
FIGURE = re.compile(r"(?<![\w.,@/-])[-+]?(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(?=M?(?![-\w]|[.,]\d))")
IN_WORDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")
# of numbers that a program wrote: as they are, shares in %, ms in s, bytes in MB, and for which
# sizes
UNITS = (
    (1, 0, 1e15),
    (100, 0, 1),
    (1e-3, 100, 1e5),
    (1e-6, 1e5, 1e15),
)
ELSEWHERE = re.compile(
    r"`[^`]*`|\]\(.*?\)|<!--.*?-->|^---.*?^---|^#.*?$|^\d\. ", re.DOTALL | re.MULTILINE
)
NO_FIGURE = re.compile(r"(?:Zen|Python|Beam|Kubernetes|Tables?|figure|et al\.) \d[\d.]*")
LINK = re.compile(r"(?:results/(?=tables)|workshop/(?=recorded))(tables|recorded)\.md#([\w-]+)")
CHOICES = "docs/choices.md"
# sizes, and counts of the corpus that workshop/model_card.py tells
CARD = {"", "Limits", "Training data"}
FREE = {  # sections with figures that are not measurements, or that are measured elsewhere
    "README.md": set(),
    "docs/index.md": set(),
    "docs/results.md": set(),
    "docs/get-started.md": {"", "Bundled models", "A reply from your own file"},
    "docs/scale.md": {"How it goes"},
    "docs/deploy.md": {"", "A container", "Updates without downtime", "What to watch"},
    "workshop/model-card.md": CARD,
    "src/rejoinder/weights/convert-small/README.md": CARD,
    "weights/bi-base/rejoinder_bi_base/model/README.md": {"", "Limits"},
    "weights/bi-large/rejoinder_bi_large/model/README.md": {"", "Training"},
    "src/rejoinder/weights/bi-small/README.md": {"", "Limits"},
}


def anchor(name: str, figures: dict[str, Any]) -> str:
    title = (
        SECTIONS[name].title if name in SECTIONS else figures.get("title", name.replace("_", " "))
    )
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


FILES = {
    # where what the papers have stands too
    (page, anchor(name, figures)): [figures, f"{section(name, figures)}\n{table(name, figures)}"]
    for page, files in STORED.items()
    for name, figures in files.items()
}


def sections(text: str) -> Iterator[tuple[str, str]]:
    """The title of each section, none for what stands above the first, and its text without blocks of code."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    starts = [0, *(found.start() for found in re.finditer(r"^## ", text, re.MULTILINE)), len(text)]
    for start, end in pairwise(starts):
        yield (re.match(r"## (.*)", text[start:end]) or ["", ""])[1], text[start:end]


def numbers(value: Any) -> Iterator[float]:
    """Every number below a value, as it may be printed before it is rounded."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple):
        for each in value:
            yield from numbers(each)
    elif isinstance(value, str):
        yield from (float(found.replace(",", "")) for found in IN_WORDS.findall(value))
    elif isinstance(value, int | float):
        yield from (
            abs(value) * factor for factor, least, most in UNITS if least <= abs(value) <= most
        )


def unknown(text: str, stored: Any) -> list[str]:
    """The figures of a text that are not stored; those of a table's line must stand in one line."""
    anywhere = set(numbers(stored))
    lines = [
        set(numbers(line))
        for _, shown in stored
        for line in shown.splitlines()
        if line.startswith("|")
    ]
    faults = []
    for line in NO_FIGURE.sub("", ELSEWHERE.sub("", text)).splitlines():
        known, figures = (
            lines or [set()] if line.startswith("|") else [anywhere],
            list(FIGURE.finditer(line)),
        )
        faults += min(
            ([figure[0] for figure in figures if not is_in(figure, each)] for each in known),
            key=len,
        )
    return faults


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text, and the items of its lists."""
    return re.split(r"\n\n|\n(?=- )", text)


def parts_of(page: str, text: str) -> list[str]:
    """The paragraphs of a page, and each choice."""
    return text.splitlines() if page == CHOICES else paragraphs(text)


def faults_of(part: str, links: list[tuple[str, str]]) -> list[str]:
    """What a paragraph says that no table has to which these links lead."""
    return [
        f"no table that is linked here has {each}"
        for each in unknown(part, [FILES[link] for link in links])
    ]


def is_in(found: re.Match[str], known: set[float]) -> bool:
    """Whether a figure is among the known ones, to the places that are printed."""
    figure, half = (
        float(found[1].replace(",", "") + (found[2] or "")),
        10.0 ** -max(len(found[2] or "") - 1, 0) / 2,
    )
    return any(abs(each - figure) <= half + 1e-9 for each in known)


@pytest.mark.parametrize("page", FREE)
def test_a_figure_is_stored(page):
    faults = []
    for title, text in sections((ROOT / page).read_text(encoding="utf-8")):
        links = LINK.findall(text)
        if links or title not in FREE[page]:
            for part in paragraphs(text):
                faults += [
                    f"{title}: {fault}" for fault in faults_of(part, LINK.findall(part) or links)
                ]
    assert not faults, "\n".join(faults)


def test_elsewhere_a_paragraph_that_links_to_a_table_has_its_figures():
    texts = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for path in [*(ROOT / "docs").rglob("*.md"), *(ROOT / "workshop").glob("*.md")]
    }
    held = {
        part: page
        for page, text in texts.items()
        if page not in FREE
        for part in parts_of(page, text)
        if LINK.search(part)
    }
    assert {"docs/serving.md", "docs/replies.md", "docs/intents.md"} <= set(held.values())
    faults = [
        f"{page}: {fault}"
        for part, page in held.items()
        for fault in faults_of(part, LINK.findall(part))
    ]
    assert not faults, "\n".join(faults)


def test_what_a_choice_measured_is_stored():
    rows = (ROOT / CHOICES).read_text(encoding="utf-8").splitlines()
    measured = [row for row in rows if row.endswith("measured |")]
    assert len(measured) > 5
    assert not [
        row
        for row in measured
        if not re.search(r"\]\((results/|results\.md|scale\.md)|workshop/recorded\.md#", row)
    ]


def test_a_changed_digit_is_found():
    figures = {
        "rows": {"ours": {"share": 0.4567, "bytes": 13_400_000}},
        "about": "1,234 examples, -0.5 [-1.2, +0.3]",
    }
    stored = [(figures, "| a | 1.5 [1.2, 1.8] |\n| b | 2.5 [2.2, 2.8] |")]
    said = "45.7 %, 13.4 MB of 1,234: -0.5 [-1.2, +0.3] in `9.9` on 2026-11-23, see Table 7"
    assert not unknown(said, stored)
    for right, wrong in (
        ("45.7", "45.6"),
        ("13.4", "13.5"),
        ("1,234", "1,235"),
        ("-0.5", "-0.6"),
        ("+0.3", "+0.2"),
    ):
        assert unknown(said.replace(right, wrong), stored) == [wrong]
    assert not unknown("| **B** | 2.5 [2.2, 2.8] |", stored)
    assert unknown("| **B** | 2.5 [2.2, 1.8] |", stored) == ["1.8"]

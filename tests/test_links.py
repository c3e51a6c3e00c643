"""Links that the site's build does not follow: into the repository, and of the documents outside docs/."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACES = ("*.md", "docs/**/*.md", "workshop/*.md", "src/**/README.md", "weights/**/README.md")
DOCUMENTS = sorted(path for place in PLACES for path in ROOT.glob(place))
REPOSITORY = "https://github.com/rejoinder/rejoinder/blob/main/"
SITE = "https://rejoinder.github.io/rejoinder/"
GENERATED = {f"{SITE}reference/errors.html"}  # pages of the site that the repository does not have
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[\w+\]: (\S+)$", re.MULTILINE)
BLOCK = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`[^`]*`")


def headings(text: str) -> set[str]:
    """Return the anchors that GitHub makes of a document's headings."""
    titles = re.findall(r"^#+ (.*)$", BLOCK.sub("", text), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w -]", "", title).replace(" ", "-") for title in plain}


def broken(document: Path, text: str) -> list[str]:
    """Return the links of a document that lead to no file of the repository, or to no heading of it."""
    faults = []
    for inline, reference in LINK.findall(INLINE.sub("", BLOCK.sub("", text))):
        link = inline or reference
        path, _, anchor = link.removeprefix(REPOSITORY).partition("#")
        if path.startswith(SITE) and path != SITE:
            faults += [] if path in GENERATED else [f"{link}: the site's build makes no such page"]
            continue
        if "://" in path:
            continue
        start = ROOT if link.startswith(REPOSITORY) else document.parent
        target = start / path if path else document
        if not target.exists():
            faults.append(f"{link}: there is no {path}")
        elif "reference/" in path:  # the site's build makes its headings, and follows these
            continue
        elif (
            anchor and target.suffix == ".md" and anchor not in headings(target.read_text("utf-8"))
        ):
            faults.append(f"{link}: {path} has no such heading")
    return faults


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_its_links_lead_to_files_and_headings(document):
    assert not broken(document, document.read_text("utf-8"))


def test_a_broken_link_is_noticed():
    document = ROOT / "docs" / "choices.md"
    log = f"{REPOSITORY}workshop/pretraining-log.md"
    assert not broken(
        document, f"[a]({log}#a-new-subject) [b](results.md#intents) `[c](nothing.md)`"
    )
    for link in (
        f"{log}#an-old-subject",
        f"{REPOSITORY}workshop/nothing.md",
        "nothing.md",
        "reference/errors.md",
        f"{SITE}reference/nothing.html",
        "results.md#nothing",
    ):
        assert len(broken(document, f"[a]({link})")) == 1

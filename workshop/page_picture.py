"""Take the picture of the server's page that README and guide show.

python -m workshop.page_picture docs/page.png, with Chromium, playwright and the extra serve.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import rejoinder
from rejoinder.corpora.schema import Candidate
from rejoinder.retrieval.index import Index

ANSWERS = {  # by title: the reply and the questions that it answers
    "Lost card": (
        "We will send another card; it comes within five working days.",
        ("I lost my card", "my card was stolen", "somebody took my card"),
    ),
    "Opening hours": (
        "We open at nine, on Sundays at eleven.",
        ("When do you open?", "Are you open on Sundays?", "what are your hours"),
    ),
    "Refund": (
        "Refunds take three to five days, to the card that you paid with.",
        ("how do I get a refund", "I want my money back", "when will the refund arrive"),
    ),
    "Password": (
        "Choose 'Forgotten password' at the login, and we mail you a link.",
        ("I forgot my password", "cannot log in"),
    ),
    "Delivery": (
        "Parcels take two days in the country, a week abroad.",
        ("where is my order", "how long does shipping take", "my parcel has not arrived"),
    ),
}
MESSAGE = "Somebody stole my crad. And when do you open?"
SIZE = (1180, 760)


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command's words; None: those of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path, help="the file to write, a PNG")
    return parser.parse_args(words)


def main(picture: Path) -> None:
    """Build the index, serve it, write the message, and take the picture."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder:
        candidates = [
            Candidate(text, title=title, examples=tuple((question,) for question in questions))
            for title, (text, questions) in ANSWERS.items()
        ]
        index = Path(folder) / "faq"
        Index.build(rejoinder.load("bi-small"), candidates, index)
        with serving(index) as address, sync_playwright() as started:
            browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
            page.goto(address)
            page.get_by_text(f"{len(ANSWERS)} replies").first.wait_for()
            for letters in range(12, len(MESSAGE), 4):  # as somebody types it, so that all is warm
                page.fill("#draft", MESSAGE[:letters])
                page.wait_for_timeout(300)
            page.fill("#draft", MESSAGE)
            page.locator("#first .reply").first.wait_for()
            page.wait_for_timeout(2500)  # the load is shown every two seconds
            page.screenshot(path=picture)
            browser.close()


@contextlib.contextmanager
def serving(index: Path) -> Iterator[str]:
    """Serve an index; give the page's address once the server is ready."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "rejoinder", "serve", str(index), "--port", str(port)]
    with subprocess.Popen(command) as server:
        try:
            address = f"http://127.0.0.1:{port}/"
            until_ready(f"{address}ready")
            yield address
        finally:
            server.terminate()


def until_ready(address: str, seconds: float = 60.0) -> None:
    """Return once an address answers."""
    end = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(address, timeout=5).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
        else:
            return


if __name__ == "__main__":
    main(arguments().picture)

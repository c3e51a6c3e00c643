"""The page in a browser: axe finds nothing against it, whatever it shows, and no script fails."""

import contextlib
import shutil
import socket
import threading
import time

import pytest

from rejoinder.intents.classifier import train_classifier
from rejoinder.intents.data import TrainingTexts
from rejoinder.retrieval.calibration import Calibration
from rejoinder.retrieval.index import Index
from rejoinder.serving.answers import Answers, Sources
from rejoinder.serving.app import Settings, make_app
from rejoinder.serving.guard import Keys
from rejoinder.serving.worker import Computing
from tests.intents.toy import WordVectors, toy_data
from tests.retrieval.conftest import HashEncoder

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
playwright = pytest.importorskip("playwright.sync_api")
uvicorn = pytest.importorskip("uvicorn")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@contextlib.contextmanager
def listening(answers, **settings):
    app = make_app(Settings(sources=answers.sources, **settings), Computing(answers.sources, answers))
    server = uvicorn.Server(uvicorn.Config(app))
    with socket.create_server(("127.0.0.1", 0)) as port:
        thread = threading.Thread(target=server.run, args=([port],))
        thread.start()
        yield f"http://127.0.0.1:{port.getsockname()[1]}/"
        server.should_exit = True
        thread.join(20)


@pytest.mark.parametrize(("scheme", "width"), [("light", 375), ("dark", 1280)])
@pytest.mark.parametrize("state", ["replies", "two indexes", "no replies", "no key", "slow"])
def test_axe_finds_nothing(browser, answers, tmp_path, monkeypatch, state, scheme, width):
    settings = {}
    if state == "two indexes":
        other = Index.build(HashEncoder(), ["only this", "or this"], tmp_path / "other")
        answers.second = Answers(Sources(index=tmp_path / "other"), other, HashEncoder())
        answers.classifier = train_classifier(WordVectors(), TrainingTexts(toy_data()))
        facts = {"index": answers.index.fingerprint, "model": answers.encoder.fingerprint, "history": None}
        Calibration(**facts, score_weight=10.0, gap_weight=0.0, intercept=-5.0).save(answers.sources.index)
    elif state == "no replies":
        answers.index.delete(range(20))
    elif state == "no key":
        settings["keys"] = Keys(b"a key of many letters")
    elif state == "slow":
        replies = Answers.replies
        monkeypatch.setattr(Answers, "replies", lambda own, jobs: time.sleep(3) or replies(own, jobs))
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 800})
    failed = []
    page.on("pageerror", lambda error: failed.append(error))
    with listening(answers, **settings) as address:
        page.goto(address)
        if state == "no key":
            page.locator("#key").wait_for()
        else:
            page.get_by_text("candidates" if state == "no replies" else "20 replies").first.wait_for()
            page.fill("#draft", "i lost my card")
            page.locator("[aria-busy=true]" if state == "slow" else "#first .none, #first .reply").first.wait_for()
            page.keyboard.press("Enter")
            page.locator("#messages li").wait_for()
            if state != "slow":
                page.wait_for_timeout(300)
        found = axe.Axe().run(page)
        wider = page.evaluate("document.documentElement.scrollWidth > innerWidth")
        page.close()
    assert not found.response["violations"], found.generate_report()
    assert (failed, wider) == ([], False)


@pytest.fixture
def open_page(browser, answers):
    """Open the page of a server over an index: its address, and what fails in it."""
    with contextlib.ExitStack() as stack:
        failed = []

        def start(width=1280, **settings):
            address = stack.enter_context(listening(answers, **settings))
            page = browser.new_page(viewport={"width": width, "height": 800})
            stack.callback(page.close)
            page.on("pageerror", lambda error: failed.append(error))
            page.goto(address)
            page.get_by_text("replies, ").first.wait_for()
            return page

        yield start
        assert failed == []


def entries(answers, count):
    """The entries of the log, once so many are there."""
    for _ in range(200):
        found = list(answers.index.log)
        if len(found) >= count:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{len(found)} entries")


def ask_for_replies(page, text):
    page.fill("#draft", text)
    page.locator("#first .reply").first.wait_for()
    page.wait_for_timeout(200)


@pytest.mark.parametrize("width", [375, 1280])
def test_it_tells_which_reply_was_taken(open_page, answers, width):
    page = open_page(width)
    ask_for_replies(page, "reply number 4")
    page.locator("#first .reply").first.click()
    ask_for_replies(page, "and then?")
    page.fill("#own-text", "We have asked somebody else.")
    page.keyboard.press("Enter")
    ask_for_replies(page, "so?")
    page.locator("#none").focus()
    page.keyboard.press("Enter")
    ask_for_replies(page, "well?")
    page.fill("#own-text", "Reply number 9!")
    page.get_by_role("button", name="Say it").click()
    one, two, three, four = entries(answers, 4)
    assert (one.context, one.taken, one.chosen) == (("reply number 4",), "first", one.offered[0])
    assert (two.context[-1], two.text, len(two.offered)) == ("and then?", "We have asked somebody else.", 5)
    assert (three.context[-1], three.taken) == ("so?", "none")
    assert (four.chosen, four.text) == ("reply number 9", None)
    assert one.source
    assert {entry.source for entry in (two, three, four)} == {one.source}
    assert page.locator("#messages .ours").all_inner_texts()[0].endswith(one.chosen)
    page.wait_for_timeout(200)
    assert len(entries(answers, 4)) == 4, "nothing is told twice"


def test_a_key_that_only_reads_gives_no_feedback_and_no_error(browser, answers):
    page = browser.new_page()
    with listening(answers, keys=Keys(b"a key that reads", b"a key that writes")) as address:
        page.goto(address)
        page.fill("#key-value", "a key that reads")
        page.keyboard.press("Enter")
        page.get_by_text("replies, ").first.wait_for()
        for text in ("reply number 4", "reply number 5"):
            ask_for_replies(page, text)
            page.locator("#first .reply").first.click()
        page.wait_for_timeout(300)
        assert page.locator("#problem").is_hidden()
        page.close()
    assert len(answers.index.log) == 0

"""The page in a browser: axe finds nothing against it, whatever it shows, and no script fails."""

import contextlib
import json
import shutil
import socket
import threading
import time

import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.corpora.registry.candidates import read_candidates
from rejoinder.curation.editing import Editor
from rejoinder.intents.classifier import train_classifier
from rejoinder.intents.data import TrainingTexts
from rejoinder.retrieval.encoding.confidence import Calibration
from rejoinder.retrieval.index import Index
from rejoinder.serving.worker.answers import Answers
from rejoinder.serving.worker.sources import Sources
from rejoinder.serving.app import make_app
from rejoinder.serving.server_settings import ServerSettings
from rejoinder.serving.guard import Keys
from rejoinder.serving.worker.computing import Computing
from tests.intents.toy import WordVectors, toy_data
from tests.logs import recorder
from tests.retrieval.conftest import HashEncoder
from tests.serving.conftest import TEXTS

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
    app = make_app(ServerSettings(sources=answers.sources, **settings), Computing(answers.sources, answers))
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
            page.get_by_text("no reply to choose" if state == "no replies" else "20 replies").first.wait_for()
            page.fill("#draft", "i lost my card")
            page.locator("[aria-busy=true]" if state == "slow" else "#first .status:not(:empty)").first.wait_for()
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
        found = list(answers.log)
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
    assert len(answers.log) == 0


EVIL = '"><script>window.hurt = 1</script><img src=x onerror="window.hurt = 1">&lt;b&gt;'


def open_editor(page):
    page.get_by_role("tab", name="Replies").click()
    page.locator("#edit-list li").first.wait_for()


def replies(answers):
    return dict(Index.open(answers.sources.index, HashEncoder()))


def told(page, text):
    page.locator("#edit-status", has_text=text).wait_for()


@pytest.mark.parametrize("width", [375, 1280])
def test_replies_are_edited_with_the_keyboard_and_undone(open_page, answers, width):
    page = open_page(width)
    page.locator("#tab-try").focus()
    page.keyboard.press("ArrowRight")
    page.locator("#edit-list li").first.wait_for()
    page.get_by_role("button", name="Edit reply 3", exact=True).focus()
    page.keyboard.press("Enter")
    page.locator("#editor").wait_for()
    assert page.evaluate("document.activeElement.id") == "reply-text"
    page.keyboard.press("Control+A")
    page.keyboard.type("A zebra.")
    page.keyboard.press("Tab")
    page.keyboard.type("animals")
    page.locator("#new-example").focus()
    page.keyboard.type("what is striped")
    page.keyboard.press("Enter")
    page.keyboard.type("and black")
    page.get_by_role("button", name="Save", exact=True).focus()
    found = axe.Axe().run(page)
    wider = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    page.keyboard.press("Enter")
    told(page, "Reply 3 is saved.")
    assert not found.response["violations"], found.generate_report()
    assert not wider
    reply = replies(answers)[3]
    assert (reply.text, reply.title, reply.payload["id"]) == ("A zebra.", "animals", 3)
    assert reply.examples == (("what is striped",), ("and black",))
    page.get_by_role("button", name="Undo change 1").click()
    told(page, "Change 1 is undone.")
    assert replies(answers)[3].text == TEXTS[3]
    page.wait_for_timeout(100)
    found = axe.Axe().run(page)
    assert not found.response["violations"], found.generate_report()


def test_replies_are_added_merged_moved_and_deleted(open_page, answers):
    Editor(answers.index, answers.log).add_examples({4: [["first question"], ["second question"]]})
    page = open_page()
    open_editor(page)
    page.get_by_role("button", name="Add a reply").click()
    page.fill("#reply-text", "All new.")
    page.fill("#new-example", "is it new")
    page.get_by_role("button", name="Save", exact=True).click()
    told(page, "Reply 20 is added.")
    page.get_by_role("button", name="Edit reply 4", exact=True).click()
    page.get_by_role("button", name="Move the example first question to another").click()
    page.locator("#dialog-status", has_text="Write the number of another reply first.").wait_for()
    page.fill("#merge-with", "5")
    page.get_by_role("button", name="Move the example first question to another").click()
    told(page, "The example is moved to reply 5.")
    page.get_by_role("button", name="Edit reply 4", exact=True).click()
    page.fill("#merge-with", "6")
    page.get_by_role("button", name="Merge this one into it").click()
    told(page, "Reply 4 is merged into 6.")
    page.get_by_role("button", name="Edit reply 7", exact=True).click()
    page.get_by_role("button", name="Delete this one").click()
    told(page, "Reply 7 is deleted; the history can undo it.")
    found = replies(answers)
    assert not {4, 7} & found.keys()
    assert (found[5].examples, found[6].examples) == ((("first question",),), (("second question",),))
    assert (found[20].text, found[20].examples) == ("All new.", (("is it new",),))
    assert page.locator("#change-list li").count() == 5, "the examples of the beginning are one too"
    page.fill("#search-words", "All new.")
    page.keyboard.press("Enter")
    page.locator("#edit-list", has_text="All new.").wait_for()


def test_files_are_imported_and_exported(open_page, answers, tmp_path):
    page = open_page()
    open_editor(page)
    (tmp_path / "faq.csv").write_text("question,answer\nWhen?,At nine.\n", encoding="utf-8")
    page.set_input_files("#import", tmp_path / "faq.csv")
    told(page, "1 replies are added, 0 were there.")
    assert replies(answers)[20].text == "At nine."
    with page.expect_download() as download:
        page.get_by_role("button", name="Save all replies as a file").click()
    lines = download.value.path().read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["text"] for line in lines] == [*TEXTS, "At nine."]
    assert json.loads(lines[-1])["examples"] == [["When?"]]
    download.value.save_as(tmp_path / "replies.jsonl")
    again = Index.build(HashEncoder(), read_candidates(tmp_path / "replies.jsonl"), tmp_path / "again")
    assert [reply.text for _, reply in again] == [*TEXTS, "At nine."]
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    page.set_input_files("#import", tmp_path / "bad.json")
    told(page, "bad.json")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_that_people_write_runs_as_a_script(browser, answers, scheme):
    """Titles, texts, examples, payloads, messages, own texts, names of files, and the report."""
    evil = Candidate(EVIL, {EVIL: EVIL}, EVIL, ((EVIL, EVIL),))
    index = Index.build(HashEncoder(), [evil, *TEXTS], answers.sources.index, overwrite=True)
    recorder(index).feedback([EVIL], [0, 1], text=EVIL + EVIL)
    recorder(index).feedback([EVIL], [0, 1], chosen=1, source=EVIL)
    opened = Answers(answers.sources, index, HashEncoder())
    page = browser.new_page(color_scheme=scheme)
    failed = []
    page.on("pageerror", lambda error: failed.append(error))
    with listening(opened) as address:
        page.goto(address)
        ask_for_replies(page, EVIL)
        page.fill("#own-text", EVIL)
        page.keyboard.press("Enter")
        open_editor(page)
        page.get_by_role("button", name="Edit reply 0", exact=True).click()
        page.locator("#example-list li").wait_for()
        page.fill("#new-example", EVIL)
        page.get_by_role("button", name="Save", exact=True).click()
        told(page, "Reply 0 is saved.")
        page.set_input_files("#import", {"name": f"{EVIL.replace('/', '')}.txt", "mimeType": "text/plain", "buffer": EVIL.encode()})
        page.locator("#edit-status", has_text="were there").wait_for()
        page.get_by_role("tab", name="Use").click()
        page.locator("#report table").first.wait_for()
        assert page.locator("#report").inner_text().count("onerror") >= 3
        assert page.locator("#report svg rect").count() >= 3
        found = axe.Axe().run(page)
        page.wait_for_timeout(200)
        assert page.evaluate("window.hurt") is None
        page.close()
    assert failed == []
    assert not found.response["violations"], found.generate_report()

# ruff: noqa: F811 (fixtures of the page's own tests)
"""The snippet beside a text field of another page, in a browser: keyboard, feedback, strange replies, axe."""

import contextlib
import http.server
import threading
import urllib.error
import urllib.request

import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.retrieval.index import Index
from rejoinder.serving.worker.answers import Answers
from rejoinder.serving.worker.sources import Sources
from rejoinder.serving.guard import Keys
from tests.retrieval.conftest import HashEncoder
from tests.serving.test_page_in_chromium import CHROMIUM, axe, browser, listening, pytestmark  # noqa: F401

KEY = "a key of many letters"
STRANGE = "<img src=x onerror=\"document.title='owned'\"> Hi {name}, see {link}."
PAGE = b"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Desk</title>
<meta name="viewport" content="width=device-width"></head><body><main><h1>Desk</h1>
<form id="form"><label for="answer">Answer</label><textarea id="answer" rows="3"></textarea><button>Send</button></form>
</main><script type="module" src="own.js"></script></body></html>"""
OWN = b"""import { suggest } from "/rejoinder/suggest.js";
window.said = [{ role: "user", content: "Hello?" }];
document.getElementById("form").addEventListener("submit", (event) => event.preventDefault());
window.beside = suggest(document.getElementById("answer"), { messages: () => window.said, source: "agent 7" });"""
POLICY = "default-src 'self'"  # no style and no script but the files of this address


class Desk(http.server.BaseHTTPRequestHandler):
    """A page with a strict policy, and what it passes on to the server, with the key."""

    def do_GET(self):
        self.answer(*self.get())

    def get(self):
        own = {
            "/": ("text/html", PAGE),
            "/own.js": ("text/javascript", OWN),
            "/favicon.ico": ("image/x-icon", b""),
        }
        return (200, *own[self.path]) if self.path in own else self.pass_on(None)

    def do_POST(self):
        self.answer(*self.pass_on(self.rfile.read(int(self.headers["content-length"]))))

    def pass_on(self, body):
        address = self.server.to + self.path.removeprefix("/rejoinder/")
        headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
        try:
            with urllib.request.urlopen(
                urllib.request.Request(address, body, headers), timeout=30
            ) as answer:
                return answer.status, answer.headers["content-type"], answer.read()
        except urllib.error.HTTPError as error:
            return error.code, "application/json", error.read()

    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-security-policy", POLICY)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def answers(tmp_path):
    encoder = HashEncoder()
    replies = [Candidate(STRANGE), Candidate("We open at nine."), Candidate("Bye.")]
    index = Index.build(encoder, replies, tmp_path / "index")
    return Answers(Sources(index=tmp_path / "index", model="hash-model"), index, encoder)


@contextlib.contextmanager
def desk_of(address):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Desk) as server:
        server.to = address
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("scheme", "width"), [("light", 375), ("dark", 1280)])
def test_a_reply_is_put_into_the_field_and_what_is_sent_is_feedback(
    browser, answers, scheme, width
):
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 700})
    failed = []
    page.on("pageerror", lambda error: failed.append(error))
    page.on("console", lambda message: message.type == "error" and failed.append(message.text))
    with listening(answers, keys=Keys(write=KEY.encode())) as address, desk_of(address) as desk:
        page.goto(desk)
        page.get_by_role("status").get_by_text("3 suggested replies").wait_for()
        assert not (found := axe.Axe().run(page)).response["violations"], found.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.focus("#answer")
        button = page.get_by_role("button", name="<img")
        button.focus()
        page.keyboard.press("Enter")
        assert page.input_value("#answer") == STRANGE
        assert page.evaluate("getSelection().toString()") == "{name}"
        with page.expect_response("**/v1/feedback") as sent:
            page.get_by_role("button", name="Send").click()
        assert sent.value.json()["chosen"] == 0
        page.evaluate("said.push('More?'); beside.refresh()")
        page.get_by_role("button", name="Bye.").wait_for()
        with page.expect_response("**/v1/feedback"):
            page.evaluate("beside.sent('something else')")
        page.evaluate("beside.remove()")
        assert page.get_by_role("status").count() == 0
        assert page.title() == "Desk"
        page.close()
    assert failed == []
    first, second = answers.log
    assert (first.chosen, first.text, second.chosen, second.text) == (
        STRANGE,
        None,
        None,
        "something else",
    )
    assert len(first.offered) == 3
    assert first.source == second.source != ""


def test_a_server_that_is_gone_is_said(browser, answers):
    page = browser.new_page()
    with listening(answers) as address, desk_of(address) as desk:
        page.goto(desk)
        page.get_by_text("3 suggested replies").wait_for()
        page.route("**/v1/replies", lambda route: route.abort())
        page.evaluate("beside.refresh()")
        page.get_by_text("The server does not answer.").wait_for()
        page.close()

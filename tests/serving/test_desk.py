"""Webhooks of help desks: notes and feedback, before a stand-in that speaks Chatwoot's documented API."""

import asyncio
import contextlib
import http.client
import http.server
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import rejoinder
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import BusyError, InputError
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.replies import Reply
from rejoinder.serving.desk import address as desk_address
from rejoinder.serving.desk import server as desk
from rejoinder.serving.bounds import BoundedBodies
from tests.logs import log_of
from rejoinder.serving.desk.server import Receiver, make_receiver
from rejoinder.serving.desk.address import Address, NoteError
from rejoinder.serving.desk.events import Chatwoot, Generic, note_text
from rejoinder.serving.desk.index import IndexSearcher
from rejoinder.serving.desk.signatures import is_signed, sign
from rejoinder.serving.worker.stamps import EVERY
from rejoinder.stores.store import UnreachableError
from tests.retrieval.conftest import HashEncoder
from tests.servers import until
from tests.stores import hanging, place_of

SECRET = "of the webhook"
TOKEN = "of a bot"
REPLIES = [Reply(f"reply {number}", 1 - number / 10, number, {}) for number in range(3)]


class StandIn(http.server.ThreadingHTTPServer):
    """A desk that records what it is sent, and answers what it is told to."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.got = []
        self.answers = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def wait(self, count):
        end = time.monotonic() + 60
        while len(self.got) < count and time.monotonic() < end:
            time.sleep(0.01)
        return self.got


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        status = self.server.answers.pop(0) if self.server.answers else 200
        self.server.got.append((status, self.path, dict(self.headers), body))
        self.send_response(status)
        if status == 302:
            self.send_header("location", f"{self.server.url}/elsewhere")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *args):
        pass


@pytest.fixture
def stand_in(monkeypatch):
    monkeypatch.setattr(desk_address, "PAUSES", (0.01, 0.01))
    with StandIn() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class Known:
    """Finds the same replies for every conversation."""

    def close(self):
        pass

    def __init__(self):
        self.asked = []
        self.taken = []

    def find(self, messages):
        self.asked.append(list(messages))
        return [] if "nothing" in messages[-1]["content"] else REPLIES

    def claim(self, event):
        return event is not None

    def release(self, event):
        pass

    def feedback(self, offer, text, person):
        self.taken.append(
            (offer.messages, [reply.position for reply in offer.replies], text, person)
        )


@pytest.fixture
def searcher():
    return Known()


@contextlib.contextmanager
def receiving(stand_in, searcher, kind=None, secret=SECRET):
    """A client of a receiver; all events are worked on when it is left."""
    receiver = Receiver(kind or Chatwoot(TOKEN), Address(stand_in.url), searcher, secret)
    with TestClient(make_receiver(receiver), base_url="http://localhost") as client:
        yield client


def event(number, text, kind="incoming", **more):
    """A `message_created` as Chatwoot sends it."""
    sender = {"id": 5, "name": "Jane", "type": "contact" if kind == "incoming" else "user"}
    return {
        "event": "message_created", "id": number, "content": text, "message_type": kind, "private": False,
        "content_type": "text", "content_attributes": {}, "created_at": "2026-01-05T10:00:00.000Z",
        "sender": sender, "inbox": {"id": 3, "name": "Website"}, "account": {"id": 2, "name": "Shop"},
        "conversation": {"id": 77, "status": "open", "channel": "Channel::WebWidget"}, **more,
    }  # fmt: skip


def signed(values, prefix="x-chatwoot", secret=SECRET, stamp=None):
    body = values if isinstance(values, bytes) else json.dumps(values).encode()
    stamp = stamp or str(int(time.time()))
    return {
        "content": body,
        "headers": {f"{prefix}-timestamp": stamp, f"{prefix}-signature": sign(secret, stamp, body)},
    }


def test_a_message_gets_a_private_note_with_the_best_three(stand_in, searcher):
    with receiving(stand_in, searcher) as client:
        assert client.post("/webhook", **signed(event(1, "Where is it?"))).json() == {
            "status": "accepted"
        }
    [(_, path, headers, body)] = stand_in.got
    assert path == "/api/v1/accounts/2/conversations/77/messages"
    assert {name.lower(): value for name, value in headers.items()}["api_access_token"] == TOKEN
    assert json.loads(body) == {
        "content": "Suggested replies:\n\n1. reply 0\n\n2. reply 1\n\n3. reply 2",
        "message_type": "outgoing",
        "private": True,
    }


def test_what_the_agent_sends_is_feedback_once(stand_in, searcher):
    with receiving(stand_in, searcher) as client:
        client.post("/webhook", **signed(event(1, "Where is it?")))
        stand_in.wait(1)
        client.post(
            "/webhook", **signed(event(2, stand_in.got[0][3].decode(), "outgoing", private=True))
        )
        client.post("/webhook", **signed(event(3, "Reply 1!", "outgoing")))
        client.post("/webhook", **signed(event(4, "And more.", "outgoing")))
        client.post("/webhook", **signed(event(5, "Thanks")))
    [(messages, offered, text, person)] = searcher.taken
    assert messages == [{"role": "user", "content": "Where is it?"}]
    assert (offered, text, person) == ([0, 1, 2], "Reply 1!", "5")
    assert [message["content"] for message in searcher.asked[-1]] == [
        "Where is it?", "Reply 1!", "And more.", "Thanks",
    ]  # fmt: skip


def test_feedback_that_could_not_be_recorded_is_recorded_when_it_comes_again(stand_in, searcher, monkeypatch):
    record = searcher.feedback
    failures = [BusyError("the log is locked")]

    def record_later(*given):
        if failures:
            raise failures.pop()
        record(*given)

    monkeypatch.setattr(searcher, "feedback", record_later)
    with receiving(stand_in, searcher) as client:
        client.post("/webhook", **signed(event(1, "Where is my order?")))
        stand_in.wait(1)
        sent = signed(event(2, "first", "outgoing"))
        client.post("/webhook", **sent)
        client.post("/webhook", **signed(event(3, "second", "outgoing")))
        while client.post("/webhook", **sent).json()["status"] == "known":
            time.sleep(0.01)
    assert [text for _, _, text, _ in searcher.taken] == ["first"]


def test_an_event_that_is_delivered_twice_gives_one_note(stand_in, searcher):
    with receiving(stand_in, searcher) as client:
        answers = [
            client.post("/webhook", **signed(event(1, "Hello"))).json()["status"] for _ in "123"
        ]
    assert answers == ["accepted", "known", "known"]
    assert len(stand_in.got) == 1


@pytest.mark.parametrize(
    "other",
    [
        event(1, "secret", private=True),
        event(1, "I", "template"),
        event(1, "moved", "activity"),
        event(1, "auto", "outgoing", sender=None),
        event(1, "bot", "outgoing", sender={"id": 1, "type": "agent_bot"}),
        event(1, None),
        event(1, "  "),
        event(1, "Hi", event="message_updated"),
        {"event": "conversation_created", "id": 4},
    ],
)
def test_other_events_are_ignored(stand_in, searcher, other):
    with receiving(stand_in, searcher) as client:
        assert client.post("/webhook", **signed(other)).json() == {"status": "ignored"}
    assert (stand_in.got, searcher.asked) == ([], [])


def test_no_reply_no_note(stand_in, searcher):
    with receiving(stand_in, searcher) as client:
        client.post("/webhook", **signed(event(1, "nothing fits")))
    assert (len(searcher.asked), stand_in.got) == (1, [])


@pytest.mark.parametrize(
    "request_of",
    [
        lambda: {"json": event(1, "Hi")},
        lambda: signed(event(1, "Hi"), secret="guessed"),
        lambda: signed(event(1, "Hi"), stamp=str(int(time.time()) - 1000)),
        lambda: signed(event(1, "Hi"), stamp=str(int(time.time()) + 1000)),
        lambda: signed(event(1, "Hi"), stamp="soon"),
        lambda: {**signed(event(1, "Hi")), "content": json.dumps(event(1, "Ho")).encode()},
    ],
    ids=["unsigned", "wrong", "old", "of the future", "no time", "altered"],
)
def test_what_is_not_signed_is_refused(stand_in, searcher, request_of):
    with receiving(stand_in, searcher) as client:
        assert client.post("/webhook", **request_of()).status_code == 401
    assert searcher.asked == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"not JSON", 400),
        (b"[1]", 400),
        (b"\xff\xfe", 400),
        (b"[" * 100_000, 400),
        (json.dumps(event(1, "Hi", account={"id": "../../evil"})).encode(), 400),
        (json.dumps(event(1, "Hi", conversation={"id": -1})).encode(), 400),
        (json.dumps(event("1?x=/", "Hi")).encode(), 400),
        (b'"' + b"x" * desk.MOST_BYTES + b'"', 413),
    ],
)
def test_what_is_no_event_is_refused(stand_in, searcher, body, status):
    with receiving(stand_in, searcher) as client:
        assert client.post("/webhook", **signed(body)).status_code == status
    assert (stand_in.got, searcher.asked) == ([], [])


@pytest.mark.parametrize("failure", [500, 502, 504])  # after some, a desk behind a proxy may have the note
def test_a_busy_desk_is_tried_again_and_a_lost_note_may_come_again(stand_in, searcher, failure):
    stand_in.answers = [503, 429, 200, failure, 200]
    with receiving(stand_in, searcher) as client:
        client.post("/webhook", **signed(event(1, "Hello")))
        stand_in.wait(3)
        client.post("/webhook", **signed(event(2, "Hello?")))
        stand_in.wait(4)
        time.sleep(0.2)
        assert len(stand_in.got) == 4
        while client.post("/webhook", **signed(event(2, "Hello?"))).json()["status"] == "known":
            time.sleep(0.01)
    assert [status for status, *_ in stand_in.got] == [503, 429, 200, failure, 200]


def test_no_redirect_is_followed(stand_in):
    stand_in.answers = [302]
    with pytest.raises(NoteError, match="302"):
        Address(stand_in.url).post("/x", b"{}", {})
    assert [path for _, path, *_ in stand_in.got] == ["/x"]


def test_proxies_of_the_environment_are_not_asked(stand_in, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    Address(stand_in.url).post("/x", b"{}", {})
    assert len(stand_in.got) == 1


@pytest.mark.parametrize(
    "url",
    [
        "ftp://desk",
        "file:///etc/passwd",
        "desk.example",
        "https://desk.example:port",
        "https://desk.example:65536",
        "http://",
        "http://a:b@desk",
        "http://d?x=1",
        "http://desk/a b",
        "http://a desk",
        f"http://{64 * 'a'}",
        "http://desk/\u00e4",
        "http://desk/\x7f",
    ],
)
def test_addresses_are_checked(url):
    with pytest.raises(InputError):
        Address(url)


def test_too_many_events_are_put_off(stand_in, searcher, monkeypatch):
    monkeypatch.setattr(desk, "WAITING", 1)
    monkeypatch.setattr(desk, "WORKERS", 1)
    released = threading.Event()
    find = searcher.find
    searcher.find = lambda messages: released.wait(60) and find(messages)
    with receiving(stand_in, searcher) as client:
        answers = [client.post("/webhook", **signed(event(number, "Hi"))) for number in range(4)]
        released.set()
    assert [answer.status_code for answer in answers][-1] == 503
    assert answers[-1].headers["retry-after"] == "5"


def test_a_page_cannot_send_events_that_are_not_signed(stand_in, searcher):
    with receiving(stand_in, searcher, secret="") as client:
        page = {"origin": "https://evil.example"}
        assert client.post("/webhook", json=event(1, "Hi"), headers=page).status_code == 403
        assert client.post("/webhook", json=event(1, "Hi")).status_code == 200
    assert len(stand_in.got) == 1


@pytest.mark.parametrize(
    "headers",
    [{"host": "desk.example.com"}, {"host": "localhost.evil.example"}, {"x-forwarded-for": "203.0.113.9"}],
)
def test_an_event_from_elsewhere_is_signed(stand_in, searcher, headers):
    """As one through a proxy, or from a page whose name points to this machine."""
    with receiving(stand_in, searcher, secret="") as client:
        refused = client.post("/webhook", json=event(1, "Hi"), headers=headers)
        assert refused.status_code == 421
        assert "set REJOINDER_DESK_SECRET" in refused.json()["error"]
    assert not stand_in.got
    sent = signed(event(1, "Hi"))
    sent["headers"].update(headers)
    with receiving(stand_in, searcher) as client:
        assert client.post("/webhook", **sent).status_code == 200
    assert len(stand_in.got) == 1


def test_an_event_that_does_not_come_is_not_waited_for():
    sent = []

    async def receive():
        await asyncio.sleep(30)

    async def send(message):
        sent.append(message)

    bounded = BoundedBodies(None, most_bytes=9, seconds=0.05)
    asyncio.run(bounded({"type": "http", "method": "POST"}, receive, send))
    assert sent[0]["status"] == 408


@pytest.mark.parametrize(("most", "status"), [({"most_bytes": 9}, 413), ({"most_bytes": 99, "most_together": 9}, 503)])
def test_a_body_is_bounded_alone_and_with_others(most, status):
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"12345", "more_body": True}

    async def send(message):
        sent.append(message)

    bounded = BoundedBodies(None, **most)
    for _ in range(3):  # what was refused makes room
        asyncio.run(bounded({"type": "http", "method": "POST"}, receive, send))
    assert [each["status"] for each in sent if "status" in each] == [status] * 3


def test_a_desk_that_answers_a_byte_a_second_is_waited_for_no_longer_than_others(monkeypatch):
    monkeypatch.setattr(desk_address, "SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def trickle():
            connection, _ = listening.accept()
            with connection, contextlib.suppress(OSError):
                for byte in b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 1000:
                    connection.sendall(bytes([byte]))
                    time.sleep(0.05)

        thread = threading.Thread(target=trickle)
        thread.start()
        start = time.monotonic()
        with pytest.raises(NoteError):
            Address(f"http://127.0.0.1:{listening.getsockname()[1]}").post("/x", b"{}", {})
        assert time.monotonic() - start < 5
        thread.join()


def test_a_desk_that_is_away_is_given_up_after_one_deadline(monkeypatch):
    monkeypatch.setattr(desk_address, "SECONDS", 0.3)
    start = time.monotonic()
    with pytest.raises(NoteError):
        Address("http://127.0.0.1:9").post("/x", b"{}", {})
    assert time.monotonic() - start < 5


def test_a_signature_of_other_letters_is_wrong(stand_in, searcher):
    with receiving(stand_in, searcher) as client:
        event_of = signed(event(1, "Hi"))
        event_of["headers"]["x-chatwoot-signature"] = "sha256=é".encode("latin-1")
        assert client.post("/webhook", **event_of).status_code == 401


@pytest.mark.parametrize("name", ["id", "conversation"])
def test_names_are_short(stand_in, searcher, name):
    values = {"id": "m", "conversation": "c", "author": "customer", "text": "Hi"}
    with receiving(stand_in, searcher, Generic(SECRET)) as client:
        for length, status in ((200, 200), (201, 400)):
            made = signed({**values, name: "x" * length}, "x-rejoinder")
            assert client.post("/webhook", **made).status_code == status


def test_an_event_counts_once_after_many_others_and_after_a_restart(stand_in, tmp_path, monkeypatch):
    monkeypatch.setattr(desk, "REMEMBERED", 2)
    Index.build(HashEncoder(), ["Hello!"], tmp_path / "index")
    made = signed(event(1, "Hi"))
    for _ in range(2):
        searcher = IndexSearcher(Index.open(tmp_path / "index", HashEncoder()))
        with receiving(stand_in, searcher) as client:
            first = client.post("/webhook", **made).json()["status"]
            for number in range(2, 9):
                client.post("/webhook", **signed(event(number, f"Hi {number}")))
            assert client.post("/webhook", **made).json() == {"status": "known"}
    assert first == "known"


def test_suggestions_go_on_while_the_database_is_away(tmp_path, monkeypatch, caplog):
    def fail():
        raise UnreachableError("the database does not answer")

    index = Index.build(HashEncoder(), ["Hello!"], tmp_path / "index")
    searcher = IndexSearcher(index)
    Index.open(tmp_path / "index", HashEncoder()).add(["a new reply"])
    searcher._stamps.look()
    monkeypatch.setattr(index.store, "stamp", fail)
    assert [reply.text for reply in searcher.find(["Hi!"])] == ["Hello!"]
    assert "the earlier one goes on answering" in caplog.text
    searcher.close()


@pytest.mark.folder  # it names its store
def test_suggestions_go_on_while_a_database_hangs(postgres_store, monkeypatch, caplog):
    monkeypatch.setattr("rejoinder.serving.worker.loading.PATIENCE", 60.0)
    monkeypatch.setattr("rejoinder.serving.worker.loading.RETRY", 0.0)
    monkeypatch.setattr("rejoinder.serving.worker.stamps.HANGING", 0.5)
    Index.build(HashEncoder(), ["Hello!"], postgres_store)
    searcher = IndexSearcher(Index.open(postgres_store, HashEncoder()))

    def suggested():
        return {reply.text for reply in searcher.find(["Hi!"])}

    assert suggested() == {"Hello!"}
    Index.open(postgres_store, HashEncoder()).add(["a new reply"])
    time.sleep(2 * EVERY)  # until it has seen that
    with ThreadPoolExecutor(1) as threads:
        with hanging(postgres_store):
            assert threads.submit(suggested).result(10) == {"Hello!"}
            until(lambda: searcher._stamps.is_hanging)
            assert threads.submit(suggested).result(2) == {"Hello!"}, "it is not waited for again"
            assert threads.submit(searcher.claim, "an event").result(10), "it is remembered in memory"
        until(lambda: suggested() == {"Hello!", "a new reply"})
    assert "the earlier one goes on answering" in caplog.text
    assert "the log does not remember an event" in caplog.text
    searcher.close()


def test_conversations_of_many_letters_make_room(monkeypatch):
    monkeypatch.setattr(desk, "MOST_KEPT", 100)
    recent = desk.BoundedMemory()
    for number in range(9):
        recent[str(number)] = [{"role": "user", "content": "x" * 30}]
    assert list(recent) == ["6", "7", "8"]
    recent["8"] = [{"role": "user", "content": "x" * 500}]
    assert list(recent) == ["8"]


def test_little_is_remembered(monkeypatch):
    monkeypatch.setattr(desk, "REMEMBERED", 3)
    recent = desk.BoundedMemory()
    for number in range(9):
        recent[str(number)] = number
    assert list(recent) == ["6", "7", "8"]


@pytest.mark.parametrize(("url", "port"), [("http://[::1]", 80), ("https://[::1]:444", 444)])
def test_a_desk_may_have_an_ipv6_address(monkeypatch, url, port):
    opened = []

    def refused(address, *_):
        opened.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(desk_address, "PAUSES", ())
    monkeypatch.setattr(http.client.socket, "create_connection", refused)
    with pytest.raises(NoteError, match="cannot be reached"):
        Address(url).post("", b"{}", {})
    assert opened == [("::1", port)]


def test_other_desks_are_told_in_json_that_is_signed(stand_in, searcher):
    said = {"id": "m1", "conversation": "c/9", "author": "customer", "text": "Hi", "person": "Bea"}
    sent = {**said, "id": "m2", "author": "agent", "text": "reply 0", "person": "Tom"}
    with receiving(stand_in, searcher, Generic(SECRET)) as client:
        assert client.post("/webhook", **signed(said, "x-rejoinder")).status_code == 200
        stand_in.wait(1)
        client.post("/webhook", **signed(sent, "x-rejoinder"))
        wrong = [{**said, "author": "boss"}, {**said, "id": 4}, {**said, "text": ""}]
        codes = [client.post("/webhook", **signed(bad, "x-rejoinder")).status_code for bad in wrong]
    [(_, path, headers, body)] = stand_in.got
    assert path == "/"
    assert is_signed(
        SECRET, "x-rejoinder", {name.lower(): value for name, value in headers.items()}, body
    )
    note = json.loads(body)
    assert note["conversation"] == "c/9"
    assert [reply["position"] for reply in note["replies"]] == [0, 1, 2]
    assert codes == [400, 400, 400]
    assert searcher.taken[0][2:] == ("reply 0", "Tom")


def test_null_is_nobody():
    said = {"id": "m1", "conversation": "c/9", "author": "agent", "text": "Hi", "person": None}
    assert Generic(SECRET).read(said).person == ""
    assert Generic(SECRET).read({**said, "person": 0}).person == "0"
    sent = event(1, "Hi", sender={"id": None, "type": "contact"})
    assert Chatwoot(TOKEN).read(sent).person == ""


def test_the_command_answers_chatwoot(tmp_path, stand_in):
    texts = {
        "We open at nine.": "When do you open?",
        "Your parcel is on its way.": "Where is my order?",
    }
    replies = [Candidate(text, examples=((question,),)) for text, question in texts.items()]
    Index.build(rejoinder.load("convert-small"), replies, tmp_path / "index")
    command = [sys.executable, "-m", "rejoinder", "desk", place_of(tmp_path / "index"),
               "--desk", stand_in.url, "--port", "0", "--json"]  # fmt: skip
    keys = {"REJOINDER_DESK_TOKEN": TOKEN, "REJOINDER_DESK_SECRET": SECRET}
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **keys}
    )
    try:
        url = json.loads(server.stdout.readline())["url"]
        send(url, event(1, "Where is my order? Mail me: a@b.example"))
        [(_, _, _, body)] = stand_in.wait(1)
        assert "1. Your parcel is on its way." in json.loads(body)["content"]
        send(url, event(2, "Hi Jane, your parcel is on its way!", "outgoing"))
    finally:
        server.terminate()
        assert server.wait(40) in (0, -15)
    [entry] = log_of(Index.open(tmp_path / "index"))
    assert entry.chosen == "Your parcel is on its way."
    assert entry.offered[0] == "Your parcel is on its way."
    assert entry.context == ("Where is my order? Mail me: <email>",)
    assert entry.source not in ("", "5")


def send(url, values):
    made = signed(values)
    request = urllib.request.Request(
        url, made["content"], {**made["headers"], "content-type": "application/json"}
    )
    return urllib.request.urlopen(request, timeout=60).read()


def test_the_example_of_the_documentation_stands_between_two_desks(stand_in, tmp_path):
    """It is run as it stands in docs/support-desk.md, before a stand-in for Zammad and `rejoinder desk`."""
    text = (Path(__file__).parents[2] / "docs" / "support-desk.md").read_text(encoding="utf-8")
    [code] = re.findall(r"^```python\n(import hashlib.*?)^```$", text, re.DOTALL | re.MULTILINE)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    example = tmp_path / "zammad.py"
    example.write_text(
        code.replace("http://127.0.0.1:8001", stand_in.url).replace("8003", str(port))
    )
    keys = {"REJOINDER_DESK_SECRET": SECRET, "ZAMMAD_TOKEN": TOKEN, "ZAMMAD": stand_in.url}
    process = subprocess.Popen([sys.executable, example], env={**os.environ, **keys})
    address = f"http://127.0.0.1:{port}"
    article = {"id": 104, "body": "Where is it?", "sender": "Customer", "internal": False}
    private = {**article, "id": 105, "internal": True}
    pictures = [{**article, "id": 106, "body": None}, {**article, "id": 107, "body": " "}]
    try:
        while True:  # until it listens
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert process.poll() is None
            time.sleep(0.05)
        for values in (private, *pictures, article):
            body = json.dumps({"ticket": {"id": 81}, "article": values}).encode()
            urllib.request.urlopen(f"{address}/event", body, timeout=60).read()
        path, values = Generic(SECRET).note("81", REPLIES)
        body = json.dumps(values).encode()
        Address(f"{address}/note").post(path, body, {})  # unsigned
        Address(f"{address}/note").post(path, body, Generic(SECRET).headers(body))
    finally:
        process.terminate()
        process.wait(30)
    (_, path, headers, said), (_, note_path, note_headers, note) = stand_in.got
    lower = {name.lower(): value for name, value in headers.items()}
    assert (path, is_signed(SECRET, "x-rejoinder", lower, said)) == ("/webhook", True)
    event = Generic(SECRET).read(json.loads(said))
    assert event == ("104", "81", "customer", "Where is it?", "")
    assert note_path == "/api/v1/ticket_articles"
    assert note_headers["Authorization"] == f"Token token={TOKEN}"
    wanted = {"ticket_id": 81, "body": note_text(REPLIES), "internal": True}
    assert json.loads(note) == wanted

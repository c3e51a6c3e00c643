"""Safe unless told otherwise: keys, hosts, limits, slow clients, headers, and a log without what was said."""

import asyncio
import json
import logging
import sys
import time
from urllib.parse import quote

import pytest

from rejoinder.errors import InputError
from rejoinder.serving.app import PAGE
from rejoinder.serving.worker.answers import Answers
from rejoinder.serving.desk.events import Chatwoot, Generic
from rejoinder.serving.guard import MOST_BYTES, WATCHED, Keys
from rejoinder.serving.http.logs import JsonLines
from tests.serving.conftest import running

READ, WRITE = "read-key-of-16-letters", "write-key-of-16-letters"
ASK, NEW = {"messages": ["secret words"]}, {"candidates": ["secret reply"]}


def asking():
    """The scope of a request for replies."""
    return {
        "type": "http",
        "method": "POST",
        "path": "/v1/replies",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    }


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (None, (401, 401, 401, 200)),
        ("wrong", (401, 401, 401, 200)),
        (READ, (200, 403, 403, 200)),
        (WRITE, (200, 201, 503, 200)),
    ],
)
def test_read_and_write_keys(client, key, expected):
    server = client(keys=Keys(READ.encode(), WRITE.encode()))
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    found = [
        server.post("/v1/replies", json=ASK, headers=headers),
        server.post("/v1/candidates", json=NEW, headers=headers),
        server.post("/admin/reload", headers=headers),
        server.get("/health", headers=headers),
    ]
    # a reload fails: no model has that name
    assert tuple(each.status_code for each in found) == expected
    assert ("www-authenticate" in found[0].headers) == (expected[0] == 401)


@pytest.mark.parametrize("path", ["/v1/candidates/0", "/chat/v1/candidates/0"])
@pytest.mark.parametrize(("key", "status"), [(None, 401), (READ, 403), (WRITE, 200)])
def test_a_prefix_of_the_path_needs_the_same_key(client, path, key, status):
    """A server around this one may leave the prefix in the path, or take it off."""
    server = client(below="/chat", keys=Keys(READ.encode(), WRITE.encode()))
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    assert server.delete(path, headers=headers).status_code == status


def test_a_prefix_of_the_path_has_the_same_limits(client):
    server = client(below="/chat")
    large = {"candidates": [{"text": "x", "payload": {"more": "x" * MOST_BYTES}}]}
    assert server.post("/chat/v1/candidates", json=large).status_code == 201
    assert server.post("/chat/v1/replies", json={"messages": ["x" * MOST_BYTES]}).status_code == 413
    server.app.state.api.search_queue._queue = 0
    assert server.post("/chat/v1/replies", json={}).status_code == 429  # before its body is read


def test_all_but_the_page_and_the_condition_need_a_key(client):
    server = client(keys=Keys(READ.encode(), WRITE.encode()))
    routes = {route.path: route.methods for route in server.app.routes}
    page = {path for path in routes if (PAGE / path[1:]).is_file()} - {"/"}
    assert len(page) > 5
    without = {path for path in routes if server.get(path).status_code != 401}
    assert without == page | {"/", "/health", "/ready", "/openapi.json"}
    assert server.get("/later/address").status_code == 401
    assert server.get("/chat/v1/candidates").status_code == 401


def test_keys_are_compared_in_constant_time(monkeypatch):
    compared, keys = [], Keys(READ.encode(), WRITE.encode())
    monkeypatch.setattr(
        "hmac.compare_digest", lambda given, key: compared.append(key) or given == key
    )
    for given in (b"", b"Bearer wrong", b"Bearer " + READ.encode(), b"Bearer " + WRITE.encode()):
        compared.clear()
        keys.refusal(given, write=False)
        assert compared == [WRITE.encode(), READ.encode()]


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Bearer KEY", 200),
        ("bearer KEY", 200),
        ("BEARER  KEY", 200),
        ("KEY", 401),
        ("Basic KEY", 401),
        ("BearerKEY", 401),
        ("Bearer", 401),
        ("Bearer KEY KEY", 401),
    ],
)
def test_a_key_comes_with_its_scheme(client, header, status):
    server = client(keys=Keys(READ.encode()))
    headers = {"authorization": header.replace("KEY", READ)}
    assert server.post("/v1/replies", json=ASK, headers=headers).status_code == status


def test_pages_of_other_sites_reload_nothing(client, monkeypatch):
    """As a form sends it, without asking first."""
    server, opened = client(), []
    monkeypatch.setattr("rejoinder.serving.worker.computing.Computing.open", lambda *_: opened.append(1))
    headers = {"origin": "https://evil.example", "content-type": "text/plain"}
    assert server.post("/admin/reload", headers=headers).status_code == 403
    assert not opened
    assert server.post("/admin/reload").status_code == 200
    assert opened


def test_redirects_name_no_other_host(client):
    server = client(keys=Keys(READ.encode()), local=False)
    headers = {"host": "evil.example", "authorization": f"Bearer {READ}"}
    answer = server.get("/v1/candidates/", headers=headers, follow_redirects=False)
    assert (answer.status_code, answer.headers.get("location")) == (404, None)


def test_keys_come_from_the_environment():
    assert not Keys.from_environment({})
    assert Keys.from_environment({"REJOINDER_READ_KEY": READ}) == Keys(READ.encode(), None)
    for key in ("", "short", "schlüssel" * 4):
        with pytest.raises(InputError, match="openssl rand"):
            Keys.from_environment({"REJOINDER_WRITE_KEY": key})


@pytest.mark.parametrize("holder", [Keys(b"SECRET", b"SECRET"), Chatwoot("SECRET", 1), Generic("SECRET")])
def test_no_secret_is_shown_in_a_traceback(holder):
    assert "SECRET" not in repr(holder)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "localhost:9000"}, 200),
        ({"host": "127.0.0.1"}, 200),
        ({"host": "[::1]:8000"}, 200),
        ({"host": "evil.example"}, 421),
        ({"host": "localhost.evil.example:80"}, 421),
        ({"content-type": "text/plain"}, 415),  # what a form of another page can send
        ({"content-length": "99999999999"}, 413),
        ({"content-length": "65537"}, 413),  # of a conversation
        ({"origin": "http://localhost"}, 200),
        ({"origin": "http://localhost:3000"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"content-length": "-1"}, 413),
    ],
)
def test_hosts_and_headers(client, headers, status):
    body = json.dumps(ASK).encode()
    answer = client().post(
        "/v1/replies", content=body, headers={"content-type": "application/json", **headers}
    )
    assert answer.status_code == status
    assert int(answer.headers["content-length"]) == len(answer.content)


PROXIES = {
    "Forwarded": "for=203.0.113.9",
    "X-Forwarded-For": "203.0.113.9",
    "X-Forwarded-Host": "replies.example.com",
    "X-Forwarded-Proto": "https",
    "X-Real-IP": "203.0.113.9",
    "Via": "1.1 proxy",
}


@pytest.mark.parametrize("name", PROXIES)
def test_a_proxy_needs_a_key(client, name):
    """It writes a local Host and hides who asks, as nginx does by default."""
    header = {name: PROXIES[name]}
    server = client()
    for refused in (
        server.post("/v1/replies", json=ASK, headers=header),
        server.post("/v1/candidates", json=NEW, headers=header),
        server.get("/", headers=header),
    ):
        assert refused.status_code == 421
        message = refused.json()["error"]["message"]
        assert f"the header {name.lower()} is one of a proxy" in message
        assert "set REJOINDER_WRITE_KEY or REJOINDER_READ_KEY" in message
    server = client(keys=Keys(READ.encode()), local=False)
    header["authorization"] = f"Bearer {READ}"
    assert server.post("/v1/replies", json=ASK, headers=header).status_code == 200


def test_bodies_are_limited_also_where_their_length_is_not_said(client):
    def parts():
        for _ in range(MOST_BYTES // 1000 + 2):
            yield b" " * 1000

    answer = client().post(
        "/v1/replies", content=parts(), headers={"content-type": "application/json"}
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, 413)


def test_no_name_in_a_request_is_a_path(client, tmp_path):
    """Nothing is opened or looked for at a place that a request names."""
    place, used, watched = f"{tmp_path}/elsewhere/secret.json", [], [True]
    sys.addaudithook(
        lambda event, given: used.append(event) if watched and place in repr(given) else None
    )
    server, way = client(), quote(place, safe="")
    for path in (
        f"/{place}",
        f"/..{place}",
        f"/{way}",
        f"/v1/report?form={way}",
        f"/v1/candidates/{way}",
    ):
        server.get(path, headers={"x-request-id": place, "authorization": place})
    for path, body in (
        ("embeddings", {"input": place}),
        ("rerank", {"query": place, "documents": [place]}),
        ("intents", {"input": place}),
        ("candidates", {"candidates": [place]}),
    ):
        server.post(f"/v1/{path}", json={**body, "model": place} if path[0] in "er" else body)
    server.post("/v1/replies", json={"messages": [place], "index": place})
    server.post("/v1/replies", json={"messages": [place], "where": {"team": place}})
    watched.clear()
    assert not used


def test_every_answer_has_safe_headers_and_its_id(client):
    server = client()
    before = server.options(
        "/v1/replies", headers={"origin": "https://a.b", "access-control-request-method": "POST"}
    )
    assert (before.status_code, "access-control-allow-origin" in before.headers) == (405, False)
    for path, asked in (
        ("/health", "abc.1-2"),
        ("/none", "x" * 65),
        ("/v1/candidates?limit=0", "a b"),
    ):
        answer = server.get(path, headers={"x-request-id": asked, "origin": "https://evil.example"})
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert "access-control-allow-origin" not in answer.headers
        assert (answer.headers["x-request-id"] == asked) == (path == "/health")


@pytest.mark.parametrize("log_texts", [False, True])
def test_the_log_holds_what_was_said_only_if_asked(client, caplog, log_texts, monkeypatch):
    server = client(log_texts=log_texts)
    with caplog.at_level(logging.INFO, "rejoinder.serving"):
        server.post("/v1/replies", json=ASK)
        server.post("/v1/replies", json={"messages": ["secret"], "secret": 1})
        monkeypatch.setattr("rejoinder.retrieval.index.Index.search_vectors", _fail)
        failed = server.post("/v1/replies", json=ASK)
    lines = [
        JsonLines().format(record)
        for record in caplog.records
        if record.name == "rejoinder.serving"
    ]
    assert failed.status_code == 500
    assert ("secret" in "".join(lines)) == log_texts
    first = json.loads(lines[0])
    assert (first["route"], first["status"], first["method"]) == ("/v1/replies", 200, "POST")
    [trace] = [found["trace"] for line in lines if "trace" in (found := json.loads(line))]
    assert " _fail" in trace[0]


def _fail(*_, **__):
    raise RuntimeError("a bug, with secret words")


class Slow:
    """Takes its time for replies."""

    def __init__(self, monkeypatch, seconds):
        self.replies, self.seconds, self.done = Answers.replies, seconds, 0
        monkeypatch.setattr(Answers, "replies", self)

    def __call__(self, answers, questions):
        time.sleep(self.seconds)
        self.done += len(questions)
        return self.replies(answers, questions)


def test_overload_is_refused_at_once_and_who_leaves_makes_room(answers, monkeypatch):
    slow = Slow(monkeypatch, 0.3)

    async def run():
        async with running(answers, queue=2) as (client, api):

            async def ask():
                return await client.post("/v1/replies", json=ASK)

            tasks = []
            for _ in range(5):
                tasks.append(asyncio.create_task(ask()))
                await asyncio.sleep(0.02)
            refused = [task.result() for task in tasks if task.done()]
            assert [each.status_code for each in refused] == [429, 429]
            assert all(int(each.headers["retry-after"]) >= 1 for each in refused)
            tasks[1].cancel()
            await asyncio.sleep(0.02)
            assert len(api.search_queue) == 1
            assert [(await tasks[place]).status_code for place in (0, 2)] == [200, 200]
            return slow.done

    assert asyncio.run(run()) == 2


@pytest.mark.parametrize(("parts", "status"), [(2, 408), (1, 503)])
def test_what_takes_too_long_ends(answers, parts, status, monkeypatch):
    """Of a body that never comes whole, and of an answer that is computed for too long."""
    Slow(monkeypatch, 0.3)
    sent = []

    async def run():
        async with running(answers, seconds=0.1) as (client, _):
            app, body = client._transport.app, json.dumps(ASK).encode()
            waiting = iter([{"type": "http.request", "body": body, "more_body": parts > 1}])

            async def receive():
                if (message := next(waiting, None)) is None:
                    await asyncio.sleep(60)
                return message

            async def send(message):
                sent.append(message)

            await app(asking(), receive, send)

    asyncio.run(run())
    assert sent[0]["status"] == status


@pytest.mark.parametrize("headers", [{}, {"content-length": "0"}])
def test_a_late_answer_to_a_request_without_a_body_is_the_servers(client, headers, monkeypatch):
    server = client(seconds=0.1)
    monkeypatch.setattr("rejoinder.serving.worker.computing.Computing.open", lambda _: time.sleep(0.3))
    request = server.build_request("POST", "/admin/reload")
    request.headers.pop("content-length", None)
    request.headers.update(headers)
    answer = server.send(request)
    assert answer.status_code == 503
    assert answer.json()["error"]["message"] == "no answer in time; try again"


def test_a_client_that_goes_away_after_a_slow_body_is_no_longer_computed_for(answers, monkeypatch):
    Slow(monkeypatch, 0.5)
    status = []

    async def run():
        async with running(answers) as (client, _):
            body = json.dumps(ASK).encode()
            parts = [
                {"type": "http.request", "body": body[:5], "more_body": True},
                {"type": "http.request", "body": body[5:]},
                {"type": "http.disconnect"},
            ]

            async def receive():
                await asyncio.sleep(WATCHED if len(parts) < 3 else 0)
                return parts.pop(0)

            async def send(message):
                status.append(message.get("status"))

            begin = time.monotonic()
            await client._transport.app(asking(), receive, send)
            return time.monotonic() - begin

    assert asyncio.run(run()) < 0.45
    assert not status


def test_a_client_that_goes_away_is_no_longer_computed_for(answers, monkeypatch):
    slow = Slow(monkeypatch, 0.3)

    async def run():
        async with running(answers) as (client, api):
            app, gone = client._transport.app, asyncio.Event()
            first = asyncio.create_task(client.post("/v1/replies", json=ASK))
            await asyncio.sleep(0.05)
            waiting = iter([{"type": "http.request", "body": json.dumps(ASK).encode()}])

            async def receive():
                if (message := next(waiting, None)) is None:
                    await gone.wait()
                    return {"type": "http.disconnect"}
                return message

            second = asyncio.create_task(app(asking(), receive, None))
            await asyncio.sleep(0.15)
            assert len(api.search_queue) == 1
            gone.set()
            await second
            assert len(api.search_queue) == 0
            assert (await first).status_code == 200

    asyncio.run(run())
    assert slow.done == 1


def test_a_client_that_goes_away_while_it_sends_is_answered_nothing(answers):
    async def run():
        async with running(answers) as (client, _):
            waiting = iter(
                [
                    {"type": "http.request", "body": b"{", "more_body": True},
                    {"type": "http.disconnect"},
                ]
            )

            async def receive():
                return next(waiting)

            await client._transport.app(asking(), receive, None)
            return (await client.get("/metrics")).text

    assert 'route="/v1/replies",status="499"} 1.0' in asyncio.run(run())

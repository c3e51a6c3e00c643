"""Threads of chats: a conversation with an id is in one part of the split, in each of its exports."""

import json

import pytest

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.registry.chats import ChatsSettings, read_chats

SAID = ["Where is it?", "It left.", "Nothing came.", "Here is a refund."]
DAY = 86_400


@pytest.fixture
def read(tmp_path):
    def run(name, content, **settings):
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        agent = "@shop.org" if name == "a.mbox" else ""
        return list(read_chats(path, Reading(), ChatsSettings(agent=agent, **settings)))

    return run


def table(said):
    rows = [f"T-1,{index % 2},{text},{1_700_000_000 + index * 60 + index // 2 * DAY}" for index, text in enumerate(said)]
    return "a.csv", "\n".join(["ticket,is_agent,text,time", *rows])


def mailbox(said):
    return "a.mbox", "".join(
        f"From x Mon Jan  1 00:00:00 2024\nFrom: {('ann@a.org', 'agent@shop.org')[index % 2]}\n"
        f"Date: 0{index + 1} Jan 2024 10:00:00 +0000\nMessage-ID: <{index}@x>\n"
        f"References: {' '.join(f'<{earlier}@x>' for earlier in range(index))}\n\n{text}\n\n"
        for index, text in enumerate(said)
    )


def zendesk(said):
    comments = [{"author_id": index % 2, "public": True, "plain_body": text} for index, text in enumerate(said)]
    return "a.json", json.dumps({"id": "T-1", "comments": comments})


def intercom(said):
    parts = [
        {"part_type": "comment", "body": text, "author": {"type": ("user", "admin")[index % 2], "id": index % 2}}
        for index, text in enumerate(said)
    ]
    source = {"body": parts[0]["body"], "author": parts[0]["author"]}
    return "a.json", json.dumps({"id": "T-1", "source": source, "conversation_parts": {"conversation_parts": parts[1:]}})


def chatwoot(said):
    messages = [{"content": text, "message_type": index % 2, "conversation_id": "T-1"} for index, text in enumerate(said)]
    return "a.json", json.dumps({"payload": messages})


def freshdesk(said):
    entries = [{"body_text": text, "incoming": not index % 2, "user_id": index % 2} for index, text in enumerate(said)]
    ticket = {"id": "T-1", "requester_id": 0, "description_text": said[0], "conversations": entries[1:]}
    return "a.json", json.dumps(ticket)


def language_model(said):
    messages = [{"role": ("user", "assistant")[index % 2], "content": text} for index, text in enumerate(said)]
    return "a.json", json.dumps([{"id": "T-1", "messages": messages}])


def rasa(said):
    events = [{"event": ("user", "bot")[index % 2], "text": text} for index, text in enumerate(said)]
    return "a.json", json.dumps({"sender_id": "T-1", "events": events})


FORMS = [table, mailbox, zendesk, intercom, chatwoot, freshdesk, language_model, rasa]


@pytest.mark.parametrize("form", FORMS)
def test_a_conversation_has_one_thread_in_a_short_and_a_long_export(read, form):
    short, *_ = read(*form(SAID[:2]))
    examples = read(*form(SAID))
    assert [example.response for example in examples] == SAID[1::2]
    assert {example.thread for example in (short, *examples)} == {"<0@x>" if form is mailbox else "T-1"}


def test_exports_of_two_months_each_have_the_thread_of_their_conversation(read):
    name, content = mailbox(SAID)
    mails = content.split("From x ")[1:]
    february = "".join(f"From x {mail}" for mail in mails[2:])
    assert {example.thread for example in read(name, february)} == {"<0@x>"}


def test_a_silence_splits_no_thread(read):
    first, second = read(*table(SAID), gap="12h")
    assert (len(first.context), len(second.context)) == (1, 1)
    assert first.thread == second.thread == "T-1"


def test_pieces_of_an_endless_chat_are_threads_of_their_own(read):
    name, content = table(SAID)
    first, second = read(name, content.replace("T-1", "").replace("ticket", "chat"))
    assert first.thread != second.thread


@pytest.mark.parametrize("form", FORMS)
def test_redaction_hides_the_ids_of_threads(read, form):
    threads = {example.thread for example in read(*form(SAID), redact=True)}
    assert len(threads) == 1
    assert all(thread.isalnum() and len(thread) == 32 for thread in threads)

"""Help desks: which fields are plain text, and who is an agent."""

import json

import pytest

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.registry.candidates import read_candidates
from rejoinder.corpora.registry.chats import ChatsSettings, read_chats

PLAIN = "1. Run cmd <file>\n2. Press <Enter>\n3. Write to Ann <ann@shop.org>"
HTML = "<p>Write to &lt;ann@shop.org&gt;</p><p>R&amp;D</p>"
SHOWN = "Write to <ann@shop.org>\nR&D"
BREAK = "The tag <br> ends a line."


@pytest.fixture
def read(tmp_path):
    def run(*records, reading=None):
        path = tmp_path / "tickets.jsonl"
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
        examples = read_chats(path, reading or Reading(), ChatsSettings())
        return [(*example.context, example.response) for example in examples]

    return run


@pytest.fixture
def reply(tmp_path):
    def run(content):
        path = tmp_path / "replies.json"
        path.write_text(json.dumps(content))
        [candidate] = read_candidates(path)
        return candidate.text

    return run


def zendesk(*fields, **ticket):
    comments = [{"author_id": 5, "public": True, "plain_body": "Hi?"}]
    return {"id": 1, **ticket, "comments": [*comments, {"author_id": 9, "public": True, **dict(fields)}]}


@pytest.mark.parametrize(("fields", "text"), [
    ({"plain_body": PLAIN, "html_body": HTML}, PLAIN),
    ({"plain_body": f"{BREAK}&nbsp;Yes."}, f"{BREAK} Yes."),
    ({"body": PLAIN}, PLAIN),
    ({"body": HTML}, SHOWN),
    ({"html_body": "a &amp; b"}, "a & b"),
])  # fmt: skip
def test_texts_of_zendesk(read, fields, text):
    assert read(zendesk(*fields.items())) == [("Hi?", text)]


@pytest.mark.parametrize(("fields", "text"), [
    ({"body_text": PLAIN, "body": HTML}, PLAIN), ({"body_text": BREAK}, BREAK), ({"body": HTML}, SHOWN),
])  # fmt: skip
def test_texts_of_freshdesk(read, fields, text):
    note = {"incoming": False, "private": False, "user_id": 5, **fields}
    ticket = {"id": 7, "requester_id": 9, "description_text": "List<Key>?", "description": "<div>x</div>"}
    assert read({**ticket, "conversations": [note]}) == [("List<Key>?", text)]


@pytest.mark.parametrize(("content", "text"), [(PLAIN, PLAIN), (HTML, SHOWN)])
def test_texts_of_chatwoot(read, content, text):
    messages = [{"content": each, "message_type": kind, "conversation_id": 1} for kind, each in enumerate(("Hi?", content))]
    assert read({"payload": messages}) == [("Hi?", text)]


@pytest.mark.parametrize(("field", "value", "text"), [
    ("comment_value", PLAIN, PLAIN), ("comment_value", HTML, SHOWN), ("comment_value_html", HTML, SHOWN),
])  # fmt: skip
def test_texts_of_macros(reply, field, value, text):
    assert reply({"macros": [{"title": "a", "active": True, "actions": [{"field": field, "value": value}]}]}) == text


@pytest.mark.parametrize(("entry", "text"), [
    ({"short_code": "a", "content": PLAIN}, PLAIN),
    ({"short_code": "a", "content": HTML}, SHOWN),
    ({"name": "a", "body": HTML, "body_text": PLAIN, "type": "macro"}, PLAIN),
    ({"title": "a", "folder_id": 1, "description": HTML, "description_text": PLAIN, "status": 2}, PLAIN),
    ({"title": "a", "body": "<h1>A</h1><img alt='b'>a &amp; b", "draft": False}, "A\na & b"),
])  # fmt: skip
def test_texts_of_canned_responses_and_articles(reply, entry, text):
    assert reply({"articles" if "draft" in entry or "status" in entry else "data": [entry]}) == text


def test_a_customer_in_copy_is_no_agent(read):
    entries = [(5, False, "Which model?"), (8, True, "I am a colleague; the X200."), (5, False, "Replace the drum.")]
    conversations = [
        {"body_text": text, "incoming": incoming, "private": False, "user_id": user} for user, incoming, text in entries
    ]
    ticket = {"id": 7, "requester_id": 9, "description_text": "It is broken."}
    texts = [text for _, _, text in entries]
    wanted = [("It is broken.", texts[0]), ("It is broken.", *texts)]
    assert read({**ticket, "conversations": conversations}) == wanted
    for entry, incoming in zip(conversations, (None, None, 0), strict=True):
        entry["incoming"] = incoming  # nothing to go by: the requester alone is a customer
    assert read({**ticket, "conversations": conversations}) == [("It is broken.", " ".join(texts))]


def test_a_private_note_before_the_question_makes_nobody_a_customer(read):
    ticket = zendesk(("body", "Here."))
    note = {"author_id": 9, "public": False, "body": "A note."}
    assert read({**ticket, "comments": [note, *ticket["comments"]]}) == [("Hi?", "Here.")]


def test_messages_of_zendesk_and_intercom_are_in_the_order_of_their_times(read):
    times = [f"2024-01-05T10:0{minute}:00Z" for minute in range(3)]
    comments = [
        {"author_id": author, "public": True, "body": text, "created_at": time}
        for author, text, time in zip((5, 9, 5), ("Hi?", "Hello.", "Bye."), times, strict=True)
    ]
    assert read({"id": 1, "comments": comments[::-1]}) == [("Hi?", "Hello.")]
    parts = [
        {"part_type": "comment", "body": text, "created_at": time, "author": {"type": kind, "id": kind}}
        for text, time, kind in (("Later.", 30, "admin"), ("And?", 20, "user"))
    ]
    source = {"body": "Hi?", "author": {"type": "user", "id": "user"}}
    conversation = {"id": 1, "created_at": 10, "source": source, "conversation_parts": {"conversation_parts": parts}}
    assert read(conversation) == [("Hi? And?", "Later.")]


@pytest.mark.parametrize(("source", "wanted"), [
    (10, [("We noticed it.", "What now?", "Wait.")]), (1, [("We noticed it. What now?", "Wait.")]),
])  # fmt: skip
def test_an_agent_wrote_the_description_of_an_outbound_ticket(read, source, wanted):
    entries = [(9, True, "What now?"), (5, False, "Wait.")]
    conversations = [
        {"body_text": text, "incoming": incoming, "private": False, "user_id": user} for user, incoming, text in entries
    ]
    ticket = {"id": 7, "source": source, "requester_id": 9, "responder_id": 5, "description_text": "We noticed it."}
    assert read({**ticket, "conversations": conversations}) == wanted


def _ticket(tool, *entries):
    """Return a ticket with a question, and entries of an agent: texts, each with more fields."""
    asked = ("Hi?", {})
    if tool == "zendesk":
        comments = [
            {"author_id": 5 if text == "Hi?" else 9, "plain_body": text, **fields} for text, fields in (asked, *entries)
        ]
        return {"id": 1, "requester_id": 5, "comments": comments}
    if tool == "freshdesk":
        conversations = [{"body_text": text, "incoming": False, "user_id": 5, **fields} for text, fields in entries]
        return {"id": 7, "requester_id": 9, "description_text": "Hi?", "conversations": conversations}
    messages = [
        {"content": text, "message_type": int(text != "Hi?"), "conversation_id": 1, **fields}
        for text, fields in (asked, *entries)
    ]
    return {"payload": messages}


@pytest.mark.parametrize("words", [(True, False), ("true", "false"), (1, 0), ("Yes", "No"), ("1", "0"), ("ja", "nein")])
@pytest.mark.parametrize("tool", ["zendesk", "freshdesk", "chatwoot"])
def test_private_notes_are_left_out_whatever_the_words_of_their_flag(read, tool, words):
    yes, no = words
    note, said = ({"public": no}, {"public": yes}) if tool == "zendesk" else ({"private": yes}, {"private": no})
    reading = Reading()
    assert read(_ticket(tool, ("A known fraudster.", note), ("Here.", said)), reading=reading) == [("Hi?", "Here.")]
    assert reading.dropped == {"private notes": 1}
    assert not any("neither" in text for text in reading.notes)


@pytest.mark.parametrize(("tool", "field"), [("zendesk", "public"), ("freshdesk", "private"), ("chatwoot", "private")])
def test_a_flag_that_says_neither_is_that_of_a_note_and_noted(read, tool, field):
    reading = Reading()
    ticket = _ticket(tool, ("A known fraudster.", {field: "dunno"}), ("Here.", {}))
    assert read(ticket, reading=reading) == [("Hi?", "Here.")]
    assert reading.dropped == {"private notes": 1}
    assert f"{field}: 1 values 'dunno' are neither yes nor no" in reading.notes[0]


@pytest.mark.parametrize("yes", [True, "true", 1])
@pytest.mark.parametrize("tool", ["freshdesk", "chatwoot"])
def test_deleted_messages_are_left_out(read, tool, yes):
    deleted = {"deleted": yes} if tool == "freshdesk" else {"content_attributes": {"deleted": yes}}
    reading = Reading()
    assert read(_ticket(tool, ("Never mind.", deleted), ("Here.", {})), reading=reading) == [("Hi?", "Here.")]
    assert reading.dropped == {"deleted messages": 1}


@pytest.mark.parametrize("tool", ["zendesk", "freshdesk", "chatwoot"])
def test_messages_with_the_id_of_an_earlier_one_are_left_out(read, tool):
    reading = Reading()
    entries = [("Here.", {"id": 70}), ("Here.", {"id": 70}), ("Really.", {"id": 71})]
    assert read(_ticket(tool, *entries), reading=reading) == [("Hi?", "Here. Really.")]
    assert reading.dropped == {"duplicate messages": 1}
    assert read(_ticket(tool, ("Yes.", {}), ("Yes.", {}))) == [("Hi?", "Yes. Yes.")]


def test_parts_of_intercom_with_the_id_of_an_earlier_one_are_left_out(read):
    part = {"part_type": "comment", "body": "Here.", "id": 70, "author": {"type": "admin", "id": 9}}
    source = {"body": "Hi?", "author": {"type": "user", "id": 5}}
    conversation = {"id": 1, "source": source, "conversation_parts": {"conversation_parts": [part, part]}}
    assert read(conversation) == [("Hi?", "Here.")]


@pytest.mark.parametrize("fields", [
    {"via": {"channel": "rule", "source": {"rel": "trigger"}}}, {"via": {"channel": "system"}}, {"author_id": -1},
])  # fmt: skip
def test_comments_of_zendesk_s_triggers_are_left_out_and_counted(read, fields):
    reading = Reading()
    ticket = _ticket("zendesk", ("We received it.", fields), ("Here.", {"via": {"channel": "web"}}))
    del ticket["requester_id"]
    assert read(ticket, reading=reading) == [("Hi?", "Here.")]
    assert reading.dropped == {"automatic answers": 1}
    ticket["comments"].insert(0, ticket["comments"].pop(1))  # before the question, it makes nobody the requester
    assert read(ticket) == [("Hi?", "Here.")]


def _intercom(*parts):
    answers = [{"part_type": "comment", "body": text, "author": {"type": kind, "name": kind}} for kind, text in parts]
    source = {"body": "Hi?", "author": {"type": "user", "id": 5}}
    return {"id": 1, "source": source, "conversation_parts": {"conversation_parts": answers}}


def _chatwoot(*parts):
    kinds = {"bot": {"message_type": 1, "sender": {"type": "agent_bot", "name": "Bo"}}, "form": {"message_type": 3}}
    agent = {"message_type": "outgoing", "sender": {"type": "user", "name": "Ada"}}
    messages = [{"content": "Hi?", "message_type": 0, "sender": {"type": "contact", "name": "Kim"}}]
    messages += [{"content": text, **kinds.get(kind, agent)} for kind, text in parts]
    return {"id": 10, "messages": messages}


@pytest.mark.parametrize(("tool", "kind"), [(_intercom, "bot"), (_chatwoot, "bot"), (_chatwoot, "form")])
def test_bots_answer_where_no_agent_does(read, tool, kind):
    reading = Reading()
    assert read(tool((kind, "We reply soon."), ("admin", "Here."), (kind, "Rate us.")), reading=reading) == [("Hi?", "Here.")]
    assert reading.dropped == {"messages of bots beside agents": 2}
    reading = Reading()
    assert read(tool((kind, "It is here."))) == [("Hi?", "It is here.")]
    assert reading.dropped == {}

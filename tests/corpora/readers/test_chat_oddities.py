"""What the tools write besides messages, and how chats are cut and agents found."""

import json
import os
import zipfile
from pathlib import Path

import pytest

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat_apps.slack import clean_slack_text
from rejoinder.corpora.registry.chats import ChatsSettings, read_chats
from rejoinder.errors import InputError


@pytest.fixture
def read(tmp_path):
    def run(name, content, reading=None, **settings):
        path = tmp_path / name
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8", newline="")
        examples = read_chats(path, reading or Reading(), ChatsSettings(**settings))
        return [(*example.context, example.response) for example in examples]

    return run


def test_a_silence_splits_the_chats_of_a_table_and_times_order_them(read):
    rows = [
        "author,text,time",
        "bot,Bye,2024-03-01T09:05:00Z",
        "bea,Hi,2024-03-01T09:00:00Z",
        "bea,Again,2024-03-02T09:00:00Z",
        "bot,Yes?,2024-03-02T09:01:00Z",
    ]
    text = "\n".join(rows)
    reading = Reading()
    assert read("a.csv", text, reading) == [("Hi", "Bye"), ("Again", "Yes?")]
    assert reading.notes == [
        f"{reading.notes[0].partition(':')[0]}: table (comma, utf-8): author = author, text = text, time = time",
        f"{reading.notes[0].partition(':')[0]}: table of messages, 2 chats, agent: bot",
    ]
    assert read("a.csv", text, gap="2d") == [("Hi", "Bye"), ("Hi", "Bye", "Again", "Yes?")]
    assert len(read("a.csv", text, gap="1m")) == 1
    for wrong in ("12", "h", "1w"):
        with pytest.raises(InputError, match="give a time, such as 30m, 12h or 2d, or none"):
            ChatsSettings(gap=wrong)


@pytest.mark.parametrize(
    "column",
    [
        ("inbound", "true", "False"),
        ("role", "end-user", "agent"),
        ("is_agent", "0", "1"),
        ("direction", "in", "outgoing"),
        ("sender_type", "Customer", "Support agent"),
    ],
)
def test_a_column_says_who_answers(read, column):
    name, customer, agent = column
    text = f"ticket;from;body;{name}\n1;a;Hi;{customer}\n1;b;Bye;{agent}\n"
    assert read("a.csv", text) == [("Hi", "Bye")]


@pytest.mark.parametrize(
    ("name", "customer", "agent"),
    [
        ("inbound", "true", "false"),
        ("direction", "inbound", "outbound"),
        ("is_agent", "no", "yes"),
        ("sender_type", "Customer", "Agent"),
        ("role", "user", "assistant"),
    ],
)
def test_a_column_that_says_who_answers_needs_no_authors(read, name, customer, agent):
    rows = [f"7,{customer},Hi,09:00", f"7,{agent},Bye,09:01", f"8,{customer},Hello,09:02", f"8,{agent},See you,09:03"]
    text = "\n".join([f"conversation,{name},text,time", *rows])
    wanted = [("Hi", "Bye"), ("Hello", "See you")]
    reading = Reading()
    assert read("a.csv", text, reading) == wanted
    assert reading.notes[-1].endswith(f"agent: {'assistant' if name == 'role' else 'agent'}")
    assert read("a.csv", text, columns=f"author={name}") == wanted


def test_a_column_that_says_who_answers_may_stand_beside_times_alone(read):
    text = "direction,text,time\nin,Hi,2024-03-01T09:00:00Z\nout,Bye,2024-03-01T09:01:00Z\n"
    assert read("a.csv", text) == [("Hi", "Bye")]


def test_columns_are_named_and_private_rows_left_out(read):
    text = "Fall;Von;Inhalt;private\n1;a;Hi;\n1;b;secret;true\n1;b;Bye;false\n1;b;;\n"
    with pytest.raises(
        InputError,
        match=r"looks like plain text with .*, but like no form of chats .*name the columns: --set format=messages",
    ):
        read("a.csv", text)
    reading = Reading()
    columns = "conversation=fall,author=Von,text=Inhalt"
    assert read("a.csv", text, reading, format="messages", columns=columns, agent="b") == [("Hi", "Bye")]
    assert reading.dropped == {"private notes": 1, "messages without a text": 1}
    with pytest.raises(InputError, match=r"no column for author or text; .*--set columns=author=NAME"):
        read("a.csv", text, format="messages")


def test_whoever_takes_part_in_most_chats_answers(read):
    rows = [
        f"{chat},{author},{text}"
        for chat, customer in enumerate("abc")
        for author, text in ((customer, f"Hi {chat}"), ("Ada", "Bye"))
    ]
    assert len(read("a.csv", "\n".join(["chat,from,text", *rows]))) == 3
    with pytest.raises(InputError, match="who answers is not clear"):
        read("a.csv", "\n".join(["chat,from,text", *rows[:2]]))


def test_tweets_that_share_their_beginning_share_a_thread_and_are_read_once(tmp_path):
    rows = [
        (1, "c", "True", "@Shop hi", ""),
        (2, "Shop", "False", "@1 Yes &amp; no?", 1),
        (3, "c", "True", "@Shop a", 2),
        (4, "Shop", "False", "@1 b", 3),
        (5, "d", "True", "@Shop me too", 2),
        (6, "Shop", "False", "@2 c", 5),
        (7, "Shop", "False", "lost", 99),
    ]
    lines = ["tweet_id,author_id,inbound,created_at,text,response_tweet_id,in_response_to_tweet_id"]
    lines += [
        f"{row[0]},{row[1]},{row[2]},Tue Oct 31 22:10:0{row[0]} +0000 2017,{row[3]},,{row[4]}" for row in rows
    ]
    path = tmp_path / "twcs.csv"
    path.write_text("\n".join(lines))
    reading = Reading()
    examples = list(read_chats(path, reading, ChatsSettings()))
    assert [(*example.context, example.response) for example in examples] == [
        ("hi", "Yes & no?"),
        ("hi", "Yes & no?", "a", "b"),
        ("hi", "Yes & no?", "me too", "c"),
    ]
    assert len({example.thread for example in examples}) == 1
    assert reading.dropped == {"chats whose first tweet is missing": 1}


def test_slack_names_links_and_threads(read):
    names = {"U1": "Ada"}
    text = "<@U1> see <https://x.org|the page> &amp; <https://y.org>, <#C1|help> <!here> <mailto:a@b.org|a@b.org>"
    assert clean_slack_text(text, names) == "@Ada see the page & https://y.org, #help @here a@b.org"
    day = [
        {"type": "message", "user": user, "text": text, "ts": f"{100 + place}.0", **more}
        for place, (user, text, more) in enumerate(
            [
                ("bea", "Root?", {"thread_ts": "100.0", "reply_count": 1}),
                ("dan", "Other?", {}),
                ("bot", "In the thread.", {"thread_ts": "100.0"}),
                ("bot", "In the channel.", {}),
                ("bea", "x", {"subtype": "channel_join"}),
                ("bea", "", {"files": [{}]}),
            ]
        )
    ]
    reading = Reading()
    assert read("2024-03-01.json", day, reading) == [
        ("Other?", "In the channel."),
        ("Root?", "In the thread."),
    ]
    assert sum(reading.dropped.values()) == 2


@pytest.mark.parametrize("parent", [{"thread_ts": "100.0"}, {}])
def test_a_reply_shows_that_its_parent_begins_a_thread_of_slack(read, parent):
    messages = [
        {"user": "bea", "text": "Root?", "ts": "100.0", **parent},
        {"user": "dan", "text": "Other?", "ts": "101.0"},
        {"user": "bot", "text": "In the thread.", "ts": "102.0", "thread_ts": "100.0"},
        {"user": "bot", "text": "In the channel.", "ts": "103.0"},
        {"user": "dan", "text": "Who?", "ts": "104.0", "thread_ts": "104.0"},
        {"user": "bot", "text": "Nobody replied to that.", "ts": "105.0"},
    ]
    assert read("2024-03-01.json", [{"type": "message", **message} for message in messages]) == [
        ("Other?", "In the channel."),
        ("Other?", "In the channel.", "Who?", "Nobody replied to that."),
        ("Root?", "In the thread."),
    ]


def test_mails_lose_quotes_and_signatures_and_find_their_thread_by_subject(read):
    def mail(sender, subject, body, headers=""):
        return f"From x@y Fri Mar  1 09:00:00 2024\nFrom: {sender}\nSubject: {subject}\nDate: Fri, 01 Mar 2024 09:00:00 +0000\n{headers}\n{body}\n\n"

    text = (
        mail("Bea <bea@x.org>", "Order", "Where is it?\n>From here\n\n-- \nBea\nTel. 1")
        + mail(
            "help@shop.org",
            "AW: Order",
            "On its way.\n\nAm Fr., 1. März 2024 um 09:00 Uhr schrieb Bea <bea@x.org>:\n> Where is it?\n",
        )
        + mail("bea@x.org", "Out of office", "Away", "Auto-Submitted: auto-replied\n")
        + mail("dan@x.org", "Order", "<p>Another</p>", "Content-Type: text/html\n")
    )
    reading = Reading()
    assert read("a.mbox", text, reading, agent="@shop.org") == [("Where is it?\nFrom here", "On its way.")]
    assert reading.dropped == {"automatic answers": 1}
    assert reading.notes[-1].endswith("mailbox (mbox, eml), 2 chats, agent: help@shop.org")


def test_telegram_pieces_of_text_and_what_is_no_message(read):
    chat = {
        "name": "Bea",
        "type": "personal_chat",
        "id": 1,
        "messages": [
            {"id": 1, "type": "service", "action": "phone_call", "date": "2024-03-01T08:00:00", "text": ""},
            {
                "id": 2,
                "type": "message",
                "date": "2024-03-01T09:00:00",
                "from": "Bea",
                "from_id": "user2",
                "text": ["See ", {"type": "link", "text": "x.org"}, "!"],
            },
            {
                "id": 3,
                "type": "message",
                "date": "2024-03-01T09:01:00",
                "from": "Shop",
                "from_id": "user1",
                "text": "",
                "photo": "(File not included)",
            },
            {
                "id": 4,
                "type": "message",
                "date": "2024-03-01T09:02:00",
                "from": "Shop",
                "from_id": "user1",
                "text": "Done.",
            },
            {
                "id": 5,
                "type": "message",
                "date": "2024-03-05T09:02:00",
                "from": None,
                "from_id": "user2",
                "text": "Bye",
            },
        ],
    }
    reading = Reading()
    assert read("result.json", chat, reading) == [("See x.org!", "Done.")]
    assert sum(reading.dropped.values()) == 2
    assert reading.without_reply == 1


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.txt", "Hello\n", "a.txt looks like plain text, but like no form of chats that is known"),
        ("a.jsonl", '{"turns": ["Hi!", "Hello."]}\n', "a.jsonl holds examples.*: rejoinder data jsonl .*a.jsonl -o DIR"),
        (
            "a.json",
            {"macros": [{"title": "a", "actions": [{"field": "comment_value", "value": "x"}]}]},
            r"looks like replies \(Zendesk macros\), not chats; index it with",
        ),
        (
            "a.json",
            '[{"id": 1, "comments": [{"author_id": 1, "public": true, "body": "a"}',
            "not JSON, or cut off",
        ),
    ],
)
def test_what_is_no_chat_is_one_line(read, name, content, told):
    with pytest.raises(InputError, match=told):
        read(name, content)


def test_a_pipe_of_chats_is_named_as_a_table_of_messages():
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        stream.write("ticket,author,role,text\n1,Bea,customer,Hi\n1,Ada,agent,Bye\n")
    with pytest.raises(InputError, match=r"is a pipe, .*--set format=messages"):
        list(read_chats(Path(f"/dev/fd/{reader}"), Reading(), ChatsSettings()))
    [example] = read_chats(Path(f"/dev/fd/{reader}"), Reading(), ChatsSettings(format="messages"))
    assert example.response == "Bye"
    os.close(reader)


def test_a_zip_file_of_two_tables_is_told_to_be_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        for name in ("january.csv", "february.csv"):
            file.writestr(name, "ticket,author,text\n1,Bea,Hi\n")
    with pytest.raises(InputError, match=r"it holds 2 files, february\.csv, january\.csv: unpack it and name one"):
        list(read_chats(tmp_path / "a.zip", Reading(), ChatsSettings()))


def test_parquet_with_a_conversation_a_row_is_told_to_be_saved_as_json_lines(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").table({"id": ["1"], "messages": [[{"role": "user", "content": "Hi"}]]})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(InputError, match="is Parquet with a conversation a row; messages are read, one a row"):
        list(read_chats(tmp_path / "a.parquet", Reading(), ChatsSettings()))


def test_a_mail_with_broken_headers_or_encoding_does_not_stop_the_others(read):
    text = (
        "From x@y Fri Mar  1 09:00:00 2024\nFrom: Bea <bea@x.org>\nSubject: Order\nMessage-ID: <1@x>\n"
        "Content-Type: text/plain; charset=nonsense\n\nWhere is it?\n\n"
        "From x@y Fri Mar  1 09:01:00 2024\nFrom: help@shop.org\nSubject: Re: Order\nIn-Reply-To: <1@x>\n\nHere.\n"
    )
    assert read("a.mbox", text, agent="help@shop.org") == [("Where is it?", "Here.")]


def test_redaction_reaches_mentions_and_names_of_files(tmp_path):
    path = tmp_path / "WhatsApp Chat with Bea Lang.txt"
    path.write_text(
        "01.03.24, 09:00 - Bea Lang: Ask @491701234567\n01.03.24, 09:01 - Shop: Hi Bea\n", encoding="utf-8"
    )
    (example,) = read_chats(path, Reading(), ChatsSettings(redact=True))
    assert (example.context, example.response) == (("Ask <phone>",), "Hi <name>")
    assert "Bea" not in example.id
    day = [
        {
            "type": "message",
            "user": "U1",
            "text": "<@U2> knows: ask Dan",
            "ts": "1.0",
            "user_profile": {"real_name": "Bea"},
        },
        {"type": "message", "user": "U3", "text": "Dan?", "ts": "2.0", "username": "Shop"},
    ]
    folder = tmp_path / "export"
    (folder / "help").mkdir(parents=True)
    (folder / "help" / "2024-03-01.json").write_text(json.dumps(day))
    (folder / "users.json").write_text(
        json.dumps([{"id": "U2", "name": "dan", "profile": {"real_name": "Dan Ray"}}])
    )
    (example,) = read_chats(folder, Reading(), ChatsSettings(redact=True, agent="Shop"))
    assert (example.context, example.response) == (("@<name> knows: ask <name>",), "<name>?")

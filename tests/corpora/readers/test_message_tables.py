"""Tables of messages: the order of rows, private ones, and those without a conversation or a time."""

import json
import tracemalloc

import pytest

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.messages.table import read_messages
from rejoinder.corpora.registry.chats import ChatsSettings, read_chats
from rejoinder.corpora.registry.recognition import inspect
from rejoinder.errors import InputError
from tests.corpora.readers.workbook import workbook

QUESTION = "Ann,customer,Where is it?"
ANSWER = "Bob,agent,On its way."
THANKS = "Ann,customer,Thanks"
WELCOME = "Bob,agent,Welcome"
WANTED = [("Where is it?", "On its way."), ("Where is it?", "On its way.", "Thanks", "Welcome")]


@pytest.fixture
def read(tmp_path):
    def run(rows, header="ticket,author,role,text,time", name="a.csv", reading=None):
        path = tmp_path / name
        path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
        examples = read_chats(path, reading or Reading(), ChatsSettings())
        return [(*example.context, example.response) for example in examples]

    return run


def test_rows_of_one_minute_are_turned_where_the_newest_stands_first(read):
    rows = [f"1,{ANSWER},2024-01-05 10:00", f"1,{QUESTION},2024-01-05 10:00"]
    later = [f"1,{WELCOME},2024-01-05 10:01", f"1,{THANKS},2024-01-05 10:01"]
    assert read([*later, *rows]) == WANTED
    assert read([*reversed(rows), *reversed(later)]) == WANTED
    # Each chat is of one minute, and chats that are interleaved fall.
    apart = [f"3,{WELCOME},2024-01-05 10:02", f"2,{WELCOME},2024-01-05 10:01"]
    apart += [f"3,{THANKS},2024-01-05 10:02", f"2,{THANKS},2024-01-05 10:01", *rows]
    assert read(apart) == [("Thanks", "Welcome"), ("Thanks", "Welcome"), ("Where is it?", "On its way.")]


@pytest.mark.parametrize("days", [("07", "05"), ("05", "07")])
def test_chats_of_one_time_each_are_not_turned(read, days):
    late, early = (f"2024-01-{day}" for day in days)  # of the ticket, in each of its rows
    rows = [f"9,{THANKS},{late}", f"9,{WELCOME},{late}", f"1,{QUESTION},{early}", f"1,{ANSWER},{early}"]
    assert read(rows) == [("Thanks", "Welcome"), ("Where is it?", "On its way.")]


def test_a_table_is_turned_only_where_times_clearly_fall(read):
    rows = [f"1,{QUESTION},2024-01-05 10:00", f"1,{ANSWER},2024-01-05 10:00"]
    rows += [f"2,{WELCOME},2024-01-05 10:03", f"2,{THANKS},2024-01-05 10:01"]
    rows += [f"3,{THANKS},2024-01-05 10:01", f"3,{WELCOME},2024-01-05 10:03"]
    rows += [f"4,{WELCOME},2024-01-05 10:03", f"4,{THANKS},2024-01-05 10:01"]
    assert read(rows)[0] == ("Where is it?", "On its way.")


def test_chats_that_fall_are_not_turned_where_their_messages_rise(read):
    rows = [f"9,{THANKS},2024-01-07 10:00", f"9,{WELCOME},2024-01-07 10:00"]
    rows += [f"1,{QUESTION},2024-01-05 10:00", f"1,{ANSWER},2024-01-05 10:01"]
    assert read(rows) == [("Thanks", "Welcome"), ("Where is it?", "On its way.")]


@pytest.mark.parametrize("day", ["05.01.2024", "1/5/2024", "2024-01-05", "Jan 5, 2024"])
def test_the_day_may_stand_in_a_column_beside_the_time(read, day):
    reading = Reading()
    rows = [f"1,{ANSWER},{day},10:01 AM", f"1,{QUESTION},{day},9:00 AM"]
    header = "ticket,author,role,text,Date,Time"
    rows = [row.replace(day, f'"{day}"') for row in rows]
    assert read(rows, header, reading=reading) == WANTED[:1]
    assert len(reading.notes) == 2


def test_dates_of_twelve_hour_clocks_have_the_month_first(read):
    assert read([f"1,{ANSWER},04/04/2024 1:05 PM", f"1,{QUESTION},03/05/2024 11:55 AM"]) == WANTED[:1]


def test_rows_with_the_year_first_do_not_order_the_other_dates(read):
    other = [f"2,{QUESTION},2024/02/05 10:00", f"2,{ANSWER},2024/02/06 10:00"]
    rows = [f"1,{QUESTION},25.01.24 10:00", f"1,{ANSWER},05.02.24 10:00", f"1,{THANKS},06.03.24 10:00"]
    wanted = [("Where is it?", "On its way.")]
    assert read(rows) == wanted
    assert read([*rows, *other]) == [*wanted, *wanted]


@pytest.mark.parametrize("column", ["public", "is_public", "Is Public"])
def test_rows_that_are_not_public_are_private_notes(read, column):
    reading = Reading()
    rows = [f"1,{QUESTION},true", "1,Bob,agent,A tiresome one.,False", f"1,{ANSWER},"]
    assert read(rows, f"ticket,author,role,text,{column}", reading=reading) == WANTED[:1]
    assert reading.dropped == {"private notes": 1}


@pytest.mark.parametrize(("column", "private", "public"), [
    ("Private", "1.0", "0.0"), ("private", "Ja", "Nein"), ("private", "WAHR", "FALSCH"), ("visibility", "internal", "public"),
    ("public", "0.0", "1.0"), ("isPrivate", "Oui", "Non"),
])  # fmt: skip
def test_flags_of_private_notes_are_read_in_many_words(read, column, private, public):
    reading = Reading()
    rows = [f"1,{QUESTION},{public}", f"1,Bob,agent,A tiresome one.,{private}", f"1,{ANSWER},{public}"]
    assert read(rows, f"ticket,author,role,text,{column}", reading=reading) == WANTED[:1]
    assert reading.dropped == {"private notes": 1}


@pytest.mark.parametrize("column", ["private", "public", "visibility"])
def test_a_value_that_says_neither_hides_its_message_and_is_noted(read, column):
    reading = Reading()
    rows = [f"1,{QUESTION},", "1,Bob,agent,A tiresome one.,Dunno", f"1,{ANSWER},"]
    assert read(rows, f"ticket,author,role,text,{column}", reading=reading) == WANTED[:1]
    assert reading.dropped == {"private notes": 1}
    assert reading.notes[1].endswith(
        f"a.csv: {column}: 1 values 'dunno' are neither yes nor no; their messages are left out as private notes"
    )


@pytest.mark.parametrize("column", ["inbound", "is_inbound", "isIncoming", "from_customer", "is_customer"])
@pytest.mark.parametrize(("yes", "no"), [("true", "false"), ("1.0", "0.0"), ("WAHR", "FALSCH"), ("Incoming", "Outgoing")])
def test_flags_that_mean_a_customer(read, column, yes, no):
    rows = [f"1,{yes},Where is it?", f"1,{no},On its way."]
    assert read(rows, f"ticket,{column},text") == WANTED[:1]


@pytest.mark.parametrize("column", ["ticketId", "conversationId", "conversationsThreadId"])
def test_names_in_camel_case_are_known(read, column):
    rows = [f"1,{QUESTION},2024-01-05 10:00", f"2,{THANKS},2024-01-05 10:01"]
    rows += [f"1,{ANSWER},2024-01-05 10:02", f"2,{WELCOME},2024-01-05 10:03"]
    wanted = [("Where is it?", "On its way."), ("Thanks", "Welcome")]
    assert read(rows, f"{column},senderName,senderType,text,createdAt", reading=None) == wanted


def test_an_id_that_may_be_the_conversation_is_noted(read):
    reading = Reading()
    read([f"1,{QUESTION},2024-01-05", f"1,{ANSWER},2024-01-05"], "dealId,author,role,text,time", reading=reading)
    assert reading.notes[1].endswith("if it is dealId, name it with --set columns=conversation=dealId")


def test_a_silence_splits_messages_without_a_conversation(read):
    reading = Reading()
    rows = [f",{QUESTION},2024-01-05 10:00", f" ,{ANSWER},2024-01-05 10:01"]
    rows += [f",{THANKS},2024-03-05 10:00", f",{WELCOME},2024-03-05 10:01"]
    assert read(rows, reading=reading) == [("Where is it?", "On its way."), ("Thanks", "Welcome")]
    assert "4 messages without a conversation are one chat, which a silence splits" in reading.notes[1]


@pytest.mark.parametrize("blank", ["NaN", "null", "None", "N/A", "#N/A", "<NA>", " nan "])
def test_words_for_nothing_are_no_conversation(read, blank):
    reading = Reading()
    rows = [f"{blank},{QUESTION},2024-01-05 10:00", f"{blank},{ANSWER},2024-01-05 10:01"]
    rows += [f"{blank},{THANKS},2024-03-05 10:00", f"{blank},{WELCOME},2024-03-05 10:01"]
    assert read(rows, reading=reading) == [("Where is it?", "On its way."), ("Thanks", "Welcome")]
    assert "4 messages without a conversation are one chat" in reading.notes[1]


def test_times_that_cannot_be_read_are_noted(read):
    reading = Reading()
    assert read([f"1,{QUESTION},morning", f"1,{ANSWER},", f"2,{THANKS},2024-01-05"], reading=reading) == WANTED[:1]
    assert reading.notes[1].endswith(
        "2 of 3 times are missing or cannot be read, such as 'morning'; their chats keep the order of the file"
    )
    reading = Reading()
    read([f"1,{QUESTION}", f"1,{ANSWER}"], "ticket,author,role,text", reading=reading)
    assert len(reading.notes) == 2


def test_a_large_table_is_held_once(tmp_path):
    rows = (
        f"c{chat},{('Ann', 'Bob')[number % 2]},{('customer', 'agent')[number % 2]},"
        f"{chat} {number} {'order parcel late ' * 6},25.01.2024 0{number}:{chat % 60:02}"
        for chat in range(1_000)
        for number in range(8)
    )
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["conversation,author,role,text,time", *rows]))
    sample = inspect(path, Choice())
    tracemalloc.start()
    try:
        assert sum(len(chat.messages) for chat in read_messages(sample, Choice(), Reading())) == 8_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4.8 * path.stat().st_size  # 5.7 times with messages and chats beside the rows


BAD_ROWS = [
    (["2,Ann,customer,Where, now?"], r"a\.csv:4: the row has 5 fields and not as many as the header"),
    (["2,Ann,customer"], r"a\.csv:4: the row has 3 fields"),
    (['2,Ann,customer,"Wh"ere?"'], r"a\.csv:4: not CSV .*; write a double quote within quotes twice"),
    (["2,Ann,cust\romer,Where?"], r"a\.csv:4: not CSV \(a carriage return outside quotes\)"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "fault"), BAD_ROWS)
def test_bad_rows_stop_the_reading_or_are_skipped_and_counted(read, bad, fault):
    header = "ticket,author,role,text"
    rows = [f"1,{QUESTION}", f"1,{ANSWER}", *bad, f"3,{THANKS}", f"3,{WELCOME}"]
    with pytest.raises(InputError, match=fault):
        read(rows, header)
    reading = Reading(skip_bad=True)
    assert read(rows, header, reading=reading) == [("Where is it?", "On its way."), ("Thanks", "Welcome")]
    assert (reading.bad_lines, reading.lines) == (1, 3)
    with pytest.raises(InputError, match="more than 0 bad lines"):
        read(rows, header, reading=Reading(skip_bad=True, max_bad=0))


@pytest.mark.parametrize("bad", ['2,Ann,customer,"Where', '2,Ann,customer,"Where\n2,Ann,customer,"now"'])
def test_all_lines_behind_an_unclosed_quote_are_bad_ones(read, bad):
    header = "ticket,author,role,text"
    rows = [f"1,{QUESTION}", f"1,{ANSWER}", bad, *[f"3,{THANKS}"] * 5]
    count = len("\n".join(rows).splitlines()) - 2 if bad.count('"') == 1 else 2
    with pytest.raises(InputError, match=r"a\.csv:4: not CSV"):
        read(rows, header)
    reading = Reading(skip_bad=True)
    assert read(rows, header, reading=reading) == WANTED[:1]
    assert reading.bad_lines == count
    with pytest.raises(InputError, match=r"more than 1 bad line, the first: .*a\.csv:4: not CSV"):
        read(rows, header, reading=Reading(skip_bad=True, max_bad=1))


def test_the_lines_of_a_bad_cell_are_bad_ones(read):
    header = "ticket,author,role,text"
    bad = ['2,Ann,customer,"How "are" you', '2,Bob,agent,fine?"']
    rows = [f"1,{QUESTION}", f"1,{ANSWER}", *bad, f"3,{THANKS}", f"3,{WELCOME}"]
    reading = Reading(skip_bad=True)
    assert read(rows, header, reading=reading) == [("Where is it?", "On its way."), ("Thanks", "Welcome")]
    assert reading.bad_lines == 2


@pytest.mark.parametrize(("bad", "fault"), [
    ("{broken", r"a\.jsonl:3: not JSON .*; one object a line is read"), ("5", r"a\.jsonl:3: a JSON int; an object"),
])  # fmt: skip
def test_bad_lines_of_json_stop_the_reading_or_are_skipped_and_counted(read, bad, fault):
    rows = [dict(zip(("ticket", "author", "role", "text"), f"1,{row}".split(","), strict=True)) for row in (QUESTION, ANSWER)]
    lines = [*map(json.dumps, rows[1:]), bad]
    with pytest.raises(InputError, match=fault):
        read(lines, json.dumps(rows[0]), "a.jsonl")
    reading = Reading(skip_bad=True)
    assert read(lines, json.dumps(rows[0]), "a.jsonl", reading) == WANTED[:1]
    assert reading.bad_lines == 1


def test_bad_rows_of_workbooks_are_skipped_and_counted(tmp_path):
    rows = [["ticket", "author", "role", "text"], *([1, *row.split(",")] for row in (QUESTION, ANSWER))]
    path = tmp_path / "a.xlsx"
    path.write_bytes(workbook([*rows, [1, "Ann", "customer", "Thanks", "a cell more"]]))
    reading = Reading(skip_bad=True)
    [example] = read_chats(path, reading, ChatsSettings())
    assert (example.response, reading.bad_lines) == ("On its way.", 1)


@pytest.mark.parametrize("column", ["id", "message_id", "messageId", "msg_id"])
def test_rows_with_the_id_of_an_earlier_row_are_left_out(read, column):
    reading = Reading()
    rows = [f"1,{QUESTION},90", f"1,{ANSWER},91"]
    assert read([*rows, *rows], f"ticket,author,role,text,{column}", reading=reading) == WANTED[:1]
    assert reading.dropped == {"duplicate messages": 2}


def test_rows_of_one_conversation_author_time_and_text_are_one(read):
    reading = Reading()
    rows = [f"1,{QUESTION},2024-01-05 10:00", f"1,{ANSWER},2024-01-05 10:01"]
    others = [f"2,{QUESTION},2024-01-05 10:00", f"2,{ANSWER},2024-01-05 10:01"]
    assert read([*rows, *rows, *others], reading=reading) == [*WANTED[:1], *WANTED[:1]]
    assert reading.dropped == {"duplicate messages": 2}


@pytest.mark.parametrize(("column", "values"), [
    ("", [""] * 5),  # nothing tells whether it is the same message
    (",id", [f",{number}" for number in range(5)]),
    (",message_id", [f",{number}" for number in range(5)]),
    (",time", [f",2024-01-05 10:0{number}" for number in range(5)]),
])  # fmt: skip
def test_equal_messages_that_may_be_two_are_kept(read, column, values):
    reading = Reading()
    said = [QUESTION, ANSWER, "Ann,customer,Yes", "Ann,customer,Yes", "Bob,agent,Well."]
    rows = [f"1,{row}{value}" for row, value in zip(said, values, strict=True)]
    examples = read(rows, f"ticket,author,role,text{column}", reading=reading)
    assert examples[-1] == ("Where is it?", "On its way.", "Yes Yes", "Well.")
    assert reading.dropped == {}


def test_an_id_that_rows_of_a_ticket_share_makes_no_duplicates(read):
    reading = Reading()
    assert read([f"1,{QUESTION},90", f"1,{ANSWER},90"], "ticket,author,role,text,id", reading=reading) == WANTED[:1]
    rows = [f"1,{QUESTION},2024-01-05", f"1,{ANSWER},2024-01-05", f"1,{THANKS},2024-01-05", f"1,{WELCOME},2024-01-05"]
    assert read(rows, "message_id,author,role,text,time", reading=reading) == WANTED
    assert reading.dropped == {}

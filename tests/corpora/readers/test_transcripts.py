"""Chats as text: who speaks, where a chat ends, and what is no chat."""

import json

import pytest

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.messages.transcript import is_transcript
from rejoinder.corpora.registry.chats import ChatsSettings, read_chats
from rejoinder.corpora.registry.recognition import find_form
from rejoinder.errors import InputError


def read(path, text, **settings):
    path.write_text(text, encoding="utf-8")
    reading = Reading()
    examples = list(read_chats(path, reading, ChatsSettings(**settings)))
    return [(example.context, example.response) for example in examples], reading


def test_lines_without_a_speaker_go_on_and_those_above_are_counted(tmp_path):
    text = (
        "Chat of Monday\n\nCustomer: Where is my lamp?\nNo: not the red one.\n\n"
        "Agent Lisa: It is on its way.\nSee the link.\nSystem: Lisa left.\nCustomer:\n"
    )
    examples, reading = read(tmp_path / "a.txt", text)
    assert examples == [
        (("Where is my lamp?\nNo: not the red one.",), "It is on its way.\nSee the link."),
    ]
    assert reading.dropped["lines above the first speaker"] == 1
    assert reading.dropped["lines of the system and messages without a text"] == 2


@pytest.mark.parametrize("other", ["Anna", "Anna B.", "Level 2"])
def test_who_is_not_the_customer_is_the_agent(tmp_path, other):
    examples, _ = read(tmp_path / "a.txt", f"Visitor 7: Where is it?\n{other}: On its way.\n")
    assert examples == [(("Where is it?",), "On its way.")]


FIELDS = ["Event: Summer party\nIt starts at nine.", "Service Hotline: 0800 123", "User: bob99 on premium", "Manager: Carl"]


@pytest.mark.parametrize("field", FIELDS)
def test_fields_in_a_message_are_no_speakers(tmp_path, field):
    chat = f"Customer: Which one is it?\nAgent: This one:\n{field}\nCustomer: Thanks a lot.\nAgent: You are welcome.\n"
    examples, reading = read(tmp_path / "a.txt", chat)
    assert examples[0] == (("Which one is it?",), f"This one:\n{field}")
    assert examples[1][0][-1] == "Thanks a lot."
    assert not reading.dropped


@pytest.mark.parametrize(
    ("first", "second"), [("Agent Tom", "Agent Lisa"), ("Agent", "Lisa (Support)"), ("10:02 Agent", "10:05 Supervisor"), ("Bot", "Agent")]
)
def test_who_speaks_once_is_a_speaker(tmp_path, first, second):
    chat = f"Customer: Where is it?\n{first}: Wait, please.\nCustomer: And now?\n{second}: On its way.\n"
    examples, _ = read(tmp_path / "a.txt", chat)
    assert examples[-1][1] == "On its way."


def test_a_second_paragraph_is_of_the_agent(tmp_path):
    chat = "Customer: Where is it?\nAgent: On its way.\n\nBest wishes from Anna\n\n"
    examples, reading = read(tmp_path / "a.txt", chat * 4)
    assert examples == [(("Where is it?",), "On its way.\n\nBest wishes from Anna")] * 4
    assert not reading.dropped


def test_headings_in_words_are_of_no_chat(tmp_path):
    chat = "Chat of Monday\n\nCustomer: Where is it?\nAgent: On its way.\n\n"
    examples, reading = read(tmp_path / "a.txt", chat * 4)
    assert examples == [(("Where is it?",), "On its way.")] * 4
    assert reading.dropped == {"lines above the first speaker": 4}


def test_a_rule_in_a_message_parts_nothing(tmp_path):
    chats = [
        "Customer: Where is it?\nAgent: On its way.\n",
        "Customer: Hello there.\nAgent: See this:\n---\nhttps://a.org\nAgent: Hi!\n",
    ]
    examples, _ = read(tmp_path / "a.txt", "---\n".join(chats))
    assert [context for context, _ in examples] == [("Where is it?",), ("Hello there.",)]
    assert "---" not in examples[1][1]


def test_who_is_not_the_agent_is_the_customer(tmp_path):
    examples, _ = read(tmp_path / "a.txt", "10:02:11 Tom: Where is it?\n10:02:50 Support: On its way.\n")
    assert examples == [(("Where is it?",), "On its way.")]


def test_paragraphs_are_messages_where_not_all_have_both_sides(tmp_path):
    examples, reading = read(tmp_path / "a.txt", "Customer: Where is it?\n\nAgent: On its way.\n\nAnything else?\n")
    assert examples == [(("Where is it?",), "On its way.\n\nAnything else?")]
    assert "1 chat" in reading.notes[-1]


@pytest.mark.parametrize(
    "text",
    [
        "Name: Tom\nE-mail: a@b.de\nMessage: where is it?\n",
        "Q: Where is it?\nA: On its way.\n",
        "Opening hours: nine to five\nCustomer service: 555\nReturns: free\nParking: behind the house\n",
        "Support: call 555.\nNote: closed on Sundays.\nHours: nine to five.\n",
        "Hello!\nWhere is it?\n",
        "User management: You can add a user.\nCustomer data: Your data are safe.\nAgent seats: You can buy seats.\n",
        "Account: Open it.\nUser: Add one.\nSupport: Write to us.\nTeam: See the page.\nBilling: Monthly.\n",
        "Support: please write to support@shop.org\nGuest: you can check out as a guest.\n",
        "Support: support@example.org\nCustomer Service: 0800 123\nSales: sales@example.org\n",
        "customer: ACME\nagent: Anna\n",
        "Agent: Anna\nAgent: Bob\nClient: ACME\nManager: Carl\n",
    ],
)
def test_what_is_no_transcript(text):
    assert not is_transcript(text.splitlines())


def test_a_table_without_transcripts_says_what_to_name(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,note\n1,hello\n", encoding="utf-8")
    with pytest.raises(InputError, match="no column transcript or chat_transcript; there is id, note: name it with"):
        list(read_chats(path, Reading(), ChatsSettings(format="transcript-table")))


def test_pairs_in_a_table_are_told_from_chats(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("ticket_id,customer_message,agent_reply\n1,Where is it?,On its way.\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"holds pairs of a message and its reply, not chats; .* rejoinder data csv "):
        find_form(path, Choice(), "chats")


@pytest.mark.parametrize("agent", ["support@shop.com", "Anna (Support)"])
def test_names_and_addresses_tell_who_answers(tmp_path, agent):
    rows = [("bea@x.org", "Where is it?"), (agent, "On its way.")]
    table = "chat_id,from,body\n" + "".join(f"1,{author},{text}\n" for author, text in rows)
    examples, _ = read(tmp_path / "a.csv", table)
    assert examples == [(("Where is it?",), "On its way.")]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Customer: Where is it?\nAgent: On its way.\n\nCustomer: Is anybody there?\n\n"
         + "Customer: When is it?\nAgent: By Friday.\n\n" * 4, 6),
        ("Chat 1\nCustomer: Where is it?\nAgent: On its way.\nConversation 2\nCustomer: When is it?\nAgent: Friday.\n", 2),
        ("=== Chat 1 ===\nCustomer: Where is it?\nAgent: On its way.\n=== Chat 2 ===\nCustomer: When is it?\nAgent: Now.\n", 2),
        ("Customer: Where is it?\nAgent: On its way.\n-----\nTotal: 5\n-----\nThat is all.\nCustomer: Thanks a lot.\n", 1),
    ],
)  # fmt: skip
def test_where_a_chat_ends(tmp_path, text, count):
    examples, reading = read(tmp_path / "a.txt", text)
    assert reading.notes[-1].partition("line, ")[2].startswith(f"{count} chat")
    assert not any("Conversation" in reply or "Chat" in reply for _, reply in examples)


@pytest.mark.parametrize(
    "line", ["Customer [10:02]: {}", "Customer (10:02 AM): {}", "2024-05-12T10:02:11Z Customer: {}", "- Customer: {}", "Customer:\t{}"]
)
def test_other_places_of_times(tmp_path, line):
    examples, _ = read(tmp_path / "a.txt", line.format("Where is it?") + "\nAgent: On its way.\n")
    assert examples == [(("Where is it?",), "On its way.")]


def test_bots_beside_agents_are_left_out(tmp_path):
    examples, reading = read(tmp_path / "a.txt", "Customer: Hi there.\nBot: Choose 1 or 2.\nCustomer: A human!\nAgent: Hello!\n")
    assert examples == [(("Hi there. A human!",), "Hello!")]
    assert reading.dropped == {"messages of bots beside agents": 1}


def test_labels_in_a_message_are_no_speakers(tmp_path):
    table = 'id,transcript\n1,"Customer: Hi<br>Order number: 123<br>Anna: Hello"\n'
    examples, _ = read(tmp_path / "a.csv", table)
    assert examples == [(("Hi\nOrder number: 123",), "Hello")]


TABLES_OF_OTHERS = {
    "conversation_id,author,text,transcript\n1,customer,Hi,\n1,agent,Hello,\n": "messages",
    "ticket_id,role,message,transcript\n1,customer,Hi,\n1,agent,Hello,\n": "messages",
}


@pytest.mark.parametrize("text", TABLES_OF_OTHERS)
def test_a_column_of_transcripts_beside_messages(tmp_path, text):
    examples, _ = read(tmp_path / "a.csv", text)
    assert examples == [(("Hi",), "Hello")]
    assert find_form(tmp_path / "a.csv", Choice(), "chats")[0].name == TABLES_OF_OTHERS[text]


def test_a_faq_with_a_column_of_transcripts_is_one(tmp_path):
    (tmp_path / "a.csv").write_text("title,transcript,question,answer\na,we talked,How?,By card.\n")
    assert find_form(tmp_path / "a.csv", Choice(), "replies")[0].name == "table"


def rows_of(chats):
    return "chat_id,from,body\n" + "".join(
        f"{number},{author},{text}\n" for number, chat in enumerate(chats) for author, text in chat
    )


@pytest.mark.parametrize(
    ("agent", "customers"),
    [
        ("Customer Care", ["Tom", "Sue", "Max"]),
        ("Client Services", ["Tom", "Sue", "Max"]),
        ("contact@shop.org", ["a@x.org", "b@x.org", "c@x.org"]),
        ("kunden@shop.de", ["a@x.org", "b@x.org", "c@x.org"]),
        ("Anna", ["Tom", "Sue", "Guest"]),
        ("anna@shop.org", ["it-support@a.org", "b@x.org", "c@x.org"]),
        ("anna@shop.org", ["admin@a.org", "b@x.org", "c@x.org"]),
        ("Anna", ["Visitor 1", "Visitor 2", "Visitor 3"]),
    ],
)
def test_who_takes_part_in_all_chats_answers(tmp_path, agent, customers):
    chats = [[(name, "Where is it?"), (agent, "On its way."), (name, "Thanks")] for name in customers]
    examples, _ = read(tmp_path / "a.csv", rows_of(chats))
    assert examples == [(("Where is it?",), "On its way.")] * 3


def test_a_contact_of_two_is_unclear(tmp_path):
    with pytest.raises(InputError, match="who answers is not clear"):
        read(tmp_path / "a.csv", rows_of([[("Contact Lens Shop", "Hi"), ("Tom", "Hello")]]))


def conversations(*chats):
    return json.dumps([{"id": number, "messages": chat} for number, chat in enumerate(chats)])


def test_names_in_json_are_redacted(tmp_path):
    chat = [{"sender": "John Smith", "text": "Hi, I am John Smith."}, {"sender": "Anna (Support)", "text": "Hello John Smith."}]
    examples, _ = read(tmp_path / "a.json", conversations(chat), redact=True)
    assert examples == [(("Hi, I am <name>.",), "Hello <name>.")]


def test_authors_that_are_objects(tmp_path):
    chat = [{"author": {"type": "user", "name": "Bob Service"}, "text": "Where?"}, {"author": {"type": "admin", "name": "Anna"}, "text": "Here."}]
    examples, _ = read(tmp_path / "a.json", conversations(chat))
    assert examples == [(("Where?",), "Here.")]
    examples, _ = read(tmp_path / "a.json", conversations(chat), agent="Anna")
    assert examples == [(("Where?",), "Here.")]


def test_a_system_that_answers_users_is_the_agent(tmp_path):
    turns = [{"speaker": "USER", "utterance": "A table, please."}, {"speaker": "SYSTEM", "utterance": "For how many?"}]
    examples, _ = read(tmp_path / "a.json", json.dumps([{"dialogue_id": "1", "turns": turns}]))
    assert examples == [(("A table, please.",), "For how many?")]


@pytest.mark.parametrize("current", [{"id": "c"}, ["c"], 7, None, "unknown", "c"])
def test_a_tree_of_messages_is_read_from_any_current_node(tmp_path, current):
    mapping = {
        "a": {"message": None, "parent": None},
        "b": {"message": {"author": {"role": "user"}, "content": {"parts": ["Where?"]}}, "parent": "a"},
        "c": {"message": {"author": {"role": "assistant"}, "content": {"parts": ["Here."]}}, "parent": "b"},
    }
    examples, _ = read(tmp_path / "a.json", json.dumps([{"mapping": mapping, "current_node": current}]))
    assert examples == [(("Where?",), "Here.")]


def test_a_role_of_brackets_alone_is_no_side(tmp_path):
    chat = [{"role": "(" * 5000, "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    examples, _ = read(tmp_path / "a.json", json.dumps([{"messages": chat}]))
    assert [response for _, response in examples] == ["Hello"]


def test_numbers_of_speakers_tell_no_side(tmp_path):
    chat = [{"speaker": 0, "text": "How can I help?"}, {"speaker": 1, "text": "Where is it?"}]
    with pytest.raises(InputError, match="who answers is not clear"):
        read(tmp_path / "a.json", conversations(chat, chat))


def test_instructions_of_models_are_no_answers(tmp_path):
    asked = [{"role": "user", "content": "List the months"}, {"role": "system", "content": "Answer in JSON only."}]
    usual = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}, {"role": "supervisor", "content": "Be brief"},
             {"role": "user", "content": "And?"}, {"role": "assistant", "content": "Yes."}]  # fmt: skip
    examples, _ = read(tmp_path / "a.json", conversations(asked, usual))
    assert [response for _, response in examples][-1] == "Yes."
    assert not any("JSON" in text for context, response in examples for text in (*context, response))


def test_canned_messages_with_an_author_are_replies(tmp_path):
    messages = [{"id": 1, "title": "Greeting", "text": "Hello!", "author": "anna"}]
    (tmp_path / "a.json").write_text(json.dumps({"messages": messages}))
    assert find_form(tmp_path / "a.json", Choice(), "replies")[0].name == "json"


def test_a_friend_in_one_chat_is_no_agent(tmp_path):
    chats = [[(f"Visitor {number}", "Where is it?"), ("Anna", "On its way.")] for number in range(3)]
    chats[0].append(("Tom", "So am I"))
    examples, _ = read(tmp_path / "a.csv", rows_of(chats))
    assert {response for _, response in examples} == {"On its way."}


@pytest.mark.parametrize("customer", ["Ben (service dog owner)", "O'Service"])
def test_a_role_is_all_that_stands_behind_a_name(tmp_path, customer):
    chats = [[(name, "Where is it?"), ("Laura", "On its way.")] for name in ("Tom", customer, "Cy")]
    examples, _ = read(tmp_path / "a.csv", rows_of(chats))
    assert examples == [(("Where is it?",), "On its way.")] * 3

"""Who wrote the messages of a table: words of agents, customers, bots and the system."""

import json

import pytest

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.sides import side_of
from rejoinder.corpora.registry.chats import ChatsSettings, read_chats
from rejoinder.errors import InputError


@pytest.fixture
def read(tmp_path):
    def run(rows, header="ticket,author,role,text", reading=None):
        path = tmp_path / "a.csv"
        path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
        examples = read_chats(path, reading or Reading(), ChatsSettings())
        return [(*example.context, example.response) for example in examples]

    return run


@pytest.mark.parametrize(("side", "values"), [
    ("agent", ["Agent", "Support agent", "customer service", "Supervisor", "Mitarbeiter", "Mitarbeiterin", "employee", "outbound",
               "agent_to_customer", "AgentToCustomer", "agent -> customer", "Agent→Kunde", "Mitarbeiter an Kunde", "sent", "yes", 1]),
    ("customer", ["Customer", "end-user", "EndUser", "Kunde", "Kundin", "client", "requester", "customer_to_agent", "customer->agent",
                  "inbound", "received", "no", False]),
    ("bot", ["bot", "Chatbot", "assistant", "bot_user"]),
    ("system", ["system", "System", "automation", "automated message", "system_user", "trigger", "developer"]),
    (None, ["", None, "gold", "hmm", "to", "Bea"]),
])  # fmt: skip
def test_words_of_sides(side, values):
    assert {value: side_of(value) for value in values} == dict.fromkeys(values, side)


def test_yes_may_mean_a_customer():
    assert [side_of(value, customers=True) for value in ("yes", "0", "agent")] == ["customer", "agent", "agent"]


@pytest.mark.parametrize("header", ["ticket,author,role,text", "ticket,author,author_type,text"])
@pytest.mark.parametrize(("customer", "agent"), [
    ("Kunde", "Mitarbeiter"), ("client", "employé"), ("customer_to_agent", "agent_to_customer"), ("Gast", "supervisor"),
    ("customer", "Fachkraft"),
])  # fmt: skip
def test_one_known_word_tells_both_sides(read, header, customer, agent):
    assert read([f"1,Bea,{customer},Hi", f"1,Ada,{agent},Hello"], header) == [("Hi", "Hello")]


@pytest.mark.parametrize("value", ["system", "Automation", "automatic message"])
def test_messages_of_the_system_are_left_out_and_counted(read, value):
    reading = Reading()
    rows = ["1,Bea,customer,Hi", f"1,System,{value},Assigned to Ada.", "1,Ada,agent,Hello"]
    assert read(rows, reading=reading) == [("Hi", "Hello")]
    assert reading.dropped == {"messages of the system": 1}


def test_bots_are_left_out_beside_agents_and_answer_without_them(read):
    reading = Reading()
    rows = ["1,Bea,customer,Hi", "1,Robo,bot,We will soon be here.", "1,Ada,agent,Hello"]
    assert read(rows, reading=reading) == [("Hi", "Hello")]
    assert reading.dropped == {"messages of bots beside agents": 1}
    assert read(rows[:2]) == [("Hi", "We will soon be here.")]


def test_unknown_values_are_noted_and_follow_their_author(read):
    reading = Reading()
    rows = ["1,Bea,customer,Hi", "1,Max,tier3,Hello", "1,Bea,gold,And?", "1,Max,agent,Bye", "1,Max,,Really"]
    assert read(rows, reading=reading) == [("Hi", "Hello"), ("Hi", "Hello", "And?", "Bye Really")]
    assert reading.notes[1].endswith("a.csv: role: values that say not who answers: 'tier3' (1), 'gold' (1)")


def test_an_unknown_author_with_an_unknown_value_is_a_customer_where_both_sides_are_known(read):
    rows = ["1,Bea,customer,Hi", "1,Ada,agent,Hello", "1,Max,tier3,And?", "1,Ada,agent,Bye"]
    assert read(rows) == [("Hi", "Hello"), ("Hi", "Hello", "And?", "Bye")]


def test_an_error_shows_the_values_where_nothing_tells_who_answers(read):
    with pytest.raises(InputError, match=r"who answers is not clear.*role: values that say not who answers: 'x9' \(2\), 'x8' \(1\)"):
        read(["1,Bea,x9,Hi", "1,Ada,x8,Hello", "1,Bea,x9,And?"])


def test_an_author_may_be_the_number_0(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [{"ticket": 1, "author": 0, "text": "Hi"}, {"ticket": 1, "author": 7, "text": "Bye"}]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.raises(InputError, match=r"who answers is not clear; there are messages of 0 \(1\), 7 \(1\)"):
        list(read_chats(path, Reading(), ChatsSettings()))

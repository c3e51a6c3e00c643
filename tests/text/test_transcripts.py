"""Chats that were pasted into a message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.text.messages import read_message
from rejoinder.text.transcripts import customer_lines


@pytest.mark.parametrize(
    "chat",
    [
        "Agent: Hello, do you want to cancel it?\nVisitor: I lost my key",
        "[10:01] Lisa (Support): Do you want to cancel it?\n[10:02] Kim Li (Customer): I lost my key",
        "Agent Lisa: Do you want to cancel it?\nAnd when?\nMe: I lost my key\nBot: Please wait.",
        "10:01 Bot: Do you want to cancel it?\n10:02 User: I lost my key",
    ],
)
def test_of_a_pasted_chat_the_customers_lines_are_read(chat):
    assert customer_lines(chat).strip() == "I lost my key"
    assert read_message(chat).parts == ("I lost my key",)


def test_what_stands_below_a_chat_is_read():
    chat = "Me: where is my order now?\nBot: Sorry, I do not know.\nI want to talk to a human"
    assert customer_lines(chat) == "where is my order now?\nI want to talk to a human"


def test_what_stands_above_a_chat_and_goes_on_below_a_line_is_read():
    chat = "This is what we said:\nAgent: Hello, who are you?\nCustomer: I lost my key\nof the cellar"
    assert customer_lines(chat) == "This is what we said:\nI lost my key\nof the cellar"


@pytest.mark.parametrize(
    "text",
    [
        "Support: where is my order?",
        "Customer: 4410\nMessage: where is my order?",
        "I asked the agent: where is it?\nThe visitor: me",
        "Agents: two\nUsers: three",
        "Customer: Anna Berg\nAgent: Tom\nProblem: the vase is cracked",
        "Client: Anna\nRepresentative: Mr Hall\n\nI want to return the shoes.",
        "Member: Anna Berg\nSupport plan: gold\nI cannot log in",
        "",
    ],
)
def test_other_texts_stay(text):
    assert customer_lines(text) == text


@given(st.text(alphabet="agent:\n visitor[]():1", max_size=60))
def test_nothing_is_added_to_a_chat(text):
    assert len(customer_lines(text)) <= len(text)

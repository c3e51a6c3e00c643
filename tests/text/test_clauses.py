"""Courtesy in the sentence of a question is taken off, and nothing else."""

import pytest

from rejoinder.text.sentences.clauses import without_courtesy
from rejoinder.text.messages import read_message

QUESTION = "where can I leave the keys?"


@pytest.mark.parametrize("before", [
    "Hi, ", "hello - ", "Good evening, ", "Dear Greenfield, ", "Hi Mrs Stone, ", "hey there ", "btw ", "Hi, this is Lee, ",
    "hello, my name is lee Stone, ", "Good morning, hope all is well, ", "I hope you can help me, ", "thanks for the quick answer, ",
    "Hi everyone, ", "HELLO!! ", "heyyy, ", "Buenos d\u00edas, ",
    "umm ", "ok so basically ", "pls ", "Question: ", "One more thing though: ", "And just one other question, ",
])
def test_courtesy_before_a_question_is_taken_off(before):
    assert without_courtesy(before + QUESTION) == QUESTION


@pytest.mark.parametrize("after", [", thanks", ", many thanks, Lee", " - cheers Lee", ", thank you for your help!", ", best wishes, Lee Stone", " thanks", " thanks so much!", " thx in advance", " please", " asap please"])
def test_courtesy_behind_a_question_is_taken_off(after):
    assert without_courtesy(QUESTION.rstrip("?") + after) == QUESTION.rstrip("?")
    assert without_courtesy("Hello, " + QUESTION.rstrip("?") + after) == QUESTION.rstrip("?")


@pytest.mark.parametrize("text", [
    QUESTION, "Good morning, robot", "thanks, that was it", "not now, leave the keys there", "no, leave the keys there",
    "cancel the Monday class, please", "Please, can I leave the keys?", "I am locked out, what now?", "Where is it, the red car",
    "If it rains, what happens to the match?", "good day pass prices", "hello", "Hi, where is it?", "", ", , -",
    "I need a ticket to Paris, Texas", "Paris, Texas", "thanks, Lee", "please leave the keys there", "please do not leave the keys there", "So far no key came back", "so called free trial of the gym", "It's Sunday, are you open?", "It's Windows 11, where is the menu?",
    "I'm Type 1, may I bring it?", "Which day suits you, best Monday?",
 "well water for the garden",
    "  where can I leave the keys -", "where can I leave the keys;", "- where can I leave the keys",
])
def test_what_is_no_courtesy_stays(text):
    assert without_courtesy(text) == text


@pytest.mark.parametrize(("text", "rest"), [("Hi there is no hot water", "there is no hot water"), ("hello everyone can see it now", "everyone can see it now")])
def test_whoever_is_greeted_is_no_subject(text, rest):
    assert without_courtesy(text) == rest


def test_a_message_is_read_as_it_is_and_without_courtesy():
    message = f"Hi, this is Lee, {QUESTION}"
    assert read_message(message).parts == (message, QUESTION)
    assert read_message(message).text == message
    mail = read_message(f"It rained all day and the roof of the shed leaks. {message} The weather is fine now.")
    assert QUESTION in mail.parts
    assert message not in mail.parts
    told = "thanks for the nice work, you have a fan here."
    assert told in read_message(f"It rained all day. {told}").parts

"""Short forms of chats."""

import pytest

from rejoinder.text.chat_words import read_chat_words


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("r u open tmrw", "are you open tomorrow"),
        ("can u move my appt pls", "can you move my appointment please"),
        ("is it w/ or w/o milk", "is it with or without milk"),
        ("Thx, ur shop is great", "thanks, your shop is great"),
        ("is there a bike 4 my son 2nite", "is there a bike for my son tonight"),
        ("i wanna pay on friday cuz i get paid then", "i want to pay on friday because i get paid then"),
        ("PLS send the MSG again", "please send the MSG again"),
        ("wat time r u open, n wats the price", "what time are you open, n what's the price"),
        ("wat is ur phone nr?", "what is your phone number?"),
        ("my lil dog was sick rn, sry", "my little dog was sick right now, sorry"),
        ("dunno if u recvd it, lemme resched", "don't know if you received it, let me reschedule"),
        ("some1 gimme smth", "someone give me something"),
        ("hw much is it, i cudnt get thru by fone", "how much is it, i couldn't get through by phone"),
        ("wat happens if i dont, wud it break", "what happens if i dont, would it break"),
        ("DID U GET MY MSG", "DID you GET MY message"),
        ("u're late, and u\u2019ll pay", "you're late, and you\u2019ll pay"),
    ],
)
def test_they_are_read_as_the_words_they_stand_for(typed, read):
    assert read_chat_words(typed) == read


@pytest.mark.parametrize(
    "typed",
    ["I need 2 tickets", "a table 4 Friday", "R and B", "write to u@shop.example", "see https://shop.example/u", "the U-bend leaks", "B4 paper", "Is there a 2 yr warranty?", "Does the soup contain MSG?", "Is the HV cable included?", "Do you need an RN?", "my sister is an rn", "Lil Wayne", "a house nr Leeds", "my hw is late", "is the HW cover lost", "a cow chews its cuds", "thrush", "Wat Pho", "wat kost dat", "pl\u017f", "d\u2019u", "Lil's shop"],
)
def test_names_numbers_and_addresses_stay(typed):
    assert read_chat_words(typed) == typed

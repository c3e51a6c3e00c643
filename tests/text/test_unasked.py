"""What was done without being asked for, what others shall not give, and who will not be there."""

import pytest

from rejoinder.text.polarity import opposed


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("You cancelled my order but I did not ask for it", "I want to cancel my order"),
        ("I never asked you to cancel my order", "please cancel my order"),
        ("Why was my order cancelled?", "I want to cancel my order"),
        ("Why did you close my account?", "close my account"),
        ("Could you make sure that my order is not cancelled", "cancel my order"),
        ("please ensure the door is not locked", "lock the door"),
        ("don't send me the invoice", "I need an invoice"),
        ("please do not send an invoice, thanks", "I need an invoice"),
        ("please don't email me the newsletter any more", "I want the newsletter"),
        ("do not mail any invoices to us at all", "I need an invoice"),
        ("Why was my order cancelled? Where is my money?", "I want to cancel my order"),
    ],
)
def test_what_nobody_asked_for_is_the_opposite_of_a_wish(text, other):
    assert opposed(text, [other]) == other


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("I will not be at the lesson on Tuesday", "We cannot come to the lesson on Tuesday"),
        ("We won't be there on Tuesday", "We cannot come to the lesson on Tuesday"),
        ("I can't make it on Thursday", "I will not be there on Thursday"),
        ("why was my parcel not delivered", "my parcel was not delivered"),
        ("Why was my order delayed?", "my order is delayed"),
        ("don't send it to my old address", "my parcel should go to another address"),
        ("do not send the parcel to my old address", "my parcel should go to another address"),
        ("I don't want to bring my own helmet", "do you have helmets"),
        ("I do not want to send a parcel abroad, only a letter", "a parcel to Paris"),
        ("you charged me twice, I did not ask for much", "you charged me twice"),
        ("make sure the door is locked", "lock the door"),
        ("I am not sure whether it is cancelled", "cancel my order"),
        ("do not send me the wrong invoice again", "I need an invoice"),
        ("don't send me the invoice twice", "I need an invoice"),
        ("don't send me the invoice again", "I need an invoice"),
        ("do not send me the invoice by post", "I need an invoice"),
        ("do not send me the invoice yet", "I need an invoice"),
        ("do not send me so many invoices", "I need an invoice"),
        ("please do not send me a paper invoice", "I need an invoice"),
        ("please do not send me a used lamp", "I want a lamp"),
        ("do not bring me the broken lamp", "I want a lamp"),
        ("do not send me the wrong size again", "I need another size"),
        ("why is my card blocked? please unblock it", "unblock my card"),
        ("Why was my account locked? I want to unlock it", "how do I unlock my account"),
        ("why was my order cancelled? I still want to cancel the other one", "I want to cancel my order"),
        ("Why is my account disabled? Please enable it", "please enable my account"),
        ("why was my account closed, please open it again", "open my account"),
    ],
)
def test_what_is_no_opposite(text, other):
    assert opposed(text, [other]) is None
    assert opposed(other, [text]) is None


def test_who_will_be_there_says_the_opposite_of_who_will_not():
    assert opposed("we will be there on Tuesday", ["we won't come on Tuesday"]) == "we won't come on Tuesday"

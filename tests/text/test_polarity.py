"""A no is a no: texts that say the opposite of the same thing, and those that only have a negator."""

import pytest

from rejoinder.text.polarity import MOST_WORDS, agrees_by_poles, denies_a_sentence, opposed

CARD = ["my card was declined", "the payment failed"]
CANCEL = ["how do I cancel my order", "please cancel my order"]
FACTOR = ["turn on two-factor login", "how do I log in with the second factor"]
ALARM_ON = ["turn on the alarm", "Alarm on"]
ALARM_OFF = ["turn off the alarm", "Alarm off"]
PAUSE = ["how do I freeze my pass", "freeze my pass for a month"]
RESUME = ["how do I unfreeze my pass", "my pass is frozen, lift it"]


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("please do not cancel my order", CANCEL),
        ("Don\u2019t cancel my order!", CANCEL),
        ("I never wanted to cancel my order", CANCEL),
        ("my card was not declined", CARD),
        ("my card wasnt declined", CARD),
        ("my card was accepted", CARD),
        ("I don't think my card was declined", CARD),
        ("the lamp is not broken", ["the lamp is broken"]),
        ("I do not want to return it", ["I want to return it"]),
        ("log in without the second factor please", FACTOR),
        ("turn two-factor login off", FACTOR),
        ("unlock my card", ["lock my card"]),
        ("do not unsubscribe me", ["unsubscribe me from the newsletter"]),
        ("stop sending me letters", ["send me letters"]),
        ("the refund came", ["the refund never came"]),
        ("cancel the order after it shipped", ["cancel an order before it ships"]),
        ("Wait! Don't quit my plan", ["I want to cancel my plan"]),
        ("please do not terminate my lease", ["how do I terminate my lease", "please cancel my lease"]),
    ],
)
def test_the_opposite(text, others):
    assert opposed(text, others) in others


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("I cannot cancel my order", CANCEL),
        ("I don't know how to cancel my order", CANCEL),
        ("why can't I cancel my order", CANCEL),
        ("can you not cancel my order?", CANCEL),
        ("my order was not cancelled", CANCEL),
        ("I do not like it, cancel my order", CANCEL),
        ("cancel my order", CANCEL),
        ("I don't know why my card was declined", CARD),
        ("two-factor login does not turn on", FACTOR),
        ("I have not received my refund yet", ["when do I receive my refund"]),
        ("my parcel did not arrive", ["when will my parcel arrive", "has my parcel arrived"]),
        ("I don't have an invoice", ["I need an invoice"]),
        ("it does not work", ["my lamp does not work", "works"]),
        ("I will pay before Monday", ["the shop opens after nine"]),
        ("How much is the insurance?", ["what does it cost without insurance"]),
        ("there is light in the hall but not in the cellar", ["there is no light"]),
        ("the light works in the hall but not in the cellar", ["the light does not work"]),
        ("", CANCEL),
        ("no", CANCEL),
        ("not", []),
        ("do not " * MOST_WORDS + "cancel", CANCEL),
    ],
)
def test_no_opposite(text, others):
    assert opposed(text, others) is None


@pytest.mark.parametrize(
    "text",
    [
        "we no longer wish to cancel our order",
        "I no longer want my order cancelled",
        "under no circumstances cancel the order",
        "by no means cancel it",
        "my order must on no account be cancelled",
        "cancel my order? No way!",
        "I'm not cancelling the order",
        "we're not cancelling anything",
        "we are not going to cancel",
        "I've not asked you to cancel, I won't cancel",
        "do n't cancel it",
        "don t cancel my order",
        "you did'nt need to, dont u dare cancel it",
        "Don`t cancel my order",
        "the order shouldn't be cancelled",
        "you must not cancel my order",
        "my order should under no circumstances be canceled",
        "we would rather not cancel",
        "I prefer not to cancel",
        "we have decided not to cancel",
        "I decided against cancelling",
        "please withdraw my cancellation",
        "undo the cancellation",
        "ignore my cancellation please",
        "You want to cancel my order. Please don't!",
        "Will you cancel my order? Do not do that.",
    ],
)
def test_ways_to_deny(text):
    assert opposed(text, CANCEL) in CANCEL


@pytest.mark.parametrize(
    "text",
    [
        "I can no longer cancel my order",
        "there is no way to cancel my order",
        "I'm not able to cancel my order",
        "I'd like to cancel, I'm not happy",
        "it's not possible to cancel my order",
        "I shouldn't have ordered it, cancel my order",
        "we can't cancel the order, can you?",
        "I do not want my order any more",
        "I don't need the order, it's late",
        "Cancel my order. I don't know how.",
        "my order's still not cancelled",
        "I no longer want it can I cancel my order",
        "I don't need it how do I cancel my order",
    ],
)
def test_what_is_still_asked(text):
    assert opposed(text, CANCEL) is None


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("I did not lose my keys", "I lost my keys"),
        ("please don't freeze my account", "my account was frozen"),
        ("do not take the car", "you took the car"),
        ("do not activate the card", "activation of the card"),
        ("we do not subscribe", "our subscription"),
        ("nobody is to choose it, do not choose it", "the plan was chosen"),
    ],
)
def test_irregular_forms_are_their_verbs(text, other):
    assert opposed(text, [other])
    assert opposed(other, [text])


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("I did not miss my train", "I missed my train"),
        ("please do not process my return", "my return was processed"),
        ("I never accessed the account", "someone did access the account"),
        ("don't cross out my name", "crosses out my name"),
        ("you must not press the bell", "pressing the bell"),
        ("we have not passed on your data", "you pass on my data and passed it on"),
    ],
)
def test_an_s_behind_another_is_no_ending(text, other):
    assert opposed(text, [other])
    assert opposed(other, [text])


@pytest.mark.parametrize("noun", ["speed", "breed", "seaweed", "hundred"])
def test_nouns_are_no_past_forms(noun):
    assert opposed(f"I do not get full {noun}", [f"I don't get the {noun} I pay for"]) is None
    assert opposed(f"any {noun}", [f"I don't get the {noun}"]) is None


@pytest.mark.parametrize(
    ("text", "wanted", "other"),
    [
        ("the alarm doesn't turn off", ALARM_OFF, ()),
        ("our alarm won't switch off", ALARM_OFF, ()),
        ("the alarm can't be disabled", ALARM_OFF, ()),
        ("disable the alarm", ALARM_OFF, ALARM_ON),
        ("deactivate our alarm", ALARM_OFF, ALARM_ON),
        ("Alarm off please", ALARM_OFF, ALARM_ON),
        ("the alarm should not be active", ALARM_OFF, ALARM_ON),
        ("please don't activate the alarm", ALARM_OFF, ALARM_ON),
        ("I don't want the alarm any more", ALARM_OFF, ALARM_ON),
        ("enable the alarm", ALARM_ON, ALARM_OFF),
        ("re-enable the alarm", ALARM_ON, ALARM_OFF),
        ("reactivate the alarm", ALARM_ON, ALARM_OFF),
        ("do not de-activate the alarm", ALARM_ON, ALARM_OFF),
        ("turn the alarm back on", ALARM_ON, ALARM_OFF),
        ("Alarm on please", ALARM_ON, ALARM_OFF),
        ("the alarm isn't on", ALARM_ON, ()),
        ("un-freeze my pass", RESUME, PAUSE),
        ("my pass doesn't unfreeze", RESUME, ()),
        ("my pass is frozen", RESUME, ()),
        ("my pass seems to be frozen", ["unfreeze my pass"], ()),
        ("it appears to be frozen", ["unfreeze it"], ()),
        ("I want my pass unfrozen", RESUME, PAUSE),
        ("I don't want my pass frozen any more", RESUME, PAUSE),
        ("we do not need the pass to be frozen", RESUME, PAUSE),
        ("stop the freeze of my pass", RESUME, PAUSE),
        ("please lift the freeze", RESUME, PAUSE),
        ("freeze my pass", PAUSE, RESUME),
        ("do not unfreeze my pass yet", PAUSE, RESUME),
        ("unblock my card", ["unlock my card"], ["block my card"]),
        ("block my card", ["lock my card"], ["unlock my card"]),
        ("unpause it", ["how do I unpause it"], ["pause it"]),
        ("the door does not close", ["close the door"], ()),
        ("my account won't unlock", ["unlock my account"], ()),
    ],
)
def test_poles(text, wanted, other):
    assert opposed(text, wanted) is None
    assert not other or opposed(text, other) in other


@pytest.mark.parametrize(
    "pair",
    [
        ("I understand the bill", "where do I stand"),
        ("until Monday", "unless it tills"),
        ("a unit of gas", "it"),
        ("discuss my plan", "cuss"),
        ("a discount for members", "count the members"),
        ("deliver my order", "liver for my order"),
    ],
)
def test_prefixes_that_deny_nothing(pair):
    one, other = pair
    assert opposed(one, [other]) is None
    assert opposed(other, [one]) is None


def test_a_reply_to_both_opposes_neither():
    both = [*ALARM_ON, *ALARM_OFF]
    for text in ("enable the alarm", "switch off the alarm", "do not turn the alarm on"):
        assert opposed(text, both) is None


@pytest.mark.parametrize(
    ("text", "wanted", "unasked"),
    [
        ("I no longer want the newsletter", "subscribe me to the newsletter", "I don't get the newsletter any more"),
        ("I don't need an invoice", "I need an invoice", "I have not received an invoice"),
        ("please don't call me", "call me back", "nobody did, you did not call"),
    ],
)
def test_what_did_not_happen_is_not_what_is_unwished(text, wanted, unasked):
    assert opposed(text, [wanted, unasked]) == wanted
    assert opposed(unasked, [wanted]) is None


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("I don't want to reserve the book any more", "I no longer want the book I reserved"),
        ("we do not wish to rent the garage", "I don't need the garage that I rented"),
        ("please don't ship the lamp", "I do not want the lamp you shipped"),
        ("stop sending me letters", "I don't want letters"),
    ],
)
def test_the_object_of_what_is_unwished_is_open(text, other):
    assert opposed(text, [other]) is None
    assert opposed(other, [text]) is None


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("please don't cancel the newsletter", "I don't want the newsletter"),
        ("do not turn off the reminders", "I don't need reminders"),
        ("please don't call, send a mail", "do not send mails"),
        ("Please don't call. Send a mail.", "do not send mails"),
        ("I don't need the lamp cancel my order", "do not cancel my order"),
    ],
)
def test_no_object_is_what_is_wished_beside_a_denial(text, other):
    assert opposed(text, [other]) == other
    assert opposed(other, [text]) == text


@pytest.mark.parametrize("wish", ["I want the book I reserved", "we need the book that you reserved", "get the book she reserved"])
def test_what_somebody_did_is_not_to_be_done(wish):
    assert opposed("I did not reserve the book", [wish]) == wish
    assert opposed("my book was not reserved", ["I need it reserved", "I want you to get it reserved"]) is None


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("my radiator no longer leaks", "My radiator leaks"),
        ("the dog doesnt bark anymore", "hello, the big dog barks all night"),
        ("it no longer rings", "It rings all the time"),
        ("my back doesn't ache anymore", "My back aches since May"),
        ("our modem does not crash any more", "why, it crashes every evening"),
        ("nothing of it, the pump doesn't rattle", "the pump rattles"),
    ],
)
def test_what_is_so_is_said_in_the_present_too(text, other):
    assert opposed(text, [other]) == other
    assert opposed(other, [text]) == text


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("the alarm no longer turns off", "turn off the alarm"),
        ("my door no longer closes", "how do I close the door"),
        ("my card no longer works", "make my card work"),
        ("my phone no longer has lessons", "my phone needs lessons"),
        ("I don't get letters", "your letters are late"),
        ("I do not receive reminders any more", "my text reminders are late"),
        ("there are no bonus points", "how do I use my bonus points"),
    ],
)
def test_a_wish_and_a_noun_are_not_what_is_so(text, other):
    assert opposed(text, [other]) is None
    assert opposed(other, [text]) is None


def test_any_more_is_no_word_of_content():
    assert opposed("I don't need help with it anymore", ["I can't bear it anymore"]) is None
    assert opposed("I don't want it anymore, cancel it", ["it works anymore"]) is None


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("I still haven't found my card", "I lost my library card"),
        ("my keys are not lost", "I found my keys again"),
        ("please don't remove the insurance", "Add insurance to my phone"),
        ("do not close the window", "open the window please"),
    ],
)
def test_a_denial_says_the_same_as_the_other_pole(text, other):
    assert agrees_by_poles(text, [other])
    assert agrees_by_poles(other, ["hello", text])
    assert opposed(text, [other]) is None


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("I found my card", "I lost my card"),
        ("I haven't found my card", "I found my card"),
        ("I haven't found my card", "I lost a glove"),  # no noun in common
        ("do not remove my profile", "add a driver"),
        ("please do not book a table", "do not book a table"),
        ("where do I find my card", "I lost my card"),
    ],
)
def test_what_agrees_in_no_poles(text, other):
    assert not agrees_by_poles(text, [other])
    assert not agrees_by_poles(other, [text])


def test_who_ends_a_thing_does_not_wish_it():
    for ended in ("cancel my pass", "remove my pass", "I want to return my pass", "unsubscribe me from my pass"):
        assert opposed("I don't want my pass any more", [ended]) is None
        assert opposed(ended, ["I don't need a pass"]) is None
    assert opposed("I don't want my pass any more", ["I want a pass"])


def test_a_sentence_that_only_denies():
    assert denies_a_sentence("Shall we call you? Please do not.")
    assert denies_a_sentence("You close my account? No way!")
    for text in ("Please don't call. How do I pay?", "How do I pay? I do not know.", "Please don't.", ""):
        assert not denies_a_sentence(text)
    assert not denies_a_sentence("Call me. Don't! " * MOST_WORDS)


DEPOSIT = ["My deposit has arrived", "I got the deposit back"]


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("I didn't get the deposit back", "I got the deposit back"),
        ("I haven't got my money back", "we got our money back"),
        ("I haven't got it back yet", "I got the deposit back"),
        ("the deposit never came back", "the deposit came back"),
        ("the deposit never came back", "I got the deposit back"),
        ("it hasn't been paid back", "I have received it back"),
        ("you have not paid the fee back to me", "the fee was paid back"),
        ("My parcel didn't come", "my parcel has arrived"),
        ("I never got the invoice", "I received the invoice"),
        ("I did not get a password by mail", "I got a password by mail"),
        ("the voucher didn't reach me", "I got the voucher"),
        ("no deposit has arrived", "my deposit has arrived"),
        ("my parcel hasn't come", "my parcel has come"),
        ("nobody sent me the report", "I have received the report"),
        ("you never gave us our money back", "we got our money back"),
        ("they did not bring me the key", "I got the key"),
        ("the deposit isn't on my account yet", "The deposit is on my account again"),
    ],
)
def test_what_did_not_come_is_the_opposite_of_what_came(text, other):
    assert opposed(text, [other]) == other
    assert opposed(other, [text]) == text


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("my parcel didn't arrive", "I got an error message"),
        ("I never received a key", "I got a parking ticket"),
        ("I didn't get my parcel", "I got the wrong parcel"),
        ("I did not get an answer", "how do I get an answer"),
        ("I haven't received my refund", "when will I get my refund"),
        ("I didn't get the lamp back", "I sent the lamp back"),
        ("my card didn't come", "can I come by with my card"),
        ("I did not get into my account", "I want to get into my account"),
        ("I don't get what the fee is for", "I got a fee"),
        ("my parcel never came", "my parcel got lost"),
        ("you never got back to me", "I got the deposit back"),
        ("I got a mail that it was delivered but no parcel", "my parcel has not arrived"),
        ("please don't send me ads", "I got a report"),
        ("I did not give you my card", "I got my card"),
        ("I haven't received my refund", "I received a mail that my refund is on its way"),
        ("I have to come to the desk", "my card did not come"),
        ("my name is not on the card", "I am at the desk with my card"),
    ],
)
def test_what_did_not_come_is_no_opposite_of_another_thing(text, other):
    assert opposed(text, [other]) is None
    assert opposed(other, [text]) is None


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("nobody stole the bike, it was just moved", "the bike was stolen"),
        ("no one stole the bike", "The bike was stolen"),
        ("no-one broke the window", "the window was broken"),
        ("none of them declined my card", "my card was declined"),
        ("none of the lamps is broken", "the lamp is broken"),
        ("nothing is broken", "the lamp is broken"),
        ("I am sure that nobody opened the parcel", "the parcel was opened"),
        ("nobody wants to cancel", "cancel my order"),
        ("nobody asked you to cancel the order", "cancel my order"),
        ("none of us wishes to cancel it", "cancel my order"),
        ("nobody should call me", "call me back"),
    ],
)
def test_nobody_denies_a_verb(text, other):
    assert opposed(text, [other]) == other
    assert opposed(other, [text]) == text


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("nobody cancels my order", "cancel my order"),
        ("nobody can cancel my order", "cancel my order"),
        ("nobody knows why my card was declined", "my card was declined"),
        ("why did nobody tell me that my card was declined", "my card was declined"),
        ("nobody helps me, my lamp is broken", "the lamp is broken"),
        ("I have nothing to do", "I do it"),
        ("nothing helps, the lamp is broken", "the lamp is broken"),
        ("there is nobody who called me back", "please call me back"),
        ("none", "cancel my order"),
        ("nothing", "cancel my order"),
        ("you know nothing", "you know a lot"),
        ("nobody told me how to cancel", "how do I cancel"),
    ],
)
def test_nobody_denies_no_wish(text, other):
    assert opposed(text, [other]) is None
    assert opposed(other, [text]) is None


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("The tyre isn't flat, it only looks like it", "I have a flat tyre"),
        ("I don't have a flat tyre", "I have a flat tyre"),
        ("I don't have a fever", "I have a fever"),
        ("I have no fever", "I've got a fever"),
        ("we haven't got any mice", "we've got mice"),
        ("she hasn't a dog", "she has a dog"),
        ("I don't have a booking", "I have a booking"),
        ("there is no leak", "we have a leak"),
    ],
)
def test_what_one_has_is_so(text, other):
    assert opposed(text, [other]) == other
    assert opposed(other, [text]) == text


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("I don't have a receipt", "do I have to show a receipt"),
        ("I don't have an account", "I want to have an account"),
        ("my room is not clean", "I want a clean room"),
        ("I do not want my booking any more", "I have a booking and want to cancel it"),
        ("the payment was not made", "I have to make a payment"),
        ("I don't have my card", "I have lost my card"),
        ("I don't have the app", "I have a question about the app"),
    ],
)
def test_what_one_has_is_no_opposite_of_a_wish(text, other):
    assert opposed(text, [other]) is None
    assert opposed(other, [text]) is None


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("I don't need a helmet", "Do I get a helmet?"),
        ("we do not want helmets", "Do you have helmets for children?"),
        ("I don't need a helmet", "Are helmets included?"),
        ("no child seat please", "Do you have child seats?"),
        ("please, no onions", "can I have onions on it"),
        ("my son doesn't need a helmet", "do you have helmets"),
        ("he does not want extra cheese", "is there extra cheese"),
        ("no helmet for my son please", "do you have helmets"),
        ("no helmet needed", "do you have helmets"),
        ("no bag necessary, thanks", "do you have a bag"),
        ("no baby bed please, he sleeps with us", "do you have a baby bed"),
        ("No gift wrap, thanks", "do you offer gift wrap"),
        ("I don't want a personal trainer", "Do you have personal trainers?"),
        ("I no longer need a parking space", "is there a parking space"),
        ("we don't want the bikes delivered to our hotel", "Do you deliver bikes?"),
        ("please do not deliver it", "do you deliver on Sundays"),
        ("I don't want an upgrade", "could we get an upgrade"),
        ("we don't need a cot", "Have you got a cot?"),
        ("I don't wish to have a seat at the window", "can I get a seat at the window"),
    ],
)
def test_who_wants_no_offer_does_not_ask_for_it(text, other):
    assert opposed(text, [other]) == other
    assert opposed(other, [text]) == text


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("don't you deliver?", "do you deliver"),
        ("why don't you deliver", "do you deliver"),
        ("can't you deliver it", "do you deliver"),
        ("you don't deliver?", "do you deliver"),
        ("don't you have helmets", "do you have helmets"),
        ("I don't have a helmet", "do you have helmets"),
        ("there are no helmets", "do you have helmets"),
        ("I don't know whether you have helmets", "do you have helmets"),
        ("I don't want to bring my own helmet", "do you have helmets"),
        ("I did not find a helmet", "do you have helmets"),
        ("I don't need a helmet, do you have child seats", "do you have child seats"),
        ("my order was not delivered", "do you deliver"),
        ("you did not deliver it", "do you deliver"),
        ("I don't want to wait any longer", "do I have to wait"),
        ("I don't want to lose my data", "will I lose my data"),
        ("I don't want to pay a fee", "is there a price to pay"),
        ("no helmet?", "do you have helmets"),
        ("no answer yet", "do you have an answer"),
        ("no deposit on my account, please help", "is there a deposit"),
        ("it doesn't want to start", "do you have a start pack"),
        ("you don't need a helmet?", "do you have helmets"),
        ("no helmet was in the box, please send one", "do you have helmets"),
        ("I don't want to be charged for a return", "do you charge for a return"),
        ("I don't want you to share my data", "do you share my data"),
        ("I don't want any fees", "are there fees"),
        ("there should be no extra fee", "is there an extra fee"),
    ],
)
def test_questions_and_lacks_are_no_unwished_offers(text, other):
    assert opposed(text, [other]) is None
    assert opposed(other, [text]) is None


@pytest.mark.parametrize(
    ("text", "other", "same"),
    [
        ("The payment wasn't successful", "My payment went through", "My payment failed"),
        ("the upload did not go through", "the upload succeeded", "the upload failed"),
        ("the transfer was unsuccessful", "the transfer was a success", "the transfer did not go through"),
        ("my payment didn't fail", "my payment failed", "my payment went through"),
        ("I hate you", "I love you", "I do not love you"),
        ("That didn't help", "That was helpful", "it does not help"),
        ("I'm not sad at all", "I am sad", "I am happy"),
        ("I am not happy today", "I am happy", "I am sad"),
        ("you are not clever", "You are clever", "You are stupid"),
        ("you're not stupid", "You are stupid", "You are so smart"),
        ("you aren't dumb", "you are dumb", "you are intelligent"),
    ],
)
def test_adjectives_of_two_poles(text, other, same):
    assert opposed(text, [other]) == other
    assert opposed(other, [text]) == text
    assert opposed(text, [same]) is None
    assert opposed(text, [same, other]) is None


@pytest.mark.parametrize("not_so", ["you are not", "you're not", "you aren't", "u are not", "you\u2019re not"])
def test_a_contraction_says_the_same(not_so):
    assert agrees_by_poles(f"{not_so} stupid", ["you are clever"])
    assert agrees_by_poles(f"{not_so} clever", ["hello", "you are stupid"])
    assert not agrees_by_poles(f"{not_so} clever", ["you are clever"])


def test_a_single_word_of_the_other_pole_says_the_same():
    assert agrees_by_poles("I'm not sad at all", ["I am happy"])
    assert not agrees_by_poles("I'm not sad about the refund", ["I am happy"])
    assert not agrees_by_poles("I'm not sad", ["I am happy about the refund"])


def test_a_lack_with_its_time_is_no_refusal():
    assert opposed("no heating since yesterday please", ["the heating is off, what now", "heating broken"]) is None
    assert opposed("no helmet please", ["do you have helmets"]) is not None


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("stop calling me", "you called me five times today"),
        ("stop charging my card", "you charged my card"),
        ("my power is gone", "only your home is without power"),
        ("the lift is broken", "we are without a lift"),
        ("I don't want to pay so much", "I want to pay less"),
        ("the group is not advanced enough", "can I go to a more advanced group"),
        ("the seats are not reserved", "I want reserved seats"),
    ],
)
def test_what_goes_on_what_lacks_and_a_measure_are_no_refusals(text, other):
    assert opposed(text, [other]) is None


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("stop calling me", "please call me"),
        ("I don't want to receive letters any longer", "I want to receive letters"),
    ],
)
def test_these_are_refusals_all_the_same(text, other):
    assert opposed(text, [other]) == other

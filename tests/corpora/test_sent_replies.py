"""Replies in what people sent: with something around them, and what is another reply."""

import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.corpora.sent_replies import ReplyMatcher

SHIPPING = "We ship to Canada within five days of your order."
PARCEL = "Your parcel will arrive tomorrow between nine and noon."
CARD = "Please lock your card in the app first, then call us."
OPENING = "The shop opens at nine in the morning on every working day."
REFUND = "Refunds are sent to the card that you paid with."
LIEFERUNG = "Die Lieferung kommt voraussichtlich im Juni bei Ihnen an."
LIVRAISON = "Nous livrons au Canada en cinq jours ouvrables après votre commande."
FIND = "You can find it in your account below your orders."


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (SHIPPING, f"No problem! {SHIPPING}"),
        (SHIPPING, "Yes, we ship to Canada within five days of your order."),
        (SHIPPING, "Hello Anna, we ship to Canada within 5 days of your ordre. Best wishes, Tom"),
        (SHIPPING, "Not at all, Ben. We ship to Canada within five days of your order :)"),
        (SHIPPING, "no problem ann we ship to Canada within five days of your order"),
        (PARCEL, "Hi Ann, don't worry, your parcel will arrive tomorrow between nine and noon."),
        (PARCEL, "Your parcel 4711 will arrive tomorrow between 9 and noon, no worries!"),
        (FIND, "You can't miss it: you can find it in your account below your orders."),
        (FIND, "Yes sure, you can find it in yuor account below your orders. Don't hesitate to write again."),
        (CARD, "Sorry to hear that, Kim. Please lock your card in the app first, then cal us. We never sleep!"),
        (OPENING, "Good morning! The shop opens at 9 in the morning on every workign day. See you on Monday, Lea"),
        (LIEFERUNG, "Hallo Frau Kunz, keine Sorge, die Lieferung kommt voraussichtlich im Juni bei Ihnen an."),
        (LIVRAISON, "Bonjour, pas de souci ! Nous livrons au Canada en 5 jours ouvrables après votre commande."),
        ("Hi {{name}}, your parcel is on its way to you now.", "Hi Nee Non, your parcel is on its way to you now."),
        ("Hi {{name}}, your parcel is on its way to you now.", "Hi Jan, no problem, your parcel is on its way to you now."),
        ("Your order {order} ships on {date} from our store.", "Your order 47 ships on Monday, 24 December from our store."),
        ("We may refund the order if it comes back whole.", "We might refund the order if it comes back whole."),
        ("Can you send me one photo of the broken item?", "Can you send me a photo of the broken item?"),
        ("We will call you back on 24 December at noon.", "We will call you back on 24th December at noon."),
        ("We will call you back next Thursday at noon.", "We will call you back next Thurs at noon."),
        ("The new catalogue comes out in December as usual.", "The new catalogue comes out in Decmber as usual."),
    ],
)  # fmt: skip
def test_pleasantries_and_typos_do_not_hide_a_reply(reply, message):
    assert ReplyMatcher([(0, Candidate(reply))]).find(message) == 0


OTHERS = [
    (SHIPPING, "We do not ship to Canada within five days of your order."),
    (SHIPPING, "No problem! We don't ship to Canada within five days of your order."),
    (SHIPPING, "We ship to Canada within nine days of your order."),
    (SHIPPING, "We ship to Canada within five days of your order, 20 euros."),
    (SHIPPING, "We ship to Canada within five days of your order, but not in May."),
    (CARD, "Please unlock your card in the app first, then call us."),
    (OPENING, "The shop opens at nine thirty in the morning on every working day."),
    (OPENING, "The shop closes at nine in the morning on every working day."),
    (REFUND, "Refunds are sent to the card that you paid with on Monday, 24 December."),
    (REFUND, "Refunds are never sent to the card that you paid with."),
    ("Please activate your card in the app before you pay.", "Please deactivate your card in the app before you pay."),
    ("Please enable the option in the menu of settings.", "Please disable the option in the menu of settings."),
    ("Please increase the volume of the speaker a little bit.", "Please decrease the volume of the speaker a little bit."),
    ("Please turn on the router and wait for a minute.", "Please turn off the router and wait for a minute."),
    ("Please turn on the router and wait for a minute.", "Please turn the router off and wait for a minute."),
    ("Please log in to your account with your e-mail.", "Please log out of your account with your e-mail."),
    ("Your order will be delivered to you before noon today.", "Your order will be delivered to you after noon today."),
    ("Your card was accepted by the bank of the shop today.", "Your card was rejected by the bank of the shop today."),
    ("You can return it within thirty days of the purchase.", "You can return it within thirteen days of the purchase."),
    ("You can return it within thirty days of the purchase.", "You can return it within sixty days of the purchase."),
    ("Our technician comes on Tues at noon with the part.", "Our technician comes on Thurs at noon with the part."),
    ("The meeting is in March at our office in town.", "The meeting is in May at our office in town."),
    (PARCEL, "Your parcel will arrive today between nine and noon."),
    (LIEFERUNG, "Die Lieferung kommt voraussichtlich im Juli bei Ihnen an."),
    (LIEFERUNG, "Die Lieferung kommt voraussichtlich nicht im Juni bei Ihnen an."),
    ("Wir liefern nach Kanada innerhalb von fünf Tagen.", "Wir liefern nach Kanada innerhalb von drei Tagen."),
    ("Bitte melden Sie sich jetzt mit Ihrer E-Mail anmelden.", "Bitte melden Sie sich jetzt mit Ihrer E-Mail abmelden."),
    (LIVRAISON, "Nous livrons au Canada en six jours ouvrables après votre commande."),
    (LIVRAISON, "Nous ne livrons pas au Canada en cinq jours ouvrables après votre commande."),
    ("Le magasin ouvre lundi à neuf heures du matin.", "Le magasin ouvre mardi à neuf heures du matin."),
    ("Yes, this model works with it in all of our shops.", "No, this model works with it in all of our shops."),
    ("La tienda abre el lunes a las nueve de la mañana.", "La tienda abre el martes a las nueve de la mañana."),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "message"), OTHERS)
def test_another_value_or_an_opposite_is_another_reply(reply, message):
    assert ReplyMatcher([(0, Candidate(reply))]).find(message) is None
    assert ReplyMatcher([(0, Candidate(message))]).find(reply) is None


@pytest.mark.parametrize(("reply", "message"), [pair for pair in OTHERS if len(pair[0]) < 60])
def test_of_two_such_replies_the_one_that_was_sent_is_found(reply, message):
    matcher = ReplyMatcher([(0, Candidate(reply)), (1, Candidate(message))])
    assert matcher.find(f"Hi Ann! {reply}") == 0
    assert matcher.find(f"Hi Ann! {message}") == 1


def test_braces_in_a_message_are_words():
    matcher = ReplyMatcher([(0, Candidate("Hi {name}, write {name} into the field of the order form."))])
    assert matcher.find("Hi {name}, write {name} into the field of the order fomr.") == 0


@pytest.mark.parametrize(
    ("reply", "message"),
    [("2", "Order 2"), ("Goodbye", "Goodbye Canada"), ("returns", "free returns"), ("Yes.", "ok yes"), ("Of course!", "Of course not, Ann")],
)
def test_a_reply_of_one_or_two_words_is_known_alone(reply, message):
    matcher = ReplyMatcher([(0, Candidate(reply))])
    assert matcher.find(message) is None
    assert matcher.find(reply.upper()) == 0

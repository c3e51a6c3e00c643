"""Messages that close a matter, by the replies that fit them.

"You're welcome, I'm glad that it works" fits "the wifi is fine again, thanks" better than "I'm
sorry to hear that, let me help you" does: an encoder of conversations tells them apart by itself.
How far is measured on messages that are known to close a matter, or not to.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.encoders.vectors import ContextVectors
from rejoinder.text.courtesy import asks, denies, words
from rejoinder.text.sentences.questions import is_question, is_wish
from rejoinder.text.signs.settled import may_be_settled

CLOSING_REPLIES = (
    "You're welcome! I'm glad that it works now.",
    "Glad to hear that it is solved.",
    "Great, I'm happy that you found it.",
    "Good to hear. Have a nice day!",
    "No problem, I'm glad it worked out.",
    "Perfect, then I'll close the ticket.",
    "Glad it arrived. Enjoy!",
    "Happy to help. Take care!",
    "That's great news!",
    "You're welcome, anytime.",
)
OPEN_REPLIES = (
    "I'm sorry to hear that. Let me help you.",
    "Could you tell me more about the problem?",
    "I'm sorry for the trouble, we will look into it.",
    "Sure, I can help you with that.",
    "Please try to restart it and tell me if it works.",
    "Yes, you can do that in your account settings.",
    "It costs 20 euros.",
    "We are open from 9 to 5.",
    "Please send us a photo, and we replace it.",
    "It usually takes three to five days.",
    "I'm sorry that it arrived damaged.",
    "Sorry about the delay. It is still on its way.",
    "We will cancel it for you.",
    "That is a mistake of ours, we will refund you.",
    "Please wait, it is still pending.",
)
CLOSED = (
    "The printer works again, thanks",
    "Found it, thank you!",
    "My parcel arrived this morning",
    "I could log in now",
    "all good now",
    "It was in the spam folder, sorry to bother you",
    "The plumber was here and fixed it",
    "the money is on my account now, thanks",
    "Everything is running again",
    "I figured it out myself",
    "my tooth feels fine again",
    "The update solved it",
    "got the tickets, thanks a lot",
    "it works like a charm",
    "The neighbour took my package in",
    "I found the number on the back, thanks",
    "she is fit again, thank you doctor",
    "the lights came on again an hour ago",
    "Your colleague sorted it out on the phone",
    "turned out that my son had the keys",
    "I reached somebody by phone, thanks",
    "It has started by itself again",
    "The refund has arrived, great",
    "he eats again, thanks",
    "Just got the code, thanks",
    "The driver brought it ten minutes ago",
)
OPEN = (
    "My parcel arrived with a hole in it",
    "My daughter started school this autumn",
    "the package was left in the rain",
    "I sent two chairs back last month",
    "I managed to spill tea over my laptop",
    "I received a letter from you",
    "We found a dead mouse in our room",
    "The water is cold again",
    "the app was slow and now it is dead",
    "I got a new phone",
    "I arrived and the desk was deserted",
    "it got worse over night",
    "I got a fine and paid it in May",
    "my battery died again",
    "we moved last week",
    "I got married and took her name",
    "my visa was rejected",
    "The driver was rude to my mother",
    "He fell and his arm is swollen now",
    "now the screen is black",
    "I ordered red and you sent blue",
    "my luggage was opened at the airport",
    "They cancelled my flight",
    "I was told that a form was sent to me",
    "I paid in cash and the driver gave me half of the change",
    "I found this ring in the lift",
    "A crack appeared in the windscreen",
    "I have changed banks",
    "we were overcharged at the bar",
    "She sprained her ankle on your stairs",
    "our tent flew away in the storm",
    "my mother passed away and the contract was hers",
    "I have started a new job in another town",
    "I left my jacket on the train",
    "a wheel came off the pram",
    "The tap has dripped all night",
    "my brother was given the medicine of somebody else",
    "the guide arrived drunk",
    "I was billed in May and it was paid in June",
    "they were unfriendly and laughed at us",
    "We were bitten by bedbugs",
    "my coat was soaked and it has shrunk now",
    "I was pushed on the escalator",
    "The soup was cold and the waiter was rude",
    "I graduated in summer",
    "now everything is blue",
    "We were seated beside the kitchen",
    "I passed the exam and moved abroad",
    "The nurse was in a hurry and bruised my arm",
    "the neighbour mowed his lawn at night",
    "I was bitten yesterday",
    "our boiler exploded last night",
    "The shelf has collapsed",
    "I retired and sold my shop",
    "somebody drove into my car in front of your shop",
    "My name was spelled wrongly on the ticket",
    "I have just turned sixty-five",
    "I pressed the red button and the whole thing went off",
    "You sent the invoice to my former flat",
    "my licence expired last week",
    "I sold the car in March",
    "the lamp fell down and nearly hit my child",
    "He was scratched by your cat",
    "my wallet was taken out of the locker",
)
"""Messages that close nothing, with the words of such as do."""

SHARPNESS = 8.0  # of the mean over replies: the best ones count most
MOST_WRONG = 0.05  # of `OPEN`
LEAST_FOUND = 0.4  # of `CLOSED`, from which an encoder is relied on


@dataclass(frozen=True, slots=True)
class Closings:
    """An encoder's view of messages that close a matter."""

    closing: FloatArray  # vectors of replies that close a matter, (n, d)
    opening: FloatArray  # of other replies
    threshold: float  # of scores of messages that close a matter; infinite: it tells too little

    def is_closing(self, vector: FloatArray) -> bool:
        """Return whether a message closes a matter, given its vector, (d,)."""
        return self.score(vector) > self.threshold

    def score(self, vector: FloatArray) -> float:
        """Return how much better replies that close a matter fit a message, (d,), than others."""
        return _soft_mean(self.closing @ vector) - _soft_mean(self.opening @ vector)


_known: WeakKeyDictionary[DualEncoder, Closings] = WeakKeyDictionary()


def closings_of(encoder: DualEncoder) -> Closings:
    """Return what an encoder tells of closings; it encodes a hundred texts the first time."""
    closings = _known.get(encoder)
    if closings is None:
        closings = _known[encoder] = _measure(encoder)
    return closings


def _measure(encoder: DualEncoder) -> Closings:
    replies = encoder.encode_responses([*CLOSING_REPLIES, *OPEN_REPLIES])
    messages = encoder.encode_contexts([[text] for text in (*OPEN, *CLOSED)])
    closing, opening = np.split(replies, [len(CLOSING_REPLIES)])
    closings = Closings(closing, opening, math.inf)
    if isinstance(messages, ContextVectors) or messages.ndim != 2:
        return closings
    scores = [closings.score(vector) for vector in messages]
    threshold = float(np.quantile(scores[: len(OPEN)], 1 - MOST_WRONG))
    share = np.mean([score > threshold for score in scores[len(OPEN) :]])
    return replace(closings, threshold=threshold) if share >= LEAST_FOUND else closings


def _soft_mean(scores: FloatArray) -> float:
    """Return the mean of scores (n,), in which the best ones count most."""
    best = scores.max()
    return float(best + np.log(np.exp(SHARPNESS * (scores - best)).mean()) / SHARPNESS)


@functools.lru_cache(maxsize=1024)
def may_be_closing(text: str) -> bool:
    """Return whether a message neither asks, wishes or denies something, nor names a fault."""
    tokens = words(text)
    is_asked = asks(text) or "?" in text or is_question(tokens) or is_wish(tokens)
    return bool(tokens) and not (is_asked or denies(text)) and may_be_settled(text)

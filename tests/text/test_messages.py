"""A message as it is read: cleaned of what stands around it, and by its sentences."""

import json

import pytest

from rejoinder.text.courtesy import asks, asks_again, calls, has_content
from rejoinder.text.emoji import name_emoji, without_emoji
from rejoinder.text.messages import MAX_LETTERS, MAX_PARTS, WHOLE_WORDS, clean_message, read_message
from rejoinder.text.sentences.splitting import MAX_WORDS, split_sentences
from rejoinder.text.words.spelling import Speller
from tests.test_architecture import ROOT

QUESTION = "How do I cancel my order?"
COURTESY = json.loads((ROOT / "benchmarks/data/courtesy.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "text",
    ["where is my order", "Where is my order?", " hi, where is it ", "3.5 kg of rice", "My name is U.S. Dr. Who", "?", ""],
)
def test_a_message_of_one_sentence_stays_as_it_is(text):
    assert read_message(text).parts == (text,)


@pytest.mark.parametrize(
    "mail",
    [
        f"> your parcel left us\n> on Monday\n\n{QUESTION}",
        f"{QUESTION}\n\nOn Mon, 4 May 2026 at 10:01, Shop <a@b.example> wrote:\n> your parcel left us",
        f"On Mon, 4 May 2026 at 10:01, Shop <a@b.example> wrote:\n> your parcel left us\n\n{QUESTION}",
        f"{QUESTION}\n\n-----Original Message-----\nFrom: Shop\nSent: Monday\nTo: Kim\nSubject: Parcel\n\nIt left us.",
        f"Dear team,\n\n{QUESTION}\n\nBest regards\nKim Example\nHead of Purchasing\n1 Long Street",
        f"Hi Sam!\n{QUESTION}\nThanks,\nKim",
        f"{QUESTION}\n-- \nKim Example\nwww.kim.example",
        f"{QUESTION}\n\nSent from my iPhone",
        f"##- Please type your reply above this line -##\n{QUESTION}",
        f"<div>Hello,</div><div><br></div><div>{QUESTION}</div><p>Regards<br/>Kim &amp; Bea</p>",
        f"Hi Tom,\n\nOn Mon, 4 May 2026 at 10:01, Shop <a@b.example> wrote:\n> it left\n\n{QUESTION}",
        f"Hi,\n> On Monday you wrote:\n> Can I cancel?\n{QUESTION}",
        f"{QUESTION} [cid:image001.png@01D0] <https://track.example/a?b=c>\u200b",
        f"{QUESTION}\n\nThis e-mail and any attachments are confidential and intended solely for the\naddressee. If so, ...",
        f"[External] This mail comes from outside.\r\n{QUESTION}\r\n\r\nMit freundlichen Gr\u00fc\u00dfen\r\nKim",
    ],
)
def test_what_stands_around_a_message_is_taken_off(mail):
    assert clean_message(mail) == QUESTION


@pytest.mark.parametrize("text", ["> only\n> a quote", "Best regards\nKim", "Dear team,", "Thanks,\nKim", "--", "Sent from my iPhone"])
def test_a_message_is_never_cleaned_to_nothing(text):
    assert clean_message(text).split()


@pytest.mark.parametrize("text", ["is 3 < 4 and 5 > 2?", "use <order number>", "what does <b> mean", "a <a@b.example> b"])
def test_text_that_is_no_html_keeps_its_brackets(text):
    assert clean_message(text) == text


def test_text_below_thanks_that_asks_stays():
    assert clean_message("Your lamp is nice.\nThanks\nCan you send me another one?").endswith("another one?")


@pytest.mark.parametrize("half", COURTESY)
def test_a_mail_is_read_by_its_sentences(half):
    before, after = COURTESY[half]["before"], COURTESY[half]["after"]
    mail = f"{before[0]}\n\n{' '.join([*before[1:8], QUESTION, *after[:-1]])}\n\n{after[-1]}"
    read = read_message(mail)
    assert QUESTION in read.parts
    assert "confidential" not in read.text
    assert "Example" not in read.text
    assert max(len(part.split()) for part in read.parts) <= WHOLE_WORDS


def test_a_short_message_of_two_sentences_is_read_whole_too():
    assert read_message("It came broken. Can I send it back?").parts == (
        "It came broken. Can I send it back?",
        "It came broken.",
        "Can I send it back?",
    )
    assert read_message("hello\nwhere is my order\nanyone there?").parts[-1] == "where is my order"


def test_a_question_within_a_sentence_is_read_alone_too():
    assert read_message("hi where is my order thx").parts == ("where is my order",)
    both = "My order came late and where can I send it back?"
    assert read_message(both).parts == (both, "My order came late", "where can I send it back?")


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        ("Good morning, robot", ["Good morning, robot"]),
        ("Good morning, is the pool warm", ["is the pool warm"]),
        ("Hello. The lamp is broken.", ["The lamp is broken."]),
        ("Hi! The lamp came. It is broken. Thanks a lot.", ["The lamp came. It is broken.", "The lamp came.", "It is broken."]),
        ("Today, is the pool warm", ["Today, is the pool warm", "is the pool warm"]),
        ("Is it open today? Cheers, Bob", ["Is it open today?"]),
        ("Hi, I have received the lamp. Thanks!", ["I have received the lamp."]),
        ("Hello, my lamp came. It is broken.", ["my lamp came. It is broken.", "my lamp came.", "It is broken."]),
        ("Thanks, that fixed my lamp", ["Thanks, that fixed my lamp", "that fixed my lamp"]),
        ("where do I pay Best, Carmen Vidal", ["where do I pay Best, Carmen Vidal", "where do I pay"]),
        ("good evening! \U0001f642", ["good evening!"]),
        ("Hi, I'm Bob. Is it open today?", ["Is it open today?"]),
        ("You solved my problem, thank you", ["You solved my problem, thank you", "You solved my problem"]),
        ("hello\n\nMany thanks to you\n\nhello??", ["Many thanks to you"]),
        ("what are you good at \U0001f389", ["what are you good at"]),
    ],
)  # fmt: skip
def test_greetings_have_replies_of_their_own(message, parts):
    assert read_message(message).parts == tuple(parts)


def test_a_wish_within_a_sentence_is_read_alone_too():
    first, *parts = read_message("My lamp broke last week and I want to return it").parts
    assert first == "My lamp broke last week and I want to return it"
    assert parts == ["My lamp broke last week", "I want to return it"]
    assert read_message("I came to the shop and please help me").is_single


def test_sentences():
    assert split_sentences("Dr. Who asks e.g. this. And that!\nwhy") == ["Dr. Who asks e.g. this.", "And that!", "why"]
    wrapped = "this line of a mail is so long that the program wraps it\nin the middle of a sentence."
    assert len(split_sentences(wrapped)) == 1
    pieces = split_sentences("i paid and it came, but " * 30)
    assert max(len(piece.split()) for piece in pieces) <= MAX_WORDS
    assert " ".join(pieces).split() == ("i paid and it came, but " * 30).split()


def test_a_very_long_message_is_bounded_and_says_so():
    read = read_message("The parcel number %d came. " * 2000 + QUESTION)
    assert read.cut
    assert len(read.parts) <= MAX_PARTS + 1
    assert len(read.text) <= MAX_LETTERS + 10
    many = read_message(" ".join(f"Parcel number {n} came broken." for n in range(60)))
    assert many.cut
    assert len(many.parts) == MAX_PARTS
    assert not read_message(QUESTION).cut


@pytest.mark.parametrize(
    ("text", "content", "asking", "again"),
    [
        ("hello?", False, True, True),
        ("anyone there??", False, True, True),
        ("what now?", False, True, True),
        ("thanks!", False, False, False),
        ("ok bye", False, False, False),
        ("where is my parcel", True, True, False),
        ("please cancel it", True, True, False),
        ("Please do not hesitate to write to me.", True, False, False),
        ("my card was declined", True, False, False),
        ("Hello!", False, False, False),
        ("still waiting", False, False, True),
        ("", False, False, False),
    ],
)
def test_courtesy(text, content, asking, again):
    assert (has_content(text), asks(text), asks_again(text)) == (content, asking, again)


@pytest.mark.parametrize("text", ["HELLO", "hellooo?", "any news?", "please help", "no answer?", "bump", "urgent!!!", "pls hurry", "hey, hello again", "can someone please help me", "it's very urgent"])
def test_a_call_for_an_answer_is_known(text):
    assert calls(text)
    assert not calls(f"{text} my lamp")


@pytest.mark.parametrize("text", [
    "thanks", "ok", "no", "fine", "me too", "yes please", "how do I update it", "I do", "It was nothing.", "", "?", "please", "one please",
    "please do", "not now please", "both please", "email please", "asap", "update", "no hurry", "not urgent", "a person please", "no help",
])
def test_an_answer_is_no_call(text):
    assert not calls(text)


@pytest.mark.parametrize(("text", "asking"), [
    ("pls move my class", True), ("I would like to say that I like it", False), ("people tell me that it is good", False), ("Please send my warm regards to Ann.", False),
    ("Please excuse that this is so long.", False), ("please note the date", False), ("Please note: can you move my class?", True), ("Excuse me, can I still pay?", True),
    ("How are you and your dog?", False), ("How are you doing today?", False), ("How are you handling my data?", True), ("How are your prices?", True),
])
def test_only_questions_and_requests_ask(text, asking):
    assert asks(text) is asking


def test_emoji_are_words():
    assert name_emoji("great \U0001f44d\U0001f3fd!") == "great thumbs up !"
    assert name_emoji("\U0001f620") != name_emoji("\U0001f44d")
    assert name_emoji("\u2764\ufe0f") == name_emoji("\u2764")
    assert name_emoji("\U0001f44d\U0001f44d\U0001f44d") == name_emoji("\U0001f44d\U0001f3ff")
    assert without_emoji("where is it \U0001f621?") == "where is it ?"
    for text in ("caf\u00e9 5 \u20ac  \u2013 \u201cok\u201d \u00a9\u2122", "  two  blanks ", "#1 *2*"):
        assert name_emoji(text) is text
    assert name_emoji("a  b\nc \U0001f44d") == "a  b\nc thumbs up"


STORY = " ".join(["We have lived here for long and like the place and the people a lot."] * 4)


@pytest.mark.parametrize(
    ("end", "parts"),
    [
        ("The shoes are too small. How do I return them?", ["The shoes are too small.", "The shoes are too small. How do I return them?"]),
        ("My card has a new number. Please use it.", ["My card has a new number.", "My card has a new number. Please use it."]),
        ("The shoes are too small. How do I return shoes?", ["The shoes are too small.", "The shoes are too small. How do I return shoes?", "How do I return shoes?"]),
        ("I bought shoes. Do you sell socks? How do I return them?", ["I bought shoes.", "I bought shoes. Do you sell socks?", "Do you sell socks?", "How do I return them?"]),
        ("Thanks for all. How do I return them?", ["How do I return them?"]),
        ("The bus was late. The shoes are too small.", ["The bus was late.", "The shoes are too small."]),
        ("The soles came off. What can I do about it now?", ["The soles came off.", "The soles came off. What can I do about it now?"]),
        ("The soles came off. Could somebody please look into it?", ["The soles came off.", "The soles came off. Could somebody please look into it?"]),
        ("The form wants a size. Which size?", ["The form wants a size.", "The form wants a size. Which size?"]),
        ("It broke. Do you sell soles? What should I do?", ["It broke.", "It broke. Do you sell soles?", "Do you sell soles?"]),
        ("The soles came off. Can you help me?", ["The soles came off."]),
        ("The soles came off. Please reply soon.", ["The soles came off."]),
        ("The form wants a size. Which size is normal?",
         ["The form wants a size.", "The form wants a size. Which size is normal?", "Which size is normal?"]),
    ],
)
def test_what_refers_back_in_a_long_message_is_read_with_what_it_refers_to(end, parts):
    assert [*read_message(f"{STORY} {end}").parts[1:]] == parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "The power is out in our street.\n\nRegards\nHans\n\nDiese Nachricht ist nicht \u00f6ffentlich. Bitte wenden Sie sich an uns.",
            ["The power is out in our street."],
        ),
        ("The power is out.\n\nCe message n'est pas pour vous et ne doit pas \u00eatre lu.", ["The power is out."]),
        ("Hola, mi factura es muy alta. My bill is too high.", ["My bill is too high."]),
        ("My bill is too high. Mi factura es muy alta.", ["My bill is too high."]),
        ("Where is my order? Wo ist meine Bestellung?", ["Where is my order?"]),
    ],
)
def test_beside_english_sentences_others_are_not_read(text, parts):
    message = read_message(text).corrected(Speller(["my bill is too high"]))
    assert [*message.parts] == parts
    assert (message.text, message.is_foreign, message.corrections) == (" ".join(parts), False, ())


@pytest.mark.parametrize(
    "text",
    [
        "Hallo, meine Bestellung ist nicht da. Order number A-77.",
        "O\u00f9 est ma commande? Num\u00e9ro de commande 77.",
        "Ich habe gestern bestellt. Es ist nicht da. It is urgent!",
        "Wo ist meine Bestellung?",
    ],
)
def test_a_message_without_an_english_sentence_is_foreign(text):
    assert read_message(text).corrected(Speller(["my bill is too high"])).is_foreign


@pytest.mark.parametrize("letters", ["s\u017f", "k\u212a", "i\u0131", "i\u0130"])
def test_letters_that_some_take_for_others_are_read_as_they_are(letters):
    # to a pattern without case they are the same, to a look-up they are not
    ours, theirs = letters
    text = (
        "hi, msg me plz: r u open on sat, mon-fri or this sun? thx. I think it is no longer"
        " like this, my skirts aren't shipped. Kind regards, Kim. Sent from my iPhone"
    )
    for at in [place for place, letter in enumerate(text.lower()) if letter == ours]:
        assert read_message(f"{text[:at]}{theirs}{text[at + 1 :]}").corrected(Speller()).parts

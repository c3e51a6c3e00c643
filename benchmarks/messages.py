"""Questions as customers write them: in mails, with typos, denied, in bursts, two in one.

`python benchmarks/messages.py [--faq FILE...] [--models MODEL...]`. An FAQ of 18 replies of our own
(`data/shop.jsonl`) and others, JSONL with `answer` and `questions` or `asked`, are searched for
their questions, clean and as follows. Sets are drawn by a seed that chose nothing; courtesy and
denials are of the halves called "report". The rows:

- *mail N*: a question among courtesy, N words in all;
- *typo 1, 2*: slips in the longest word: swapped, left out, doubled, or of a neighbouring key;
- *denied*: the opposite of what a reply answers (`data/polarity.jsonl`); counted are that reply,
  and *another*, with a confidence above 0.5, and *kept*: other negators, where the reply is right;
- *burst*: greeting, question, "hello?", as a list without roles;
- *emoji*: a question with an emoji behind it;
- *quote*: a question below a quoted mail that asks another one;
- *emoji pairs*: replies known by one emoji each, which is sent in another skin tone or twice;
- *two*: two questions, both of whose replies are first or marked `also`;
- *foreign, gibberish*: questions of another FAQ, and random letters: answered at all.

Systems are the models with what a search does to messages, the same without it (`plain`), and
nearest questions by BM25 and by character n-grams, which answer everything.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock

import numpy as np

from common import write_result
from rejoinder.conversations import spoken
from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.open import open_encoder
from rejoinder.retrieval import turns
from rejoinder.retrieval.calibration import CalibratedIndex
from rejoinder.retrieval.choice import opposites
from rejoinder.retrieval.index import Index
from rejoinder.text.messages import Message
from threads import use_threads

DATA = Path(__file__).parent / "data"
SEED = 20
QUESTIONS = 150  # of a FAQ that are asked
WORDS = (60, 120, 200)
KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
GREETINGS = ("Hi", "hello", "Good morning!", "hey there", "Hello team")
AGAIN = ("hello?", "anyone there?", "??", "still waiting", "is anybody there", "what now?")
EMOJI = ["😡", "😭", "🙏", "👍🏽", "😀", "❤️"]

FACES = [
    "👍",
    "👎",
    "👋",
    "🙏",
    "💪",
    "👏",
    "😀",
    "😡",
    "😭",
    "😴",
    "🤢",
    "🎉",
    "🍕",
    "🚗",
    "📦",
    "💳",
]
HANDS = 6  # of these that have skin tones
SKIN_TONES = ["\U0001f3fb", "\U0001f3fd", "\U0001f3ff"]

Question: TypeAlias = tuple[int, str]  # the reply that is meant, the message
Faq: TypeAlias = tuple[list[Candidate], list[Question]]
Answer: TypeAlias = Callable[[Sequence[Any]], list[list[int]]]  # first, then those marked `also`


def main() -> None:
    """Run from the shell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--faq", nargs="*", default=[], help="further FAQs, JSONL")
    parser.add_argument("--models", nargs="*", default=["bi-small"])
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    use_threads(given.threads)
    faqs = {"shop": read_shop()} | {Path(name).stem: read_faq(name) for name in given.faq}
    results: dict[str, Any] = {}
    rows = {name: sets(questions, faqs, name) for name, (_, questions) in faqs.items()}
    for model in given.models:
        encoder = open_encoder(model).with_cache()
        for name, (replies, _) in faqs.items():
            with index_of(encoder, replies) as index:
                report(results, name, model, measure(answers_of(index), rows[name]))
                with plain():
                    figures = measure(answers_of(index), rows[name])
                report(results, name, f"{model}, plain", figures)
        report(results, "denials", model, denials(encoder))
        report(results, "emoji pairs", model, emoji_pairs(encoder))
        with plain():
            report(results, "denials", f"{model}, plain", denials(encoder))
    for name, (replies, _) in faqs.items():
        for system, make in (("BM25", by_words), ("character n-grams", by_letters)):
            report(results, name, system, measure(make(replies), rows[name]))
    write_result("messages", {"results": results})


def report(results: dict[str, Any], faq: str, system: str, figures: dict[str, float]) -> None:
    """Keep and print figures."""
    results.setdefault(faq, {})[system] = figures
    print(faq, system, figures, flush=True)


def read_shop() -> Faq:
    """Return the shop's replies, and all their examples as questions."""
    lines = (DATA / "shop.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    replies = [
        Candidate(row["text"], title=row["title"], examples=tuple((e,) for e in row["examples"]))
        for row in rows
    ]
    return replies, [(place, e) for place, row in enumerate(rows) for e in row["examples"]]


def read_faq(path: str) -> Faq:
    """Return the replies of a file with three questions each, and other questions."""
    draw = random.Random(SEED)
    replies = []
    asked = []
    for place, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines()):
        row = json.loads(line)
        questions = list(dict.fromkeys(row.get("questions") or row["asked"]))
        draw.shuffle(questions)
        replies.append(Candidate(row["answer"], examples=tuple((e,) for e in questions[:3])))
        asked += [(place, text) for text in questions[3:6]]
    return replies, draw.sample(asked, min(QUESTIONS, len(asked)))


def sets(
    questions: Sequence[Question], faqs: dict[str, Faq], name: str
) -> dict[str, list[tuple[set[int], Any]]]:
    """Return messages of each row, with the replies that are right (none: silence)."""
    draw = random.Random(SEED)
    rows: dict[str, list[tuple[set[int], Any]]] = {"clean": [({at}, [q]) for at, q in questions]}
    for count in WORDS:
        rows[f"mail {count}"] = [({at}, [mail(draw, q, count)]) for at, q in questions]
    for slips in (1, 2):
        rows[f"typo {slips}"] = [
            ({at}, [typo(draw, q, slips)]) for at, q in questions for _ in range(2)
        ]
    rows["burst"] = [({at}, burst(draw, q)) for at, q in questions for _ in range(2)]
    rows["emoji"] = [({at}, [f"{q} {draw.choice(EMOJI)}"]) for at, q in questions for _ in range(2)]
    pairs = [draw.sample(list(questions), 2) for _ in range(150)]
    rows["quote"] = [
        ({at}, [f"On Monday the shop wrote:\n> {sentence(other)}\n>\n> Regards\n\n{q}"])
        for (_, other), (at, q) in pairs
    ]
    rows["two"] = [
        ({one, other}, [f"{sentence(a)} {sentence(b)}"])
        for (one, a), (other, b) in pairs
        if one != other
    ]
    others = [q for key, (_, asked) in faqs.items() if key != name for _, q in asked]
    if others:
        rows["foreign"] = [(set(), [q]) for q in draw.sample(others, min(150, len(others)))]
    rows["gibberish"] = [(set(), [gibberish(draw)]) for _ in range(100)]
    return rows


def mail(draw: random.Random, question: str, count: int) -> str:
    """Return a question among courtesy of the half that chose nothing."""
    pool = json.loads((DATA / "courtesy.json").read_text(encoding="utf-8"))["report"]
    salutation, *before = pool["before"]
    *after, closing = pool["after"]
    draw.shuffle(before)
    draw.shuffle(after)
    place = draw.random()
    room = count - len(f"{salutation} {closing}".split())
    first = _until(before, place * room)
    last = _until(after, (1 - place) * room)
    return "\n\n".join([salutation, " ".join([*first, sentence(question), *last]), closing])


def _until(sentences: Sequence[str], count: float) -> list[str]:
    totals = itertools.accumulate(len(each.split()) for each in sentences)
    return [each for each, total in zip(sentences, totals, strict=True) if total <= count]


def sentence(text: str) -> str:
    """Return a question as a sentence."""
    return text[0].upper() + text[1:].rstrip(" .?!") + "?"


def typo(draw: random.Random, text: str, slips: int) -> str:
    """Return a text with slips in its longest word."""
    words = text.split(" ")
    longest = max(range(len(words)), key=lambda at: len(words[at]))
    for _ in range(slips):
        words[longest] = _slip(draw, words[longest])
    return " ".join(words)


def _slip(draw: random.Random, word: str) -> str:
    if len(word) < 4:
        return word
    at = draw.randrange(1, len(word) - 1)
    row = next((keys for keys in KEYS if word[at].lower() in keys), "e")
    near = row[max(0, row.find(word[at].lower()) - 1)]
    options = (
        word[:at] + word[at + 1] + word[at] + word[at + 2 :],
        word[:at] + word[at + 1 :],
        word[:at] + word[at] + word[at:],
        word[:at] + near + word[at + 1 :],
    )
    return draw.choice(options)


def burst(draw: random.Random, question: str) -> list[str]:
    """Return a question between a greeting and messages that only ask again."""
    return [draw.choice(GREETINGS), question, *draw.sample(AGAIN, draw.randint(1, 2))]


def gibberish(draw: random.Random) -> str:
    """Return random letters."""
    letters = "".join(KEYS)
    return " ".join(
        "".join(draw.choices(letters, k=draw.randint(3, 9))) for _ in range(draw.randint(1, 4))
    )


def measure(answer: Answer, rows: dict[str, list[tuple[set[int], Any]]]) -> dict[str, float]:
    """Return of each row the share in % that is right, and of mails the share answered wrongly.

    Spoilt are those answered wrongly of the mails whose question alone is answered rightly.
    """
    figures = {}
    alone: list[bool] = []
    for name, asked in rows.items():
        found = answer([message for _, message in asked])
        if name in ("foreign", "gibberish"):
            figures[f"{name} refused"] = share(not each for each in found)
            continue
        right = [
            set(each) == wanted if name == "two" else each[:1] == list(wanted)
            for each, (wanted, _) in zip(found, asked, strict=True)
        ]
        figures[name] = share(right)
        if name == "clean":
            alone = right
        if name.startswith("mail"):
            figures[f"{name} spoilt"] = share(
                bool(each) and not ok
                for each, ok, was in zip(found, right, alone, strict=True)
                if was
            )
            figures[f"{name} wrong"] = share(
                bool(each) and not ok for each, ok in zip(found, right, strict=True)
            )
    return figures


def share(flags: Any) -> float:
    """Return how many of some flags are set, in %."""
    return round(100 * float(np.mean(list(flags))), 1)


@contextlib.contextmanager
def index_of(encoder: Any, replies: Sequence[Candidate]) -> Iterator[Index]:
    """Build an index that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        yield Index.build(encoder, replies, f"{folder}/index")


def answers_of(index: Index) -> Answer:
    """Answer by an index."""

    def answer(conversations: Sequence[Any]) -> list[list[int]]:
        found = index.search(list(conversations), 5, distinct=False)
        return [
            [reply.position for place, reply in enumerate(own) if not place or reply.also]
            for own in found
        ]

    return answer


@contextlib.contextmanager
def plain() -> Iterator[None]:
    """Let searches read messages as they come."""

    def read(conversation: Any, history: int | None, speller: Any = None) -> turns.Reading:
        del speller
        texts = [text for _, text in spoken(conversation)]
        kept = texts[:-1] if history is None else texts[max(0, len(texts) - 1 - history) : -1]
        return turns.Reading(kept, Message((texts[-1],), texts[-1]))

    with (
        mock.patch("rejoinder.retrieval.queries.read_parts", read),
        mock.patch.object(opposites, "opposed", return_value=None),
    ):
        yield


def denials(encoder: Any) -> dict[str, float]:
    """Return how often the reply to the opposite is given for sure, another one, the right one."""
    lines = (DATA / "polarity.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["half"] == "report"]
    replies = [
        Candidate(row["text"], examples=tuple((e,) for e in row["examples"])) for row in rows
    ]
    with index_of(encoder, replies) as index:
        calibrated = CalibratedIndex(index)

        def sure(field: str) -> list[tuple[int, int | None]]:
            asked = [(at, [text]) for at, row in enumerate(rows) for text in row[field]]
            found = calibrated.answer([message for _, message in asked], 0.5, 1)
            return [
                (at, each.replies[0].position if each.replies else None)
                for each, (at, _) in zip(found, asked, strict=True)
            ]

        denied = sure("opposite")
        return {
            "opposite": share(given == at for at, given in denied),
            "another": share(given not in (at, None) for at, given in denied),
            "kept": share(given == at for at, given in sure("right")),
        }


def emoji_pairs(encoder: Any) -> dict[str, float]:
    """Return how often an emoji gets its reply, of replies that are known by one emoji each."""
    replies = [
        Candidate(f"Reply number {at}.", examples=((each,),)) for at, each in enumerate(FACES)
    ]
    asked = [(at, text) for at, each in enumerate(FACES) for text in (each * 2, each + each + "!")]
    asked += [(at, each + tone) for at, each in enumerate(FACES[:HANDS]) for tone in SKIN_TONES]
    with index_of(encoder, replies) as index:
        found = answers_of(index)([[text] for _, text in asked])
    return {"right": share(each[:1] == [at] for each, (at, _) in zip(found, asked, strict=True))}


def by_words(replies: Sequence[Candidate]) -> Answer:
    """Answer by the nearest question by BM25."""
    from rejoinder.encoders.words.word_index import WordIndex

    owners, texts = questions_of(replies)
    words = WordIndex.of(texts)
    return lambda asked: [[owners[int(np.argmax(words.scores(each[-1])))]] for each in asked]


def by_letters(replies: Sequence[Candidate]) -> Answer:
    """Answer by the nearest question by character n-grams."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    owners, texts = questions_of(replies)
    grams = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True)
    known = grams.fit_transform(texts)

    def answer(asked: Sequence[Any]) -> list[list[int]]:
        scores = grams.transform([each[-1] for each in asked]) @ known.T
        return [[owners[int(at)]] for at in np.asarray(scores.argmax(axis=1)).ravel()]

    return answer


def questions_of(replies: Sequence[Candidate]) -> tuple[list[int], list[str]]:
    """Return all questions, and whose each is."""
    pairs = [(at, each[-1]) for at, reply in enumerate(replies) for each in reply.examples]
    return [at for at, _ in pairs], [text for _, text in pairs]


if __name__ == "__main__":
    main()

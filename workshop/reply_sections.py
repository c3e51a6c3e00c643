"""The sections of a page of results on replies: their examples, and those that are mined."""

from __future__ import annotations

import statistics

from workshop.result_pictures import Json
from workshop.result_sections import Rows, Section, number


def _examples(figures: Json) -> Rows:
    models = list(dict.fromkeys(row["model"] for row in figures["rows"]))
    recall: dict[str, list[str]] = {}
    kept: dict[str, list[str]] = {}
    for row in figures["rows"]:
        shares = (number(row[key], 1, 100) for key in ("texts_alone", "r_at_1"))
        recall.setdefault(row["bot"], [number(row["bm25"], 1, 100)]).append("; ".join(shares))
        shares = (number(row[f"{kind}_by_default"], 0, 100) for kind in ("kept", "clinc150"))
        kept.setdefault(row["bot"], [""]).append("; ".join(shares))
    return [
        ["", "BM25", *models],
        *([bot, *cells] for bot, cells in recall.items()),
        *([f"{bot}: kept; refused", *cells] for bot, cells in kept.items()),
    ]


def _examples_speed(figures: Json) -> Rows:
    head = ["", "encoding, s", "other work, s", "search, ms", "without examples, ms"]
    keys = (("encoding", 1), ("beside", 1), ("search_ms", 2), ("search_without_ms", 2))
    rows = [
        [row["model"], *(number(row[key], digits) for key, digits in keys)]
        for row in figures["rows"]
    ]
    return [head, *rows]


def _mining(figures: Json) -> Rows:
    sizes = sorted({int(size) for row in figures["rows"] for size in row["sizes"]})
    rows = [
        [row["model"], row["chats"], *(_mined(row["sizes"].get(str(size), {})) for size in sizes)]
        for row in figures["rows"]
    ]
    return [["", "chats", *map(str, sizes)], *rows]


def _mined(levels: Json) -> str:
    return ", ".join(number(level["share"], 0, 100) for level in levels.values())


def _mining_speed(figures: Json) -> Rows:
    return [
        ["", "messages", "seconds", "most memory, MiB"],
        *(
            [
                name,
                *(number(row[key]) for key in ("messages", "seconds", "most_memory_mib")),
            ]
            for name, row in figures["rows"].items()
        ),
    ]


def _desk(figures: Json) -> Rows:
    head = ["chats", "replies", "R@1, %", "learned, %", "among five, %", "lost"]
    rows = []
    for row in figures["rows"]:
        shares = (row["r1_without"], row["r1_learned"], row["r5_without"])
        cells = [number(share, 1, 100) for share in shares]
        rows.append([row["desk"], number(row["replies"]), *cells, number(row["lost"])])
    return [head, *rows]


_MAILS = ("mail 60", "mail 120", "mail 200")
_ROWS = ("clean", *_MAILS, "typo 1", "typo 2", "burst", "emoji", "quote", "two")


def _messages(figures: Json) -> Rows:
    refused = ("foreign refused", "gibberish refused")
    head = ["", *_ROWS, "foreign", "gibberish", "spoilt"]
    faqs = {
        faq: systems
        for faq, systems in figures["results"].items()
        if faq not in ("denials", "emoji pairs")
    }
    rows = []
    for faq, systems in faqs.items():
        for system, row in systems.items():
            cells = [number(row[key], 1) if key in row else "" for key in (*_ROWS, *refused)]
            rows.append([f"{faq}: {system}", *cells, number(_spoilt(row), 1)])
    for system in next(iter(faqs.values())):
        means = {key: statistics.mean(faq[system][key] for faq in faqs.values()) for key in _ROWS}
        spoilt = statistics.mean(_spoilt(faq[system]) for faq in faqs.values())
        cells = [number(means[key], 1) for key in _ROWS]
        rows.append([f"mean: {system}", *cells, "", "", number(spoilt, 1)])
    for system, row in figures["results"]["denials"].items():
        all_three = "; ".join(number(row[key], 1) for key in ("opposite", "another", "kept"))
        rows.append([f"denied; another; kept: {system}", all_three, *[""] * (len(head) - 2)])
    for system, row in figures["results"]["emoji pairs"].items():
        rows.append([f"emoji pairs: {system}", number(row["right"], 1), *[""] * (len(head) - 2)])
    return [head, *rows]


def _spoilt(row: Json) -> float:
    return statistics.mean(row[f"{mail} spoilt"] for mail in _MAILS)


def _foreign(figures: Json) -> Rows:
    kinds = ("bank", "voice", "voice_without_reply", "languages", "gibberish")
    names = ("bank", "voice", "voice, no reply", "languages", "gibberish")
    head = ["", "R@1", *names, "by default: kept", *names]
    rows = []
    for row in figures["rows"]:
        keys = ("r_at_1", *kinds, "kept_by_default", *(f"{kind}_by_default" for kind in kinds))
        cells = [number(row[key], 1) for key in keys]
        rows.append([f"{row['bot']}: {row['model']}", *cells])
    return [head, *rows]


_ASKED = ("plain", "English", "both", "indirect")


def _languages(figures: Json) -> Rows:
    shares = ("plain kept", "English kept", "own refused", "English refused")
    times = ("first build, s", "build, s", "text, ms")
    head = ["", *_ASKED, "mixed", *shares, *times]
    rows = []
    for system, row in figures["means"].items():
        own = [number(row[key], 1) if key in row else "" for key in _ASKED]
        mixed = number(figures["results"][system]["mixed"]["plain"], 1)
        rest = [number(row[key], 1) if key in row else "" for key in shares]
        speed = figures["speed"].get(system, {})
        taken = [number(speed[key], 1) if key in speed else "" for key in times]
        rows.append([system, *own, mixed, *rest, *taken])
    return [head, *rows]


SECTIONS = {
    "languages": Section(
        "An FAQ in other languages",
        "R@1, in %, of a library's five FAQs of 30 answers (Spanish, German, French, Italian,"
        " Portuguese) with three questions each: held-out questions in other words (plain), in"
        " English, both"
        " together, and in words that the FAQ does not have (indirect). Mixed: an FAQ whose 30"
        " answers take turns among the languages, asked in all of them. Then shares, at"
        " `--minimum-confidence 0.5`, of questions that are answered and of everyday messages that"
        " are not. First build: with the background of an empty cache.",
        _languages,
    ),
    "messages": Section(
        "Messages as customers write them",
        "Messages that get their reply first, in %: clean, in mails of so many words, with one and"
        " two typos in the longest word, in bursts, with an emoji, below a quoted mail, two"
        " questions that both get theirs; and foreign and random messages that get none. `plain`:"
        " read as they come, as by earlier versions. BM25 and character n-grams give the nearest"
        " question's. Spoilt: mails, of all lengths, answered wrongly whose question alone is"
        " answered rightly. Mean: of the FAQs. Last rows: messages that deny what a reply answers"
        " and get it with a confidence above 0.5, and requests with other negators that get"
        " theirs; then replies known by one emoji each.",
        _messages,
    ),
    "foreign": Section(
        "Messages that are nobody's",
        "Shares in % of messages without a reply that are refused where 95 % of an index's own are"
        " kept, and by default: questions to a bank (BANKING77), commands to voice assistants"
        " (HWU64, CLINC150), other languages (24, told by their words, too) and"
        " gibberish (18). Indexes and intents are halves that chose no setting. The chatbot has"
        " replies to some of the commands, such as the time and the weather; `no reply` leaves"
        " their intents out.",
        _foreign,
    ),
    "examples": Section(
        "Replies with examples",
        "R@1 of two public bots, in %: by replies alone; with questions. Last rows: the shares of"
        " the bot's questions that the default threshold keeps, and of CLINC150's it refuses.",
        _examples,
    ),
    "desk": Section(
        "A desk that learns",
        "R@1 of the last 500 of 2,000 chats, without learning and with `rejoinder learn` after"
        " every hundred; recall at five without. Lost: acknowledged entries lost to random kills.",
        _desk,
    ),
    "examples_speed": Section(
        "What examples cost",
        "1,000 replies with ten examples each; a search for five replies.",
        _examples_speed,
    ),
    "mining": Section(
        "Mined replies",
        "Coverage of the second half of some chats by replies mined from the first, in % of a"
        " hand-made list's. Columns are numbers of replies. A reply covers generated messages of"
        " its template, and real ones with a cosine of 0.6 (and 0.7) or more. MiniLM judges;"
        " `bi-small` has two of its layers.",
        _mining,
    ),
    "mining_speed": Section(
        "What mining takes",
        "Generated chats, reading not included.",
        _mining_speed,
    ),
}

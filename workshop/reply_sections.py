"""The sections of a page of results on replies: their examples, and those that are mined."""

from __future__ import annotations

from workshop.result_pictures import Json
from workshop.result_sections import Rows, Section, number


def _examples(figures: Json) -> Rows:
    head = ["", "bot", "BM25", "texts alone", "with questions", "own question again"]
    foreign = ("clinc150", "gibberish", "languages")
    rows = [
        [
            row["model"],
            row["bot"],
            *(number(row[key], 1, 100) for key in ("bm25", "texts_alone", "r_at_1")),
            number(row["own_questions"], 1, 100),
            number(row["kept_by_default"], 0, 100),
            *(f"{100 * row[kind]:.0f}, {100 * row[f'{kind}_by_default']:.0f}" for kind in foreign),
        ]
        for row in figures["rows"]
    ]
    return [[*head, "kept by default", *foreign], *rows]


def _examples_speed(figures: Json) -> Rows:
    head = ["", "encoding, s", "beside, s", "search, ms", "without examples, ms"]
    keys = (("encoding", 1), ("beside", 1), ("search_ms", 2), ("search_without_ms", 2))
    rows = [
        [row["model"], *(number(row[key], digits) for key, digits in keys)]
        for row in figures["rows"]
    ]
    return [head, *rows]


def _mining(figures: Json) -> Rows:
    sizes = sorted({int(size) for row in figures["rows"] for size in row["sizes"]})
    rows = []
    for row in figures["rows"]:
        levels = next(iter(row["sizes"].values()))
        for level in levels:
            shares = [row["sizes"].get(str(size), {}).get(level) for size in sizes]
            named = level if level == "template" else f"cosine {level}"
            rows.append([row["model"], row["chats"], named, *map(_mined_share, shares)])
    return [["", "chats", "same", *map(str, sizes)], *rows]


def _mined_share(share: Json | None) -> str:
    if share is None:
        return ""
    mined, hand = number(share["mined"], 1, 100), number(share["by_hand"], 1, 100)
    bound = f", {number(share['bound'], 1, 100)}" if "bound" in share else ""
    return f"**{number(share['share'], 0, 100)}** ({mined}, {hand}{bound})"


def _mining_speed(figures: Json) -> Rows:
    return [
        ["", "messages", "seconds", "replies", "most memory, MiB"],
        *(
            [
                name,
                *(
                    number(row[key])
                    for key in ("messages", "seconds", "replies", "most_memory_mib")
                ),
            ]
            for name, row in figures["rows"].items()
        ),
    ]


def _desk(figures: Json) -> Rows:
    head = ["chats", "replies", "R@1, %", "learned, %", "among five, %"]
    head += ["examples", "kills", "lost"]
    rows = []
    for row in figures["rows"]:
        shares = (row["r1_without"], row["r1_learned"], row["r5_without"])
        cells = [number(share, 1, 100) for share in shares]
        counts = [number(row[key]) for key in ("examples", "kills", "lost")]
        rows.append([row["desk"], number(row["replies"]), *cells, *counts])
    return [head, *rows]


def _feedback_cost(figures: Json) -> Rows:
    rows = [["", "median, ms", "99th percentile, ms"]]
    for row in figures["rows"]:
        if "p50_ms" in row:
            rows.append([row["what"], number(row["p50_ms"], 2), number(row["p99_ms"], 2)])
        else:
            title = f"{row['what']}: {number(row['with'])}, without {number(row['without'])}"
            rows.append([title, number(row["ratio"], 3), ""])
    return rows


SECTIONS = {
    "examples": Section(
        "Replies with examples",
        "R@1 of two public bots; foreign messages below the score that 95 % of a bot's questions"
        " reach, and below the default.",
        _examples,
    ),
    "desk": Section(
        "A desk that learns",
        "R@1 of the last 500 of 2,000 chats, without learning and with `rejoinder learn` after"
        " every hundred; the right reply among five without. The desk is killed at random; lost"
        " are acknowledged entries that are not in the log at the end.",
        _desk,
    ),
    "feedback_cost": Section(
        "What feedback costs",
        "One client; the last row is replies a second under full load, and the ratio.",
        _feedback_cost,
    ),
    "examples_speed": Section(
        "What examples cost",
        "1,000 replies with ten examples each. Building takes encoding and what is beside it;"
        " a search is one of five replies to one message.",
        _examples_speed,
    ),
    "mining": Section(
        "Mined replies",
        "What replies mined from the first half of some chats cover of the second half, in %"
        " of what a list made by hand covers; the head of a column is the number of replies."
        " In brackets: covered by the mined list, by hand, by the best list of the second half"
        " itself. Generated chats: a message is covered by a reply of its template, and by"
        " hand are the templates used most. Real chats: it is covered from a cosine on, of"
        " MiniLM, and by hand is the best list for somebody who has read the first half and"
        " judges as MiniLM does. `bi-small` has two of MiniLM's layers.",
        _mining,
    ),
    "mining_speed": Section(
        "What mining takes",
        "Generated chats, reading not included.",
        _mining_speed,
    ),
}

"""The columns or fields that hold a reply, its title and its questions, by their names."""

from __future__ import annotations

import difflib
import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.columns import (
    INTENT,
    QUESTIONS,
    REPLY,
    columns_of,
    find_column,
    fold,
    is_name,
    name_keys,
)
from rejoinder.corpora.forms.csv_pairs import pair_columns
from rejoinder.corpora.readers.flags import NO, YES, word_of
from rejoinder.corpora.readers.help_desks.replies import ACTIONS
from rejoinder.errors import InputError
from rejoinder.patterns import MatchPattern, match_pattern

# taken for the reply where none of `REPLY` is there
BODY = ("content", "body", "message", "body_text", "body_html")
_ASKED_BODY = frozenset(BODY) - {"content"}  # what a customer wrote, beside "Suggested reply"
TITLE = ("title", "name", "short_code", "shortcut", "subject", "heading")
# German, Dutch, French, Spanish, Portuguese, Italian, Polish
_REPLY_ABROAD = ("antwort", "antwoord", "réponse", "reponse", "respuesta", "resposta", "risposta",
                 "odpowiedź")  # fmt: skip
_TITLE_ABROAD = ("titel", "titre", "título", "titulo", "titolo", "tytuł")
_QUESTIONS_ABROAD = ("frage", "fragen", "vraag", "vragen", "pregunta", "preguntas", "pergunta",
                     "perguntas", "domanda", "domande", "pytanie", "pytania")  # fmt: skip
ROLE_NAMES = {
    "text": (*REPLY, *_REPLY_ABROAD, *BODY),
    "title": (*TITLE, *_TITLE_ABROAD),
    "questions": (*QUESTIONS, *_QUESTIONS_ABROAD),
}
# of a column of a table; a field of a record under such a name holds several
_REPLIES = ("answers", "replies", "responses", "antworten", "antwoorden", "réponses", "respuestas",
            "respostas", "risposte", "odpowiedzi")  # fmt: skip
WRITTEN_BY = ("author", "author_id", "sender", "sender_id", "sender_name", "from", "from_id",
              "from_name", "speaker", "user", "user_id", "username")  # fmt: skip
_ANSWERS = frozenset(("response", "reply", "answer", *ACTIONS))
KNOWN_COLUMNS = frozenset(itertools.chain(*ROLE_NAMES.values()))
# the same with a word in front or behind: "Canned Response", "Sample questions", "Answer text"
_PREPARED = (
    "canned|suggested|agent|bot|support|our|standard|saved|prepared|approved|official|model"
    "|recommended|sample|template|example|macro|chat|email"
)
_ASKED = "sample|example|customer|user|alternative|alternate|common|similar|typical|training"
_LANGUAGE = "text|body|content|en|de|fr|es|it|nl|pt|english|german|french|spanish"
_WORDED = {
    "text": match_pattern(
        rf"(?:(?:{_PREPARED})_)?(?:response|reply|answer|snippet)(?:_(?:{_LANGUAGE}))?"
        r"|macro_(?:text|body|message|content)"
    ),
    "questions": match_pattern(
        rf"(?:(?:{_ASKED})_)?(?:questions?|examples|phrases|utterances)(?:_(?:{_LANGUAGE}))?"
    ),
}
_SEVERAL = match_pattern(
    rf"(?:(?:{_ASKED})_)?(?:questions|examples|phrases|utterances|patterns)(?:_(?:{_LANGUAGE}))?"
    r"|fragen|vragen|preguntas|perguntas|domande|pytania"
)
_NUMBERED = match_pattern(r"(?:question|utterance|phrase|pattern)s?_?\d{1,2}")
_ALIKE = 0.8  # least likeness of a name and a usual one, of which it may be a slip
_SHORT = {"text": "a", "questions": "q"}


def reply_columns(
    names: Sequence[str],
    choice: Choice,
    where: str,
    kind: str = "column",
    records: Sequence[Mapping[str, Any]] = (),
) -> dict[str, str]:
    """Return the columns of text, title and questions. InputError: no reply, or two that may be.

    The first records tell whether a column such as "agent reply" holds replies, or yes and no.
    """
    columns = columns_of(names, ROLE_NAMES, choice, where)
    if "text" not in choice.columns:
        _refuse_two_replies(names, columns, records, choice, where)
        columns = _by_other_names(names, columns, records)
    if "text" not in columns and kind == "column":
        columns = _with_replies(names, columns, (*ACTIONS, *_REPLIES), records)
    if "text" not in columns:
        if len(names) == 1 and kind == "column" and is_name(names[0]):
            return {"text": names[0]}
        headless = "; without a header: --set format=table,header=no --set columns=text=1"
        advice = choice.advice(
            "name it with --set columns=text=NAME, of its questions with "
            f"columns=text=NAME,questions=NAME{headless if kind == 'column' else ''}",
            f"rename the {kind}s of the replies and their questions to answer and question",
        )
        *usual, last = (*REPLY, *BODY)
        raise InputError(
            f"{where}: no {kind} {', '.join(usual)} or {last}; there is "
            f"{', '.join(map(str, names))[:200] or 'none'}: {advice}"
        )
    if "text" not in choice.columns:
        refuse_messages(names, columns, choice, where)
    return columns


def _with_replies(
    names: Sequence[str],
    columns: Mapping[str, str],
    wanted: Sequence[str],
    records: Sequence[Mapping[str, Any]] = (),
) -> dict[str, str]:
    """Return a table's columns, with the first of the wanted ones as that of its replies.

    One whose cells are numbers counts replies, and holds none.
    """
    texts = [name for name in names if not _are_flags(name, records)]
    name = find_column(texts, wanted)
    return dict(columns) if name is None else {"text": name, **columns}


def _refuse_two_replies(
    names: Sequence[str],
    columns: Mapping[str, str],
    records: Sequence[Mapping[str, Any]],
    choice: Choice,
    where: str,
) -> None:
    """Raise InputError if one of two columns may be the reply, and nothing tells which."""
    rivals = [name for name in REPLY if find_column(names, [name]) is not None]
    body = columns.get("text", "")
    worded = _worded_reply(names, columns)
    is_clear = worded is None or _are_flags(worded, records)
    if not is_clear and worded is not None:
        is_blank = bool(records) and not any(map(word_of, _cells(worded, records)))
        is_asked = fold(body) in _ASKED_BODY or _has_questions(names, columns)
        if is_blank or not is_asked:
            rivals = [body, worded]
    if len(rivals) > 1:
        advice = choice.advice(
            f"say which: --set columns=text={rivals[-1]}", "rename or delete all but one"
        )
        raise InputError(f"{where}: {' and '.join(rivals)} may both be the reply; {advice}")


def _has_questions(names: Sequence[str], columns: Mapping[str, str]) -> bool:
    return "questions" in columns or bool(numbered_questions(tuple(names)))


def _worded_reply(names: Sequence[str], columns: Mapping[str, str]) -> str | None:
    """Return the column such as "Suggested reply" beside one such as "message"; None: no such."""
    if fold(columns.get("text", "")) not in BODY:
        return None
    taken = columns.values()
    worded = [name for name in names if name not in taken and _is_worded(name, _WORDED["text"])]
    return worded[0] if len(worded) == 1 else None


def _cells(name: str, records: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [record.get(name) for record in records]


def _are_flags(name: str, records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the cells of a column are yes, no, or without a letter, and not all blank."""
    words = [word for word in map(word_of, _cells(name, records)) if word]
    return bool(words) and all(
        word in YES | NO or not any(map(str.isalpha, word)) for word in words
    )


def _by_other_names(
    names: Sequence[str], columns: Mapping[str, str], records: Sequence[Mapping[str, Any]] = ()
) -> dict[str, str]:
    """Return the columns with those of a reply and its questions that no usual name has.

    Beside "Suggested reply" a "message" is no reply: it is the question, if there is no other.
    """
    named = dict(columns)
    has_questions = _has_questions(names, columns)
    body = columns.get("text", "")
    worded = _worded_reply(names, columns)
    if has_questions and fold(body) in BODY:
        named["text"] = ""
    elif worded is not None and fold(body) in _ASKED_BODY and not _are_flags(worded, records):
        return {**columns, "text": worded, "questions": body}
    missing = [role for role in _WORDED if not named.get(role)]
    short = {role: find_column(names, [name]) for role, name in _SHORT.items()}
    if len(missing) == len(short) and None not in short.values():
        return {**columns, **{role: name for role, name in short.items() if name is not None}}
    by_words = {}
    for role in missing:
        worded_names = [
            name for name in names if name not in named.values() and _is_worded(name, _WORDED[role])
        ]
        if len(worded_names) == 1:
            by_words[role] = worded_names[0]
    return _with_pair(names, {**columns, **by_words}, records)


def _with_pair(
    names: Sequence[str], columns: dict[str, str], records: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """Return the columns with that of the questions, if they are known as pairs: "msg, reply"."""
    if _has_questions(names, columns) or "text" not in columns:
        return columns
    roles = dict(zip(pair_columns(names), names, strict=False))
    asked = roles.get("context", "")
    is_pair = roles.get("response") == columns["text"] and asked not in columns.values()
    is_text = all(isinstance(cell, str | None) for cell in _cells(asked, records))
    is_question = is_pair and is_text and fold(asked) != "context"
    return {**columns, "questions": asked} if is_question else columns


def _is_worded(name: str, pattern: MatchPattern[str]) -> bool:
    """Return whether a name is one in other words; what it has in brackets does not count."""
    keys = name_keys(str(name).partition("(")[0])
    return any(pattern.fullmatch(key) for key in keys)


def holds_several(name: str) -> bool:
    """Return whether a column's name says that a cell holds several questions."""
    return _is_worded(name, _SEVERAL)


def answering_columns(names: Sequence[str]) -> dict[str, str]:
    """Return a table's columns of replies, titles and questions by their names; none is chosen."""
    columns = answering_fields(names)
    return columns if "text" in columns else _with_replies(names, columns, _REPLIES)


def answering_fields(names: Sequence[str]) -> dict[str, str]:
    """Return a record's fields of a reply, its title and its questions by their names."""
    return _by_other_names(names, columns_of(names, ROLE_NAMES, Choice(), ""))


def names_a_reply(names: Iterable[str]) -> bool:
    """Return whether one of the names of a record's fields is that of a reply."""
    return "text" in _named_roles(tuple(names))


def names_questions_too(names: Iterable[str]) -> bool:
    """Return whether the names of a record's fields are those of a reply and of its questions."""
    return {"text", "questions"} <= _named_roles(tuple(names))


@functools.lru_cache(maxsize=1024)
def _named_roles(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(answering_fields(names))


@functools.lru_cache(maxsize=1024)
def numbered_questions(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns that hold a question each: `question 1`, `question 2`."""
    return tuple(name for name in names if _NUMBERED.fullmatch(fold(name)))


def roles_of(columns: Mapping[str, str], numbered: Sequence[str]) -> str:
    """Return in words what each column is taken for."""
    asked = [columns["questions"]] if "questions" in columns else []
    questions = dict.fromkeys([*asked, *numbered])
    roles = dict(columns)
    if questions:
        roles["questions"] = ", ".join(questions)
    return ", ".join(f"{role} = {roles[role]}" for role in ROLE_NAMES if role in roles)


def misspelt(names: Sequence[str], columns: Mapping[str, str]) -> list[str]:
    """Return notes on columns that are named almost as one of a title or of questions would be."""
    notes = []
    for role in ("title", "questions"):
        near = (
            (name, word)
            for name in names
            for word in difflib.get_close_matches(fold(name), ROLE_NAMES[role], 1, _ALIKE)
            if name not in columns.values()
            and role not in columns
            and not _NUMBERED.fullmatch(fold(name))
        )
        notes += [
            f"{name} is a field of the replies; if it is their {role}, name the column {word}"
            for name, word in near
        ]
    return notes


def refuse_messages(
    names: Sequence[str], columns: Mapping[str, str], choice: Choice, where: str
) -> None:
    """Raise InputError if the text of a record is what somebody wrote to a bot or in a chat."""
    if fold(columns["text"]) in _ANSWERS or {"title", "questions"} & columns.keys():
        return
    intent = find_column(names, INTENT)
    author = find_column(names, WRITTEN_BY)
    if intent is None and author is None:
        return
    name = intent if intent is not None else author
    advice = choice.advice(
        f"say that they are replies: --set columns=text={columns['text']}",
        f"rename the field {columns['text']} to answer if they are replies",
    )
    raise InputError(
        f"{where}: with the field {name} these are messages that people wrote, not replies; use "
        f"`rejoinder {'intents train' if intent is not None else 'data chats'}`, or {advice}"
    )

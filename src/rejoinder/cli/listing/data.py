"""`rejoinder list corpora` and `formats`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from rejoinder.cli.arguments import (
    Json,
)
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError

_READ_BY = {
    "replies": "rejoinder index build MODEL FILE -o INDEX",
    "chats": "rejoinder data chats FILE -o DIR",
}


def corpora(
    source: Annotated[
        str | None, typer.Argument(help="Corpus to describe. Default: list all.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the corpora that `rejoinder data` reads, or describe one: format, licence, settings.

    Example: rejoinder list corpora reddit
    """
    from rejoinder.corpora.registry.sources import CORPORA, find_corpus, settings_of

    if source is None:
        width = max(map(len, CORPORA))
        lines = [f"{name:<{width}}  {corpus.title}" for name, corpus in CORPORA.items()]
        lines += ["", "rejoinder list corpora SOURCE describes one."]
        titles = {name: corpus.title for name, corpus in CORPORA.items()}
        emit({"sources": titles}, as_json, lambda _: "\n".join(lines))
        return
    corpus = find_corpus(source)
    facts = {name: getattr(corpus, name) for name in ("reads", "licence", "origin", "expected")}
    settings = settings_of(corpus)
    lines = [f"{corpus.name}: {corpus.title}"]
    lines += [f"{name:<9} {fact}" for name, fact in facts.items() if fact]
    lines += ["", "settings (--set NAME=VALUE):" if settings else "no settings"]
    for setting in settings:
        default = json.dumps(setting.default, default=str)
        lines.append(f"  {setting.name}={default}  ({setting.kind})")
        lines.append(f"      {setting.meaning}")
    listed = [
        {"name": item.name, "type": item.kind, "default": item.default, "meaning": item.meaning}
        for item in settings
    ]
    result = {"name": corpus.name, "title": corpus.title, **facts, "settings": listed}
    emit(result, as_json, lambda _: "\n".join(lines))


def formats(
    name: Annotated[
        str | None, typer.Argument(help="Format to describe. Default: list all.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the file formats of replies and chats, and how to export them from each tool.

    `rejoinder index build` reads replies, `rejoinder data chats` reads chats. The format is
    detected; --set format=NAME overrides it.

    Example: rejoinder list formats whatsapp
    """
    from rejoinder.corpora.registry.recognition import FORMS

    if name is not None and name not in FORMS:
        raise InputError(f"no form {name!r}; there are {', '.join(FORMS)}")
    forms = [form for form in FORMS.values() if name in (None, form.name)]
    width = max(len(form.name) for form in forms)
    lines: list[str] = []
    for holds, verb in _READ_BY.items():
        listed = [form for form in forms if form.holds == holds]
        lines += [*([""] if lines else []), f"{holds}: {verb}"] if listed else []
        for form in listed:
            lines += [f"  {form.name:<{width}}  {form.title}", f"  {'':<{width}}    {form.export}"]
    facts = [
        {"name": form.name, "holds": form.holds, "title": form.title, "export": form.export}
        for form in forms
    ]
    emit({"formats": facts}, as_json, lambda _: "\n".join(lines))

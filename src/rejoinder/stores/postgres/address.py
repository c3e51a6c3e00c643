"""The address of an index in PostgreSQL: postgresql://HOST/DB?index=NAME."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from rejoinder.errors import InputError, MissingExtraError
from rejoinder.patterns import match_pattern, search_pattern

_NAME = match_pattern(r"[a-z0-9][a-z0-9_-]{0,47}")
_HOST = r"(?:\[[0-9a-fA-F:.%]*+\]|[^\s@:/?#\[\],]*+)(?::\d*+)?+"
_HOSTS = match_pattern(rf"{_HOST}(?:,{_HOST})*+")
_BROKEN_CODE = search_pattern(r"%(?![0-9a-fA-F]{2})")
_FORM = "postgresql://HOST/DB?index=NAME"


@dataclass(frozen=True, slots=True)
class Address:
    """A database, and the name of an index in it."""

    connection: str = field(repr=False)  # libpq's connection string, which may hold a password
    shown: str  # the same for people, without user and password
    index: str

    @property
    def schema(self) -> str:
        """The schema that holds all of the index."""
        return f"rejoinder_{self.index}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse an address; parameters beside `index` are libpq's, such as `sslmode`.

        The usual variables (PGPASSWORD, PGSERVICE, ...) and files (~/.pgpass) complete it.
        """
        try:
            from psycopg import ProgrammingError
            from psycopg.conninfo import conninfo_to_dict
        except ImportError as error:
            raise MissingExtraError("an index in PostgreSQL", "postgres") from error
        parts = _split(text)
        shown = _without_secrets(parts)
        values = parse_qsl(parts.query, keep_blank_values=True)
        names = [value for key, value in values if key == "index"]
        if len(names) != 1 or not _NAME.fullmatch(names[0]):
            raise InputError(
                f"{shown}: an index in PostgreSQL is named {_FORM}, with a NAME of "
                "at most 48 small letters, digits, _ and -"
            )
        # as it was written: libpq reads + as itself, and options hold spaces
        own = [
            part for part in parts.query.split("&") if unquote(part.partition("=")[0]) != "index"
        ]
        rest = "&".join(own)
        connection = (
            f"postgresql://{parts.netloc}{parts.path}?{rest}"  # `urlunsplit` drops an empty host
        )
        try:
            conninfo_to_dict(connection)
        except ProgrammingError as error:
            reason = " ".join(str(error).split())
            raise InputError(
                f"{shown} is not an address of PostgreSQL ({reason}); it is {_FORM}"
            ) from None
        return cls(connection, shown, names[0])


def _split(text: str) -> SplitResult:
    """Return the parts of an address.

    One whose password holds a character that ends it is refused, and not shown: the rest of the
    password would pass for a host, a database or a parameter.
    """
    try:
        parts = urlsplit(text)
    except ValueError:  # of brackets
        parts = SplitResult("", "", "@", "", "")  # is refused below
    user, _, hosts = parts.netloc.rpartition("@")
    further = parts.path if user else f"{parts.path}{parts.query}"
    is_cut = "#" in text or "@" in f"{user}{further}" or not _HOSTS.fullmatch(hosts)
    if is_cut or _BROKEN_CODE.search(text):
        raise InputError(
            f"the address of PostgreSQL is not {_FORM}, or its user or password holds a character"
            " that has to be written as a code: % as %25, / as %2F, ? as %3F, # as %23, @ as %40"
        )
    return parts


def _without_secrets(parts: SplitResult) -> str:
    """Return an address as people may see it: host, database and index."""
    host = parts.netloc.rpartition("@")[2]
    values = [(key, value) for key, value in parse_qsl(parts.query) if key in ("host", "index")]
    query = urlencode(values, safe="/")
    return f"postgresql://{host}{parts.path}{'?' if query else ''}{query}"

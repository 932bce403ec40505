"""What each kind of executor and detector takes: its target, its options, its clauses. Data, and nothing else.

The analysis checks programs by these tables, executors and detectors may rely on what they say, and docs/language.md
lists them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from augury.algebra.wiring import ExecutorKind, SourceKind


class Takes(StrEnum):
    """What an option may be set to; `ENV 'NAME'` fits everywhere, and is read when the program starts."""

    TEXT = "a text"
    WHOLE = "a whole number"
    LENGTH = "a duration"
    TRUTH = "TRUE or FALSE"


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a kind. A name that ends with `_` stands for all that begin so: `header_` for `header_accept`.

    A number lies from `least` to `most`, a duration is longer than nothing, a text is one of `words` if there are any.
    """

    name: str
    takes: Takes
    meaning: str
    needed: bool = False
    least: int = 0
    most: int | None = None
    words: tuple[str, ...] = ()

    @property
    def is_family(self) -> bool:
        """Whether it stands for all options that begin with its name."""
        return self.name.endswith("_")

    @property
    def shown(self) -> str:
        """Its name as people read it."""
        return f"{self.name}…" if self.is_family else self.name


@dataclass(frozen=True, slots=True)
class Target:
    """What stands behind the kind: in words, as an example, and as a regular expression of the whole text.

    There are at least `least` texts and at most `most` of them (None: as many as one likes).
    """

    what: str
    example: str
    pattern: str = r"[^\0]+"
    least: int = 1
    most: int | None = 1


class Looks(StrEnum):
    """How a detector gets at its source."""

    POLLED = "polled"
    FOLLOWED = "followed"
    PUSHED = "pushed"


class Clause(StrEnum):
    """The clauses of a DETECT that some kinds have and others have not."""

    ITEMS = "ITEMS"
    FIELDS = "FIELDS"
    NEXT = "NEXT"


@dataclass(frozen=True, slots=True)
class ExecutorForm:
    """What `BIND … TO KIND` takes; the target of EVENT is a class, which is no text."""

    target: Target
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceForm:
    """What `DETECT … FROM KIND` takes. `lists_all` says that one look shows all there is, so that items can vanish."""

    target: Target
    looks: Looks
    lists_all: bool = False
    clauses: frozenset[Clause] = frozenset({Clause.FIELDS})
    needed: frozenset[Clause] = frozenset()
    options: tuple[Option, ...] = ()


# ---- options that several kinds have

_TIMEOUT: Final = Option("timeout", Takes.LENGTH, "how long one try may take")
_TRIED: Final = (
    Option("retries", Takes.WHOLE, "how often it is tried again before it is a dead letter", most=1_000),
    Option("concurrency", Takes.WHOLE, "how many are carried out at a time", least=1, most=1_000),
    _TIMEOUT,
)
_PORT: Final = Option("port", Takes.WHOLE, "the port of the server", least=1, most=65_535)
_HEADER: Final = Option("header_", Takes.TEXT, "a header: `header_x_team` is X-Team")
_URL: Final = Option("url", Takes.TEXT, "the server: nats://host:4222", needed=True)
_USER: Final = (
    Option("user", Takes.TEXT, "who logs in"),
    Option("password", Takes.TEXT, "their password; better ENV than a text"),
)
_MQTT: Final = (
    Option("host", Takes.TEXT, "the server", needed=True),
    _PORT,
    *_USER,
)
_QOS: Final = Option("qos", Takes.WHOLE, "the quality of service", most=2)
_ASKED: Final = (
    _TIMEOUT,
    Option("method", Takes.TEXT, "how it is asked for", words=("GET", "POST")),
    Option("body", Takes.TEXT, "what is sent along"),
    _HEADER,
)
_PAGES: Final = Option("pages", Takes.WHOLE, "how many pages are followed at most", least=1)
_TABLES: Final = ("jsonl", "ndjson", "json", "csv", "tsv")

_WEB: Final = Target("a URL", "https://example.org/list.json", r"https?://[^\s/]\S*")
_FUNCTION: Final = Target(
    "module:function", "shop.actions:order", r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*"
)
_DATABASE: Final = Target("a URL of a database", "sqlite:///orders.db", r"[A-Za-z][\w.+-]*://[^\0]*")

EXECUTOR_FORMS: Final = MappingProxyType(
    {
        ExecutorKind.LOG: ExecutorForm(Target("nothing", "", least=0, most=0)),
        ExecutorKind.PYTHON: ExecutorForm(_FUNCTION, _TRIED),
        ExecutorKind.COMMAND: ExecutorForm(Target("a command and its words", "notify-send", most=None), _TRIED),
        ExecutorKind.WEBHOOK: ExecutorForm(
            Target("a URL", "https://example.org/hook", _WEB.pattern),
            (*_TRIED, Option("secret", Takes.TEXT, "what requests are signed with: whsec_…"), _HEADER),
        ),
        ExecutorKind.EVENT: ExecutorForm(Target("a subscribed class", "Approved", least=0, most=0), _TRIED),
        ExecutorKind.SQL: ExecutorForm(
            _DATABASE, (Option("table", Takes.TEXT, "the table that gets a row", needed=True), *_TRIED)
        ),
        ExecutorKind.MAIL: ExecutorForm(
            Target("an address", "owner@example.org", r"[^@\s,;<>]+@[^@\s,;<>]+"),
            (
                Option("server", Takes.TEXT, "the mail server", needed=True),
                _PORT,
                Option("sender", Takes.TEXT, "the address it comes from", needed=True),
                Option("subject", Takes.TEXT, "the subject line"),
                *_USER,
                Option("tls", Takes.TRUTH, "whether the connection is encrypted"),
                *_TRIED,
            ),
        ),
        ExecutorKind.KAFKA: ExecutorForm(
            Target("a topic", "orders", r"[A-Za-z0-9._-]{1,249}"),
            (
                Option("servers", Takes.TEXT, "host:port, several with commas between them", needed=True),
                Option("key", Takes.TEXT, "the key of the messages"),
                *_TRIED,
            ),
        ),
        ExecutorKind.NATS: ExecutorForm(
            Target("a subject without wildcards", "orders.new", r"[^\s*>\0]+"), (_URL, *_TRIED)
        ),
        ExecutorKind.MQTT: ExecutorForm(
            Target("a topic without wildcards", "orders/new", r"[^#+\0]+"), (*_MQTT, _QOS, *_TRIED)
        ),
    }
)
"""What can be bound to, and what it takes."""

_LISTED: Final = frozenset({Clause.ITEMS, Clause.FIELDS, Clause.NEXT})
_FOUND: Final = frozenset({Clause.ITEMS, Clause.FIELDS})
_FORM: Final = (
    Option("form", Takes.TEXT, "the form that is filled in and sent first"),
    Option("form_", Takes.TEXT, "a field of that form: `form_user`"),
)

SOURCE_FORMS: Final = MappingProxyType(
    {
        SourceKind.FILE: SourceForm(
            Target("a file", "readings.jsonl"),
            Looks.FOLLOWED,
            options=(Option("format", Takes.TEXT, "what is in it, if its name does not say", words=_TABLES),),
        ),
        SourceKind.DIRECTORY: SourceForm(
            Target("a folder", "inbox"),
            Looks.POLLED,
            options=(
                Option("format", Takes.TEXT, "what is in it, if its name does not say", words=(*_TABLES, "parquet")),
            ),
        ),
        SourceKind.HTTP: SourceForm(_WEB, Looks.POLLED, True, _LISTED, options=(*_ASKED, _PAGES)),
        SourceKind.HTML: SourceForm(
            Target("a URL", "https://example.org/list.html", _WEB.pattern),
            Looks.POLLED,
            True,
            _LISTED,
            _FOUND,
            (*_ASKED, _PAGES, *_FORM),
        ),
        SourceKind.FEED: SourceForm(
            Target("a URL", "https://example.org/atom.xml", _WEB.pattern), Looks.POLLED, True, options=_ASKED
        ),
        SourceKind.SQL: SourceForm(_DATABASE, Looks.POLLED, True, _FOUND, frozenset({Clause.ITEMS})),
        SourceKind.NATS: SourceForm(
            Target("a subject", "readings.>", r"\S+"),
            Looks.PUSHED,
            options=(
                _URL,
                Option("durable", Takes.TEXT, "the name under which the server keeps the place"),
                Option("stream", Takes.TEXT, "the stream, if it is not the one that has the subject"),
            ),
        ),
        SourceKind.MQTT: SourceForm(
            Target("a topic", "readings/#"),
            Looks.PUSHED,
            # What comes twice is absorbed, so there is nothing that exactly once would add.
            options=(
                *_MQTT,
                replace(_QOS, most=1),
                Option("client", Takes.TEXT, "the name under which the server keeps what is missed"),
            ),
        ),
        SourceKind.PYTHON: SourceForm(
            Target("module:function", "shop.detectors:readings", _FUNCTION.pattern), Looks.POLLED, True
        ),
    }
)
"""What can be detected from, and what it takes."""


def option_of(name: str, options: tuple[Option, ...]) -> Option | None:
    """The option that a name, in whatever case, means; None where the kind has no such option."""
    written = name.casefold()
    exact = next((option for option in options if option.name == written and not option.is_family), None)
    if exact is not None:
        return exact
    return next((o for o in options if o.is_family and written.startswith(o.name) and written != o.name), None)

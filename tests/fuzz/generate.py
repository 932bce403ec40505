"""Texts for the fuzzer, a function of a seed each: made by the grammar, spoilt, and soup.

`grammar_made` follows bicepl.lark rule by rule, with names and types from a pool so small that many programs make
sense; `mutated` spoils such programs and those of examples/; `soup` is bytes and tokens without any order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random

from augury.language.lexer import CONTEXTUAL, RESERVED

EXAMPLES = Path(__file__).parents[2] / "examples"

# What the builder and the analysis refuse in a text that the grammar takes; every other E1xx is a syntax error.
DELIBERATE = frozenset({"E104", "E105", "E106", "E108", "E109", "E110", "E111", "E112", "E113", "E116", "E117"})

_CLASSES = ("A", "B", "C", "D", "Order", "`select`")
_ATTRIBUTES = ("x", "y", "z", "amount")
_KINDS = {
    "number": ("INT", "BIGINT", "DOUBLE", "NUMERIC", "NUMERIC(10, 2)"),
    "text": ("VARCHAR(9)", "STRING", "text"),
    "time": ("TIMESTAMP", "DATE"),
    "truth": ("BOOLEAN",),
}
_TYPES = tuple(word for words in _KINDS.values() for word in words)
_KIND_OF = {word: kind for kind, words in _KINDS.items() for word in words}
_ODD_TYPES = ("NUMERIC(0)", "NUMERIC(3, 5)", "VARCHAR(0)", "INT(3)", "MONEY", "NUMERIC(1, 2, 3)", "VARCHAR(1e3)")
_DEFINITIONS = ("d1", "d2", "d3")
_PARAMETERS = ("p", "q")
_RULES = ("R1", "R2", "R3")
_CORRELATIONS = ("u", "w")
_VARIABLE_OF = {"number": ("I", "J"), "text": ("S",), "time": ("T",), "truth": ("B1",)}
_DURATIONS = ("5d", "10h", "15m", "30s", "0s", "1D")
_ODD_DURATIONS = ("3650000d", "3650001d", "99999999999999999999999d")
_TIMES = ("[1999 06 06 9 20 0]", "[06-10-1999]", "[06 11 1999 0 0 0]", "[1999-06-12T09:20:00Z]", "[2000-01-01]")
_ODD_TIMES = ("[]", "[1999 13 06 9 20 0]", "[soon]", "[1999 01 01 99999999999 0 0]", "[0001-01-01T00:00:00+14:00]")
_CONTEXTS = ("RECENT", "CHRONICLE", "CONTINUOUS", "CUMULATIVE", "UNRESTRICTED")
_TIMING = (
    *("ANNOUNCEMENT", "CHANGE", "CANCELLATION", "RETROACTIVECHANGE", "POSTPONE", "REVOCATION", "FUTURE", "ONTIME"),
    *("LATE", "FIRED", "LATE ( 5h , 1d )"),
)
_CRONS = ("0 9 * * 1-5", "*/5 * * * *", "0 0 31 2 *")
_ODD_CRONS = ("* * * *", "99 * * * *", "@daily", "0-9999999 * * * *", "L * * * x", "² * * * *", "*/0 * * * *")
_ZONES = ("Europe/Vienna", "UTC")
_ODD_ZONES = ("Europe/Wien", "", "../etc", "Europe", "zone.tab", "Z" * 300)
_ODD_LITERALS = (
    *("9" * 38, "9" * 39, "9" * 81, "1e308", "1e309", "2.5E-999", "0." + "0" * 40 + "1", "99999999999999999999d"),
    *("DATE '2026-02-30'", "INT '5'", "'∃x → 🜁'", "TIMESTAMP '9999-12-31T23:59:59-14:00'"),
)
_LITERALS = {
    "number": ("0", "3", "17", "1.5", ".50", "2.", "1e3", "NULL"),
    "text": ("'it''s'", "''", "'a%'", "NULL"),
    "time": ("TIMESTAMP '2026-01-01T09:00:00Z'", "DATE '2026-01-01'"),
    "truth": ("TRUE", "FALSE", "NULL"),
}
_SELECTS = (
    "SELECT {x} FROM {A}",
    "SELECT {x}, {y} AS {z} FROM {A} WHERE {x} > 3 AND occTime - NOW < 5d",
    "SELECT t.{x} FROM (SELECT {x}, occTime FROM {A} UNION SELECT {x}, occTime FROM {B}) t",
    "SELECT a.{x}, b.{y} FROM {A} a JOIN {B} b ON a.{x} = b.{x} WHERE a.occTime BETWEEN b.occTime AND NOW",
    "SELECT {x}, COUNT(*) AS {y}, MAX(occTime) AS t FROM {A} GROUP BY {x} HAVING COUNT(*) > 2",
    "SELECT * FROM {A}",
    "SELECT {x} FROM {A} UNION ALL SELECT {y} FROM {B}",
    "WITH t AS (SELECT {x}, occTime FROM {A}) SELECT {x} FROM t",
    "SELECT CASE WHEN {x} > 1 THEN {x} ELSE 0 END AS {x} FROM {A} ORDER BY {x} LIMIT 3",
    "SELECT {x} FROM {A} LIMIT 3",
    "SELECT rand() AS {x} FROM {A}",
    "SELECT DISTINCT {x} FROM {A} WHERE EXISTS (SELECT 1 FROM {B} WHERE {B}.{x} = {A}.{x})",
    "SELECT {x}, row_number() OVER (PARTITION BY {y} ORDER BY occTime) AS {y} FROM {A}",
    "SELECT {x} FROM",
    "SELECT {x} FROM {A} WHERE {y} LIKE 'a;b%' -- a comment; with a semicolon",
)
_OCCURRING = ("occTime", "t.occTime", "{A}.occTime", "occTime + 5m", "MAX(occTime)", "{x}", "a.occTime - 1d", "5")

_ACTIONS = ("act", "act", "tell", "ACT")
_EXECUTORS = (
    *("LOG", "PYTHON 'a.b:c'", "COMMAND 'a' 'b'", "WEBHOOK 'https://example.org'", "SQL 'sqlite:///a.db'"),
    *("MAIL 'a@example.org'", "KAFKA 'a'", "NATS 'a.b'", "mqtt 'a/b'", "WEBHOOK ENV 'A'", "WEBHOOK", "LOG 'x'"),
    *("PIGEON 'a'", "PYTHON 'a'", "`event` 'A'", "NATS 'a.>'", "WEBHOOK 'x' 'y'", "COMMAND ''", "SQL ENV ''"),
)
_SENSED = (
    *("FILE 'a.jsonl'", "DIRECTORY 'a'", "HTTP 'https://example.org'", "HTML 'https://example.org'", "SQL 'sqlite://'"),
    *("FEED 'https://example.org'", "NATS 'a.>'", "MQTT 'a/#'", "python 'a.b:c'", "HTTP ENV 'A'", "HTTP ''", "RSS 'a'"),
)
_OPTIONS = (
    *(
        "timeout = 10s",
        "retries = 8",
        "secret = ENV 'A'",
        "table = 'a'",
        "url = 'nats://a'",
        "host = 'a'",
        "tls = TRUE",
    ),
    *(
        "servers = 'a:1'",
        "server = 'a'",
        "sender = 'a@b'",
        "header_a = 'b'",
        "form_B = 'c'",
        "format = 'csv'",
        "qos = 1",
    ),
    *("timeout = 0s", "timeout = 5", "retries = - 1", "retries = 1.5", "port = 1e3", "timout = 1s", "header_ = ''"),
    *("qos = FALSE", "format = 'zip'", "RETRIES = ENV 'B'", "pages = 99999999999999999999999", "key = ENV '='"),
)

Leaf = Callable[[str], str | None]
"""A name of a kind of type where an expression stands; None where there is none."""


def grammar_made(seed: int) -> str:
    """A program that the grammar takes; most of its names are declared, and most of its types fit."""
    return _Grammar(Random(f"grammar {seed}")).program()


class _Grammar:
    """One derivation; methods are named after rules of bicepl.lark."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.schemas: dict[str, list[tuple[str, str]]] = {}
        self.counts: dict[str, int] = {}
        """How many arguments a definition or rule takes."""
        self.rule_kinds: dict[str, list[str]] = {}
        self.parameters: tuple[str, ...] = ()
        self.correlations: set[str] = set()
        self.bound: dict[str, str] = {}
        self.used: list[str] = []
        """Of the expression at hand: a definition's parameters, correlation and other variables, and classes."""

    # ---- chance

    def pick(self, options: Sequence[str]) -> str:
        return self.random.choice(options)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def maybe(self, probability: float, text: Callable[[], str]) -> str:
        return text() if self.chance(probability) else ""

    def rarely(self, odd: Sequence[str], usual: Sequence[str]) -> str:
        return self.pick(odd if self.chance(0.02) else usual)

    def listed(self, item: Callable[[], str], least: int = 1, most: int = 3) -> str:
        return " , ".join(item() for _ in range(self.random.randint(least, most)))

    # ---- names

    def class_name(self) -> str:
        return self.pick(list(self.schemas) if self.schemas and self.chance(0.98) else _CLASSES)

    def schema(self, class_name: str) -> list[tuple[str, str]]:
        return self.schemas.get(class_name, [])

    def attribute_of(self, class_name: str, kind: str | None = None) -> str:
        fitting = [name for name, word in self.schema(class_name) if kind is None or _KIND_OF.get(word) == kind]
        if fitting and self.chance(0.98):
            return self.pick(fitting)
        return self.pick(("occTime", "det_time") if self.chance(0.95) else _ATTRIBUTES)

    def names_of(self, schema: Sequence[tuple[str, str]]) -> Leaf:
        def leaf(kind: str) -> str | None:
            fitting = [name for name, word in schema if _KIND_OF.get(word) == kind]
            return self.pick(fitting) if fitting else None

        return leaf

    def known(self, names: Sequence[str]) -> str:
        declared = [name for name in names if name in self.counts]
        return self.pick(declared if declared and self.chance(0.97) else names)

    def duration(self) -> str:
        return self.rarely(_ODD_DURATIONS, _DURATIONS)

    def type_ref(self) -> str:
        return self.pick(_ODD_TYPES if self.chance(0.01) else _TYPES)

    # ---- programs and statements

    def program(self) -> str:
        kinds: list[Callable[[], str]] = [self.subscribed_class]
        others = {
            self.match_class: 6,
            self.composite_class: 6,
            self.select_class: 1,
            self.definition: 4,
            self.ruling: 5,
            self.clock_class: 1,
            self.set_statement: 1,
            self.source_statement: 1,
            self.subscribed_class: 2,
            self.bind: 1,
            self.detect: 1,
        }
        kinds += self.random.choices(list(others), weights=list(others.values()), k=self.random.randint(1, 3))
        texts = [kind() + " ;" for kind in kinds]
        if self.chance(0.1):
            self.random.shuffle(texts)
        return self.pick(("\n", " ", "\n-- between\n")).join(texts)

    def new_class(self) -> tuple[str, list[tuple[str, str]]]:
        fresh = [name for name in _CLASSES if name not in self.schemas]
        name = self.pick(fresh if fresh and self.chance(0.98) else _CLASSES)
        attributes = self.random.sample(_ATTRIBUTES, self.random.randint(0, 3))
        schema = [(attribute, self.type_ref()) for attribute in attributes]
        if self.chance(0.02):
            schema.append((self.pick((*_ATTRIBUTES, "change", "occ_time")), "INT"))
        return name, schema

    def header(self, name: str, schema: Sequence[tuple[str, str]]) -> str:
        """Name, attributes and key."""
        names = [attribute for attribute, _ in schema]
        key = self.random.sample(names, self.random.randint(0, len(names)))
        if self.chance(0.02):
            key.append(self.pick(_ATTRIBUTES))
        attributes = " , ".join(f"{attribute} {word}" for attribute, word in schema)
        return f"EVENT CLASS {name} ( {attributes} ) ID ( {' , '.join(key)} )"

    def lifespan(self) -> str:
        if self.chance(0.15):
            return f"LIFESPAN ( - {self.rarely(('2', '1.0'), ('1',))} )"
        return f"LIFESPAN ( {self.duration()} )"

    def subscribed_class(self) -> str:
        name, schema = self.new_class()
        self.schemas[name] = schema
        mutability = self.pick(("MUTABLE", "IMMUTABLE", "immutable"))
        return f"CREATE {mutability} SUBSCRIBED {self.header(name, schema)} {self.lifespan()}{self.ons(name)}"

    def complex_class(self, source: Callable[[list[tuple[str, str]]], str]) -> str:
        name, schema = self.new_class()
        if self.chance(0.05):  # it may then be derived from itself
            self.schemas[name] = schema
        self.begin(())
        derived = source(schema)
        self.schemas[name] = schema
        return (
            f"CREATE COMPLEX {self.header(name, schema)} {self.maybe(0.5, self.lifespan)} AS {derived}{self.ons(name)}"
        )

    def begin(self, parameters: tuple[str, ...]) -> None:
        """Forget the expression before."""
        self.parameters, self.correlations, self.bound, self.used = parameters, set(), {}, []

    def match_class(self) -> str:
        return self.complex_class(lambda schema: f"MATCH {self.match(self.size())} {self.clauses(schema, 'MATCH')}")

    def composite_class(self) -> str:
        return self.complex_class(
            lambda schema: f"COMPOSITE {self.composite(self.size())} {self.clauses(schema, 'COMPOSITE')}"
        )

    def select_class(self) -> str:
        return self.complex_class(self.select_source)

    def select_source(self, target: list[tuple[str, str]]) -> str:
        first, second = self.class_name(), self.class_name()
        words = {
            "A": first,
            "B": second,
            "x": self.attribute_of(first),
            "y": self.attribute_of(self.pick((first, second))),
            "z": self.pick([name for name, _ in target] or _ATTRIBUTES),
        }
        text = self.pick(_SELECTS).format(**words)
        if self.chance(0.02):
            return text
        return f"{text}\n OCCURRING AT {self.pick(_OCCURRING).format(**words)}"

    def clock_class(self) -> str:
        name, _ = self.new_class()
        self.schemas[name] = []
        if self.chance(0.4):
            schedule = f"EVERY {self.duration()}"
        else:
            cron = self.pick(_ODD_CRONS if self.chance(0.2) else _CRONS)
            schedule = f"AT '{cron}'" + self.maybe(0.5, lambda: f" ZONE '{self.rarely(_ODD_ZONES, _ZONES)}'")
        return f"CREATE CLOCK EVENT CLASS {name} {schedule} {self.maybe(0.3, self.lifespan)}" + self.ons(name)

    def set_statement(self) -> str:
        if self.chance(0.9):
            return f"SET {self.pick(('CHRONON 15m', 'chronon 1s', 'ARCHIVE ON', 'ARCHIVE FALSE', 'HISTORY RETAIN 3d'))}"
        name = self.pick(("CHRONON", "ARCHIVE", "HISTORY RETAIN", "ARCHIV"))
        value = self.pick(("15m", "0s", "ON", "OFF", "TRUE", "5", "5.5", "'x'"))
        return f"SET {name} {value}"

    def definition(self) -> str:
        name = self.pick(_DEFINITIONS)
        parameters = tuple(self.random.sample(_PARAMETERS, self.random.choice((0, 0, 1, 2))))
        if self.chance(0.05):  # it may then be defined by itself
            self.counts[name] = len(parameters)
        self.begin(parameters)
        shown = f"( {' , '.join(parameters)} )" if parameters or self.chance(0.2) else ""
        text = f"DEFINE {name} {shown} = {self.match(self.size())}"
        self.counts[name] = len(parameters)
        return text

    def source_statement(self) -> str:
        name = self.class_name()
        return f"SOURCE {name} FROM COLUMNS ( {self.listed(lambda: f'c AS {self.attribute_of(name)}', 1, 2)} )"

    # ---- acting and sensing

    def bind(self) -> str:
        actions = self.listed(lambda: self.pick(_ACTIONS), 1, 2)
        to = f"EVENT {self.class_name()}" if self.chance(0.3) else self.pick(_EXECUTORS)
        return f"BIND {actions} TO {to} {self.maybe(0.6, self.with_clause)}"

    def with_clause(self) -> str:
        return f"WITH ( {self.listed(lambda: self.pick(_OPTIONS), 1, 3)} )"

    def detect(self) -> str:
        name = self.class_name()
        clauses = [
            self.maybe(0.7, lambda: f"EVERY {self.duration()}"),
            self.maybe(0.4, lambda: f"ITEMS {self.pick((chr(39) * 2, repr('$.a[*]'), repr('SELECT 1')))}"),
            self.maybe(
                0.4, lambda: f"FIELDS ( {self.listed(lambda: f'{self.attribute_of(name)} = {chr(39)}a{chr(39)}')} )"
            ),
            self.maybe(0.1, lambda: "NEXT '$.next'"),
            self.maybe(0.3, lambda: f"FORWARD {self.pick(('ALL', 'CHANGED', 'some'))}"),
            self.maybe(0.2, lambda: f"WITHDRAW {self.pick(('VANISHED', 'gone'))}"),
            self.maybe(0.6, self.with_clause),
        ]
        if self.chance(0.03):
            self.random.shuffle(clauses)
        named = self.maybe(0.3, lambda: f"AS {self.pick(('one', 'two'))}")
        return f"DETECT {name} {named} FROM {self.pick(_SENSED)} {' '.join(clauses)}"

    # ---- rules and triggers

    def ruling(self) -> str:
        """A rule and what uses it."""
        texts = [self.rule(), self.maybe(0.8, self.trigger), self.maybe(0.2, self.rule_group)]
        return " ;\n".join(text for text in texts if text)

    def rule(self) -> str:
        name = self.pick(_RULES)
        schema = [(n, self.type_ref()) for n in self.random.sample(_ATTRIBUTES, self.random.randint(0, 2))]
        given = [f"{n} {word}" if self.chance(0.7) else f"{word} {n}" for n, word in schema]
        leaf = self.names_of(schema)

        def action() -> str:
            if self.chance(0.3):
                target = self.class_name()
                values = [self.scalar(_KIND_OF.get(word, "text"), 1, leaf) for _, word in self.schema(target)]
                return f"POST {target} ( {' , '.join(values)} )"
            return f"act ( {self.listed(lambda: self.any_scalar(1, leaf), 0, 2)} )"

        self.counts[name] = len(schema)
        self.rule_kinds[name] = [_KIND_OF.get(word, "text") for _, word in schema]
        condition = self.maybe(0.6, lambda: f"CONDITION {self.scalar('truth', 2, leaf)}")
        actions = self.maybe(0.97, lambda: f"ACTION {self.listed(action, 1, 2)}")
        others = self.maybe(0.4, lambda: f"ALTERNATIVEACTION {self.listed(action, 1, 2)}")
        return f"RULE {name} ( {' , '.join(given)} ) {condition} {actions} {others}"

    def rule_group(self) -> str:
        return f"RULE GROUP g{self.random.randint(1, 2)} ( {self.listed(lambda: self.known(_RULES), 0)} )"

    def trigger(self) -> str:
        first = self.class_name()
        schema = self.schema(first) if self.chance(0.5) else []
        given = [f"{n} {word}" if self.chance(0.7) else f"{word} {n}" for n, word in schema]
        self.begin(())
        head = f"TRIGGER t{self.random.randint(1, 3)} ( {' , '.join(given)} )"
        if schema or self.chance(0.5):
            head += f" TRIGGEREVENT {first}" + self.maybe(0.1, lambda: f" OR {self.class_name()}")
        if not schema or self.chance(0.5):
            head += f" COMPOSITEEVENT {self.composite(self.size())} {self.clauses(None, 'COMPOSITE')}"
        returns = self.maybe(0.2, lambda: f"RETURNS {self.type_ref()} : {self.known(_RULES)}")
        leaf = self.names_of(schema)
        policy = self.maybe(0.2, lambda: f"ON FAILURE {self.pick(('STOP', 'CONTINUE', 'IGNORE'))}")
        return f"{head} RULESTRUC {self.side_by_side(2, leaf)} {policy} {returns}"

    def side_by_side(self, depth: int, leaf: Leaf) -> str:
        return self.listed(lambda: self.one_after(depth, leaf), 1, 2)

    def one_after(self, depth: int, leaf: Leaf) -> str:
        return " > ".join(self.rule_step(depth, leaf) for _ in range(self.random.randint(1, 2)))

    def rule_step(self, depth: int, leaf: Leaf) -> str:
        if depth > 0 and self.chance(0.3):
            return f"( {self.side_by_side(depth - 1, leaf)} )"
        rule = self.known(_RULES)
        kinds = self.rule_kinds.get(rule, [])
        if not kinds and self.chance(0.8):
            return rule
        return f"{rule} ( {' , '.join(self.rule_argument(kind, leaf) for kind in kinds)} )"

    def rule_argument(self, kind: str, leaf: Leaf) -> str:
        return f"RETURNED ( {self.known(_RULES)} )" if self.chance(0.15) else self.scalar(kind, 1, leaf)

    # ---- clauses and conditions

    def clauses(self, target: Sequence[tuple[str, str]] | None, kind: str) -> str:
        def leaf(wanted: str) -> str | None:
            fitting = [name for name, found in self.bound.items() if found == wanted]
            if fitting and self.chance(0.5):
                return self.pick(fitting)
            return self.qualified(wanted)

        of_match, of_class = kind == "MATCH", bool(target)
        options: list[tuple[float, Callable[[], str]]] = [
            (0.05, lambda: f"OVER ( {' , '.join(dict.fromkeys(self.used))} )"),
            (0.03, lambda: f"PARTITION BY {self.attribute_of(self.class_name())}"),
            (0.03, lambda: "ORDER BY OCCURRENCE" + self.maybe(0.5, lambda: f" ALLOWING {self.duration()}")),
            (0.15, lambda: f"WHERE {self.scalar('truth', 2, leaf)}"),
            (0.3, lambda: f"WITHIN {self.duration()}"),
            (0.1 if of_match else 0.002, lambda: self.collect(target or (), leaf)),
            (0.002 if of_match else 0.3, lambda: f"CONTEXT {self.rarely(('Chronicl',), _CONTEXTS)}"),
            (0.25 if of_class else 0.002, lambda: f"RETURN {self.returned(target or (), leaf)}"),
        ]
        found = [text() for probability, text in options if self.chance(probability)]
        if self.chance(0.02):
            self.random.shuffle(found)
        return " ".join(found)

    def collect(self, target: Sequence[tuple[str, str]], leaf: Leaf) -> str:
        if not target or self.chance(0.5):
            return f"COLLECT {self.rarely(('LATEST',), ('RECENT', 'EARLIEST', 'ALL'))}"
        number = self.scalar("number", 0, leaf)
        call = self.rarely(("AVG ( )", f"ABS ( {number} )"), ("COUNT ( * )", f"MAX ( {number} )", f"SUM ( {number} )"))
        return f"COLLECT {call} AS {self.pick([name for name, _ in target])}"

    def returned(self, target: Sequence[tuple[str, str]], leaf: Leaf) -> str:
        name, word = self.random.choice(target) if target else ("x", "INT")
        return f"{self.scalar(_KIND_OF.get(word, 'text'), 1, leaf)} AS {name}"

    def qualified(self, kind: str) -> str | None:
        if not self.used:
            return None
        name = self.pick(self.used)
        fitting = [a for a, word in self.schema(name) if _KIND_OF.get(word) == kind]
        if kind == "time":
            fitting += ["occTime", "detTime"]
        return f"{name} . {self.pick(fitting)}" if fitting else None

    def ons(self, name: str) -> str:
        if self.chance(0.75):
            return ""

        def leaf(kind: str) -> str | None:
            if kind == "truth":
                return self.pick(_TIMING)
            version = self.rarely(("this",), ("NEW", "OLD", "new"))
            fitting = [a for a, word in self.schema(name) if _KIND_OF.get(word) == kind]
            if kind == "time":
                fitting += ["occTime", "detTime"]
            return f"{version} . {self.pick(fitting)}" if fitting else None

        def action() -> str:
            return f"{self.rarely(('POST',), ('',))} act ( {self.listed(lambda: self.any_scalar(1, leaf), 0, 2)} )"

        def item() -> str:
            return f"ON {self.scalar('truth', 2, leaf)} DO {action()}"

        items = [item(), *(self.random.choice((item, action))() for _ in range(self.random.randint(0, 1)))]
        return " " + " , ".join(items)

    # ---- scalars: a kind of type each, loosest operators first

    def any_scalar(self, depth: int, leaf: Leaf) -> str:
        return self.scalar(self.pick(tuple(_KINDS)), depth, leaf)

    def scalar(self, kind: str, depth: int, leaf: Leaf) -> str:
        if self.chance(0.015):
            kind = self.pick(tuple(_KINDS))
        if kind != "truth":
            return self.sum(kind, depth, leaf)
        return self.chain(" OR ", 0.12, depth, lambda: self.conjunction(depth, leaf))

    def chain(self, operator: str, probability: float, depth: int, part: Callable[[], str]) -> str:
        parts = [part()]
        while depth > 0 and self.chance(probability) and len(parts) < 4:
            parts.append(part())
        return operator.join(parts)

    def conjunction(self, depth: int, leaf: Leaf) -> str:
        return self.chain(" AND ", 0.15, depth, lambda: self.negation(depth, leaf))

    def negation(self, depth: int, leaf: Leaf) -> str:
        return self.maybe(0.08, lambda: "NOT ") + self.comparison(depth, leaf)

    def comparison(self, depth: int, leaf: Leaf) -> str:
        if self.chance(0.3):
            return self.sum("truth", depth, leaf)
        kind, inner = self.pick(tuple(_KINDS)), depth - 1
        left = self.sum(kind, inner, leaf)
        negated = self.maybe(0.3, lambda: "NOT ")
        match self.random.randint(0, 9):
            case 0:
                return f"{left} IS {negated}NULL"
            case 1:
                return f"{left} {negated}IN ( {self.listed(lambda: self.scalar(kind, inner, leaf))} )"
            case 2:
                return f"{left} {negated}BETWEEN {self.sum(kind, inner, leaf)} AND {self.sum(kind, inner, leaf)}"
            case 3:
                left = self.sum("text", inner, leaf)
                return f"{left} {negated}LIKE {self.sum('text', inner, leaf)}"
            case _:
                operator = self.pick(("=", "==", "<>", "!=", "<", "<=", ">", ">="))
                return f"{left} {operator} {self.sum(kind, inner, leaf)}"

    def sum(self, kind: str, depth: int, leaf: Leaf) -> str:
        match kind:
            case "number":
                operator = self.pick((" + ", " - "))
                return self.chain(operator, 0.15, depth, lambda: self.product(depth, leaf))
            case "text":
                return self.chain(" || ", 0.15, depth, lambda: self.primary(kind, depth, leaf))
            case "time":
                delay = self.maybe(0.2, lambda: f" {self.pick('+-')} {self.duration()}")
                return self.primary(kind, depth, leaf) + delay
            case _:
                return self.primary(kind, depth, leaf)

    def product(self, depth: int, leaf: Leaf) -> str:
        operator = self.pick((" * ", " / ", " % ", " /+ "))
        return self.chain(operator, 0.08, depth, lambda: self.unary(depth, leaf))

    def unary(self, depth: int, leaf: Leaf) -> str:
        return self.maybe(0.08, lambda: self.pick(("- ", "+ ", "- - "))) + self.primary("number", depth, leaf)

    def primary(self, kind: str, depth: int, leaf: Leaf) -> str:
        if depth <= 0 or self.chance(0.75):
            name = leaf(kind) if self.chance(0.7) else None
            if name is None or self.chance(0.01):
                return self.pick((*_ODD_LITERALS, "nobody", "NOW", "5d") if self.chance(0.01) else _LITERALS[kind])
            return name
        inner = depth - 1
        match self.random.randint(0, 3):
            case 0:
                return f"( {self.scalar(kind, inner, leaf)} )"
            case 1:
                word = self.pick(_KINDS[kind])
                return f"CAST ( {self.scalar('text', inner, leaf)} AS {word} )"
            case 2:
                when = f"WHEN {self.scalar('truth', inner, leaf)} THEN {self.scalar(kind, inner, leaf)} "
                default = self.maybe(0.5, lambda: f"ELSE {self.scalar(kind, inner, leaf)} ")
                return f"CASE {when * self.random.randint(1, 2)}{default}END"
            case _:
                return self.call(kind, inner, leaf)

    def call(self, kind: str, depth: int, leaf: Leaf) -> str:
        same = self.scalar(kind, depth, leaf)
        options = [f"COALESCE ( {same} , {same} )", f"GREATEST ( {same} , {self.scalar(kind, depth, leaf)} )"]
        match kind:
            case "number":
                options += [f"ABS ( {same} )", f"LENGTH ( {self.scalar('text', depth, leaf)} )"]
                options.append(f"YEAR ( {self.scalar('time', depth, leaf)} )")
            case "text":
                options += [f"UPPER ( {same} )", f"SUBSTRING ( {same} , 1 , 2 )"]
            case "truth":
                options.append(f"STARTSWITH ( {self.scalar('text', depth, leaf)} , 'a' )")
            case _:
                pass
        return self.rarely(("frobnicate ( )", "ABS ( * )", "COUNT ( * )", "PREV ( x )", f"IF ( {same} )"), options)

    # ---- what MATCH and COMPOSITE share

    def size(self) -> int:
        return self.random.choice((0, 1, 1, 2, 2, 3))

    def event_ref(self) -> str:
        name = self.class_name()
        self.used.append(name)
        arguments = self.maybe(0.5, lambda: self.event_arguments(name))
        mask = self.maybe(0.12, lambda: f" [ {self.scalar('truth', 1, self.names_of(self.schema(name)))} ]")
        return name + arguments + mask

    def event_arguments(self, name: str) -> str:
        schema = self.schema(name)
        if self.chance(0.02):
            schema = [*schema, ("extra", "INT")]
        return f" ( {' , '.join(self.event_argument(_KIND_OF.get(word, 'text')) for _, word in schema)} )"

    def event_argument(self, kind: str) -> str:
        if self.parameters and self.chance(0.3):
            return self.pick(self.parameters)
        if self.chance(0.5):
            variable = self.pick(_VARIABLE_OF[kind])
            self.bound[variable] = kind
            return variable
        if self.chance(0.01):
            return self.pick(("A", "! A", "9" * 50, "DATE '2026-01-01'", "DATE 'x'", "INT '3'", "- 1e400"))
        constants = {"number": ("3", "- 3", "NULL"), "text": ("'s'",), "time": ("NULL",), "truth": ("TRUE", "FALSE")}
        return self.pick(("_", *constants[kind]))

    # ---- MATCH: `is_open` where the expression may end with an EXISTS

    def match(self, depth: int) -> str:
        return self.infix(0, depth, is_open=True)

    def infix(self, level: int, depth: int, *, is_open: bool) -> str:
        operators: tuple[tuple[str, ...], ...] = (("|",), ("/", "/+"), ("OR", "∨"), ("AND", "^", "∧", "&"), ("*",))
        if level == len(operators):
            return self.equate(depth, is_open=is_open)
        if depth > 0 and self.chance(0.16):
            left = self.infix(level, depth - 1, is_open=False)
            return f"{left} {self.pick(operators[level])} {self.infix(level + 1, depth - 1, is_open=is_open)}"
        return self.infix(level + 1, depth, is_open=is_open)

    def equate(self, depth: int, *, is_open: bool) -> str:
        if self.chance(0.07):
            return f"{self.prefixed(depth, is_open=False)} = {self.correlation()}"
        return self.prefixed(depth, is_open=is_open)

    def correlation(self) -> str:
        name = self.pick((*_CORRELATIONS, *self.parameters))
        self.correlations.add(name)
        return name

    def prefixed(self, depth: int, *, is_open: bool) -> str:
        if is_open and depth > 0 and self.chance(0.1):
            return f"{self.pick(('EXISTS', '∃'))} {self.correlation()} {self.match(depth - 1)}"
        if depth > 0 and self.chance(0.2):
            number = self.rarely(("0", "1.5", "100001", "9" * 90), ("1", "2", "3"))
            prefix = self.pick(("!", "NOT", "¬", f"< {number} >", f"EVERY < {number} >"))
            return f"{prefix} {self.prefixed(depth - 1, is_open=is_open)}"
        return self.match_primary(depth)

    def match_primary(self, depth: int) -> str:
        names = [*self.correlations, *self.parameters]
        if names and self.chance(0.15):
            return self.pick(sorted(names))
        if any(name in self.counts for name in _DEFINITIONS) and self.chance(0.2):
            return self.definition_call(depth)
        if depth <= 0 or self.chance(0.3):
            return self.pick(("NULL", "any", "first", "start")) if self.chance(0.1) else self.event_ref()
        match self.random.randint(0, 4):
            case 0:
                return f"( {self.match(depth - 1)} )"
            case 1:
                return f"{self.pick(('relative', 'rel'))} + ( {self.match(depth - 1)} )"
            case _:
                several = self.random.randint(1, 3)
                functions = (("prior", several), ("sequence", several), ("relative", 2), ("seq", 2), ("firstAfter", 3))
                function, count = self.random.choice((*functions, ("before", 1), ("happened", 1), ("prefix", 1)))
                count = self.random.randint(1, 4) if self.chance(0.02) else count
                return f"{function} ( {' , '.join(self.match(depth - 1) for _ in range(count))} )"

    def definition_call(self, depth: int) -> str:
        name = self.known(_DEFINITIONS)
        count = self.counts.get(name, 0) if self.chance(0.97) else self.random.randint(0, 2)
        if not count:
            return name
        arguments = [self.event_argument("number") if self.chance(0.3) else self.match(depth - 1) for _ in range(count)]
        return f"{name} ( {' , '.join(arguments)} )"

    # ---- COMPOSITE

    def composite(self, depth: int) -> str:
        return self.composite_infix(0, depth)

    def composite_infix(self, level: int, depth: int) -> str:
        operators = ((">", "SEQ", "sequence"), ("|", "OR"), ("&", "AND", "∧"))
        if level == len(operators):
            return self.factor(depth)
        if depth > 0 and self.chance(0.3):
            left = self.composite_infix(level, depth - 1)
            if level == 0 and self.chance(0.2):  # a repetition is over when something follows
                left = f"{self.composite_primary(0)} {self.pick(('*', '{ 2 , }'))}"
            return f"{left} {self.pick(operators[level])} {self.composite_infix(level + 1, depth - 1)}"
        return self.composite_infix(level + 1, depth)

    def factor(self, depth: int) -> str:
        if self.chance(0.8):
            return self.post(depth)
        inner = depth - 1
        low, high = sorted(self.random.sample(range(len(_TIMES)), 2))
        time = self.rarely(_ODD_TIMES, (_TIMES[low],))
        match self.random.randint(0, 5):
            case 0:
                return f"{self.pick(('!', 'NOT'))} {self.composite_primary(inner)}"
            case 1 | 2 if depth > 0:
                parts = [self.composite(inner) for _ in range(3)]
                return f"NOT ( {parts[0]} ) [ {parts[1]} , {parts[2]} ]"
            case 3 if depth > 0:
                left, right = self.random.choice((("{", "}"), ("(", ")")))
                operands = self.listed(lambda: self.post(inner), 2)
                return f"ANY {left} {self.rarely(('0', '9', '1.5'), ('1', '2'))} , {operands} {right}"
            case 4:
                return f"BETWEEN {time} {_TIMES[high]} {self.composite_primary(inner)}"
            case _:
                return f"{self.pick(('AT', 'BY', 'at'))} {time} {self.composite_primary(inner)}"

    def post(self, depth: int) -> str:
        text = self.composite_primary(depth)
        while self.chance(0.1):
            number = self.rarely(("0", "100001", "2.5"), ("1", "2", "3"))
            text += self.rarely((" *", f" {{ {number} , }}"), (f" {{ {number} }}", f" + {self.duration()}"))
        return text

    def composite_primary(self, depth: int) -> str:
        if depth <= 0 or self.chance(0.5):
            return self.event_ref()
        inner = depth - 1
        match self.random.randint(0, 4):
            case 0 | 1:
                return f"( {self.composite(inner)} )"
            case 2:
                expression = self.composite(inner)
                within = self.maybe(0.7, lambda: f"WITHIN {self.duration()}")
                where = "" if within and self.chance(0.5) else f"WHERE {self.scalar('truth', 1, self.qualified)}"
                return f"( {expression} {within} {where} )"
            case 3:
                star = self.maybe(0.3, lambda: "* ")
                return f"APERIODIC {star}( {' , '.join(self.composite(inner) for _ in range(3))} )"
            case _:
                star = self.maybe(0.3, lambda: "* ")
                return f"PERIODIC {star}( {self.composite(inner)} , [ {self.duration()} ] , {self.composite(inner)} )"


# ---- mutation ---------------------------------------------------------------------------------------

_CHUNK = re.compile(r"\w+|\s+|--[^\n]*|[^\w\s]")
_INSERTED = (
    *"()[]{}<>,;.:=+-*/%|&^!'`\"_\\#@$?~",
    *("∧", "∨", "¬", "∃", "→", "é", "ß", "İ", "ŉ", "²", "٣", "Ⅷ", "🜁", "\u200b", "\u202e", "\ufeff", "\u0301"),
    *("\x00", "\x07", "\x1b[31m", "\x7f", "\x85", "\u2028", "\r", "\t", "\f", "\n", "\ud800", "\udcff"),
    *("9" * 30, "9" * 90, "1e999", "0x1F", "5q", "1_000", "00007d", "1e-5", "5D", "-- x\n", "/*", "*/", "/+", "||"),
    *("AS SELECT", "AT [", "BETWEEN [", "CREATE", "SET", "RULE", "SOURCE", "DEFINE", "NULL", "EXISTS x", "AS WITH"),
    *("((((((((", "))))))))", "!!!!!!!!", "CASE WHEN ", "[" * 9, "{" * 9, "'" * 5, "NOT " * 9, "- " * 9),
)


@cache
def example_statements() -> tuple[str, ...]:
    """The statements of all example programs, roughly: cut at every `;` at the end of a line."""
    texts = [path.read_text("utf-8") for path in sorted(EXAMPLES.rglob("*.bicepl"))]
    found = [statement.strip() + ";" for text in texts for statement in re.split(r";[ \t]*(?:--[^\n]*)?\n", text)]
    statements = [re.sub(r"--[^\n]*\n", "", s) for s in found]
    return tuple(s for s in statements if 10 < len(s) < 500)


def mutated(seed: int) -> str:
    """A program, from the examples or made, with a few things wrong."""
    random = Random(f"mutated {seed}")

    def program() -> str:
        if random.random() < 0.5:
            return grammar_made(random.randrange(1_000_000))
        statements = example_statements()
        start = random.randrange(len(statements))
        return "\n".join(statements[start : start + random.randint(1, 3)])

    text = program()
    if random.random() < 0.1:  # splice two programs
        other = program()
        text = text[: random.randrange(len(text) + 1)] + other[random.randrange(len(other) + 1) :]
    chunks = _CHUNK.findall(text)
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        _mutate(chunks, random)
    return "".join(chunks)


def _mutate(chunks: list[str], random: Random) -> None:
    """Change one thing, in place."""
    if not chunks:
        chunks.append(random.choice(_INSERTED))
        return
    i, j = random.randrange(len(chunks)), random.randrange(len(chunks))
    match random.randint(0, 10):
        case 0:
            del chunks[i]
        case 1:
            chunks.insert(i, chunks[i])
        case 2:
            chunks[i], chunks[j] = chunks[j], chunks[i]
        case 3:
            chunks[i] = chunks[j]
        case 4:
            chunks.insert(i, random.choice(_INSERTED))
        case 5:
            chunks[i] = random.choice(_INSERTED)
        case 6:
            chunks[i] = random.choice((str.upper, str.lower, str.swapcase, str.casefold))(chunks[i])
        case 7:
            at = random.randrange(len(chunks[i]) + 1)
            chunks[i] = chunks[i][:at] + random.choice(_INSERTED) + chunks[i][at:]
        case 8 if random.random() < 0.3:  # chop
            del chunks[i:]
        case 9:
            low, high = sorted((i, j))
            piece = chunks[low : min(high, low + 12)]
            chunks[j:j] = piece * random.randint(1, 3)
        case _:
            del chunks[i : i + random.randint(1, 5)]


# ---- soup -------------------------------------------------------------------------------------------

_SYMBOLS = "()()()[]{},,,;;.:=<>+-*/%|&!_"
_WORDS = (
    *sorted(RESERVED | CONTEXTUAL),
    *_SYMBOLS,
    *("<>", "<=", ">=", "/+", "||", "A", "B", "x", "y", "v", "3", "1.5", "5d", "'text'", "`name`", "[1999-06-06]"),
    *("--", "\n"),
)


def soup(seed: int) -> bytes:
    """Bytes without meaning: chance, characters, tokens in no order, or a program with bytes changed."""
    random = Random(f"soup {seed}")
    kind = random.random()
    if kind < 0.25:
        return random.randbytes(random.randrange(120))
    if kind < 0.4:
        highest = random.choice((0x7F, 0xFF, 0x2FF, 0xD7FF))
        return "".join(chr(random.randint(1, highest)) for _ in range(random.randrange(60))).encode()
    if kind < 0.85:
        gap = random.choice((" ", " ", ""))
        return gap.join(random.choices(_WORDS, k=random.randrange(60))).encode()
    data = bytearray(mutated(seed).encode("utf-8", "replace") + b";")
    for _ in range(random.randint(1, 5)):
        data[random.randrange(len(data))] = random.randrange(256)
    return bytes(data)

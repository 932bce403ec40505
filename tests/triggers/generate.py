"""Random programs with rules and triggers, and random histories for them; each a function of a seed.

Every class but that of the clock has the attributes `k INT, v INT`. Triggers have all contexts, with and without
TRIGGEREVENT and COMPOSITEEVENT; structures are nested up to three deep; rules take what earlier ones gave back and post
to classes that trigger. Times are seconds after START; few keys and values, so that versions meet. What does not pass
the analysis is made again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from augury.algebra.program import Program
from augury.algebra.rule import InOrder, Post, RuleCall, SideBySide, Structure
from augury.algebra.scalar import Value
from augury.api import ProgramError, compile
from augury.kernels.reference.bitemporal import ABSENT, Raw, Select
from augury.kernels.reference.bitemporal.ticks import tick_of
from augury.kernels.reference.bitemporal.version import Absent
from augury.kernels.reference.triggers import (
    Functions,
    Revision,
    RuleFailed,
    Switch,
    Switched,
    Triggered,
    Turn,
    triggered,
)
from tests.bitemporal.duck import selects_of

SECOND = 1_000_000
START = 1_700_000_003 * SECOND
"""Not at the bound of a chronon of 5 or 10 seconds."""

CONTEXTS = ("RECENT", "CHRONICLE", "CONTINUOUS", "CUMULATIVE", "UNRESTRICTED")


def _broken_by_two(x: Value, *others: Value) -> Value:
    if x == 2:
        raise RuleFailed("2 cannot be done")
    return x


FUNCTIONS: Functions = {
    "give": lambda *values: sum(value for value in values if isinstance(value, int)),
    "risk": _broken_by_two,
}


@dataclass(frozen=True)
class Generated:
    """A program as text and compiled, a function per SELECT class, raw versions, and how it is to be run."""

    text: str
    program: Program
    selects: Mapping[str, Select]
    raws: tuple[Raw, ...]
    until: int
    functions: Functions
    turns: tuple[Turn, ...]
    depth_max: int

    def run(self) -> Triggered:
        """What the reference makes of it."""
        return triggered(
            self.program,
            self.selects,
            self.raws,
            self.until,
            functions=self.functions,
            turns=self.turns,
            depth_max=self.depth_max,
        )


def generate(seed: int, *, turns: bool = True) -> Generated:
    """The case of a seed; without `turns` nothing changes while it runs."""
    random = Random(f"triggers {seed}")
    while True:
        made = _Program(random)
        try:
            program = compile(made.text)
            break
        except ProgramError:
            continue
    raws = [raw for raw in _raws(random, made.subscribed) if _has_key(program, raw)]
    last = max(raw.det_time or 0 for raw in raws)
    return Generated(
        made.text,
        program,
        selects_of(program),
        tuple(raws),
        tick_of(last, program.settings.chronon_us) + random.choice([0, 0, 5, 12, 30]) * SECOND,
        FUNCTIONS,
        tuple(_turns(random, made, program, raws)) if turns and random.random() < 0.3 else (),
        random.choice(_depths(program)),
    )


def _depths(program: Program) -> Sequence[int]:
    """How deep chains may be: they branch where one firing posts several events, and each firing starts all anew."""
    posts = {rule.name: sum(isinstance(d, Post) for d in (*rule.actions, *rule.alternatives)) for rule in program.rules}
    widest = max(sum(posts[call.rule] for call in calls_in(trigger.structure)) for trigger in program.triggers)
    return (1,) if widest > 2 else (1, 2) if widest == 2 else (1, 2, 3)


def calls_in(structure: Structure) -> list[RuleCall]:
    """The rules of a structure, left to right."""
    match structure:
        case RuleCall():
            return [structure]
        case InOrder(steps=parts) | SideBySide(branches=parts):
            return [call for part in parts for call in calls_in(part)]


# ---- programs -------------------------------------------------------------------------------------


class _Program:
    """A program as it is written; `classes` is what comes before the rules and triggers."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.subscribed = ["A", "B", "P"] + (["C"] if random.random() < 0.5 else [])
        self.known = list(self.subscribed)
        self.clocks: list[str] = []
        self.classes = self._classes()
        self.posts_left = random.choice([0, 1, 2, 2, 3])
        self.rules = [self._rule(f"R{number}") for number in range(1, random.randint(2, 4) + 1)]
        self.groups = [f"RULE GROUP g{n} ({', '.join(some)});\n" for n, some in enumerate(self._grouped())]
        self.triggers = [self._trigger(f"t{number}") for number in range(1, random.choice([1, 2, 2, 3]) + 1)]

    @property
    def text(self) -> str:
        return self.classes + "".join([*(text for _, _, text in self.rules), *self.groups, *self.triggers])

    def _classes(self) -> str:
        random = self.random
        text = f"SET CHRONON {random.choice([5, 10, 10, 20])}s;\n"
        for name in self.subscribed:
            kind = "IMMUTABLE" if random.random() < 0.35 else "MUTABLE"
            key = random.choice(["k", "k", "", "k, v"])
            lifespan = random.choice(["-1", "10s", "20s", "60s", "60s", "120s"])
            text += f"CREATE {kind} SUBSCRIBED EVENT CLASS {name} (k INT, v INT) ID ({key}) LIFESPAN ({lifespan});\n"
        if random.random() < 0.2:
            self.clocks = ["T"]
            text += f"CREATE CLOCK EVENT CLASS T EVERY {random.choice([10, 20, 30])}s LIFESPAN (30s);\n"
        for name in ["X", "Y"][: random.choice([0, 0, 0, 1, 1, 2])]:
            text += f"CREATE COMPLEX EVENT CLASS {name} (k INT, v INT) ID ({random.choice(['k', ''])}) LIFESPAN (60s)\n"
            text += f"  AS {self._derivation()};\n"
            self.known.append(name)
        return text

    def _derivation(self) -> str:
        random = self.random
        one, other = random.choice(self.known), random.choice(self.known)
        return random.choice(
            [
                f"MATCH prior({one}(k, v), {other}(k, _))",
                f"MATCH {one}(k, v)",
                f"COMPOSITE {one}(k, v) > {other} CONTEXT {random.choice(CONTEXTS)}",
                f"COMPOSITE {one}(k, v) + 5s CONTEXT CHRONICLE",
                f"SELECT k, v FROM {one} WHERE v >= 1 OCCURRING AT {one}.occTime",
            ]
        )

    # ---- rules ----

    def _rule(self, name: str) -> tuple[str, int, str]:
        """A rule: its name, how many parameters it has, its text."""
        random = self.random
        count = random.choice([0, 1, 2, 2])
        names = ["x", "y"][:count]
        text = f"RULE {name} ({', '.join(f'{one} INT' for one in names)})"
        if random.random() < 0.6:
            text += f"\n  CONDITION {self._condition(names)}"
        both = random.random() < 0.4
        text += f"\n  ACTION {self._deeds(names)}" if both or random.random() < 0.8 else ""
        if both or "ACTION" not in text:
            text += f"\n  ALTERNATIVEACTION {self._deeds(names)}"
        return name, count, f"{text};\n"

    def _condition(self, names: Sequence[str]) -> str:
        random = self.random
        if not names:
            return random.choice(["TRUE", "FALSE", "NULL = 1", "NOW > NOW - 1s"])
        x, y = random.choice(names), random.choice(names)
        simple = [f"{x} > 1", f"{x} <= {y}", f"{x} + {y} = 3", f"{x} IS NULL", f"{x} <> 2", f"4 / {x} > 1"]
        one, other = random.choice(simple), random.choice(simple)
        return random.choice([one, one, f"NOT ({one})", f"{one} AND {other}", f"({one} OR {other})"])

    def _deeds(self, names: Sequence[str]) -> str:
        random = self.random
        deeds = []
        for _ in range(random.choice([1, 1, 1, 2, 3])):
            if self.posts_left and random.random() < 0.7:
                self.posts_left -= 1
                values = ", ".join(self._value(names) for _ in range(2))
                deeds.append(f"POST {random.choice(self.subscribed)}({values})")
            elif names and random.random() < 0.35:
                deeds.append(f"risk({random.choice(names)})")
            else:
                values = ", ".join(self._value(names) for _ in range(random.randrange(3)))
                deeds.append(f"{random.choice(['tell', 'give', 'give'])}({values})")
        return ", ".join(deeds)

    def _value(self, names: Sequence[str]) -> str:
        random = self.random
        if not names or random.random() < 0.3:
            return random.choice(["1", "1", "2", "2", "3", "NULL"])
        x = random.choice(names)
        return random.choice([x, x, x, f"{x} + 1", f"3 - {x}"])

    def _grouped(self) -> list[list[str]]:
        names = [name for name, _, _ in self.rules]
        return [self.random.sample(names, self.random.randint(1, len(names))) for _ in range(self.random.randrange(3))]

    # ---- triggers ----

    def _trigger(self, name: str) -> str:
        random = self.random
        events = random.sample(self.known, random.choice([1, 1, 2]))
        if self.clocks and random.random() < 0.15:
            events = self.clocks
        has_events, has_composite = random.choice(
            [(True, False), (True, False), (True, True), (True, True), (False, True), (False, True)]
        )
        classes = random.sample(self.known, min(len(self.known), random.choice([1, 2, 2, 3])))
        with_clock = [*classes, *self.clocks] if random.random() < 0.2 else classes
        parameters = ["a", "b"] if random.random() < 0.6 else []
        text = f"TRIGGER {name} ({', '.join(f'{one} INT' for one in parameters)})"
        text += f"\n  TRIGGEREVENT {' OR '.join(events)}" if has_events else ""
        if has_composite:
            text += f"\n  COMPOSITEEVENT {self._graph(with_clock, random.choice([1, 1, 2]))}"
            text += " PARTITION BY k" if random.random() < 0.12 else ""
            text += f" WITHIN {random.choice([5, 10, 30])}s" if random.random() < 0.15 else ""
            text += f" CONTEXT {random.choice(CONTEXTS)}" if random.random() < 0.9 else ""
        named = (classes if has_composite else []) + (events if has_events else [])
        structure, _ = self._structure(parameters, named, random.choice([0, 1, 2, 3]), [])
        text += f"\n  RULESTRUC {structure}"
        text += random.choice(["", "", "", "\n  ON FAILURE STOP", "\n  ON FAILURE CONTINUE", "\n  ON FAILURE CONTINUE"])
        if random.random() < 0.5:
            text += f"\n  RETURNS {random.choice(['INT', 'BIGINT', 'STRING'])} : {random.choice(self.rules)[0]}"
        return f"{text};\n"

    def _graph(self, classes: Sequence[str], depth: int) -> str:
        random = self.random
        if depth == 0:
            arguments = random.choice(["", "", "", "", "(K, _)", "(K, _)", "(_, 1)", "[v > 1]"])
            name = random.choice(classes)
            return name if name in self.clocks else name + arguments
        e, f, g = (self._graph(classes, random.randrange(depth)) for _ in range(3))
        return random.choice(
            [
                *(f"({e} > {f})", f"({e} > {f})", f"({e} > {f})", f"({e} & {f})", f"({e} & {f})", f"({e} | {f})"),
                *(f"({e} > !{f} > {g})", f"({e} & !{f})", f"ANY{{2, {e}, {f}, {g}}}", f"({e}){{2}}"),
                *(f"({e} > !{f} WITHIN {random.choice([3, 5, 10])}s)", f"(({e}) + {random.choice([0, 3, 5])}s)"),
                *(f"APERIODIC({e}, {f}, {g})", f"PERIODIC({e}, [7s], {f})", f"APERIODIC*({e}, {f}, {g})"),
                f"({e} > {f} WHERE {random.choice(classes)}.v >= 1)",
            ]
        )

    def _structure(
        self, parameters: Sequence[str], classes: Sequence[str], depth: int, before: Sequence[str]
    ) -> tuple[str, list[str]]:
        """A structure and the rules in it; `before` are those that come before it by `>`."""
        random = self.random
        if depth == 0:
            name, count, _ = random.choice(self.rules)
            values = [self._argument(parameters, classes, before) for _ in range(count)]
            return f"{name}({', '.join(values)})", [name]
        between = random.choice([" > ", ", "])
        texts, names = [], list[str]()
        for _ in range(random.choice([2, 2, 3])):
            known = [*before, *names] if between == " > " else before
            text, found = self._structure(parameters, classes, random.randrange(depth), known)
            texts.append(text)
            names += found
        return f"({between.join(texts)})", names

    def _argument(self, parameters: Sequence[str], classes: Sequence[str], before: Sequence[str]) -> str:
        random = self.random
        if before and random.random() < 0.3:
            return f"RETURNED({random.choice(before)})"
        attributes = [f"{name}.{attribute}" for name in classes if name not in self.clocks for attribute in "kv"]
        choices = [*parameters, *parameters, *attributes, "1", "2"]
        one = random.choice(choices)
        return f"{one} + 1" if random.random() < 0.15 else one


# ---- histories ------------------------------------------------------------------------------------


GAPS = (0, 200_000, SECOND, SECOND, 2 * SECOND, 4 * SECOND, 9 * SECOND)


def _raws(random: Random, classes: Sequence[str]) -> list[Raw]:
    raws: list[Raw] = []
    clock = START
    for _ in range(random.randint(6, 14)):
        clock += random.choice(GAPS)
        if raws and random.random() < 0.06:
            raws.append(random.choice(raws))
            continue
        away = random.choice([0, 0, 0, 0, 0, -1, 1, -7, 15]) * SECOND
        occ_time: int | Absent | None = None if random.random() < 0.1 else clock + away
        if random.random() < 0.03:
            occ_time = ABSENT
        values = (random.randint(1, 2), random.choice([0, 1, 2, 3, None]))
        raws.append(Raw(random.choice(classes), values, occ_time, clock, "e" if random.random() < 0.03 else None))
    return raws


def _has_key(program: Program, raw: Raw) -> bool:
    """A row without a key is refused by itself, before anything looks at it."""
    plan = program.class_plan(raw.event_class)
    assert plan is not None
    return all(raw.values["kv".index(name)] is not None for name in plan.event_class.key)


# ---- while it runs --------------------------------------------------------------------------------


def _turns(random: Random, made: _Program, program: Program, raws: Sequence[Raw]) -> list[Turn]:
    last = max(raw.det_time or 0 for raw in raws)
    found: list[Turn] = []
    for _ in range(random.randint(1, 4)):
        at = random.choice([raw.det_time or START for raw in raws] + [random.randint(START, last)])
        kinds = {
            Switched.RULE: [rule.name for rule in program.rules],
            Switched.GROUP: list(program.groups),
            Switched.TRIGGER: [trigger.name for trigger in program.triggers],
        }
        kind = random.choice([kind for kind, names in kinds.items() if names])
        found.append(Switch(at, kind, random.choice(kinds[kind]), random.random() < 0.4))
    if random.random() < 0.4:
        found.append(Revision(random.randint(START, last), _revised(random, made)))
    return found


def _revised(random: Random, made: _Program) -> Program:
    """The same classes; some triggers are gone, others new, and the rules may do other things."""
    while True:
        made.posts_left = 1
        count = {name: number for name, number, _ in made.rules}
        rules = [made._rule(name) if random.random() < 0.3 else (name, n, text) for name, n, text in made.rules]
        if any(count[name] != number for name, number, _ in rules):
            continue
        kept = [trigger for trigger in made.triggers if random.random() < 0.6]
        texts = [text for _, _, text in rules] + made.groups + kept
        texts += [made._trigger("new")] if random.random() < 0.5 else []
        try:
            return compile(made.classes + "".join(texts))
        except ProgramError:
            continue

"""A suite and its program → a suite that can be run, or every name and time in it that the program knows nothing of.

In: a `Suite`, a `Program`. Out: a `BoundSuite`: rows as JSON, wanted lines with the program's own names, and which
ticks each expectation is about; or diagnostics. It runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from augury import types as t
from augury.algebra.program import ClassPlan, Program
from augury.algebra.rule import ActionCall
from augury.algebra.select import SelectPlan
from augury.clock import show_time
from augury.diagnostics import Findings, Span
from augury.event import ClassKind, EventClass, key_of
from augury.history.raw import whole_json
from augury.trying.suite import Argument, Demand, Expectation, Kind, Said, Step, Suite, Test, Unusable
from augury.trying.suite_bound import BoundSuite, BoundTest, Check, Row, Wanted
from augury.trying.suite_values import Formula, NoNumber, Plain, Value, given
from augury.trying.suite_written import offset_text, value_text

EVENTS_MAX: Final = 1_000_000
"""Events of one test: more belong into a file, and to `augury run`."""

_TIMES_US: Final = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""The years 1 to 9999."""


def bound(suite: Suite, program: Program) -> BoundSuite | Unusable:
    """The suite with the names of the program, or all that does not fit it."""
    binding = _Binding(program)
    tests = tuple(binding.test(one) for one in suite.tests)
    if binding.findings.has_errors():
        return Unusable(suite.source, binding.findings.sorted())
    return BoundSuite(suite, tests, program.settings.chronon_us)


@dataclass(slots=True)
class _Binding:
    """Looks names up, and notes those that are not there."""

    program: Program
    findings: Findings = field(default_factory=Findings)
    actions: dict[str, str] = field(init=False)
    triggers: dict[str, str] = field(init=False)
    test_engines: tuple[str, ...] = ("local",)
    mappings: dict[str, dict[str, str]] = field(init=False)
    start_us: int = 0

    def __post_init__(self) -> None:
        """Note the actions that the program can take, its triggers, and the foreign names that its sources have."""
        statements = (one for plan in self.program.classes for one in plan.statements)
        rules = (deed for rule in self.program.rules for deed in (*rule.actions, *rule.alternatives))
        calls = [*(call for one in statements for call in one.actions), *rules]
        self.actions = {key_of(call.name): call.name for call in calls if isinstance(call, ActionCall)}
        self.triggers = {key_of(one.name): one.name for one in self.program.triggers}
        self.mappings = {
            key_of(source.event_class): {key_of(own): foreign for foreign, own in reversed(source.columns)}
            for source in self.program.sources
        }

    def wrong(self, message: str, span: Span, *helps: str) -> None:
        self.findings.error("E541", message, span, helps=helps)

    def meant(self, word: str, names: Sequence[str], what: str) -> str:
        found = self.findings.closest(word[:200], names)
        return f"did you mean `{found}`?" if found else f"{what} {', '.join(names[:12]) or 'none'}"

    # ---- tests -----------------------------------------------------------------------------------

    def test(self, test: Test) -> BoundTest:
        self.start_us, self.test_engines = test.start_us, test.engines
        rows: list[Row] = []
        checks: list[Check] = []
        for said in test.whole.events:
            rows += self.rows(said)
        after: int | None = None
        for number, step in enumerate(test.steps, 1):
            until = self.take(step, rows, after, is_last=number == len(test.steps))
            checks += [self.check(one, number, after, until) for one in step.expectations]
            after = until if until is not None else after
        until = self.end(test, rows, after)
        checks += [self.check(one, None, None, until) for one in test.whole.expectations]
        if test.steps and test.whole.advance_to_us is None and until is not None:
            self.check_read(rows, until)
        if len(rows) > EVENTS_MAX:
            self.wrong(f"the test has more than {EVENTS_MAX:,} events", test.span, "take `augury run` for so many")
        return BoundTest(test, tuple(rows), tuple(checks), until)

    def take(self, step: Step, rows: list[Row], after: int | None, *, is_last: bool) -> int | None:
        """Add the events of a step; gives the tick that it ends at."""
        chronon_us = self.program.settings.chronon_us
        for said in step.events:
            for row in self.rows(said):
                if after is not None and row.seen_us < after:
                    clock = self.offset(after)
                    message = f"it is seen at {self.offset(row.seen_us)}, and the clock stands at {clock} already"
                    self.wrong(message, said.span, "move it to an earlier step")
                    break
                rows.append(row)
        if step.advance_to_us is not None:
            until = step.advance_to_us // chronon_us * chronon_us
            if after is not None and until < after:
                assert step.advance_span is not None, "it says how far"
                self.wrong(f"the clock stands at {self.offset(after)} already", step.advance_span, "name a later time")
            return until
        own = rows if is_last else rows[len(rows) - self.count(step) :]
        ends = [(row.seen_us // chronon_us + 1) * chronon_us for row in own]
        return max([*ends, *([] if after is None else [after])], default=None)

    @staticmethod
    def count(step: Step) -> int:
        return sum(said.times for said in step.events)

    def end(self, test: Test, rows: list[Row], after: int | None) -> int | None:
        """The last tick of a test."""
        chronon_us, whole = self.program.settings.chronon_us, test.whole
        if whole.advance_to_us is not None:
            until = whole.advance_to_us // chronon_us * chronon_us
            if after is not None and until < after:
                assert whole.advance_span is not None, "it says how far"
                self.wrong(f"its steps go to {self.offset(after)}", whole.advance_span, "name a later time")
            self.check_read(rows, until)
            return until
        if test.steps:
            return after
        last = max((row.seen_us for row in rows), default=None)
        return None if last is None else (last // chronon_us + 1) * chronon_us

    def check_read(self, rows: list[Row], until: int) -> None:
        """An event that no tick reads is a mistake."""
        for said in dict.fromkeys(row.said for row in rows if row.seen_us >= until):
            message = f"it is never read: the test ends with the tick {self.offset(until)}, before it is seen"
            self.wrong(message, said.span, "name a later time under advance_to")

    def offset(self, time_us: int) -> str:
        return offset_text(time_us - self.start_us)

    # ---- what comes ------------------------------------------------------------------------------

    def rows(self, said: Said) -> Iterator[Row]:
        """A row for each repetition."""
        plan = self.event_class(said, (ClassKind.SUBSCRIBED,))
        fields = None if plan is None else self.fields(plan.event_class, said, is_given=True)
        if plan is None or fields is None:
            return
        is_repeated = said.times > 1
        for n in range(said.times):
            try:
                yield self.row(plan.event_class, said, fields, n, is_repeated=is_repeated)
            except NoNumber as error:
                self.wrong(str(error), said.span)
                return
            except OverflowError:
                self.wrong("its repetitions go beyond the year 9999", said.span)
                return

    def row(
        self, event_class: EventClass, said: Said, fields: list[tuple[str, Value, t.Type]], n: int, *, is_repeated: bool
    ) -> Row:
        shift = n * said.every_us
        seen_us = (said.seen_us if said.seen_us is not None else said.at_us or 0) + shift
        at_us = (said.at_us if said.at_us is not None else said.seen_us or 0) + shift
        if not all(_TIMES_US[0] <= one <= _TIMES_US[1] for one in (at_us, seen_us)):
            raise OverflowError
        is_gone = said.change == "withdraw"
        values = [(name, given(value, of, n, is_repeated=is_repeated)) for name, value, of in fields]
        foreign = self.mappings.get(key_of(event_class.name), {})
        occ_name, det_name = (foreign.get(name, name) for name in ("occ_time", "det_time"))
        row: dict[str, Plain] = {"event": event_class.name}
        if said.event_id is not None:
            row["event_id"] = said.event_id.replace("{n}", str(n)) if is_repeated else said.event_id
        row[occ_name] = None if is_gone else show_time(at_us)
        row[det_name] = show_time(seen_us)
        row |= {foreign.get(key_of(name), name): value for name, value in values}
        shown = ", ".join(f"{name}={value_text(value)}" for name, value in values)
        text = f"{'withdraw ' * is_gone}{event_class.name}({shown})"
        happened = "" if is_gone or at_us == seen_us else f" at {self.offset(at_us)}"
        return Row(said, seen_us, whole_json(row), text + happened)

    # ---- what is wanted --------------------------------------------------------------------------

    def check(self, expectation: Expectation, step: int | None, after: int | None, until: int | None) -> Check:
        wanted = [self.wanted(said, expectation.demand) for said in expectation.lines]
        return Check(expectation, tuple(one for one in wanted if one is not None), step, after, until)

    def wanted(self, said: Said, demand: Demand) -> Wanted | None:
        kind = said.kind
        if kind is Kind.EITHER:
            kind = self.kind_of(said.name)
            if kind is not Kind.EVENT and (said.seen_us is not None or said.change is not None):
                what = "an action" if kind is Kind.ACTION else "a firing"
                self.wrong(f"{what} has one time, that of its tick", said.span, "write at, and neither seen nor change")
        if kind is not Kind.EVENT:
            return self.wanted_deed(said, kind)
        if said.about is not None:
            self.wrong("`for` belongs to actions", said.span, "leave it out")
        others = [*self.actions.values(), *self.triggers.values()] if said.kind is Kind.EITHER else []
        plan = self.event_class(said, (ClassKind.COMPLEX,), others)
        fields = None if plan is None else self.fields(plan.event_class, said, is_given=False)
        if plan is None or fields is None:
            return None
        named = tuple((name, value) for name, value, _ in fields)
        tick = None if said.seen_us is None else self.tick(plan, said.seen_us)
        return Wanted(said, Kind.EVENT, plan.event_class.name, named, tick_us=tick)

    def tick(self, plan: ClassPlan, seen_us: int) -> int:
        """The tick at which an event is printed that is detected then."""
        chronon_us = self.program.settings.chronon_us
        is_select = isinstance(plan.derivation, SelectPlan)
        return seen_us if is_select else (seen_us // chronon_us + 1) * chronon_us

    def kind_of(self, name: str) -> Kind:
        """What a name stands for where it is not said: a class before an action before a trigger."""
        if self.program.class_plan(name) is not None:
            return Kind.EVENT
        found = {Kind.ACTION: self.actions, Kind.FIRING: self.triggers}
        return next((kind for kind, names in found.items() if key_of(name) in names), Kind.EVENT)

    def wanted_deed(self, said: Said, kind: Kind) -> Wanted | None:
        """An action that is done, or a trigger that fires."""
        word, names = ("action", self.actions) if kind is Kind.ACTION else ("trigger", self.triggers)
        name = names.get(key_of(said.name))
        if name is None:
            helps = self.meant(said.name, list(names.values()), f"its {word}s are")
            self.wrong(f"the program has no {word} `{said.name}`", said.name_span, helps)
            return None
        if kind is Kind.FIRING and self.test_engines != ("local",):
            self.wrong("firings are known in process only", said.span, "expect the actions of its rules")
        for one in said.arguments or ():
            if one.name is not None:
                what = "arguments of an action" if kind is Kind.ACTION else "parameters of a trigger"
                self.wrong(f"{what} have no names", one.span, "write the values in their order")
        arguments = None if said.arguments is None else tuple(one.value for one in said.arguments)
        for one in said.arguments or ():
            self.refuse_formula(one)
        about, fields = said.about, None
        plan = None if about is None else self.event_class(about, tuple(ClassKind))
        if about is not None and plan is not None:
            fields = self.fields(plan.event_class, about, is_given=False, is_key=True)
        named = tuple((attribute, value) for attribute, value, _ in fields or ())
        of = None if plan is None else plan.event_class.name
        return Wanted(said, kind, name, named, arguments, said.is_open, of, said.at_us)

    # ---- names -----------------------------------------------------------------------------------

    def event_class(self, said: Said, kinds: tuple[ClassKind, ...], others: Sequence[str] = ()) -> ClassPlan | None:
        plan = self.program.class_plan(said.name)
        if plan is None:
            names = [one.event_class.name for one in self.program.classes if one.event_class.kind in kinds]
            helps = self.meant(said.name, [*names, *others], "it has")
            self.wrong(f"the program has no event class `{said.name}`", said.name_span, helps)
            return None
        if plan.event_class.kind in kinds:
            return plan
        name, kind = plan.event_class.name, plan.event_class.kind
        if ClassKind.SUBSCRIBED in kinds:
            by = "the clock posts its events" if kind is ClassKind.CLOCK else "its events are derived"
            self.wrong(f"`{name}` is a {kind} class: {by}", said.name_span, "leave it out of the events")
        else:
            helps = "expect its actions, or the complex events that it leads to"
            self.wrong(f"`{name}` is a {kind} class: its versions are not printed", said.name_span, helps)
        return None

    def fields(
        self, event_class: EventClass, said: Said, *, is_given: bool, is_key: bool = False
    ) -> list[tuple[str, Value, t.Type]] | None:
        """The attributes that a line names, with their values and types; None if something is wrong."""
        found: dict[str, tuple[str, Value, t.Type]] = {}
        before = self.findings.count()
        known = [a for a in event_class.attributes if not is_key or key_of(a.name) in map(key_of, event_class.key)]
        by_name = {key_of(attribute.name): attribute for attribute in known}
        for place, one in enumerate(said.arguments or ()):
            if one.name is None and place >= len(known):
                self.wrong(f"`{event_class.name}` has {len(known)} attributes", one.span, "leave it out")
                continue
            attribute = known[place] if one.name is None else by_name.get(key_of(one.name))
            if attribute is None:
                what = "attribute in its key that is called" if is_key else "attribute"
                helps = self.meant(one.name or "", [a.name for a in known], "it has")
                self.wrong(f"`{event_class.name}` has no {what} `{one.name}`", one.span, helps)
            elif key_of(attribute.name) in found:
                self.wrong(f"`{attribute.name}` is said twice", one.span, "leave one of them out")
            else:
                found[key_of(attribute.name)] = attribute.name, one.value, attribute.type
            if not is_given or said.times == 1:
                self.refuse_formula(one)
        self.refuse_few(said, len(known))
        return list(found.values()) if self.findings.count() == before else None

    def refuse_few(self, said: Said, known: int) -> None:
        positional = [one for one in said.arguments or () if one.name is None]
        if positional and len(said.arguments or ()) < known and not said.is_open:
            self.wrong(f"by position all {known} values are written", said.span, "name them, or end with `...`")

    def refuse_formula(self, one: Argument) -> None:
        if isinstance(one.value, Formula):
            self.wrong("`n` counts the repetitions of an event", one.span, "add every 5s times 10, or quote the text")

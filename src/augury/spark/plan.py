"""How each MATCH class is to run on Spark: which rows and columns are sent where, by what key, or why to one place.

In: a checked program. Out: a stage per MATCH class in stratified order, which prints. It reads no event and starts no
Spark.

An expression may be cut by key where every event that matters names the one history it belongs to: by PARTITION BY, or
by variables that stand in every leaf. How many events of others lie between is then a column of positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import types as s

from augury.algebra.composite import CompositePlan
from augury.algebra.expression import Aggregate, Anything, MatchPlan, Primitive, parts
from augury.algebra.program import ClassPlan, Cron, Every, Program
from augury.algebra.scalar import Field, Previous, Scalar, leaves
from augury.algebra.select import SelectPlan
from augury.diagnostics import Diagnostic, Mark
from augury.event import ClassKind, EventClass, key_of
from augury.kernels.match import REFUSALS, Detector, detector_of
from augury.kernels.match.leaves import code_of, keyed_places, looks_back
from augury.kernels.match.refusals import refusal
from augury.spark.layout import spark_type
from augury.types import Type

ENGINE: Final = "the Spark engine"


class NotOnSpark(ValueError):
    """A program with a class that this engine does not run; `diagnostics` say which, and point to it."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        """Keep the diagnostic."""
        super().__init__(diagnostic.message)
        self.diagnostics = (diagnostic,)


def refused(plan: ClassPlan, name: str) -> NotOnSpark | None:
    """What to raise where the kernel has raised the error of that name; None for an error of another kind."""
    kind = next((kind for kind in REFUSALS if kind.__name__ == name), None)
    return None if kind is None else NotOnSpark(refusal(kind, plan, ENGINE))


def _not_yet(what: str, event_class: EventClass) -> NotOnSpark:
    message = f"{ENGINE} does not run {what} yet, as `{event_class.name}` needs it to"
    return NotOnSpark(Diagnostic("E313", message, Mark(event_class.span, "cannot be run")))


@dataclass(frozen=True, slots=True)
class Key:
    """What rows are brought together by: an attribute of each class, all as one type."""

    name: str
    type: Type
    places: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """A MATCH class: `classes` of its history, `sent` those whose rows it reads, `columns` (class, attribute) of them.

    Without keys there is one partition, for the reason given. `counted` says that rows come with their positions.
    """

    number: int
    plan: ClassPlan
    classes: tuple[EventClass, ...]
    sent: tuple[int, ...]
    columns: tuple[tuple[int, int], ...]
    keys: tuple[Key, ...]
    counted: bool
    reason: str

    @property
    def match(self) -> MatchPlan:
        """What it detects."""
        assert isinstance(self.plan.derivation, MatchPlan)
        return self.plan.derivation

    @property
    def reads_complex(self) -> tuple[EventClass, ...]:
        """The complex classes that it reads, in order of declaration."""
        return tuple(c for c in self.classes if c.kind is ClassKind.COMPLEX)

    @property
    def position_name(self) -> str:
        """The column of positions in its history."""
        return f"p{self.number}"

    @property
    def key_names(self) -> tuple[str, ...]:
        """The columns of its keys."""
        return tuple(f"k{self.number}_{i}" for i in range(len(self.keys)))

    def further(self) -> list[tuple[str, s.DataType]]:
        """The columns that the accepting task makes for it."""
        counted: list[tuple[str, s.DataType]] = [(self.position_name, s.LongType())] if self.counted else []
        return counted + [(n, spark_type(key.type)) for n, key in zip(self.key_names, self.keys, strict=True)]


def subscribed(program: Program) -> tuple[EventClass, ...]:
    """The classes whose versions are accepted: their order gives their codes."""
    kinds = (ClassKind.SUBSCRIBED, ClassKind.CLOCK)
    return tuple(p.event_class for p in program.classes if p.event_class.kind in kinds)


def stages_of(program: Program) -> tuple[Stage, ...]:
    """The stages in the order in which they can run; raises `NotOnSpark`."""
    for plan in program.classes:
        match plan.derivation:
            case None | MatchPlan(by_occurrence=None) | Cron() | Every():
                pass
            case MatchPlan():
                raise _not_yet("ORDER BY OCCURRENCE", plan.event_class)
            case CompositePlan():
                raise _not_yet("COMPOSITE", plan.event_class)
            case SelectPlan():
                raise _not_yet("SELECT", plan.event_class)
    found = []
    for name in (name for layer in program.strata for name in layer):
        number = next(i for i, p in enumerate(program.classes) if key_of(p.event_class.name) == key_of(name))
        if isinstance(program.classes[number].derivation, MatchPlan):
            found.append(_stage(program, number))
    return tuple(found)


def explain_plan(program: Program) -> str:
    """The plan as text: per class its keys and shuffles, or why it runs in one partition."""
    classes = subscribed(program)
    lines = [f"accept {', '.join(c.name for c in classes)}: one partition, because versions are numbered in one order"]
    for stage in stages_of(program):
        sent = ", ".join(stage.classes[code].name for code in stage.sent) or "nothing"
        columns = ", ".join(f"{stage.classes[c].name}.{stage.classes[c].attributes[i].name}" for c, i in stage.columns)
        name = stage.plan.event_class.name
        if stage.keys:
            lines.append(f"{name}: keyed by {', '.join(key.name for key in stage.keys)}, one shuffle")
        else:
            lines.append(f"{name}: one partition, because {stage.reason}")
        with_positions = ", with positions" if stage.counted else ""
        lines.append(f"  reads {sent}{with_positions}; columns {columns or 'none'}")
    return "\n".join(lines)


# ---- one stage ---------------------------------------------------------------------------------------------------


def _stage(program: Program, number: int) -> Stage:
    plan = program.classes[number]
    match = plan.derivation
    assert isinstance(match, MatchPlan)
    reads = {key_of(name) for name in plan.reads}
    derived = [p.event_class for p in program.classes if p.event_class.kind is ClassKind.COMPLEX]
    classes = (*subscribed(program), *(c for c in derived if key_of(c.name) in reads))
    try:
        detector = detector_of(match)
    except tuple(REFUSALS) as error:
        raise NotOnSpark(refusal(type(error), plan, ENGINE)) from None
    keys, reason = _keys(detector, classes)
    sent = _sent(detector, classes, whole=any(c.kind is ClassKind.COMPLEX for c in classes))
    return Stage(
        number,
        plan,
        classes,
        sent,
        tuple(place for place in _columns(match, classes) if place[0] in sent),
        keys,
        _counts(detector) and (bool(keys) or len(sent) < len(_history(match, classes))),
        reason,
    )


def _history(match: MatchPlan, classes: Sequence[EventClass]) -> tuple[int, ...]:
    """The classes whose events are in the history, or in one of its partitions."""
    over = None if match.over is None else {key_of(name) for name in match.over}
    return tuple(
        code
        for code, c in enumerate(classes)
        if over is None or key_of(c.name) in over
        if all(c.attribute(name) is not None for name in match.partition_by)
    )


def _sent(detector: Detector, classes: Sequence[EventClass], *, whole: bool) -> tuple[int, ...]:
    """The classes whose rows the task needs: all of the history where it listens, or where nobody counts for it."""
    history = _history(detector.plan, classes)
    if _hears_all(detector) or (whole and _counts(detector)):
        return history
    named = {code_of(classes, leaf.event_class) for leaf in detector.alphabet.leaves}
    return tuple(code for code in history if code in named)


def _hears_all(detector: Detector) -> bool:
    """Whether events matter that no leaf is true of, or that only a part which is set apart can tell."""
    return detector.listens or bool(detector.inner)


def _counts(detector: Detector) -> bool:
    """Whether it matters how many events lie between those that some leaf is true of."""
    tables = detector.tables
    if _hears_all(detector) or tables is None:
        return False
    return not (tables.delta.size and bool(tables.quiet[:, detector.other].all()))


def _keys(detector: Detector, classes: Sequence[EventClass]) -> tuple[tuple[Key, ...], str]:
    """The keys of an expression, or why it has none."""
    derived = [c.name for c in classes if c.kind is ClassKind.COMPLEX]
    if derived:
        return (), f"it reads complex events ({_names(derived)}), whose places in the history are not numbered yet"
    if detector.plan.partition_by:
        return _partition_keys(detector.plan, classes), ""
    names = [variable.name for variable in detector.keyed]
    if not names:
        return (), "no variable joins its events, and there is no PARTITION BY"
    if _hears_all(detector):
        return (), f"events of other values of {_names(names)} matter to it"
    if looks_back(leaf.mask for leaf in detector.alphabet.leaves):
        return (), "PREV looks at events of other values"
    if not _each_names_one(detector):
        return (), f"not every event that it reads names one value of {_names(names)}"
    return _variable_keys(detector, classes), ""


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _partition_keys(match: MatchPlan, classes: Sequence[EventClass]) -> tuple[Key, ...]:
    found = []
    for name in match.partition_by:
        attributes = [(code, classes[code].attribute(name)) for code in _history(match, classes)]
        there = [(code, attribute) for code, attribute in attributes if attribute is not None]
        # As `initial_state` has it: the type of the first class that has the attribute, in the history or not.
        first = next(a for c in classes if (a := c.attribute(name)) is not None)
        found.append(Key(name, first.type, tuple((code, attribute.name) for code, attribute in there)))
    return tuple(found)


def _variable_keys(detector: Detector, classes: Sequence[EventClass]) -> tuple[Key, ...]:
    found: dict[str, dict[int, str]] = {variable.name: {} for variable in detector.keyed}
    for leaf in detector.alphabet.leaves:
        code = code_of(classes, leaf.event_class)
        for name, places in keyed_places(leaf, detector.keyed).items():
            found[name][code] = classes[code].attributes[places[0]].name
    return tuple(Key(v.name, v.type, tuple(found[v.name].items())) for v in detector.keyed)


def _each_names_one(detector: Detector) -> bool:
    """Whether all leaves of a class have all keyed variables, at the same attributes: as `streams.is_simple` asks."""
    places: dict[str, list[dict[str, list[int]]]] = {}
    for leaf in detector.alphabet.leaves:
        places.setdefault(key_of(leaf.event_class), []).append(keyed_places(leaf, detector.keyed))
    alike = all(other == of_class[0] for of_class in places.values() for other in of_class)
    return alike and all(len(of_class[0]) == len(detector.keyed) for of_class in places.values())


# ---- columns -----------------------------------------------------------------------------------------------------


def _columns(match: MatchPlan, classes: Sequence[EventClass]) -> tuple[tuple[int, int], ...]:
    """The attributes that the expression and its clauses name, by class."""
    found: set[tuple[int, str]] = set()
    for leaf in (part for part in parts(match.expression) if isinstance(part, Primitive)):
        code = code_of(classes, leaf.event_class)
        bound = enumerate(leaf.bindings)
        found |= {(code, key_of(classes[code].attributes[i].name)) for i, b in bound if not isinstance(b, Anything)}
        found |= {(code, name) for name in _fields(leaf.mask)}
    for scalar in _clauses(match):
        for field in leaves(scalar):
            if isinstance(field, Field) and field.scope:
                found.add((code_of(classes, field.scope), key_of(field.name)))
    found |= {(code, key_of(name)) for code in range(len(classes)) for name in match.partition_by}
    named = ((code, i, a) for code, c in enumerate(classes) for i, a in enumerate(c.attributes))
    return tuple((code, i) for code, i, attribute in named if (code, key_of(attribute.name)) in found)


def _fields(mask: Scalar | None) -> set[str]:
    if mask is None:
        return set()
    return {key_of(leaf.name) for leaf in leaves(mask) if isinstance(leaf, Field | Previous)}


def _clauses(match: MatchPlan) -> list[Scalar]:
    values = [feed.value for feed in match.feeds]
    scalars = [value.operand if isinstance(value, Aggregate) else value for value in values]
    return [scalar for scalar in [match.where, *scalars] if scalar is not None]

"""How a program is to run on Spark: which rows and columns are sent where, by what key, or why to one place.

In: a checked program. Out: a stage per MATCH class and per run of COMPOSITE classes (`composite` makes these) in
stratified order, which prints. It reads no event and starts no Spark.

A MATCH may be cut by key where every event that matters names the one history it belongs to: by PARTITION BY, or
by variables that stand in every leaf. How many events of others lie between is then a column of positions. Without a
key its history may be cut into ranges where only the best tuple of each state is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from augury.algebra.composite import CompositePlan
from augury.algebra.expression import Aggregate, Anything, MatchPlan, Primitive, parts
from augury.algebra.program import ClassPlan, Cron, Every, Program
from augury.algebra.scalar import Field, Previous, Scalar, dump, leaves
from augury.algebra.select import SelectPlan
from augury.engine.keys import NO_VARIABLE, Key, counts, hears_all, history_codes, match_ways
from augury.engine.plan import CannotRun, too_many_periods
from augury.event import ClassKind, EventClass, key_of
from augury.kernels.composite import TooManyPeriods
from augury.kernels.composite.sharing import runs_of
from augury.kernels.match import REFUSALS, Detector, detector_of
from augury.kernels.match.chunks import why_in_one
from augury.kernels.match.leaves import code_of, looks_back
from augury.kernels.match.refusals import refusal
from augury.spark.composite import composite_stage
from augury.spark.masks import needed
from augury.spark.stage import (
    ENGINE,
    Group,
    NotOnSpark,
    Stage,
    columns_sent,
    groups_of,
    not_yet,
    subscribed,
    torn,
)


def refused(plan: ClassPlan, name: str) -> NotOnSpark | CannotRun | None:
    """What to raise where the kernel has raised the error of that name; None for an error of another kind."""
    if name == TooManyPeriods.__name__:
        return too_many_periods(plan.event_class.name, plan.event_class.span)
    kind = next((kind for kind in REFUSALS if kind.__name__ == name), None)
    return None if kind is None else NotOnSpark(refusal(kind, plan, ENGINE))


def stages_of(program: Program) -> tuple[Stage, ...]:
    """The stages in the order in which they can run; raises `NotOnSpark`."""
    for plan in program.classes:
        match plan.derivation:
            case None | MatchPlan(by_occurrence=None) | CompositePlan(by_occurrence=None) | Cron() | Every():
                pass
            case MatchPlan() | CompositePlan():
                raise not_yet("ORDER BY OCCURRENCE", plan.event_class)
            case SelectPlan():
                raise not_yet("SELECT", plan.event_class)
    declared = {key_of(plan.event_class.name): number for number, plan in enumerate(program.classes)}
    runs = {declared[key_of(name)]: run for run in runs_of(program) for name in run.names}
    found: dict[int, Stage] = {}
    for number in (declared[key_of(name)] for layer in program.strata for name in layer):
        plan = program.classes[number]
        if isinstance(plan.derivation, MatchPlan):
            found[number] = _match_stage(plan, plan.derivation, number, _classes(program, plan))
        elif isinstance(plan.derivation, CompositePlan):
            first = declared[key_of(runs[number].names[0])]
            found.setdefault(first, composite_stage(runs[number], first, _classes(program, plan)))
    return tuple(found.values())


def _classes(program: Program, plan: ClassPlan) -> tuple[EventClass, ...]:
    """The classes of the history of a class: all subscribed ones, and the complex ones that it reads."""
    reads = {key_of(name) for name in plan.reads}
    derived = [p.event_class for p in program.classes if p.event_class.kind is ClassKind.COMPLEX]
    return (*subscribed(program), *(c for c in derived if key_of(c.name) in reads))


def explain_plan(program: Program) -> str:
    """The plan as text: per stage its classes, keys and shuffles, or ranges, or why it runs in one partition."""
    lines = _accepting(subscribed(program))
    groups = groups_of(stages_of(program))
    shared = {stage.number: group.stages[0] for group in groups for stage in group.stages[1:]}
    pushed = {group.stages[0].number: _pushed(group) for group in groups}
    for stage in stages_of(program):
        sent = ", ".join(stage.classes[code].name for code in stage.sent) or "nothing"
        columns = ", ".join(f"{stage.classes[c].name}.{stage.classes[c].attributes[i].name}" for c, i in stage.columns)
        lines.append(f"{', '.join(c.name for c in stage.found)}: {_brought(stage, shared.get(stage.number))}")
        besides = ", with positions" if stage.counted else ", with the clock" if stage.timed else ""
        lines.append(f"  reads {sent}{besides}; columns {columns or 'none'}")
        lines += pushed.get(stage.number, [])
    return "\n".join(lines)


def _pushed(group: Group) -> list[str]:
    """What Spark tells by itself of the rows that come together for some stages, before they are shuffled."""
    told = {} if group.leaves is None else needed(group.leaves, group.classes, group.own)
    masks = [(group.classes[code].name, of_class) for code, of_class in told.items() if of_class]
    return [f"  pushed down: {name} only where {' OR '.join(_dumped(of_class))}" for name, of_class in masks]


def _dumped(masks: Sequence[Scalar]) -> list[str]:
    """Each once, however many leaves have it."""
    texts = list(dict.fromkeys(map(dump, masks)))
    return texts if len(texts) == 1 else [f"({text})" if " AND " in text else text for text in texts]


def _brought(stage: Stage, first: Stage | None) -> str:
    """How the rows of a stage come together; `first` is the one before it that they come together for."""
    before = "" if first is None else ", ".join(c.name for c in first.found)
    if stage.keys:
        shuffle = f"the shuffle of {before}" if before else "one shuffle"
        return f"keyed by {', '.join(key.name for key in stage.keys)}, {shuffle}"
    if stage.ranged:
        return f"in ranges of the history, gone over twice{f', those of {before}' if before else ''}"
    # What has variables, or looks at other values, has said so already.
    besides = f"; nor in ranges of the history, because {stage.whole}" if stage.reason == NO_VARIABLE else ""
    return f"one partition, because {stage.reason}{besides if stage.whole else ''}"


def _accepting(classes: Sequence[EventClass]) -> list[str]:
    """How versions are told from what is none, and numbered, where events come as data frames."""
    lines = [f"accept {', '.join(c.name for c in classes)}: in many tasks, numbered by ranges of det_time"]
    if alone := [c.name for c in classes if not c.key]:
        lines.append(f"  {', '.join(alone)}: row by row; those with an event_id brought together by it")
    if keyed := [c.name for c in classes if c.key]:
        lines.append(
            f"  {', '.join(keyed)}: brought together by key, only those that may be no versions where columns tell of "
            "the rest; where there is an event_id one partition for each class, because an id may come with any key"
        )
    return lines


# ---- one stage ---------------------------------------------------------------------------------------------------


def _match_stage(plan: ClassPlan, match: MatchPlan, number: int, classes: tuple[EventClass, ...]) -> Stage:
    try:
        detector = detector_of(match)
    except tuple(REFUSALS) as error:
        raise NotOnSpark(refusal(type(error), plan, ENGINE)) from None
    keys, reason = _keys(detector, classes)
    sent = _sent(detector, classes, whole=any(c.kind is ClassKind.COMPLEX for c in classes))
    columns = tuple(place for place in _columns(match, classes) if place[0] in sent)
    counted = counts(detector) and not match.partition_by and (bool(keys) or len(sent) < len(_history(match, classes)))
    heads = (number, match, (plan,), classes, sent, columns, keys, reason, counted)
    return Stage(*heads, leaves=_leaves(detector, counted), whole=_whole(detector, keys, classes))


def _whole(detector: Detector, keys: Sequence[Key], classes: Sequence[EventClass]) -> str | None:
    """Why an expression without keys needs its history in one piece; empty where it does not."""
    if keys or any(c.kind is ClassKind.COMPLEX for c in classes):
        return None
    return why_in_one(detector)


def _leaves(detector: Detector, counted: bool) -> tuple[Primitive, ...] | None:
    """The leaves that tell which rows matter; None where all do: to be heard, counted, or looked back at."""
    leaves_ = detector.alphabet.leaves
    heard = hears_all(detector) or detector.tables is None or (counts(detector) and not counted)
    return None if heard or looks_back(leaf.mask for leaf in leaves_) else tuple(leaves_)


def _history(match: MatchPlan, classes: Sequence[EventClass]) -> tuple[int, ...]:
    return history_codes(match.over, match.partition_by, classes)


def _sent(detector: Detector, classes: Sequence[EventClass], *, whole: bool) -> tuple[int, ...]:
    """The classes whose rows the task needs: all of the history where it listens, or where nobody counts for it."""
    history = _history(detector.plan, classes)
    # In a partition positions would be counted by key: its rows are together anyway.
    whole = whole or bool(detector.plan.partition_by)
    if hears_all(detector) or (whole and counts(detector)):
        return history
    named = {code_of(classes, leaf.event_class) for leaf in detector.alphabet.leaves}
    return tuple(code for code in history if code in named)


def _keys(detector: Detector, classes: Sequence[EventClass]) -> tuple[tuple[Key, ...], str]:
    """The keys of an expression, or why it has none."""
    keys, reason = _cut_by(detector, classes)
    apart = torn(keys, classes)
    return ((), apart) if apart else (keys, reason)


def _cut_by(detector: Detector, classes: Sequence[EventClass]) -> tuple[tuple[Key, ...], str]:
    derived = [c.name for c in classes if c.kind is ClassKind.COMPLEX]
    if derived:
        return (), f"it reads complex events ({_names(derived)}), whose places in the history are not numbered yet"
    apart = match_ways(detector, classes, counted=True)
    return apart.keys, apart.reason


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


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
    return columns_sent(found, classes)


def _fields(mask: Scalar | None) -> set[str]:
    if mask is None:
        return set()
    return {key_of(leaf.name) for leaf in leaves(mask) if isinstance(leaf, Field | Previous)}


def _clauses(match: MatchPlan) -> list[Scalar]:
    values = [feed.value for feed in match.feeds]
    scalars = [value.operand if isinstance(value, Aggregate) else value for value in values]
    return [scalar for scalar in [match.where, *scalars] if scalar is not None]

"""MATCH as written → the algebra: definitions expanded, classes, correlation and attribute variables resolved.

Definitions are expanded by tree, hygienically: a definition's own variables never meet those of its user. Where
variables are bound is decided afterwards, in `variables`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import assert_never

from augury import limits
from augury.algebra import expression as a
from augury.analysis.declarations import Declarations, Names, enumerated, listed
from augury.analysis.references import VariableTable, counted, primitive
from augury.analysis.strata import stratify
from augury.diagnostics import Findings, Mark, Span
from augury.event import EventClass
from augury.language import syntax as s

Op = s.MatchOperator
_DEPTH_MAX = limits.NESTING_MAX * 2


@dataclass(frozen=True, slots=True)
class _Correlation:
    """A name bound by EXISTS, under a name that no other EXISTS of the expression has."""

    unique: str


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A definition's parameter: what was given for it, and what names meant there."""

    argument: s.Argument
    scope: _Names


@dataclass(frozen=True, slots=True)
class _Open:
    """A parameter of a definition that is looked at by itself: it may yet stand for anything."""


@dataclass(frozen=True, slots=True)
class _Names:
    """What names mean at a place of the expression."""

    bound: Mapping[str, _Correlation | _Parameter | _Open] = field(default_factory=dict)
    prefix: str = ""
    """Sets the variables of one expansion of a definition apart."""

    def with_bound(self, key: str, meaning: _Correlation) -> _Names:
        return replace(self, bound={**self.bound, key: meaning})


@dataclass(frozen=True, slots=True)
class Lowered:
    """An expression whose attribute variables are not bound yet, and what was met on the way."""

    expression: a.Expression
    variables: VariableTable
    classes: Mapping[str, EventClass]


class _TooLarge(Exception):
    """Definitions of definitions have grown past a limit; carries a code and a sentence that says which."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def lower_match(expression: s.MatchExpression, tables: Declarations, findings: Findings) -> Lowered | None:
    """Resolve a MATCH expression; None where something in it is wrong, with the reasons reported."""
    lowering = _Lowering(tables, findings)
    try:
        lowered = lowering.closed(expression, _Names(), 0)
    except _TooLarge as error:
        helps = ["make classes of some of the definitions: a class is detected once"]
        findings.error(error.code, error.message, expression.span, "too large", helps=helps)
        return None
    finally:
        lowering.account()
    return None if lowered is None else Lowered(lowered, lowering.variables, lowering.classes)


def check_definitions(tables: Declarations, findings: Findings) -> None:
    """Report what is wrong in definitions whoever uses them, also if nobody does."""
    _report_circles(tables, findings)
    apart = replace(tables, parts_left=limits.EXPANDED_NODES_MAX)  # what is looked at here is not yet used
    for definition in tables.definitions.values():
        lowering = _Lowering(apart, findings)
        names = _Names({p.key: _Open() for p in definition.parameters})
        with suppress(_TooLarge):  # whoever uses it is told
            lowering.closed(definition.expression, names, 0)
        lowering.account()


def _report_circles(tables: Declarations, findings: Findings) -> None:
    """Report definitions that need themselves, each circle from its first member on, and note them."""
    equated = _Lowering(tables, findings).equated_arguments
    calls = {}
    for key, definition in tables.definitions.items():
        own = frozenset(p.key for p in definition.parameters)
        given = _given_by_equals(definition.expression, own, equated)
        calls[key] = _called(definition.expression, own.union(ident.key for ident in given), tables)
    layers, circles = stratify(calls)
    tables.circular = frozenset(calls).difference(*layers)
    for keys in circles:
        circle = [tables.definitions[key].name for key in keys]
        path = enumerated([name.text for name in (*circle, circle[0])], " → ")
        findings.error(
            "E301",
            f"`{circle[0].text}` is defined by itself" if len(circle) == 1 else f"definitions go in a circle: {path}",
            circle[0].span,
            "it needs itself",
            others=[Mark(name.span, "by way of this one") for name in circle[1:10]],
            helps=["to repeat something write relative+(E) or EVERY <n> E"],
        )


def _called(expression: s.MatchExpression, bound: frozenset[str], tables: Declarations) -> tuple[str, ...]:
    """The definitions that an expression calls, each once."""
    found: dict[str, None] = {}
    stack: list[tuple[s.Argument, frozenset[str]]] = [(expression, bound)]
    while stack:
        node, inner = stack.pop()
        match node:
            case s.EventRef(name=name, arguments=arguments, mask=mask):
                is_variable = arguments is None and mask is None and name.key in inner
                if not is_variable and name.key in tables.definitions:
                    found[name.key] = None
                    stack.extend((argument, inner) for argument in arguments or ())
            case s.Exists(variable=variable, operand=operand):
                stack.append((operand, inner | {variable.key}))
            case s.MatchApply(operands=operands):
                stack.extend((operand, inner) for operand in operands)
            case s.Nth(operand=operand) | s.Equate(operand=operand):
                stack.append((operand, inner))
            case s.Wildcard() | s.Literal() | s.TypedLiteral():
                pass
            case _:
                assert_never(node)
    return tuple(found)


class _Lowering:
    def __init__(self, tables: Declarations, findings: Findings) -> None:
        self.tables = tables
        self.findings = findings
        self.variables = VariableTable()
        self.classes: dict[str, EventClass] = {}
        self.taken: dict[str, int] = {}
        self.used: set[str] = set()
        self.equated: dict[str, tuple[int, ...]] = {}
        self.following = 0
        self.refused: set[Span] = set()
        self.nodes = 0
        self.expanded = False

    def account(self) -> None:
        """Take what definitions have added off what they may add to a program."""
        self.tables.parts_left -= self.nodes if self.expanded else 0

    def closed(self, expression: s.MatchExpression, names: _Names, depth: int) -> a.Expression | None:
        """An expression with an EXISTS around it for every name that is given by `=` and not quantified."""
        implicit = _given_by_equals(expression, frozenset(names.bound), self.equated_arguments)
        depth += len(implicit)
        if implicit and depth > _DEPTH_MAX:
            raise _TooLarge("E401", f"this gives names by `=` to more than {limits.NESTING_MAX} events")
        uniques = [(ident, self._unique(ident.text)) for ident in implicit]
        for ident, unique in uniques:
            names = names.with_bound(ident.key, _Correlation(unique))
        lowered = self.lower(expression, names, depth)
        for _, unique in reversed(uniques):
            lowered = None if lowered is None else a.Exists(unique, lowered, expression.span)
        return lowered

    def lower(self, expression: s.MatchExpression, names: _Names, depth: int) -> a.Expression | None:
        self.nodes += 1
        if self.nodes > limits.EXPRESSION_NODES_MAX:
            parts = f"{limits.EXPRESSION_NODES_MAX:,} parts"
            raise _TooLarge("E403", f"this expression has more than {parts} once its definitions are expanded")
        if depth > _DEPTH_MAX:
            levels = f"{limits.NESTING_MAX} levels"
            raise _TooLarge("E401", f"this is nested more than {levels} deep once its definitions are expanded")
        span = expression.span
        match expression:
            case s.EventRef():
                return self._event(expression, names, depth)
            case s.MatchApply(operator=operator, operands=operands):
                return self._apply(operator, operands, span, names, depth)
            case s.Nth(count=count, every=every, operand=operand):
                lowered = self.lower(operand, names, depth + 1)
                self._check_count(count, span)
                return None if lowered is None else a.Nth(count, every, lowered, span)
            case s.Equate(operand=operand, variable=variable):
                lowered = self.lower(operand, names, depth + 1)
                unique = self._correlation(variable, names)
                return None if lowered is None or unique is None else a.Equate(lowered, unique, span)
            case s.Exists(variable=variable, operand=operand):
                return self._exists(variable, operand, span, names, depth)
            case _:
                assert_never(expression)

    def _apply(
        self, operator: Op, operands: tuple[s.MatchExpression, ...], span: Span, names: _Names, depth: int
    ) -> a.Expression | None:
        lowered = [self.lower(operand, names, depth + 1) for operand in operands]
        known = tuple(operand for operand in lowered if operand is not None)
        if len(known) < len(lowered):
            return None
        if operator in (Op.PRIOR, Op.SEQUENCE) and len(known) == 1:
            return known[0]
        if operator is Op.PIPE:
            self._warn_of_bare_class(operands[1], known[1])
        is_open = any(isinstance(meaning, _Open) for meaning in names.bound.values())
        if operator is Op.PREFIX and not is_open and (free := _free_correlations(known[0])):
            self.findings.error(
                "E303",
                f"the operand of prefix has the free correlation variable `{free[0]}`",
                span,
                f"`{free[0]}` is bound outside of it",
                helps=[f"bind it inside: prefix(EXISTS {free[0]} …)"],
            )
            return None
        return a.Apply(operator, known, span)

    def _warn_of_bare_class(self, written: s.MatchExpression, lowered: a.Expression) -> None:
        if isinstance(written, s.EventRef) and isinstance(lowered, a.Primitive):
            self.findings.warning(
                "W301",
                "`|` is a pipe in a MATCH: it does not mean OR",
                written.span,
                f"each `{lowered.event_class}` in the history on the left",
                helps=["write OR for either, AND for both; in a COMPOSITE `|` means OR"],
            )

    def _check_count(self, count: int, span: Span) -> None:
        if count < 1:
            self.findings.error(
                "E308",
                "`<n>` counts from 1",
                span,
                f"n is {count} here",
                helps=["write <1> E for the first"],
            )
        elif count > limits.NTH_MAX:
            self.findings.error(
                "E404",
                f"n may be at most {limits.NTH_MAX:,}",
                span,
                f"n is {count:,} here",
                helps=["aggregate in a SELECT instead"],
            )

    def _exists(
        self, variable: s.Ident, operand: s.MatchExpression, span: Span, names: _Names, depth: int
    ) -> a.Expression | None:
        unique = self._unique(variable.text)
        lowered = self.lower(operand, names.with_bound(variable.key, _Correlation(unique)), depth + 1)
        if lowered is None:
            return None
        if unique not in self.used:
            self.findings.warning(
                "W303",
                f"`{variable.text}` is quantified but not used",
                variable.span,
                "unused",
                helps=[f"write `E = {variable.text}` where it is to be that event, or leave the EXISTS out"],
            )
        return a.Exists(unique, lowered, span)

    def equated_arguments(self, key: str) -> tuple[int, ...]:
        """Which arguments of a definition are correlation variables that its body gives by `=`."""
        if key not in self.equated:
            self.equated[key] = ()  # what stands in a circle is refused elsewhere
            definition = self.tables.definitions.get(key)
            self.following += 1
            if definition is not None and self.following <= limits.NESTING_MAX:  # deeper ones are refused anyway
                idents = _given_by_equals(definition.expression, frozenset(), self.equated_arguments)
                given = {ident.key for ident in idents}
                self.equated[key] = tuple(i for i, p in enumerate(definition.parameters) if p.key in given)
            self.following -= 1
        return self.equated[key]

    def _unique(self, name: str) -> str:
        key = name.casefold()
        self.taken[key] = self.taken.get(key, 0) + 1
        return name if self.taken[key] == 1 else f"{name}#{self.taken[key]}"

    def _correlation(self, variable: s.Ident, names: _Names) -> str | None:
        """The correlation variable that a name stands for, through parameters of definitions."""
        meaning = names.bound.get(variable.key)
        match meaning:
            case _Correlation(unique=unique):
                self.used.add(unique)
                return unique
            case _Parameter(argument=s.EventRef(name=name, arguments=None, mask=None), scope=scope):
                return self._correlation(name, scope)
            case _Open():
                return variable.text
            case _Parameter(argument=argument):
                self.findings.error(
                    "E207",
                    f"the parameter `{variable.text}` stands for a correlation variable, and nothing else",
                    argument.span,
                    "not a variable",
                    others=[Mark(variable.span, "used as one here")],
                    helps=["give a variable that an EXISTS around it binds"],
                )
            case None:
                self.findings.error(
                    "E214",
                    f"there is no correlation variable `{variable.text}`",
                    variable.span,
                    "unknown variable",
                    helps=[f"bind it: EXISTS {variable.text} …"],
                )
        return None

    def _event(self, ref: s.EventRef, names: _Names, depth: int) -> a.Expression | None:
        meaning = names.bound.get(ref.name.key)
        plain = ref.arguments is None and ref.mask is None
        if meaning is not None and plain:
            if isinstance(meaning, _Correlation):
                self.used.add(meaning.unique)
                return a.Place(meaning.unique, ref.span)
            if isinstance(meaning, _Open):
                return a.Apply(Op.ANY, (), ref.span)
            return self._parameter(ref, meaning, depth)
        definition = self.tables.definitions.get(ref.name.key)
        if definition is not None:
            return self._expand(ref, definition, names, depth)
        event_class = self.tables.classes.get(ref.name.key)
        if event_class is None:
            self._unknown_event(ref, names)
            return None
        self.classes[ref.name.key] = event_class
        return primitive(
            ref, event_class, lambda argument: self._follow(argument, names), self.variables, self.findings
        )

    def _unknown_event(self, ref: s.EventRef, names: _Names) -> None:
        known = Names(self.tables.classes.values(), self.tables.definitions.values())
        meant = self.findings.closest(ref.name.text, known)
        helps = [f"did you mean `{meant}`?" if meant else listed(known) or "declare it: CREATE … EVENT CLASS …"]
        if ref.name.key in names.bound:
            helps = [f"`{ref.name.text}` is a variable here: it takes neither arguments nor a mask"]
        self.findings.error(
            "E200",
            f"there is no event class `{ref.name.text}`",
            ref.name.span,
            "unknown event class",
            helps=helps,
        )

    def _parameter(self, ref: s.EventRef, meaning: _Parameter, depth: int) -> a.Expression | None:
        match meaning.argument:
            case s.Wildcard() | s.Literal() | s.TypedLiteral() as argument:
                if argument.span in self.refused:
                    return None  # the parameter is used several times, but was given once
                self.refused.add(argument.span)
                self.findings.error(
                    "E207",
                    f"the parameter `{ref.name.text}` stands for an event expression, and not for a value",
                    argument.span,
                    "a value",
                    others=[Mark(ref.span, "used as an expression here")],
                    helps=["give a class or another expression"],
                )
                return None
            case argument:
                return self.lower(argument, meaning.scope, depth + 1)

    def _expand(self, ref: s.EventRef, definition: s.Definition, names: _Names, depth: int) -> a.Expression | None:
        if ref.mask is not None:
            self.findings.error(
                "E235",
                f"`{definition.name.text}` is a definition, and takes no mask",
                ref.mask.span,
                "a mask",
                others=[Mark(definition.name.span, "defined here")],
                helps=["put the mask on the classes inside it"],
            )
            return None
        if definition.name.key in self.tables.circular:
            return None  # reported already
        if self.tables.parts_left < 0:
            parts = f"{limits.EXPANDED_NODES_MAX:,} parts"
            raise _TooLarge("E403", f"the definitions of this program add more than {parts} to its expressions")
        self.expanded = True
        given = ref.arguments or ()
        if len(given) != len(definition.parameters):
            parameters = enumerated([p.text for p in definition.parameters])
            form = definition.name.text + (f"({parameters})" if parameters else "")
            self.findings.error(
                "E207",
                f"`{definition.name.text}` takes {counted(len(definition.parameters), 'argument')}, not {len(given)}",
                ref.span,
                f"{len(given) or 'none'} given",
                others=[Mark(definition.name.span, "defined here")],
                helps=[f"write {form}"],
            )
            return None
        bound = {p.key: _Parameter(g, names) for p, g in zip(definition.parameters, given, strict=True)}
        self.taken["#" + definition.name.key] = number = self.taken.get("#" + definition.name.key, 0) + 1
        prefix = f"{definition.name.text}{number if number > 1 else ''}."
        inner = _Names(bound, prefix)
        return self.closed(definition.expression, inner, depth + 1)

    def _follow(self, argument: s.Argument, names: _Names) -> s.Argument | tuple[str, str]:
        """An argument of a class: what was given for a parameter, or the variable that the name is."""
        if not isinstance(argument, s.EventRef) or argument.arguments is not None or argument.mask is not None:
            return argument
        meaning = names.bound.get(argument.name.key)
        if isinstance(meaning, _Parameter):
            return self._follow(meaning.argument, meaning.scope)
        name = names.prefix + argument.name.text
        return name.casefold(), name


def _given_by_equals(
    expression: s.MatchExpression, bound: frozenset[str], equated: Callable[[str], tuple[int, ...]]
) -> list[s.Ident]:
    """The names given by `=`, here or in a definition they are handed to, that no EXISTS binds; in order, each once."""
    found: dict[str, s.Ident] = {}
    stack: list[tuple[s.Argument, frozenset[str]]] = [(expression, bound)]
    while stack:
        node, inner = stack.pop()
        match node:
            case s.Equate(operand=operand, variable=variable):
                if variable.key not in inner:
                    found.setdefault(variable.key, variable)
                stack.append((operand, inner))
            case s.Exists(variable=variable, operand=operand):
                stack.append((operand, inner | {variable.key}))
            case s.MatchApply(operands=operands):
                stack.extend((operand, inner) for operand in reversed(operands))
            case s.Nth(operand=operand):
                stack.append((operand, inner))
            case s.EventRef(name=name, arguments=arguments):
                given = arguments or ()
                stack.extend((argument, inner) for argument in reversed(given))
                for argument in [given[i] for i in equated(name.key) if i < len(given)] if given else []:
                    if (
                        isinstance(argument, s.EventRef)
                        and argument.arguments is None
                        and argument.name.key not in inner
                    ):
                        found.setdefault(argument.name.key, argument.name)
            case s.Wildcard() | s.Literal() | s.TypedLiteral():
                pass
            case _:
                assert_never(node)
    return list(found.values())


def _free_correlations(expression: a.Expression) -> list[str]:
    used = dict.fromkeys(n.variable for n in a.walk(expression) if isinstance(n, a.Place | a.Equate))
    bound = {n.variable for n in a.walk(expression) if isinstance(n, a.Exists)}  # names are unique
    return [name for name in used if name not in bound]

"""The event graph: a node for every operator, all working by one pairing.

In: a form. Out: a detector. Negated expressions are graphs in which nothing is used up: every version counts there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from augury.kernels.reference.composite import chain, nodes, timers
from augury.kernels.reference.composite import forms as f
from augury.kernels.reference.composite.protocol import Detector, Pairing
from augury.kernels.reference.composite.setting import Setting
from augury.kernels.reference.composite.unrestricted import Unrestricted


def graph(form: f.Form, setting: Setting, pairing: Pairing) -> Detector:
    """The nodes of a form."""

    def below(inner: f.Form) -> Detector:
        return graph(inner, setting, pairing)

    match form:
        case f.Leaf(number=number, terms=terms):
            return nodes.LeafNode(setting, number, terms)
        case f.Either(sides=sides):
            return nodes.EitherNode(setting, [below(side) for side in sides])
        case f.Together(need=need, operands=operands, terms=terms):
            return nodes.TogetherNode(setting, pairing, need, [below(each) for each in operands], terms)
        case f.Beside(operand=operand, absent=absent, terms=terms):
            return nodes.BesideNode(setting, below(operand), graph(absent, setting, Unrestricted()), terms)
        case f.Chain():
            return _chain(form, setting, pairing)
        case f.Times(count=count, operand=operand, terms=terms):
            return nodes.TimesNode(setting, count, below(operand), terms)
        case f.Later(operand=operand, delay_us=delay):
            return timers.LaterNode(setting, below(operand), delay)
        case f.Unless(opening=opening, absent=absent, delay_us=delay, agree=agree):
            never = graph(absent, setting, Unrestricted())
            return timers.UnlessNode(setting, below(opening), never, delay, agree)
        case f.Window(opening=opening, middle=middle, closing=closing, terms=terms):
            return timers.WindowNode(setting, pairing, below(opening), below(middle), below(closing), terms)
        case f.Pulse(opening=opening, period_us=period, closing=closing, agree=agree):
            return timers.PulseNode(setting, pairing, below(opening), period, below(closing), agree)
        case f.Bounds(low_us=low, high_us=high, operand=operand):
            return nodes.BoundsNode(setting, low, high, below(operand))
        case f.Tested(operand=operand, tests=tests):
            return nodes.TestedNode(setting, below(operand), tests)
        case _:
            assert_never(form)


def _chain(form: f.Chain, setting: Setting, pairing: Pairing) -> Detector:
    between: list[chain.Between] = []
    elapsed_us: list[int] = []
    for middle in form.middles:
        match middle:
            case f.Absent(form=absent):
                between.append(chain.Between(graph(absent, setting, Unrestricted()), None))
            case f.All(form=each, least=least):
                between.append(chain.Between(graph(each, setting, pairing), least))
            case f.Elapsed(period_us=period):
                elapsed_us.append(period)
            case _:
                assert_never(middle)
    left = None if form.left is None else graph(form.left, setting, pairing)
    right = graph(form.right, setting, pairing)
    return chain.ChainNode(setting, pairing, left, between, elapsed_us, right, form.terms, form.closes)


@dataclass(frozen=True, slots=True)
class NodeByNode:
    """A context in which each operator keeps and consumes its operands on its own."""

    pairing: Pairing

    def detector(self, form: f.Form, setting: Setting) -> Detector:
        """The event graph of an expression."""
        return graph(form, setting, self.pairing)

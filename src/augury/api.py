"""The library on one page: text → a checked program, or everything that is wrong with it.

Pure: no file, no clock, no Spark. The command line and the server call this and nothing deeper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from augury.algebra.program import Program
from augury.analysis.program import analyse
from augury.automata.advice import advise
from augury.automata.deep import Deep, compare_classes
from augury.diagnostics import Diagnostic, Findings, Severity, Source, render
from augury.language.parser import parse
from augury.language.syntax import Program as Syntax


@dataclass(frozen=True, slots=True)
class Checked:
    """A text with what it says and what is wrong with it; `program` is None if there are errors."""

    source: Source
    syntax: Syntax
    program: Program | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that keep the program from running."""
        return tuple(d for d in self.diagnostics if d.severity is Severity.ERROR)

    def rendered(self, *, colour: bool = False) -> str:
        """All diagnostics as the terminal shows them."""
        return "\n\n".join(render(d, self.source, colour=colour) for d in self.diagnostics)


class ProgramError(ValueError):
    """A program that does not compile; `diagnostics` says why, and so does the message."""

    def __init__(self, checked: Checked) -> None:
        """Keep the diagnostics, and render them as the message."""
        super().__init__(checked.rendered())
        self.diagnostics = checked.diagnostics


def check(text: str, name: str = "program") -> Checked:
    """Read and analyse a program, and say what automata know of it; never raises for anything a user can write."""
    checked = _read(text, name)
    if checked.program is None:
        return checked
    findings = Findings()
    findings.extend(checked.diagnostics)
    # A pipe that is taken for OR hardly ever takes place; it has been said already.
    pipes = [d.mark.span for d in checked.diagnostics if d.code == "W301"]
    found = advise(checked.program, text)
    findings.extend(d for d in found if not (d.code == "W305" and any(d.mark.span.holds(pipe) for pipe in pipes)))
    return replace(checked, diagnostics=findings.sorted())


def deep(checked: Checked, is_over: Callable[[], bool] = lambda: False) -> Deep:
    """How the MATCH classes of a checked program relate to each other; `is_over` says whether to stop early."""
    assert checked.program is not None, "only programs without errors are compared"
    return compare_classes(checked.program, is_over)


def compile(text: str, name: str = "program") -> Program:
    """A checked program; raises ProgramError with everything that is wrong."""
    checked = _read(text, name)
    if checked.program is None:
        raise ProgramError(checked)
    return checked.program


def _read(text: str, name: str) -> Checked:
    findings = Findings()
    parsed = parse(text, findings)
    unread = findings.has_errors()
    inner = Findings()
    program = analyse(parsed.program, inner)
    # A name that only a statement which could not be read may declare is not unknown.
    findings.extend(d for d in inner.sorted() if not (d.code in _UNKNOWN and _marked(d, text) in parsed.unread_names))
    return Checked(Source(name, text), parsed.program, None if unread else program, findings.sorted())


_UNKNOWN = frozenset({"E200", "E214", "E217", "E221", "E251"})


def _marked(diagnostic: Diagnostic, text: str) -> str:
    return text[diagnostic.mark.span.start : diagnostic.mark.span.end].strip("`").casefold()

"""Results of tests → JUnit's XML, or one JSON object, for programs.

In: results by suite, diagnostics of suites that could not be run, coverage. Out: texts. It prints nothing itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final
from xml.etree import ElementTree

from augury.clock import show_time
from augury.diagnostics import Diagnostic, Source, to_json
from augury.history.raw import whole_json
from augury.trying.suite_bound import Failure, Result
from augury.trying.suite_coverage import Coverage
from augury.trying.suite_told import failure_lines

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Reported:
    """A suite with the results of its tests, or with what kept it from running."""

    source: Source
    results: tuple[Result, ...] = ()
    problems: tuple[tuple[Diagnostic, Source], ...] = ()


def junit(reports: Sequence[Reported]) -> str:
    """The results as JUnit's XML: a suite a file, a case for each test and engine."""
    root = ElementTree.Element("testsuites", name="augury test")
    for report in reports:
        results, errors = report.results, len(report.problems)
        suite = ElementTree.SubElement(root, "testsuite", name=_xml(report.source.name))
        suite.set("tests", str(len(results) + errors))
        suite.set("failures", str(sum(not one.passed for one in results)))
        suite.set("errors", str(errors))
        suite.set("skipped", "0")
        suite.set("time", f"{sum(one.seconds for one in results):.3f}")
        for diagnostic, source in report.problems:
            case = _case(suite, report.source, diagnostic.message, source.position(diagnostic.mark.span.start)[0], 0.0)
            error = ElementTree.SubElement(case, "error", message=_xml(diagnostic.message), type=diagnostic.code)
            error.text = _xml("\n".join(diagnostic.helps))
        for result in results:
            test = result.bound.test
            name = test.name if test.engines == ("local",) else f"{test.name} [{result.engine}]"
            line = report.source.position(test.span.start)[0]
            case = _case(suite, report.source, name, line, result.seconds)
            if not result.passed:
                _add_failure(case, report.source, result)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode")


def _case(suite: ElementTree.Element, source: Source, name: str, line: int, seconds: float) -> ElementTree.Element:
    of = PurePath(source.name).with_suffix("").as_posix().replace("/", ".").strip(".")
    case = ElementTree.SubElement(suite, "testcase", classname=_xml(of), name=_xml(name))
    case.set("file", _xml(source.name))
    case.set("line", str(line))
    case.set("time", f"{seconds:.3f}")
    return case


def _add_failure(case: ElementTree.Element, source: Source, result: Result) -> None:
    """One element, for readers take the first only; it holds all."""
    messages = [failure.message for failure in result.failures]
    failure = ElementTree.SubElement(case, "failure", message=_xml("; ".join(messages)), type="failed")
    failure.text = _xml("\n".join(failure_lines(source, result)))


def _xml(text: str) -> str:
    """The text with a mark for each character that XML has no way to write."""
    return _NOT_XML.sub("\ufffd", text)


def json_text(reports: Sequence[Reported], covered: Sequence[Coverage], seed: int) -> str:
    """The results as one JSON object."""
    results = [one for report in reports for one in report.results]
    return whole_json(
        {
            "tests": len(results),
            "failed": sum(not one.passed for one in results),
            "errors": sum(len(report.problems) for report in reports),
            "seed": seed,
            "suites": [_suite(report) for report in reports],
            "coverage": [_coverage(one) for one in covered],
        }
    )


def _suite(report: Reported) -> dict[str, Any]:
    return {
        "file": report.source.name,
        "tests": [_test(report.source, one) for one in report.results],
        "errors": [to_json(diagnostic, source) for diagnostic, source in report.problems],
    }


def _test(source: Source, result: Result) -> dict[str, Any]:
    return {
        "name": result.bound.test.name,
        "line": source.position(result.bound.test.span.start)[0],
        "engine": result.engine,
        "passed": result.passed,
        "orders_tried": result.orders[0],
        "orders": result.orders[1],
        "failures": [_failure(source, one) for one in result.failures],
    }


def _failure(source: Source, failure: Failure) -> dict[str, Any]:
    line, column = source.position(failure.span.start)
    return {
        "message": failure.message,
        "line": line,
        "column": column,
        "step": failure.step,
        "tick": None if failure.tick_us is None else show_time(failure.tick_us),
        "notes": list(failure.notes),
        "lines": [
            {
                "expected": pair.expected,
                "got": pair.got,
                "differs": pair.differs,
                "tick": None if pair.tick_us is None else show_time(pair.tick_us),
                "line": None if pair.span is None else source.position(pair.span.start)[0],
            }
            for pair in failure.pairs
        ],
    }


def _coverage(found: Coverage) -> dict[str, Any]:
    return {
        "program": found.program,
        "classes": found.classes,
        "statements": found.statements,
        "triggers": found.triggers,
        "rules": found.rules,
        "untried": [
            {"what": one.what, "name": one.name, "number": one.number, "line": one.line, "told": one.told}
            for one in found.untried
        ],
    }

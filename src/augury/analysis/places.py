"""Where DETECT looks in what it reads: paths of JSON, selectors of CSS and XPath, checked before anything is read.

In: the texts of ITEMS, FIELDS, NEXT and of the option `form`. Out: nothing but E280 for what cannot be read. What reads
CSS and XPath is loaded where a program has such a text, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator

from augury.algebra.json_paths import FORMS, UnreadablePath, field_path_of, path_of
from augury.algebra.selectors import XPath, selector_parts
from augury.algebra.wiring import SourceKind
from augury.diagnostics import Findings, Span
from augury.language import syntax as s


def check_places(kind: SourceKind, clauses: s.DetectClauses, findings: Findings) -> None:
    """Report every path and selector that cannot be read; what is empty is reported elsewhere."""
    if kind is SourceKind.HTML:
        for text, attribute in _selectors(clauses):
            _check_selector(text, attribute, findings)
        return
    listed = (clauses.items, clauses.next_page) if kind is SourceKind.HTTP else ()
    for text in listed:
        _check_path(text, False, findings)
    for field in clauses.fields:
        _check_path(field.path, True, findings)


def _selectors(clauses: s.DetectClauses) -> Iterator[tuple[s.Literal | None, bool]]:
    """Each selector, and whether `@` takes an attribute there."""
    yield clauses.items, False
    yield from ((field.path, True) for field in clauses.fields)
    yield clauses.next_page, True
    for option in clauses.options:
        if option.name.key == "form" and isinstance(option.value, s.Literal):
            yield option.value, False


def _is_said(text: s.Literal | None) -> bool:
    return text is not None and isinstance(text.value, str) and bool(text.value.strip())


def _check_path(text: s.Literal | None, is_field: bool, findings: Findings) -> None:
    if text is None or not _is_said(text):
        return
    try:
        (field_path_of if is_field else path_of)(str(text.value))
    except UnreadablePath as error:
        if error.is_field:
            message, label = f"`{error.text}` gives many values, and a field has one", "many values"
            findings.error("E280", message, text.span, label, helps=["write [0] instead of [*]"])
        else:
            span = _within(text, error.at)
            findings.error("E280", f"the path `{error.text}` cannot be read", span, "from here on", helps=[FORMS])


def _within(text: s.Literal, at: int) -> Span:
    """From a character of a text to its end, where what is written is what is meant; else all of it."""
    if text.span.end - text.span.start != len(str(text.value)) + 2:
        return text.span
    return Span(text.span.start + 1 + at, max(text.span.end - 1, text.span.start + 2 + at))


def _check_selector(text: s.Literal | None, attribute: bool, findings: Findings) -> None:
    if text is None or not _is_said(text):
        return
    match selector_parts(str(text.value), attribute=attribute):
        case XPath(path):
            if fault := _xpath_fault(path):
                helps = ["XPath 1.0 is understood, e.g. 'xpath:./td[2]'"]
                findings.error("E280", f"`{path}` is no XPath", text.span, fault, helps=helps)
        case parts:
            if fault := _css_fault(parts.css):
                helps = ["write CSS, e.g. 'td.name' or 'a@href', or XPath, which begins with `xpath:`"]
                findings.error("E280", f"`{parts.css}` is no selector of CSS", text.span, fault, helps=helps)


def _css_fault(css: str) -> str | None:
    from cssselect import HTMLTranslator, SelectorError

    try:
        HTMLTranslator().css_to_xpath(css)
    except SelectorError as error:
        return str(error)
    return None


def _xpath_fault(path: str) -> str | None:
    from lxml import etree  # type: ignore[import-untyped]

    try:
        etree.XPath(path)
    except etree.XPathSyntaxError as error:
        return str(error)
    return None

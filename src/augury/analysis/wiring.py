"""What BIND and DETECT share: kinds, what stands behind them, and options, checked by the tables of `wiring_forms`.

In: words as written. Out: plain values of `algebra.wiring`, with every mistake reported. No class is looked up here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from augury.algebra.wiring import ExecutorKind, FromEnvironment, Length, Setting, Settings, SourceKind
from augury.algebra.wiring_forms import Option, Takes, Target, option_of
from augury.analysis.declarations import unknown
from augury.clock import duration_us
from augury.diagnostics import Findings, Mark, Span
from augury.language import syntax as s

_KIND = TypeVar("_KIND", ExecutorKind, SourceKind)

# What others call it, and what is close to it in spelling but not in meaning.
_MEANT = {
    ExecutorKind: {
        **dict.fromkeys(("HTTP", "HTTPS", "URL", "POST", "HOOK"), "WEBHOOK"),
        **dict.fromkeys(("SMTP", "EMAIL"), "MAIL"),
        **dict.fromkeys(("SHELL", "EXEC", "SCRIPT", "PROGRAM"), "COMMAND"),
        **dict.fromkeys(("FUNCTION", "CALL", "MODULE"), "PYTHON"),
        **dict.fromkeys(("PRINT", "STDOUT", "CONSOLE"), "LOG"),
        **dict.fromkeys(("DATABASE", "POSTGRES", "POSTGRESQL", "SQLITE", "JDBC"), "SQL"),
    },
    SourceKind: {
        **dict.fromkeys(("HTTPS", "URL", "JSON", "REST", "API"), "HTTP"),
        **dict.fromkeys(("WEB", "PAGE", "SITE"), "HTML"),
        **dict.fromkeys(("RSS", "ATOM"), "FEED"),
        **dict.fromkeys(("FOLDER", "PATH"), "DIRECTORY"),
        **dict.fromkeys(("TAIL", "CSV", "JSONL"), "FILE"),
        **dict.fromkeys(("FUNCTION", "CALL", "MODULE"), "PYTHON"),
        **dict.fromkeys(("DATABASE", "POSTGRES", "POSTGRESQL", "SQLITE", "JDBC"), "SQL"),
    },
}
_EXAMPLES = {Takes.TEXT: "'…'", Takes.WHOLE: "8", Takes.LENGTH: "10s", Takes.TRUTH: "TRUE"}
_VARIABLE = re.compile(r"[^=\0]+")


def kind_of(word: s.Ident, kinds: type[_KIND], what: str, findings: Findings) -> _KIND | None:
    """The kind that a word names, or a report that there is none."""
    if word.text in kinds.__members__:
        return kinds[word.text]
    meant = _MEANT[kinds].get(word.text)
    if meant is None:
        unknown(f"kind of {what} called", word, list(kinds), "E270", findings, label="unknown kind")
    else:
        message, helps = f"there is no kind of {what} called `{word.text}`", [f"did you mean `{meant}`?"]
        findings.error("E270", message, word.span, "unknown kind", helps=helps)
    return None


def texts_of(
    given: Sequence[s.Text], target: Target, kind: s.Ident, statement: str, findings: Findings
) -> tuple[str | FromEnvironment, ...] | None:
    """What stands behind a kind, as plain values; None where it is not what the kind takes."""
    example = f"{statement} {kind.text}" + (f" '{target.example}'" if target.most != 0 else "")
    if len(given) < target.least:
        message = f"{kind.text} needs {target.what}"
        findings.error("E273", message, kind.span, "nothing stands behind it", helps=[f"write e.g. {example}"])
        return None
    if target.most is not None and len(given) > target.most:
        takes = "nothing behind it" if target.most == 0 else f"one text, {target.what}"
        span = given[target.most].span.to(given[-1].span)
        findings.error("E273", f"{kind.text} takes {takes}", span, "too much", helps=[f"write e.g. {example}"])
        return None
    found = []
    for text in given:
        value = from_environment(text, findings) if isinstance(text, s.FromEnvironment) else str(text.value)
        if isinstance(value, str) and re.fullmatch(target.pattern, value) is None:
            message = f"{f'`{value}`' if value else 'an empty text'} is not {target.what}"
            findings.error("E273", message, text.span, f"expected {target.what}", helps=[f"write e.g. {example}"])
            return None
        if value is None:
            return None
        found.append(value)
    return tuple(found)


def from_environment(text: s.FromEnvironment, findings: Findings) -> FromEnvironment | None:
    """A variable of the environment, if it can be one."""
    if _VARIABLE.fullmatch(text.variable) is not None:
        return FromEnvironment(text.variable)
    shown = f"`{text.variable}`" if text.variable else "an empty text"
    message, helps = f"{shown} is not the name of an environment variable", ["write e.g. ENV 'HOOK_SECRET'"]
    findings.error("E273", message, text.span, "no such name", helps=helps)
    return None


def settings_of(given: Sequence[s.Option], options: tuple[Option, ...], kind: s.Ident, findings: Findings) -> Settings:
    """What WITH says, by lower-case name; what a kind needs and does not get is reported as well."""
    seen: dict[str, s.Option] = {}
    found: list[tuple[str, Setting]] = []
    for setting in given:
        option = option_of(setting.name.text, options)
        if option is None:
            extra = "" if options else f"{kind.text} takes no options"
            what, known = f"option of {kind.text} called", [o.shown for o in options]
            unknown(what, setting.name, known, "E271", findings, label="unknown option", extra=extra)
            continue
        name = _name(setting.name, option)
        if name in seen:
            findings.error(
                "E271",
                f"`{name}` is given twice",
                setting.span,
                "again here",
                others=[Mark(seen[name].span, "first given here")],
                helps=["leave one of them out"],
            )
            continue
        seen[name] = setting
        value = _setting(setting, option, findings)
        if value is not None:
            found.append((name, value))
    for option in options:
        if option.needed and option.name not in seen:
            message = f"{kind.text} needs `{option.name}`, {option.meaning}"
            helps = [f"write WITH ({option.name} = {_EXAMPLES[option.takes]})"]
            findings.error("E271", message, kind.span, f"no `{option.name}`", helps=helps)
    return tuple(found)


def _name(name: s.Ident, option: Option) -> str:
    """Options are matched without regard to case; the fields of a form on a page are not."""
    if option.name != "form_":
        return name.key
    return option.name + name.text[len(option.name) :]


def _setting(setting: s.Option, option: Option, findings: Findings) -> Setting | None:
    value = setting.value
    problem = f"not {option.takes}"
    match option.takes, value:
        case _, s.FromEnvironment():
            return from_environment(value, findings)
        case Takes.TEXT, s.Literal(value=str(text)):
            word = next((word for word in option.words if word.casefold() == text.casefold()), None)
            if word is not None or not option.words:
                return text if word is None else word
            problem = "none of them"
        case Takes.TRUTH, s.Literal(value=bool(truth)):
            return truth
        case Takes.WHOLE, s.Literal(value=int(number)) if not isinstance(number, bool):
            if option.least <= number and (option.most is None or number <= option.most):
                return number
            problem = f"not from {option.least} to {option.most:,}" if option.most else f"less than {option.least}"
        case Takes.LENGTH, s.DurationLiteral(count=count, unit=unit):
            if count > 0:
                return Length(duration_us(count, unit))
            problem = "not longer than 0s"
        case Takes.LENGTH, s.Literal(value=int(number)) if not isinstance(number, bool):
            problem = "not a duration: say the unit"
        case _:
            pass
    _refuse(setting, option, value.span, problem, findings)
    return None


def _refuse(setting: s.Option, option: Option, span: Span, problem: str, findings: Findings) -> None:
    example = f"'{option.words[0]}'" if option.words else _EXAMPLES[option.takes]
    if option.takes is Takes.WHOLE:
        example = str(max(option.least, 1))
    takes = f"one of {', '.join(option.words)}" if option.words else option.takes
    findings.error(
        "E271",
        f"`{setting.name.text}` takes {takes}",
        span,
        problem,
        helps=[f"write e.g. {setting.name.text} = {example}"],
    )

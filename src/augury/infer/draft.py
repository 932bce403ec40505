"""Data files → the text of a program that declares their classes, each guess with its reason in a comment.

In: a path. Out: a `Draft`; its text always parses, and what could not be read is a problem, no exception.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from augury import limits
from augury import types as t
from augury.datafiles import Unreadable, base_name, data_files, problem
from augury.diagnostics import Diagnostic, Severity
from augury.event import key_of
from augury.infer.guess import Guess, guess
from augury.infer.log import Log
from augury.infer.rows import open_table
from augury.infer.shape import Gathering, Shape, shown
from augury.language import syntax as s
from augury.language.printer import print_statement

_LIFESPAN_DAYS = 1
_MUTABLE_LIFESPAN_DAYS = 30
_NOTHING_READ = "it needs at least one row of data"


@dataclass(frozen=True, slots=True)
class Draft:
    """A drafted program, empty if nothing could be read; what was guessed and why; what could not be read.

    Problems are warnings if there is a program, and errors if there is none.
    """

    program: str
    notes: tuple[str, ...]
    problems: tuple[Diagnostic, ...]
    rows_read: int
    rows_skipped: int


def infer(path: Path, *, rows_max: int = limits.INFER_ROWS_MAX) -> Draft:
    """Draft class declarations from a JSON Lines, CSV or Parquet file, or a folder of them."""
    try:
        files, neighbours = data_files(path)
    except Unreadable as error:
        return Draft("", (), (error.diagnostic,), 0, 0)
    gathering = Gathering()
    logs, problems = _read_all(path, files, rows_max, gathering)
    notes = [*_notes_on_files(logs, neighbours), *_notes_on_classes(gathering)]
    shapes = [shape for shape in gathering.all() if shape.name.isprintable()]
    skipped = sum(reason.count for log in logs for reason in log.skipped.values())
    if not shapes:
        problems = problems or [problem("E511", f"`{path}` has no rows", _NOTHING_READ)]
        return Draft("", tuple(notes), tuple(problems), 0, skipped)
    rows = sum(shape.rows for shape in shapes)
    title = f"Drafted by `augury infer` from {shown(path.name or str(path))}, {_rows(rows)}: guesses to check."
    parts, class_notes = [_comment([title, *notes])], list[str]()
    for shape in shapes:
        text, remarks = _class(shape, guess(shape))
        parts.append(text)
        class_notes.extend(f"{shape.name}: {remark}" for remark in remarks)
    warnings = tuple(replace(p, severity=Severity.WARNING) for p in problems)
    return Draft("\n".join(parts), (*notes, *class_notes), warnings, rows, skipped)


# ---- reading ---------------------------------------------------------------------------------------------


def _read_all(
    path: Path, files: Sequence[Path], rows_max: int, gathering: Gathering
) -> tuple[list[Log], list[Diagnostic]]:
    names = _file_classes(path, files)
    logs: list[Log] = []
    problems: list[Diagnostic] = []
    left = rows_max
    for position, file in enumerate(files):
        # Each file gets its share, and what earlier ones did not use.
        log = Log(shown(file.name), max(1, left // (len(files) - position)))
        logs.append(log)
        try:
            _read(file, log, gathering, names[file])
        except Unreadable as error:
            problems.append(error.diagnostic)
        left -= log.tried
        problems.extend(log.problems())
    return logs, problems


def _read(file: Path, log: Log, gathering: Gathering, file_class: str) -> None:
    seen: Counter[str] = Counter()
    first_unnamed = ""
    with open_table(file, log) as table:
        for row in table.rows:
            name = gathering.add(row, table, log, file_class)
            if name is None:
                continue
            if not name and not first_unnamed:
                first_unnamed = row.place
            seen[name] += 1
        # A file in which some rows name their class has no class of its own.
        if seen[""] and len(seen) > 1:
            gathering.unnamed.pop(key_of(file_class), None)
            reason = "it has no `event`, though others have"
            log.skip(first_unnamed, reason, advice="`event` names the class", count=seen[""])
        gathering.declare(
            table, {name for name, count in seen.items() if count and (name or len(seen) == 1)}, file_class
        )


def _notes_on_files(logs: Iterable[Log], neighbours: Sequence[str]) -> Iterator[str]:
    if neighbours:
        more = f" and {len(neighbours) - 5} more" if len(neighbours) > 5 else ""
        yield f"Left out, for they are not named like data: {', '.join(map(shown, neighbours[:5]))}{more}."
    for log in logs:
        yield from log.remarks
        if log.cut:
            yield f"Only the first {_rows(log.tried)} of `{log.name}` were read; later ones may not fit."


def _notes_on_classes(gathering: Gathering) -> Iterator[str]:
    if gathering.too_many:
        left = _rows(gathering.too_many)
        yield f"`event` has more than {limits.INFER_CLASSES_MAX} values; {left} of others were not looked at."
    for shape in gathering.hidden():
        yield f"{_rows(shape.rows)} without `event`, of files named like the class {shape.name}, are left out."
    for shape in gathering.all():
        if not shape.name.isprintable():
            yield f"The class `{shown(shape.name)}` is left out: its name cannot be written."


# ---- names -----------------------------------------------------------------------------------------------


def _file_classes(path: Path, files: Sequence[Path]) -> dict[Path, str]:
    """The class that each file's rows belong to if they do not say: parts of one whole share theirs."""
    if list(files) == [path]:
        return {path: _class_name(base_name(path))}
    stems = {file: re.sub(r"[\W_]*\d[\d\W_TZ]*\Z", "", base_name(file)) for file in files}
    shared = Counter(stems.values())
    names: dict[Path, str] = {}
    for file, stem in stems.items():
        if re.match(r"part(?![^\W_])", base_name(file)) or (not stem and shared[stem] > 1):
            names[file] = _class_name(path.resolve().name)
        else:
            names[file] = _class_name(stem if shared[stem] > 1 else base_name(file))
    return names


def _class_name(stem: str) -> str:
    words = [word for word in re.split(r"[\W_]+", stem) if word]
    return "".join(word[0].upper() + word[1:] for word in words) or "Events"


# ---- text ------------------------------------------------------------------------------------------------


def _class(shape: Shape, guessed: Guess) -> tuple[str, list[str]]:
    """The text of one class with its comments and mappings, and the comments alone."""
    key = guessed.key
    days = _MUTABLE_LIFESPAN_DAYS if key.mutable else _LIFESPAN_DAYS
    use = "how long it may still change" if key.mutable else "how long it counts"
    remarks = [
        *_remarks_on_name(shape),
        key.reason,
        f"LIFESPAN ({days}d) is a default, not read from the data: set it to {use}.",
        *guessed.notes,
    ]
    attributes = tuple(s.Attribute(s.Ident(a.name), _type_ref(a.type)) for a in guessed.attributes)
    names = tuple(s.Ident(name) for name in key.names)
    lifespan = s.DurationLiteral(days, "d")
    ident = s.Ident(shape.name)
    statements: list[s.Statement] = [s.SubscribedClass(ident, key.mutable, attributes, names, lifespan)]
    if guessed.mappings:
        columns = tuple(s.ColumnMapping(s.Ident(m.foreign), s.Ident(m.name)) for m in guessed.mappings)
        statements.append(s.SourceStatement(ident, columns))
    title = f"{shape.name}: {_rows(shape.rows)}."
    return _comment([title, *remarks]) + "\n".join(print_statement(x) + "\n" for x in statements), remarks


def _remarks_on_name(shape: Shape) -> Iterator[str]:
    if len(shape.spellings) > 1:
        spellings = ", ".join(f"`{shown(name)}`" for name in sorted(shape.spellings)[:5])
        yield f"Its name is spelt {spellings}; case does not matter."
    elif not shape.spellings:
        yield "The data has no `event` field, so the class is named after the file."


def _type_ref(type_: t.Type) -> s.TypeRef:
    if isinstance(type_, t.Decimal):
        return s.TypeRef(s.Ident("NUMERIC"), (type_.precision, type_.scale))
    return s.TypeRef(s.Ident(str(type_)))


def _comment(remarks: Iterable[str]) -> str:
    wrap = textwrap.TextWrapper(100, initial_indent="-- ", subsequent_indent="--   ", break_on_hyphens=False)
    return "".join(line + "\n" for remark in remarks for line in wrap.wrap(remark))


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"

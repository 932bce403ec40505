"""Write the generated pages of docs/: `make docs` runs this, and tests check that the pages are up to date."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from augury.catalogue import Entry, entries

ERRORS = Path(__file__).parents[1] / "docs" / "errors.md"

_INTRODUCTION = """\
# What the messages mean

<!-- Made from src/augury/codes.toml by `make docs`: change that file, not this one. -->

Every message has a code; `augury explain E203` prints the entry of one, and this page has them all. An error keeps
a program from running, a warning (W) does not, and a note (N) tells what is worth knowing. All mistakes of a program
are reported at once, each with its place;
`augury check --output json` gives them to other programs.
"""
_PARTS = {
    "E1": "The text",
    "E2": "Names and types",
    "E3": "Meaning",
    "E4": "Limits",
    "E5": "Files, data and the environment",
    "N3": "Notes",
    "W3": "Warnings",
}


def errors_page() -> str:
    """The text of docs/errors.md."""
    parts = [_INTRODUCTION]
    for prefix, found in groupby(entries().values(), key=lambda entry: entry.code[:2]):
        some = list(found)
        table = "\n".join(f"| [{e.code}](#{e.code.lower()}) | {_escaped(e.title)} |" for e in some)
        parts.append(f"## {_PARTS[prefix]}\n\n| code | what is wrong |\n|---|---|\n{table}\n")
        parts += [_section(entry) for entry in some]
    return "\n".join(parts)


def _section(entry: Entry) -> str:
    lines = [f"### {entry.code}", f"**{_escaped(entry.title)}**", _escaped(entry.explanation.strip())]
    if entry.wrong:
        lines += ["This brings it about:", f"```sql\n{entry.wrong.strip()}\n```"]
        lines += ["This is fine:", f"```sql\n{entry.right.strip()}\n```"]
    return "\n\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Text outside of backquotes, without what Markdown would act upon."""
    pieces = text.split("`")
    for i in range(0, len(pieces), 2):
        for sign in "\\*_<>|[]":
            pieces[i] = pieces[i].replace(sign, "\\" + sign)
    for i in range(1, len(pieces), 2):
        pieces[i] = pieces[i].replace("|", "\\|") if "\n" not in text else pieces[i]
    return "`".join(pieces)


def write_errors() -> None:
    """Write docs/errors.md."""
    ERRORS.write_text(errors_page(), "utf-8")


if __name__ == "__main__":
    write_errors()

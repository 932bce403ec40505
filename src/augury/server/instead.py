"""The program that runs instead of a file's: one that was changed over HTTP goes on after a restart.

In: the program of the file that a server is started with, and its store. Out: the program to run. The store keeps the
text of the program that runs; a comment at its end says which file it took the place of. A file that was changed
since is newer, and counts.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from augury.algebra.program import Program
from augury.api import check
from augury.local.store.errors import NoStore
from augury.local.store.pages import open_pages

_MARK: Final = re.compile(r"\n-- runs instead of ([0-9a-f]{64})\n\Z")


def digest_of(program: Program) -> str:
    """What tells the text of a program from all others."""
    return sha256(program.text.encode("utf-8", "surrogatepass")).hexdigest()


def marked(text: str, digest: str) -> str:
    """The text of a program that runs instead of another."""
    return f"{unmarked(text)}\n-- runs instead of {digest}\n"


def unmarked(text: str) -> str:
    """The text as somebody wrote it."""
    return _MARK.sub("", text)


def program_to_run(program: Program, store: str) -> Program:
    """The program of a file, or the one that took its place over HTTP; raises what opening a store does."""
    try:
        with open_pages(store) as pages:
            text = pages.program_text()
    except NoStore:  # it is yet to be made
        return program
    found = _MARK.search(text or "")
    if text is None or found is None or found[1] != digest_of(program):
        return program
    kept = check(text).program
    assert kept is not None, "it ran before"
    return kept

"""Why a store does not do what it was asked to; every message is one or more sentences for the user."""

from __future__ import annotations


class StoreError(RuntimeError):
    """Something about a store."""


class StoreFailed(StoreError):
    """The database failed: nothing of the call was kept, as far as is known, and it can be tried again."""


class StoreFull(StoreFailed):
    """There is no room on the disk, or for the database; once there is, the same call succeeds."""


class StoreClosed(StoreError):
    """A store that was closed: nothing is written to it any more."""


class StoreMismatch(StoreError):
    """The store holds the classes of another program, or was written in another format; a sentence for each."""

    def __init__(self, sentences: tuple[str, ...]) -> None:
        """Keep the sentences."""
        super().__init__("\n".join(sentences))
        self.sentences = sentences


class StoreInUse(StoreError):
    """Another process, or this one, is already writing to the store."""


class NoStore(StoreError):
    """There is no store at that place, or no way to reach it."""


class NoDriver(StoreError):
    """A package is missing that talks to such a database."""


class NoSuchClass(StoreError):
    """The store has no class of that name; `meant` is one that sounds like it."""

    def __init__(self, name: str, meant: str | None, known: tuple[str, ...]) -> None:
        """Keep the names."""
        super().__init__(f"the store has no event class `{name}`")
        self.meant = meant
        self.known = known


class NoSuchTrigger(StoreError):
    """The store has no trigger of that name; `meant` is one that sounds like it."""

    def __init__(self, name: str, meant: str | None, known: tuple[str, ...]) -> None:
        """Keep the names."""
        super().__init__(f"the store has no trigger `{name}`")
        self.meant = meant
        self.known = known


class AlreadyCommitted(StoreError):
    """A tick that is not later than the last one kept: it was committed before, or the ticks are out of order."""

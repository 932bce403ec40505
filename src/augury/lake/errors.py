"""Why a lake does not do what it was asked to; every message is one or more sentences for the user.

In: what is wrong, where, and what to do. Out: exceptions. It knows no file system and no format.
"""

from __future__ import annotations


class LakeError(RuntimeError):
    """Something about a lake."""


class NoLake(LakeError):
    """There is no lake at that place, or no way to reach it."""


class LakeExists(LakeError):
    """A lake cannot be created there: there is one, or the folder holds something else."""


class NewerFormat(LakeError):
    """The lake was written by a later version of Augury."""


class NeedsExclusive(LakeError):
    """Such a path cannot be written without something that creates a file only where there is none."""


class LakeFailed(LakeError):
    """The file system failed: nothing of the call is to be seen in the lake, and it can be tried again."""


class AlreadyCommitted(LakeError):
    """That commit is there, from somebody else or from before; nothing was written over."""


class StaleWriter(LakeError):
    """Somebody else has begun to write to the lake; this writer is refused from now on."""


class UnfitCommit(LakeError):
    """What was to be committed does not fit what is there: a gap, a file that is not there, an unknown one removed."""


class NoSuchCommit(LakeError):
    """The lake has no such commit, or no longer has its files."""


class NoSuchClass(LakeError):
    """The lake has no class of that name."""


class NoSuchTrigger(LakeError):
    """The lake has no trigger of that name."""


class CorruptFile(LakeError):
    """A file is damaged or gone; `path` is below the root, `last_good` the last commit that is whole without it."""

    def __init__(self, path: str, what: str, last_good: int, advice: str) -> None:
        """Keep all of it, and make the message of it."""
        super().__init__(f"{what}; {advice}")
        self.path, self.what, self.last_good, self.advice = path, what, last_good, advice

    def __reduce__(self) -> tuple[type[CorruptFile], tuple[str, str, int, str]]:
        """Tasks raise it in processes of their own, from which it travels as bytes."""
        return type(self), (self.path, self.what, self.last_good, self.advice)


class Damaged(ValueError):
    """Bytes that are not what was written; the message is the rest of a sentence that names the file."""

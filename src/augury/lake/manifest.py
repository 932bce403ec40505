"""What a commit says, as a value, and as bytes with a checksum of their own. Pure: it touches no file.

In: a `Manifest`. Out: one line of JSON with sorted keys; and the manifest again, or `Damaged` if one bit is another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from augury.lake.errors import Damaged, NewerFormat

FORMAT: Final = 1
FULL_EVERY: Final = 64
"""Each such commit lists all live files, so that whoever opens a lake reads no more manifests than this."""

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Kind(StrEnum):
    """What a file of rows holds; also the folder it lies in.

    `purged` (`number`, `tick`) are versions that were current when their event was purged, and `numbers` the places in
    the history that retention keeps for versions it left over. Of `firings` the class is the trigger. `waiting` and
    `ids` are no part of `added`: a manifest names them in `waiting` and in `state`.
    """

    HISTORY = "history"
    ARCHIVE = "archive"
    ACTIONS = "actions"
    REJECTED = "rejected"
    TICKS = "ticks"
    WARNINGS = "warnings"
    PURGED = "purged"
    NUMBERS = "numbers"
    FIRINGS = "firings"
    WAITING = "waiting"
    IDS = "ids"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of rows: what it holds, where it is below the root, and how much; ticks in µs, None where it has none."""

    kind: Kind
    event_class: str
    path: str
    rows: int
    bytes: int
    min_tick: int | None = None
    max_tick: int | None = None
    min_seq: int | None = None
    max_seq: int | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """One commit. `state` and `waiting` are complete: all that is current after it; `live` only in every 64th."""

    commit: int
    epoch: int
    query: str = ""
    batch: int | None = None
    last_tick: int | None = None
    last_seq: int = 0
    added: tuple[FileEntry, ...] = ()
    removed: tuple[str, ...] = ()
    state: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    waiting: tuple[str, ...] = ()
    offsets: Any = None
    counts: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    seconds: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    program: str = ""
    live: tuple[FileEntry, ...] | None = None

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        """As bytes: mappings that cannot be changed cannot be pickled either."""
        return manifest_of, (bytes_of(self),)


def manifest_name(commit: int) -> str:
    """Where the manifest of a commit is."""
    return f"manifests/{commit:020d}.json"


def bytes_of(manifest: Manifest) -> bytes:
    """The manifest as it is written."""
    said = {one.name: getattr(manifest, one.name) for one in fields(manifest)}
    for name in ("state", "counts", "seconds"):
        said[name] = dict(said[name])
    said["added"] = [_entry_json(entry) for entry in manifest.added]
    said["live"] = None if manifest.live is None else [_entry_json(entry) for entry in manifest.live]
    return checked_json(said)


def manifest_of(content: bytes) -> Manifest:
    """The manifest that was written; raises `Damaged` and `NewerFormat`."""
    said = read_checked_json(content)
    try:
        said["added"] = _entries(said["added"])
        said["live"] = None if said["live"] is None else _entries(said["live"])
        said["removed"], said["waiting"] = tuple(said["removed"]), tuple(said["waiting"])
        for name in ("state", "counts", "seconds"):
            said[name] = MappingProxyType(said[name])
        return Manifest(**said)
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"is no manifest: {error!r}") from None


def checked_json(said: Mapping[str, Any]) -> bytes:
    """JSON with sorted keys, the format and a checksum over all the rest."""
    plain = {**said, "format": FORMAT}
    return _canonical({**plain, "checksum": hashlib.sha256(_canonical(plain)).hexdigest()})


def read_checked_json(content: bytes) -> dict[str, Any]:
    """What was written, without format and checksum; raises `Damaged` and `NewerFormat`."""
    try:
        said = json.loads(content)
    except ValueError:
        raise Damaged("is damaged: it is not JSON, or breaks off") from None
    if not isinstance(said, dict) or "checksum" not in said:
        raise Damaged("is damaged: it has no checksum")
    checksum = said.pop("checksum")
    if _canonical({**said, "checksum": hashlib.sha256(_canonical(said)).hexdigest()}) != content:
        raise Damaged(f"is damaged: its content does not have the checksum {str(checksum)[:12]}…")
    found = said.pop("format", None)
    if found != FORMAT:
        raise NewerFormat(f"has format {found}, and this version of Augury reads format {FORMAT}")
    return said


def _canonical(said: Mapping[str, Any]) -> bytes:
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass") + b"\n"


def _entry_json(entry: FileEntry) -> dict[str, Any]:
    return {one.name: getattr(entry, one.name) for one in fields(entry)}


def _entries(said: list[dict[str, Any]]) -> tuple[FileEntry, ...]:
    return tuple(FileEntry(**{**one, "kind": Kind(one["kind"])}) for one in said)

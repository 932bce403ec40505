"""What a detector has seen and engines have not all taken yet, kept in a folder, with where the detector stands.

In: events as lines, with the position and buffer after them. Out: the lines that an engine has not taken. A segment of
lines is written first and the state that counts it after, each as a whole, so that a crash leaves both or neither; an
engine's own file says up to which segment it has all. It uses files only through the environment.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote

from augury.detectors.sensor import BadDetector
from augury.environment import Files

_FORMAT: Final = 1
_SEGMENT: Final = re.compile(r"\.(\d{10})\.events")
_TAKEN: Final = re.compile(r"\.[0-9a-f]{16}\.taken")


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a detector stands: of which source, at which position, with which buffer, and its last segment."""

    source: str
    position: bytes | None = None
    buffer: str = ""
    last: int = 0


class Spool:
    """The spool of one detector, in a folder that may hold those of others."""

    def __init__(self, files: Files, folder: str, detector: str, source: str) -> None:
        """Take up what is there; `source` says what the detector looks at, and a position of another is not taken."""
        self._files = files
        self._base = f"{folder}/{quote(detector, safe='')}"
        self.is_new_source = False
        """Whether what is there was seen in another source."""
        self.standing = self._loaded(folder, source)
        self._sizes = self._found(folder)

    @property
    def waiting_bytes(self) -> int:
        """How much some engine has still to take."""
        return sum(self._sizes.values())

    def commit(self, lines: Sequence[str], position: bytes | None, buffer: str) -> None:
        """Keep lines, if there are any, and with them where the detector stands; raises `OSError`."""
        standing = replace(self.standing, position=position, buffer=buffer)
        if lines:
            content = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
            standing = replace(standing, last=standing.last + 1)
            self._files.write(self._segment(standing.last), content)
        if standing != self.standing:
            self._files.write(f"{self._base}.state", _saved(standing))
        if lines:
            self._sizes[standing.last] = len(content)
        self.standing = standing

    def taken_by(self, sink: str) -> int:
        """The last segment that an engine has taken; 0 for one that has taken nothing."""
        try:
            return int(self._files.read(self._cursor(sink)))
        except FileNotFoundError:
            return 0

    def pending(self, after: int, lines_max: int) -> tuple[list[str], int]:
        """Lines of the segments after one, of as many as fit, and the last of these."""
        lines: list[str] = []
        for number in sorted(number for number in self._sizes if number > after):
            more = self._files.read(self._segment(number)).decode().split("\n")[:-1]
            if lines and len(lines) + len(more) > lines_max:
                break
            lines += more
            after = number
        return lines, after

    def first_waiting(self) -> int | None:
        """The oldest segment that is kept."""
        return min(self._sizes, default=None)

    def take(self, sink: str, number: int) -> None:
        """Note that an engine has all up to a segment."""
        self._files.write(self._cursor(sink), str(number).encode())

    def forget(self, up_to: int) -> None:
        """Delete segments that all have taken."""
        for number in [number for number in self._sizes if number <= up_to]:
            self._files.remove(self._segment(number))
            del self._sizes[number]

    def _segment(self, number: int) -> str:
        return f"{self._base}.{number:010d}.events"

    def _cursor(self, sink: str) -> str:
        return f"{self._base}.{hashlib.sha256(sink.encode()).hexdigest()[:16]}.taken"

    def _loaded(self, folder: str, source: str) -> Standing:
        path = f"{self._base}.state"
        try:
            content = self._files.read(path)
        except FileNotFoundError:
            return Standing(source, last=self._highest(folder))
        try:
            standing = _read(content)
        except (ValueError, KeyError, TypeError) as error:
            help_ = "move it away to begin anew; what it has seen is then sent again"
            raise BadDetector(f"the state of a detector, `{path}`, cannot be read ({error}): {help_}") from None
        if standing.source == source:
            return standing
        self.is_new_source = True
        return Standing(source, last=standing.last)

    def _highest(self, folder: str) -> int:
        """The last segment that an engine has taken: whoever deletes a state must not have its number used again.

        A segment that is there without a state was broken off, and does not count.
        """
        paths = [f"{folder}/{name}" for name in self._files.names(folder)]
        cursors = [p for p in paths if p.startswith(self._base) and _TAKEN.fullmatch(p[len(self._base) :])]
        return max((int(self._files.read(path)) for path in cursors), default=0)

    def _found(self, folder: str) -> dict[int, int]:
        """The segments that count, with their sizes; one that no state counts was broken off, and is written again."""
        sizes = {}
        for name in self._files.names(folder):
            path = f"{folder}/{name}"
            if path.startswith(f"{self._base}.") and (found := _SEGMENT.fullmatch(path[len(self._base) :])):
                number = int(found[1])
                if number <= self.standing.last:
                    sizes[number] = self._files.mark(path)[1]
        return sizes


def _saved(standing: Standing) -> bytes:
    position = None if standing.position is None else base64.b64encode(standing.position).decode()
    content = {"source": standing.source, "position": position, "buffer": standing.buffer, "last": standing.last}
    body = json.dumps(content)
    return json.dumps({"format": _FORMAT, "sum": _sum(body), "state": body}).encode()


def _read(content: bytes) -> Standing:
    outer = json.loads(content)
    if outer["format"] != _FORMAT:
        raise ValueError(f"it is of format {outer['format']}, and this is format {_FORMAT}")
    if outer["sum"] != _sum(outer["state"]):
        raise ValueError("its checksum does not fit")
    found = json.loads(outer["state"])
    position = None if found["position"] is None else base64.b64decode(found["position"])
    return Standing(found["source"], position, found["buffer"], found["last"])


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

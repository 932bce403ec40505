"""Which event_ids versions in a lake have: sorted runs of hashes, a file each, of which few are there at any time.

In: files below a root. Out: which of some ids are known. Hashes have 128 bits, so that two ids are never alike by
chance. A process reads each file once; that somebody else merges them gives new files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augury.event import EventClass, key_of
from augury.kernels.columns.column import Mask
from augury.lake import LakeFiles

Hashes = npt.NDArray[np.uint64]
"""Two columns of 64 bits each; a run is in order of both."""

RUNS_MAX: Final = 12
"""More runs than these are merged."""


@dataclass(frozen=True, slots=True)
class KnownIds:
    """The ids of all versions that are kept, by the files of their hashes."""

    root: str
    paths: tuple[str, ...]

    def among(self, event_class: EventClass, event_ids: pa.Array | None) -> Mask | None:
        """Which of these ids a version of the class has; None if none has."""
        if event_ids is None or not self.paths:
            return None
        wanted = hashed(event_class, event_ids.to_pylist())
        found = np.zeros(len(event_ids), np.bool_)
        for path in self.paths:
            found |= _among(_run(self.root, path), wanted)
        found &= ~event_ids.is_null().to_numpy(zero_copy_only=False)
        return found if found.any() else None


_RUNS: dict[tuple[str, str], Hashes] = {}


def _run(root: str, path: str) -> Hashes:
    if (root, path) not in _RUNS:
        _RUNS[root, path] = run_of(LakeFiles(root).read_bytes(path))
    return _RUNS[root, path]


def hashed(event_class: EventClass, event_ids: Sequence[str | None]) -> Hashes:
    """A hash of class and id for each id; nothing of a NULL is meant."""
    name = key_of(event_class.name).encode()
    digests = (
        hashlib.blake2b((one or "").encode("utf-8", "surrogatepass"), digest_size=16, key=name[:64]).digest()
        for one in event_ids
    )
    return np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)


def in_run(hashes: Iterable[Hashes]) -> bytes:
    """Hashes as one run, each once."""
    joined = np.concatenate([np.zeros((0, 2), np.uint64), *hashes])
    return np.unique(joined, axis=0).tobytes()


def run_of(content: bytes) -> Hashes:
    """The hashes of a run."""
    return np.frombuffer(content, np.uint64).reshape(-1, 2)


def merged(files: LakeFiles, paths: Sequence[str], tag: str) -> tuple[str, ...]:
    """The files of ids after an upkeep: where there are too many, the smaller ones become one."""
    if len(paths) <= RUNS_MAX:
        return tuple(paths)
    runs = sorted(((path, run_of(files.read_bytes(path))) for path in paths), key=lambda run: -len(run[1]))
    # The largest stay, as long as each is larger than all that come after it together.
    stay = 0
    while stay < len(runs) and len(runs[stay][1]) > sum(len(run) for _, run in runs[stay + 1 :]):
        stay += 1
    kept, rest = runs[:stay], runs[stay:]
    if len(rest) < 2:
        return tuple(paths)
    path = files.write_bytes("ids", tag, in_run(run for _, run in rest))
    return (*(path for path, _ in kept), path)


def _among(run: Hashes, wanted: Hashes) -> Mask:
    first = run[:, 0]
    found = np.zeros(len(wanted), np.bool_)
    at = np.searchsorted(first, wanted[:, 0])
    here = np.flatnonzero(at < len(run))
    while len(here):
        here = here[first[at[here]] == wanted[here, 0]]
        found[here] |= run[at[here], 1] == wanted[here, 1]
        at[here] += 1
        here = here[at[here] < len(run)]
    return found

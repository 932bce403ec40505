"""Spark's checkpoint of a query, which lies in the lake: whose it is, and that it is never ahead of the lake.

In: a lake. Out: the id of the query; and a checkpoint that goes back to the last commit where someone has moved
manifests away, so that Spark gives the batches again that are no longer there. It knows no query that runs.
"""

from __future__ import annotations

import json
from typing import Final

from augury.lake import CorruptFile, Lake, LakeError, Manifest

FOLDER: Final = "checkpoint"
_AFRESH: Final = (
    f"bring it back from a copy, or move `{FOLDER}` away: the sources are then read from their beginnings, and only "
    "events with an event_id are known again"
)


class CheckpointAhead(LakeError):
    """Spark's checkpoint is ahead of the lake, and no longer has what it takes to go back."""


def query_id(lake: Lake) -> str | None:
    """The id of the query: numbers of batches go on as long as it is there; None before the first start."""
    path = f"{FOLDER}/metadata"
    try:
        return str(json.loads(lake.storage.read(path))["id"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        what = f"`{lake.storage.full(path)}` is damaged: it does not say which query it is of"
        raise CorruptFile(path, what, lake.last_commit(), _AFRESH) from None


def go_back(lake: Lake, last: Manifest | None) -> None:
    """Have the checkpoint forget batches that the lake does not have; raises `CorruptFile` and `CheckpointAhead`."""
    query = query_id(lake)
    if query is None:
        return
    done = -1 if last is None or last.query != query or last.batch is None else last.batch
    commits, offsets = (_batches(lake, kind) for kind in ("commits", "offsets"))
    if max(commits, default=-1) <= done:
        return
    if done + 1 not in offsets:
        where = lake.storage.full(FOLDER)
        raise CheckpointAhead(
            f"`{where}` is at batch {max(commits)}, and the lake at batch {done}; what came in batch {done + 1} is "
            f"noted nowhere: {_AFRESH}"
        )
    # Offsets first: should this break off, the commits still show that there is something to do.
    for kind, found, kept in (("offsets", offsets, done + 1), ("commits", commits, done)):
        for batch in sorted((one for one in found if one > kept), reverse=True):
            lake.storage.remove(f"{FOLDER}/{kind}/.{batch}.crc")
            lake.storage.remove(f"{FOLDER}/{kind}/{batch}")


def _batches(lake: Lake, kind: str) -> set[int]:
    return {int(name) for name in lake.storage.names(f"{FOLDER}/{kind}") if name.isdigit()}

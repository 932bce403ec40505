"""The lake store: plain Parquet files and manifests in a folder, which anybody can read. It imports no Spark.

`history` is for people; `Lake`, `Writer` and `LakeFiles` for engines; `compaction`, `retention`, `vacuum` for upkeep.
"""

from __future__ import annotations

from augury.lake.errors import (
    AlreadyCommitted,
    CorruptFile,
    LakeError,
    LakeExists,
    LakeFailed,
    NeedsExclusive,
    NewerFormat,
    NoLake,
    NoSuchClass,
    NoSuchCommit,
    NoSuchTrigger,
    StaleWriter,
    UnfitCommit,
)
from augury.lake.files import LakeFiles
from augury.lake.lake import About, Lake, program_name
from augury.lake.manifest import FileEntry, Kind, Manifest
from augury.lake.order import Order, by_tick, order_of
from augury.lake.retention import retention, retention_pays
from augury.lake.shown import LakeDiff, LakeHistory, Time, history
from augury.lake.snapshot import Snapshot
from augury.lake.storage import Exclusive
from augury.lake.upkeep import Upkeep, compaction
from augury.lake.vacuum import Vacuumed, vacuum
from augury.lake.writer import Writer

__all__ = [
    "About",
    "AlreadyCommitted",
    "CorruptFile",
    "Exclusive",
    "FileEntry",
    "Kind",
    "Lake",
    "LakeDiff",
    "LakeError",
    "LakeExists",
    "LakeFailed",
    "LakeFiles",
    "LakeHistory",
    "Manifest",
    "NeedsExclusive",
    "NewerFormat",
    "NoLake",
    "NoSuchClass",
    "NoSuchCommit",
    "NoSuchTrigger",
    "Order",
    "Snapshot",
    "StaleWriter",
    "Time",
    "UnfitCommit",
    "Upkeep",
    "Vacuumed",
    "Writer",
    "by_tick",
    "compaction",
    "history",
    "order_of",
    "program_name",
    "retention",
    "retention_pays",
    "vacuum",
]

"""Streams and histories of events as Spark reads them: files, Kafka, detectors in Python, made-up rates.

In: a session and where events come from. Out: a frame, streaming or not, of one of two shapes: `LINES` (an event as
JSON with its place), or typed columns, a class by `event`. No event is looked at here: the engine says what is wrong
with one, and nothing is left out on the way to it.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from augury.algebra.program import Program
from augury.spark.kafka import kafka
from augury.spark.sources_csv import ReadCsv
from augury.spark.sources_detector import detector
from augury.spark.sources_lines import LINES, NumberLines, SourceError, reading
from augury.spark.sources_schema import misfits

__all__ = ["LINES", "SourceError", "csv", "detector", "json_lines", "kafka", "misfits", "parquet", "rate"]

Options = Mapping[str, str | int | bool]


def json_lines(
    spark: SparkSession,
    path: str,
    *,
    event: str | None = None,
    streaming: bool = True,
    options: Options | None = None,
) -> DataFrame:
    """JSON Lines, one event a line: a folder to which files are added, or what is there now (`streaming=False`).

    The place of an event is its file and its line; in a file so large that Spark splits it (from 4 MB on) numbers
    go on growing, and leap from split to split. `event` is the class of lines that name none; without it that is the
    name of the file. Files may be packed by gzip. A stream reads a file once, when it appears: write it elsewhere and
    move it in. `options` are those of Spark's text source (`maxFilesPerTrigger`, `pathGlobFilter`, …).
    """
    text = _text(spark, path, streaming, {"lineSep": "\n", **(options or {})})
    rows = text.select(
        f.col("value").cast("binary").alias("value"),
        f.col("_metadata.file_path").alias("path"),
        f.col("_metadata.file_block_start").alias("start"),
    )
    return rows.mapInArrow(NumberLines(event), LINES)


def csv(
    spark: SparkSession,
    path: str,
    program: Program,
    *,
    event: str | None = None,
    streaming: bool = True,
    options: Options | None = None,
) -> DataFrame:
    """CSV whose first row names the columns: a folder to which files are added, or what is there now.

    Cells are texts of values, and the classes of the program say of which; an empty one is NULL. Columns are parted by
    comma, semicolon, tab or bar, whichever the header has most of. A row that does not fit the header is refused.
    Files may have different headers. Each is read as a whole by one task, so keep them below some 100 MB.
    """
    text = _text(spark, path, streaming, {**(options or {}), "wholetext": True})
    rows = text.select(f.col("value").cast("binary").alias("value"), f.col("_metadata.file_path").alias("path"))
    return rows.mapInArrow(ReadCsv(program, event), LINES)


def parquet(
    spark: SparkSession,
    path: str,
    program: Program | None = None,
    *,
    event: str | None = None,
    schema: StructType | None = None,
    streaming: bool = True,
    options: Options | None = None,
) -> DataFrame:
    """Parquet as typed columns: a folder to which files are added, or what is there now.

    The columns are those of the files that are there, or of `schema`. Where none is called `event`, rows are of the
    class `event`, or of the one that the name of their file tells. `_source` and `_position` are the file and the row
    in it. With a program all columns that cannot fit its classes are told at once, before anything is read.
    """
    columns = schema or _parquet_schema(spark, path)
    if program is not None:
        has_class = any(field.name.casefold() == "event" for field in columns.fields)
        if wrong := misfits(program, columns, event=None if has_class else event):
            raise SourceError(f"`{path}` does not fit the program:\n" + "\n".join(f"- {one}" for one in wrong))
    reader = spark.readStream if streaming else spark.read
    rows = reader.schema(columns).options(**(options or {})).parquet(path)
    name = f.regexp_replace("_metadata.file_name", r"(?i)\.(parquet|pq)$", "")
    taken = {field.name.casefold() for field in columns.fields}
    path_shown = f.regexp_replace("_metadata.file_path", r"^file:(//)?", "")
    further = {"_source": path_shown, "_position": f.col("_metadata.row_index") + 1}
    further |= {} if "event" in taken else {"event": f.lit(event) if event else name}
    return rows.select("*", *(column.alias(name) for name, column in further.items() if name not in taken))


def rate(
    spark: SparkSession, event: str, rows_per_second: int = 10, columns: Mapping[str, str] | None = None
) -> DataFrame:
    """Made-up events of a class, for trying out: so many a second, which happen as they are made.

    `columns` are SQL expressions over `value`, the number of the event from 0, and `timestamp`:
    `{"account": "value % 100", "amount": "rand() * 500"}`.
    """
    if rows_per_second < 1:
        raise SourceError(f"a rate is at least 1 event a second, not {rows_per_second}")
    made = spark.readStream.format("rate").option("rowsPerSecond", rows_per_second).load()
    attributes = [f.expr(text).alias(name) for name, text in (columns or {}).items()]
    times = [f.col("timestamp").alias("occ_time"), f.col("timestamp").alias("det_time")]
    places = [f.lit("rate").alias("_source"), (f.col("value") + 1).alias("_position")]
    return made.select(f.lit(event).alias("event"), *times, *attributes, *places)


def _text(spark: SparkSession, path: str, streaming: bool, options: Options) -> DataFrame:
    reader = spark.readStream if streaming else spark.read
    try:
        rows = reader.format("text").options(**options).load(path)
        _ = rows.schema  # over Spark Connect nothing is looked at before
        return rows
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise _no_path(path) from None
        raise


def _parquet_schema(spark: SparkSession, path: str) -> StructType:
    try:
        with reading():
            return spark.read.parquet(path).schema
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise _no_path(path) from None
        if error.getCondition() == "UNABLE_TO_INFER_SCHEMA":
            advice = "add one first, or say schema=…"
            raise SourceError(f"`{path}` holds no Parquet file that would tell the columns: {advice}") from None
        raise


def _no_path(path: str) -> SourceError:
    return SourceError(f"there is no file or folder `{path}`: check its name; a stream needs the folder to be there")

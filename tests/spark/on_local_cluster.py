"""What tests run on `local-cluster[2,1,1024]`, all in one process of its own: it takes as long to start as to run.

In: a folder. Out: `found.json` in it, with what batches gave, tick by tick and at once, by key and in ranges. It prints
nothing, so that whatever is printed is Spark's.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

from augury.engine.lines import lines
from augury.spark.detect import detect
from augury.spark.run import collect
from augury.spark.session import session
from tests.spark import cluster, driver
from tests.spark.programs import events, program
from tests.spark.test_chunks import MATCHES, in_parts, told
from tests.spark.test_chunks import in_process as ranges_in_process
from tests.spark.test_chunks import program as of_ranges
from tests.spark.test_chunks import table as of_events


def by_key(spark: SparkSession) -> dict[str, list[str]]:
    """The lines of a program whose events are brought together by key, and how often its expressions failed."""
    table = pa.Table.from_pylist(events(11, 100))
    with detect(program("little"), spark.createDataFrame(table), partitions=2) as detected:
        found = collect(detected)
    errors = [str(occurrences.errors) for occurrences in found.occurrences]
    return {"lines": list(lines(found.versions, found.occurrences, 1_000_000)), "errors": errors}


def in_ranges_is_the_same(spark: SparkSession) -> bool:
    """Whether programs without a key, in ranges of rows that lie in another order, find what they find in process."""
    of, rows = of_ranges(*MATCHES[:8]), of_events(10, 120)
    frame = in_parts(spark, rows.take(list(range(60, 120)) + list(range(60))), [30, 90])
    with detect(of, frame, numbered=True, partitions=3) as found:
        return told(collect(found)) == ranges_in_process(of, rows)


def main(folder: Path) -> None:
    """Run it all in one session."""
    extra = driver.QUICK | {"spark.executor.extraJavaOptions": cluster.java_options()}
    spark = session("local-cluster[2,1,1024]", extra=extra)
    examples, name = cluster.ROOT / "examples", spark.sparkContext.applicationId
    found = {
        "batch": driver.groceries_in_batch(spark, examples, folder),
        "orders": driver.orders(spark, examples, folder),
        "by key": by_key(spark),
        "in ranges": in_ranges_is_the_same(spark),
        "python": sorted(set(spark.sparkContext.parallelize(range(4), 4).map(lambda _: sys.executable).collect())),
    }
    spark.stop()
    # Workers leave a folder below Spark's own, and no setting moves it.
    shutil.rmtree(Path(pyspark.__file__).parent / "work" / name, ignore_errors=True)
    (folder / "found.json").write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

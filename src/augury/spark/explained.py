"""How a program runs on Spark, as text: what `augury explain --stage spark` shows.

In: a checked program. Out: lines. It starts no Spark.
"""

from __future__ import annotations

from collections.abc import Iterator

from augury.algebra.program import Program
from augury.algebra.select import ByKey, SelectPlan
from augury.engine.once import waits_for_ticks
from augury.engine.plan import EnginePlan, engine_plan
from augury.engine.ports import SelectsBy
from augury.engine.select_parts import parts_of
from augury.engine.shards import Shard, received_in, shards_of
from augury.history.coming import received
from augury.spark.plan import explain_plan


def explain_spark(program: Program, selects: SelectsBy = "duckdb") -> str:
    """The plan of a program: batch, then tick by tick. Raises `CannotRun` and `NotOnSpark`."""
    return "\n".join([*_batch(program), *_by_ticks(engine_plan(program), selects)])


def _batch(program: Program) -> Iterator[str]:
    if waits := waits_for_ticks(program, ()):
        yield f"batch: tick by tick, as a stream, because {waits}"
        return
    if waits := waits_for_ticks(program, [one.name for one in received(program)]):
        yield f"batch: tick by tick, as a stream, if rows may withdraw events, because then {waits};"
        yield "  without a column `occ_time` beside `det_time`, or with one that cannot be NULL: all events at once"
    else:
        yield "batch: all events at once"
    yield from (f"  {line}" for line in explain_plan(program).splitlines())


def _by_ticks(plan: EnginePlan, selects: SelectsBy) -> Iterator[str]:
    shards = shards_of(plan, whole_selects=selects == "spark")
    yield "tick by tick (every stream, and batches that wait for ticks):"
    yield "  rows are typed where they lie; one shuffle brings them together by slot, with all declared columns"
    if len(shards) > 1 or shards[0].by:
        yield "  engines of all slots go over a step twice: to tell which rows are versions, and with their numbers"
    else:
        yield "  one slot: its engine numbers the versions itself"
    for number, shard in enumerate(shards, 1):
        yield from (f"  {line}" for line in _shard(plan, number, shard, selects))


def _shard(plan: EnginePlan, number: int, shard: Shard, selects: SelectsBy) -> Iterator[str]:
    names = [plan.classes[place].event_class.name for place in shard.places]
    if shard.by:
        by = [f"{plan.classes[place].event_class.name}.{column}" for place, columns in shard.by for column in columns]
        yield f"shard {number}: {', '.join(names)}: a slot for each bucket of {', '.join(by)}"
    else:
        yield f"shard {number}: {', '.join(names)}: one slot, because {shard.reason}"
    come = ", ".join(plan.classes[place].event_class.name for place in received_in(plan, shard))
    yield f"  reads {come or 'nothing'}; keeps one state a slot: live views, timers, expiries, partial matches"
    if plan.triggers and not shard.by and plan.triggers[0].triggering <= {*shard.places}:
        yield f"  fires {', '.join(unit.trigger.name for unit in plan.triggers)}"
    classes = [one.event_class for one in plan.classes]
    for place in shard.places:
        derivation = plan.classes[place].derivation
        if isinstance(derivation, SelectPlan):
            parts = parts_of(derivation, classes)
            how = (
                f"derives touched values of {', '.join(parts.attributes)} again"
                if isinstance(parts, ByKey)
                else (f"is derived as a whole, because {parts.reason}")
            )
            where = "on DuckDB in the task" if selects == "duckdb" else "as Spark SQL, with its slot on the driver"
            yield f"  SELECT of {plan.classes[place].event_class.name}: {how}; runs {where}"

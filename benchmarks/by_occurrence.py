"""What ORDER BY OCCURRENCE costs in process: events a second in order, and with 5 % late versions.

A keyed COMPOSITE and a MATCH go through ticks of the engine, with the clause and without it, over the same events, in
one run; ratios are to the same class without the clause. Late versions come up to five seconds late.

    python benchmarks/by_occurrence.py [--events 100000]
"""

from __future__ import annotations

import argparse
import random
import time

from augury import compile
from augury.duck.selects import runnable
from augury.engine.plan import engine_plan
from augury.engine.state import initial
from augury.engine.tick import Ports, ticks
from augury.history.arrivals import arrivals
from augury.history.raw import RawRows

HEAD = """SET CHRONON 1s;
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Order (item INT, quantity INT) ID () LIFESPAN (1m);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Delivery (item INT, quantity INT) ID () LIFESPAN (1m);
CREATE COMPLEX EVENT CLASS Done (item INT) ID (item) AS {derivation};
"""
CASES = {
    "COMPOSITE": "COMPOSITE Order(item, _) > Delivery(item, _){order} CONTEXT CHRONICLE",
    "MATCH": "MATCH prior(Order(item, _), Delivery(item, _)){order}",
}
ORDER = " ORDER BY OCCURRENCE"
EVENTS_A_SECOND = 1000
ITEMS = 1000


def rows(count: int, late: float) -> list[dict[str, object]]:
    """Events of which some are detected late."""
    chance = random.Random(0)
    found: list[dict[str, object]] = []
    for number in range(count):
        occ = number / EVENTS_A_SECOND
        det = occ + (chance.uniform(0.1, 5) if chance.random() < late else 0)
        event = chance.choice(("Order", "Delivery"))
        found.append({"event": event, "item": chance.randrange(ITEMS), "quantity": 1, "occ_time": occ, "det_time": det})
    return found


def rate(text: str, events: list[dict[str, object]]) -> float:
    """Events a second through all ticks; reading is not counted."""
    program = compile(text)
    plan = engine_plan(program)
    came = arrivals(program, [RawRows("rows", list(events), range(len(events)))])
    begin = time.perf_counter()
    for _ in ticks(plan, initial(plan), came, None, Ports(runnable(program))):
        pass
    return len(events) / (time.perf_counter() - begin)


def main() -> None:
    """Print a line a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    count = parser.parse_args().events
    streams = {"in order": rows(count, 0), "5 % late": rows(count, 0.05)}
    print(f"{count:,} events, {EVENTS_A_SECOND:,} a chronon, {ITEMS:,} items")
    for name, derivation in CASES.items():
        for order in ("", ORDER):  # loops are compiled, once
            rate(HEAD.format(derivation=derivation.format(order=order)), rows(8000, 0.05))
        for kind, events in streams.items():
            plain, ordered = (rate(HEAD.format(derivation=derivation.format(order=o)), events) for o in ("", ORDER))
            ratio = f"{ordered / plain:.2f} of it"
            print(f"{name:10} {kind:9} {plain:9,.0f} events/s; by occurrence {ordered:9,.0f} events/s, {ratio}")


if __name__ == "__main__":
    main()

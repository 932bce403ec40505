"""Programs and random events that both engines run; a law here holds for each of them."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from augury.algebra.program import Program
from augury.api import compile

CLASSES = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Order (I INT, Q INT) ID () LIFESPAN (5d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Perform (I BIGINT, A INT) ID () LIFESPAN (40s);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Price (sym VARCHAR(10), price NUMERIC(10, 2), weight DOUBLE)
  ID (sym) LIFESPAN (1d);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Shift (I INT, sym STRING, since TIMESTAMP, day DATE, ok BOOLEAN)
  ID (I, sym) LIFESPAN (30s);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Badge (I INT, sym STRING) ID (I) LIFESPAN (50s);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Noise () ID () LIFESPAN (-1);
"""

PROGRAMS: dict[str, str] = {
    "keyed": """
CREATE COMPLEX EVENT CLASS Complete (I INT, asked INT) ID (I) LIFESPAN (1d)
  AS MATCH prior(Order(I, Q), Perform(I, A)) WHERE A >= Q RETURN Q AS asked;
CREATE COMPLEX EVENT CLASS Next (I BIGINT) ID (I) AS MATCH sequence(Order(I, _), Perform(I, _));
CREATE COMPLEX EVENT CLASS Soon (I BIGINT, Q INT, A INT) ID ()
  AS MATCH prior(Order(I, Q), Perform(I, A)) WITHIN 9s COLLECT ALL;
CREATE COMPLEX EVENT CLASS Gap (I INT) ID () AS MATCH relative(Order(I, _), <4> any) AND Perform(I, _);
CREATE COMPLEX EVENT CLASS Both (I INT, sym STRING) ID (I, sym)
  AS MATCH prior(Shift(I, sym, _, _, TRUE), Shift(I, sym, _, _, FALSE));
CREATE COMPLEX EVENT CLASS Weighed (w DOUBLE) ID () AS MATCH prior(Price(_, _, w), Price(_, _, w));
CREATE COMPLEX EVENT CLASS Back (I BIGINT) ID () AS MATCH prior(Perform(X, _), Order(X, _)) RETURN X AS I;
CREATE COMPLEX EVENT CLASS Seen (I BIGINT) ID () AS MATCH prior(Shift(Y, _, _, _, _), Perform(Y, _)) RETURN Y AS I;
""",
    "whole": """
CREATE COMPLEX EVENT CLASS Third () ID () AS MATCH EVERY <3> Perform;
CREATE COMPLEX EVENT CLASS Alone () ID () AS MATCH !prior(Order, Perform) AND Perform;
CREATE COMPLEX EVENT CLASS Elsewhere () ID () AS MATCH !happened(Order) ;
CREATE COMPLEX EVENT CLASS Right (q INT) ID () AS MATCH sequence(Order, Perform[A > 4]) RETURN Order.Q AS q;
CREATE COMPLEX EVENT CLASS Rise (sym STRING, price NUMERIC(10, 2)) ID (sym)
  AS MATCH Price(sym, price, _)[price > PREV(price)];
CREATE COMPLEX EVENT CLASS Mixed (I INT) ID (I) AS MATCH prior(Order(I, _), Noise, Perform(I, _));
CREATE COMPLEX EVENT CLASS Dear (n BIGINT, top INT) ID ()
  AS MATCH prior(Order(_, Q), Noise) WITHIN 20s COLLECT MAX(Q) AS top, COUNT(*) AS n;
""",
    "partitioned": """
CREATE COMPLEX EVENT CLASS Twice (I INT) ID () AS MATCH sequence(Order(I, _), Order(I, _)) PARTITION BY I;
CREATE COMPLEX EVENT CLASS Up (sym STRING) ID () AS MATCH
  Price(sym, _, _)[price > PREV(price) AND weight > PREV(weight, 2)] OVER (Price) PARTITION BY sym;
CREATE COMPLEX EVENT CLASS Fourth (I INT) ID (I)
  AS MATCH (<4> any) AND Order(I, _) OVER (Order, Shift) PARTITION BY I;
CREATE COMPLEX EVENT CLASS Shifted (sym STRING) ID ()
  AS MATCH prior(Shift(_, sym, _, _, _), !Badge(_, 'a')) PARTITION BY I, sym;
CREATE COMPLEX EVENT CLASS Hired (I INT) ID () AS MATCH sequence(Shift, Badge(I, _)) PARTITION BY sym, I;
CREATE COMPLEX EVENT CLASS Same (I INT) ID () AS MATCH sequence(Order(I, _), Perform(I, _)) PARTITION BY I;
""",
    "over": """
CREATE COMPLEX EVENT CLASS Near (I INT) ID (I) AS MATCH sequence(Order(I, _), Perform(I, _)) OVER (Order, Perform);
CREATE COMPLEX EVENT CLASS Pair () ID () AS MATCH sequence(Order, Perform) OVER (Order, Perform, Noise);
CREATE COMPLEX EVENT CLASS Constant (since TIMESTAMP, day DATE) ID ()
  AS MATCH prior(Shift(3, 'a', since, day, _), Order(3, _));
""",
    "built": """
CREATE COMPLEX EVENT CLASS Near (I INT, Q INT) ID (I) AS MATCH prior(Order(I, Q), Perform(I, _));
CREATE COMPLEX EVENT CLASS Far (I INT) ID () AS MATCH EVERY <2> Near(I, _);
CREATE COMPLEX EVENT CLASS Again (I INT) ID (I) AS MATCH sequence(Near(I, _), Perform(I, _));
CREATE COMPLEX EVENT CLASS Last (I INT, Q INT) ID () AS MATCH prior(Far(I), Near(I, Q)) COLLECT ALL;
CREATE COMPLEX EVENT CLASS Parted (I INT) ID () AS MATCH prior(Near(I, _), Order(I, _)) PARTITION BY I;
""",
    "clock": """
CREATE CLOCK EVENT CLASS Tick EVERY 3s LIFESPAN (5s);
CREATE CLOCK EVENT CLASS Minute AT '* * * * *' ZONE 'Europe/Vienna';
CREATE COMPLEX EVENT CLASS AtOnce () ID () AS MATCH sequence(Tick, Order);
CREATE COMPLEX EVENT CLASS Waited (I INT) ID () AS MATCH prior(Order(I, _), Tick, Perform(I, _));
CREATE COMPLEX EVENT CLASS Opening () ID () AS MATCH (Order OR Minute) /+ Minute;
CREATE COMPLEX EVENT CLASS Fifth () ID () AS MATCH EVERY <5> Tick OVER (Tick);
""",
    # Masks, WHERE and RETURN divide by zero here and there, and values are too large for their attributes.
    "failing": """
CREATE COMPLEX EVENT CLASS Share (I BIGINT, part DOUBLE) ID ()
  AS MATCH prior(Order(I, Q)[10 / Q > 1], Perform(I, A)) WHERE 9 / A > 1 RETURN Q / (A - 3) AS part;
CREATE COMPLEX EVENT CLASS Rate (large INT) ID ()
  AS MATCH sequence(Order[8 / Q > 0.5], Perform[8 / A > 0.5]) RETURN Order.Q * 1000000000 AS large;
CREATE COMPLEX EVENT CLASS Moved (I INT) ID ()
  AS MATCH Order(I, _)[12 / (Q - PREV(Q)) > 2] OVER (Order) PARTITION BY I;
CREATE COMPLEX EVENT CLASS Later (I BIGINT) ID ()
  AS MATCH prior(Share(I, _)[1 / part IS NULL OR part > 1], Perform(I, _)) WHERE 5 / (I - 2) > -9;
CREATE COMPLEX EVENT CLASS Sound (I INT) ID () AS MATCH prior(Order(I, _), Perform(I, _));
""",
    "composite": """
CREATE COMPLEX EVENT CLASS Kept (I BIGINT, q INT) ID (I)
  AS COMPOSITE Order(I, Q) > Perform(I, _) CONTEXT CHRONICLE RETURN Q AS q;
CREATE COMPLEX EVENT CLASS Late (I INT) ID () AS COMPOSITE Order(I, _) > !Perform(I, _) WITHIN 4s CONTEXT CHRONICLE;
CREATE COMPLEX EVENT CLASS Slow (I INT, Q INT) ID (I) AS COMPOSITE Order(I, Q) + 3s;
CREATE COMPLEX EVENT CLASS Again (sym STRING) ID ()
  AS COMPOSITE PERIODIC(Shift(_, sym, _, _, _), [5s], Badge(_, sym)) CONTEXT CONTINUOUS;
CREATE COMPLEX EVENT CLASS Some (I BIGINT, s STRING) ID ()
  AS COMPOSITE ANY{2, Order(I, _), Perform(I, _), Shift(I, s, _, _, _)} CONTEXT CUMULATIVE;
CREATE COMPLEX EVENT CLASS Whole () ID () AS COMPOSITE (Noise > Price) & Badge CONTEXT CHRONICLE;
CREATE COMPLEX EVENT CLASS Mixed (I INT) ID () AS COMPOSITE Order(I, _) > Noise > Perform(I, _);
CREATE COMPLEX EVENT CLASS Parted (n INT) ID ()
  AS COMPOSITE Shift > Badge[I > PREV(I) OR I > 0] PARTITION BY sym, I
     WITHIN 20s CONTEXT CHRONICLE RETURN Badge.I AS n;
CREATE COMPLEX EVENT CLASS Failing (I BIGINT, part DOUBLE) ID ()
  AS COMPOSITE (Order(I, Q)[8 / Q > 0.5] > Perform(I, A)) WHERE 9 / A > 1 CONTEXT CHRONICLE RETURN Q / (A - 3) AS part;
""",
    # Many timers are due at one time, of keys that other tasks have, and of several classes.
    "on timers": """
CREATE COMPLEX EVENT CLASS Late (I INT, n INT) ID (I)
  AS COMPOSITE Order(I, Q) > !Perform(I, _) WITHIN 4s CONTEXT CHRONICLE RETURN Q AS n;
CREATE COMPLEX EVENT CLASS Due (I INT) ID () AS COMPOSITE Order(I, _) + 0s CONTEXT CHRONICLE;
CREATE COMPLEX EVENT CLASS Pulse (sym STRING) ID ()
  AS COMPOSITE PERIODIC(Shift(_, sym, _, _, _), [5s], Badge(_, sym)) CONTEXT CONTINUOUS;
CREATE COMPLEX EVENT CLASS After (I INT) ID () AS MATCH prior(Late(I, _), Perform(I, _));
CREATE COMPLEX EVENT CLASS Next () ID () AS MATCH sequence(Late, Pulse);
CREATE COMPLEX EVENT CLASS Third () ID () AS MATCH EVERY <3> Late;
CREATE COMPLEX EVENT CLASS Apart (I INT) ID () AS MATCH sequence(Due(I), Late(I, _)) PARTITION BY I;
CREATE COMPLEX EVENT CLASS Twice (I INT, n INT) ID (I) AS COMPOSITE Late(I, n) > Late(I, _) CONTEXT CHRONICLE;
CREATE COMPLEX EVENT CLASS Made (I BIGINT) ID () AS COMPOSITE Late(I, _) > Perform(I, _) CONTEXT CHRONICLE;
CREATE COMPLEX EVENT CLASS Part (n INT) ID ()
  AS COMPOSITE ANY{2, Late, Due, Perform} PARTITION BY I WITHIN 30s CONTEXT CUMULATIVE RETURN Late.n AS n;
CREATE COMPLEX EVENT CLASS Both () ID () AS COMPOSITE (Late & Pulse) + 2s CONTEXT CHRONICLE;
CREATE COMPLEX EVENT CLASS Chain (I INT) ID () AS MATCH prior(After(I), Late(I, _)) WITHIN 30s;
CREATE COMPLEX EVENT CLASS Calm () ID () AS COMPOSITE Both > !Next WITHIN 2s CONTEXT CHRONICLE;
""",
    # Some of all, for where every stage takes long.
    "little": """
CREATE COMPLEX EVENT CLASS Share (I BIGINT, part DOUBLE) ID ()
  AS MATCH prior(Order(I, Q)[10 / Q > 1], Perform(I, A)) WHERE 9 / A > 1 RETURN Q / (A - 3) AS part;
CREATE COMPLEX EVENT CLASS Late (I INT, n DOUBLE) ID (I)
  AS COMPOSITE Order(I, Q)[8 / Q > 0.5] > !Perform(I, _) WITHIN 4s CONTEXT CHRONICLE RETURN Q / (Q - 3) AS n;
CREATE COMPLEX EVENT CLASS Whole () ID () AS COMPOSITE (Noise > Price) & Badge CONTEXT CHRONICLE;
CREATE COMPLEX EVENT CLASS Third (n DOUBLE) ID () AS MATCH EVERY <3> Late(_, n);
""",
    "shared": """
CREATE COMPLEX EVENT CLASS Pair (I INT) ID (I) AS COMPOSITE Order(I, Q) > Perform(I, A) CONTEXT CHRONICLE;
CREATE COMPLEX EVENT CLASS Sum (both INT, I BIGINT) ID ()
  AS COMPOSITE Order(I, Q) > Perform(I, A) CONTEXT CHRONICLE RETURN Q + A AS both;
CREATE COMPLEX EVENT CLASS Share (part DOUBLE) ID ()
  AS COMPOSITE Order(I, Q) > Perform(I, A) CONTEXT CHRONICLE RETURN Q / A AS part;
CREATE COMPLEX EVENT CLASS Latest (I INT) ID () AS COMPOSITE Order(I, Q) > Perform(I, A);
CREATE COMPLEX EVENT CLASS Slow (I INT) ID () AS COMPOSITE Order(I, Q) > !Perform(I, _) WITHIN 4s CONTEXT CHRONICLE;
CREATE COMPLEX EVENT CLASS Slower (Q INT) ID (Q)
  AS COMPOSITE Order(I, Q) > !Perform(I, _) WITHIN 4s CONTEXT CHRONICLE;
CREATE COMPLEX EVENT CLASS Dear () ID () AS COMPOSITE Pair > Sum[both > 9] CONTEXT CHRONICLE;
""",
}

START = datetime(2026, 1, 1, tzinfo=UTC)


def program(name: str) -> Program:
    return compile(CLASSES + PROGRAMS[name], name)


def events(seed: int, count: int, *, faults: bool = True) -> list[dict[str, Any]]:
    """Events by det_time, with ties, withdrawals, duplicates and, where wanted, faults; each has every field."""
    chance = random.Random(seed)
    fields = (
        "event",
        "event_id",
        "occ_time",
        "det_time",
        "I",
        "Q",
        "A",
        "sym",
        "price",
        "weight",
        "since",
        "day",
        "ok",
    )
    found = []
    for number in range(count):
        det_time = START + timedelta(milliseconds=700 * (number // 2))
        event = chance.choice(["Order", "Order", "Perform", "Perform", "Price", "Shift", "Badge", "Noise"])
        row: dict[str, Any] = dict.fromkeys(fields) | {
            "event": event,
            "det_time": det_time,
            "occ_time": det_time - timedelta(seconds=chance.randrange(4)),
            "I": chance.choice([1, 2, 3, 4, 5, None] if event in ("Order", "Perform") else [1, 2, 3]),
            "Q": chance.randrange(9),
            "A": chance.randrange(9),
            "sym": chance.choice("abc"),
            "price": Decimal(chance.randrange(1000)) / 100,
            "weight": chance.choice([0.0, -0.0, 1.5, float("nan"), None]),
            "since": START + timedelta(microseconds=chance.randrange(10**12)),
            "day": date(2026, 1, 1 + chance.randrange(28)),
            "ok": chance.choice([True, False]),
        }
        if event == "Price" and chance.random() < 0.2:
            row["occ_time"] = None
        if chance.random() < 0.1:
            row["event_id"] = f"e{chance.randrange(20)}"
        if faults and chance.random() < 0.05:
            row |= chance.choice([{"event": "Ordr"}, {"det_time": None, "occ_time": None}, {"event": None}])
        found.append(row)
    return found

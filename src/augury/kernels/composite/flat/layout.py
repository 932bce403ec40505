"""What stands where in the arrays of a flat state: names for columns, and nothing else.

Apart from the walks, which are loaded when needed.
"""

from __future__ import annotations

START, END, LEAST, MOST, UNTIL, FIRST, SECOND, REFS, NEXT, SLOT, SIZE = range(11)
"""Of a row: first and last place; first and last occ_time; when the first version leaves; the two it is made of, or,
with a SECOND of NOTHING, the number of the version; how often it is referred to; the next in its queue; at which slot
it waits; how many versions, those that both parts have counted twice."""
FIELDS = 11

FREE, FREE_COUNT, TOP, VERSIONS, DROPPED = range(5)
"""Of the counters: the first unused row, how many such there are, the first row never used, live versions, drops."""

HEAD, TAIL, COUNT = range(3)
"""Of a queue."""

NOTHING = -1

FLOOR_UNTIL, FLOOR_LEAST = range(2)
"""Of a node that keeps: nothing in it leaves earlier, nothing in it occurred earlier."""

LATEST_PLACE, LATEST_OCC_TIME, LATEST_UNTIL, LATEST_VERSION = range(4)
"""Of the latest version at a leaf."""
LATEST_FIELDS = 4

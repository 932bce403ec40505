"""Every bound in the system: name, value, reason. Nothing else holds a number that limits a user."""

from __future__ import annotations

from typing import Final

NESTING_MAX: Final = 64
"""Levels of brackets and operators in one statement: deeper is a mistake or an attack, and passes recurse."""

PROGRAM_CHARACTERS_MAX: Final = 10_000_000
"""Length of one program text: 100 times the largest hand-written program we can imagine."""

EXPRESSION_NODES_MAX: Final = 10_000
"""Nodes of one event expression after definitions are expanded: definitions of definitions grow exponentially."""

EXPANDED_NODES_MAX: Final = 100_000
"""Nodes of all event expressions of a program that use definitions: each class has a copy of what it uses."""

ERRORS_SHOWN_MAX: Final = 200
"""Diagnostics drawn for one file in the terminal; JSON has them all."""

SYNTAX_ERRORS_MAX: Final = 1_000
"""Places of one text that cannot be read before the rest is left out: it is no program, and each costs time."""

NTH_MAX: Final = 100_000
"""The largest n of `<n> E`, `E{n}`: its automaton or buffer has as many states."""

DURATION_US_MAX: Final = 10_000 * 365 * 86_400_000_000
"""Ten thousand years: longer durations are slips of the pen and would overflow a time."""

INFER_ROWS_MAX: Final = 100_000
"""Rows that `infer` reads before it drafts a class: enough to see the types, fast on any file."""

INFER_CLASSES_MAX: Final = 200
"""Classes of one draft: more names than that are no names of classes."""

INFER_KEY_COLUMNS_MAX: Final = 64
"""Columns of a class whose values are remembered: keys stand to the left, and memory is finite."""

JSON_DEPTH_MAX: Final = 100
"""Objects and lists inside each other in one event: no attribute is one, and all that walks through them recurses."""

INFER_LINE_BYTES_MAX: Final = 10_000_000
"""Length of one line of text: a longer one is no event, and reading it whole would fill the memory."""

INFER_ARRAY_BYTES_MAX: Final = 20_000_000
"""Size of a JSON array that is read whole; larger ones must be cut into lines."""

AUTOMATON_STATES_MAX: Final = 10_000
"""States of one automaton while it is built: beyond that its parts are simulated instead."""

ANSWERS_NODES_MAX: Final = 500
"""Nodes of an expression that `check` compiles: nobody reads a larger one, and each node is an automaton."""

ANSWERS_LETTERS_MAX: Final = 64
"""Letters, symbols with their marks, of an expression that `check` compiles: every state has a move for each."""

ANSWERS_WORK_MAX: Final = 500_000
"""Moves of the automata that `check` builds for one program: a few seconds, where no two expressions are alike."""

DRAWING_STATES_MAX: Final = 200
"""States of an automaton that is drawn as SVG: a picture of more is a tangle, and text can be searched."""

COMPARISON_STATES_MAX: Final = 20_000
"""Pairs of states that are walked through to compare two automata: a tenth of a second to a second for one pair."""

DEEP_DIFFERENCES_MAX: Final = 20
"""Pairs of look-alikes of which `check --deep` shows a history that tells them apart: those hardest to tell first."""

PENDING_RUNS_MAX: Final = 12
"""Occurrences of a part inside one occurrence of a pipe or `<n> E` that are kept apart: their combinations multiply."""

STREAMS_JOINED_MAX: Final = 100_000
"""Combinations of values of variables that stand in different places: they multiply, and each has a history."""

TUPLES_MAX: Final = 10_000
"""Occurrence tuples that one history keeps open at a time where all are wanted: each event may move them all."""

COMPOSITE_KEPT_MAX: Final = 100_000
"""Operands that one node of an event graph keeps for one key: beyond, the oldest are dropped, and counted."""

COMPOSITE_LEAVES_MAX: Final = 62
"""Classes as they stand in one COMPOSITE: which of them a version fits is a set of bits."""

COMPOSITE_CHOICES_MAX: Final = 1_000_000
"""Ways to choose sides of OR and operands of ANY in a RECENT expression: an event may have all looked at."""

COMPOSITE_FILLINGS_MAX: Final = 4_096
"""Orders in which leaves of a class with other masks may stand in a RECENT expression: each has its own versions."""

CLOCK_EVENTS_MAX: Final = 10_000_000
"""Events of one clock class in one replay, or of PERIODIC after one opening: a stray date would bring too many."""

KINDS_OF_VALUES_MAX: Final = 100
"""Ways in which the values that a prefix compares may be equal: each has a machine of its own."""

RUN_CHOICES_MAX: Final = 10_000
"""Ways in which such occurrences can go on at one event: each becomes a state."""

GROWTH_STATES_MAX: Final = 500
"""States of the runs of an expression that `check` looks through for tuples without a bound: beyond, it warns."""

ROWS_JOINED_MAX: Final = 4_000_000
"""Rows of streams that are looked at together where events touch every stream: they multiply, and memory is finite."""

DETECTOR_ANSWER_BYTES_MAX: Final = 32_000_000
"""Size of one page that a detector reads over HTTP: it is read whole, and so is what is made of it."""

DETECTOR_FILE_BYTES_MAX: Final = 200_000_000
"""Size of a file that a detector of a folder reads: it is read whole. Larger ones are replayed, not detected."""

DETECTOR_ITEMS_AT_ONCE: Final = 5_000
"""Items that a detector takes over before they are kept: a file of millions must not be held as events at once."""

DETECTOR_ROWS_MAX: Final = 1_000_000
"""Rows of one query, and items of one listing: all of them are looked at together to find what has vanished."""

DETECTOR_PAGES: Final = 100
"""Pages of one listing that a detector follows where it does not say `pages`: links may go round for ever."""

DETECTOR_KEYS_MAX: Final = 1_000_000
"""Keys whose values a detector remembers to tell what has changed; beyond, the oldest are forgotten."""

DETECTOR_SPOOL_BYTES_MAX: Final = 256_000_000
"""Events that wait for an engine that does not take them, by detector: then it stops looking, and says so."""

DELIVERY_RETRIES: Final = 8
"""Tries of an action after the first, before it is a dead letter: over some minutes, as most outages last."""

DELIVERY_CONCURRENCY: Final = 8
"""Actions that are carried out at the same time at one target."""

DELIVERY_SECONDS: Final = 10.0
"""How long one try may take: who has not answered by then has lost it."""

DELIVERY_BACKOFF_SECONDS: Final = 1.0
"""The longest wait before the second try; it doubles with each, and chance takes a part of it away."""

DELIVERY_BACKOFF_SECONDS_MAX: Final = 300.0
"""The longest wait before any try, unless the target asks for more."""

RETRY_AFTER_SECONDS_MAX: Final = 3_600.0
"""The longest wait that a target may ask for: one that asks for a year is mistaken."""

BREAKER_FAILURES: Final = 5
"""Failures of a target in a row before only one action at a time finds out whether it is back."""

BREAKER_SECONDS: Final = 1.0
"""How long nothing is tried at such a target at first; it doubles each time that it has not come back."""

BREAKER_SECONDS_MAX: Final = 60.0
"""How long nothing is tried at a target at most: so late is noticed that it is back."""

DELIVERIES_READ_MAX: Final = 200
"""Actions that wait in memory for one target; what is under way, or done and not yet noted, is not among them."""

SERVER_BODY_BYTES_MAX: Final = 16_000_000
"""Size of one request to a server: it is read whole. Lines of events are read as they come, and may be more."""

SERVER_STREAM_BYTES_MAX: Final = 1_000_000_000
"""Size of one request that brings lines of events: a broken client must not fill the disk in one go."""

SERVER_LINES_AT_ONCE: Final = 5_000
"""Lines of one request that are written together: a request of millions must not hold up the others."""

SERVER_WAITED_EVENTS_MAX: Final = 5_000
"""Events that one request waits for until they are read: they and their answers are held until the last is."""

SERVER_REFUSALS_TOLD_MAX: Final = 1_000
"""Refused events of one request that the answer gives reasons for; all of them are among the rejected events."""

SERVER_REQUESTS_A_SECOND: Final = 20_000
"""Requests that one token may make in a second, on average: more than a server takes, so that it stops a runaway."""

SERVER_FAILURES_A_SECOND: Final = 10
"""Requests without a token that counts that one address may make in a second: a client whose token was revoked, or who
guesses, is slowed down. Who has a token is not: behind a proxy all have one address, and nobody must lock others out.
"""

SERVER_ADDRESSES_MAX: Final = 10_000
"""Addresses of such requests that are remembered, those heard of last: they are others' to choose, memory is not."""

SERVER_PAGE_ROWS: Final = 1_000
"""Rows of one page where the question names no limit."""

SERVER_PAGE_ROWS_MAX: Final = 10_000
"""Rows of one page: a page is made whole."""

SERVER_LIVE_CLIENTS_MAX: Final = 100
"""Clients that are told live what happens: each has a place in memory, and asks the store whenever something does."""

SERVER_PROGRAM_BYTES_MAX: Final = 1_000_000
"""Size of a program that is sent to a server: what a person writes, ten times over."""

SERVER_DRAIN_SECONDS: Final = 20.0
"""How long requests that are under way may take when a server is asked to end."""

SERVER_HEARTBEAT_SECONDS: Final = 15.0
"""How often a live client hears that nothing has happened: proxies close what is silent."""
POST_DEPTH_MAX: Final = 32
"""Events that rules post at events that rules posted, and so on: a rule that posts what triggers it would never end."""

SUITE_ORDERS_MAX: Final = 50_000
"""Arrival orders of one test: all of eight events that are seen at once, some minutes of work."""

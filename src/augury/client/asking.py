"""`augury.Client`: a server of Augury, asked from Python; a method a route.

In: events, names, times, programs. Out: values of `client.told`, rows as mappings, histories as Arrow tables. What the
server refuses raises `Problem`; a server that gives no answer raises `Unreachable`. It knows no engine and no store.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from augury.client import told
from augury.client.feeds import Feed, Pages, live_feed
from augury.client.lines import Event, line_of
from augury.client.live import Patience
from augury.client.problems import ClientError, Problem
from augury.client.told import DECODER, Row
from augury.client.wire import Question, Wire, path_of

if TYPE_CHECKING:
    import pyarrow as pa

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
ARROW: Final = "application/vnd.apache.arrow.stream"
TEXT: Final = "text/plain; charset=utf-8"

BATCH_LINES: Final = 1_000
"""Events of one request of `post_all`: few enough to be sent again."""

Moment = datetime | str
"""A time: a datetime (UTC where it has no zone), ISO text, or `now`."""

Kind = Literal["class", "rule", "group", "trigger"]
"""What a program is made of."""

_PATHS: Final[Mapping[str, str]] = {"class": "classes", "rule": "rules", "group": "groups", "trigger": "triggers"}


class Client:
    """A server at a URL, as who has the token; any number of threads may ask it.

    A question that gets no answer, or is told to come later, is asked up to `tries` times if that is safe: events are
    given an event_id, so that they are posted once.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout_seconds: float = 30.0, tries: int = 4) -> None:
        """Ask nothing yet; raises `ClientError` for what is no address."""
        if tries < 1:
            raise ValueError("a question is tried at least once")
        self._wire = Wire(url, token, timeout_seconds, tries)

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._wire.url

    # ---- events ------------------------------------------------------------------------------------------------

    def notify(self, event: Event) -> told.Answer:
        """Post an event and wait until it is read: what became of it, what fired, and what triggers gave back.

        If it was sent twice because the first answer was lost, it is absorbed, and what the first said is lost.
        """
        body = line_of(event).encode()
        return told.answer_of(self._json(Question("POST", "/v1/events", {"wait": "read"}, body, _of(JSON))))

    def post(self, event: Event) -> None:
        """Post an event; once it returns the event survives a crash. One that is refused is a `Problem` (422)."""
        self._json(Question("POST", "/v1/events", None, line_of(event).encode(), _of(JSON)))

    def post_all(self, events: Iterable[Event]) -> told.Accepted:
        """Post events in their order, some at a time; gives how many are durable, and which were refused and why.

        What is raised in between has a note of how many were durable before.
        """
        accepted, refused, count = 0, list[told.Refused](), 0
        lines = map(line_of, events)
        while batch := list(islice(lines, BATCH_LINES)):
            body = "".join(f"{line}\n" for line in batch).encode()
            try:
                found = self._json(Question("POST", "/v1/events", None, body, _of(NDJSON)))
            except ClientError as error:
                error.add_note(f"{accepted:,} events of {count:,} were durable before")
                raise
            some = told.accepted_of(found, count)
            accepted, count = accepted + some.accepted, count + len(batch)
            refused += some.refused
        return told.Accepted(accepted, tuple(refused))

    def stream(self, events: Iterable[Event]) -> told.Accepted:
        """Post events as they come, by one request, however long it takes; it is not sent again if it breaks off.

        Then the `document` of the `Problem` may say how many were `accepted` before.
        """
        lines = (f"{line_of(event)}\n".encode() for event in events)
        return told.accepted_of(self._json(Question("POST", "/v1/events", None, lines, _of(NDJSON), is_safe=False)))

    # ---- what is known -----------------------------------------------------------------------------------------

    def classes(self) -> tuple[told.ClassInfo, ...]:
        """The classes of the program, in the order of declaration."""
        return tuple(map(told.class_of, self._get("v1", "classes")["classes"]))

    def event_class(self, name: str) -> told.ClassInfo:
        """A class."""
        return told.class_of(self._get("v1", "classes", name))

    def history(
        self,
        name: str,
        *,
        as_of: Moment | None = None,
        known_at: Moment | None = None,
        diff: tuple[Moment, Moment] | None = None,
    ) -> pa.Table:
        """Every version of a class, or what was known of it at a time, as `LocalEngine.history` says."""
        import pyarrow as pa

        times = {"as_of": as_of, "known_at": known_at}
        if diff is not None:
            times |= {"diff_from": diff[0], "diff_to": diff[1]}
        query = {"format": "arrow", **{key: None if one is None else _moment(one) for key, one in times.items()}}
        headers = {"Accept": ARROW}
        answer = self._wire.ask(Question("GET", path_of("v1", "classes", name, "history"), query, headers=headers))
        with pa.ipc.open_stream(answer.content) as reader:
            return reader.read_all()

    def occurrences(self, *names: str, after: str | None = None, limit: int | None = None) -> Feed:
        """Versions of complex classes, of all or of those named, in the order of ticks; after a cursor, so many."""
        return self._feed("occurrences", names, after, limit)

    def firings(self, *names: str, after: str | None = None, limit: int | None = None) -> Feed:
        """Firings of triggers, of all or of those named, in the order of ticks; after a cursor, so many."""
        return self._feed("firings", names, after, limit)

    def live_occurrences(self, *names: str, after: str | None = None, patience_seconds: float = 60.0) -> Feed:
        """Versions of complex classes as they come, from now on or from a cursor; it ends when whoever asks stops.

        A connection that breaks off is made again, and nothing is left out; a server that is away for longer than
        `patience_seconds` is told.
        """
        return live_feed(self._wire, "occurrences", names, after, Patience(patience_seconds))

    def live_firings(self, *names: str, after: str | None = None, patience_seconds: float = 60.0) -> Feed:
        """Firings of triggers as they come, in the same way."""
        return live_feed(self._wire, "firings", names, after, Patience(patience_seconds))

    def rejected(self) -> Iterator[Row]:
        """The events that were refused, with the reason, in their order."""
        return Pages(self._wire, "/v1/rejected", {}).rows()

    # ---- actions -----------------------------------------------------------------------------------------------

    def actions(
        self, *, states: Sequence[str] = (), action: str | None = None, event: str | None = None
    ) -> Iterator[Row]:
        """Actions with what has become of them; dead letters have the state `dead`."""
        return Pages(self._wire, "/v1/actions", {"state": list(states), "action": action, "event": event}).rows()

    def action(self, key: str) -> Row:
        """The action with this idempotency key."""
        return self._get("v1", "actions", key)

    def retry_actions(self, *keys: str, **wanted: Any) -> int:
        """Let actions be tried again at once: by keys, `states`, `action`, `event`, or `all=True`. Gives how many."""
        return self._change_actions("retry", keys, wanted)

    def drop_actions(self, *keys: str, **wanted: Any) -> int:
        """Let actions never be tried again, in the same way."""
        return self._change_actions("drop", keys, wanted)

    def _change_actions(self, verb: str, keys: Sequence[str], wanted: Mapping[str, Any]) -> int:
        body = json.dumps({"keys": list(keys), **wanted}).encode()
        count: int = self._json(Question("POST", f"/v1/actions/{verb}", None, body, _of(JSON)))["count"]
        return count

    # ---- triggers and rules ------------------------------------------------------------------------------------

    def triggers(self) -> tuple[told.TriggerInfo, ...]:
        """The triggers of the program."""
        return tuple(map(told.trigger_of, self._get("v1", "triggers")["triggers"]))

    def trigger(self, name: str) -> told.TriggerInfo:
        """A trigger."""
        return told.trigger_of(self._get("v1", "triggers", name))

    def evaluate(self, trigger: str) -> bool:
        """Whether the composite event of a trigger has occurred, and no firing has used it."""
        occurred: bool = self._get("v1", "triggers", trigger, "evaluate")["occurred"]
        return occurred

    def rules(self) -> tuple[told.RuleInfo, ...]:
        """The rules of the program."""
        return tuple(map(told.rule_of, self._get("v1", "rules")["rules"]))

    def rule(self, name: str) -> told.RuleInfo:
        """A rule."""
        return told.rule_of(self._get("v1", "rules", name))

    def groups(self) -> tuple[told.GroupInfo, ...]:
        """The groups of rules."""
        return tuple(map(told.group_of, self._get("v1", "groups")["groups"]))

    def group(self, name: str) -> told.GroupInfo:
        """A group of rules."""
        return told.group_of(self._get("v1", "groups", name))

    def switch(self, kind: Literal["rule", "group", "trigger", "class"], name: str, on: bool) -> None:
        """Enable or disable a rule, group, trigger or class that takes events, from the next version on."""
        self._do("v1", _noun(kind), name, "enable" if on else "disable")

    # ---- programs ----------------------------------------------------------------------------------------------

    def check(self, program: str) -> told.Checked:
        """Everything that is wrong with a program."""
        return told.checked_of(self._sent(program, "v1", "check"))

    def explain(self, program: str, name: str | None = None, *, stage: str = "algebra", form: str = "text") -> str:
        """A program, or one thing of it, at a stage of its compilation, as `augury explain` shows it."""
        query = {"name": name, "stage": stage, "form": form}
        text: str = self._sent(program, "v1", "explain", query=query)["text"]
        return text

    def code(self, code: str) -> str:
        """The long help of an error code."""
        text: str = self._get("v1", "codes", code)["text"]
        return text

    def program(self) -> str:
        """The program that runs, as it was written."""
        text: str = self._get("v1", "program")["text"]
        return text

    def plan(self, program: str) -> told.Changes:
        """What another program would change: which state is kept, worked out again, or lost."""
        return told.changes_of(self._sent(program, "v1", "program", "plan"))

    def apply(self, program: str) -> told.Changes:
        """Let another program take the place of the one that runs, between two ticks and as a whole."""
        return told.changes_of(self._sent(program, "v1", "program", "apply", is_safe=False))

    def put(self, kind: Kind, name: str, statement: str, *, dry_run: bool = False) -> told.Changes:
        """Add or replace a class, rule, group or trigger by its statement; or say what that would change."""
        query = {"dry_run": str(dry_run).lower()}
        sent = self._sent(statement, "v1", _noun(kind), name, method="PUT", query=query, is_safe=dry_run)
        return told.changes_of(sent)

    def drop(self, kind: Kind, name: str, *, dry_run: bool = False) -> told.Changes:
        """Drop a class, rule, group or trigger; or say what that would change."""
        query = {"dry_run": str(dry_run).lower()}
        question = Question("DELETE", path_of("v1", _noun(kind), name), query, is_safe=dry_run)
        return told.changes_of(self._json(question))

    def reload(self) -> tuple[str, ...]:
        """Let the server load the Python code of rules again; gives the modules."""
        return tuple(self._do("v1", "functions", "reload")["modules"])

    # ---- operation ---------------------------------------------------------------------------------------------

    def health(self) -> bool:
        """Whether the server answers; raises `Unreachable` if not."""
        alive: bool = self._get("health")["alive"]
        return alive

    def ready(self) -> told.Ready:
        """Whether the server takes events, and if not why."""
        try:
            return told.made(told.Ready, self._json(Question("GET", "/ready", is_safe=False)))
        except Problem as problem:
            if "ready" not in problem.document:
                raise
            return told.made(told.Ready, problem.document)

    def engine(self) -> Row:
        """How the engine is doing, and what runs beside it."""
        return self._get("v1", "engine")

    def pause(self, what: Literal["engine", "delivery"] = "engine") -> Row:
        """Stop ticks, or the delivery of actions; events are taken all the same."""
        return self._do("v1", what, "pause")

    def resume(self, what: Literal["engine", "delivery"] = "engine") -> Row:
        """Let ticks, or the delivery of actions, go on."""
        return self._do("v1", what, "resume")

    def detectors(self) -> Row:
        """How the detectors are doing, by name."""
        found: Row = self._get("v1", "detectors")["detectors"]
        return found

    def pause_detector(self, name: str) -> None:
        """Let a detector look no more."""
        self._do("v1", "detectors", name, "pause")

    def resume_detector(self, name: str) -> None:
        """Let a detector go on."""
        self._do("v1", "detectors", name, "resume")

    def metrics(self) -> str:
        """Numbers for Prometheus."""
        return self._wire.ask(Question("GET", "/metrics", headers={"Accept": "*/*"})).content.decode()

    def close(self) -> None:
        """Let go of the connections."""
        self._wire.close()

    def __enter__(self) -> Self:
        """The client itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        """Where it asks; the token is nobody's business."""
        return f"Client({self.url!r})"

    # ---- asking ------------------------------------------------------------------------------------------------

    def _json(self, question: Question) -> Row:
        found: Row = DECODER.decode(self._wire.ask(question).content.decode())
        return found

    def _get(self, *parts: str) -> Row:
        return self._json(Question("GET", path_of(*parts)))

    def _do(self, *parts: str) -> Row:
        return self._json(Question("POST", path_of(*parts), body=b""))

    def _sent(
        self,
        text: str,
        *parts: str,
        method: str = "POST",
        query: Mapping[str, Any] | None = None,
        is_safe: bool = True,
    ) -> Row:
        return self._json(Question(method, path_of(*parts), query, text.encode(), _of(TEXT), is_safe))

    def _feed(self, path: str, names: Sequence[str], after: str | None, limit: int | None) -> Feed:
        pages = Pages(self._wire, f"/v1/{path}", {"name": list(names)})
        return Feed(pages.told(after, limit), after)


def _of(kind: str) -> Mapping[str, str]:
    return {"Content-Type": kind}


def _moment(moment: Moment) -> str:
    if isinstance(moment, str):
        return moment
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


def _noun(kind: str) -> str:
    """Where things of a kind are asked for; raises `ValueError` for what is no kind."""
    if kind not in _PATHS:
        raise ValueError(f"there is no kind `{kind}` of things in a program: there are {', '.join(_PATHS)}")
    return _PATHS[kind]

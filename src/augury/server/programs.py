"""`/v1/program`, `/v1/check`, `/v1/explain`: a program looked at, and the one that runs changed while it runs.

In: texts. Out: diagnostics, dumps, and what a change does to the state. What executors and detectors are bound to is
read when the server starts: who may define rules must not thereby run commands or code of this machine.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final, Literal

from fastapi import Query, Request

from augury import limits
from augury.actions.python import NoFunction
from augury.algebra.program import Program
from augury.api import Checked as CheckedProgram
from augury.api import check
from augury.diagnostics import Source, to_json
from augury.engine.plan import CannotRun
from augury.engine.replacing import CannotChange, Changes
from augury.explain import ExplainError, explain_code, explain_program
from augury.local.applying import Closed
from augury.server.instead import unmarked
from augury.server.models import ChangeModel, ChangesModel, Checked, Explained, ProgramModel, Reloaded
from augury.server.problems import Problem, of_program
from augury.server.routes import Route
from augury.server.served import Served
from augury.server.statements import Kind, statements_at, with_statement, without_statement
from augury.server.tokens import Role

_NAME: Final = "program"
_TEXT: Final = {"requestBody": {"required": True, "content": {"text/plain": {"schema": {"type": "string"}}}}}

DryRun = Annotated[bool, Query(description="Change nothing, and say what would change.")]
Stage = Literal["syntax", "algebra", "automaton", "graph"]


def routes(served: Served) -> list[Route]:
    """The routes of programs."""
    asked = Programs(served)
    changes = {"response_model": ChangesModel}
    found = [
        Route("POST", "/v1/check", Role.READ, asked.check, more={"response_model": Checked, "openapi_extra": _TEXT}),
        Route(
            "POST", "/v1/explain", Role.READ, asked.explain, more={"response_model": Explained, "openapi_extra": _TEXT}
        ),
        Route("GET", "/v1/codes/{code}", Role.READ, asked.code, more={"response_model": Explained}),
        Route("GET", "/v1/program", Role.READ, asked.text, more={"response_model": ProgramModel}),
        Route("POST", "/v1/program/plan", Role.DEFINE, asked.plan, more={**changes, "openapi_extra": _TEXT}),
        Route("POST", "/v1/program/apply", Role.DEFINE, asked.apply, more={**changes, "openapi_extra": _TEXT}),
        Route("POST", "/v1/functions/reload", Role.DEFINE, asked.reload, more={"response_model": Reloaded}),
    ]
    for kind, path in PATHS.items():
        put, drop = asked.changing(kind)
        named = {"put": f"put_{kind}", "drop": f"drop_{kind}"}
        more = {**changes, "openapi_extra": _TEXT, "operation_id": named["put"]}
        found.append(Route("PUT", f"/v1/{path}/{{name}}", Role.DEFINE, put, more=more))
        more = {**changes, "operation_id": named["drop"]}
        found.append(Route("DELETE", f"/v1/{path}/{{name}}", Role.DEFINE, drop, more=more))
    return found


PATHS: Final = {Kind.CLASS: "classes", Kind.RULE: "rules", Kind.GROUP: "groups", Kind.TRIGGER: "triggers"}


class Programs:
    """Looks at programs, and changes the one that runs."""

    def __init__(self, served: Served) -> None:
        """Take what is served."""
        self._served = served
        self._changing = asyncio.Lock()

    async def check(self, request: Request) -> Checked:
        """Everything that is wrong with a program, as `augury check` finds it."""
        checked = await _checked(await _text(request))
        told = [to_json(one, checked.source) for one in checked.diagnostics]
        return Checked.model_validate({"ok": checked.program is not None, "diagnostics": told})

    async def explain(
        self,
        request: Request,
        name: Annotated[str | None, Query(max_length=1_000)] = None,
        stage: Stage = "algebra",
        form: Literal["text", "dot", "svg"] = "text",
    ) -> Explained:
        """A program, or one thing of it, at a stage of its compilation."""
        checked = await _checked(await _text(request))
        if checked.program is None:
            raise of_program(checked.errors, checked.source)
        try:
            return Explained(text=await asyncio.to_thread(explain_program, checked, name, stage, form=form))
        except ExplainError as error:
            raise of_program([error.diagnostic], checked.source) from None

    async def code(self, code: str) -> Explained:
        """The long help of an error code."""
        try:
            text = explain_code(code)
        except ExplainError as error:
            raise of_program([error.diagnostic], Source(code, ""), 404) from None
        if text is None:
            raise Problem(404, f"`{code}` is no error code: they are like E203")
        return Explained(text=text)

    async def text(self) -> ProgramModel:
        """The program that runs, as it was written."""
        return ProgramModel(text=self._text())

    async def plan(self, request: Request) -> ChangesModel:
        """What another program would change: which state is kept, worked out again, or lost."""
        return await self._changed(await _text(request), is_tried=True)

    async def apply(self, request: Request) -> ChangesModel:
        """Let another program take the place of the one that runs, between two ticks and as a whole."""
        async with self._changing:
            return await self._changed(await _text(request), is_tried=False)

    async def reload(self) -> Reloaded:
        """Load the Python code of rules and actions again; what cannot be loaded changes nothing."""
        functions, deliverer = self._served.functions, self._served.deliverer
        executors = [] if deliverer is None else deliverer.executors
        try:
            names = [] if functions is None else await asyncio.to_thread(functions.reload, executors)
            return Reloaded(modules=names)
        except NoFunction as error:
            raise Problem(422, str(error)) from None

    def changing(self, kind: Kind) -> tuple[Any, Any]:
        """What adds or replaces, and what drops, things of a kind by their names."""

        async def put(name: str, request: Request, dry_run: DryRun = False) -> ChangesModel:
            statement = await _text(request)
            async with self._changing:
                return await self._changed(with_statement(self._text(), kind, name, statement), dry_run)

        async def drop(name: str, dry_run: DryRun = False) -> ChangesModel:
            async with self._changing:
                rest = without_statement(self._text(), kind, name)
                try:
                    return await self._changed(rest, dry_run)
                except Problem as problem:
                    raise _needed(problem, rest, f"the {kind} `{name}`") from None

        put.__doc__ = f"Add or replace a {kind}: the body is its statement."
        drop.__doc__ = f"Drop a {kind}."
        return put, drop

    def _text(self) -> str:
        return unmarked(self._served.engine.program.text)

    async def _changed(self, text: str, is_tried: bool) -> ChangesModel:
        checked = await _checked(text)
        if checked.program is None:
            raise of_program(checked.errors, checked.source)
        self._refuse_bindings(checked.program)
        program = checked.program
        try:
            if is_tried:
                changes = await self._served.read(lambda: self._served.engine.plan(program))
            else:
                changes = await self._served.apply(program)
        except Closed as error:
            raise Problem(503, str(error), {"retry-after": "5", "connection": "close"}) from None
        except (CannotChange, CannotRun) as error:
            raise of_program(error.diagnostics, checked.source, 409) from None
        if changes.refused:
            raise of_program(changes.refused, checked.source, 409)
        return _model(changes)

    def _refuse_bindings(self, program: Program) -> None:
        runs = self._served.engine.program
        if (program.bindings, program.detections) != (runs.bindings, runs.detections):
            raise Problem(
                409,
                "BIND and DETECT say what this machine runs and reads, and are not changed over HTTP: "
                "leave them as they are, or start the server with the other program",
            )


def _model(changes: Changes) -> ChangesModel:
    each = [
        ChangeModel(kind=one.kind, name=one.name, what=one.what, state=one.state, why=one.why) for one in changes.each
    ]
    return ChangesModel(changes=each, replays=changes.replays, lines=changes.lines())


def _needed(problem: Problem, rest: str, dropped: str) -> Problem:
    """What keeps something from being dropped: what cannot be without it, where it is that."""
    wrong = [one["start"] for one in problem.more.get("diagnostics", ()) if one["severity"] == "error"]
    needing = statements_at(rest, wrong) if problem.status == 422 else []
    if not needing:
        return problem
    those = "that" if len(needing) == 1 else "those"
    detail = f"{dropped} is needed by {', '.join(needing)}: drop or change {those} first"
    return Problem(problem.status, detail, problem.headers, **problem.more)


async def _text(request: Request) -> str:
    body = await request.body()
    if len(body) > limits.SERVER_PROGRAM_BYTES_MAX:
        raise Problem(413, f"a program has at most {limits.SERVER_PROGRAM_BYTES_MAX:,} bytes here")
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Problem(400, "a program is UTF-8") from None


async def _checked(text: str) -> CheckedProgram:
    return await asyncio.to_thread(check, text, _NAME)

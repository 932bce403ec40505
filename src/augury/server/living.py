"""Processes that go on until they are told to end: servers, detectors that feed them, executors, or all in one.

In: a checked program and where it lives. Out: an exit code. SIGINT and SIGTERM end them between two steps, with all
that was taken kept.
"""

from __future__ import annotations

import asyncio
import fcntl
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from augury import limits
from augury.actions.settings import ActionSettings
from augury.algebra.program import Program
from augury.environment import Environment, real
from augury.server.given import CannotServe as CannotServe
from augury.server.supervised import ENDING, READY, tell_supervisor

if TYPE_CHECKING:  # a server that neither senses nor acts starts without what they need
    from aiohttp import web

    from augury.actions.binding import Surroundings
    from augury.detectors.run import Detectors
    from augury.detectors.sinks import EngineSink, Sink
    from augury.server.tokens import Tokens

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Serving:
    """How a server is reached: where it listens, who may ask, and how often.

    `is_open` lets who is on this machine post and read without a token. `show` shows somebody the token that is made at
    the first start; without it none is made, for what is told may be kept in a log.
    """

    host: str = "127.0.0.1"
    port: int = 0
    tokens: Tokens | None = None
    requests_a_second: int = limits.SERVER_REQUESTS_A_SECOND
    is_open: bool = False
    show: Tell | None = None


async def live_server(
    program: Program,
    store: str,
    serving: Serving,
    tell: Tell,
    state: Path | None = None,
    acting: Surroundings | None = None,
    settings: ActionSettings | None = None,
    over: asyncio.Event | None = None,
) -> None:
    """An engine that follows the wall clock behind HTTP, until a signal, or until `over` is set.

    With `state`, the program's detectors feed it, and remember there; with `acting`, its actions are carried out, here
    or elsewhere. Port 0 is any that is free; what is told says which. Raises what opening a store does, and
    `CannotServe`, `BadDetector`, `CannotCarryOut`, `NoFunction`.
    """
    from augury.local.running import LocalEngine
    from augury.server.app import server_app
    from augury.server.callers import require_safe
    from augury.server.functions import RuleFunctions
    from augury.server.instead import digest_of, program_to_run
    from augury.server.listening import answering
    from augury.server.served import Served

    tokens = serving.tokens
    require_safe(serving.host, tokens is not None and tokens.path.exists(), serving.is_open)
    instead_of = digest_of(program)
    changed = await asyncio.to_thread(program_to_run, program, store)
    if changed is not program:
        tell("the program was changed over HTTP, and goes on as it was changed; a file that is changed, too, counts")
        program = changed
    over = _over_at_signal(over)
    async with AsyncExitStack() as stack:
        environment = await stack.enter_async_context(real())
        functions = None
        if acting is None or acting.elsewhere is None:
            functions = RuleFunctions(program, settings or ActionSettings())
        called = None if functions is None else functions.by_action()
        engine = await asyncio.to_thread(lambda: LocalEngine(program, store, environment=environment, functions=called))
        stack.callback(engine.close)
        deliverer = detectors = None
        if acting is not None:
            from augury.actions.deliver import Ends
            from augury.actions.event import EnginePoster
            from augury.actions.run import delivering

            around = acting if acting.poster is not None else replace(acting, poster=EnginePoster(engine))
            deliverer = await stack.enter_async_context(delivering(store, around, environment, tell))
        if state is not None:
            from augury.detectors.sinks import EngineSink

            sinks = {store: EngineSink(engine, store)}
            detectors = _detectors(program, sinks, state, environment, tell, stack)
        served = Served(engine, store, environment, detectors, deliverer, functions, instead_of)
        stack.push_async_callback(served.close)
        gate = server_app(served, tokens, serving.requests_a_second, is_open=serving.is_open)
        address = await stack.enter_async_context(answering(gate, serving.host, serving.port))
        stack.callback(served.over.set)  # who is told live goes first, for nobody waits for that to end
        engine.start()
        if deliverer is not None:
            await stack.enter_async_context(_at_work(deliverer.run(Ends.NEVER), deliverer.ask_to_stop, over))
        if detectors is not None:
            await stack.enter_async_context(_at_work(detectors.run(), detectors.stop, over))
        _let_in(serving, store, tell)
        tell(f"the server listens at {address}")
        await _until(over, environment, tell)


def _let_in(serving: Serving, store: str, tell: Tell) -> None:
    """Say who may ask where nobody has a token yet."""
    from augury.server.tokens import first_token

    if serving.is_open:
        tell("it is open: whoever is on this machine may post and read without a token")
    elif serving.tokens is not None and not (path := serving.tokens.path).exists():
        if serving.show is None:
            tell(f"nobody has a token yet: `augury token add NAME --role admin --tokens {path}` makes one")
        elif (made := first_token(path)) is not None:
            tell(f"a token that may do everything was made, and is shown only now; `{path}` has a digest of it")
            serving.show(f"  export AUGURY_TOKEN={made}")


def run_server(living: Coroutine[Any, Any, None]) -> None:
    """Run a server to its end, by a quicker loop than Python's own."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(living)


async def live_executors(
    around: Surroundings,
    host: str,
    port: int,
    tell: Tell,
    keys: tuple[bytes, ...] = (),
    over: asyncio.Event | None = None,
    tokens: Path | None = None,
    is_open: bool = False,
) -> None:
    """Executors that carry out what engines post, until a signal, or until `over` is set.

    They listen to what is signed and to who has a token; with `is_open` to whoever is on this machine. Raises
    `CannotServe` and `CannotCarryOut`.
    """
    from augury.actions.binding import wire
    from augury.actions.run import require_usable
    from augury.server.acting import Executors, acting_app
    from augury.server.callers import require_safe
    from augury.server.tokens import Tokens

    require_safe(host, tokens is not None, is_open)
    if not keys and not is_open:
        raise CannotServe(
            "what engines send has to be signed: name the variable that holds a secret by --secret-env, "
            "here and there; or let whoever is on this machine send actions, by --open"
        )
    known = None if tokens is None else Tokens(tokens)
    over = _over_at_signal(over)
    async with AsyncExitStack() as stack:
        environment = await stack.enter_async_context(real())
        wired = wire(around, environment)
        stack.push_async_callback(wired.close)
        require_usable(wired, tell, "whoever sends it is told so")
        executors = Executors(wired.carriers, environment)
        app = acting_app(executors, environment, keys, known, is_open=is_open)
        address = await stack.enter_async_context(_served(app, host, port))
        stack.push_async_callback(executors.stop)
        tell(f"the executors listen at {address}")
        await _until(over, environment, tell)


async def live_detectors(
    program: Program,
    engines: Sequence[str],
    state: Path,
    tell: Tell,
    *,
    once: bool = False,
    host: str = "127.0.0.1",
    port: int | None = None,
    token: str | None = None,
    tokens: Path | None = None,
    is_open: bool = False,
) -> int:
    """The detectors of a program, feeding engines at addresses; gives an exit code.

    With `once` every detector looks once, all engines take what it saw, and that is all. With a port they answer
    there, to who has one of `tokens`, or with `is_open` to whoever is on this machine. `token` lets them post.
    """
    from augury.detectors.http_sink import HttpSink
    from augury.detectors.sensor import SourceFailed
    from augury.detectors.sinks import NotTaken
    from augury.server.callers import require_safe
    from augury.server.sensing import detectors_app
    from augury.server.tokens import Tokens

    if port is not None:
        require_safe(host, tokens is not None, is_open)
        if tokens is None and not is_open:
            raise CannotServe(
                "nobody may ask at --port: name a file of tokens, --tokens FILE, as `augury token add` makes one; "
                "or let whoever is on this machine ask, by --open"
            )
    known = None if tokens is None else Tokens(tokens)
    async with AsyncExitStack() as stack:
        environment = await stack.enter_async_context(real())
        sinks: dict[str, Sink] = {url.rstrip("/"): HttpSink(url, environment, token) for url in engines}
        detectors = _detectors(program, sinks, state, environment, tell, stack)
        if once:
            try:
                await detectors.run_once()
            except (SourceFailed, NotTaken) as error:
                tell(f"error: {error}")
                return 1
            return 0
        if port is not None:
            address = await stack.enter_async_context(
                _served(detectors_app(detectors, known, environment, is_open=is_open), host, port)
            )
            tell(f"the detectors listen at {address}")
        over = _over_at_signal()
        await stack.enter_async_context(_at_work(detectors.run(), detectors.stop, over))
        tell(f"detecting: {', '.join(detectors.status())}")
        await _until(over, environment, tell)
    return 0


def _detectors(
    program: Program,
    sinks: dict[str, Sink] | dict[str, EngineSink],
    state: Path,
    environment: Environment,
    tell: Tell,
    stack: AsyncExitStack,
) -> Detectors:
    from augury.detectors.opening import opened
    from augury.detectors.run import Detectors

    if not program.detections:
        raise CannotServe("the program detects nothing: add DETECT Class FROM … to it")
    found = opened(program, environment)
    _lock(state, stack)
    return Detectors(found, sinks, str(state), environment, report=tell)


def _lock(state: Path, stack: AsyncExitStack) -> None:
    """Let nobody else use the folder: two who count positions in it would both be wrong."""
    try:
        state.mkdir(parents=True, exist_ok=True)
        file = stack.enter_context((state / ".lock").open("w"))
    except OSError as error:
        raise CannotServe(f"`{state}` cannot be used for what detectors remember: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise CannotServe(f"other detectors use `{state}` now: give these a folder of their own") from None


@asynccontextmanager
async def _at_work(
    work: Coroutine[Any, Any, None], stop: Callable[[], None], over: asyncio.Event
) -> AsyncIterator[None]:
    """Work in the background, which is stopped and waited for; if it ends by itself, all is over."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda _: over.set())
    try:
        yield
    finally:
        stop()
        await task


def _over_at_signal(over: asyncio.Event | None = None) -> asyncio.Event:
    over = over or asyncio.Event()
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, over.set)
    except (ValueError, RuntimeError):  # not the main thread: whoever has it decides
        pass
    return over


async def _until(over: asyncio.Event, environment: Environment, tell: Tell) -> None:
    """Wait, as a process that is ready, until it is to end."""
    tell_supervisor(READY, environment.variables, tell)
    await over.wait()
    tell_supervisor(ENDING, environment.variables, tell)


@asynccontextmanager
async def _served(app: web.Application, host: str, port: int) -> AsyncIterator[str]:
    """An application at an address, as long as it is used."""
    from aiohttp import web

    from augury.server.callers import cannot_listen

    runner = web.AppRunner(app, access_log=None, shutdown_timeout=5.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise cannot_listen(host, port, error) from None
        name, number = runner.addresses[0][:2]
        yield f"http://{f'[{name}]' if ':' in name else name}:{number}"
    finally:
        await runner.cleanup()

"""The source tested as text: who imports whom, what the core must not touch, sizes, names, docstrings.

Each rule is a function from modules to a list of complaints; it is run on src/augury, where the list has to
be empty, and on a few made-up lines, where it must not be.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "augury"

# The shared nouns, in the order in which they may build on each other; everything else may use them all.
NOUNS = {"diagnostics", "catalogue", "limits", "clock", "types", "event"}

# What a folder or top-level module may import from, itself apart. Text flows down the pipeline:
#   language → analysis → algebra → automata → kernels → history → engine → local, spark → actions → server
# and the meaning (algebra) knows neither the text it came from nor the machinery that runs it.
# A new folder or top-level module starts with a row here.
ALLOWED: dict[str, set[str]] = {
    "diagnostics": set(),
    "catalogue": {"diagnostics"},
    "limits": {"diagnostics"},
    "clock": {"diagnostics", "limits"},
    "types": {"diagnostics", "limits", "clock"},
    "event": {"diagnostics", "limits", "clock", "types"},
    "files": {"diagnostics", "limits", "environment"},
    "datafiles": {"diagnostics", "environment"},
    "metrics": set(),  # the words of what engines tell of themselves
    "environment": set(),  # the world, behind one object
    "simulated": {"environment"},
    "language": NOUNS | {"algebra"},  # the names of the operators, which text and meaning share
    "algebra": NOUNS,
    "analysis": NOUNS | {"language", "algebra"},
    "infer": NOUNS | {"language", "datafiles"},
    "automata": NOUNS | {"algebra"},
    "graphs": NOUNS | {"algebra"},
    "kernels": NOUNS | {"algebra", "automata", "graphs"},
    "history": NOUNS | {"algebra", "kernels"},
    "engine": NOUNS | {"algebra", "automata", "kernels", "history"},
    "duck": NOUNS | {"algebra", "kernels", "history", "engine"},
    "lake": NOUNS | {"algebra", "kernels", "history", "engine"},
    "local": NOUNS
    | {"environment", "datafiles", "algebra", "automata", "kernels", "history", "engine", "duck", "lake"},
    "spark": NOUNS | {"datafiles", "metrics", "algebra", "automata", "kernels", "history", "engine", "duck", "lake"},
    "client": NOUNS | {"history"},
    "actions": NOUNS | {"environment", "algebra", "history", "engine", "local"},
    "detectors": NOUNS | {"environment", "datafiles", "algebra", "history", "engine", "local"},
}
ALLOWED["api"] = set(ALLOWED)
ALLOWED["explain"] = NOUNS | {"api", "language", "algebra", "automata", "graphs", "engine"}
# What tries a program out: simulate, test, why.
ALLOWED["trying"] = set(ALLOWED) - {"analysis", "infer"}
ALLOWED["server"] = set(ALLOWED) | {"__init__"}  # the version that it says it is
ALLOWED["__init__"] = NOUNS | {"api"}
# What the command line is made of, by theme.
VERBS = {
    *("cli_actions", "cli_asking", "cli_client", "cli_detectors", "cli_history", "cli_server"),
    *("cli_store", "cli_triggers", "cli_trying", "cli_test", "cli_warm"),
}
ALLOWED |= {verbs: set(ALLOWED) for verbs in VERBS}
ALLOWED |= {
    verbs: ALLOWED[verbs] | {"cli_asking"} for verbs in ("cli_client", "cli_triggers", "cli_detectors", "cli_actions")
}
ALLOWED |= {
    verbs: ALLOWED[verbs] | {"cli_detectors"} for verbs in ("cli_server", "cli_actions")
}  # all go on, and are asked
ALLOWED["cli"] = set(ALLOWED)
ALLOWED["__main__"] = {"cli"}

# Packages with one home.
HOMES: dict[str, set[str]] = {
    "pyspark": {"spark"},
    "py4j": {"spark"},
    "lark": {"language"},
    "typer": {"cli", *VERBS},
    "rich": {"cli", "local", "trying", *VERBS},
    "sqlalchemy": {"local"},
    "psycopg": {"local"},
    "aiohttp": {"environment", "server"},
    "fastapi": {"server"},
    "starlette": {"server"},
    "pydantic": {"server"},
    "uvicorn": {"server"},
    "uvloop": {"server"},
    "prometheus_client": {"metrics", "server", "spark"},
    "lxml": {"detectors", "analysis"},
    "yaml": {"trying"},
    "nats": {"actions", "detectors"},
    "paho": {"actions", "detectors"},
    "confluent_kafka": {"actions", "detectors"},
}

# The core is a function of its arguments: files, clocks, chance, processes and the network live at the rim.
CORE = NOUNS | {"language", "analysis", "algebra", "automata", "kernels", "history"}
RIM_MODULES = {
    *("os", "io", "pathlib", "shutil", "tempfile", "glob", "sqlite3", "subprocess"),
    *("time", "sched", "random", "secrets", "uuid"),
    *("multiprocessing", "concurrent", "asyncio"),
    *("socket", "ssl", "http", "urllib", "requests", "aiohttp"),
}
RIM_CALLS = {"open", "input", "print"}
CLOCK_READINGS = {(noun, verb) for noun in ("datetime", "date") for verb in ("now", "utcnow", "today")}

LINES_AT_MOST = 500
EMPTY_NAMES = {"utils", "util", "common", "helpers", "helper", "misc"}

# Folders that implement `engine.ports`. Rules about time stand in engine/ and below it, once for all engines.
PORT_FOLDERS = {"duck", "lake", "local", "spark"}
TIMES = {
    *("occ_time", "det_time", "occTime", "detTime", "source_time", "expiry", "expiries", "lifespan", "lifespan_us"),
    *("tick", "tick_us", "last_tick", "next_tick", "next_due", "due", "chronon", "chronon_us", "retain_us"),
    *("now", "now_us", "until", "until_us", "moment", "watermark", "known_at", "known_at_us", "as_of", "as_of_us"),
}
COMPARING_CALLS = {
    *("min", "max", "minimum", "maximum", "min_max", "argmin", "argmax", "least", "greatest", "searchsorted"),
    *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "between"),
}
PRIMITIVES = {
    *("ANNOUNCEMENT", "CHANGE", "CANCELLATION", "RETROACTIVECHANGE", "POSTPONE", "REVOCATION"),
    *("FUTURE", "ONTIME", "LATE", "FIRED"),
}
PRIMITIVE_HOMES = ("augury.algebra.scalar.Timing", "augury.kernels.bitemporal.primitives")

# Where they compare times all the same, by function, and why that is no rule about events.
TIMES_COMPARED = {
    "local/running.py: LocalEngine.ticks_to": "a clock that went back is reported; the tick itself never sees it",
    "local/running.py: LocalEngine._ticks": "whether the engine stands where a tick left it: a name, not an order",
    "local/running.py: LocalEngine._kept_at_last": "whether the tick in the store is this one: a name, not an order",
    "local/applying.py: _is_at_boundary": "whether the clock says that a chronon is over, so that its tick is due",
    "local/posts.py: Posts._timed": "a mark that stands for no time at all",
    "local/store/memory.py: MemoryStore.commit": "ticks are committed once and in order",
    "local/store/memory.py: MemoryStore.read_after": "the part of the log that recovery asks for",
    "local/store/memory.py: MemoryStore.history": "SET HISTORY RETAIN, where the history is kept",
    "local/store/reading.py: SqlReader.history": "SET HISTORY RETAIN, where the history is kept",
    "local/store/reading.py: SqlReader.snapshots": "a snapshot is found by its tick",
    "local/store/reading.py: SqlReader._read_by_tick": "the part of the log that recovery asks for",
    "local/store/pages.py: PagedReader.tick_counts": "the part of the log that was not counted yet",
    "local/store/reading.py: last_tick": "the end of the log",
    "local/store/reading.py: first_after": "a place in the log",
    "local/store/sql.py: SqlStore._refuse_committed": "ticks are committed once and in order",
    "local/store/sql.py: SqlStore._forget": "SET HISTORY RETAIN, where the history is kept",
    "local/store/sql.py: _keep": "a snapshot is found by its tick",
}

TIMES_COMPARED |= {
    "local/store/lake_outbox.py: LakeOutbox._rows": "the part of the log of a lake that was not taken over yet",
    "local/store/outbox.py: _is_first": "actions of one version: a name, not an order",
    "local/store/outbox.py: _same_event": "actions of one version: a name, not an order",
    "spark/announcing.py: announced": "the rule of engine.changes as Spark expressions, left out where nobody asks",
    "spark/changing.py: go_on": "the earliest of what slots say is due",
    "spark/histories.py: detect_in_history": "how far the history goes, and how far who asks wants to",
    "spark/keeping.py: Keeper._manifest": "the earliest of what slots say is due",
    "spark/keeping.py: Keeper.next_due": "the earliest of what slots say is due, and of what waits",
    "spark/keeping.py: Keeper.settle": "how far it has gone: the clock never goes back",
    "spark/keeping.py: require_chronon": "whether the lake is of this program",
    "spark/slots.py: Run._kept": "when the first of what waits was detected, for whoever wakes the slot",
    "spark/watch.py: Watch._until": "how far the clock has gone, which never goes back",
    "spark/watch.py: Watch.advance": "whether anything is due, so that an idle tick starts no job",
    "spark/detect.py: _stored": "what is detected at until or later is not read, as history.typed has it",
    "spark/sure.py: surely": "what is detected at until or later is not read, as history.typed has it",
    "lake/shown.py: LakeHistory._is_retained": "SET HISTORY RETAIN, where the history is kept",
    "lake/writer.py: Writer._require_next": "commits are made in the order of ticks",
}

# Folders whose runs a seed can give again: what they need of the world they take from an `Environment`.
IN_A_WORLD = {"local", "server", "trying", "actions", "detectors", "files", "datafiles", "cli_trying", "cli_test"}
WORLDLY_MODULES = {"time", "sched", "random", "secrets", "uuid"}
WAITING_CALLS = {("asyncio", "sleep"), ("time", "sleep")}

# Who reaches past it all the same, and why that does not decide what a run does.
PAST_THE_WORLD = {
    "local/posts.py": "how long threads that post wait for each other, to share a write; one alone never waits",
    "local/ticking.py": "a stopwatch: how long the ticks of a replay took, which is only told",
    "local/store/sql.py": "a stopwatch, for who opens a store without an engine",
    "local/bar.py": "how often a bar is drawn",
    "server/tokens.py": "what is secret must not follow from a seed",
    "server/listening.py": "a real socket is waited for",
    "trying/suite_orders.py": "orders are drawn from a seed that is given",
    "actions/breaker.py": "a type: chance is given",
}

# Of these folders nothing reaches the network or the disk but through an `Environment`, either. What only takes texts
# apart reaches nothing.
BY_ITS_FILES = IN_A_WORLD - {"server"}
OUTSIDE_MODULES = {
    *("socket", "ssl", "smtplib", "ftplib", "http", "urllib", "aiohttp", "requests", "httpx", "websockets"),
    *("sqlalchemy", "sqlite3", "psycopg", "nats", "paho", "confluent_kafka"),
    *("os", "shutil", "tempfile", "glob", "fcntl", "mmap", "subprocess"),
}
HARMLESS_PARTS = (
    "urllib.parse",
    "http.HTTPStatus",
    "http.cookies",
    "os.path",
    "sqlalchemy.dialects",
    "sqlalchemy.types",
)
PATH_CALLS = {"read_text", "write_text", "read_bytes", "write_bytes", "iterdir", "mkdir", "unlink", "is_file", "is_dir"}

# Who does all the same, and why: a file, or a folder for all below it.
PAST_ITS_FILES = {
    "local/store": "databases are behind SQLAlchemy, with a lock beside; worlds have the store in memory",
    "local/inserting.py": "the database that actions are inserted into: SQLAlchemy holds the connection",
    "local/querying.py": "the database that a detector asks: SQLAlchemy holds the connection",
    "local/portions.py": "tasks of Spark read files by themselves, in no world, on whichever machine they run",
    "actions/mail.py": "smtplib holds the connection, in a thread of its own",
    "actions/kafka.py": "the client library holds its connections and threads",
    "actions/mqtt.py": "the client library holds its connection and thread",
    "actions/nats.py": "the client library holds its connection",
    "detectors/mqtt_topics.py": "the client library holds its connection and thread",
    "detectors/nats_stream.py": "the client library holds its connection",
    "trying/suite_engines.py": "Spark is another process, in no world: it is handed a file, which is then gone",
}

# `augury check` answers within a second, so it leaves these for the commands that run something.
SLOW_TO_IMPORT = {"numba", "duckdb", "pyarrow", "numpy", "pyspark", "sqlalchemy"}


@dataclass(frozen=True)
class Module:
    """One source file: its path below src/augury, and its text."""

    path: PurePosixPath
    text: str

    @property
    def unit(self) -> str:
        """The folder right below src/augury, or the top-level module: a row of ALLOWED."""
        return self.path.parts[0] if len(self.path.parts) > 1 else self.path.stem

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=str(self.path))


def modules_below(folder: Path) -> list[Module]:
    return [
        Module(PurePosixPath(path.relative_to(folder).as_posix()), path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.py"))
    ]


def imports_of(module: Module) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of everything imported, wherever in the file; relative names resolved."""
    package = ("augury", *module.path.parts[:-1])
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            origin = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            base = ".".join(part for part in (origin, node.module) if part)
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


def unit_imported(name: str) -> str:
    """The row of ALLOWED that a dotted name below `augury` belongs to; the package itself is `__init__`."""
    parts = name.split(".")
    known = len(parts) > 2 or (len(parts) == 2 and parts[1] in ALLOWED)
    return parts[1] if known else "__init__"


def against_direction(modules: list[Module]) -> list[str]:
    return [
        f"{module.path}:{line}: {module.unit} must not import {name}"
        for module in modules
        for line, name in imports_of(module)
        if name.split(".")[0] == "augury"
        if (target := unit_imported(name)) != module.unit
        if target not in ALLOWED.get(module.unit, set())
    ]


def without_row(modules: list[Module]) -> list[str]:
    return [f"{module.path}: {module.unit} has no row in ALLOWED" for module in modules if module.unit not in ALLOWED]


def away_from_home(modules: list[Module]) -> list[str]:
    return [
        f"{module.path}:{line}: only {sorted(HOMES[package])} may import {package}"
        for module in modules
        for line, name in imports_of(module)
        if (package := name.split(".")[0]) in HOMES and module.unit not in HOMES[package]
    ]


def impure_in_core(modules: list[Module]) -> list[str]:
    core = [module for module in modules if module.unit in CORE]
    imports = [
        f"{module.path}:{line}: the core must not import {name}"
        for module in core
        for line, name in imports_of(module)
        if name.split(".")[0] in RIM_MODULES
    ]
    calls = [
        f"{module.path}:{node.lineno}: the core must not call {ast.unparse(node.func)}()"
        for module in core
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and _reaches_out(node.func)
    ]
    return imports + calls


def _reaches_out(function: ast.expr) -> bool:
    match function:
        case ast.Name(id=name):
            return name in RIM_CALLS
        case ast.Attribute(value=ast.Name(id=noun) | ast.Attribute(attr=noun), attr=verb):
            return (noun, verb) in CLOCK_READINGS
        case _:
            return False


def past_the_world(modules: list[Module]) -> list[str]:
    """Clocks, chance and waiting that no environment gives; the exceptions left out."""
    return [
        f"{module.path}:{line}: {what} does not come from the environment"
        for module, line, what in _worldly(modules)
        if str(module.path) not in PAST_THE_WORLD
    ]


def _worldly(modules: list[Module]) -> Iterator[tuple[Module, int, str]]:
    for module in modules:
        if module.unit not in IN_A_WORLD:
            continue
        for line, name in imports_of(module):
            if name.split(".")[0] in WORLDLY_MODULES:
                yield module, line, name
        for node in ast.walk(module.tree):
            match node:
                case ast.Call(func=ast.Attribute(attr="acquire"), keywords=[ast.keyword(arg="timeout"), *_]):
                    yield module, node.lineno, "a lock with a time-out"
                case ast.Call(func=ast.Attribute(value=ast.Name(id=noun) | ast.Attribute(attr=noun), attr=verb)):
                    if (noun, verb) in CLOCK_READINGS | WAITING_CALLS:
                        yield module, node.lineno, f"{noun}.{verb}"
                case _:
                    pass


def past_its_files(modules: list[Module]) -> list[str]:
    """Networks, databases and files that no environment gives; the exceptions left out."""
    return [
        f"{module.path}:{line}: {what} does not come from the environment"
        for module, line, what in _outside(modules)
        if not _excepted(module)
    ]


def _excepted(module: Module) -> str | None:
    """The exception that a module is, or is below."""
    names = (str(module.path), *map(str, module.path.parents))
    return next((name for name in names if name in PAST_ITS_FILES), None)


def _outside(modules: list[Module]) -> Iterator[tuple[Module, int, str]]:
    for module in modules:
        if module.unit not in BY_ITS_FILES:
            continue
        for line, name in imports_of(module):
            if name.split(".")[0] in OUTSIDE_MODULES and not name.startswith(HARMLESS_PARTS):
                yield module, line, name
        for node in ast.walk(module.tree):
            match node:
                case ast.Call(func=ast.Name(id="open" | "FileIO" as called) | ast.Attribute(attr="FileIO" as called)):
                    yield module, node.lineno, called
                case ast.Attribute(value=ast.Name(id="sys"), attr="stdin"):
                    yield module, node.lineno, "sys.stdin"
                case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="Path")), attr="open")):
                    yield module, node.lineno, "Path.open"
                case ast.Call(func=ast.Attribute(attr=verb)) if verb in PATH_CALLS:
                    yield module, node.lineno, verb
                case _:
                    pass


def too_long(modules: list[Module]) -> list[str]:
    lengths = ((module, len(module.text.splitlines())) for module in modules)
    return [f"{module.path}: {lines} lines" for module, lines in lengths if lines > LINES_AT_MOST]


def empty_names(modules: list[Module]) -> list[str]:
    return [
        f"{module.path}: the name says nothing"
        for module in modules
        if EMPTY_NAMES & {*module.path.parts[:-1], module.path.stem}
    ]


def without_docstring(modules: list[Module]) -> list[str]:
    return [
        f"{module.path}:{line}: {name} has no docstring"
        for module in modules
        for line, name, node in _public_things(module)
        if not ast.get_docstring(node)
    ]


def _public_things(
    module: Module,
) -> Iterator[tuple[int, str, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    tree = module.tree
    yield 1, "the module", tree
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
            yield node.lineno, node.name, node


def rules_about_time(modules: list[Module]) -> list[str]:
    """Comparisons of times, and timing primitives, in folders that implement ports; the exceptions left out."""
    compared = [
        f"{module.path}:{node.lineno}: {function} compares times: {ast.unparse(node)}"
        for module, function, node in _time_comparisons(modules)
        if f"{module.path}: {function}" not in TIMES_COMPARED
    ]
    own = [module for module in modules if module.unit in PORT_FOLDERS]
    named = [
        f"{module.path}:{line}: {name} is about timing primitives"
        for module in own
        for line, name in imports_of(module)
        if name.startswith(PRIMITIVE_HOMES)
    ]
    named += [
        f"{module.path}:{node.lineno}: {node.value} is a timing primitive"
        for module in own
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.upper() in PRIMITIVES
        if node.value.isupper()
    ]
    return compared + named


def _time_comparisons(modules: list[Module]) -> Iterator[tuple[Module, str, ast.expr]]:
    for module in modules:
        if module.unit in PORT_FOLDERS:
            for function, node in _with_functions(module.tree, "the module"):
                if isinstance(node, ast.expr) and any(map(_is_time, _compared(node))):
                    yield module, function, node


def _with_functions(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    """Every node below, with the outermost function or method around it."""
    for child in ast.iter_child_nodes(node):
        name = function
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            outer = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            name = function if outer else child.name if function == "the module" else f"{function}.{child.name}"
        yield name, child
        yield from _with_functions(child, name)


def _compared(node: ast.expr) -> list[ast.expr]:
    """The operands of a comparison, or of a call that compares; `is` and `in` ask for no order."""
    match node:
        case ast.Compare() if any(not isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops):
            return [node.left, *node.comparators]
        case ast.Call(func=function) if COMPARING_CALLS & set(_chain(function)):
            receiver = [function.value] if isinstance(function, ast.Attribute) else []
            return [*receiver, *node.args, *(k.value for k in node.keywords if k.arg != "key")]
        case _:
            return []


def _chain(function: ast.expr) -> list[str]:
    match function:
        case ast.Name(id=name):
            return [name]
        case ast.Attribute(value=value, attr=name):
            return [*_chain(value), name]
        case _:
            return []


def _is_time(operand: ast.expr) -> bool:
    """Whether an operand is a time or made of one: by its name, or the name of the column it comes from."""
    match operand:
        case ast.Name(id=name) | ast.Attribute(attr=name) if name.lstrip("_") in TIMES:
            return True
        case ast.Attribute(value=inner):
            return _is_time(inner)
        case ast.Subscript(value=inner, slice=ast.Constant(value=name)):
            return name in TIMES or _is_time(inner)
        case ast.Subscript(value=inner):
            return _is_time(inner)
        case ast.Call(func=ast.Name(id="len" | "show_time" | "str" | "repr" | "checksum_of")):
            return False
        case ast.Call(func=function, args=arguments):
            named = any(isinstance(a, ast.Constant) and a.value in TIMES for a in arguments)
            return named or bool(TIMES & set(_chain(function))) or any(map(_is_time, [function, *arguments]))
        case ast.BinOp(left=left, right=right):
            return _is_time(left) or _is_time(right)
        case ast.UnaryOp(operand=inner) | ast.Starred(value=inner):
            return _is_time(inner)
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.BoolOp(values=parts):
            return any(map(_is_time, parts))
        case ast.GeneratorExp(elt=inner) | ast.ListComp(elt=inner):
            return _is_time(inner)
        case ast.IfExp(body=one, orelse=other):
            return _is_time(one) or _is_time(other)
        case _:
            return False


RULES = [
    without_row,
    against_direction,
    away_from_home,
    impure_in_core,
    past_the_world,
    past_its_files,
    too_long,
    empty_names,
    without_docstring,
    rules_about_time,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_source_keeps(rule):
    modules = modules_below(SOURCE)
    assert modules
    assert rule(modules) == []


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (without_row, "gadgets.py", ""),
        (without_row, "gadgets/wheel.py", ""),
        (against_direction, "algebra/rule.py", "from augury.language import syntax"),
        (against_direction, "algebra/rule.py", "import augury.analysis.names"),
        (against_direction, "algebra/rule.py", "from augury import language"),
        (against_direction, "algebra/rule.py", "from ..language.syntax import Program"),
        (against_direction, "algebra/rule.py", "from .. import language"),
        (against_direction, "algebra/__init__.py", "from ..language import syntax"),
        (
            against_direction,
            "algebra/rule.py",
            "if TYPE_CHECKING:\n    from augury.language.syntax import Program",
        ),
        (against_direction, "algebra/rule.py", "def late():\n    import augury.language.parser"),
        (against_direction, "kernels/graph/recent.py", "from ...analysis import lower"),
        (against_direction, "kernels/reference.py", "from augury.language import syntax"),
        (against_direction, "api.py", "from augury.cli import main"),
        (against_direction, "clock.py", "from augury.event import Version"),
        (against_direction, "language/parser.py", "from augury import compile"),
        (against_direction, "gadgets.py", "from augury.clock import Moment"),
        (away_from_home, "engine/tick.py", "from pyspark.sql import DataFrame"),
        (away_from_home, "api.py", "def late():\n    import pyspark"),
        (away_from_home, "analysis/names.py", "from lark import Token"),
        (impure_in_core, "clock.py", "import time"),
        (impure_in_core, "clock.py", "from time import monotonic"),
        (impure_in_core, "clock.py", "now = datetime.now(UTC)"),
        (impure_in_core, "clock.py", "now = datetime.datetime.now()"),
        (impure_in_core, "event.py", "def today():\n    return date.today()"),
        (impure_in_core, "language/parser.py", "from pathlib import Path"),
        (impure_in_core, "language/parser.py", "text = open('card.bicepl').read()"),
        (impure_in_core, "kernels/reference.py", "import urllib.request"),
        (past_the_world, "local/live.py", "import time"),
        (past_the_world, "local/live.py", "from uuid import uuid4"),
        (past_the_world, "server/live.py", "async def wait():\n    await asyncio.sleep(1)"),
        (past_the_world, "detectors/live.py", "now = datetime.datetime.now()"),
        (past_the_world, "actions/live.py", "lock.acquire(timeout=1)"),
        (past_its_files, "actions/live.py", "import smtplib"),
        (past_its_files, "detectors/live.py", "def late():\n    from nats.aio.client import Client"),
        (past_its_files, "local/live.py", "from sqlalchemy import text"),
        (past_its_files, "trying/live.py", "import urllib.request"),
        (past_its_files, "trying/live.py", "text = open('card.bicepl').read()"),
        (past_its_files, "detectors/live.py", "text = Path('card.bicepl').read_text()"),
        (past_its_files, "detectors/live.py", "file.write_bytes(b'')"),
        (past_its_files, "local/live.py", "with Path(path).open('w') as stream: pass"),
        (past_its_files, "datafiles.py", "stream = io.FileIO(path)"),
        (past_its_files, "cli_trying.py", "text = sys.stdin.read()"),
        (past_its_files, "files.py", "from os import replace"),
        (past_the_world, "cli_test.py", "from time import perf_counter"),
        (too_long, "clock.py", "x = 1\n" * (LINES_AT_MOST + 1)),
        (empty_names, "utils.py", ""),
        (empty_names, "language/helpers.py", ""),
        (empty_names, "common/clock.py", ""),
        (without_docstring, "clock.py", "x = 1"),
        (without_docstring, "clock.py", "'''Doc.'''\ndef tick(): ..."),
        (without_docstring, "clock.py", "'''Doc.'''\nasync def tick(): ..."),
        (without_docstring, "clock.py", "'''Doc.'''\nclass Tick: ..."),
        (rules_about_time, "local/live.py", "late = version.occ_time < tick"),
        (rules_about_time, "local/live.py", "late = version.occ_time + lifespan_us < other"),
        (rules_about_time, "local/live.py", "def decide(new, t):\n    return t <= new.occ_time < t + c"),
        (rules_about_time, "local/live.py", "if now == other: pass"),
        (rules_about_time, "duck/select.py", "gone = expiries[old] < x"),
        (rules_about_time, "duck/select.py", "late = table['occ_time'].cast(pa.int64()) < x"),
        (rules_about_time, "duck/select.py", "last = max(one.det_time for one in versions)"),
        (rules_about_time, "duck/select.py", "np.maximum.at(expiries, rows, each)"),
        (rules_about_time, "duck/select.py", "rows.filter(pc.less(x, until_us))"),
        (rules_about_time, "local/store/rows.py", "old = tables.column('det_time') < before"),
        (rules_about_time, "spark/stream.py", "rows.where(f.col('occ_time') < f.lit(x))"),
        (rules_about_time, "spark/stream.py", "rows.where(f.col('occ_time').between(x, y))"),
        (rules_about_time, "spark/stream.py", "from augury.algebra.scalar import TimingPrimitive"),
        (rules_about_time, "spark/stream.py", "from augury.kernels.bitemporal.primitives import holds"),
        (rules_about_time, "spark/stream.py", "import augury.kernels.bitemporal.primitives"),
        (rules_about_time, "spark/stream.py", "if primitive is x['ONTIME']: pass"),
    ],
)
def test_a_rule_complains(rule, path, text):
    assert len(rule([Module(PurePosixPath(path), text)])) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("analysis/lower.py", "from augury.language import syntax\nfrom augury.algebra.rule import Rule"),
        ("kernels/graph/recent.py", "from ..reference import step\nfrom augury.event import Version"),
        (
            "language/parser.py",
            "import re\nfrom lark import Lark\nfrom . import syntax\nfrom .syntax import Program",
        ),
        ("clock.py", "from datetime import datetime\ndef _at(us): return datetime.fromtimestamp(us, UTC)"),
        ("cli.py", "import time, typer\nfrom augury import __version__, api\nprint(open(__file__).read())"),
        ("spark/stream.py", "from pyspark.sql import DataFrame\nfrom augury.engine.tick import tick"),
        ("engine/tick.py", "late = version.occ_time < tick"),
        ("server/live.py", "async def _wait(world):\n    await world.sleep(world.random.random() * world.monotonic())"),
        ("detectors/live.py", "from urllib.parse import urlsplit\ncontent = world.files.read('in/A.jsonl')"),
        ("local/store/live.py", "import sqlalchemy as sa"),
        ("local/running.py", "if tick is None or name == 'det_time' or len(det_time) > 1: pass"),
        (
            "local/store/tables.py",
            "from augury.history.versions import ANNOUNCE, CHANGE\nx = words[CHANGE] == 'change'",
        ),
    ],
)
def test_the_rules_let_pass(path, text):
    module = Module(PurePosixPath(path), f'"""Doc."""\n{text}\n')
    assert [complaint for rule in RULES for complaint in rule([module])] == []


def test_every_exception_for_times_is_needed():
    found = {f"{module.path}: {function}" for module, function, _ in _time_comparisons(modules_below(SOURCE))}
    assert sorted(TIMES_COMPARED.keys() - found) == []
    assert all(TIMES_COMPARED.values())


def test_every_exception_for_the_world_is_needed():
    found = {str(module.path) for module, _, _ in _worldly(modules_below(SOURCE))}
    assert sorted(PAST_THE_WORLD.keys() - found) == []
    assert all(PAST_THE_WORLD.values())


def test_every_exception_for_files_is_needed():
    found = {_excepted(module) for module, _, _ in _outside(modules_below(SOURCE))}
    assert sorted(PAST_ITS_FILES.keys() - found) == []
    assert all(PAST_ITS_FILES.values())


def reached_from(unit: str) -> set[str]:
    """Everything that `unit` may come to know, over any number of imports."""
    reached: set[str] = set()
    waiting = [unit]
    while waiting:
        for target in ALLOWED[waiting.pop()] - reached:
            reached.add(target)
            waiting.append(target)
    return reached


def test_the_table_has_no_cycle():
    assert [unit for unit in ALLOWED if unit in reached_from(unit)] == []


def test_meaning_and_kernels_do_not_know_the_text():
    for unit in ("algebra", "automata", "kernels", "history", "engine", "local", "spark"):
        assert not reached_from(unit) & {"language", "analysis"}


def test_nothing_imports_the_command_line():
    assert [unit for unit, targets in ALLOWED.items() if "cli" in targets] == ["__main__"]


def slow_modules_loaded_by(statements: str) -> set[str]:
    """Which of SLOW_TO_IMPORT a fresh interpreter holds after running the statements; they must succeed."""
    script = (
        "import sys\n"
        "try:\n" + "".join(f"    {line}\n" for line in statements.splitlines()) + "except SystemExit as stop:\n"
        "    if stop.code: raise\n"
        f"print('loaded:', *(sys.modules.keys() & {SLOW_TO_IMPORT!r}))\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    last = run.stdout.splitlines()[-1]
    assert last.startswith("loaded:")
    return set(last.split()[1:])


def test_a_slow_import_is_noticed():
    assert slow_modules_loaded_by("import numpy") == {"numpy"}


def test_the_library_imports_nothing_slow_before_it_is_asked_for_an_engine():
    assert slow_modules_loaded_by("import augury") == set()
    assert "pyarrow" in slow_modules_loaded_by("import augury\naugury.LocalEngine")


def test_check_imports_nothing_slow(tmp_path):
    program = tmp_path / "low.bicepl"
    program.write_text(
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS ResourceLow (resource VARCHAR(30), amountLeft NUMERIC)\n"
        "  ID (resource) LIFESPAN (5d);\n",
        encoding="utf-8",
    )
    statements = f"from augury.cli import main\nsys.argv = ['augury', 'check', {str(program)!r}]\nmain()"
    assert slow_modules_loaded_by(statements) == set()

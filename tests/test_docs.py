"""The pages tested: every example in docs/ and README.md is run; links, anchors and files they name are looked up.

The tag of a fenced block says what it holds and what has to come of it:

    bicepl                 a program, which checks without errors and without warnings
    bicepl warns=W301      … with these warnings and no others (several are separated by commas)
    bicepl fails=E305      … with this error and no others
    bicepl prelude         … which also goes before all later programs of its `##` section
    bicepl file=a.bicepl   … which the console blocks below it find under that name, without the prelude; jsonl, too
    match, composite, scalar   one expression a line
    jsonl                  one JSON object a line
    console                commands after `$ ` and all that they print; see `Shell` for what can be run
    python                 statements that raise nothing
    python spark           … with a session `spark` and an empty `folder`, run by `tests/spark/test_pages.py`
    python served, console served   … with a server at `url` and its `token`, run by `tests/server/test_client_page.py`

A prelude that is not to be shown is a comment, `<!-- prelude: … -->`. Other tags are in UNTESTED_TAGS.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import re
import shlex
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from urllib.parse import unquote

import pytest
from typer.testing import CliRunner

from augury.algebra.composite import Context
from augury.algebra.expression import Choice
from augury.algebra.scalar import TimingPrimitive
from augury.api import check
from augury.cli import app
from augury.diagnostics import Findings, Severity
from augury.language import syntax
from augury.language.lexer import CONTEXTUAL, RESERVED
from augury.language.parser import parse, parse_composite, parse_match, parse_scalar
from augury.types import TYPE_NAMES

ROOT = Path(__file__).parents[1]
UNTESTED_TAGS = {"", "text", "sh", "json", "sql", "java", "toml", "mermaid"}
PATH_PREFIXES = ("src/", "docs/", "examples/", "tests/", "benchmarks/", "deploy/")
EXPRESSIONS: dict[str, Callable[[str, Findings], object]] = {
    "match": parse_match,
    "composite": parse_composite,
    "scalar": parse_scalar,
}


# ---- a page as blocks and prose ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    """A fenced block, or a prelude in a comment: its first line in the page, its tag and options, its text."""

    line: int
    tag: str
    options: tuple[str, ...]
    text: str
    prelude: str = ""
    closed: bool = True

    def option(self, name: str) -> str | None:
        """The value of `name=value`."""
        return next((o.partition("=")[2] for o in self.options if o.startswith(name + "=")), None)


@dataclass(frozen=True)
class Page:
    """A Markdown file: where it stands below the root of the repository, its blocks, and its text without them."""

    path: Path
    blocks: tuple[Block, ...]
    prose: tuple[tuple[int, str], ...]


_FENCE = re.compile(r"( *)(`{3,})([^`]*)")
_HEADING = re.compile(r"(#{1,6}) +(.*?) *#*")


def read_page(path: Path, text: str) -> Page:
    """Cut a page into blocks and prose; every program gets the preludes that stand above it in its section."""
    blocks: list[Block] = []
    prose: list[tuple[int, str]] = []
    prelude = ""
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        fence = _FENCE.fullmatch(line)
        if fence or line.startswith("<!-- prelude:"):
            words = fence[3].split() if fence else ["bicepl", "prelude"]
            body, closed = _body(lines, fence[2] if fence else "-->", len(fence[1]) if fence else 0)
            tag, *options = words or [""]
            block = Block(number, tag, tuple(options), body, prelude if tag == "bicepl" else "", closed)
            blocks.append(block)
            prelude += body if "prelude" in options else ""
            continue
        heading = _HEADING.fullmatch(line)
        if heading and len(heading[1]) <= 2:
            prelude = ""
        prose.append((number, line))
    return Page(path, tuple(blocks), tuple(prose))


def _body(lines: Iterator[tuple[int, str]], end: str, indent: int) -> tuple[str, bool]:
    body = ""
    for _, line in lines:
        if line.strip() == end:
            return body, True
        body += line[min(indent, len(line) - len(line.lstrip())) :] + "\n"
    return body, False


def pages() -> list[Page]:
    """The pages under docs/, and README.md where there is one."""
    found = [*sorted(ROOT.glob("docs/**/*.md")), *ROOT.glob("README.md")]
    return [read_page(path.relative_to(ROOT), path.read_text("utf-8")) for path in found]


# ---- blocks ------------------------------------------------------------------------------------------------


def complaints_about(block: Block) -> list[str]:
    """What is wrong with a block, apart from what running it shows."""
    if not block.closed:
        return ["the block is never closed"]
    match block.tag:
        case "bicepl":
            return _about_program(block)
        case "match" | "composite" | "scalar":
            return _about_expressions(block)
        case "jsonl":
            return [problem for line in block.text.splitlines() if (problem := _about_json(line))]
        case "console":
            return [] if block.text.startswith("$ ") else ["a console block starts with a command"]
        case "python":
            return []  # run with the console blocks, in their order
        case tag:
            return [] if tag in UNTESTED_TAGS else [f"nothing is known of blocks tagged `{tag}`"]


def _about_program(block: Block) -> list[str]:
    unknown = [o for o in block.options if o != "prelude" and o.partition("=")[0] not in ("warns", "fails", "file")]
    if unknown:
        return [f"nothing is known of `{unknown[0]}`"]
    checked = check(block.prelude + block.text, "example")
    wanted = {code for name in ("warns", "fails") for code in (block.option(name) or "").split(",") if code}
    found = {diagnostic.code for diagnostic in checked.diagnostics}
    failed = any(diagnostic.severity is Severity.ERROR for diagnostic in checked.diagnostics)
    if found == wanted and failed == (block.option("fails") is not None):
        return []
    return [f"wanted {sorted(wanted) or 'nothing'}, found {sorted(found) or 'nothing'}\n{checked.rendered()}"]


def _about_expressions(block: Block) -> list[str]:
    complaints = []
    for line in block.text.splitlines():
        findings = Findings()
        EXPRESSIONS[block.tag](line, findings)
        complaints += [f"`{line}`: {diagnostic.message}" for diagnostic in findings.sorted()]
    return complaints


def _about_json(line: str) -> str | None:
    try:
        value = json.loads(line)
    except ValueError as error:
        return f"`{line}`: {error}"
    return None if isinstance(value, dict) else f"`{line}` is not an object"


class Shell:
    """What a console block can run: `augury …`, also with `> file` behind it, `cat file` and `echo $?`."""

    def __init__(self) -> None:
        """Start with nothing run."""
        self.runner = CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80", "NO_COLOR": "1"})
        self.exit_code = 0

    def run(self, command: str) -> str:
        """What a command prints, on standard output and standard error together."""
        match shlex.split(command):
            case ["echo", "$?"]:
                return f"{self.exit_code}\n"
            case ["cat", name]:
                return Path(name).read_text("utf-8")
            case ["augury", *arguments, ">", name]:
                result = self.runner.invoke(app, arguments, prog_name="augury")
                Path(name).write_text(result.stdout, "utf-8")
                printed = result.stderr
            case ["augury", *arguments]:
                result = self.runner.invoke(app, arguments, prog_name="augury")
                printed = result.output
            case _:
                return "(this command cannot be run by tests/test_docs.py: show it in a block tagged sh)\n"
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        self.exit_code = result.exit_code
        return printed


def console_complaints(page: Page, folder: Path) -> list[str]:
    """Run the blocks of a page in order, in a folder that looks to them like the root of the repository."""
    shutil.copytree(ROOT / "examples", folder / "examples")  # a copy, for `fmt --write` may stand on a page
    shell = Shell()
    complaints = []
    with contextlib.chdir(folder):
        for block in page.blocks:
            if name := block.option("file"):
                Path(name).write_text(block.text, "utf-8")
            if {"spark", "served"} & set(block.options):
                continue
            if block.tag == "python" and (problem := _raised(block)):
                complaints.append(f"{page.path}:{block.line}: {problem}")
            complaints += shown_complaints(page, block, shell)
    return complaints


def shown_complaints(page: Page, block: Block, shell: Shell) -> list[str]:
    """Run the commands of a console block, and compare what they print."""
    complaints = []
    for command, shown in _commands(block) if block.tag == "console" else ():
        printed = shell.run(command)
        if printed.rstrip("\n") != shown.rstrip("\n"):
            complaints.append(f"{page.path}:{block.line}: `{command}` prints\n{printed}\nand not\n{shown}")
    return complaints


def _raised(block: Block) -> str | None:
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # short examples leave files to be closed for them
            exec(compile(block.text, "example", "exec"), {})
    except Exception as error:
        return f"raises {error!r}"
    return None


def _commands(block: Block) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


# ---- links and names ---------------------------------------------------------------------------------------------

_CODE = re.compile(r"(`+)(.+?)\1")
_LINK = re.compile(r"\[[^\]]*\]\(<?([^)\s>]+)>?(?: +\"[^\"]*\")?\)|^\[[^\]]+\]: +(\S+)")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def anchors(page: Page) -> set[str]:
    """What can stand after `#` in a link to a page: its headings as GitHub names them, and anchors of its own."""
    found: Counter[str] = Counter()
    named: set[str] = set()
    for _, line in page.prose:
        named |= set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", line))
        if heading := _HEADING.fullmatch(line):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[2])
            slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
            named.add(f"{slug}-{found[slug]}" if found[slug] else slug)
            found[slug] += 1
    return named


def link_complaints(page: Page, root: Path) -> list[str]:
    """The links of a page that lead nowhere; those to other sites are not followed."""
    complaints = []
    for number, line in page.prose:
        for inline, reference in _LINK.findall(_CODE.sub("", line)):
            target = inline or reference
            if _SCHEME.match(target):
                continue
            name, _, anchor = unquote(target).partition("#")
            path = (root / page.path).parent / name if name else root / page.path
            if not path.exists():
                complaints.append(f"{page.path}:{number}: there is no {target}")
            elif anchor and anchor not in anchors(read_page(Path(name), path.read_text("utf-8"))):
                complaints.append(f"{page.path}:{number}: {name or 'the page'} has no heading for #{anchor}")
    return complaints


def mention_complaints(page: Page, root: Path) -> list[str]:
    """The files that a page names between backquotes and that are not there; `*` stands for anything."""
    spans = ((number, span[1]) for number, line in page.prose for span in _CODE.findall(line))
    words = ((number, word.rstrip(".,;:")) for number, span in spans for word in span.split())
    return [
        f"{page.path}:{number}: there is no {word}"
        for number, word in words
        if word.startswith(PATH_PREFIXES) and not re.search(r"[<>{}…]", word)
        if not any(root.glob(re.sub(r":\d+\Z", "", word).rstrip("/")))
    ]


# ---- the pages -------------------------------------------------------------------------------------------------

PAGES = pages()
BLOCKS = [(page, block) for page in PAGES for block in page.blocks]
RUN = [page for page in PAGES if any(block.tag in ("console", "python") for block in page.blocks)]


@pytest.mark.parametrize("block", [b for _, b in BLOCKS], ids=[f"{p.path}:{b.line}" for p, b in BLOCKS])
def test_an_example_holds(block: Block) -> None:
    assert complaints_about(block) == []


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.path))
def test_a_console_shows_what_is_printed(page: Page, tmp_path: Path) -> None:
    assert console_complaints(page, tmp_path) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.path))
def test_a_page_leads_somewhere(page: Page) -> None:
    assert link_complaints(page, ROOT) == []
    assert mention_complaints(page, ROOT) == []


# ---- the reference is complete -----------------------------------------------------------------------------------


def reference() -> Page:
    """docs/language.md."""
    return next(page for page in PAGES if page.path == Path("docs/language.md"))


@pytest.mark.parametrize(("name", "words"), [("RESERVED", RESERVED), ("CONTEXTUAL", CONTEXTUAL)])
def test_the_reference_lists_the_keywords(name: str, words: frozenset[str]) -> None:
    page = reference()
    marker = next(number for number, line in page.prose if line == f"<!-- words: {name} -->")
    listed = next(block for block in page.blocks if block.line > marker).text.split()
    assert sorted(listed) == sorted(words)


@pytest.mark.parametrize("words", [TYPE_NAMES, tuple(TimingPrimitive), tuple(Context), tuple(Choice)], ids=str)
def test_the_reference_names_every_word(words: tuple[str, ...]) -> None:
    text = "\n".join(line for _, line in reference().prose)
    assert [word for word in words if not re.search(rf"\b{word}\b", text)] == []


def test_the_reference_shows_every_construct() -> None:
    shown = {part for block in reference().blocks for part in _parts(_read(block))}
    nodes = {node for node in vars(syntax).values() if isinstance(node, type) and dataclasses.is_dataclass(node)}
    operators = {*syntax.MatchOperator, *syntax.CompositeOperator}
    assert {str(missing) for missing in (nodes | operators) - shown} == set()


def _read(block: Block) -> object:
    match block.tag:
        case "bicepl":
            parsed = parse(block.text, Findings())
            return [parsed.program, parsed.comments]
        case "match" | "composite" | "scalar":
            return [EXPRESSIONS[block.tag](line, Findings()) for line in block.text.splitlines()]
        case _:
            return None


def _parts(value: object) -> Iterator[object]:
    """The types of all nodes, and all operators, in a tree of syntax."""
    if isinstance(value, Enum):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _parts(item)
    elif dataclasses.is_dataclass(value):
        yield type(value)
        for field in dataclasses.fields(value):
            yield from _parts(getattr(value, field.name))


# ---- every check can fail ------------------------------------------------------------------------------------------

CLASS_A = "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID () LIFESPAN (1d);\n"
UNUSED = "CREATE COMPLEX EVENT CLASS B () ID () AS MATCH EXISTS q A;\n"


def one_block(tag: str, text: str, prelude: str = "") -> Block:
    return dataclasses.replace(read_page(Path("a.md"), f"```{tag}\n{text}\n```\n").blocks[0], prelude=prelude)


@pytest.mark.parametrize(
    ("tag", "text"),
    [
        ("bicepl", "SET CHRONON;"),
        ("bicepl", CLASS_A + UNUSED),
        ("bicepl warns=W301", CLASS_A + UNUSED),
        ("bicepl warns=W303", CLASS_A),
        ("bicepl warns=W303", UNUSED),
        ("bicepl fails=W303", CLASS_A + UNUSED),
        ("bicepl fails=E200", CLASS_A),
        ("bicepl fails=E200", CLASS_A + CLASS_A),
        ("bicepl fails", "SET CHRONON;"),
        ("match", "prior(A, B)\nprior(A,"),
        ("match", "A > B"),
        ("composite", "<1> A"),
        ("scalar", "a +"),
        ("jsonl", '{"event": "A"}\n{"event": }'),
        ("jsonl", "[1, 2]"),
        ("console", "augury check a.bicepl"),
        ("bicelp", CLASS_A),
    ],
)
def test_a_block_is_refused(tag: str, text: str) -> None:
    assert len(complaints_about(one_block(tag, text))) == 1


@pytest.mark.parametrize(
    ("tag", "text"),
    [
        ("bicepl warns=W303", CLASS_A + UNUSED),
        ("bicepl fails=E201", CLASS_A + CLASS_A),
        ("match", "prior(A, B) -- a remark\n∃x prior(A = x, B)"),
        ("text", "anything"),
        ("", "anything"),
    ],
)
def test_a_block_is_taken(tag: str, text: str) -> None:
    assert complaints_about(one_block(tag, text)) == []


def test_a_block_without_an_end_is_refused() -> None:
    (block,) = read_page(Path("a.md"), "```text\nfor ever\n").blocks
    assert complaints_about(block) == ["the block is never closed"]


def test_a_prelude_reaches_to_the_end_of_its_section() -> None:
    uses, fails = f"```bicepl warns=W303\n{UNUSED}```\n", f"```bicepl fails=E200\n{UNUSED}```\n"
    page = read_page(Path("a.md"), f"## 1\n<!-- prelude:\n{CLASS_A}-->\n{uses}### 1.1\n{uses}## 2\n{fails}")
    assert [block.prelude for block in page.blocks] == ["", CLASS_A, CLASS_A, ""]
    assert [complaints_about(block) for block in page.blocks] == [[], [], [], []]


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        ("$ augury check a.bicepl\na.bicepl: ok, 1 class\n$ echo $?\n0", 0),
        ("$ augury check a.bicepl\na.bicepl: ok, 2 classes", 1),
        ("$ augury check a.bicepl", 1),
        ("$ augury fmt a.bicepl > b.bicepl\n$ cat b.bicepl\n" + CLASS_A, 0),
        ("$ augury check nowhere.bicepl > b.bicepl\n$ echo $?\n2", 1),
        ("$ rm a.bicepl", 1),
    ],
)
def test_a_console_is_compared(text: str, complaints: int, tmp_path: Path) -> None:
    page = read_page(Path("a.md"), f"```bicepl file=a.bicepl\n{CLASS_A}```\n```console\n{text}\n```\n")
    assert len(console_complaints(page, tmp_path)) == complaints


@pytest.mark.parametrize(("text", "complaints"), [("import augury\nprint(augury)", 0), ("import augurry", 1)])
def test_python_is_run(text: str, complaints: int, tmp_path: Path) -> None:
    page = read_page(Path("a.md"), f"```python\n{text}\n```\n")
    assert len(console_complaints(page, tmp_path)) == complaints


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        ("# A heading: `x`, y\n[here](#a-heading-x-y), [there](b.md#two-1), [out](https://example.org/#no)", 0),
        ("`[not](a-link.md)`, `examples/*/*.bicepl`, `augury check examples/card/card.bicepl`, `src/<name>.py`", 0),
        ("[gone](c.md)", 1),
        ("[gone](#nowhere)", 1),
        ("[gone](b.md#three)", 1),
        ("[ref]: c.md", 1),
        ("see `docs/nothing.md`", 1),
        ("run `augury check examples/card/nothing.bicepl`", 1),
        ("all of `examples/none/*.bicepl`", 1),
    ],
)
def test_links_and_mentions_are_looked_up(text: str, complaints: int, tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("## Two\n## Two\n", "utf-8")
    (tmp_path / "a.md").write_text(text, "utf-8")
    shutil.copytree(ROOT / "examples" / "card", tmp_path / "examples" / "card")
    page = read_page(Path("a.md"), text)
    assert len(link_complaints(page, tmp_path) + mention_complaints(page, tmp_path)) == complaints

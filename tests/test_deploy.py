"""What deploy/ holds: a container file and a unit of systemd, as far as can be seen without building an image.

What they copy is there, what they run can be parsed, and neither runs as root; the probe is asked of a real server of
HTTP, and the unit of `systemd-analyze`, which Debian has in the package systemd. An image is built and the unit run by
`deploy/try.sh`, which takes root and minutes; what was learned by it is pinned here.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import typer

from augury.cli import app
from tests.test_docs import read_page

ROOT = Path(__file__).parents[1]
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
UNIT = ROOT / "deploy" / "augury.service"
TRY = ROOT / "deploy" / "try.sh"
PAGE = ROOT / "docs" / "operation.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXPOSURE_MAX = 2.0
"""Of the ten that `systemd-analyze security` gives to a service without any bounds."""


UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""What typer raises for a command line that it does not understand; it has no name for it."""


def parsed(arguments: list[str]) -> dict[str, Any]:
    """The options of a command line of augury, read and not run; raises `UsageError`."""
    command: Any = typer.main.get_command(app)
    words = list(arguments)
    while hasattr(command, "commands"):
        name = words.pop(0)
        if name not in command.commands:
            raise UsageError(f"there is no command `{name}`")
        command = command.commands[name]
    context = command.make_context(command.name, words)
    found: dict[str, Any] = context.params
    return found


# ---- the container file ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Instruction:
    """A line of a container file, with those that it goes on in."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """Its words: those of the JSON form, or split as a shell does."""
        found = json.loads(self.text) if self.text.startswith("[") else shlex.split(self.text)
        return list(map(str, found))


def stages(text: str) -> list[list[Instruction]]:
    """The stages of a container file; each begins with its FROM."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    found: list[list[Instruction]] = []
    for line in filter(None, map(str.strip, joined.splitlines())):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            found.append([])
        found[-1].append(Instruction(name, rest.strip()))
    return found


STAGES = stages(CONTAINERFILE.read_text("utf-8"))


def last(name: str) -> Instruction:
    """The last of a name in the stage that becomes the image."""
    return [one for one in STAGES[-1] if one.name == name][-1]


def test_only_an_official_python_image_is_named() -> None:
    names = [stage[0].words[0] for stage in STAGES]
    assert len(STAGES) == 2
    assert all(re.fullmatch(r"python:3\.\d+-slim", name) for name in names)
    versions = {name.removeprefix("python:").removesuffix("-slim") for name in names}
    assert all(f"Programming Language :: Python :: {one}" in PROJECT["classifiers"] for one in versions)


def test_everything_that_is_copied_is_there() -> None:
    copied = [one.words for stage in STAGES for one in stage if one.name == "COPY"]
    here = [words[:-1] for words in copied if not words[0].startswith("--from=")]
    assert here
    assert [source for sources in here for source in sources if not (ROOT / source).exists()] == []
    named = {stage[0].words[2] for stage in STAGES if len(stage[0].words) == 3}
    assert {words[0].removeprefix("--from=") for words in copied if words[0].startswith("--from=")} <= named


def test_what_is_copied_and_nothing_else_is_sent_to_who_builds() -> None:
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert [line for line in lines if not line.startswith(("#", "!"))] == ["*", "**/__pycache__"]
    copied = [one.words for one in STAGES[0] if one.name == "COPY"]
    assert {line[1:] for line in lines if line.startswith("!")} == {one for words in copied for one in words[:-1]}


def test_the_lock_has_a_version_of_all_that_is_installed() -> None:
    (install,) = [one.text for one in STAGES[0] if one.name == "RUN"]
    pattern = re.search(r"grep -oE '([^']+)'", install)
    assert pattern is not None
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    pinned = {line.partition("==")[0].lower() for line in re.findall(pattern[1], lock, re.MULTILINE)}
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["postgres"]]
    names = {re.match(r"[A-Za-z0-9._-]+", one)[0].lower().replace("_", "-") for one in wanted}  # type: ignore[index]
    assert names - pinned == set()
    assert ".[postgres]" in install
    assert pattern[0] in PAGE.read_text("utf-8")  # who installs without a container gets the same


def test_it_runs_as_somebody_without_rights() -> None:
    user = last("USER").text
    assert user not in ("root", "0")
    made = [one.text for one in STAGES[-1] if one.name == "RUN" and "useradd --system --uid 10001" in one.text]
    assert made
    assert made[0].split("&&")[0].rstrip().endswith(f" {user}")
    names = [one.name for one in STAGES[-1]]
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert "RUN" not in names[names.index("USER") :]


def test_what_it_runs_can_be_parsed_and_fits_the_rest() -> None:
    words = [*last("ENTRYPOINT").words, *last("CMD").words]
    assert words[0] == "augury"
    said = parsed(words[1:])
    assert str(said["port"]) == last("EXPOSE").text
    assert PurePosixPath(last("VOLUME").text) in PurePosixPath(said["store"]).parents
    assert said["host"] == "0.0.0.0"
    assert last("STOPSIGNAL").text == "SIGTERM"


@contextmanager
def answering(status: int) -> Iterator[int]:
    """A server whose readiness is this status; gives its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/ready" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def probed(port: int) -> int:
    """How the probe of the container ends, asked at that port."""
    words = last("HEALTHCHECK").text.partition("CMD ")[2]
    python, *rest = json.loads(words)
    assert python == "python"
    command = [sys.executable, *(word.replace(":8700/", f":{port}/") for word in rest)]
    return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode


def test_the_probe_asks_whether_it_is_ready() -> None:
    with answering(200) as port:
        assert probed(port) == 0
    with answering(503) as other:
        assert probed(other) != 0
    assert probed(other) != 0  # nobody listens any more


# ---- the unit ----------------------------------------------------------------------------------------------------


def settings() -> dict[str, str]:
    """The settings of the unit; of one that stands twice the last."""
    lines = (line for line in UNIT.read_text("utf-8").splitlines() if line and line[0] not in "#[")
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def analysed(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`systemd-analyze`, which has to be there: nothing is passed over in silence."""
    tool = shutil.which("systemd-analyze")
    assert tool is not None, "systemd-analyze is missing: apt-get install systemd"
    return subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit, with a command that is installed here."""
    path = tmp_path / "augury.service"
    here = shutil.which("true")
    assert here is not None
    path.write_text(UNIT.read_text("utf-8").replace("/opt/augury/bin/augury", here), "utf-8")
    return path


def test_systemd_understands_the_unit(unit: Path) -> None:
    found = analysed("verify", "--man=no", str(unit))
    assert (found.returncode, found.stdout + found.stderr) == (0, "")


def test_a_mistake_in_the_unit_is_noticed(unit: Path) -> None:
    unit.write_text(unit.read_text("utf-8").replace("ProtectSystem=strict", "ProtectSytem=strict"), "utf-8")
    assert "ProtectSytem" in analysed("verify", "--man=no", str(unit)).stderr


def test_the_unit_is_hardened(unit: Path) -> None:
    found = analysed("security", "--offline=true", "--no-pager", str(unit))
    level = re.search(r"Overall exposure level for augury\.service: ([\d.]+)", found.stdout)
    assert level is not None, found.stderr
    assert float(level[1]) <= EXPOSURE_MAX
    said = settings()
    wanted = {
        "User": "augury",
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "ProtectHome": "yes",
        "StateDirectory": "augury",
        "Restart": "on-failure",
        "KillSignal": "SIGTERM",
    }
    assert {name: said[name] for name in wanted} == wanted


def test_systemd_is_told_when_it_is_ready() -> None:
    """Tests of the server show that it tells; the socket is one of AF_UNIX, and a large store takes its time."""
    said = settings()
    assert said["Type"] == "notify"
    assert said["TimeoutStartSec"] == "infinity"
    assert "AF_UNIX" in said["RestrictAddressFamilies"].split()


def test_what_the_unit_runs_can_be_parsed_and_fits_the_rest() -> None:
    said = settings()
    words = shlex.split(said["ExecStart"])
    assert words[0] == "/opt/augury/bin/augury"
    params = parsed(words[1:])
    assert params["host"] == "127.0.0.1"
    assert PurePosixPath("/var/lib", said["StateDirectory"]) in PurePosixPath(params["store"]).parents
    assert said["WorkingDirectory"] == "/etc/augury"


def test_the_unit_may_write_its_store_and_what_it_compiled_and_nothing_else() -> None:
    """A ConfigurationDirectory is left writable by ProtectSystem=strict, as those of state and cache are."""
    writable = {"ConfigurationDirectory", "LogsDirectory", "RuntimeDirectory", "ReadWritePaths", "BindPaths"}
    said = settings()
    assert writable & set(said) == set()
    assert (said["StateDirectory"], said["CacheDirectory"]) == ("augury", "augury")


# ---- the page ----------------------------------------------------------------------------------------------------


def commands() -> Iterator[tuple[int, list[str]]]:
    """The command lines of augury in blocks of docs/operation.md, wherever they stand in a line."""
    for block in read_page(Path("docs/operation.md"), PAGE.read_text("utf-8")).blocks:
        if block.tag == "sh":
            for line in block.text.replace("\\\n", " ").splitlines():
                words = re.split(r"\s[|>&#;]", line)[0].split()
                for before, (place, word) in zip(["", *words], enumerate(words, 1), strict=False):
                    # Behind an option, before a path or itself it is the name of a user, an image or a folder.
                    is_command = PurePosixPath(word).name == "augury" and not before.startswith("-")
                    if is_command and words[place:] and not words[place].startswith(("-", "/", "augury")):
                        yield block.line, words[place:]
                        break


def test_the_commands_of_the_page_can_be_parsed() -> None:
    found = list(commands())
    assert len(found) >= 10
    wrong = []
    for line, words in found:
        try:
            parsed([word.strip("'\"") for word in words])
        except UsageError as error:
            wrong.append(f"docs/operation.md:{line}: augury {' '.join(words)}: {error}")
    assert wrong == []


def test_a_command_that_is_not_there_is_noticed() -> None:
    with pytest.raises(UsageError):
        parsed(["sreve", "program.bicepl"])
    with pytest.raises(UsageError):
        parsed(["check", "program.bicepl", "--no-such-option"])


def test_the_page_keeps_the_probe_of_the_image() -> None:
    """Images of OCI, which podman makes by itself, have no place for a HEALTHCHECK: it would be left out."""
    last("HEALTHCHECK")
    builds = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("podman build")]
    assert builds
    assert all("--format docker" in line for line in builds)


def test_the_page_makes_the_folder_that_copies_go_to() -> None:
    lines = PAGE.read_text("utf-8").splitlines()
    made = [number for number, line in enumerate(lines) if line.startswith("sudo install -d -o augury -g augury")]
    assert made
    assert "/var/backups/augury" in lines[made[0]].split()
    assert made[0] < next(number for number, line in enumerate(lines) if "/var/backups/augury/" in line)


# ---- trying it out -----------------------------------------------------------------------------------------------


def tried(script: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`deploy/try.sh`, without what needs root."""
    return subprocess.run(["sh", script, *words], capture_output=True, text=True, timeout=60, check=False)


def test_what_is_tried_stands_on_the_page() -> None:
    found = tried(TRY, "commands")
    assert (found.returncode, found.stderr) == (0, "")
    lines = found.stdout.splitlines()
    assert set(lines) <= set(PAGE.read_text("utf-8").splitlines())
    wanted = ["podman build ", "podman run -d ", "sudo systemctl enable --now augury", "sudo systemctl start augury"]
    assert [one for one in wanted if not any(line.startswith(one) for line in lines)] == []


@pytest.mark.parametrize("heading", ["Install", "Tokens", "As a container", "As a service", "Copies", "A new release"])
def test_a_block_that_is_gone_is_noticed(tmp_path: Path, heading: str) -> None:
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "server.md", tmp_path / "docs")
    text = PAGE.read_text("utf-8").replace(f"\n## {heading}\n", "\n## Something else\n")
    (tmp_path / "docs" / "operation.md").write_text(text, "utf-8")
    found = tried(tmp_path / "deploy" / "try.sh", "commands")
    assert found.returncode == 1
    assert f'below "{heading}"' in found.stderr


def test_a_word_that_it_does_not_know_is_refused() -> None:
    found = tried(TRY, "contianer")
    assert found.returncode == 1
    assert "say container, service or commands" in found.stderr

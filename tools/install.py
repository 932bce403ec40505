"""Installs requirements.lock into the environment that runs this: by uv, in a fraction of the time that pip takes.

In: pip's configuration, for uv reads none of it. Out: an exit status, and packages with their bytecode. What pip is
told of indexes, certificates and time-outs is handed on; where it is told anything else, where uv cannot be had or
fails, pip installs. Either way every file has one of the hashes of the lock.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

LOCK = "requirements.lock"
PIP = (sys.executable, "-m", "pip")
PIP_INSTALL = (*PIP, "install", "--quiet", "--no-input", "--require-hashes", "-r")

# What pip calls an option, how uv calls it, and what stands between several values.
HANDED_ON = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "cert": ("SSL_CERT_FILE", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
    "default-timeout": ("UV_HTTP_TIMEOUT", " "),
}
# What says nothing of where packages come from.
OF_NO_MATTER = frozenset(
    {"config-file", "disable-pip-version-check", "no-input", "quiet", "progress-bar", "no-color", "cache-dir"}
)
NO = frozenset({"", "0", "false", "no", "off"})


def main() -> int:
    """Install, and say nothing unless it fails."""
    told = subprocess.run((*PIP, "config", "list"), stdout=subprocess.PIPE, text=True, check=False)
    handed_on = for_uv(configured(told.stdout.splitlines())) if told.returncode == 0 else None
    if handed_on is not None and uv_is_there() and _runs(uv_install(), uv_environment(os.environ, handed_on)):
        return 0
    return 0 if _runs((*PIP_INSTALL, LOCK)) else 1


def configured(lines: Iterable[str]) -> dict[str, str]:
    """The options in what `pip config list` prints; those of the environment count most, then those of `install`."""
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in lines:
        name, _, written = line.partition("=")
        section, _, option = name.rpartition(".")
        if section in found:
            found[section][option] = str(ast.literal_eval(written))
    return found["global"] | found["install"] | found[":env:"]


def for_uv(options: Mapping[str, str]) -> dict[str, str] | None:
    """The same for uv, as variables of the environment; None where it has no word for one of them."""
    variables = {}
    for option, value in options.items():
        if option in HANDED_ON:
            variable, between = HANDED_ON[option]
            variables[variable] = between.join(value.split())
        elif option == "no-cache-dir":
            variables |= {} if value.lower() in NO else {"UV_NO_CACHE": "1"}
        elif option not in OF_NO_MATTER:
            return None
    return variables


def uv_environment(environment: Mapping[str, str], handed_on: Mapping[str, str]) -> dict[str, str]:
    """The environment with what pip is told, and without habits of uv, which were never asked for here."""
    kept = {name: value for name, value in environment.items() if not name.startswith("UV_") or name == "UV_CACHE_DIR"}
    # pip takes a version from whichever index has it, and the lock says which files will do.
    return kept | {"UV_INDEX_STRATEGY": "unsafe-best-match"} | dict(handed_on)


def uv_install() -> tuple[str, ...]:
    """The command; it compiles what it installs, on all processors."""
    uv = Path(sys.executable).parent / "uv"
    words = ("--no-config", "--quiet", "--compile-bytecode", "--require-hashes", "--python", sys.executable)
    return (str(uv), "pip", "install", *words, "-r", LOCK)


def uv_is_there() -> bool:
    """Let pip install uv alone, by its entry in the lock and only where it need not be built."""
    entry = entry_of("uv", Path(LOCK).read_text("utf-8").splitlines())
    return _runs((*PIP_INSTALL, "/dev/stdin", "--only-binary", ":all:"), given="\n".join(entry))


def entry_of(package: str, lines: Iterable[str]) -> list[str]:
    """The lines of the lock that are about one package: how it is called, and what is indented below."""
    found: list[str] = []
    for line in lines:
        if line.startswith(f"{package}=="):
            found = [line]
        elif found and not line.startswith(" "):
            break
        elif found:
            found.append(line)
    return found


def _runs(command: Sequence[str], environment: Mapping[str, str] | None = None, given: str = "") -> bool:
    return subprocess.run(command, env=environment, input=given, text=True, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())

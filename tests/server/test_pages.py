"""docs/server.md, executed: its sessions in a real shell, with a real server, and curl."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.acting.test_detectors_apart import free_port
from tests.test_docs import ROOT, _commands, read_page

PAGE = ROOT / "docs" / "server.md"
PORT = "8700"
SAME = [
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"Unprocessable (Entity|Content)"), "Unprocessable"),
]
"""What is another each time, or with another Python."""

IN_BACKGROUND = """
{command} > served 2>&1 &
for n in $(seq 600); do grep -q 'listens at' served && break; sleep 0.1; done
cat served
"""


def sessions(port: str) -> list[tuple[str, str]]:
    """The commands of the page's sessions, and what is shown below each."""
    page = read_page(Path("docs/server.md"), PAGE.read_text("utf-8").replace(PORT, port))
    return [pair for block in page.blocks if "session" in block.options for pair in _commands(block)]


def plain(text: str) -> str:
    for pattern, word in SAME:
        text = pattern.sub(word, text)
    return text.strip()


def test_the_page_is_true(tmp_path: Path) -> None:
    assert shutil.which("curl"), "the page asks by curl"
    for block in read_page(Path("docs/server.md"), PAGE.read_text("utf-8")).blocks:
        if name := block.option("file"):
            (tmp_path / name).write_text(block.text, "utf-8")
    (tmp_path / "bin").mkdir()
    shim = tmp_path / "bin" / "augury"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m augury "$@"\n')
    shim.chmod(0o755)
    port, mark = str(free_port()), "---- next ----"
    wanted = sessions(port)
    assert len(wanted) > 12
    lines = [f'PATH="{tmp_path}/bin:$PATH"', "trap 'kill $(jobs -p) 2>/dev/null' EXIT"]
    for command, _ in wanted:
        whole = IN_BACKGROUND.format(command=command[:-1]) if command.endswith("&") else command
        lines += [whole, f"echo; echo '{mark}'"]
    script = tmp_path / "script.sh"
    script.write_text("\n".join(lines))
    done = subprocess.run(
        ["bash", str(script)], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120
    )
    printed = done.stdout.split(mark)
    assert len(printed) == len(wanted) + 1, done.stdout[-3_000:]
    told = [(command, plain(text), plain(shown)) for (command, shown), text in zip(wanted, printed, strict=False)]
    assert [one for one in told if one[1] != one[2]] == []

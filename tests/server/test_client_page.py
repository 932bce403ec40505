"""docs/client.md, executed: its Python and its commands, one after the other, against a real server of its program."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tests.server.clients import asked
from tests.test_docs import ROOT, Shell, read_page, shown_complaints


def test_the_page_is_true(tmp_path: Path) -> None:
    page = read_page(Path("docs/client.md"), (ROOT / "docs" / "client.md").read_text("utf-8"))
    files = {name: block.text for block in page.blocks if (name := block.option("file"))}
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    shell, complaints, count = Shell(), list[str](), 0
    with asked(tmp_path, files["claims.bicepl"]) as server, contextlib.chdir(tmp_path):
        shell.runner.env = {**shell.runner.env, "AUGURY_URL": server.url, "AUGURY_TOKEN": server.token}
        names: dict[str, object] = {"url": server.url, "token": server.token}
        for block in page.blocks:
            if "served" in block.options:
                count += 1
                complaints += shown_complaints(page, block, shell)
                if block.tag == "python":
                    exec(compile(block.text, f"{page.path}:{block.line}", "exec"), names)
    assert complaints == []
    assert count >= 8

"""A webhook on loopback that notes what it is sent, and deliverers of a lake that are killed again and again.

Deliverers are processes of `augury actions run`. What they deliver is known by its idempotency key, so that it can be
said how often each action was taken.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

LOOK_SECONDS = 0.002


@dataclass
class Hook:
    """What was sent: everything in the order in which it came, and of what was taken how often each was, by key."""

    url: str = ""
    seed: int = 0
    fails: bool = True
    sent: list[Mapping[str, Any]] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=dict)

    def take(self, key: str, about: Mapping[str, Any]) -> bool:
        """Note an action; whether it is taken, which some are not at once."""
        assert about["id"] == key
        self.sent.append(about)
        if self.fails and random.Random(f"{self.seed} {key} {len(self.sent)}").random() < 0.2:
            return False
        self.taken[key] = self.taken.get(key, 0) + 1
        return True


@contextmanager
def hook(seed: int) -> Iterator[Hook]:
    """A webhook at a port of its own, which refuses every fifth try or so."""
    found, alone = Hook(seed=seed), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with alone:
                is_taken = found.take(self.headers["webhook-id"], body)
            time.sleep(0.01)  # so that who sent it may be killed before there is an answer
            self.send_response(204 if is_taken else 503)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, address: Any) -> None:
            """Whoever was killed is gone, and comes again."""
            if not isinstance(sys.exception(), ConnectionError):
                super().handle_error(request, address)

    with Server(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()


class Deliverers(threading.Thread):
    """Delivers the actions of a lake to a hook, by one process after the other: each is killed at a random instant."""

    def __init__(self, folder: Path, store: Path, text: str, actions: Sequence[str], hooked: Hook) -> None:
        """Bind all actions to the hook."""
        super().__init__()
        folder.mkdir()
        (folder / "program.bicepl").write_text(text, "utf-8")
        bound = (f'[actions.bind.{one}]\nto = "WEBHOOK"\ntarget = "{hooked.url}"\nretries = 60\n' for one in actions)
        (folder / "augury.toml").write_text("[actions]\nprivate_targets = true\n" + "".join(bound), "utf-8")
        self.kills = 0
        self.failure: BaseException | None = None
        self.is_over = threading.Event()
        self._folder, self._store, self._hook, self._chance = folder, store, hooked, random.Random(hooked.seed)

    def run(self) -> None:
        """Start and kill, until it is over."""
        try:
            while not self.is_over.is_set():
                self._live_and_die()
        except BaseException as error:
            self.failure = error

    def _live_and_die(self) -> None:
        if not (self._store / "manifests").exists():  # the watch has yet to make the lake
            time.sleep(LOOK_SECONDS)
            return
        with self.started() as process:
            wanted = len(self._hook.sent) + self._chance.randrange(1, 20)
            while len(self._hook.sent) < wanted and not self.is_over.is_set():
                assert process.poll() is None, self.told()
                time.sleep(LOOK_SECONDS)
            time.sleep(self._chance.choice((0.0, 0.0, 0.015, 0.2)))
            self.kills += not self.is_over.is_set()

    @contextmanager
    def started(self) -> Iterator[subprocess.Popen[bytes]]:
        """A process that delivers, and is killed at the end."""
        words = ["actions", "run", "program.bicepl", "--store", str(self._store)]
        with (self._folder / "told").open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "augury", *words], cwd=self._folder, env=os.environ, stderr=file
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def told(self) -> str:
        """What the processes said, at last."""
        return (self._folder / "told").read_text("utf-8")[-4_000:]

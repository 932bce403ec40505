"""A line at the foot of a terminal that says how far a run is.

In: `Far` values, from any thread. Out: a bar on a stream that is a terminal, which is gone when it is closed. It never
touches standard output; who writes there puts the bar aside for that moment.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Final, TextIO

from augury.engine.progress import Far, Tell, in_words

if TYPE_CHECKING:
    from rich.progress import Progress

_DRAWN_SECONDS: Final = 0.1
"""Between two times that the same doing is drawn anew: an engine tells of every tick."""


def bar_on(stream: TextIO | None, *, quiet: bool = False) -> Bar:
    """A bar on a stream; it is drawn if that is a terminal on which lines can be rubbed out, and nobody wants quiet."""
    is_wanted = not quiet and stream is not None and stream.isatty()
    return Bar(_progress(stream) if is_wanted and stream is not None else None)


def write_beside(bar: Bar, stream: TextIO, texts: Iterable[str]) -> None:
    """Texts to a stream; where that is a terminal, too, the bar makes room."""
    for text in texts:
        if bar.is_drawn and stream.isatty():
            with bar.aside():
                stream.write(text)
                stream.flush()
        else:
            stream.write(text)
    stream.flush()


class Bar:
    """A bar, or none: then all that is asked of it is nothing. Closed, it leaves no trace; `bar_on` makes one."""

    def __init__(self, progress: Progress | None) -> None:
        """Draw it."""
        self._progress = progress
        self._lock = Lock()
        self._doing = ""
        self._drawn_at = 0.0
        self._is_open = True
        if progress is not None:
            self._task = progress.add_task("", total=None, words="")
            progress.start()

    @property
    def is_drawn(self) -> bool:
        """Whether there is somebody to see it, or was."""
        return self._progress is not None

    @property
    def tell(self) -> Tell | None:
        """Whom to tell how far it is; None where nobody would see it."""
        return None if self._progress is None else self._tell

    def _tell(self, far: Far) -> None:
        with self._lock:
            assert self._progress is not None
            seconds = time.monotonic()
            if far.doing == self._doing and seconds - self._drawn_at < _DRAWN_SECONDS:
                return
            is_new, self._doing, self._drawn_at = far.doing != self._doing, far.doing, seconds
            total, done = (None, 0.0) if far.share is None else (1.0, far.share)
            self._progress.update(
                self._task, description=far.doing, total=total, completed=done, words=in_words(far), refresh=is_new
            )

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Nothing of it is on the terminal while the body writes there."""
        if self._progress is not None:
            self._progress.stop()
        yield
        if self._progress is not None and self._is_open:
            self._progress.start()

    def close(self) -> None:
        """Remove it; what is told later is not drawn."""
        self._is_open = False
        if self._progress is not None:
            self._progress.stop()

    def __enter__(self) -> Bar:
        """The bar itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Remove it."""
        self.close()


def _progress(stream: TextIO) -> Progress | None:
    # Loaded where a bar is drawn: it takes a while, and a run in a pipe needs none of it.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(file=stream)
    if not console.is_interactive:
        return None
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[words]}", markup=False),
        TimeElapsedColumn(),
    )
    # What others write to standard error meanwhile (a warning) goes above the bar; standard output is not ours.
    return Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=True)

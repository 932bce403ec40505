"""Messages of NATS JetStream, through a durable consumer: what was not told to be taken is sent again.

In: a subject, the URL of a server. Out: items with the number of their message in the stream. The client opens its
connection by itself, and not through the environment. What stands before `@` in the URL is told nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from augury.detectors.messages import items_of
from augury.detectors.sensor import Arrived, BadDetector, Item, Seen, SourceFailed
from augury.history.raw import Broken

_MESSAGES_AT_ONCE: Final = 500
_WAIT_SECONDS: Final = 1.0
_REFUSAL: Final = "authorization violation"


class NatsStream:
    """Follows one subject."""

    def __init__(self, subject: str, url: str, durable: str, stream: str | None) -> None:
        """Connect to nothing yet; raises `BadDetector` where the client is not installed."""
        self._subject, self._url, self._durable, self._stream = subject, url, durable, stream
        scheme, mark, rest = url.rpartition("://")
        self._place = f"{scheme}{mark}{rest.rpartition('@')[2]}"
        try:
            import nats  # noqa: F401
        except ImportError:
            raise BadDetector("detectors of NATS need its client: pip install 'augury[nats]'") from None

    async def follow(self, position: bytes | None) -> AsyncGenerator[Arrived]:
        """Messages as they come, many at once where there are many."""
        from nats.aio.client import Client
        from nats.errors import Error, NoServersError, TimeoutError
        from nats.js.errors import Error as StreamError

        client = Client()
        try:
            await client.connect(
                self._url,
                **_login(self._url),
                name="augury",
                connect_timeout=5,
                # Who runs the detector tries again, and waits longer each time.
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                # Without it the server may hang up before its reason is read.
                verbose=True,
                error_cb=_quietly,
            )
            pulled = await client.jetstream().pull_subscribe(self._subject, self._durable, stream=self._stream)
            while True:
                _end_if_cancelled()
                try:
                    messages = await pulled.fetch(_MESSAGES_AT_ONCE, timeout=_WAIT_SECONDS)
                except TimeoutError:
                    continue
                yield Arrived(Seen(_items(messages), position), partial(_acknowledged, messages))
        except NoServersError:
            raise SourceFailed(f"no NATS server answers at {self._place}") from None
        except StreamError as error:
            help_ = "the subject needs a stream of JetStream that keeps it"
            raise SourceFailed(f"NATS at {self._place}, subject `{self._subject}`: {error}; {help_}") from None
        except (Error, OSError) as error:
            if _REFUSAL in str(error).casefold():
                help_ = "look at the user, password or token in `url`"
                raise SourceFailed(f"NATS at {self._place} does not let us in: {help_}") from None
            raise SourceFailed(f"NATS at {self._place}: {str(error) or type(error).__name__}") from None
        finally:
            await client.close()


def _login(url: str) -> dict[str, Any]:
    """Who asks: nats-py takes what stands in a URL as it is, so that a password with `@` could not be written."""
    parts = urlsplit(url)
    if parts.username is None:
        return {}
    name = unquote(parts.username)
    return {"token": name} if parts.password is None else {"user": name, "password": unquote(parts.password)}


def _end_if_cancelled() -> None:
    """A cancellation is lost in nats-py where a message comes at that moment: by wait_for of Python 3.11, for one."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _quietly(error: Exception) -> None:
    """What goes wrong is raised by the next call, and told by who runs the detector."""


async def _acknowledged(messages: Sequence[Any]) -> None:
    for message in messages:
        await message.ack()


def _items(messages: Sequence[Any]) -> tuple[Item | Broken, ...]:
    return tuple(item for one in messages for item in items_of(one.data, _place(one)))


def _place(message: Any) -> str:
    about = message.metadata
    return f"{about.stream}:{about.sequence.stream}"

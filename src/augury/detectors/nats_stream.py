"""Messages of NATS JetStream, through a durable consumer: what was not told to be taken is sent again.

In: a subject, the URL of a server. Out: items with the number of their message in the stream. The client opens its
connection by itself, and not through the environment.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any, Final

from augury.detectors.messages import items_of
from augury.detectors.sensor import Arrived, BadDetector, Item, Seen, SourceFailed
from augury.history.raw import Broken

_MESSAGES_AT_ONCE: Final = 500
_WAIT_SECONDS: Final = 1.0


class NatsStream:
    """Follows one subject."""

    def __init__(self, subject: str, url: str, durable: str, stream: str | None) -> None:
        """Connect to nothing yet; raises `BadDetector` where the client is not installed."""
        self._subject, self._url, self._durable, self._stream = subject, url, durable, stream
        try:
            import nats  # noqa: F401
        except ImportError:
            raise BadDetector("detectors of NATS need its client: pip install 'augury[nats]'") from None

    async def follow(self, position: bytes | None) -> AsyncGenerator[Arrived]:
        """Messages as they come, many at once where there are many."""
        import nats
        from nats.errors import Error, NoServersError, TimeoutError
        from nats.js.errors import Error as StreamError

        client: Any = None
        try:
            client = await nats.connect(
                self._url,
                name="augury",
                connect_timeout=5,
                # Who runs the detector tries again, and waits longer each time.
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0.1,
                error_cb=_quietly,
            )
            pulled = await client.jetstream().pull_subscribe(self._subject, self._durable, stream=self._stream)
            while True:
                try:
                    messages = await pulled.fetch(_MESSAGES_AT_ONCE, timeout=_WAIT_SECONDS)
                except TimeoutError:
                    continue
                yield Arrived(Seen(_items(messages), position), partial(_acknowledged, messages))
        except NoServersError:
            raise SourceFailed(f"no NATS server answers at {self._url}") from None
        except StreamError as error:
            help_ = "the subject needs a stream of JetStream that keeps it"
            raise SourceFailed(f"NATS at {self._url}, subject `{self._subject}`: {error}; {help_}") from None
        except (Error, OSError) as error:
            raise SourceFailed(f"NATS at {self._url}: {str(error) or type(error).__name__}") from None
        finally:
            if client is not None:
                await client.close()


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

"""NATS: an action as a message of a subject; needs the extra `nats`.

Where a stream of JetStream keeps the subject, the server says that it is kept, and absorbs what it gets twice by
`Nats-Msg-Id`; else it goes to those who listen now. nats-py has connections of its own, past the environment. A user
and password, or a token, stand in the URL and are told nobody.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from augury.actions.delivery import Again, Delivered, Delivery, Outcome, shortened, told
from augury.actions.envelope import CONTENT_TYPE, envelope
from augury.environment import Environment

_REFUSAL: Final = "authorization violation"


class Nats:
    """Publishes to a subject."""

    def __init__(self, subject: str, url: str, seconds: float, engine: str = "") -> None:
        """Take a subject; raises `ImportError`, with what to install."""
        try:
            import nats  # noqa: F401
        except ImportError:
            raise ImportError("NATS needs the package nats-py: pip install 'augury[nats]'") from None
        self._place = url.rpartition("@")[2]
        self.target = f"nats {self._place}"
        self._subject, self._url, self._seconds, self._engine = subject, url, seconds, engine
        self._client: Any = None
        self._has_stream = False
        self._connecting = asyncio.Lock()

    async def carry_out(self, delivery: Delivery, environment: Environment) -> Outcome:
        """Publish it."""
        from nats.errors import Error, NoServersError

        # A stream drops what has the id of another: equal actions of two engines are two.
        own = f"{self._engine}:{delivery.key}" if self._engine else delivery.key
        headers = {"Nats-Msg-Id": own, "Content-Type": CONTENT_TYPE}
        body = envelope(delivery, self._engine)
        try:
            async with asyncio.timeout(self._seconds):
                client = await self._connected()
                if await self._is_kept(client):
                    await client.jetstream().publish(self._subject, body, timeout=self._seconds, headers=headers)
                else:
                    await client.publish(self._subject, body, headers=headers)
                    await client.flush()
        except NoServersError:
            return Again(f"no NATS server answers at {self._place}")
        except TimeoutError:
            return Again(f"NATS took longer than {self._seconds:g} s")
        except (OSError, Error) as error:
            if _REFUSAL in str(error).casefold():
                help_ = "look at the user, password or token in `url`"
                return Again(f"NATS at {self._place} does not let us in: {help_}", None, True)
            return Again(shortened(f"NATS: {told(error)}"))
        return Delivered()

    async def close(self) -> None:
        """Let go of the server."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _is_kept(self, client: Any) -> bool:
        """Whether a stream keeps the subject; asked again as long as none does."""
        from nats.errors import NoRespondersError
        from nats.js.errors import NotFoundError, ServiceUnavailableError

        if not self._has_stream:
            try:
                await client.jetstream().find_stream_name_by_subject(self._subject)
            except (NotFoundError, NoRespondersError, ServiceUnavailableError):
                return False
            self._has_stream = True
        return True

    async def _connected(self) -> Any:
        from nats.aio.client import Client

        async with self._connecting:
            if self._client is None or not self._client.is_connected:
                await self.close()
                self._client = Client()
                await self._client.connect(
                    self._url,
                    **_login(self._url),
                    connect_timeout=self._seconds,
                    # The next try connects anew, and is told what is amiss; who tries waits longer each time.
                    allow_reconnect=False,
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0,
                    # Without it the server may hang up before its reason is read.
                    verbose=True,
                    error_cb=_note,
                )
            return self._client


def _login(url: str) -> dict[str, Any]:
    """Who asks: nats-py takes what stands in a URL as it is, so that a password with `@` could not be written."""
    parts = urlsplit(url)
    if parts.username is None:
        return {}
    name = unquote(parts.username)
    return {"token": name} if parts.password is None else {"user": name, "password": unquote(parts.password)}


async def _note(error: Exception) -> None:
    """Errors of the connection are told by what is tried next."""
    import logging

    logging.getLogger("augury.nats").debug("%s", error)

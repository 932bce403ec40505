"""Messages of an MQTT broker, at least once (QoS 1), in a session that the broker keeps while nobody listens.

In: a topic, a broker. Out: items. A message is acknowledged when it is kept; one that comes again because the
acknowledgement was lost is known by its number and content, which the position remembers. The client has a thread and
opens its connection by itself, and not through the environment.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from augury.detectors.messages import items_of
from augury.detectors.sensor import Arrived, BadDetector, Item, Seen, SourceFailed
from augury.history.raw import Broken

_REMEMBERED: Final = 1_000
"""Messages whose acknowledgement may have been lost; brokers have far fewer on their way."""

_MESSAGES_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Broker:
    """Where a broker is, and who asks it."""

    host: str
    port: int
    client: str
    qos: int = 1
    user: str | None = None
    password: str | None = field(default=None, repr=False)


class MqttTopics:
    """Follows one topic, or all that a pattern fits."""

    def __init__(self, topic: str, broker: Broker) -> None:
        """Connect to nothing yet; raises `BadDetector` where the client is not installed."""
        self._topic, self._broker = topic, broker
        try:
            import paho.mqtt.client  # noqa: F401
        except ImportError:
            raise BadDetector("detectors of MQTT need its client: pip install 'augury[mqtt]'") from None

    async def follow(self, position: bytes | None) -> AsyncGenerator[Arrived]:
        """Messages as they come, many at once where there are many."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[Any] = asyncio.Queue()

        def put(one: Any) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, one)

        client = self._client(put)
        broker = self._broker
        remembered: list[list[object]] = [] if position is None else json.loads(position)
        try:
            try:
                await asyncio.to_thread(client.connect, broker.host, broker.port, 30)
            except (OSError, ValueError) as error:
                raise SourceFailed(f"no MQTT broker answers at {broker.host}:{broker.port}: {error}") from None
            client.loop_start()
            while True:
                messages = [await queue.get()]
                while not queue.empty() and len(messages) < _MESSAGES_AT_ONCE:
                    messages.append(queue.get_nowait())
                lost = [one for one in messages if isinstance(one, SourceFailed)]
                messages = [one for one in messages if not isinstance(one, SourceFailed)]
                if messages:
                    items, remembered = _new(messages, remembered)
                    seen = Seen(items, json.dumps(remembered).encode())
                    yield Arrived(seen, partial(_acknowledged, client, messages))
                if lost:
                    raise lost[0]
        finally:
            # The session stays with the broker: to disconnect ends the connection only.
            client.disconnect()
            await asyncio.to_thread(client.loop_stop)

    def _client(self, put: Any) -> Any:
        from paho.mqtt import client as mqtt
        from paho.mqtt.enums import CallbackAPIVersion

        broker, topic = self._broker, self._topic
        client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id=broker.client,
            clean_session=False,
            manual_ack=True,
            reconnect_on_failure=False,
        )
        if broker.user is not None:
            client.username_pw_set(broker.user, broker.password)
        where = f"MQTT at {broker.host}:{broker.port}"

        def connected(_client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
            if reason.is_failure:
                who = "anybody" if broker.user is None else f"`{broker.user}`"
                put(SourceFailed(f"{where} does not let {who} in: {reason}"))
            else:
                client.subscribe(topic, qos=broker.qos)

        def subscribed(_client: Any, _data: Any, _mid: int, reasons: Any, _properties: Any) -> None:
            if any(reason.is_failure for reason in reasons):
                put(SourceFailed(f"{where}: it is not allowed to read `{topic}`"))

        def disconnected(_client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
            put(SourceFailed(f"{where}: the connection has ended ({reason})"))

        client.on_connect, client.on_subscribe, client.on_disconnect = connected, subscribed, disconnected
        client.on_message = lambda _client, _data, message: put(message)
        return client


def _new(
    messages: Sequence[Any], remembered: Sequence[list[object]]
) -> tuple[tuple[Item | Broken, ...], list[list[object]]]:
    """The items of messages that have not been kept yet, and what is to be remembered of them."""
    known = {(one[0], one[1]) for one in remembered}
    items: list[Item | Broken] = []
    noted = list(remembered)
    for message in messages:
        mark = (message.mid, hashlib.sha256(message.topic.encode() + b"\0" + message.payload).hexdigest()[:16])
        if message.dup and mark in known:
            continue
        items += items_of(message.payload, None)
        if message.qos:
            noted.append(list(mark))
    return tuple(items), noted[-_REMEMBERED:]


async def _acknowledged(client: Any, messages: Sequence[Any]) -> None:
    for message in messages:
        if message.qos:
            client.ack(message.mid, message.qos)

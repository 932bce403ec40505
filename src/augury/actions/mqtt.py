"""MQTT: an action as a message of a topic, by default at least once (QoS 1); needs the extra `mqtt`.

paho-mqtt has connections and a thread of its own, past the environment. The key is in the envelope. A server that lets
nobody in says so once in a connection; it is let go of, and the next try makes another.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Final

from augury.actions.delivery import Again, Delivered, Delivery, Outcome, shortened, told
from augury.actions.envelope import envelope
from augury.actions.threads import Threads
from augury.environment import Environment

_GLANCE_SECONDS: Final = 0.1
"""How often it is looked whether a server that was lost lets nobody in any more, while a message waits for it."""


@dataclass(frozen=True, slots=True)
class MqttServer:
    """Where messages are handed over, and as whom."""

    host: str
    port: int
    user: str | None = None
    password: str | None = field(default=None, repr=False)


class _Refused(Exception):
    """The server does not let us in."""


@dataclass(slots=True)
class _Connected:
    """A connection, and what the server last said to who we are; paho's thread writes it."""

    client: Any
    answered: Event = field(default_factory=Event)
    refusal: str | None = None

    def let_in(self, _client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        """Take the server's answer."""
        self.refusal = str(reason) if reason.is_failure else None
        self.answered.set()

    def end(self) -> None:
        """Let go of the server."""
        self.client.disconnect()
        self.client.loop_stop()


class Mqtt:
    """Publishes to a topic."""

    def __init__(self, topic: str, server: MqttServer, qos: int, places: int, seconds: float, engine: str = "") -> None:
        """Take a topic; raises `ImportError`, with what to install."""
        try:
            import paho.mqtt.client  # noqa: F401
        except ImportError:
            raise ImportError("MQTT needs the package paho-mqtt: pip install 'augury[mqtt]'") from None
        self.target = f"mqtt {server.host}:{server.port}"
        self._topic, self._server, self._qos, self._seconds = topic, server, qos, seconds
        self._engine = engine
        self._threads = Threads(places + 1)
        self._connected: _Connected | None = None
        self._connecting = asyncio.Lock()

    async def carry_out(self, delivery: Delivery, environment: Environment) -> Outcome:
        """Publish it, and wait for the server's word where there is one."""
        body = envelope(delivery, self._engine)
        try:
            async with self._connecting:
                if self._connected is None:
                    self._connected = await self._threads.run(self._connect, self._seconds + 1)
                connected = self._connected
            await self._threads.run(lambda: self._publish(connected, body), self._seconds + 1)
        except TimeoutError:
            return Again(f"the MQTT server took longer than {self._seconds:g} s")
        except _Refused as error:
            await self.close()
            return Again(shortened(str(error)), None, True)
        except (OSError, RuntimeError, ValueError) as error:
            return Again(shortened(f"MQTT: {told(error)}"))
        return Delivered()

    async def close(self) -> None:
        """Let go of the server."""
        connected, self._connected = self._connected, None
        if connected is not None:
            await asyncio.get_running_loop().run_in_executor(None, connected.end)

    def _connect(self) -> _Connected:
        import paho.mqtt.client as mqtt
        from paho.mqtt.enums import CallbackAPIVersion

        client = mqtt.Client(CallbackAPIVersion.VERSION2)
        client.reconnect_delay_set(1, 30)
        if self._server.user is not None:
            client.username_pw_set(self._server.user, self._server.password)
        client.connect_timeout = self._seconds
        connected = _Connected(client)
        client.on_connect = connected.let_in
        client.connect(self._server.host, self._server.port)
        client.loop_start()
        try:
            if not connected.answered.wait(self._seconds):
                raise TimeoutError
            self._require_let_in(connected)
        except (_Refused, TimeoutError):
            connected.end()
            raise
        return connected

    def _publish(self, connected: _Connected, body: bytes) -> None:
        import paho.mqtt.client as mqtt

        self._require_let_in(connected)
        sent = connected.client.publish(self._topic, body, qos=self._qos)
        if sent.rc not in (mqtt.MQTT_ERR_SUCCESS, mqtt.MQTT_ERR_NO_CONN):
            raise OSError(mqtt.error_string(sent.rc))
        for _ in range(math.ceil(self._seconds / _GLANCE_SECONDS)):
            sent.wait_for_publish(_GLANCE_SECONDS)
            if sent.is_published():
                return
            self._require_let_in(connected)
        raise TimeoutError

    def _require_let_in(self, connected: _Connected) -> None:
        if connected.refusal is not None:
            who = "anybody" if self._server.user is None else f"`{self._server.user}`"
            raise _Refused(f"the MQTT server does not let {who} in: {connected.refusal}")

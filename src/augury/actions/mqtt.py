"""MQTT: an action as a message of a topic, by default at least once (QoS 1); needs the extra `mqtt`.

paho-mqtt has connections and a thread of its own, past the environment. The key is in the envelope.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from augury.actions.delivery import Again, Delivered, Delivery, Outcome, shortened, told
from augury.actions.envelope import envelope
from augury.actions.threads import Threads
from augury.environment import Environment


@dataclass(frozen=True, slots=True)
class MqttServer:
    """Where messages are handed over, and as whom."""

    host: str
    port: int
    user: str | None
    password: str | None


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
        self._client: Any = None
        self._connecting = asyncio.Lock()

    async def carry_out(self, delivery: Delivery, environment: Environment) -> Outcome:
        """Publish it, and wait for the server's word where there is one."""
        body = envelope(delivery, self._engine)
        try:
            async with self._connecting:
                if self._client is None:
                    self._client = await self._threads.run(self._connect, self._seconds)
            await self._threads.run(lambda: self._publish(body), self._seconds + 1)
        except TimeoutError:
            return Again(f"the MQTT server took longer than {self._seconds:g} s")
        except (OSError, RuntimeError, ValueError) as error:
            return Again(shortened(f"MQTT: {told(error)}"))
        return Delivered()

    async def close(self) -> None:
        """Let go of the server."""
        client, self._client = self._client, None
        if client is not None:
            client.disconnect()
            await asyncio.get_running_loop().run_in_executor(None, client.loop_stop)

    def _connect(self) -> Any:
        import paho.mqtt.client as mqtt
        from paho.mqtt.enums import CallbackAPIVersion

        client = mqtt.Client(CallbackAPIVersion.VERSION2)
        client.reconnect_delay_set(1, 30)
        if self._server.user is not None:
            client.username_pw_set(self._server.user, self._server.password)
        client.connect_timeout = self._seconds
        client.connect(self._server.host, self._server.port)
        client.loop_start()
        return client

    def _publish(self, body: bytes) -> None:
        import paho.mqtt.client as mqtt

        sent = self._client.publish(self._topic, body, qos=self._qos)
        if sent.rc not in (mqtt.MQTT_ERR_SUCCESS, mqtt.MQTT_ERR_NO_CONN):
            raise OSError(mqtt.error_string(sent.rc))
        sent.wait_for_publish(self._seconds)
        if not sent.is_published():
            raise TimeoutError

"""KAFKA: an action as a message of a topic, known to be kept by all replicas; needs the extra `kafka`.

The client of confluent-kafka has connections and threads of its own, past the environment. The key is that of the
event, so that actions of an event stay in order, unless the binding names another.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from augury.actions.delivery import Again, Dead, Delivered, Delivery, Outcome, shortened
from augury.actions.envelope import CONTENT_TYPE, envelope
from augury.environment import Environment
from augury.history.raw import whole_json


class Kafka:
    """Publishes to a topic."""

    def __init__(self, topic: str, servers: str, key: str | None, seconds: float, engine: str = "") -> None:
        """Take a topic; raises `ImportError`, with what to install."""
        try:
            import confluent_kafka  # noqa: F401
        except ImportError:
            raise ImportError("Kafka needs the package confluent-kafka: pip install 'augury[kafka]'") from None
        self.target = f"kafka {servers}"
        self._topic, self._key, self._seconds, self._engine = topic, key, seconds, engine
        self._servers = servers
        self._producer: Any = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="augury kafka", daemon=True)

    def _connect(self) -> None:
        """Look for the broker, once there is something to publish."""
        from confluent_kafka import Producer

        self._producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "enable.idempotence": True,
                "message.timeout.ms": int(self._seconds * 1_000),
                "linger.ms": 5,
                "logger": _quiet(),
            }
        )
        self._thread.start()

    async def carry_out(self, delivery: Delivery, environment: Environment) -> Outcome:
        """Publish it."""
        if self._producer is None:
            self._connect()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()

        def tell(error: Any, _: Any) -> None:
            loop.call_soon_threadsafe(lambda: None if done.done() else done.set_result(error))

        headers: list[tuple[str, str | bytes | None]] = [
            ("content-type", CONTENT_TYPE),
            ("idempotency-key", delivery.key),
        ]
        key = self._key if self._key is not None else f"{delivery.event} {whole_json(delivery.event_key)}"
        try:
            self._producer.produce(
                self._topic, value=envelope(delivery, self._engine), key=key.encode(), headers=headers, on_delivery=tell
            )
        except BufferError:
            return Again("too many messages wait for Kafka")
        async with asyncio.timeout(self._seconds + 5):
            error = await done
        if error is None:
            return Delivered()
        is_lasting = error.name() in ("MSG_SIZE_TOO_LARGE", "INVALID_MSG", "TOPIC_AUTHORIZATION_FAILED")
        reason = shortened(f"Kafka: {error.str()}")
        return Dead(reason) if is_lasting else Again(reason)

    async def close(self) -> None:
        """Let go of the broker."""
        self._is_over.set()
        if self._producer is None:
            return
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _poll(self) -> None:
        while not self._is_over.is_set():
            self._producer.poll(0.1)
        self._producer.flush(1.0)


def _quiet() -> Any:
    """What the client says of brokers that do not answer goes to a log, not to standard error."""
    import logging

    return logging.getLogger("augury.kafka")

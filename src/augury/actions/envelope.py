"""An action as a CloudEvent (1.0, structured JSON), and signed as Standard Webhooks say; and read again.

In: a delivery, keys, a time. Out: texts; or the other way round. `id` is the idempotency key and `source` the engine
with the class, so that whoever gets both twice knows: engines that saw the same events have the same keys.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from augury.actions.delivery import Delivery, delivery_of
from augury.clock import microseconds_of, show_time
from augury.history.json_lines import DECODER
from augury.history.raw import whole_json
from augury.local.store.waiting import Waiting

MEDIA_TYPE: Final = "application/cloudevents+json"
CONTENT_TYPE: Final = f"{MEDIA_TYPE}; charset=utf-8"
SECRET_PREFIX: Final = "whsec_"

ENGINE_NAME: Final = "[A-Za-z0-9_.-]{1,30}"
"""What an engine may be called: it goes into keys, for which there are 64 characters."""

SIGNED_SECONDS_MAX: Final = 300
"""How far the time of a signature may be from now, as Standard Webhooks propose: older ones may be sent by a thief."""


@dataclass(frozen=True, slots=True)
class Received:
    """An action as it came in: where from, and what."""

    source: str
    delivery: Delivery

    @property
    def sender(self) -> str:
        """Who has sent it, in few characters: the name of its engine; of anything else a digest of the source."""
        found = re.fullmatch(f"/augury/({ENGINE_NAME})/[^/]*", self.source)
        return found[1] if found else hashlib.sha256(self.source.encode("utf-8", "replace")).hexdigest()[:16]


def envelope(delivery: Delivery, engine: str = "") -> bytes:
    """The CloudEvent of an action of an engine, if that has a name."""
    of_engine = f"{engine}/" if engine else ""
    about = {
        "specversion": "1.0",
        "id": delivery.key,
        "source": f"/augury/{of_engine}{quote(delivery.event, safe='')}",
        "type": f"augury.action.{delivery.action}",
        "time": show_time(delivery.tick),
        "datacontenttype": "application/json",
        "data": delivery.data(),
    }
    if delivery.event_key:
        about["subject"] = whole_json(delivery.event_key)
    return whole_json(about).encode()


def received(body: bytes) -> Received:
    """The action in a CloudEvent that `envelope` made; raises `ValueError`, which says what is wrong."""
    try:
        about = DECODER.decode(body.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError("the body is not UTF-8") from None
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"the body is not JSON: {error}") from None
    match about:
        case {"specversion": "1.0", "id": str(key), "source": str(source), "data": dict(data)} if key and source:
            return Received(source, _delivery(key, data))
        case _:
            raise ValueError("the body is no CloudEvent 1.0 with id, source and data")


def _delivery(key: str, data: dict[str, Any]) -> Delivery:
    match data:
        case {
            "action": str(action),
            "arguments": list(arguments),
            "event": str(event),
            "key": dict(event_key),
            "tick": str(tick),
            "seq": int() | None as seq,
        }:
            tick_us = microseconds_of(datetime.fromisoformat(tick))
            # As a row of an outbox, so that numbers become what they are where the engine itself carries it out.
            row = Waiting(0, key, action, whole_json(arguments), event, whole_json(event_key), tick_us, seq)
            return delivery_of(row)
        case _:
            raise ValueError("the data is no action with action, arguments, event, key, tick and seq")


def signing_keys(secret: str) -> tuple[bytes, ...]:
    """The keys of a secret: `whsec_` and base64; several with spaces between, while one takes the place of another.

    Raises `ValueError`.
    """
    keys = []
    for part in secret.split():
        try:
            if not part.startswith(SECRET_PREFIX):
                raise ValueError
            keys.append(base64.b64decode(part.removeprefix(SECRET_PREFIX), validate=True))
        except (ValueError, binascii.Error):
            raise ValueError("a secret is `whsec_` with a key as base64 behind it") from None
    if not keys or not all(keys):
        raise ValueError("a secret is `whsec_` with a key as base64 behind it")
    return tuple(keys)


def signature(keys: tuple[bytes, ...], message_id: str, timestamp: int, body: bytes) -> str:
    """What `webhook-signature` says: one signature for each key."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digests = (hmac.new(key, signed, hashlib.sha256).digest() for key in keys)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def wrongly_signed(
    keys: tuple[bytes, ...], message_id: str, timestamp: str, signatures: str, body: bytes, now_us: int
) -> str | None:
    """Why what headers say is no signature of a body by one of the keys; None if it is one."""
    if not re.fullmatch("[0-9]{1,12}", timestamp):
        return "webhook-timestamp says no seconds"
    if abs(now_us // 1_000_000 - int(timestamp)) > SIGNED_SECONDS_MAX:
        return f"it was signed more than {SIGNED_SECONDS_MAX} s before or after now: do the clocks agree?"
    right = [one.encode() for one in signature(keys, message_id, int(timestamp), body).split()]
    given = [one.encode("utf-8", "replace") for one in signatures.split()]
    # All are compared, so that the time it takes tells nothing.
    same = [hmac.compare_digest(one, other) for one in given[:16] for other in right]
    return None if any(same) else "the signature is not one of the secret"

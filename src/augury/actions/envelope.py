"""An action as a CloudEvent (1.0, structured JSON), and signed as Standard Webhooks say.

In: a delivery, keys, a time. Out: texts. `id` is the idempotency key, so that whoever gets it twice knows.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final
from urllib.parse import quote

from augury.actions.delivery import Delivery
from augury.clock import show_time
from augury.history.raw import whole_json

CONTENT_TYPE: Final = "application/cloudevents+json; charset=utf-8"
SECRET_PREFIX: Final = "whsec_"


def envelope(delivery: Delivery) -> bytes:
    """The CloudEvent of an action."""
    about = {
        "specversion": "1.0",
        "id": delivery.key,
        "source": f"/augury/{quote(delivery.event, safe='')}",
        "type": f"augury.action.{delivery.action}",
        "time": show_time(delivery.tick),
        "datacontenttype": "application/json",
        "data": delivery.data(),
    }
    if delivery.event_key:
        about["subject"] = whole_json(delivery.event_key)
    return whole_json(about).encode()


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

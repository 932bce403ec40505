"""WEBHOOK: an action is sent over HTTP as a CloudEvent, signed, with its idempotency key.

2xx is done; what may pass (408, 409, 425, 429, 5xx, no answer) is tried again, when Retry-After says so; everything
else is a dead letter. Redirects are not followed, and addresses that are not public are asked only where that is
allowed. What the other side says beyond its status is not waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from augury.actions.delivery import Again, Dead, Delivered, Delivery, HoldsNothing, Outcome, shortened
from augury.actions.envelope import CONTENT_TYPE, envelope, signature
from augury.environment import Environment, NotPublic, Request, Unreachable

_PASSES: Final = {408, 409, 425, 429}
_OF_TARGET: Final = {401, 402, 403, 404, 405, 407, 410, 421, 451}
"""What is refused because of where it was sent, not because of what was sent."""


def unusable(url: str) -> str | None:
    """Why a URL is none for a webhook; None if it is one."""
    try:
        parts = urlsplit(url)
        is_fine = parts.scheme.lower() in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_fine = False
    return None if is_fine else f"`{url}` is no URL of a webhook: write https://HOST/PATH"


@dataclass(frozen=True)
class Webhook(HoldsNothing):
    """Sends actions to a URL."""

    url: str
    seconds: float
    headers: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[bytes, ...] = ()
    is_public: bool = True

    @property
    def target(self) -> str:
        """Scheme, host and port."""
        parts = urlsplit(self.url)
        return f"{parts.scheme.lower()}://{parts.netloc.rpartition('@')[2].lower()}"

    async def carry_out(self, delivery: Delivery, environment: Environment) -> Outcome:
        """Send it."""
        try:
            answer = await environment.network.request(self._request(delivery, environment.now_us()))
        except NotPublic as error:
            allow = "allow it by `private_targets = true` under [actions] in augury.toml"
            return Dead(f"{error}: {allow}", is_target=True)
        except Unreachable as error:
            return Again(shortened(str(error)))
        return outcome_of(answer.status, answer.headers, environment.now_us())

    def _request(self, delivery: Delivery, now_us: int) -> Request:
        body, seconds = envelope(delivery), now_us // 1_000_000
        headers = {
            **self.headers,
            "content-type": CONTENT_TYPE,
            "user-agent": "augury",
            "idempotency-key": delivery.key,
            "webhook-id": delivery.key,
            "webhook-timestamp": str(seconds),
        }
        if self.keys:
            headers["webhook-signature"] = signature(self.keys, delivery.key, seconds, body)
        return Request("POST", self.url, headers, body, self.seconds, answer_bytes_max=0, is_public=self.is_public)


def outcome_of(status: int, headers: Mapping[str, str], now_us: int) -> Outcome:
    """What an answer means."""
    if 200 <= status < 300:
        return Delivered()
    reason = f"answered {status}{_phrase(status)}"
    if status in _PASSES or status >= 500:
        return Again(reason, retry_after(headers.get("retry-after"), now_us))
    if 300 <= status < 400:
        where = headers.get("location")
        to = f" to {where}" if where else ""
        return Dead(shortened(f"{reason}{to}: redirects are not followed, bind the action to where it is"), True)
    return Dead(reason, is_target=status in _OF_TARGET)


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


def retry_after(text: str | None, now_us: int) -> float | None:
    """How many seconds `Retry-After` asks for, in seconds or as a date; None where it says nothing that can be read."""
    if text is None:
        return None
    if text.strip().isdecimal():
        return float(text[:12])
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, zoned.timestamp() - now_us / 1_000_000)

"""WEBHOOK: an action is sent over HTTP as a CloudEvent, signed, with its idempotency key.

2xx is done; what may pass (408, 409, 425, 429, 5xx, no answer) is tried again, when Retry-After says so; everything
else is a dead letter. Redirects are not followed, and addresses that are not public are asked only where that is
allowed. What the other side says beyond its status is not waited for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from augury.actions.delivery import Again, Dead, Delivered, Delivery, HoldsNothing, Outcome, shortened
from augury.actions.envelope import CONTENT_TYPE, envelope, signature
from augury.environment import Environment, NotPublic, NotTrusted, Request, Response, Unreachable

PROBLEM_TYPE: Final = "application/problem+json"
_PROBLEM_BYTES_MAX: Final = 8_192

_PASSES: Final = {408, 409, 425, 429}
_OF_TARGET: Final = {401, 402, 403, 404, 405, 407, 410, 421, 451}
"""What is refused because of where it was sent, not because of what was sent."""
_LETS_NOBODY_IN: Final = {401, 403, 407}
"""What is refused because of who sent it: a secret or a token is wrong, and stays so until somebody mends it."""


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
    engine: str = ""
    networks: tuple[str, ...] = field(default=(), kw_only=True)

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
            allow = "allow it by `private_targets = true`, or a list of networks, under [actions] in augury.toml"
            return Dead(f"{error}: {allow}", is_target=True)
        except Unreachable as error:
            return Again(shortened(str(error)), is_refusal=isinstance(error, NotTrusted))
        return self._outcome(answer, environment.now_us())

    def _outcome(self, answer: Response, now_us: int) -> Outcome:
        return outcome_of(answer.status, answer.headers, now_us)

    def _request(self, delivery: Delivery, now_us: int) -> Request:
        body, seconds = envelope(delivery, self.engine), now_us // 1_000_000
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
        return Request(
            "POST",
            self.url,
            headers,
            body,
            self.seconds,
            answer_bytes_max=0,
            is_public=self.is_public,
            networks=self.networks,
        )


@dataclass(frozen=True)
class ExecutorProcess(Webhook):
    """Sends the actions of a name to a process that carries them out (`augury act`), and hears why it did not.

    What is bound there to one action may be dead while the rest is well, so each action is a target.
    """

    action: str = ""

    @property
    def target(self) -> str:
        """The process, and the action."""
        return f"{super().target} {self.action}"

    def _request(self, delivery: Delivery, now_us: int) -> Request:
        return replace(super()._request(delivery, now_us), answer_bytes_max=_PROBLEM_BYTES_MAX)

    def _outcome(self, answer: Response, now_us: int) -> Outcome:
        reason = _detail(answer)
        outcome = super()._outcome(answer, now_us)
        if reason is None or isinstance(outcome, Delivered):
            return outcome
        return replace(outcome, reason=reason)


def _detail(answer: Response) -> str | None:
    """What a problem document (RFC 9457) says."""
    if not answer.headers.get("content-type", "").startswith(PROBLEM_TYPE):
        return None
    try:
        said = json.loads(answer.body)
    except ValueError:  # cut off, or no JSON: the status says enough
        return None
    detail = said.get("detail") if isinstance(said, dict) else None
    return shortened(detail) if isinstance(detail, str) else None


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
    return Dead(reason, is_target=status in _OF_TARGET, is_refusal=status in _LETS_NOBODY_IN)


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

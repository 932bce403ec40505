"""MAIL: an action as a message to an address. smtplib talks to the server itself, in a thread, past the environment.

The Message-ID is made of the idempotency key, so that a mailbox that gets it twice can tell. What a server says may
repeat what it was sent: the password is taken out of reasons.
"""

from __future__ import annotations

import smtplib
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from enum import Enum, auto
from typing import Final

from augury.actions.delivery import Again, Dead, Delivered, Delivery, HoldsNothing, Outcome, shortened
from augury.actions.threads import Threads
from augury.clock import show_time
from augury.environment import Environment
from augury.history.raw import whole_json

SUBMISSION_TLS_PORT: Final = 465
_TLS_SCHEME: Final = "smtps://"
_NO_LOGIN_CODES: Final = frozenset({530, 534, 535, 538})
"""What servers answer who let nobody in, RFC 4954; 454 is a failure of the server, which passes."""


class Encrypted(Enum):
    """When a connection is encrypted."""

    NEVER = auto()
    ON_REQUEST = auto()
    """After STARTTLS, before anything else is said."""
    FROM_START = auto()


@dataclass(frozen=True, slots=True)
class MailServer:
    """Where mail is handed over, and as whom."""

    host: str
    port: int
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    encrypted: Encrypted = Encrypted.NEVER


def mail_server(said: str, port: int | None, user: str | None, password: str | None, tls: bool) -> MailServer:
    """A server as options name it, by its host or as `smtps://host`; raises `ValueError`, with a sentence."""
    is_wrapped = said.startswith(_TLS_SCHEME) or (tls and port == SUBMISSION_TLS_PORT)
    host = said.removeprefix(_TLS_SCHEME)
    if not host or "/" in host:
        raise ValueError(f"`{said}` is no mail server: say its host, or {_TLS_SCHEME}host")
    if not f"{user}{password}".isascii():
        raise ValueError("`user` and `password` of MAIL have letters of ASCII only: others cannot be sent")
    if is_wrapped:
        return MailServer(host, port or SUBMISSION_TLS_PORT, user, password, Encrypted.FROM_START)
    return MailServer(host, port or 25, user, password, Encrypted.ON_REQUEST if tls else Encrypted.NEVER)


class Mail(HoldsNothing):
    """Sends messages."""

    def __init__(
        self, to: str, sender: str, subject: str | None, server: MailServer, places: int, seconds: float
    ) -> None:
        """Take addresses and a server; nothing is opened."""
        self.target = f"mail {server.host}:{server.port}"
        self._to, self._sender, self._subject, self._server = to, sender, subject, server
        self._threads, self._seconds = Threads(places), seconds

    async def carry_out(self, delivery: Delivery, environment: Environment) -> Outcome:
        """Send it."""
        letter = self._letter(delivery, environment.now_us())
        try:
            await self._threads.run(lambda: self._send(letter), self._seconds)
        except smtplib.SMTPRecipientsRefused as error:
            return self._refused(*next(iter(error.recipients.values())))
        except smtplib.SMTPResponseException as error:
            return self._refused(error.smtp_code, error.smtp_error)
        except smtplib.SMTPNotSupportedError as error:
            return Dead(shortened(str(error)), is_target=True)
        except ssl.SSLCertVerificationError as error:
            return Again(f"the mail server's certificate is not to be trusted: {error.verify_message}", None, True)
        except TimeoutError:
            return Again(f"the mail server took longer than {self._seconds:g} s")
        except (OSError, smtplib.SMTPException) as error:
            return Again(shortened(self._without_password(str(error) or type(error).__name__)))
        return Delivered()

    def _refused(self, code: int, said: bytes | str) -> Outcome:
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
        words = self._without_password(" ".join(text.split()))
        if code in _NO_LOGIN_CODES:
            who = "anybody" if self._server.user is None else f"`{self._server.user}`"
            return Again(shortened(f"the mail server does not let {who} in: {code} {words}"), None, True)
        reason = shortened(f"the mail server answered {code}: {words}")
        return Dead(reason) if code >= 500 else Again(reason)

    def _without_password(self, text: str) -> str:
        return text.replace(self._server.password, "***") if self._server.password else text

    def _letter(self, delivery: Delivery, now_us: int) -> EmailMessage:
        letter = EmailMessage()
        letter["From"], letter["To"] = self._sender, self._to
        letter["Subject"] = self._subject or f"{delivery.action}: {delivery.event}"
        letter["Date"] = format_datetime(datetime.fromtimestamp(now_us // 1_000_000, UTC))
        letter["Message-ID"] = f"<{delivery.key}@augury.invalid>"
        letter["Auto-Submitted"] = "auto-generated"
        said = "\n".join(one if isinstance(one, str) else whole_json(one) for one in delivery.arguments)
        about = f"{delivery.event} {whole_json(delivery.event_key)}, at {show_time(delivery.tick)}"
        letter.set_content(f"{said}\n\n-- \n{about}\n")
        return letter

    def _send(self, letter: EmailMessage) -> None:
        server = self._server
        secure = None if server.encrypted is Encrypted.NEVER else ssl.create_default_context()
        connection = (
            smtplib.SMTP_SSL(server.host, server.port, timeout=self._seconds, context=secure)
            if server.encrypted is Encrypted.FROM_START
            else smtplib.SMTP(server.host, server.port, timeout=self._seconds)
        )
        with connection:
            if server.encrypted is Encrypted.ON_REQUEST:
                connection.starttls(context=secure)
            if server.user is not None:
                connection.login(server.user, server.password or "")
            connection.send_message(letter)

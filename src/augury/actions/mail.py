"""MAIL: an action as a message to an address. smtplib talks to the server itself, in a thread, past the environment.

The Message-ID is made of the idempotency key, so that a mailbox that gets it twice can tell.
"""

from __future__ import annotations

import smtplib
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Final

from augury.actions.delivery import Again, Dead, Delivered, Delivery, HoldsNothing, Outcome, shortened
from augury.actions.threads import Threads
from augury.clock import show_time
from augury.environment import Environment
from augury.history.raw import whole_json

SUBMISSION_TLS_PORT: Final = 465
"""Where a connection is encrypted from the start; elsewhere `tls` asks for it with STARTTLS."""


@dataclass(frozen=True, slots=True)
class MailServer:
    """Where mail is handed over, and as whom."""

    host: str
    port: int
    user: str | None
    password: str | None
    tls: bool


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
            return _refused(next(iter(error.recipients.values())))
        except smtplib.SMTPAuthenticationError as error:
            return Dead(shortened(f"the mail server lets nobody in: {_said(error.smtp_error)}"), is_target=True)
        except smtplib.SMTPResponseException as error:
            return _refused((error.smtp_code, error.smtp_error))
        except smtplib.SMTPNotSupportedError as error:
            return Dead(shortened(str(error)), is_target=True)
        except TimeoutError:
            return Again(f"the mail server took longer than {self._seconds:g} s")
        except (OSError, smtplib.SMTPException) as error:
            return Again(shortened(str(error) or type(error).__name__))
        return Delivered()

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
        is_wrapped = server.tls and server.port == SUBMISSION_TLS_PORT
        secure = ssl.create_default_context() if server.tls else None
        connection = (
            smtplib.SMTP_SSL(server.host, server.port, timeout=self._seconds, context=secure)
            if is_wrapped
            else smtplib.SMTP(server.host, server.port, timeout=self._seconds)
        )
        with connection:
            if server.tls and not is_wrapped:
                connection.starttls(context=secure)
            if server.user is not None:
                connection.login(server.user, server.password or "")
            connection.send_message(letter)


def _refused(answer: tuple[int, bytes | str]) -> Outcome:
    code, said = answer
    reason = shortened(f"the mail server answered {code}: {_said(said)}")
    return Dead(reason) if code >= 500 else Again(reason)


def _said(text: bytes | str) -> str:
    return " ".join((text.decode("utf-8", "replace") if isinstance(text, bytes) else text).split())

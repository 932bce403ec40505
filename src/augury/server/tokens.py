"""Tokens that let somebody ask a server, and what each may do: made, listed, revoked, and known again.

In: a file of tokens. Out: who a token belongs to. The file holds no token, only a salted digest of each: tokens are
random and long, so that nothing slower than SHA-256 is needed. It is looked at anew whenever it changes.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from augury.server.given import CannotServe, tokens_beside

_BEGINNING: Final = "aug"
_ID_BYTES: Final = 6
_SECRET_BYTES: Final = 32
_FORMAT: Final = 1


FIRST: Final = "owner"
"""What the token is called that a server makes when it is started first."""


class Role(StrEnum):
    """What a token may do."""

    POST = "post"
    READ = "read"
    DEFINE = "define"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks; an admin may do everything."""

    name: str
    roles: frozenset[Role]

    def may(self, role: Role) -> bool:
        """Whether it may do what a role may."""
        return role in self.roles or Role.ADMIN in self.roles


ANYBODY_HERE: Final = Caller("", frozenset({Role.POST, Role.READ}))
"""Whoever asks without a token what is open, on this machine only: programs and operation need a token."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is kept: `id` is its first part, `digest` that of its salt and its secret part."""

    id: str
    name: str
    roles: tuple[Role, ...]
    salt: str
    digest: str


def add_token(path: Path, name: str, roles: tuple[Role, ...]) -> str:
    """Make a token of a name that has none; gives it, for the only time. Raises `CannotServe`."""
    if not name or not name.isprintable():
        raise CannotServe("a token has a name, by which it is revoked")
    if not roles:
        raise CannotServe(f"say what `{name}` may do: --role post, read, define or admin")
    with _alone(path):
        known = read_tokens(path) if path.exists() else ()
        if any(one.name == name for one in known):
            raise CannotServe(f"there is a token called `{name}` already: revoke it first, or choose another name")
        id_, secret, salt = secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES), secrets.token_hex(16)
        made = Token(id_, name, tuple(sorted(set(roles))), salt, _digest(salt, secret))
        _write(path, (*known, made))
    return f"{_BEGINNING}_{id_}_{secret}"


def first_token(path: Path) -> str | None:
    """Make a token that may do everything where there is no file of tokens yet; else None. Raises `CannotServe`."""
    if path.exists():
        return None
    try:
        return add_token(path, FIRST, (Role.ADMIN,))
    except CannotServe:
        if not path.exists():
            raise
        return None  # another made it meanwhile


def revoke_token(path: Path, name: str) -> None:
    """Let a token be none; a server that runs knows at the next request. Raises `CannotServe`."""
    with _alone(path):
        known = read_tokens(path)
        left = tuple(one for one in known if one.name != name)
        if len(left) == len(known):
            raise CannotServe(f"there is no token called `{name}`: `augury token ls` names them all")
        _write(path, left)


def read_tokens(path: Path) -> tuple[Token, ...]:
    """The tokens of a file; raises `CannotServe`."""
    try:
        found = json.loads(path.read_text("utf-8"))
        if found["format"] != _FORMAT:
            raise ValueError(f"it has format {found['format']}, and this version of Augury reads {_FORMAT}")
        return tuple(_token(row) for row in found["tokens"])
    except OSError as error:
        raise CannotServe(f"the tokens `{path}` cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise CannotServe(f"`{path}` is no file of tokens: {error}") from None


class Tokens:
    """The tokens of a file as a server asks for them; where the file cannot be read, nobody is let in."""

    def __init__(self, path: Path, *, may_be_missing: bool = False) -> None:
        """Read the file; raises `CannotServe`. One that may be missing lets nobody in until it is made."""
        self.path = path
        self._seen = _mark(path)
        self._by_id = {} if may_be_missing and not self._seen else _by_id(read_tokens(path))

    def caller(self, given: str) -> Caller | None:
        """Who has this token; None for nobody."""
        self._look()
        _, _, rest = given.partition("_")
        id_, _, secret = rest.partition("_")
        known = self._by_id.get(id_)
        # A token that is not there takes as long as one with another secret.
        salt, digest = (known.salt, known.digest) if known else ("", "")
        is_right = hmac.compare_digest(_digest(salt, secret), digest)
        return Caller(known.name, frozenset(known.roles)) if known and is_right else None

    def _look(self) -> None:
        mark = _mark(self.path)
        if mark != self._seen:
            try:
                self._by_id = _by_id(read_tokens(self.path))
            except CannotServe:
                self._by_id = {}
            self._seen = mark


def tokens_of(path: Path | None, store: str, *, is_open: bool) -> Tokens | None:
    """Whom a server lets in: the tokens of a file that is named, or of the one beside its store, there or not yet.

    None only for who is open, and has a store with nothing beside it. Raises `CannotServe`.
    """
    if path is not None:
        return Tokens(path)
    if (found := tokens_beside(store)) is not None:
        return Tokens(found, may_be_missing=True)
    if is_open:
        return None
    raise CannotServe(
        "name a file of tokens, for there is no place beside this store: "
        "`augury token add NAME --role admin --tokens FILE` makes one, and --tokens FILE names it"
    )


def _digest(salt: str, secret: str) -> str:
    return hashlib.sha256(f"{salt}:{secret}".encode("utf-8", "surrogatepass")).hexdigest()


def _by_id(tokens: tuple[Token, ...]) -> Mapping[str, Token]:
    return {one.id: one for one in tokens}


def _mark(path: Path) -> tuple[int, ...]:
    """What tells a file from the one that takes its place."""
    try:
        about = path.stat()
    except OSError:
        return ()
    return about.st_ino, about.st_mtime_ns, about.st_size


def _token(row: Mapping[str, object]) -> Token:
    texts = {name: row[name] for name in ("id", "name", "salt", "digest")}
    roles = row["roles"]
    if not all(isinstance(text, str) for text in texts.values()) or not isinstance(roles, list):
        raise ValueError("a token has an id, a name, roles, a salt and a digest")
    return Token(roles=tuple(Role(role) for role in roles), **{name: str(text) for name, text in texts.items()})


def _write(path: Path, tokens: tuple[Token, ...]) -> None:
    """Put the file in its place as a whole; only its owner may read it."""
    aside = path.with_name(f"{path.name}.{os.getpid()}.new")
    content = json.dumps({"format": _FORMAT, "tokens": [asdict(one) for one in tokens]}, indent=1)
    try:
        aside.unlink(missing_ok=True)
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(content + "\n")
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        raise CannotServe(f"the tokens `{path}` cannot be written: {error.strerror}") from None


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let nobody else change the file meanwhile."""
    try:
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise CannotServe(f"the tokens `{path}` cannot be written: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)

"""Bytes that a kernel's state is kept in: what they are, a format version, a fingerprint and a checksum, then content.

In: the content, and whose it is. Out: bytes; and the content again, or why it cannot be had. It knows no state.
"""

from __future__ import annotations

import hashlib
import json


class UnfitState(ValueError):
    """Bytes that are no state of this detector; the message says why."""


def sealed(operator: str, version: int, fingerprint: str, content: bytes) -> bytes:
    """The state of an operator, MATCH or COMPOSITE, as bytes."""
    header = {"format": version, "fingerprint": fingerprint, "checksum": hashlib.sha256(content).hexdigest()}
    return _magic(operator) + json.dumps(header).encode() + b"\n" + content


def unsealed(operator: str, version: int, fingerprint: str, data: bytes) -> bytes:
    """The content; raises `UnfitState` for what is damaged, of another format or of another expression."""
    if not data.startswith(_magic(operator)):
        raise UnfitState(f"this is no state of a {operator}")
    line, found, content = data[len(_magic(operator)) :].partition(b"\n")
    try:
        header = json.loads(line)
    except ValueError:
        raise UnfitState("the header of the state is damaged") from None
    if not isinstance(header, dict) or not {"format", "checksum", "fingerprint"} <= header.keys():
        raise UnfitState("the header of the state is damaged")
    if header["format"] != version:
        raise UnfitState(f"the state has format {header['format']}; this version reads format {version}")
    if not found or hashlib.sha256(content).hexdigest() != header["checksum"]:
        raise UnfitState("the state is damaged: its checksum does not fit")
    if header["fingerprint"] != fingerprint:
        raise UnfitState("the state belongs to another expression")
    return content


def _magic(operator: str) -> bytes:
    return f"augury {operator.lower()} state\n".encode()

"""A folder of HDFS, over its own HTTP interface: from drivers and tasks alike, without Java or a library of Hadoop's.

In: what `storage.Storage` asks for, and `webhdfs://namenode:port/path`, or `hdfs://…` where AUGURY_WEBHDFS says which
address that interface has. Out: files that appear as a whole. A file that has to be new is written under another name
and renamed, which a namenode refuses where there is one. Users are told by name, as where there is no Kerberos.
"""

from __future__ import annotations

import contextlib
import getpass
import http.client
import json
import os
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import pyarrow as pa

from augury.lake.errors import NoLake
from augury.lake.storage import UNFINISHED, Found, failing

SCHEME: Final = "webhdfs"
OF_HADOOP: Final = "hdfs"
ADDRESS: Final = "AUGURY_WEBHDFS"
"""The variable with the address of the interface, http://namenode:9870, for paths as Hadoop itself has them."""

_TIMEOUT_SECONDS: Final = 120.0
_ABSENT: Final = "FileNotFoundException"


def web_hdfs(root: str) -> WebHdfs | None:
    """The folder of a URI; None for other kinds, and for `hdfs://` where nobody says which address its interface has.

    Raises `NoLake` where it names no namenode or no folder.
    """
    said, address = urlsplit(root), os.environ.get(ADDRESS)
    if said.scheme != SCHEME and (said.scheme != OF_HADOOP or address is None):
        return None
    at = f"http://{said.netloc}" if said.scheme == SCHEME or address is None else address.rstrip("/")
    if not urlsplit(at).netloc or not said.path.strip("/"):
        example = f"{SCHEME}://namenode:9870/folder, or {OF_HADOOP}://namenode:8020/folder with {ADDRESS}=http://…:9870"
        raise NoLake(f"`{root}` cannot be reached: write {example}")
    user = os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    # As Hadoop does it: what stands in a path is meant as it stands there.
    folder = root.partition("://")[2].partition("/")[2].strip("/")
    return WebHdfs(root.rstrip("/"), f"{at}/webhdfs/v1", f"/{folder}", user)


@dataclass(frozen=True, slots=True)
class WebHdfs:
    """A folder of HDFS."""

    root: str
    service: str
    folder: str
    user: str

    def full(self, path: str) -> str:
        """The path as other programs take it."""
        return f"{self.root}/{path}" if path else self.root

    def read(self, path: str) -> bytes:
        """The content; raises `FileNotFoundError`."""
        with failing(self.root, "read", path):
            return self._call("GET", "OPEN", path)

    def open(self, path: str) -> Any:
        """The file, for pyarrow to read; raises `FileNotFoundError`."""
        return pa.BufferReader(self.read(path))

    def write(self, path: str, content: bytes | memoryview) -> None:
        """Write a file of a name that nobody else has."""
        with failing(self.root, "write", path):
            self._put(path, content)

    def create(self, path: str, content: bytes) -> bool:
        """Write a file under another name, and rename it, which fails where there is one."""
        folder, _, _ = path.rpartition("/")
        unfinished = "/".join(part for part in (folder, f"{UNFINISHED}{uuid.uuid4().hex}") if part)
        with failing(self.root, "write", path):
            self._put(unfinished, content)
            try:
                done = json.loads(self._call("PUT", "RENAME", unfinished, destination=self._at(path)))["boolean"]
            except BaseException:
                with contextlib.suppress(OSError):
                    self._call("DELETE", "DELETE", unfinished)
                raise
            if done:
                return True
            self._call("DELETE", "DELETE", unfinished)
            if self._status(path) is None:
                raise OSError("the namenode did not rename it, and says no more")
            return False

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        with failing(self.root, "read", path):
            found = self._status(path)
            return found is not None and found["type"] == "FILE"

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, unfinished ones left out."""
        found = [one["pathSuffix"] for one in self._listed(folder) if one["type"] == "FILE"]
        return [name for name in found if name and not name.startswith(UNFINISHED)]

    def walk(self, folder: str = "") -> Iterator[Found]:
        """All files below a folder; what is removed meanwhile is left out."""
        for one in self._listed(folder):
            path = "/".join(part for part in (folder, one["pathSuffix"]) if part)
            if one["type"] == "DIRECTORY":
                yield from self.walk(path)
            else:
                yield Found(path, one["length"], one["modificationTime"] / 1000)

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        with failing(self.root, "remove", path):
            self._call("DELETE", "DELETE", path)

    def require_exclusive(self) -> None:
        """A rename does it."""

    # ---- calls -----------------------------------------------------------------------------------

    def _at(self, path: str) -> str:
        return f"{self.folder}/{path}" if path else self.folder

    def _listed(self, folder: str) -> list[dict[str, Any]]:
        with failing(self.root, "read", folder):
            try:
                told = json.loads(self._call("GET", "LISTSTATUS", folder))
            except FileNotFoundError:
                return []
            found: list[dict[str, Any]] = told["FileStatuses"]["FileStatus"]
            return found

    def _status(self, path: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._call("GET", "GETFILESTATUS", path))["FileStatus"]
        except FileNotFoundError:
            return None
        return found

    def _put(self, path: str, content: bytes | memoryview) -> None:
        """The namenode says which datanode takes it; folders above it are made."""
        told = self._call("PUT", "CREATE", path, overwrite="false", noredirect="true")
        _answer("PUT", json.loads(told)["Location"], bytes(content))

    def _call(self, method: str, op: str, path: str, **more: str) -> bytes:
        asked = urlencode({"op": op, "user.name": self.user, **more})
        return _answer(method, f"{self.service}{quote(self._at(path))}?{asked}", None)


def _answer(method: str, url: str, body: bytes | None) -> bytes:
    """What the server answers; raises `FileNotFoundError` and `OSError` with what it says."""
    headers = {} if body is None else {"Content-Type": "application/octet-stream"}
    request = urllib.request.Request(url, data=body, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
            content: bytes = answer.read()
            return content
    except urllib.error.HTTPError as error:
        with error:
            name, message = _said(error.read())
        if name == _ABSENT:
            raise FileNotFoundError(message) from None
        raise OSError(message or f"HTTP {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise OSError(str(error.reason)) from None
    except http.client.HTTPException as error:
        raise OSError(f"the answer broke off: {error!r}") from None


def _said(content: bytes) -> tuple[str, str]:
    """The name and the message of what a server of Hadoop's raised."""
    try:
        told = json.loads(content)["RemoteException"]
        return str(told["exception"]), f"{told['exception']}: {str(told.get('message')).splitlines()[0]}"
    except (ValueError, KeyError, TypeError, IndexError):
        return "", ""

"""Objects of S3, and of what speaks like it, created only where there are none: by a PUT with `If-None-Match: *`.

In: full paths of a lake and bytes. Out: whether they were written. The store itself decides between two that race; one
that does not heed the condition is found out at the first object, and refused. Who may write, and where the store is,
comes from the variables and files of AWS, as pyarrow reads them, or from the URI.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from augury.lake.errors import NeedsExclusive

Surroundings = tuple[int, tuple[tuple[str, str], ...]]

_THERE: Final = 412
_RACING: Final = 409
_UNKNOWN: Final = 501
_TRIES: Final = 6
_WAIT_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class S3Create:
    """Creates objects below a root, which pyarrow calls `base`: a bucket and the beginning of keys."""

    root: str
    base: str
    endpoint: str | None = None
    region: str | None = None

    def create(self, path: str, content: bytes) -> bool:
        """Write an object unless there is one at that full path; says whether it was written."""
        put, place = self._put(path), (surroundings(), self.endpoint, self.base.partition("/")[0])
        if not put(content):
            return False
        if place not in _HEEDS:
            # The same bytes once more: a store that takes them would take those of anybody else, too.
            if put(content):
                raise NeedsExclusive(
                    f"`{self.root}` cannot be written: its store takes a PUT with `If-None-Match: *` though the object "
                    "is there, so writers would overwrite each other's commits. Take a store with conditional writes"
                )
            _HEEDS.add(place)
        return True

    def _put(self, path: str) -> Callable[[bytes], bool]:
        bucket, _, key = f"{self.base}{path.removeprefix(self.root)}".partition("/")
        client = _client(surroundings(), self.endpoint, self.region)
        return lambda content: _written(client, self.root, bucket, key, content)


_HEEDS: Final[set[tuple[Surroundings, str | None, str]]] = set()
"""Where it was seen that a second PUT is refused."""


def surroundings() -> Surroundings:
    """What a connection depends on beside its path: this process, for none outlives a fork, and what AWS is told."""
    return os.getpid(), tuple(sorted(one for one in os.environ.items() if one[0].startswith("AWS_")))


def s3_create(root: str, base: str) -> S3Create | None:
    """What creates objects below a URI, with the endpoint and region that it may say; None without `botocore`."""
    if find_spec("botocore") is None:
        return None
    said = {name: values[-1] for name, values in parse_qs(urlsplit(root).query).items()}
    endpoint = said.get("endpoint_override")
    if endpoint is not None and "://" not in endpoint:
        endpoint = f"{said.get('scheme', 'https')}://{endpoint}"
    return S3Create(root.partition("?")[0].rstrip("/"), base, endpoint, said.get("region"))


def _written(client: Any, root: str, bucket: str, key: str, content: bytes) -> bool:
    """Whether a conditional PUT was taken; raises `OSError` for what can be tried again, and `NeedsExclusive`."""
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

    for tried in range(_TRIES):
        try:
            client.put_object(Bucket=bucket, Key=key, Body=content, IfNoneMatch="*")
            return True
        except ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if status == _THERE:
                return False
            if status == _UNKNOWN:
                told = "its store knows no PUT with `If-None-Match: *`"
                raise NeedsExclusive(f"`{root}` cannot be written: {told}. Take one with conditional writes") from error
            # Somebody else is writing the same object: who of the two was first is known only afterwards.
            if status != _RACING or tried == _TRIES - 1:
                raise OSError(str(error)) from error
        except BotoCoreError as error:
            raise OSError(str(error)) from error
        time.sleep(_WAIT_SECONDS * 2**tried)
    raise AssertionError("the last try returns or raises")


@lru_cache(maxsize=16)
def _client(_around: Surroundings, endpoint: str | None, region: str | None) -> Any:
    """A client, which is kept: to make one takes longer than to use it."""
    import botocore.session  # type: ignore[import-untyped]
    from botocore.config import Config  # type: ignore[import-untyped]

    config = Config(retries={"mode": "standard", "max_attempts": 5}, connect_timeout=10, read_timeout=60)
    return botocore.session.get_session().create_client("s3", endpoint_url=endpoint, region_name=region, config=config)

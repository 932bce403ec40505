"""What a program says about its detectors → detectors that can be run.

In: a checked program (or detections of one's own), the environment. Out: `Detector` values. Settings are resolved here,
environment variables among them; a detector that can never work raises `BadDetector`, before anything is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from augury import limits
from augury.algebra.program import Program
from augury.algebra.wiring import Detection, FromEnvironment, Length, SourceKind
from augury.clock import parse_duration
from augury.detectors.asking import Asked, Reader, shown
from augury.detectors.buffer import Rule
from augury.detectors.folder import Folder
from augury.detectors.following import FileTail
from augury.detectors.function import Function, FunctionSource, function_named
from augury.detectors.rows import FORMATS
from augury.detectors.sensor import BadDetector, Polled, Pushed, Sensor
from augury.detectors.shape import shape_of
from augury.environment import Environment
from augury.event import key_of

if TYPE_CHECKING:
    from augury.detectors.pages import Form

_FOLLOWED_EVERY_SECONDS: Final = 1.0
"""How often a file is looked at that does not say so."""

_HTTP_SECONDS: Final = 30.0

Plain = str | int | float | bool | Length


@dataclass(frozen=True, slots=True)
class Detector:
    """A detector: what it looks at and how often, and what it lets through. `source` tells its source from others."""

    name: str
    sensor: Sensor
    rule: Rule
    every_seconds: float
    source: str


def opened(
    program: Program,
    environment: Environment,
    detections: Sequence[Detection] | None = None,
    functions: Mapping[str, Function] | None = None,
) -> list[Detector]:
    """The detectors of a program, or others for its classes; raises `BadDetector`.

    `functions` are given by what a detection of kind PYTHON calls them, instead of `module:function`.
    """
    wanted = program.detections if detections is None else detections
    names = [key_of(one.name) for one in wanted]
    doubled = next((one.name for one in wanted if names.count(key_of(one.name)) > 1), None)
    if doubled is not None:
        raise BadDetector(f"two detectors are called `{doubled}`: name one with AS")
    return [_detector(program, one, environment, functions or {}) for one in wanted]


def _detector(
    program: Program, detection: Detection, environment: Environment, functions: Mapping[str, Function]
) -> Detector:
    try:
        settings = {name: _plain(value, environment) for name, value in detection.settings}
        source = str(_plain(detection.source, environment))
        sensor = _sensor(detection, source, settings, environment, functions)
        shape = shape_of(program, detection, paths=detection.kind is not SourceKind.HTML)
    except BadDetector as error:
        raise BadDetector(f"detector `{detection.name}`: {error}") from None
    if detection.withdraws and not shape.key:
        raise BadDetector(f"detector `{detection.name}`: what has no key cannot be withdrawn; give the class an ID")
    every = detection.every_us
    seconds = _FOLLOWED_EVERY_SECONDS if every is None else every / 1_000_000
    rule = Rule(detection.name, shape, detection.forward, detection.withdraws)
    # What an environment variable holds may be a secret, and is not written down: its name is.
    said = detection.source.variable if isinstance(detection.source, FromEnvironment) else detection.source
    return Detector(detection.name, sensor, rule, seconds, f"{detection.kind.value} {said}")


def _sensor(
    detection: Detection,
    source: str,
    settings: Mapping[str, Plain],
    environment: Environment,
    functions: Mapping[str, Function],
) -> Polled | Pushed:
    pages = _number(settings, "pages", limits.DETECTOR_PAGES)
    match detection.kind:
        case SourceKind.FILE:
            return FileTail(environment.files, source, _format(settings))
        case SourceKind.DIRECTORY:
            return Folder(environment.files, source, _format(settings))
        case SourceKind.HTTP:
            from augury.detectors.listing import JsonListing

            return JsonListing(_reader(source, settings, environment), detection.items, detection.next_page, pages)
        case SourceKind.HTML:
            from augury.detectors.pages import HtmlListing

            if not detection.items or not detection.fields:
                raise BadDetector("a page needs ITEMS and FIELDS: selectors of CSS, or of XPath after `xpath:`")
            reader = _reader(source, settings, environment)
            form = _form(settings)
            return HtmlListing(reader, detection.items, detection.fields, detection.next_page, pages, form)
        case SourceKind.FEED:
            from augury.detectors.feed import Feed

            return Feed(_reader(source, settings, environment))
        case SourceKind.SQL:
            from augury.detectors.query import Query

            if not detection.items:
                raise BadDetector("a database needs ITEMS 'SELECT …'")
            return Query(source, detection.items)
        case SourceKind.NATS:
            from augury.detectors.nats_stream import NatsStream

            url = _text(settings, "url") or "nats://localhost:4222"
            durable = _text(settings, "durable") or f"augury-{detection.name}"
            return NatsStream(source, url, durable, _text(settings, "stream"))
        case SourceKind.MQTT:
            return _mqtt(detection, source, settings)
        case SourceKind.PYTHON:
            return FunctionSource(functions.get(source) or function_named(source), source)


def _mqtt(detection: Detection, topic: str, settings: Mapping[str, Plain]) -> Pushed:
    from augury.detectors.mqtt_topics import Broker, MqttTopics

    qos = _number(settings, "qos", 1)
    if qos not in (0, 1):
        raise BadDetector(f"qos = {qos}: detectors take 0 or 1 (what comes twice is absorbed)")
    host, port = _text(settings, "host") or "localhost", _number(settings, "port", 1883)
    client = _text(settings, "client") or f"augury-{detection.name}"
    return MqttTopics(topic, Broker(host, port, client, qos, _text(settings, "user"), _text(settings, "password")))


def _reader(url: str, settings: Mapping[str, Plain], environment: Environment) -> Reader:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadDetector(f"`{shown(url)}` is no address: it begins with http:// or https://")
    prefix = "header_"
    headers = {
        name.removeprefix(prefix).replace("_", "-"): str(value)
        for name, value in settings.items()
        if name.startswith(prefix)
    }
    method = (_text(settings, "method") or "GET").upper()
    body = (_text(settings, "body") or "").encode()
    asked = Asked(url, method, body, headers, _seconds(settings, "timeout", _HTTP_SECONDS))
    return Reader(environment, asked)


def _form(settings: Mapping[str, Plain]) -> Form | None:
    from augury.detectors.pages import Form, selector

    prefix = "form_"
    values = {name.removeprefix(prefix): str(value) for name, value in settings.items() if name.startswith(prefix)}
    css = _text(settings, "form")
    if css is None and values:
        raise BadDetector("form_… fills in a form: say which, WITH (form = 'form#login', …)")
    return None if css is None else Form(selector(css, attribute=False), values)


# ---- settings --------------------------------------------------------------------------------------------


def _plain(value: str | float | bool | Length | FromEnvironment, environment: Environment) -> Plain:
    if not isinstance(value, FromEnvironment):
        return value
    found = environment.variables.get(value.variable)
    if found is None:
        raise BadDetector(f"the environment variable {value.variable} is not set")
    return found


def _text(settings: Mapping[str, Plain], name: str) -> str | None:
    value = settings.get(name)
    return None if value is None else str(value)


def _format(settings: Mapping[str, Plain]) -> str | None:
    wanted = _text(settings, "format")
    if wanted is not None and wanted.lower() not in FORMATS:
        raise BadDetector(f"format = {wanted}: there are {', '.join(FORMATS)}")
    return wanted


def _number(settings: Mapping[str, Plain], name: str, otherwise: int) -> int:
    value = settings.get(name, otherwise)
    try:
        found = int(str(value))
    except ValueError:
        raise BadDetector(f"{name} = {value}: say a whole number") from None
    if found < 0:
        raise BadDetector(f"{name} = {found}: say a number that is not negative")
    return found


def _seconds(settings: Mapping[str, Plain], name: str, otherwise: float) -> float:
    match settings.get(name):
        case None:
            return otherwise
        case Length(microseconds):
            return microseconds / 1_000_000
        case int() | float() as seconds:
            return float(seconds)
        case value:
            try:
                return parse_duration(value) / 1_000_000
            except ValueError:
                raise BadDetector(f"{name} = {value}: say a duration such as 10s") from None

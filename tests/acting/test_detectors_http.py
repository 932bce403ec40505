"""Listings over HTTP: JSON, HTML and feeds from a real server, with pages, forms, cookies, and answers that fail."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from augury import limits
from augury.algebra.wiring import Detection, Forward, FromEnvironment, Length, SourceKind
from augury.detectors.paths import BadPath
from augury.detectors.sensor import BadDetector, SourceFailed
from augury.environment import real
from tests.acting.sensing import Handler, Remembers, detection, made, running, serving, until

FIELD = (("amount", "a"),)
CHANGED: dict[str, Any] = {"forward": Forward.CHANGED, "withdraws": True}


def looked(
    folder: Path, routes: dict[str, Handler], wanted: Callable[[str], Detection], *steps: Callable[[], object]
) -> Remembers:
    """Look at a server once, and once more after every step; each look is by detectors that are started anew."""
    sink = Remembers()

    async def all_looks() -> None:
        async with serving(routes) as url, real() as environment:
            for step in (lambda: None, *steps):
                step()
                await made(folder, environment, [wanted(url)], {"engine": sink}).run_once()

    asyncio.run(all_looks())
    return sink


def page(content: object, kind: str = "application/json") -> Handler:
    async def handler(request: web.Request) -> web.Response:
        text = content if isinstance(content, str) else json.dumps(content)
        return web.Response(text=text, content_type=kind)

    return handler


# ---- JSON ------------------------------------------------------------------------------------------------


def test_items_and_fields_of_json(tmp_path: Path) -> None:
    items = [{"item": "milk", "size": {"amount": 2.50}, "due": "2026-01-02T10:00:00Z"}, {"item": "eggs"}, 7]
    sink = looked(
        tmp_path,
        {"/a.json": page({"deliveries": items})},
        lambda url: detection(
            SourceKind.HTTP,
            f"{url}/a.json",
            items="$.deliveries[*]",
            fields=(("resource", "item"), ("amount", "size.amount"), ("occ_time", "due")),
        ),
    )
    assert sink.values("event", "resource", "amount", "occ_time") == [
        ("Delivery", "milk", Decimal("2.5"), "2026-01-02T10:00:00Z"),
        ("Delivery", "eggs", None, None),
    ]
    assert json.loads(sink.lines[2]) == ["an item of the listing is no object", "7"]


def paged(stock: dict[str, int], is_broken: Sequence[bool] = ()) -> Handler:
    """A page for each item; the second can be broken."""

    async def handler(request: web.Request) -> web.Response:
        number = int(request.query.get("page", "0"))
        if number == 1 and is_broken:
            return web.Response(status=500)
        names = sorted(stock)
        more = f"?page={number + 1}" if number + 1 < len(names) else None
        items = [{"resource": name, "amount": stock[name]} for name in names[number : number + 1]]
        return web.json_response({"items": items, "next": more})

    return handler


def test_a_delta_over_pages_and_restarts(tmp_path: Path) -> None:
    stock: dict[str, int] = {"milk": 1, "eggs": 2, "salt": 3}

    def wanted(url: str) -> Detection:
        return detection(SourceKind.HTTP, f"{url}/a", items="$.items[*]", next_page="$.next", **CHANGED)

    sink = looked(
        tmp_path,
        {"/a": paged(stock)},
        wanted,
        lambda: None,
        lambda: stock.update(eggs=5),
        lambda: stock.pop("milk"),
        lambda: stock.clear(),
    )
    seen = [(e["resource"], e.get("amount", "gone")) for e in sink.events]
    assert seen[:5] == [("eggs", 2), ("milk", 1), ("salt", 3), ("eggs", 5), ("milk", "gone")]
    assert sorted(seen[5:]) == [("eggs", "gone"), ("salt", "gone")]


def test_a_delta_goes_on_over_restarts_behind_a_page_that_was_broken(tmp_path: Path) -> None:
    """While the second of three pages fails, what has gone meanwhile is not withdrawn; afterwards it is."""
    stock: dict[str, int] = {"eggs": 2, "milk": 1, "salt": 3}
    is_broken: list[bool] = []
    sink = Remembers()

    async def all_looks() -> None:
        async with serving({"/a": paged(stock, is_broken)}) as url, real() as environment:
            wanted = detection(SourceKind.HTTP, f"{url}/a", items="$.items[*]", next_page="$.next", **CHANGED)
            await made(tmp_path, environment, [wanted], {"engine": sink}).run_once()
            del stock["salt"]
            stock.update(eggs=5, milk=7)
            is_broken.append(True)
            for _ in range(2):
                with pytest.raises(SourceFailed, match="500"):
                    await made(tmp_path, environment, [wanted], {"engine": sink}).run_once()
            is_broken.clear()
            await made(tmp_path, environment, [wanted], {"engine": sink}).run_once()

    asyncio.run(all_looks())
    seen = [(e["resource"], e.get("amount", "gone")) for e in sink.events]
    assert seen == [("eggs", 2), ("milk", 1), ("salt", 3), ("eggs", 5), ("milk", 7), ("salt", "gone")]


def test_a_listing_that_breaks_off_withdraws_nothing(tmp_path: Path) -> None:
    broken: list[int] = []

    async def first(request: web.Request) -> web.Response:
        amount = 2 if broken else 1
        return web.json_response({"items": [{"resource": "milk", "amount": amount}], "next": "/b"})

    async def second(request: web.Request) -> web.Response:
        if broken:
            return web.Response(status=broken[0])
        return web.json_response({"items": [{"resource": "eggs", "amount": 1}]})

    sink, told = Remembers(), []

    async def all_looks() -> None:
        async with serving({"/a": first, "/b": second}) as url, real() as environment:
            wanted = detection(SourceKind.HTTP, f"{url}/a", items="$.items[*]", next_page="next", **CHANGED)
            await made(tmp_path, environment, [wanted], {"engine": sink}).run_once()
            broken.append(503)
            with pytest.raises(SourceFailed, match="breaks off"):
                await made(tmp_path, environment, [wanted], {"engine": sink}).run_once()
            told.extend(sink.values("resource", "amount"))
            broken.clear()
            await made(tmp_path, environment, [wanted], {"engine": sink}).run_once()

    asyncio.run(all_looks())
    assert told == [("milk", 1), ("eggs", 1), ("milk", 2)]  # what it showed counts, what it did not show does not
    assert sink.values("resource", "amount")[3:] == [("milk", 1)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("<html>", "is not JSON"),
        ({"other": []}, r"has nothing at `\$\.items\[\*\]`"),
        ({"items": {}}, "has nothing at"),
        ({"items": [{"resource": "a"}], "next": "/a"}, "leads back"),
        ({"items": [{"resource": "a"}], "next": "ftp://x/y"}, "not over HTTP"),
    ],
)
def test_what_is_no_listing_is_told(tmp_path: Path, content: object, said: str) -> None:
    with pytest.raises(SourceFailed, match=said):
        looked(
            tmp_path,
            {"/a": page(content)},
            lambda url: detection(SourceKind.HTTP, f"{url}/a", items="$.items[*]", next_page="$.next"),
        )


def test_an_empty_listing_is_whole_and_a_missing_one_is_not(tmp_path: Path) -> None:
    content: dict[str, Any] = {"items": [{"resource": "milk"}]}
    sink = Remembers()

    async def handler(request: web.Request) -> web.Response:
        return web.json_response(content)

    async def all_looks() -> None:
        async with serving({"/a": handler}) as url, real() as environment:
            wanted = detection(SourceKind.HTTP, f"{url}/a", items="$.items[*]", **CHANGED)
            await made(tmp_path, environment, [wanted], {"engine": sink}).run_once()
            del content["items"]
            with pytest.raises(SourceFailed, match="has nothing at"):
                await made(tmp_path, environment, [wanted], {"engine": sink}).run_once()
            assert len(sink.lines) == 1, "nothing is withdrawn"
            content["items"] = []
            await made(tmp_path, environment, [wanted], {"engine": sink}).run_once()

    asyncio.run(all_looks())
    assert [(e["resource"], "occ_time" in e) for e in sink.events] == [("milk", False), ("milk", True)]
    assert sink.events[1]["occ_time"] is None


def test_pages_have_a_bound(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.Response:
        number = int(request.query.get("page", "0"))
        return web.json_response({"items": [{"resource": f"r{number}"}], "next": f"/a?page={number + 1}"})

    sink = Remembers()

    async def look() -> None:
        async with serving({"/a": handler}) as url, real() as environment:
            wanted = detection(
                SourceKind.HTTP, f"{url}/a", items="$.items[*]", next_page="next", settings=(("pages", 3),), **CHANGED
            )
            with pytest.raises(SourceFailed, match="more than 3 pages"):
                await made(tmp_path, environment, [wanted], {"engine": sink}).run_once()

    asyncio.run(look())
    assert sink.values("resource") == [("r0",), ("r1",), ("r2",)]


def test_a_large_answer_is_whole_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items = [{"resource": f"r{n}", "amount": n, "other": "x" * 1_000} for n in range(2_000)]
    routes = {"/a": page(items)}
    assert len(looked(tmp_path / "1", routes, lambda url: detection(SourceKind.HTTP, f"{url}/a")).events) == 2_000
    monkeypatch.setattr(limits, "DETECTOR_ANSWER_BYTES_MAX", 100_000)
    with pytest.raises(SourceFailed, match="100,000 bytes"):
        looked(tmp_path / "2", routes, lambda url: detection(SourceKind.HTTP, f"{url}/a"))


def test_headers_go_to_their_host_and_to_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUGURY_TEST_TOKEN", "secret")
    heard: list[tuple[str, str | None, str, str]] = []

    def handler(name: str, target: Callable[[], str | None]) -> Handler:
        async def answer(request: web.Request) -> web.Response:
            body = await request.text()
            heard.append((name, request.headers.get("Authorization"), request.method, body))
            return web.json_response({"items": [{"resource": name}], "next": target()})

        return answer

    urls: list[str] = []

    async def look() -> None:
        async with (
            serving({"/c": handler("c", lambda: None)}) as elsewhere,
            serving({"/a": handler("a", lambda: "/b"), "/b": handler("b", lambda: urls[0])}) as url,
            real() as environment,
        ):
            urls.append(f"{elsewhere}/c")
            settings = (
                ("header_authorization", FromEnvironment("AUGURY_TEST_TOKEN")),
                ("method", "POST"),
                ("body", "q"),
                ("timeout", Length(5_000_000)),
            )
            wanted = detection(SourceKind.HTTP, f"{url}/a", items="$.items[*]", next_page="next", settings=settings)
            await made(tmp_path, environment, [wanted], {"engine": Remembers()}).run_once()

    asyncio.run(look())
    assert heard == [("a", "secret", "POST", "q"), ("b", "secret", "GET", ""), ("c", None, "GET", "")]
    assert all("secret" not in path.read_text() for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (detection(SourceKind.HTTP, "ftp://a"), "begins with http"),
        (detection(SourceKind.HTTP, "http://a", settings=(("pages", "x"),)), "whole number"),
        (detection(SourceKind.HTTP, "http://a", settings=(("header_a", FromEnvironment("NOT_SET_AT")),)), "not set"),
        (detection(SourceKind.HTML, "http://a"), "needs ITEMS and FIELDS"),
        (detection(SourceKind.HTML, "http://a", items="tr[", fields=(("resource", "a"),)), "no selector of CSS"),
        (detection(SourceKind.HTML, "http://a", items="tr", fields=(("resource", "xpath:/["),)), "no XPath"),
        (detection(SourceKind.HTML, "http://a", items="a", fields=FIELD, settings=(("form_x", "1"),)), "say which"),
        (detection(SourceKind.SQL, "sqlite://"), "SELECT"),
        (detection(SourceKind.FILE, "a", settings=(("format", "xml"),)), "there are jsonl"),
        (detection(SourceKind.PYTHON, "nonsense"), "module:function"),
        (detection(SourceKind.PYTHON, "no_such_module_at_all:f"), "cannot be had"),
        (detection(SourceKind.MQTT, "t", settings=(("qos", 2),)), "0 or 1"),
        (detection(SourceKind.HTTP, "http://a", event_class="Reading", withdraws=True), "no key"),
        (detection(SourceKind.HTTP, "http://a", event_class="Nothing"), "no class"),
    ],
)  # fmt: skip
def test_a_detector_that_can_never_work_is_refused_before_it_starts(
    tmp_path: Path, wanted: Detection, said: str
) -> None:
    async def start() -> None:
        async with real() as environment:
            made(tmp_path, environment, [wanted], {})

    with pytest.raises(BadDetector, match=said):
        asyncio.run(start())


def test_a_bad_path_names_the_detector(tmp_path: Path) -> None:
    async def start() -> None:
        async with real() as environment:
            made(tmp_path, environment, [detection(SourceKind.HTTP, "http://a", items="$.a[")], {})

    with pytest.raises(BadDetector, match=r"detector `Delivery`: the path[\s\S]*\^"):
        asyncio.run(start())
    assert issubclass(BadPath, BadDetector)


def test_a_flaky_source_is_asked_again_told_once_and_holds_up_no_other(tmp_path: Path) -> None:
    answers = iter([503, 503, 200, 500, 200])
    told: list[str] = []

    async def flaky(request: web.Request) -> web.Response:
        status = next(answers, 200)
        return web.json_response([{"resource": "milk", "amount": 1}], status=status)

    async def hangs(request: web.Request) -> web.Response:
        await asyncio.sleep(60)
        raise AssertionError("nobody waits so long")

    sink = Remembers()

    async def look() -> None:
        async with (
            serving({"/a": flaky, "/b": hangs, "/c": page([{"resource": "eggs"}])}) as url,
            real() as environment,
        ):
            wanted = [
                detection(SourceKind.HTTP, f"{url}/a", name="flaky", forward=Forward.CHANGED),
                detection(SourceKind.HTTP, f"{url}/b", name="hangs", settings=(("timeout", Length(200_000)),)),
                detection(SourceKind.HTTP, f"{url}/c", name="fine", forward=Forward.CHANGED),
            ]
            detectors = made(tmp_path, environment, wanted, {"engine": sink}, report=told.append)
            async with running(detectors):
                await until(lambda: sum("flaky" in one for one in told) == 4)
                await until(lambda: any("hangs" in one for one in told))
                assert detectors.status()["hangs"].problem is not None
                assert detectors.status()["flaky"].problem is None

    asyncio.run(look())
    assert sorted(sink.values("resource")) == [("eggs",), ("milk",)]
    flaky_told = [one for one in told if "flaky" in one]
    assert ["answers 503" in flaky_told[0], flaky_told[1], "answers 500" in flaky_told[2], flaky_told[3]] == [
        True,
        "detector `flaky`: it goes on",
        True,
        "detector `flaky`: it goes on",
    ]
    assert sum("hangs" in one for one in told) == 1


def test_a_server_says_when_to_ask_again(tmp_path: Path) -> None:
    asked: list[float] = []

    async def busy(request: web.Request) -> web.Response:
        asked.append(asyncio.get_running_loop().time())
        return web.Response(status=429, headers={"Retry-After": "1"})

    async def look() -> None:
        async with (
            serving({"/a": busy}) as url,
            real() as environment,
            running(made(tmp_path, environment, [detection(SourceKind.HTTP, f"{url}/a")], {})),
        ):
            await until(lambda: len(asked) == 2)

    asyncio.run(look())
    assert asked[1] - asked[0] >= 0.95


# ---- HTML ------------------------------------------------------------------------------------------------

TABLE = """<html><head><title>Stock</title></head><body><table>
<tr><th>Name</th></tr>
<tr class="item" data-id="7"><td class="name"> Süße <b>Milch</b>
  </td><td>2</td><td><a href="/d/7">more</a></td></tr>
<tr class="item"><td class="name">eggs</td><td>12.5</td></tr>
</table><a rel="next" href="two.html">next</a></body></html>"""


def test_items_of_pages_by_css_and_xpath(tmp_path: Path) -> None:
    second = "<table><tr class=item><td class=name>salt<td>1</table><p>&copy;"
    sink = looked(
        tmp_path,
        {"/one.html": page(TABLE, "text/html"), "/two.html": page(second, "text/html")},
        lambda url: detection(
            SourceKind.HTML,
            f"{url}/one.html",
            items="table tr.item",
            fields=(("resource", "td.name"), ("amount", "xpath:./td[2]"), ("event_id", "a@href")),
            next_page="a[rel=next]",
        ),
    )
    assert sink.values("resource", "amount") == [("Süße Milch", 2), ("eggs", Decimal("12.5")), ("salt", 1)]
    assert sink.events[0]["event_id"] == "/d/7"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("@data-id", "7"),
        ("td a@href", "/d/7"),
        ("xpath:@data-id", "7"),
        ("xpath:string(td[2])", "2"),
        ("xpath:count(td)", "3"),
        ("xpath:td[2] > 1", "true"),
        ("xpath:number('x')", ""),
        (":scope > td.name", "Süße Milch"),
    ],
)
def test_fields_of_pages(tmp_path: Path, field: str, value: str) -> None:
    sink = looked(
        tmp_path,
        {"/a": page(TABLE, "text/html")},
        lambda url: detection(SourceKind.HTML, f"{url}/a", items="xpath://tr[@data-id]", fields=(("resource", field),)),
    )
    assert sink.values("resource") == [(value,)]


def test_a_page_without_items_withdraws_nothing(tmp_path: Path) -> None:
    content = [TABLE.replace("next", "last"), "<p>We are being rebuilt.</p>", "<tr class=item><td class=name>eggs"]

    async def handler(request: web.Request) -> web.Response:
        return web.Response(text=content[0], content_type="text/html")

    sink = looked(
        tmp_path,
        {"/a": handler},
        lambda url: detection(
            SourceKind.HTML, f"{url}/a", items="tr.item", fields=(("resource", "td.name"),), **CHANGED
        ),
        lambda: content.pop(0),
        lambda: content.pop(0) and content.__setitem__(0, "<table>" + content[0]),
    )
    gone = [(e["resource"], "occ_time" in e) for e in sink.events]
    assert gone == [("Süße Milch", False), ("eggs", False), ("Süße Milch", True)]


def login_site(logins: list[str]) -> dict[str, Handler]:
    """Pages that only those see who have filled in a form; it checks a hidden field, a button and two cookies."""

    async def listing(request: web.Request) -> web.Response:
        if request.cookies.get("session") != "s1" or request.cookies.get("first") != "yes":
            answer = web.HTTPFound("/login")
            answer.set_cookie("first", "yes")
            raise answer
        if request.query.get("page") == "2":
            return web.Response(text="<ul><li>eggs</ul>", content_type="text/html")
        return web.Response(text="<ul><li>milk</ul><a class=n href='?page=2'>", content_type="text/html")

    async def login(request: web.Request) -> web.Response:
        form = """<form id=search></form><form id=login method=post action="/enter"><input name=user><input
            type=password name=word><input type=hidden name=csrf value=x7><select name=lang><option>de<option>en
            </select><button name=go value=1>Go</button></form>"""
        return web.Response(text=form, content_type="text/html")

    async def enter(request: web.Request) -> web.Response:
        sent = dict(await request.post())
        logins.append(json.dumps(sent, sort_keys=True))
        if sent != {"user": "ann", "word": "ü&=", "csrf": "x7", "lang": "en", "go": "1"}:
            return await login(request)
        answer = web.HTTPSeeOther("/welcome")
        answer.set_cookie("session", "s1", httponly=True)
        answer.set_cookie("theme", "dark")
        raise answer

    welcome = page("<h1>Welcome</h1>", "text/html")
    return {"/stock": listing, "/login": login, "/enter": enter, "/welcome": welcome}


def form_detection(url: str, **values: str) -> Detection:
    settings = (("form", "form#login"), *((f"form_{name}", value) for name, value in values.items()))
    return detection(
        SourceKind.HTML,
        f"{url}/stock",
        items="li",
        fields=(("resource", "xpath:."),),
        next_page="a.n",
        settings=settings,
        forward=Forward.CHANGED,
    )


def test_a_form_is_filled_in_and_its_cookies_are_kept(tmp_path: Path) -> None:
    logins: list[str] = []
    sink = Remembers()

    async def look() -> None:
        async with serving(login_site(logins)) as url, real() as environment:
            wanted = form_detection(url, user="ann", word="ü&=", lang="en")
            detectors = made(tmp_path, environment, [wanted], {"engine": sink})
            await detectors.run_once()
            await detectors.run_once()

    asyncio.run(look())
    assert sink.values("resource") == [("milk",), ("eggs",)]
    assert len(logins) == 1


@pytest.mark.parametrize(
    ("values", "said"), [({"usr": "ann"}, "no field `usr`; it has .*user"), ({"lang": "fr"}, "field `lang`")]
)
def test_a_form_that_cannot_be_filled_in_is_told(tmp_path: Path, values: dict[str, str], said: str) -> None:
    with pytest.raises(SourceFailed, match=said):
        looked(tmp_path, login_site([]), lambda url: form_detection(url, **values))


def test_a_search_form_goes_into_the_address(tmp_path: Path) -> None:
    async def search(request: web.Request) -> web.Response:
        if (wanted := request.query.get("q")) is None:
            return web.Response(text="<form action='/a'><input name=q><input type=submit>", content_type="text/html")
        return web.Response(text=f"<form><input name=q></form><i>{wanted}</i>", content_type="text/html")

    settings = (("form", "form"), ("form_q", "a b&c"))
    sink = looked(
        tmp_path,
        {"/a": search},
        lambda url: detection(
            SourceKind.HTML, f"{url}/a", items="i", fields=(("resource", "xpath:."),), settings=settings
        ),
    )
    assert sink.values("resource") == [("a b&c",)]


# ---- feeds -----------------------------------------------------------------------------------------------

RSS = """<?xml version="1.0"?><rss version="2.0" xmlns:a="http://www.w3.org/2005/Atom"><channel><title>All</title>
<link>http://x</link><a:link href="self" rel="self"/>
<item><title>Milk &amp; more</title><link>http://x/1</link><guid>g1</guid>
<pubDate>Thu, 01 Jan 2026 10:00:00 +0100</pubDate><description>Good.</description></item>
<item><title>Eggs</title><link>http://x/2</link></item></channel></rss>"""

ATOM = """<?xml version="1.0" encoding="utf-8"?><feed xmlns="http://www.w3.org/2005/Atom"><title>All</title><id>f</id>
<entry><title type="html">Süßes</title><link rel="edit" href="http://x/e"/><link href="http://x/1"/><id>i1</id>
<published>2026-01-01T08:00:00Z</published><updated>2026-01-01T09:00:00Z</updated><summary>Good.</summary></entry>
</feed>"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            RSS,
            [
                ("Milk & more", "http://x/1", "2026-01-01T09:00:00Z", "g1"),
                ("Eggs", "http://x/2", None, "http://x/2"),
            ],
        ),
        (ATOM, [("Süßes", "http://x/1", "2026-01-01T09:00:00Z", "i1")]),
    ],
)
def test_entries_of_feeds(tmp_path: Path, text: str, told: object) -> None:
    sink = looked(
        tmp_path,
        {"/feed": page(text, "application/xml")},
        lambda url: detection(
            SourceKind.FEED,
            f"{url}/feed",
            event_class="News",
            fields=(("occ_time", "updated"), ("event_id", "id")),
            forward=Forward.CHANGED,
        ),
        lambda: None,
    )
    assert sink.values("title", "link", "occ_time", "event_id") == told
    assert len(sink.lines) == len(sink.events)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<html><p>no</html>", "is no feed|neither RSS nor Atom"),
        ("<other/>", "neither RSS nor Atom"),
        ("", "no feed"),
        ('<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><rss><channel><item><title>&x;</title>', "no feed"),
    ],
)
def test_what_is_no_feed_is_told(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SourceFailed, match=said):
        looked(
            tmp_path,
            {"/f": page(text, "text/xml")},
            lambda url: detection(SourceKind.FEED, f"{url}/f", event_class="News"),
        )


def test_no_entity_of_a_feed_reads_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("do not tell")
    entity = f'<!DOCTYPE r [<!ENTITY x SYSTEM "{secret.as_uri()}">]>'
    text = f"{entity}<rss><channel><item><title>a&x;b</title></item></channel></rss>"
    sink = looked(
        tmp_path / "state",
        {"/f": page(text, "text/xml")},
        lambda url: detection(SourceKind.FEED, f"{url}/f", event_class="News"),
    )
    assert all("do not tell" not in line for line in sink.lines)
    assert len(sink.lines) == 1


def test_a_duration_is_read_from_the_environment_as_a_program_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUGURY_TEST_TIMEOUT", "1s")

    async def hangs(_: web.Request) -> web.Response:
        await asyncio.sleep(20)
        return web.json_response([])

    began = time.monotonic()
    settings = (("timeout", FromEnvironment("AUGURY_TEST_TIMEOUT")),)
    with pytest.raises(SourceFailed):
        looked(tmp_path, {"/a": hangs}, lambda url: detection(SourceKind.HTTP, f"{url}/a", settings=settings))
    assert 1 <= time.monotonic() - began < 15


@pytest.mark.parametrize("written", ["10", "ten seconds", "0s", "-1s", "1.5s", ""])
def test_what_is_no_duration_in_the_environment_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    monkeypatch.setenv("AUGURY_TEST_TIMEOUT", written)
    settings = (("timeout", FromEnvironment("AUGURY_TEST_TIMEOUT")),)
    with pytest.raises(BadDetector, match=r"timeout = .*: say a duration such as 10s"):
        looked(tmp_path, {}, lambda url: detection(SourceKind.HTTP, f"{url}/a", settings=settings))


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (SourceKind.HTTP, page("no json", "text/plain")),
        (SourceKind.HTTP, page({"items": 1, "next": "/a"})),
        (SourceKind.HTTP, page({"items": [], "next": "/a"})),
        (SourceKind.HTML, page("<a class=next href='/a'>again</a><p>x</p>", "text/html")),
        (SourceKind.FEED, page("<html/>", "text/xml")),
    ],
    ids=["no json", "no list", "in circles", "pages in circles", "no feed"],
)
def test_the_password_of_an_address_is_told_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: SourceKind, answer: Handler
) -> None:
    """Whatever is wrong with what it gives."""
    more: dict[str, Any] = {}
    if kind is SourceKind.HTTP:
        more = {"items": "$.items[*]", "next_page": "next"}
    elif kind is SourceKind.HTML:
        more = {"items": "p", "fields": (("resource", "p"),), "next_page": "a.next"}

    def wanted(url: str) -> Detection:
        monkeypatch.setenv("AUGURY_TEST_LIST", f"{url.replace('http://', 'http://ann:hush-4711@')}/a")
        found = detection(kind, "", **more)
        return replace(found, source=FromEnvironment("AUGURY_TEST_LIST"))

    with pytest.raises(SourceFailed) as failed:
        looked(tmp_path, {"/a": answer}, wanted)
    assert "/a" in str(failed.value)
    assert "hush-4711" not in str(failed.value) + "".join(one.read_text() for one in tmp_path.iterdir())


def test_what_a_form_is_filled_in_with_is_told_nobody(tmp_path: Path) -> None:
    with pytest.raises(SourceFailed, match="does not take what `form_lang` says") as failed:
        looked(tmp_path, login_site([]), lambda url: form_detection(url, user="ann", lang="hush-4711"))
    assert "hush-4711" not in str(failed.value)

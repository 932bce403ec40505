"""The page of a simulation in a real browser: what it draws, that it steps, and that no text becomes markup."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
import typer
from playwright.sync_api import Browser, Page, expect, sync_playwright
from typer.testing import CliRunner

import augury
from augury.algebra.program import Program
from augury.cli_trying import register
from augury.clock import show_time
from augury.trying.page import TICKS_DRAWN_MAX, page
from augury.trying.page_markup import Markup, joined, tag
from augury.trying.shown import Shown
from augury.trying.simulate import simulation

ROOT = Path(__file__).parents[2]
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
NASTY = """
</script><script>window.hacked = 1</script>
"><img src=x onerror="window.hacked = 2">
<svg onload='window.hacked = 3'>
--><b>bold</b>
]]> & &lt;i&gt; é 漢 \u202e\u0000\u0007
javascript:window.hacked=4
""".strip("\n").split("\n")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's chromium."""
    path = shutil.which("chromium")
    if path is None:
        pytest.fail("no chromium on PATH: apt-get install -y chromium")
    with sync_playwright() as running:
        started = running.chromium.launch(executable_path=path, args=list(FLAGS))
        yield started
        started.close()


class Watched:
    """A page, and all that it says and asks for."""

    def __init__(self, browser: Browser, path: Path, *, script: bool = True, dark: bool = False) -> None:
        """Open it."""
        scheme: Literal["dark", "light"] = "dark" if dark else "light"
        self.context = browser.new_context(
            java_script_enabled=script, color_scheme=scheme, viewport={"width": 1600, "height": 1000}
        )
        self.page: Page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())


def groceries() -> tuple[Program, list[Shown]]:
    """The groceries, simulated."""
    folder = ROOT / "examples" / "groceries"
    program = augury.compile((folder / "groceries.bicepl").read_text())
    return program, list(simulation(program, str(folder / "events.jsonl")).ticks())


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Shown]]:
    """The page of the groceries."""
    program, ticks = groceries()
    path = tmp_path_factory.mktemp("page") / "groceries.html"
    path.write_text(page("groceries.bicepl", program, ticks), encoding="utf-8")
    return path, ticks


def test_everything_that_happened_is_drawn(browser: Browser, shop: tuple[Path, list[Shown]]) -> None:
    path, ticks = shop
    seen = Watched(browser, path)
    drawn = seen.page.locator("#time-line")
    expect(drawn).to_be_visible()
    versions = sum(len(one.arrived) + len(one.derived) for one in ticks)
    assert drawn.locator(".mark").count() == versions
    assert drawn.locator(".row").count() == len(ticks)
    assert drawn.locator(".action").count() == sum(len(one.fired) for one in ticks)
    assert drawn.locator(".link").count() == sum(
        len(one.version.constituents or ()) for t in ticks for one in t.derived
    )
    assert drawn.locator(".revision").count() == 3  # two deliveries changed, one withdrawn
    assert seen.page.locator(".events tbody tr").count() == versions
    assert seen.said == []
    assert seen.asked == [path.as_uri()]
    seen.context.close()


def test_time_goes_to_the_right_and_down(browser: Browser, shop: tuple[Path, list[Shown]]) -> None:
    path, ticks = shop
    seen = Watched(browser, path)
    places = seen.page.evaluate(
        """() => Array.from(document.querySelectorAll('#time-line .mark')).map((mark) => {
             const box = mark.getBoundingClientRect();
             return [box.x + box.width / 2, box.y + box.height / 2];
           })"""
    )
    marks = [one for shown in ticks for one in (*shown.arrived, *(d.version for d in shown.derived))]
    pairs = list(zip(marks, places, strict=True))
    for one, (x, y) in pairs:
        for other, (other_x, other_y) in pairs:
            if one.tick < other.tick:
                assert y < other_y
            if one.occ_time is not None and other.occ_time is not None and one.occ_time < other.occ_time:
                assert x < other_x + 0.1
    seen.context.close()


def test_no_two_marks_hide_each_other(browser: Browser, shop: tuple[Path, list[Shown]]) -> None:
    seen = Watched(browser, shop[0])
    boxes = seen.page.evaluate(
        """() => Array.from(document.querySelectorAll('#time-line .mark')).map((mark) => {
             const box = mark.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })"""
    )
    for number, (x, y) in enumerate(boxes):
        assert all(abs(x - a) > 6 or abs(y - b) > 6 for a, b in boxes[:number])
    seen.context.close()


def test_it_steps_from_tick_to_tick(browser: Browser, shop: tuple[Path, list[Shown]]) -> None:
    path, ticks = shop
    seen = Watched(browser, path)
    chosen = seen.page.locator(".tick.chosen h2")
    expect(chosen).to_have_text(f"Tick {len(ticks)} · {show_time(ticks[-1].tick)}")
    seen.page.click("#first")
    expect(chosen).to_have_text("Tick 1 · 2026-03-02T07:15:00Z")
    expect(seen.page.locator("#chosen")).to_have_text("Tick 1 · 2026-03-02T07:15:00Z")
    section = seen.page.locator("#tick-1")
    expect(section).to_contain_text('orderResource("butter")')
    expect(section).to_contain_text("seq 1 ResourceLow('butter', 0.1) as a row of FROM")
    expect(section).to_contain_text("ONTIME = TRUE")
    later = seen.page.locator(".mark.later").count()
    seen.page.click("#next")
    expect(chosen).to_have_text("Tick 2 · 2026-03-02T07:45:00Z")
    assert seen.page.locator(".mark.later").count() == later - 1
    seen.page.locator("#slider").focus()
    seen.page.keyboard.press("ArrowRight")
    expect(chosen).to_have_text("Tick 3 · 2026-03-02T09:30:00Z")
    seen.page.locator('.row[data-tick="5"] text').first.click()
    expect(chosen).to_have_text("Tick 6 · 2026-03-03T00:15:00Z")
    seen.page.click("#last")
    seen.page.click("#play")
    expect(chosen).to_have_text("Tick 2 · 2026-03-02T07:45:00Z", timeout=5_000)
    seen.page.click("#play")
    assert seen.said == []
    seen.context.close()


def test_a_mark_leads_to_what_it_is_made_of(browser: Browser, shop: tuple[Path, list[Shown]]) -> None:
    seen = Watched(browser, shop[0])
    mark = seen.page.locator("#time-line .mark.complex").first
    assert mark.locator("title").text_content() == (
        "ReplenishingNeeded('butter') — announce\noccurs 2026-03-02T07:05:00Z\n"
        "detected 2026-03-02T07:15:00Z, at the tick 2026-03-02T07:15:00Z\nmade of 1"
    )
    mark.hover(force=True)
    assert seen.page.locator(".link.lit").count() == 1
    assert seen.page.locator(".mark.lit").count() == 2
    seen.page.mouse.move(5, 5)
    assert seen.page.locator(".lit").count() == 0
    seen.context.close()


def test_it_is_legible_by_day_and_by_night(browser: Browser, shop: tuple[Path, list[Shown]]) -> None:
    pictures = []
    for dark in (False, True):
        seen = Watched(browser, shop[0], dark=dark)
        back, ink = seen.page.evaluate(
            "() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
        )
        assert abs(_brightness(back) - _brightness(ink)) > 150
        pictures.append(seen.page.screenshot())
        seen.context.close()
    assert pictures[0] != pictures[1]
    assert min(map(len, pictures)) > 20_000, "an empty page is a small picture"


def _brightness(colour: str) -> float:
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3


def test_without_its_script_it_shows_every_tick(browser: Browser, shop: tuple[Path, list[Shown]]) -> None:
    path, ticks = shop
    seen = Watched(browser, path, script=False)
    assert seen.page.locator(".tick:visible").count() == len(ticks)
    expect(seen.page.locator(".controls")).to_be_hidden()
    seen.context.close()


# ---- no text becomes markup --------------------------------------------------------------------------------------


def test_nasty_texts_stay_texts(browser: Browser, tmp_path: Path) -> None:
    program = augury.compile(
        "CREATE MUTABLE SUBSCRIBED EVENT CLASS `</title><script>window.hacked=9</script>` (x STRING) ID (x)"
        " LIFESPAN (1d) ON ANNOUNCEMENT DO `<b>act</b>`(NEW.x, '<script>window.hacked=8</script>');"
        "CREATE COMPLEX EVENT CLASS Same (x STRING) ID (x)"
        " AS MATCH `</title><script>window.hacked=9</script>`(x);"
    )
    name = program.classes[0].event_class.name
    events = tmp_path / "nasty.jsonl"
    rows = [{"event": name, "x": text, "occ_time": 1_000_000_000 + at} for at, text in enumerate(NASTY)]
    rows.append({"event": "<script>window.hacked=7</script>", "occ_time": 1_000_000_003})
    events.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ticks = list(simulation(program, str(events)).ticks())
    path = tmp_path / "nasty.html"
    path.write_text(page("<script>window.hacked=6</script>.bicepl", program, ticks), encoding="utf-8")
    for script in (True, False):
        seen = Watched(browser, path, script=script)
        if script:
            assert seen.page.evaluate("() => window.hacked") is None
        assert seen.page.locator("script").count() == 1
        assert seen.page.locator("img, b, i, iframe, object, a").count() == 0
        assert seen.page.title() == "<script>window.hacked=6</script>.bicepl simulated"
        cells = seen.page.locator(".events td:nth-child(3)").all_text_contents()
        assert f"{name}('{NASTY[0]}')" in cells
        assert seen.said == []
        assert seen.asked == [path.as_uri()]
        seen.context.close()


def test_a_script_that_got_in_all_the_same_would_not_run(browser: Browser, tmp_path: Path) -> None:
    program, ticks = groceries()
    path = tmp_path / "hacked.html"
    whole = page("x", program, ticks[:2])
    path.write_text(whole.replace("</main>", "</main><script>window.hacked = 1</script>"), encoding="utf-8")
    seen = Watched(browser, path)
    assert seen.page.evaluate("() => window.hacked") is None
    assert any("Content Security Policy" in text for text in seen.said)
    seen.context.close()


def test_texts_are_escaped_and_markup_is_not() -> None:
    assert tag("p", "a < b", tag("b", "&"), title='"') == '<p title="&quot;">a &lt; b<b>&amp;</b></p>'
    assert joined("<", Markup("<br>")) == "&lt;<br>"
    assert tag("input", disabled=True, hidden=False, value=None) == "<input disabled>"


# ---- sizes, and the command line ---------------------------------------------------------------------------------


def test_of_very_many_ticks_the_first_are_drawn() -> None:
    program = augury.compile("CREATE MUTABLE SUBSCRIBED EVENT CLASS A () ID () LIFESPAN (1d);")
    ticks = [Shown(number + 1, number * 1_000_000, absorbed=number % 2) for number in range(3 * TICKS_DRAWN_MAX)]
    text = page("many", program, ticks)
    assert text.count('class="tick"') == TICKS_DRAWN_MAX
    assert "the first 400 with something to see are drawn" in text
    assert 'id="tick-1"' not in text
    assert page("none", program, []).count('class="tick"') == 0


def test_the_command_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    app = typer.Typer()
    register(app)
    words = ["simulate", "examples/groceries/groceries.bicepl", "--events", "examples/groceries/events.jsonl"]
    path = tmp_path / "page.html"
    result = CliRunner().invoke(app, [*words, "--output", "html", "--to", str(path)])
    assert (result.exit_code, result.stdout) == (0, "")
    _, ticks = groceries()
    assert len(path.read_text()) > 50_000
    assert path.read_text().count('class="tick"') == len(ticks)
    assert CliRunner().invoke(app, [*words, "--output", "html"]).stdout == path.read_text()
    result = CliRunner().invoke(app, [*words, "--output", "html", "--to", str(tmp_path / "no" / "page.html")])
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr

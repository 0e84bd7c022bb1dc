"""The page in a real Chromium: it renders, runs nothing of others, and fits a telephone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.cli.page_content.publisher import build_resources
from sparkfleet.launch.endpoint.health import HealthState
from sparkfleet.page.access import Access
from sparkfleet.page.content import PageContent
from sparkfleet.page.html import render_body, render_page
from sparkfleet.page.server import PageServer
from sparkfleet.variables.binding import Binding
from tests.browser import Browser, find_browser, open_browser
from tests.pages import build_content, build_health, build_hostile, build_status

pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium on this machine")
WIDTHS = (1280, 390)
FIELDS = (
    "[...document.querySelectorAll('[data-field]')].map(e => [e.dataset.field, e.dataset.value])"
)
TOO_WIDE = """
[...document.querySelectorAll('main *')].filter(e => {
  const box = e.getBoundingClientRect();
  return box.width && (box.right > innerWidth + 1 || box.left < -1) && !e.closest('.map, thead');
}).map(e => e.tagName + ' ' + e.textContent.slice(0, 40))
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def quiet(browser: Browser) -> Iterator[None]:
    """Fail a test whose page had a console error, an exception or a dialog."""
    browser.leave()
    yield
    assert browser.problems == []


def write_page(folder: Path, content: PageContent) -> str:
    path = folder / "report.html"
    path.write_text(render_page(content))
    return path.as_uri()


def publish(server: PageServer, content: PageContent) -> None:
    server.publish(build_resources(content), render_body(content, live=True))


def find_value(document: Any, pointer: str) -> Any:
    for step in pointer.split("/")[1:]:
        if isinstance(document, list):
            document = document[int(step)]
        else:
            name = step.replace("~1", "/").replace("~0", "~")
            document = (document or {}).get(name)
    return document


BROKEN_NAMES = """
[...document.querySelectorAll('td.name span')].filter(e => e.getClientRects().length > 1)
.map(e => e.textContent)
"""
CLIPPED = """
[...document.querySelectorAll('.chart text')].filter(e => {
  const box = e.getBoundingClientRect(), chart = e.closest('svg').getBoundingClientRect();
  return box.left < chart.left - 1 || box.right > chart.right + 1;
}).map(e => e.textContent)
"""


@pytest.mark.parametrize("width", WIDTHS)
def test_a_report_fits_the_screen(browser: Browser, tmp_path: Path, width: int) -> None:
    browser.open(write_page(tmp_path, build_content()), width=width)
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    assert browser.evaluate(TOO_WIDE) == []
    assert browser.evaluate(BROKEN_NAMES) == []
    assert browser.evaluate(CLIPPED) == []
    assert browser.evaluate("document.querySelector('.state').innerText") == "✓ serving"
    shown = "e => getComputedStyle(e).display !== 'none'"
    maps = f"[...document.querySelectorAll('.map')].filter({shown}).map(e => e.className)"
    assert browser.evaluate(maps) == ["map wide" if width == 1280 else "map narrow"]


def test_numbers_are_those_of_the_status(browser: Browser, tmp_path: Path) -> None:
    content = build_content()
    browser.open(write_page(tmp_path, content))
    status = json.loads(json.dumps(content.status))
    pairs = browser.evaluate(FIELDS)
    assert len(pairs) > 25
    assert [(name, json.loads(value)) for name, value in pairs] == [
        (name, find_value(status, name)) for name, _ in pairs
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_hostile_text_runs_nothing(browser: Browser, tmp_path: Path, width: int) -> None:
    content = build_hostile()
    browser.open(write_page(tmp_path, content), width=width)
    assert "<script>alert('run')</script>" in browser.evaluate("document.body.innerText")
    assert browser.evaluate("document.querySelectorAll('script, img, [onload]').length") == 0
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    with PageServer(Binding(port=0), Access()) as server:
        publish(server, content)
        browser.open(f"http://{server.binding}/", width=width)
        browser.wait_for("document.querySelector('#link').innerText.startsWith('live')")
        publish(server, build_content())
        browser.wait_for("!document.body.innerText.includes('alert')")
        publish(server, content)
        browser.wait_for("document.querySelector('#events').innerText.includes('alert')")
        assert browser.evaluate("document.querySelectorAll('script, img, [onload]').length") == 1


def test_the_policy_stops_a_script_that_was_not_escaped(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "broken.html"
    page = render_page(build_content(), live=True)
    path.write_text(page.replace("<main>", "<main><script>document.title = 'run'</script>"))
    browser.open(path.as_uri())
    assert browser.evaluate("document.title") == "sparks - sparkfleet"
    refused = [text for text in browser.problems if "Content Security Policy" in text]
    assert refused
    browser.leave()


def test_a_live_page_follows_the_cluster(browser: Browser) -> None:
    with PageServer(Binding(port=0), Access()) as server:
        publish(server, build_content())
        browser.open(f"http://{server.binding}/")
        browser.wait_for("document.querySelector('#link').innerText.startsWith('live')")
        browser.wait_for("document.querySelector('#links').dataset.text")
        browser.evaluate("document.querySelector('#links').dataset.kept = 'yes'")
        health = build_health(state=HealthState.RANK_LOST, reason="rank 1 on spark-02 is lost")
        publish(server, build_content(status=build_status(health=health)))
        browser.wait_for("document.querySelector('.state').innerText === '✕ rank lost'")
        assert browser.evaluate("document.querySelector('.verdict').className") == "verdict bad"
        assert browser.evaluate("document.querySelector('#links').dataset.kept") == "yes"
        publish(server, build_content(status=build_status(notes=["spark-02: a note"])))
        browser.wait_for("document.body.innerText.includes('spark-02: a note')")
    browser.wait_for(
        "document.querySelector('#link').innerText === 'connection lost, trying again'"
    )
    refused = [text for text in browser.problems if "net::ERR" not in text]
    assert refused == []
    browser.problems.clear()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_have_enough_contrast(browser: Browser, tmp_path: Path, *, dark: bool) -> None:
    browser.open(write_page(tmp_path, build_content()), dark=dark)
    pairs = browser.evaluate(COLOURS)
    assert pairs
    for ink, ground in pairs:
        assert compute_contrast(ink, ground) >= 4.5, (ink, ground)


COLOURS = """
(() => {
  const style = getComputedStyle(document.documentElement);
  const read = name => style.getPropertyValue(name).trim();
  const inks = ['--ink', '--quiet', '--accent', '--good', '--warn', '--bad'];
  return inks.flatMap(ink => ['--ground', '--raised'].map(ground => [read(ink), read(ground)]));
})()
"""


def compute_contrast(first: str, second: str) -> float:
    """Return the contrast of two colours, as WCAG 2.2 defines it; 4.5 is enough for text."""
    bright, dim = sorted((compute_luminance(first), compute_luminance(second)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def compute_luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_a_printed_report_is_dark_on_white(browser: Browser, tmp_path: Path) -> None:
    browser.open(write_page(tmp_path, build_content()), dark=True, media="print")
    assert (
        browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    )
    assert browser.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"

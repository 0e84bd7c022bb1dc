"""The page as HTML: complete, alone, and safe against any text in it."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from sparkfleet.launch.endpoint.health import HealthState
from sparkfleet.launch.watching.events import ClusterEvent, EventKind
from sparkfleet.model import Severity
from sparkfleet.page.content import Background, PageContent, clean_page_text
from sparkfleet.page.html import build_policy, render_body, render_page
from tests.pages import HOSTILE, build_content, build_health, build_hostile, build_status

VOID = ("meta", "link", "img", "br")


class Outline(HTMLParser):
    """The elements of a page with their attributes, and its texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("style", "script"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        """All texts, with one space between words."""
        return " ".join(" ".join(self.texts).split())


def test_each_part_of_the_cluster_is_on_the_page() -> None:
    text = Outline(render_page(build_content())).text
    for part in (
        "serving",
        "every rank works",
        "41.6",
        "91.0 GiB",
        "12.41 in, 12.38 out Gb/s",
        "187.3",
        "rocep1s0f1",
        "32768 at playbooks/recipes/gemma4-31b-fp8.yml:31",
        "inventories/local.yml:12",
        "cluster.up of gemma4-31b-fp8 on 2 hosts",
        "401.2",
        "gemma4-31b-fp8, 2 hosts, 4 at once",
        "(disturbed)",
        "relaunching",
        "580.159.03",
        "an illegal memory access",
    ):
        assert part in text, part
    assert "hf_secretsecret" not in text


def test_a_report_needs_no_other_resource() -> None:
    page = Outline(render_page(build_content()))
    links = [
        value
        for _, attributes in page.elements
        for name, value in attributes.items()
        if name in ("src", "href", "srcset", "data", "action", "poster")
    ]
    assert all(link is not None and link.startswith(("#", "data:,")) for link in links)
    assert "script" not in dict(page.elements)
    assert "url(" not in render_page(build_content())
    assert page.open == []


def test_the_policy_allows_the_own_style_and_script_alone() -> None:
    alone = build_policy(live=False)
    live = build_policy(live=True)
    assert "default-src 'none'" in alone
    assert "script-src" not in alone
    assert re.search(r"script-src 'sha256-[\w+/=]+'; connect-src 'self'$", live)
    assert "unsafe" not in live
    attributes = {
        name for _, each in Outline(render_page(build_content())).elements for name in each
    }
    assert "style" not in attributes
    assert not any(name.startswith("on") for name in attributes)


def test_hostile_text_adds_no_element_and_no_attribute() -> None:
    plain = Outline(render_body(build_hostile("x"), live=True))
    hostile = Outline(render_body(build_hostile(), live=True))
    shapes = [[(tag, sorted(each)) for tag, each in page.elements] for page in (plain, hostile)]
    assert shapes[1] == shapes[0]
    assert hostile.open == []


def test_hostile_text_is_shown_as_it_is_without_control_characters() -> None:
    page = render_page(build_hostile(), live=True)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)
    text = Outline(page).text
    assert "<script>alert('run')</script>" in text
    assert r"\x07\x1b]0;title\x07\u202egnp.exe" in text
    assert "{{ 7 * 7 }}" in text


def test_the_hostile_text_is_in_each_text_of_the_page() -> None:
    marked = Outline(render_body(build_hostile("#x#"))).texts
    hostile = Outline(render_body(build_hostile())).texts
    assert len(marked) == len(hostile)
    shown = [
        ("<script>" in text, "#x#" in mark) for text, mark in zip(hostile, marked, strict=True)
    ]
    assert all(first == second for first, second in shown)
    assert shown.count((True, True)) > 100


def test_a_long_text_is_cut() -> None:
    assert len(clean_page_text("x" * 10_000)) == 600
    assert clean_page_text("token=abcdefgh12345678") == "token=(secret)"
    assert HOSTILE not in clean_page_text(HOSTILE)


EMPTY_STATUS = build_status(
    health=build_health(
        state=HealthState.STOPPED, reason="no host has a record", ranks=(), should_serve=False
    ),
    hosts={"spark-01": {"state": "unknown", "error": "spark-01 does not answer"}},
)


def test_what_is_not_known_is_said_in_words() -> None:
    missing = {"versions": "Not read: spark-01: no route", "links": "One host did not answer."}
    content = PageContent(
        at=1e9,
        cluster="sparks",
        head="spark-01",
        version="0.1.0",
        status=EMPTY_STATUS,
        hosts=("spark-01",),
        background=Background(missing=missing),
    )
    text = Outline(render_page(content)).text
    for part in (
        "no load: nothing is served",
        "No ranks: no host has a record of a deployment.",
        "spark-01 does not answer",
        "One host did not answer.",
        "Nothing is served: no host has a record of a deployment.",
        "No values are known.",
        "No benchmark has been run.",
        "No run on this machine has succeeded",
        "No events are recorded on the head.",
        "Not read: spark-01: no route",
    ):
        assert part in text, part
    assert "None" not in text


@pytest.mark.parametrize("state", list(HealthState), ids=lambda state: state.value)
def test_each_state_is_a_word_with_a_mark(state: HealthState) -> None:
    health = build_health(state=state, reason="because", fix="type: {task:cluster.up}")
    page = render_body(build_content(status=build_status(health=health)))
    assert re.search(rf'aria-hidden="true">\S</span> <span [^>]*>{state.value}</span>', page)
    assert "type: sparkfleet cluster.up" in page


def test_older_events_are_counted() -> None:
    events = tuple(
        ClusterEvent(kind=EventKind.VERDICT, text=f"change {at}", at=1e9 + at) for at in range(60)
    )
    text = Outline(render_body(replace(build_content(), events=events))).text
    assert "change 59" in text
    assert "change 9 " not in text
    assert "10 older events are on spark-01." in text


def test_an_event_has_its_cause_and_its_recipe_in_columns_of_their_own() -> None:
    event = ClusterEvent(kind=EventKind.STARTED, text="nothing ran", recipe="gemma4")
    body = render_body(replace(build_content(), events=(event,)), live=False)
    (row,) = re.findall(r'<table role="table" class="events".*?</table>', body, re.DOTALL)
    cells = dict(re.findall(r'data-head="([^"]+)".*?<span>(.*?)</span>', row))
    assert (cells["cause"], cells["recipe"]) == ("", "gemma4")


def test_what_to_type_is_code_and_a_lone_backquote_harms_nothing() -> None:
    content = build_content()
    links = content.background.links
    assert links is not None
    found = replace(links.verdicts[0], severity=Severity.ERROR, fix="type `ip <link>`, or `reboot")
    background = replace(content.background, links=replace(links, verdicts=(found,)))
    page = Outline(render_body(replace(content, background=background), live=False))
    assert page.open == []
    assert "type ip <link> , or reboot" in page.text

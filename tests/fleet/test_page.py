"""The report and the page of a cluster on lab hosts, which serve from the stand-in engine."""

from __future__ import annotations

import html
import json
import os
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.browser import find_browser, open_browser
from tests.commandline import becomes, command_line
from tests.standin.cluster import HOSTS, Cluster, start_cluster

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]
FIELD = re.compile(r'data-field="([^"]*)" data-value="([^"]*)"')
MOVING = re.compile(r"/memory/|/gpu/|/load/|/gpu_memory")  # values that differ from look to look
TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield a cluster that serves."""
    with start_cluster(tmp_path_factory.mktemp("page")) as made:
        done = made.up()
        assert done.code == 0, done.output
        yield made


@contextmanager
def serve(cluster: Cluster, task: str, *words: str) -> Iterator[str]:
    """Run a task that serves a page; yield its address once the first look is published."""
    line = command_line(task, *words, "--inventory", str(cluster.inventory))
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as child:
        try:
            assert child.stdout is not None
            shown = next(text for text in child.stdout if text.startswith("page http://"))
            address = shown.split()[1]
            assert becomes(lambda: fetch(f"{address}status.json")[0] != 503)
            yield address
        finally:
            child.send_signal(signal.SIGTERM)
        assert child.wait() == 0


def fetch(url: str, **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        error.close()
        return error.code, ""


def read_fields(page: str) -> dict[str, str]:
    pairs = FIELD.findall(page)
    return {name: html.unescape(value) for name, value in pairs if not MOVING.search(name)}


def list_values(document: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each value of a document as JSON, by its pointer."""
    yield path, json.dumps(document)
    if isinstance(document, dict):
        for name, value in document.items():
            yield from list_values(value, f"{path}/{name}")
    elif isinstance(document, list):
        for at, value in enumerate(document):
            yield from list_values(value, f"{path}/{at}")


def test_the_report_and_the_page_show_the_status(cluster: Cluster, tmp_path: Path) -> None:
    bench = cluster.run("serve.bench", "--rounds", "1", "--context", "64", "--answer", "8")
    assert bench.code in (0, 2), bench.output  # 2: slower than published
    path = tmp_path / "report.html"
    done = cluster.run("cluster.report", "--html", str(path))
    assert done.code == 0, done.output
    assert "serving: " in done.output
    report = path.read_text()
    for part in ("Gb/s", "rocep1s0f", "1 at once", "started", "engine_venv", "driver"):
        assert part in report, part
    status = json.loads(cluster.run("cluster.status", "--output", "json").output)
    fields = read_fields(report)
    assert len(fields) > 8
    assert fields.items() <= dict(list_values(status)).items()
    with serve(cluster, "cluster.page", "--bind", "127.0.0.1:0", "--every", "1s") as address:
        shown = json.loads(fetch(f"{address}status.json")[1])
        page = fetch(address)[1]
        assert read_fields(page).items() <= dict(list_values(shown)).items()
        assert shown["health"]["state"] == status["health"]["state"] == "serving"
        metrics = fetch(f"{address}metrics")[1]
        assert 'sparkfleet_health_state{cluster="default",state="serving"} 1' in metrics
        assert 'sparkfleet_rank_alive{cluster="default",rank="1",host="spark-02"} 1' in metrics
        assert "spark-01" not in fetch(f"{address}metrics/hosts/spark-02")[1]
        if find_browser():
            look_with_browser(address, tmp_path)
    exported = json.loads(cluster.run("cluster.export", "--to", "prometheus").output)
    assert exported[0]["targets"] == ["10.78.0.1:8000"]
    assert [group["labels"].get("host") for group in exported] == ["spark-01", None, *HOSTS]


def look_with_browser(address: str, folder: Path) -> None:
    """Open the page in a browser: it is live, and fits a telephone."""
    with open_browser(folder) as browser:
        browser.open(address, width=390)
        browser.wait_for("document.querySelector('#link').innerText.startsWith('live')")
        assert browser.evaluate("document.documentElement.scrollWidth") == 390
        assert browser.evaluate("document.querySelector('.state').innerText") == "✓ serving"
        assert browser.problems == []


@pytest.mark.thorough
def test_the_watcher_serves_the_page_with_a_token(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "page-token"
    path.write_text(TOKEN)
    path.chmod(0o600)
    page = f"page={{bind: '127.0.0.1:0', token_file: {path}}}"
    with serve(cluster, "cluster.watch", "--set", page, "--every", "1s") as address:
        assert fetch(address)[0] == 401
        key = f"Bearer {TOKEN}"
        assert becomes(lambda: fetch(address, Authorization=key)[0] == 200)
        assert "The watcher: " in fetch(address, Authorization=key)[1]
    wide = cluster.run("cluster.page", "--bind", "10.78.0.254:0")
    assert wide.code == 5, wide.output
    assert "needs a token" in wide.output

"""Any log is diagnosed: no traceback, no wrong exit code, no time that explodes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from sparkfleet.cli.doctor.view import show_diagnosis
from sparkfleet.cli.options import Options
from sparkfleet.doctor.diagnosis import Diagnosis, diagnose_logs
from sparkfleet.doctor.logs import LogBundle, LogFile
from sparkfleet.doctor.signatures import SIGNATURES
from tests.budget import MANY, limit_cpu_time, scale_examples
from tests.gb10 import OUTPUTS
from tests.mutations import NUMBERS, create_chance, encode_text, mutate_text

MAX_LENGTH = 16_000  # characters of a log that is mutated
LINES = [row.sample for row in SIGNATURES if row.sample]
TOKENS = [
    *(
        "\x1b[36m",
        "\r",
        "{",
        '{"log": "',
        "(Worker pid=1, ip=10.0.0.1) ",
        "[rank1]: ",
        "[0]:",
        " | ",
    ),
    *(
        "2026-11-28T10:00:00Z ",
        "Traceback (most recent call last):\n",
        "    raise X\n",
        "(",
        ")" * 40,
    ),
    *(
        "1 validation error for A\n",
        "ERROR 11-28 10:00:00 [a.py:1] ",
        "RuntimeError: ",
        "NCCL WARN ",
    ),
    *("[0]:", " | ", "(", ")" * 40, "NCCL WARN "),
    *("a" * 9000, "Error: " * 700, " " * 5000, "[repeated 5x across cluster]", "rank 1 ", "%s{0}"),
    *LINES,
]


@cache
def _read_seeds() -> tuple[str, ...]:
    files = sorted([*Path(OUTPUTS).glob("*.log"), *Path(OUTPUTS).glob("T2-*.txt")])
    return tuple(path.read_text(errors="replace")[:MAX_LENGTH] for path in files)


def _mutate(number: int) -> str:
    """Return a recorded log after some cuts, repeats and insertions, as a reader decodes it."""
    chance = create_chance(number)
    content = encode_text(chance, mutate_text(chance, _read_seeds(), TOKENS))
    return content.decode(errors=chance.choice(["replace", "surrogateescape"]))


def _diagnose(*texts: str) -> Diagnosis:
    files = tuple(
        LogFile(name=f"{at}.log", host=f"spark-{at}", text=text) for at, text in enumerate(texts)
    )
    return diagnose_logs(LogBundle(logs=files, account=texts[0]))


def _check_diagnosis(found: Diagnosis, text: str) -> None:
    lines = text.count("\n") + 1
    for finding in (*found.causes, *found.warnings):
        assert 1 <= finding.line <= lines
        assert finding.cause
        assert "{task:" not in finding.fix
    for error in found.errors:
        assert 1 <= error.line <= lines


@pytest.mark.timeout(3600)  # 20,000 examples with --thorough
@given(NUMBERS)
@settings(
    max_examples=scale_examples(20, thorough=MANY),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_a_changed_log_is_diagnosed(number: int) -> None:
    text = _mutate(number)
    with limit_cpu_time():
        found = _diagnose(text)
    _check_diagnosis(found, text)


@given(NUMBERS)
@settings(
    max_examples=scale_examples(10),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_a_changed_log_is_printed_with_exit_code_0(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, number: int
) -> None:
    text = _mutate(number)
    path = tmp_path / "serve.log"
    path.write_bytes(text.encode(errors="replace"))
    for output in ("text", "json"):
        assert show_diagnosis(str(path), Options(task="doctor", output=output)) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "\0",
        "\r\r\r",
        "{}",
        "{" * 5000,
        "(" * 5000,
        "a" * 100_000,
        "[0]:" * 20_000,
        "\ufeff",
        f"(EngineCore pid={'9' * 5000}) ERROR x\n",
        f"(Worker pid=1) rank {'9' * 5000} in world size {'9' * 5000} is assigned\n",
        "(Worker pid=1) rank 0 in world size 99999999999 is assigned\n",
        f"(Worker_TP{'9' * 5000} pid=1) ERROR x\n",
    ],
    ids=range(14),
)
def test_a_strange_log_is_diagnosed(text: str) -> None:
    with limit_cpu_time():
        found = _diagnose(text, text)
    _check_diagnosis(found, text)

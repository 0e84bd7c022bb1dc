"""The line that is shown for a failure without a signature, in forms that public reports have."""

from __future__ import annotations

import pytest

from sparkfleet.doctor.reasons import find_first_error


@pytest.mark.parametrize(
    ("log", "line"),
    [
        pytest.param(" RuntimeError: no such part", 1, id="pasted with a space before it"),
        pytest.param(
            "ERROR:    Exception in ASGI application\n"
            "  + Exception Group Traceback (most recent call last):\n"
            '  |   File "/x/h11_impl.py", line 401, in run\n'
            "    | RuntimeError: no such part",
            4,
            id="in a group of exceptions",
        ),
        pytest.param(
            "RuntimeError: Worker failed with error 'no such part'", 1, id="quoted by the driver"
        ),
        pytest.param(
            "RuntimeError: Worker failed with error ''no such part''",
            1,
            id="a key that the driver quotes",
        ),
        pytest.param("Value error, no such part", 1, id="of a validation, without its head"),
        pytest.param(
            "2025-07-17 17:31:58.857081  >> ERROR 07-17 09:31:58 [core.py:398]       ^^^^^^\n"
            "2025-07-17 17:31:58.857095  >> ERROR 07-17 09:31:58 [core.py:398] "
            "RuntimeError: no such part",
            2,
            id="behind the stamp of another program",
        ),
        pytest.param(
            "ERROR 2026-05-14 05:25:28.876 [core.py:1123] Traceback (most recent call last):\n"
            "ERROR 2026-05-14 05:25:28.876 [core.py:1123] RuntimeError: no such part",
            2,
            id="with the year and milliseconds",
        ),
        pytest.param(
            "Error code: 400 - {'error': {'message': 'no such part', 'code': 400}}",
            1,
            id="as a client prints it",
        ),
        pytest.param(
            "ERROR 07-17 09:31:58 [core.py:398]       ^^^^^^\n"
            "ERROR 07-17 09:31:58 [core.py:398] there is no such part",
            2,
            id="below marks",
        ),
    ],
)
def test_the_line_with_the_reason_is_shown(log: str, line: int) -> None:
    error = find_first_error(log)
    assert error is not None
    assert error.line == line
    assert "no such part" in error.text


def test_the_exception_of_a_worker_comes_before_its_quotation() -> None:
    log = (
        "(Worker_TP0 pid=7) ERROR 07-17 09:31:58 [core.py:398] KeyError: 'part'\n"
        "(EngineCore pid=5) RuntimeError: Worker failed with error ''part''"
    )
    error = find_first_error(log)
    assert error is not None
    assert error.line == 1


def test_what_the_driver_quotes_comes_before_the_end_of_the_worker() -> None:
    log = (
        "(EngineCore pid=5) ERROR 04-24 10:50:25 [core.py:1110] RuntimeError: Worker failed with "
        "error 'no such part', please check the stack trace above for the root cause\n"
        "(EngineCore pid=5) ERROR 04-24 10:50:38 [multiproc_executor.py:292] Worker proc "
        "VllmWorker-0 died unexpectedly, shutting down executor."
    )
    error = find_first_error(log)
    assert error is not None
    assert error.line == 1

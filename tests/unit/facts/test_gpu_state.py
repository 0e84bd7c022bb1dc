"""Power, temperature and clock of a GPU, and what slows it, in the forms of nvidia-smi."""

from __future__ import annotations

import pytest

from sparkfleet.facts.gpu_state import GpuState, parse_gpu_state

HEADER = "power.draw [W], temperature.gpu, clocks.current.sm [MHz]\n"


@pytest.mark.parametrize(
    ("row", "state", "text"),
    [
        (
            "4.12 W, 38, 208 MHz",
            GpuState(power=4.12, temperature=38, clock=208),
            "4 W, 38 °C, 208 MHz",
        ),
        ("[N/A], 71, [N/A]", GpuState(temperature=71), "71 °C"),
        ("[Unknown Error], nan, -1", GpuState(), ""),
    ],
)
def test_readings_have_their_units_and_may_be_absent(row: str, state: GpuState, text: str) -> None:
    assert parse_gpu_state(HEADER + row, "") == state
    assert str(state) == text


@pytest.mark.parametrize(
    ("mask", "slowed"),
    [
        ("0x0000000000000000", ()),
        ("0x0000000000000001", ()),  # idle
        ("0x0000000000000004", ("power cap",)),
        ("0x00000000000000e8", ("hardware slowdown", "software thermal limit",
                               "hardware thermal limit", "power brake")),
        ("[N/A]", ()),
        ("Not Active", ()),
    ],
)  # fmt: skip
def test_what_slows_the_clock_is_named(mask: str, slowed: tuple[str, ...]) -> None:
    state = parse_gpu_state(HEADER + "90.1 W, 80, 1200 MHz", f"clocks_event_reasons.active\n{mask}")
    assert state is not None
    assert state.slowed == slowed
    assert ("slowed by" in str(state)) is bool(slowed)


@pytest.mark.parametrize("text", ["", "No devices were found\n"])
def test_a_host_without_a_gpu_has_no_state(text: str) -> None:
    assert parse_gpu_state(text, text) is None

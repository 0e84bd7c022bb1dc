"""The state of a GPU at one moment: power, temperature, clock, and what slows it down; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkfleet.facts.machine import parse_csv_table

# Bits of NVML's clocks event reasons that mean a lower clock than the load would get:
# https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
REASONS: Mapping[int, str] = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "software thermal limit",
    0x40: "hardware thermal limit",
    0x80: "power brake",
}
HALVED = (0x08, 0x40, 0x80)  # at these the core clock is half of what it was, or less


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """A reading of nvidia-smi: watts, degrees Celsius, MHz; None where the GPU reports none.

    `slowed` names what keeps the clock below what the load would get.
    """

    power: float | None = None
    temperature: float | None = None
    clock: float | None = None
    slowed: tuple[str, ...] = ()

    @property
    def halved(self) -> tuple[str, ...]:
        """The reasons among `slowed` that halve the clock, by NVML's words for them."""
        return tuple(text for bit, text in REASONS.items() if bit in HALVED and text in self.slowed)

    def __str__(self) -> str:
        parts = [
            f"{value:.0f} {unit}"
            for value, unit in (
                (self.power, "W"),
                (self.temperature, "°C"),
                (self.clock, "MHz"),
            )
            if value is not None
        ]
        if self.slowed:
            parts.append(f"slowed by {' and '.join(self.slowed)}")
        return ", ".join(parts)


def parse_gpu_state(text: str, reasons: str) -> GpuState | None:
    """Return the state of the first GPU; None where nvidia-smi lists none.

    `text` is CSV of ``power.draw,temperature.gpu,clocks.sm``, `reasons` that of
    ``clocks_event_reasons.active``, "" from drivers that do not know that field.
    """
    row = next(parse_csv_table(text), None)
    if row is None:
        return None
    mask = next(parse_csv_table(reasons), {}).get("clocks_event_reasons.active", "")
    return GpuState(
        power=_parse_reading(row.get("power.draw", "")),
        temperature=_parse_reading(row.get("temperature.gpu", "")),
        clock=_parse_reading(row.get("clocks.sm") or row.get("clocks.current.sm", "")),
        slowed=_parse_reasons(mask),
    )


def _parse_reading(cell: str) -> float | None:
    """Return the number before a unit; None for ``[N/A]`` and other words."""
    try:
        value = float(cell.partition(" ")[0])
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def _parse_reasons(cell: str) -> tuple[str, ...]:
    try:
        mask = int(cell, 16)
    except ValueError:
        return ()
    return tuple(text for bit, text in REASONS.items() if mask & bit)

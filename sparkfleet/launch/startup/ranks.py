"""The last milestone of each rank during a start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sparkfleet.vllm import milestones
from sparkfleet.vllm.milestones import Milestone


@dataclass(frozen=True, slots=True, kw_only=True)
class RankUpdate:
    """A rank on `host` has reached a milestone; `rank` is None for a process without one."""

    host: str
    rank: int | None
    milestone: Milestone

    @property
    def stage(self) -> str:
        """The phase, with the rank where it is known."""
        phase = str(self.milestone.phase)
        return phase if self.rank is None else f"rank {self.rank}: {phase}"

    def __str__(self) -> str:
        return str(self.milestone) if self.rank is None else f"rank {self.rank}: {self.milestone}"


class RankTracker:
    """Reads the new lines of every host's log; `hosts` are names by fabric address.

    Under Ray the head's log has lines of all ranks; a line's address gives its host.
    """

    def __init__(self, hosts: Mapping[str, str] | None = None) -> None:
        self._hosts = hosts or {}
        self._kept: dict[str, dict[object, str]] = {}
        self._last: dict[tuple[str, int | None], RankUpdate] = {}

    def feed(self, host: str, lines: Sequence[str]) -> Iterator[RankUpdate]:
        """Yield the updates in new `lines` of the log of `host`."""
        kept = self._kept.setdefault(host, {})
        is_kept = [_keep_line(kept, line) for line in lines]
        if not any(is_kept):
            return
        log = "\n".join(kept.values())
        for rank, milestone in milestones.find_latest_milestones(log).items():
            where = self._hosts.get(milestone.address or "", host)
            update = RankUpdate(host=where, rank=rank, milestone=milestone)
            if self._last.get((host, rank)) != update:
                self._last[host, rank] = update
                yield update

    def __str__(self) -> str:
        """Return the last milestone of each rank and of other processes, in one line."""
        ranked = {
            update.rank: str(update) for update in self._last.values() if update.rank is not None
        }
        rest = [f"{update.host}: {update}" for update in self._last.values() if update.rank is None]
        return ", ".join([*(ranked[rank] for rank in sorted(ranked)), *rest])


def _keep_line(kept: dict[object, str], line: str) -> bool:
    """Keep a line that shows a milestone or a rank, and return whether it does.

    It replaces the last milestone of the same process, so that hours of progress stay a few lines.
    """
    milestone = milestones.parse_milestone(line)
    key: object = line
    if "rank" not in line:
        if milestone is None:
            return False
        key = (milestone.address, milestone.pid, milestones.parse_log_line(line).process)
    kept.pop(key, None)  # the order counts
    kept[key] = line
    return True

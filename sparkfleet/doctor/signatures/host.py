"""Failures of a host: driver, Docker, SSH, session and clock."""

from __future__ import annotations

import re

from sparkfleet.doctor.signatures.row import Clues, FailureRole, Signature


def _shows_no_connectx(match: re.Match[str], _clues: Clues) -> bool:
    return not re.search(r"^enP?\d+p1s0f", match.string, re.MULTILINE)


ROWS = (
    Signature(
        id="F47",
        pattern=r"SemLock\b(?:.*\n){0,8}?.*FileNotFoundError|FileNotFoundError.*SemLock",
        cause="Semaphores vanished when the SSH session ended: logind removes them.",
        fix="Run `loginctl enable-linger` on that host, or `invoke hosts.prepare`.",
        source="facts/dgx-spark.md failure 47",
        recorded=False,
    ),
    Signature(
        id="F48",
        pattern=r"Failed to initialize NVML: Unknown Error",
        cause="A daemon-reload took the GPU from the container (systemd cgroup driver).",
        fix="Restart the container; set Docker's cgroup driver to cgroupfs.",
        source="facts/dgx-spark.md failure 48",
    ),
    Signature(
        id="F49",
        pattern=r"nvml error: driver not loaded",
        cause="The running kernel has no NVIDIA module.",
        fix="Boot the kernel that has it: `find /lib/modules -name 'nvidia.ko*'` tells which.",
        source="facts/dgx-spark.md failure 49",
    ),
    Signature(
        id="L-gpu",
        pattern=r"^No devices were found",
        cause="The driver sees no GPU: its firmware did not come up.",
        fix="Reboot that host; `nvidia-smi -L` must then name NVIDIA GB10.",
        source="cases/outputs/nvidia-smi.bad-no-devices-exit-0.txt",
    ),
    Signature(
        id="F62",
        pattern=r"permission denied while trying to connect to the [Dd]ocker"
        r"|[Pp]ermission denied.*docker\.sock",
        cause="The user is not in the docker group, or the session is older than the group.",
        fix="Run `sudo usermod -aG docker $USER` on that host and log in again.",
        source="facts/dgx-spark.md failure 62; seed 5 section 11",
    ),
    Signature(
        id="F63",
        pattern=r"Host key verification failed",
        cause="The host's key is not in known_hosts, or is another one.",
        fix="Check the key on the host itself, then run `ssh` to it once.",
        source="facts/dgx-spark.md failure 63",
        recorded=False,
    ),
    Signature(
        id="F63-key",
        pattern=r"Permission denied \(.*publickey",
        cause="The host takes none of the keys that were offered.",
        fix="Run `ssh-copy-id` to that host, and `ssh-add` for a key with a passphrase.",
        source="facts/dgx-spark.md failure 63; case C51",
        recorded=False,
    ),
    Signature(
        id="C35",
        pattern=r"Running script in parallel on \d+ hosts: \w, \w,|resolve hostname \w:",
        cause="The list of hosts was split into letters.",
        fix="Give the hosts in an inventory, and a part of them with --limit.",
        source="case C35",
    ),
    Signature(
        id="V-hostname",
        pattern=r"Could not resolve hostname (?P<name>[^\s:]{2,}):",
        cause="{name} has no address here.",
        fix="Set ansible_host of {name} to its address.",
        source="cases/outputs/ssh.bad-hosts-split-into-characters.txt",
    ),
    Signature(
        id="F64",
        pattern=r"\b(?P<name>[\w-]+-\d+\.local)\b",
        cause="{name} is a name that mDNS made up for a second address of the host.",
        fix="Set ansible_host to an address instead of a .local name.",
        source="facts/dgx-spark.md failure 64",
        role=FailureRole.WARNING,
        recorded=False,
    ),
    Signature(
        id="F68",
        pattern=r"CERTIFICATE_VERIFY_FAILED|\bTLS\b.*\bvalidat",
        cause="A certificate was refused; a wrong clock does that.",
        fix="Run `timedatectl set-ntp true` on that host.",
        source="facts/dgx-spark.md failure 68",
        recorded=False,
    ),
    Signature(
        id="C20",
        pattern=r"^(?P<name>enP7s7) +\w+ +[\da-f:]{17} <",  # a line of `ip -br link`
        holds=_shows_no_connectx,
        cause="The host shows no interface of its ConnectX-7, only {name}: it was powered off.",
        fix="Plug the QSFP cable in and reboot that host; `invoke links.show` must then list it.",
        source="case C20; facts/dgx-spark.md failure 9",
        role=FailureRole.WARNING,
    ),
    Signature(
        id="C45-free",
        pattern=r"^Mem: +1\d\dGi(?: +\S+){4} +(?P<free>[0-7](?:\.\d+)?Gi|\d+Mi)$",
        cause="Only {free} of the one memory pool are available.",
        fix="Lower gpu-memory-utilization in vllm_args; `invoke cluster.status` tells who has it.",
        source="facts/dgx-spark.md failure 25 (8 GiB); case C45",
        role=FailureRole.WARNING,
    ),
)

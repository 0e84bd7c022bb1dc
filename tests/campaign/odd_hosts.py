"""Scripts that make a host odd, and that undo it; they run as root on the host."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

BASHRC = "rm -f {home}/.bashrc"
# sshd begins anew with its configuration; its PID file is written once it listens
RESTART = (
    "pid=$(cat /run/sshd.pid); rm /run/sshd.pid; kill -HUP $pid;"
    " until [ -s /run/sshd.pid ]; do sleep 0.1; done"
)
# All programs that begin from then on, sshd too, preload a library with another wall clock.
CLOCK = f"""cat >/run/clock.c <<'END'
{Path(__file__).with_name("clock.c").read_text().replace("{", "{{").replace("}", "}}")}END
cc -shared -fPIC -O1 -DOFFSET=SECONDS -DSINCE=$(date +%s) -o /run/clock.so /run/clock.c -ldl
echo /run/clock.so >/etc/ld.so.preload
{RESTART}"""
TRUE_CLOCK = f"rm /etc/ld.so.preload\n{RESTART}"
YEAR = 365 * 24 * 60 * 60  # seconds
COMPILES = shutil.which("cc") is not None
DROPPED = "tcp {way} 22 numgen random mod 100 '<' 10 drop"  # a tenth of the packets
LOSS = "\n".join(
    f"nft add chain inet drops {hook} '{{{{ type filter hook {hook} priority 0; }}}}'\n"
    f"nft add rule inet drops {hook} {DROPPED.format(way=way)}"
    for hook, way in (("input", "dport"), ("output", "sport"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OddHost:
    """A way of a host to be odd. On one that `works` every task has to complete.

    It is not `possible` where this machine lacks a tool for it.
    """

    make: str
    undo: str = BASHRC
    works: bool = True
    possible: bool = True

    def format_scripts(self, *, home: str, state: str) -> tuple[str, str]:
        """Return the scripts that make and undo it, for the login's home and the folder of state.

        What was made belongs to the login, as if it had made it.
        """
        owned = f"{self.make}\nchown -R nvidia: {{home}}/.bashrc {{state}} 2>/dev/null || true"
        return owned.format(home=home, state=state), self.undo.format(home=home, state=state)


def add_to_start_file(line: str) -> str:
    """Return the script that adds a line to the file that bash reads first; no quotes in it."""
    return f"echo '{line}' >>{{home}}/.bashrc"


ODD: Mapping[str, OddHost] = {
    "start file prints": OddHost(make=add_to_start_file("echo hello")),
    "start file ends": OddHost(make=add_to_start_file("exit 1"), works=False),
    "start file asks": OddHost(make=add_to_start_file("read -p name: x"), works=False),
    "start file sleeps": OddHost(make=add_to_start_file("sleep 4")),
    "login shell is dash": OddHost(
        make="usermod -s /bin/dash nvidia", undo="usermod -s /bin/bash nvidia"
    ),
    "login shell is zsh": OddHost(
        make="usermod -s $(command -v zsh || echo /bin/bash) nvidia",
        undo="usermod -s /bin/bash nvidia",
    ),
    "login shell refuses": OddHost(
        make="usermod -s /usr/sbin/nologin nvidia",
        undo="usermod -s /bin/bash nvidia",
        works=False,
    ),
    "login shell is missing": OddHost(
        make="usermod -s /bin/absent nvidia", undo="usermod -s /bin/bash nvidia", works=False
    ),
    "motd and banner": OddHost(
        make=f"echo hello | tee /etc/motd >/etc/banner\n"
        f"echo Banner /etc/banner >>/etc/ssh/sshd_config\n{RESTART}",
        undo=f"rm -f /etc/motd\nsed -i '/^Banner/d' /etc/ssh/sshd_config\n{RESTART}",
    ),
    "strange locale": OddHost(make=add_to_start_file("export LC_ALL=xx_YY.UTF-9 LANG=de_DE")),
    "home is elsewhere": OddHost(  # than when the deployment was started
        make="mkdir -p /srv/nvidia\ncp -a {home}/.ssh /srv/nvidia\nchown nvidia: /srv/nvidia\n"
        "sed -i 's|:{home}:|:/srv/nvidia:|' /etc/passwd",
        undo="sed -i 's|:/srv/nvidia:|:{home}:|' /etc/passwd\nrm -rf /srv/nvidia",
        works=False,
    ),
    "home is read-only": OddHost(make="chmod 0500 {home}", undo="chmod 0755 {home}", works=False),
    "umask 000": OddHost(make=add_to_start_file("umask 000")),
    "few files": OddHost(make=add_to_start_file("ulimit -n 16"), works=False),
    "no python3": OddHost(
        make="ln -sf /bin/false {home}/python3; echo 'PATH={home}:$PATH' >>{home}/.bashrc",
        undo="rm -rf {home}/.bashrc {home}/python3",
        works=False,
    ),
    "TMOUT": OddHost(make=add_to_start_file("TMOUT=1")),
    "record of another shape": OddHost(  # so that processes have none, which a start refuses
        make="mkdir -p {state}; echo '[1]' >{state}/deployment.json", undo="", works=False
    ),
    "guard of another shape": OddHost(
        make="mkdir -p {state}; echo '[1]' >{state}/guard.json", undo=""
    ),
    "clock a year ahead": OddHost(
        make=CLOCK.replace("SECONDS", f"{YEAR}"), undo=TRUE_CLOCK, possible=COMPILES
    ),
    "clock a year behind": OddHost(
        make=CLOCK.replace("SECONDS", f"-{YEAR}"), undo=TRUE_CLOCK, possible=COMPILES
    ),
    "MaxSessions 1": OddHost(
        make=f"echo MaxSessions 1 >>/etc/ssh/sshd_config\n{RESTART}",
        undo=f"sed -i '/^MaxSessions/d' /etc/ssh/sshd_config\n{RESTART}",
    ),
    "SSH is slow": OddHost(
        make="tc qdisc replace dev enP7s7 root tbf rate 256kbit burst 16kb latency 400ms",
        undo="tc qdisc delete dev enP7s7 root",
    ),
    "SSH loses packets": OddHost(
        make=f"nft add table inet drops\n{LOSS}", undo="nft delete table inet drops"
    ),
    "SSH sessions are dropped": OddHost(
        make="setsid sh -c 'while sleep 5; do pkill -P $(cat /run/sshd.pid); done'"
        " >/dev/null 2>&1 </dev/null & echo $! >/run/dropper",
        undo="kill $(cat /run/dropper)",
        works=False,
    ),
}

"""A machine with a real systemd and journald: namespaces on an overlay of this machine's files.

It needs root, overlay filesystems, cgroups of version 2, and Debian's or Ubuntu's packages systemd,
dbus-user-session, libpam-systemd, polkitd and openssh-server. What this machine has enabled is not
started there: only the units of the system itself, sshd, and those of the tests.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path

from tests.commandline import Done, within

BOOT = Path(__file__).with_name("boot.sh")
NEEDED = (
    "/lib/systemd/systemd",
    "/usr/lib/systemd/user/dbus.socket",
    "/usr/lib/*/security/pam_systemd.so",
    "/usr/lib/polkit-1/polkitd",
    "/usr/sbin/sshd",
)
ADDRESS = "127.0.0.1"
PATIENCE = 45.0  # seconds for a boot or a shutdown
PLAIN_USER = "ann"  # without sudo
SUDO_USER = "nvidia"  # with sudo, without a password
USERS = {PLAIN_USER: 1500, SUDO_USER: 1501}
# Folders that are empty at first: units and init scripts that this machine has enabled, and files
# of its own.
EMPTY = ("etc/systemd/system", "etc/systemd/user", "etc/init.d", "etc/ssh/sshd_config.d",
         "etc/sudoers.d", "var/log", "var/lib/systemd", "root", "home")  # fmt: skip
FILES = {
    "etc/fstab": "",
    "etc/hosts": "127.0.0.1 localhost spark-01\n",
    "etc/hostname": "spark-01\n",
    "etc/ssh/sshd_config.d/tests.conf": "UseDNS no\nPermitRootLogin prohibit-password\n",
    f"etc/sudoers.d/{SUDO_USER}": f"{SUDO_USER} ALL=(ALL) NOPASSWD:ALL\n",
    "var/log/wtmp": "",
}


def find_missing() -> list[str]:
    """Return what this machine lacks for a machine with systemd."""
    root = Path("/")
    lack = [path for path in NEEDED if not any(root.glob(path.removeprefix("/")))]
    if os.geteuid() != 0:
        lack.append("root")
    return lack if _find_cgroups() else [*lack, "cgroups of version 2"]


class SystemdMachine:
    """A machine that can be booted, logged into, and cut off; `close` removes it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sparkfleet-systemd-", dir="/dev/shm"))
        self.disk = self.folder / "disk"
        self._cgroup = _find_cgroups()[0] / self.folder.name
        self._boot: subprocess.Popen[bytes] | None = None
        for name in ("disk", "work", "root"):
            (self.folder / name).mkdir()
        self.folder.chmod(0o755)
        self._make_disk()

    def close(self) -> None:
        """Leave nothing of it."""
        self.cut_power()
        shutil.rmtree(self.folder)

    def boot(self) -> None:
        """Boot, and wait until systemd has started all there is; raises AssertionError."""
        (self.folder / "boot_id").write_text(f"{uuid.uuid4()}\n")
        self._cgroup.mkdir()
        namespaces = ("--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child")
        with (self.folder / "console").open("ab") as console:
            self._boot = subprocess.Popen(
                ["unshare", *namespaces, "bash", str(BOOT), str(self.folder), str(self._cgroup)],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
        boot = self._boot
        answers = within(
            PATIENCE, lambda: boot.poll() is not None or self.run("root", "true").code == 0
        )
        assert answers, "no answer by SSH"
        assert boot.poll() is None, (self.folder / "console").read_text()
        self.run("root", "systemctl is-system-running --wait")

    @property
    def live(self) -> Path:
        """The files of the machine, on which tests may write while it is on, too."""
        pid = self._find_pid1()
        return self.disk if pid is None else Path(f"/proc/{pid}/root")

    def run(self, user: str, script: str, *, limit: float = PATIENCE * 4) -> Done:
        """Run a script in a login of `user` by SSH, which PAM and logind see as such."""
        pid = self._find_pid1()
        if pid is None:
            return Done(code=255, output="it is off")
        words = ["nsenter", f"--net=/proc/{pid}/ns/net", "ssh", "-F", "none", "-T",
                 "-i", str(self.folder / "key"), "-o", "StrictHostKeyChecking=no",
                 "-o", f"UserKnownHostsFile={self.folder}/known_hosts", "-o", "LogLevel=ERROR",
                 "-o", "ConnectTimeout=5", f"{user}@{ADDRESS}", script]  # fmt: skip
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=-1, stderr=-2, timeout=limit, check=False
        )
        return Done(code=done.returncode, output=done.stdout.decode(errors="replace"))

    def reboot(self) -> None:
        """Shut down as a person does, and boot again."""
        self.run("root", "systemctl reboot")
        assert self._boot is not None
        assert self._boot.wait(PATIENCE * 3) == -signal.SIGHUP  # reboot(2) in a PID namespace
        self.cut_power()
        self.boot()

    def lose_power(self) -> None:
        """Lose power, and boot again."""
        self.cut_power()
        self.boot()

    def cut_power(self) -> None:
        """End every process at once."""
        if self._boot is not None:
            self._boot.kill()
            self._boot.wait()
            self._boot = None
        assert within(PATIENCE, self._remove_cgroup)

    def install(self, files: Mapping[str, str], *, mode: int = 0o644) -> None:
        """Write files, by their path without the first slash, while the machine is off."""
        for name, text in files.items():
            path = self.disk / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(mode)

    def _make_disk(self) -> None:
        for name in EMPTY:
            (self.disk / name).mkdir(parents=True)
            os.setxattr(self.disk / name, "trusted.overlay.opaque", b"y")
        (self.disk / "root").chmod(0o700)
        self.install({**FILES, "etc/machine-id": f"{uuid.uuid4().hex}\n"})
        (self.disk / f"etc/sudoers.d/{SUDO_USER}").chmod(0o440)
        (self.disk / "var/log/journal").mkdir()  # so that journald keeps what it gets
        (self.disk / "var/log/private").mkdir(mode=0o700)
        wants = self.disk / "etc/systemd/system/multi-user.target.wants"
        wants.mkdir()
        (wants / "ssh.service").symlink_to("/lib/systemd/system/ssh.service")
        default = self.disk / "etc/systemd/system/default.target"
        default.symlink_to("/lib/systemd/system/multi-user.target")
        self._make_users()

    def _make_users(self) -> None:
        key = self.folder / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        files = {"passwd": "{0}:x:{1}:{1}::/home/{0}:/bin/bash\n", "group": "{0}:x:{1}:\n",
                 "shadow": "{0}:*:20000:0:99999:7:::\n"}  # fmt: skip
        for name, form in files.items():
            rows = "".join(form.format(user, uid) for user, uid in USERS.items())
            self.install({f"etc/{name}": Path("/etc", name).read_text() + rows})
        (self.disk / "etc/shadow").chmod(0o640)
        for user, uid in {"root": 0, **USERS}.items():
            home = self.disk / ("root" if user == "root" else f"home/{user}")
            (home / ".ssh").mkdir(parents=True, mode=0o700)
            shutil.copy(f"{key}.pub", home / ".ssh/authorized_keys")
            for path in (home, *home.rglob("*")):
                os.chown(path, uid, uid)

    def _find_pid1(self) -> int | None:
        """Return the PID that systemd has on this machine, None while it is off."""
        if self._boot is None or self._boot.poll() is not None:
            return None
        children = Path(f"/proc/{self._boot.pid}/task/{self._boot.pid}/children").read_text()
        return next(map(int, children.split()), None)

    def _remove_cgroup(self) -> bool:
        """Remove the cgroups, the innermost first; return whether all processes were ended."""
        if not self._cgroup.exists():
            return True
        folders = [path for path in self._cgroup.rglob("*") if path.is_dir()]
        try:
            for path in (*sorted(folders, reverse=True), self._cgroup):
                path.rmdir()
        except OSError:
            return False
        return True


def _find_cgroups() -> list[Path]:
    """Return where cgroups of version 2 are mounted."""
    rows = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [Path(row[1]) for row in rows if row[2] == "cgroup2"]

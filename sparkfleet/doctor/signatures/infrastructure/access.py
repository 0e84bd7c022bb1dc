"""Failures of SSH between the hosts, and of services that systemd starts."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

ROWS = (
    Signature(
        id="ssh-unreachable",
        pattern=(
            r"ssh: connect to host (?P<name>\S{1,253}) port (?P<port>\d{1,5}): "
            r"(?P<why>Connection timed out|Connection refused|No route to host"
            r"|Network is unreachable)"
        ),
        cause="SSH does not reach {name} on port {port}: {why}.",
        fix=(
            "Timed out and No route to host mean a wrong address, another subnet or a host that is "
            "off; refused means that sshd does not run there. Compare with `{task:inventory.list}`."
        ),
        source="spark-arena/sparkrun#208; s1mplecc/spark-hadoop-docker#3",
        sample="ssh: connect to host 192.168.188.11 port 22: Connection timed out",
        near_miss="ssh: connect to host 192.168.188.11 port 22",
    ),
    Signature(
        id="service-failed",
        pattern=(
            r"^(?P<unit>[\w@.:\\-]{1,120}\.service): (?:Start request repeated too quickly"
            r"|Failed with result '(?P<result>[\w-]{1,40})'|Unit entered failed state)"
        ),
        cause="systemd could not start or keep {unit}; its own lines before this one say why.",
        fix="Read them on that host: `sudo journalctl -b -u {unit}`.",
        source="threefoldtech/js-sdk#3318; linuxmint/mintupgrade#47",
        role=FailureRole.SYMPTOM,
        leads_to=("docker-not-running",),
        sample="docker.service: Failed with result 'exit-code'.",
        near_miss="docker.service: Deactivated successfully.",
    ),
    Signature(
        id="ssh-closed-early",
        pattern=(
            r"(?:kex|ssh)_exchange_identification: (?:read: )?(?P<why>Connection reset by peer"
            r"|Connection closed by remote host)"
        ),
        cause=(
            "The other side ended the connection before any login ({why}): too many connections at "
            "once (MaxStartups), a ban (fail2ban), or not sshd behind that port."
        ),
        fix=(
            "Read `sudo journalctl -u ssh` on that host, and check the port; `--forks 4` opens "
            "fewer connections at once."
        ),
        source="ai4d-iasc/trixie#40; Burnett01/rsync-deployments#39",
        sample="kex_exchange_identification: Connection closed by remote host",
        near_miss="Connection to 10.0.0.2 closed.",
    ),
    Signature(
        id="ssh-too-many-keys",
        pattern=r"\bToo many authentication failures\b",
        cause="SSH offered more keys than the host lets a login try, before the right one.",
        fix=(
            "Set `IdentitiesOnly yes` and the right `IdentityFile` for that host in ~/.ssh/config; "
            "`ssh-add -l` lists what is offered."
        ),
        source="DataBiosphere/toil#3914; jawj/IKEv2-setup#146",
        leads_to=("ssh-publickey",),
        sample="Received disconnect from 10.0.0.2 port 22:2: Too many authentication failures",
        near_miss="error: maximum authentication attempts exceeded for root",
    ),
    Signature(
        id="unit-out-of-memory",
        pattern=(
            r"^(?:Killed /\S{0,400}/)?(?P<unit>[\w@.:\\-]{1,200})"
            r"(?:: systemd-oomd killed \d{1,6} process| due to memory (?:pressure|used)"
            r"|: A process of this unit has been killed by the OOM killer)"
        ),
        cause="Memory was short, and systemd-oomd or the kernel killed a process of {unit}.",
        fix=(
            "Lower gpu-memory-utilization or max-model-len in vllm_args, or stop other processes; "
            "`oomctl` shows what systemd-oomd watches."
        ),
        source="systemd/systemd#23606; systemd/systemd PR#42321",
        leads_to=("service-failed", "exit-137"),
        sample="vte-spawn-d.scope: systemd-oomd killed 12 process(es) in this unit.",
        near_miss="Memory pressure for /system.slice is 85.03% > 80.00% for > 2s with reclaim",
    ),
)

"""Failures of the fabric: interfaces, HCAs, GIDs, NCCL and Gloo."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

# Names that vLLM copies from the head to Ray's workers although each host needs its own (F88).
PER_HOST = (
    "NCCL_SOCKET_IFNAME|NCCL_IB_HCA|NCCL_IB_GID_INDEX|GLOO_SOCKET_IFNAME|TP_SOCKET_IFNAME"
    "|UCX_NET_DEVICES|VLLM_HOST_IP"
)

ROWS = (
    Signature(
        id="F88",
        pattern=(
            rf"Overwriting environment variable (?P<name>{PER_HOST}) "
            r"from '(?P<own>[^']*)' to '(?P<head>[^']*)'"
        ),
        cause=(
            "vLLM replaced this host's own {name}={own} by the head's {head}: the cages differ "
            "between the hosts."
        ),
        fix=(
            "Name {name} in ray_non_carry_over_env_vars.json in the head's VLLM_CONFIG_ROOT; "
            "`invoke cluster.up` writes that file."
        ),
        source="facts/dgx-spark.md failures 88 and 10; lab.md",
    ),
    Signature(
        id="F88-copied",
        pattern=rf"Copying the following environment variables.*'(?P<name>{PER_HOST})'",
        cause="vLLM copies the head's {name} to every worker, where it may name nothing.",
        fix=(
            "Name {name} in ray_non_carry_over_env_vars.json in the head's VLLM_CONFIG_ROOT; "
            "`invoke cluster.up` writes that file."
        ),
        source="facts/dgx-spark.md failure 88; lab.md",
        role=FailureRole.WARNING,
    ),
    Signature(
        id="F88-bootstrap",
        pattern=r"NCCL WARN Bootstrap : no socket interface found",
        cause="NCCL_SOCKET_IFNAME names no interface of this host.",
        fix=(
            "Set link_interfaces of this host to its own fabric netdevs (`invoke links.show` "
            "lists them) and take NCCL_SOCKET_IFNAME out of vllm_env and the image."
        ),
        source="lab.md; case C08",
    ),
    Signature(
        id="F01-none",
        pattern=r"NCCL WARN Failed to initialize any NET plugin",
        cause="NCCL was told to use RDMA (NCCL_NET=IB), and there is no RDMA device for it.",
        fix=(
            "See whether the NIC is there and up: `invoke links.show`; in a container pass "
            "/dev/infiniband. NCCL_NET=IB is ours, so that nothing falls back to TCP unseen."
        ),
        source="recorded by this project on two GPUs, NCCL 2.28.9; facts/dgx-spark.md failure 1",
    ),
    Signature(
        id="F12",
        pattern=r"Unable to find address for: (?P<name>\S+)",
        cause="Gloo was told to use {name}, and this host has no address on it.",
        fix=(
            "Set link_interfaces of this host to its own fabric netdevs (`invoke links.show` "
            "lists them) and take GLOO_SOCKET_IFNAME out of vllm_env and the image."
        ),
        source="facts/dgx-spark.md failure 12; case C05",
    ),
    Signature(
        id="F13",
        pattern=r"connectFullMesh failed with .*\bremote=\[(?:127\.0\.0\.1|::1)\]",
        cause="Gloo met the other rank at the loopback address, where it is not.",
        fix=(
            "Set GLOO_SOCKET_IFNAME on each host to its own fabric interface "
            "(`invoke cluster.up` does, from link_interfaces), or fix the host name in /etc/hosts."
        ),
        source="facts/dgx-spark.md failure 13; case C37; lab.md",
    ),
    Signature(
        id="F13-fallback",
        pattern=r"Unable to resolve hostname to a \(local\) address\. Using the loopback address",
        cause="Gloo fell back to the loopback address: harmless solo, fatal with two hosts.",
        fix="Set GLOO_SOCKET_IFNAME on each host to its own fabric interface.",
        source="facts/dgx-spark.md failure 13; lab.md",
        role=FailureRole.WARNING,
    ),
    Signature(
        id="C37",
        pattern=r"world_size=(?!1 )\d+ .*distributed_init_method=tcp://(?:127\.|localhost|\[::1\])",
        cause="The ranks are to meet at a loopback address, which no other host can reach.",
        fix="Set VLLM_HOST_IP on each host to its own fabric address.",
        source="case C37",
        role=FailureRole.WARNING,
    ),
    Signature(
        id="F17",
        pattern=(
            r"master_addr=(?P<master>[^,\s]+), mq_connect_ip=(?!(?P=master)[\s,])(?P<ip>[^,\s]+)"
        ),
        cause="The message queue waits at {ip}, the group at {master}: one is not the fabric's.",
        fix="Set VLLM_HOST_IP on each host to its own fabric address.",
        source="facts/dgx-spark.md failure 17; cases C03 and C04",
        role=FailureRole.WARNING,
    ),
    Signature(
        id="F17-host-ip",
        pattern=r"Failed to get the IP address, using 0\.0\.0\.0 by default",
        cause="vLLM found no address of this host: there is no default route and no VLLM_HOST_IP.",
        fix="Set VLLM_HOST_IP on each host to its own fabric address.",
        source="facts/dgx-spark.md failure 17; lab.md",
        role=FailureRole.WARNING,
    ),
    Signature(
        id="F01",
        pattern=r"NCCL INFO (?:Using network Socket|Channel \S+ : .* via NET/Socket)",
        cause="NCCL moves the data over TCP, not over RDMA.",
        fix=(
            "Give the engine /dev/infiniband, IPC_LOCK and memlock -1, and let NCCL_IB_HCA name "
            "this host's cabled HCAs; `invoke links.verify` tells which."
        ),
        source="facts/dgx-spark.md failure 1; case C31",
        role=FailureRole.WARNING,
    ),
    Signature(
        id="C37-ib-disabled",
        pattern=r"NCCL_IB_DISABLE set by environment to 1\b",
        cause="NCCL_IB_DISABLE=1 turns RDMA off on this host.",
        fix="Take NCCL_IB_DISABLE out of nccl_env, vllm_env and the image.",
        source="case C37",
        role=FailureRole.WARNING,
    ),
    Signature(
        id="F02",
        pattern=r"NET/IB : Using \[0\](?P<hca>[^:\s]+)\S* (?!\[1\])",
        cause="NCCL uses {hca} alone, half of the cable.",
        fix="List both twins of the cabled cage in NCCL_IB_HCA; `invoke links.verify` names them.",
        source="facts/dgx-spark.md failure 2; case C13",
        role=FailureRole.WARNING,
    ),
    Signature(
        id="F11",
        pattern=r"NET/IB : Using \[0\]\S+ \[1\]\S+ \[2\]|Detected IB_IF: (?:[^,\s]+,){2}",
        cause="More HCAs than those of one cage are used: a port may lead to another device.",
        fix="Set link_interfaces to the netdevs that share a subnet with the peers.",
        source="facts/dgx-spark.md failure 11; case C01",
        role=FailureRole.WARNING,
    ),
    Signature(
        id="F08",
        pattern=r"^\s*Speed: 100000Mb/s",
        cause="The port runs at 100 Gb/s: the switch negotiated it down.",
        fix="Fix the switch port to 200G-baseCR4, or set link_speed: 100000 if that is meant.",
        source="facts/dgx-spark.md failure 8",
        role=FailureRole.WARNING,
        recorded=False,
    ),
    Signature(
        id="F09",
        pattern=r"Link detected: no \(No cable\)",
        cause="The port has no cable.",
        fix="Reseat the QSFP cable on both hosts, then `invoke links.show`.",
        source="facts/dgx-spark.md failure 9 and section 1.5",
        role=FailureRole.WARNING,
        recorded=False,
    ),
    Signature(
        id="F06",
        pattern=r"LnkSta:.*\bWidth x2\b",
        cause="The second controller runs on two PCIe lanes: the BIOS wires it so.",
        fix="Update the firmware with `fwupdmgr update`.",
        source="facts/dgx-spark.md failure 6; case C13",
        role=FailureRole.WARNING,
        recorded=False,
    ),
    Signature(
        id="C18",
        pattern=r"(?:packet_seq_err|out_of_sequence|req_transport_retries_exceeded) \+?[1-9]",
        cause="The fabric loses packets.",
        fix="Run `invoke links.verify` twice and look at MTU, speed and the counters' growth.",
        source="case C18",
        role=FailureRole.WARNING,
    ),
    Signature(
        id="F45",
        pattern=r"(?i)\bufw\b.*\bblock",
        cause="The firewall drops packets: ping works and RDMA hangs.",
        fix="Allow both fabric interfaces: `sudo ufw allow in on <interface>`.",
        source="facts/dgx-spark.md failure 45",
        role=FailureRole.WARNING,
        recorded=False,
    ),
    Signature(
        id="S21-route",
        pattern=(
            r"- (?P<own>(?P<net>\d+\.\d+\.\d+)\.\d+)/24\n(?:.*\n){0,6}? +- to: (?P=net)\.0/24\n"
            r" +via: (?P=own)$"
        ),
        cause="netplan routes {net}.0/24 by the host's own address {own}, which is in it already.",
        fix="Take that route out of netplan: an address with /24 brings its own.",
        source="cases/outputs/netplan.bad-self-route.yaml; setup S21",
        role=FailureRole.WARNING,
    ),
)

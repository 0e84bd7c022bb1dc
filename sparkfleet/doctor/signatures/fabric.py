"""Failures of the fabric: interfaces, HCAs, GIDs, NCCL and Gloo."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

# Variables that vLLM copies from the head to Ray's workers although each host needs its own.
PER_HOST = (
    "NCCL_SOCKET_IFNAME|NCCL_IB_HCA|NCCL_IB_GID_INDEX|GLOO_SOCKET_IFNAME|TP_SOCKET_IFNAME"
    "|UCX_NET_DEVICES|VLLM_HOST_IP"
)

ROWS = (
    Signature(
        id="env-overwritten-by-head",
        pattern=(
            rf"Overwriting environment variable (?P<name>{PER_HOST}) "
            r"from '(?P<own>[^'\n]*)' to '(?P<head>[^'\n]*)'"
        ),
        cause=(
            "vLLM replaced this host's own {name}={own} with the head's {head}: the cages "
            "differ between the hosts."
        ),
        fix=(
            "Name {name} in ray_non_carry_over_env_vars.json in the head's VLLM_CONFIG_ROOT; "
            "`{task:cluster.up}` writes that file."
        ),
        source=(
            "recorded by this project with vLLM 0.20.2; spark-arena/sparkrun#135; "
            "vllm-project/vllm#40991"
        ),
        rare=(
            "vLLM logs it as a warning of the worker; reports quote what follows, Gloo or NCCL "
            "without an address, whose own fix would not help."
        ),
        near_miss="Overwriting environment variable PATH from '/usr/bin' to '/opt/bin'",
    ),
    Signature(
        id="nccl-bootstrap-interface",
        pattern=(
            r"Bootstrap ?: no (?:socket|NCCL_SOCKET_IFNAME) interface found"
            r"|NCCL WARN NET/(?:Socket ?: no|IB ?: No IP) interface found"
        ),
        cause="NCCL_SOCKET_IFNAME names an interface that this host does not have.",
        fix=(
            "Remove NCCL_SOCKET_IFNAME from vllm_env, nccl_env and the image. With more than one "
            "Spark, set link_interfaces of this host to its own fabric netdevs: "
            "`{task:links.show}` lists them."
        ),
        source=(
            "recorded by this project with NCCL 2.28.9; "
            "MiaAI-Lab/DeepSeek-v4.1-Flash-DGX-Sparks PR#4"
        ),
        near_miss="NCCL INFO Bootstrap : Using enp1s0f0np0:192.168.100.10<0>",
    ),
    Signature(
        id="nccl-no-rdma-device",
        pattern=(
            r"Failed to initialize any NET plugin"
            r"|NCCL WARN Error: network (?:IB|IBext\w*) not found"
        ),
        cause="NCCL must use RDMA (NCCL_NET=IB), but finds no RDMA device.",
        fix=(
            "Check that the NIC is present and up: `{task:links.show}`; pass /dev/infiniband to a "
            "container. sparkfleet sets NCCL_NET=IB to prevent a silent fallback to TCP."
        ),
        source=(
            "recorded by this project with NCCL 2.28.9; "
            "tonyd2wild/ds4-h3-video-gen-factory docs/ARTICLE.md"
        ),
        leads_to=("nccl-group-failed",),
        near_miss="NCCL INFO Initialized NET plugin IB",
    ),
    Signature(
        id="gloo-interface",
        pattern=r"Unable to find address for: (?P<name>\S+)",
        cause="Gloo is configured to use {name}, but this host has no address on it.",
        fix=(
            "Remove GLOO_SOCKET_IFNAME from vllm_env, nccl_env and the image. With more than one "
            "Spark, set link_interfaces of this host to its own fabric netdevs: "
            "`{task:links.show}` lists them."
        ),
        source="MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#4; spark-arena/sparkrun#275",
        near_miss="Found address for: enp1s0f0np0",
    ),
    Signature(
        id="gloo-loopback",
        pattern=(
            r"connectFullMesh failed with .{0,2000}\bremote=\[(?:127\.0\.0\.1|::1)\]"
            r"|connectFullMesh failed with \[\S{0,200}pair\.cc:\d{1,6}\] no error"
            r"|tcp/pair\.cc:\d{1,6}\] connect \[127\."
        ),
        cause="Gloo tried to reach the other rank at the loopback address.",
        fix=(
            "Set GLOO_SOCKET_IFNAME on each host to its own fabric interface "
            "(`{task:cluster.up}` does this, from link_interfaces), or fix the host name in "
            "/etc/hosts."
        ),
        source="vllm-project/vllm#7074; xorbitsai/inference#4810",
        near_miss="Gloo connectFullMesh failed with timeout, remote=[192.168.100.11]:14215",
    ),
    Signature(
        id="gloo-loopback-fallback",
        pattern=r"Unable to resolve hostname to a \(local\) address\. Using the loopback address",
        cause="Gloo fell back to the loopback address: harmless on one host, fatal with two.",
        fix="Set GLOO_SOCKET_IFNAME on each host to its own fabric interface.",
        source="vllm-project/vllm#7074",
        role=FailureRole.WARNING,
        near_miss="Able to resolve hostname to a (local) address.",
    ),
    Signature(
        id="init-method-loopback",
        pattern=r"world_size=(?!1 )\d+ .{0,300}distributed_init_method=tcp://(?:127\.|localhost|\[::1\])",
        cause="The rendezvous address is a loopback address, which no other host can reach.",
        fix="Set VLLM_HOST_IP on each host to its own fabric address.",
        source="xorbitsai/inference#4810",
        role=FailureRole.WARNING,
        near_miss="world_size=1 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:5",
    ),
    Signature(
        id="message-queue-address",
        pattern=(
            r"master_addr=(?P<master>(?!127\.|localhost|::1)[^,\s]+), "
            r"mq_connect_ip=(?!(?P=master)[\s,])(?P<ip>[^,\s]+)"
        ),
        cause="The message queue uses {ip}, the group {master}: one is not a fabric address.",
        fix="Set VLLM_HOST_IP on each host to its own fabric address.",
        # Two of the sources are about SGLang's queue.
        source=(
            "vllm-project/vllm PR#35429; MiaAI-Lab/Qwen3.8-Flash-Next-Dual-DGX-Sparks#3; "
            "spark-arena/sparkrun PR#219"
        ),
        role=FailureRole.WARNING,
        near_miss=(
            "DP group leader: node_rank=0, node_rank_within_dp=0, master_addr=127.0.0.1, "
            "mq_connect_ip=172.22.0.2 (local), world_size=2, local_world_size=2"
        ),
    ),
    Signature(
        id="queue-address-not-here",
        pattern=(
            r"ZMQError: Cannot assign requested address"
            r"(?: \(addr='tcp://(?P<ip>[\w.:\[\]-]{1,60}):\d)?"
        ),
        cause=(
            "A message queue is configured to listen on an address that this host does not have: "
            "{ip}."
        ),
        fix=(
            "Set VLLM_HOST_IP on each host to its own fabric address, and master-addr and "
            "data-parallel-address to the head's; a value exported for another host stays behind."
        ),
        source="vllm-project/vllm#31884; ai-dynamo/dynamo#2706; vllm-project/vllm PR#35429",
        leads_to=("engine-start-failed", "mp-worker-died"),
        sample=(
            "zmq.error.ZMQError: Cannot assign requested address (addr='tcp://10.27.91.2:13345')"
        ),
        near_miss="zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:5570')",
    ),
    Signature(
        id="host-ip-unknown",
        pattern=(
            r"Failed to get the IP address, using 0\.0\.0\.0 by default"
            r"|connect\(\(\"8\.8\.8\.8\", 80\)\).{0,60}\n(?:.{0,200}\n){0,2}?"
            r".{0,60}Network is unreachable"
        ),
        cause="vLLM found no address of this host: no default route, and VLLM_HOST_IP is unset.",
        fix="Set VLLM_HOST_IP on each host to its own fabric address.",
        source="MiaAI-Lab/Qwen3.8-Flash-Next-Dual-DGX-Sparks#3; spark-arena/sparkrun PR#219",
        role=FailureRole.WARNING,
        near_miss="Using IP address 0.0.0.0 for the API server",
    ),
    Signature(
        id="nccl-tcp",
        pattern=r"NCCL INFO (?:Using network Socket|Channel \S+ : .{0,300} via NET/Socket)",
        cause="NCCL moves the data over TCP, not over RDMA.",
        fix=(
            "Give the engine /dev/infiniband, IPC_LOCK and memlock -1, and set NCCL_IB_HCA to "
            "this host's cabled HCAs; `{task:links.verify}` lists them."
        ),
        source="TechPreacher/dgx-spark-vllm-cluster README; mark-ramsey-ri/vllm-dgx-spark#1",
        role=FailureRole.WARNING,
        near_miss="NCCL INFO Using network IB",
    ),
    Signature(
        id="nccl-ib-disabled",
        pattern=r"NCCL_IB_DISABLE set by environment to 1\b",
        cause="NCCL_IB_DISABLE=1 turns RDMA off on this host.",
        fix="Remove NCCL_IB_DISABLE from nccl_env, vllm_env and the image.",
        source="xorbitsai/inference#4810",
        role=FailureRole.WARNING,
        near_miss="NCCL INFO NCCL_IB_DISABLE set by environment to 0.",
    ),
    Signature(
        id="nccl-single-hca",
        pattern=r"NET/IB : Using \[0\](?P<hca>[^:\s]+)\S* (?!\[1\])",
        cause="NCCL uses {hca} alone, half of the cable.",
        fix="Set NCCL_IB_HCA to both HCAs of the cabled cage; `{task:links.verify}` lists them.",
        source="tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark PR#35",
        role=FailureRole.WARNING,
        near_miss="NET/IB : Using [0]rocep1s0f0:1/RoCE [1]roceP2p1s0f0:1/RoCE [RO]; OOB enp1:1<0>",
    ),
    Signature(
        id="nccl-too-many-hcas",
        pattern=r"NET/IB : Using \[0\]\S+ \[1\]\S+ \[2\]|Detected IB_IF: (?:[^,\s]+,){2}",
        cause="NCCL uses the HCAs of more than one cage: a port may lead to another device.",
        fix="Set link_interfaces to the netdevs that share a subnet with the peers.",
        source="eugr/spark-vllm-docker#40; NVIDIA/nccl#224",
        role=FailureRole.WARNING,
        near_miss="NET/IB : Using [0]rocep1s0f0:1/RoCE [1]roceP2p1s0f0:1/RoCE [RO]; OOB enp1:1<0>",
    ),
    Signature(
        id="port-speed-100g",
        pattern=r"^[ \t]{0,40}Speed: 100000Mb/s",
        cause="The port runs at 100 Gb/s: the switch negotiated it down.",
        fix="Fix the switch port to 200G-baseCR4, or set link_speed: 100000 if intended.",
        source=(
            "NVIDIA/dgx-spark-playbooks nvidia/multi-sparks-through-switch/README.md; "
            "KoyoImai/dgx_spark_cluster2 Step006/README.md"
        ),
        role=FailureRole.WARNING,
        near_miss="\tSpeed: 200000Mb/s",
    ),
    Signature(
        id="rdma-packet-loss",
        pattern=(
            r"\b(?:packet_seq_err|out_of_sequence|local_ack_timeout_err"
            r"|req_transport_retries_exceeded)[ :=]{1,3}\+?[1-9]"
        ),
        cause="The fabric loses packets.",
        fix="Run `{task:links.verify}` twice; check MTU, speed and the growth of the counters.",
        source="MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks PR#115; bytedance/byteps#179",
        role=FailureRole.WARNING,
        near_miss="packet_seq_err 0 out_of_sequence 0 local_ack_timeout_err:0",
    ),
    Signature(
        id="firewall-blocks",
        pattern=(r"(?i)\bufw\b.{0,30}\bblock(?!.{0,300}\bDST=(?:22[4-9]|23\d|255)\.)"),
        cause="The firewall drops packets: ping works, but RDMA hangs.",
        fix="Allow both fabric interfaces: `sudo ufw allow in on <interface>`.",
        source="bytebunkerlabs/dgx-spark-serve/docs/02",
        role=FailureRole.WARNING,
        recorded=False,
        near_miss="[UFW BLOCK] IN=enp0s31f6 OUT= SRC=10.9.3.80 DST=224.0.0.251 LEN=32 PROTO=2",
    ),
    Signature(
        id="netplan-self-route",
        # Without "/24" as a literal, which has no letters for the index of the log.
        pattern=(
            r"\b(?P<net>\d{1,3}\.\d{1,3}\.\d{1,3})\.0/(?=24)\d\d(?:\n +via: | via )"
            r"(?P<own>(?P=net)\.\d{1,3})(?:$| dev (?:e|ib|bond|br)\w+ )"
        ),
        cause="The host routes {net}.0/24 via {own}, its own address in that subnet.",
        fix="Remove that route (from netplan): an address with /24 creates its own.",
        source="https://idzik.co/4xspark.html; nmstate/nmstate#3003",
        role=FailureRole.WARNING,
        near_miss=(
            "- 192.168.100.10/24\n      routes:\n        - to: 192.168.101.0/24\n"
            "          via: 192.168.100.1"
        ),
    ),
    Signature(
        id="route-not-set",
        pattern=(
            r"(?:\bCould not set (?:static )?route: |^Error: (?=Nexthop has invalid gateway))"
            r"(?P<why>.{1,160})"
        ),
        cause="The host did not set a route, and may not reach what is behind it: {why}.",
        fix=(
            "Give the port an address in the gateway's subnet, or remove the route from netplan: "
            "hosts in one subnet need none, and a host is not its own gateway."
        ),
        source="systemd/systemd#1850; systemd/systemd#9001; firmadyne/firmadyne#115",
        role=FailureRole.WARNING,
        sample="systemd-networkd[92]: host0: Could not set route: Network is unreachable",
        near_miss="systemd-networkd[642]: hvwork0: Received new static route (configured)",
    ),
)

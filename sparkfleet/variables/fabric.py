"""Variables of clusters, links and NCCL."""

from __future__ import annotations

from sparkfleet.variables.variable import Kind, Variable

ROWS = (
    Variable(
        name="cluster_name",
        kind=Kind.TEXT,
        help="name of the folder on each node, of the lock and of the receipt",
        default="default",
    ),
    Variable(
        name="clusters",
        kind=Kind.MAPPING,
        help="several clusters by name: hosts, head, vars, host_vars (docs/inventory.md)",
        lines=True,  # checked for each variable inside
    ),
    Variable(
        name="cluster_rank_vars",
        kind=Kind.LIST,
        help="variables by node rank, a list of mappings; the first is for the head",
        lines=True,  # checked for each variable inside
    ),
    Variable(
        name="cluster_kernel",
        kind=Kind.TEXT,
        help="kernel release that every node must run, as in `uname -r`; a glob",
    ),
    Variable(
        name="cluster_driver",
        kind=Kind.TEXT,
        help="NVIDIA driver that every node must run, as in nvidia-smi; a glob",
    ),
    Variable(
        name="link_interfaces",
        kind=Kind.LIST,
        help="fabric netdevs of this host, one per rail; unset: those whose subnet every node has",
    ),
    Variable(
        name="link_addresses",
        kind=Kind.MAPPING,
        help="address with prefix that each fabric netdev of this host must have",
    ),
    Variable(
        name="link_rails",
        kind=Kind.INTEGER,
        help="rails that this host uses on purpose; no warning then if more are cabled",
        minimum=1,
        maximum=4,
    ),
    Variable(
        name="link_cables",
        kind=Kind.MAPPING,
        help="far end, HOST:INTERFACE, of the cable in each fabric netdev of this host",
    ),
    Variable(
        name="link_firmware",
        kind=Kind.TEXT,
        help="ConnectX-7 firmware that every node must have; a glob",
    ),
    Variable(
        name="link_mtu",
        kind=Kind.INTEGER,
        help="MTU that every fabric interface must have, bytes",
        minimum=1280,
        maximum=9216,
    ),
    Variable(
        name="link_speed",
        kind=Kind.INTEGER,
        help="link rate that every fabric port must report, Mb/s",
        default=200000,
        minimum=1000,
    ),
    Variable(
        name="link_expected_gbps",
        kind=Kind.NUMBER,
        help="bandwidth of a cable with all its rails, Gb/s; unset: link_speed; a single rail is "
        "expected to reach at most 100",
        minimum=0.1,
    ),
    Variable(
        name="link_memlock",
        kind=Kind.SIZE,
        help="memory that a login must be allowed to lock for RDMA; unset: no limit at all",
        minimum=0,
    ),
    Variable(
        name="link_receipt_max_age",
        kind=Kind.DURATION,
        help="how old the rates in a node's links.json may be before cluster.up measures again",
        default="7d",
    ),
    Variable(
        name="link_topology",
        kind=Kind.TEXT,
        help="how the nodes are cabled",
        choices=("direct", "switch", "ring"),
    ),
    Variable(
        name="link_control_interface",
        kind=Kind.TEXT,
        help="netdev for the rendezvous of a ring; unset: the wired subnet of all nodes",
    ),
    Variable(
        name="nccl_env",
        kind=Kind.ENVIRONMENT,
        help="NCCL_* and related variables, which override the computed ones",
    ),
    Variable(
        name="nccl_library",
        kind=Kind.TEXT,
        help="NCCL library of this host to use instead of the engine's, an absolute path",
    ),
    Variable(
        name="nccl_library_sha256",
        kind=Kind.TEXT,
        help="SHA-256 that nccl_library must have; unset: the same on every host",
    ),
    Variable(
        name="nccl_ib_hca",
        kind=Kind.TEXT,
        help="HCAs of this host in NCCL's form (=name:port,... or ^name); unset: of its netdevs",
    ),
    Variable(
        name="nccl_ib_gid_index",
        kind=Kind.TEXT,
        help="auto (leave it to NCCL >= 2.21), unset, or the index on this host",
        default="auto",
    ),
)

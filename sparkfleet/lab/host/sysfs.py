"""The part of a Spark's /sys that this machine lacks: RDMA devices, PCI slots, DMI, link speeds.

It is the upper layer of an overlay on a real sysfs, so operstate, carrier, MTU and the byte
counters stay the kernel's own. `build_port_files` is what the driver keeps in step with the netdev.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkfleet.lab.host.hardware import (
    EMPTY_GID,
    FIRST_IPV4_GID,
    GID_TYPES,
    MANAGEMENT,
    WIFI,
    Slots,
    build_gid_table,
    format_node_guid,
)
from sparkfleet.lab.host.tree import FileTree
from sparkfleet.lab.plan import HostPlan, Port

SPEED_UNKNOWN = "-1"
DRIVER_VERSION = "580.159.03"

ADAPTER = {
    "fw_ver": "28.45.4028",
    "hca_type": "MT4129",
    "board_id": "NVD0000000087",
    "hw_rev": "0",
    "node_type": "1: CA",
}
PORT = {
    "link_layer": "Ethernet",
    "lid": "0x0",
    "sm_lid": "0x0",
    "lid_mask_count": "0",
    "cap_mask": "0x00010000",
}
COUNTERS = (
    "counters/excessive_buffer_overrun_errors",
    "counters/link_downed",
    "counters/link_error_recovery",
    "counters/local_link_integrity_errors",
    "counters/port_rcv_data",
    "counters/port_rcv_errors",
    "counters/port_rcv_packets",
    "counters/port_xmit_data",
    "counters/port_xmit_discards",
    "counters/port_xmit_packets",
    "counters/port_xmit_wait",
    "counters/symbol_error",
    "hw_counters/implied_nak_seq_err",
    "hw_counters/local_ack_timeout_err",
    "hw_counters/np_cnp_sent",
    "hw_counters/out_of_buffer",
    "hw_counters/out_of_sequence",
    "hw_counters/packet_seq_err",
    "hw_counters/req_transport_retries_exceeded",
    "hw_counters/rnr_nak_retry_err",
    "hw_counters/roce_adp_retrans",
    "hw_counters/rp_cnp_handled",
)
CONNECTX = {
    "vendor": "0x15b3",
    "device": "0x1021",
    "class": "0x020000",
    "numa_node": "0",
    "current_link_speed": "32.0 GT/s PCIe",
    "current_link_width": "4",
    "max_link_speed": "32.0 GT/s PCIe",
    "max_link_width": "4",
}
ETHERNET = {"vendor": "0x10ec", "device": "0x8127", "class": "0x020000", "revision": "0x05"}
GPU = {"vendor": "0x10de", "device": "0x2e12", "class": "0x030000"}
ETHERNET_SLOT = "0007:01:00.0"
GPU_SLOT = "000f:01:00.0"
BOARD = {
    "product_name": "NVIDIA_DGX_Spark",
    "sys_vendor": "NVIDIA",
    "board_name": "P4242",
    "bios_vendor": "AMI",
    "bios_version": "5.36_0ACUM018",
}
PCI_DEVICES = "bus/pci/devices"
RDMA_CLASS = "class/infiniband"
DMI = "devices/virtual/dmi/id"


def locate_slot(slot: str) -> str:
    """Return the folder of a PCI device below /sys."""
    domain = slot[:4]
    return f"devices/pci{domain}:00/{domain}:00:00.0/{slot}"


def locate_netdev(netdev: str) -> str:
    """Return the folder of a network interface below /sys; veth devices are virtual ones."""
    return f"devices/virtual/net/{netdev}"


def locate_port(port: Port) -> str:
    """Return the folder of the one RDMA port of a function below /sys."""
    return f"{locate_slot(port.function.slot)}/infiniband/{port.function.hca}/ports/1"


def build_port_files(
    port: Port, *, carrier: bool, slots: Slots, first: int = FIRST_IPV4_GID
) -> dict[str, str | None]:
    """Return what the driver shows of a port by path below `locate_port`; None: no such file.

    A port without carrier is reported as Disabled, at 40 Gb/s, as recorded by ibstat.
    """
    files: dict[str, str | None] = {
        "state": "4: ACTIVE" if carrier else "1: DOWN",
        "phys_state": "5: LinkUp" if carrier else "3: Disabled",
        "rate": "200 Gb/sec (4X HDR)" if carrier else "40 Gb/sec (4X QDR)",
    }
    for index, gid in enumerate(build_gid_table(port.mac, slots, first)):
        used = gid != EMPTY_GID
        files[f"gids/{index}"] = gid
        files[f"gid_attrs/types/{index}"] = GID_TYPES[index % 2] if used else None
        files[f"gid_attrs/ndevs/{index}"] = port.netdev if used else None
    return files


def plan_gid_slots(port: Port) -> Slots:
    """Return the addresses of a freshly booted port's GIDs."""
    return (port.address,) if port.address else ()


def format_link_speed(*, carrier: bool) -> str:
    """Return the `speed` of a QSFP netdev in Mb/s: the cable's, on each of its two functions."""
    return "200000" if carrier else SPEED_UNKNOWN


def build_sysfs(host: HostPlan) -> FileTree:
    """Return the upper layer of a host's /sys."""
    files: dict[str, str] = dict(_list_machine_files(host))
    links: dict[str, str] = {"class/dmi/id": f"../../{DMI}"}
    for slot in _list_slots(host):
        links[f"{PCI_DEVICES}/{slot}"] = f"../../../{locate_slot(slot)}"
    if host.shown_gpu and host.shown_gpu.device_path:
        links[f"{PCI_DEVICES}/{host.shown_gpu.bus}"] = f"../../../{host.shown_gpu.device_path}"
    links[f"{locate_netdev(MANAGEMENT)}/device"] = f"../../../{_below_devices(ETHERNET_SLOT)}"
    links[f"{locate_netdev(WIFI)}/phy80211"] = "../../../ieee80211/phy0"
    for port in host.ports:
        part = build_function_files(host, port)
        files |= part.files
        links |= part.links
        links[f"{locate_netdev(port.netdev)}/device"] = (
            f"../../../{_below_devices(port.function.slot)}"
        )
        files[f"{locate_netdev(port.netdev)}/speed"] = (
            f"{format_link_speed(carrier=bool(port.wire))}\n"
        )
        files[f"{locate_netdev(port.netdev)}/phys_port_name"] = f"p{port.function.cage}\n"
    modes = {f"{DMI}/product_serial": 0o400}
    return FileTree(files=files, links=links, modes=modes, opaque=(RDMA_CLASS, PCI_DEVICES, DMI))


def build_function_files(host: HostPlan, port: Port) -> FileTree:
    """Return what shows of one function of the ConnectX-7: its PCI device and its RDMA device."""
    slot = locate_slot(port.function.slot)
    hca = port.function.hca
    base = locate_port(port)
    device = f"{slot}/infiniband/{hca}"
    live = build_port_files(port, carrier=port.wire is not None, slots=plan_gid_slots(port))
    files = {f"{slot}/{name}": text for name, text in CONNECTX.items()}
    files |= {f"{device}/{name}": text for name, text in ADAPTER.items()}
    files[f"{device}/node_guid"] = format_node_guid(port.mac)
    files[f"{device}/sys_image_guid"] = format_node_guid(
        host.ports[0].mac
    )  # one adapter, four functions
    files |= {f"{base}/{name}": text for name, text in PORT.items()}
    files |= {f"{base}/{name}": "0" for name in COUNTERS}
    files |= {f"{base}/{name}": text for name, text in live.items() if text is not None}
    links = {
        f"{RDMA_CLASS}/{hca}": f"../../{device}",
        f"{PCI_DEVICES}/{port.function.slot}": f"../../../{slot}",
        f"{device}/device": f"../../../{port.function.slot}",
        f"{slot}/net/{port.netdev}": f"../../../../virtual/net/{port.netdev}",
    }
    return FileTree(files=_add_newlines(files), links=links)


def _list_machine_files(host: HostPlan) -> dict[str, str]:
    """Return the files about the machine as a whole, and the devices that never change."""
    files = {f"{DMI}/{name}": text for name, text in BOARD.items()}
    files[f"{DMI}/product_serial"] = host.serial
    if not host.shown_gpu:  # the real driver's version is the kernel's own file
        files["module/nvidia/version"] = DRIVER_VERSION
    files["devices/ieee80211/phy0/name"] = "phy0"
    for slot in _list_slots(host):
        device = ETHERNET if slot == ETHERNET_SLOT else GPU
        files |= {f"{locate_slot(slot)}/{name}": text for name, text in device.items()}
    return _add_newlines(files)


def _list_slots(host: HostPlan) -> tuple[str, ...]:
    """Return the slots of the made-up devices besides the ConnectX-7."""
    return (ETHERNET_SLOT,) if host.shown_gpu else (ETHERNET_SLOT, GPU_SLOT)


def _add_newlines(files: Mapping[str, str]) -> dict[str, str]:
    return {path: f"{text}\n" for path, text in files.items()}


def _below_devices(slot: str) -> str:
    return locate_slot(slot).removeprefix("devices/")

"""Connection profiles of NetworkManager as keyfiles; pure.

The format: https://networkmanager.dev/docs/api/latest/nm-settings-keyfile.html
"""

from __future__ import annotations

import configparser
import uuid
from collections.abc import Mapping

from sparkfleet.links.addressing.host_network import KEYFILES
from sparkfleet.links.addressing.netplan_files import HEADER, RailSettings

PRIORITY = 100  # above the 0 of other profiles, so that this one is activated at boot


def find_keyfile(files: Mapping[str, str], netdev: str) -> str | None:
    """Return the path of the keyfile that configures a netdev by its name."""
    for path, text in sorted(files.items()):
        if path.startswith(KEYFILES) and _parse_keyfile(text).get("interface-name") == netdev:
            return path
    return None


def holds_profile(text: str, settings: RailSettings) -> bool:
    """Return whether a keyfile gives a rail its address and MTU, and no other address."""
    values = _parse_keyfile(text)
    address = values.get("ipv4.address1", "").partition(",")[0]
    return (
        values.get("ipv4.method") == "manual"
        and address == str(settings.address)
        and "ipv4.address2" not in values
        and values.get("ethernet.mtu") == str(settings.mtu)
    )


def name_keyfile(netdev: str) -> str:
    """Return the path of a new keyfile for a netdev."""
    return f"{KEYFILES}sparkfleet-{netdev}.nmconnection"


def compute_profile_uuid(settings: RailSettings) -> str:
    """Return the UUID of the profile: another one for other settings, the same for the same."""
    text = f"sparkfleet/{settings.netdev}/{settings.address}/{settings.mtu}"
    return str(uuid.uuid5(uuid.NAMESPACE_URL, text))


def format_keyfile(settings: RailSettings) -> str:
    """Return the keyfile of a rail: a static address without a gateway, and its MTU."""
    sections: dict[str, dict[str, object]] = {
        "connection": {
            "id": f"sparkfleet-{settings.netdev}",
            "uuid": compute_profile_uuid(settings),
            "type": "ethernet",
            "interface-name": settings.netdev,
            "autoconnect-priority": PRIORITY,
        },
        "ethernet": {"mtu": settings.mtu},
        "ipv4": {"method": "manual", "address1": settings.address, "never-default": "true"},
        "ipv6": {"method": "link-local"},
    }
    parts = [
        f"[{name}]\n" + "".join(f"{key}={value}\n" for key, value in values.items())
        for name, values in sections.items()
    ]
    return HEADER + "\n".join(parts)


def _parse_keyfile(text: str) -> Mapping[str, str]:
    """Return ``section.key`` to value, the keys of ``connection`` without it; empty if broken."""
    parser = configparser.ConfigParser(
        interpolation=None, strict=False, delimiters=("=",), comment_prefixes=("#",)
    )
    try:
        parser.read_string(text)
    except configparser.Error:
        return {}
    values = {}
    for section in parser.sections():
        name = {"802-3-ethernet": "ethernet"}.get(section, section)
        for key, value in parser[section].items():
            values[key if name == "connection" else f"{name}.{key}"] = value
    return values

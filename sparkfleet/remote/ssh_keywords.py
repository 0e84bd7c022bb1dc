"""Every keyword of ssh_config(5), up to OpenSSH 10, with what becomes of it here; data.

Nothing that changes who is trusted, who signs or how a host is reached is passed over: it is used,
or refused by name before a host is touched. `docs/inventory.md` has the same table.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Treatment(enum.StrEnum):
    """The treatment of a keyword."""

    USED = "used"
    REFUSED = "refused"
    NO_EFFECT = "no effect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyword:
    """A keyword: `note` says how, why, or what to do; a refused one may have the values `fine`."""

    name: str
    treatment: Treatment
    note: str
    fine: tuple[str, ...] = ()


def _build_rows(treatment: Treatment, note: str, names: str) -> tuple[Keyword, ...]:
    return tuple(Keyword(name=name, treatment=treatment, note=note) for name in names.split())


def _refuse(name: str, note: str, *fine: str) -> Keyword:
    return Keyword(name=name, treatment=Treatment.REFUSED, note=note, fine=fine)


USED = (
    *_build_rows(Treatment.USED, "which lines count; ssh reads them", "Host Match Include Tag"),
    *_build_rows(Treatment.USED, "ssh reads them", "IgnoreUnknown"),
    *_build_rows(Treatment.USED, "the way to the host", "Hostname Port User ProxyJump"),
    *_build_rows(
        Treatment.USED, "IPv4 or IPv6 to the host, or to the first jump host", "AddressFamily"
    ),
    *_build_rows(
        Treatment.USED,
        "ssh finds the full name",
        "CanonicalDomains CanonicalizeFallbackLocal CanonicalizeHostname CanonicalizeMaxDots "
        "CanonicalizePermittedCNAMEs",
    ),
    *_build_rows(
        Treatment.USED,
        "which host keys are trusted",
        "GlobalKnownHostsFile HostKeyAlias UserKnownHostsFile",
    ),
    *_build_rows(
        Treatment.USED,
        "always as with yes or accept-new; a key is never trusted unseen",
        "StrictHostKeyChecking",
    ),
    *_build_rows(Treatment.USED, "smaller RSA keys of hosts are refused", "RequiredRSASize"),
    *_build_rows(Treatment.USED, "for a key that accept-new adds", "HashKnownHosts"),
    *_build_rows(Treatment.USED, "which keys sign", "IdentityFile IdentitiesOnly IdentityAgent"),
    *_build_rows(
        Treatment.USED,
        "of those listed, the ones that Paramiko has",
        "Ciphers HostKeyAlgorithms KexAlgorithms MACs PubkeyAcceptedAlgorithms",
    ),
)
REFUSED = (
    _refuse("BindAddress", "leave it out for this host"),
    _refuse("BindInterface", "leave it out for this host"),
    _refuse(
        "ProxyCommand",
        "use ProxyJump; or for this host, ansible_ssh_common_args: -o ProxyCommand=none",
        "none",
    ),
    _refuse("Tunnel", "leave it out for this host", "no", "false"),
    _refuse("RefuseConnection", "remove the line to reach this host"),
    _refuse("RevokedHostKeys", "mark the keys @revoked in known_hosts instead", "none"),
    _refuse("KnownHostsCommand", "put the keys into known_hosts", "none"),
    _refuse("CheckHostIP", "add a line for the address to known_hosts, and set this to no", "no"),
    _refuse("VerifyHostKeyDNS", "put the key into known_hosts, and set it to no", "no", "false"),
    _refuse("NoHostAuthenticationForLocalhost", "put the key into known_hosts", "no"),
    _refuse("HostbasedAuthentication", "log in with a key, and set it to no", "no"),
    _refuse("GSSAPIKeyExchange", "put the key into known_hosts, and set it to no", "no"),
    _refuse(
        "PubkeyAuthentication", "only keys log in here: set it to yes", "yes", "true", "unbound"
    ),
    _refuse("PKCS11Provider", "load the token into the agent: ssh-add -s", "none"),
    _refuse("CertificateFile", "name it KEY-cert.pub, next to its key, and remove the line"),
)
WITHOUT_EFFECT = (
    *_build_rows(
        Treatment.NO_EFFECT,
        "one connection is kept open, with its own timeouts",
        "ChannelTimeout Compression ConnectTimeout ConnectionAttempts ControlMaster ControlPath "
        "ControlPersist IPQoS ObscureKeystrokeTiming RekeyLimit ServerAliveCountMax "
        "ServerAliveInterval TCPKeepAlive",
    ),
    *_build_rows(
        Treatment.NO_EFFECT,
        "only keys log in, and nothing is asked",
        "AddKeysToAgent BatchMode GSSAPIAuthentication GSSAPIClientIdentity "
        "GSSAPIDelegateCredentials GSSAPIKexAlgorithms GSSAPIRenewalForcesRekey "
        "GSSAPIServerIdentity GSSAPITrustDns KbdInteractiveAuthentication KbdInteractiveDevices "
        "NumberOfPasswordPrompts PasswordAuthentication PreferredAuthentications",
    ),
    *_build_rows(
        Treatment.NO_EFFECT,
        "belongs to a login that is refused, or to certificates of hosts, which are not used",
        "CASignatureAlgorithms EnableSSHKeysign HostbasedAcceptedAlgorithms ProxyUseFdpass",
    ),
    *_build_rows(
        Treatment.NO_EFFECT, "keys on a device sign through the agent", "SecurityKeyProvider"
    ),
    *_build_rows(Treatment.NO_EFFECT, "known_hosts is not changed after a login", "UpdateHostKeys"),
    *_build_rows(
        Treatment.NO_EFFECT,
        "nothing is forwarded",
        "ClearAllForwardings DynamicForward ExitOnForwardFailure ForwardAgent ForwardX11 "
        "ForwardX11Timeout ForwardX11Trusted GatewayPorts LocalForward PermitRemoteOpen "
        "RemoteForward StreamLocalBindMask StreamLocalBindUnlink TunnelDevice XAuthLocation",
    ),
    *_build_rows(
        Treatment.NO_EFFECT,
        "for a shell that a person uses",
        "EnableEscapeCommandline EscapeChar FingerprintHash ForkAfterAuthentication LocalCommand "
        "LogLevel LogVerbose PermitLocalCommand RemoteCommand RequestTTY SendEnv SessionType "
        "SetEnv StdinNull SyslogFacility VersionAddendum VisualHostKey WarnWeakCrypto",
    ),
)
KEYWORDS = {row.name.lower(): row for row in (*USED, *REFUSED, *WITHOUT_EFFECT)}

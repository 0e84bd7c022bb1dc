"""Failures of the gateway, which is HAProxy."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

# HAProxy 2.6 writes "(why) for [address]", older releases "(why) [address]".
_ADDRESS = r"(?: for)? \[(?P<address>[^\]\s]{1,80})\]"

ROWS = (
    Signature(
        id="gateway-port-in-use",
        pattern=r"cannot bind socket \(Address already in use\)" + _ADDRESS,
        cause="HAProxy cannot listen at {address}: another program has that port.",
        fix=(
            "Find it with `ss -tlnp` and stop it (the distribution's own service: "
            "`sudo systemctl disable --now haproxy`), or set `port` of `gateway` in the inventory; "
            "then `{task:gateway.up}`."
        ),
        source="haproxy/haproxy#1289; apache/cloudstack#10733",
        sample="Starting frontend gw: cannot bind socket (Address already in use) [0.0.0.0:8080]",
        near_miss="Starting frontend gateway: bound socket [0.0.0.0:8080]",
    ),
    Signature(
        id="gateway-port-denied",
        pattern=r"cannot bind socket \(Permission denied\)" + _ADDRESS,
        cause="HAProxy may not listen at {address}: ports below 1024 are root's.",
        fix=(
            "Set `port` of `gateway` in the inventory to 1024 or above (8080 is the default), then "
            "`{task:gateway.up}`."
        ),
        source="docker-library/haproxy#160; WhatsApp/proxy#110",
        sample="for frontend gateway: cannot bind socket (Permission denied) for [0.0.0.0:80]",
        near_miss="cannot bind UNIX socket (Permission denied) [/var/run/haproxy.stat]",
    ),
    Signature(
        id="gateway-no-server",
        pattern=r"(?:backend|proxy) '(?P<backend>[^'\n]{1,120})' has no server available",
        cause="No cluster behind `{backend}` of the gateway answers its health check.",
        fix="`{task:gateway.status}` names the clusters; see why with `{task:cluster.status}`.",
        source="haproxytech/kubernetes-ingress#479; balena-io/open-balena#37",
        role=FailureRole.SYMPTOM,
        sample="backend 'model0' has no server available!",
        near_miss="backend 'model0' has 1 server available",
    ),
    Signature(
        id="gateway-server-unresolved",
        pattern=(
            r"\[ALERT\].{0,60}parsing \[[^\]\n]{1,200}\] : 'server (?P<server>[^'\n]{1,120})' : "
            r"(?:invalid address|could not resolve address)"
        ),
        cause="HAProxy cannot resolve the address of {server}, and does not start.",
        fix="Use IP addresses or names that the gateway's host resolves (`getent hosts NAME`).",
        source="vfarcic/docker-flow-proxy#463; hq450/fancyss#278",
        leads_to=("gateway-config-invalid",),
        sample=(
            "[ALERT] 358/131112 (1067) : parsing [/etc/haproxy/haproxy.cfg:55] : 'server "
            "spark9' : could not resolve address 'spark9'."
        ),
        near_miss="[ALERT] 050/092949 (22276) : parsing [x.cfg:9] : unknown keyword 'server2'",
    ),
    Signature(
        id="gateway-config-invalid",
        pattern=r"\[ALERT\].{0,60}parsing \[(?P<place>[^\]\n]{1,200})\] ?: (?P<what>.{1,300})",
        cause="HAProxy does not accept its configuration at {place}: {what}",
        fix="`{task:gateway.up}` writes the file again; correct your own additions to it.",
        source="WhatsApp/proxy#118; jweissig/episode-45#5",
        sample=(
            "[ALERT]    (20) : config : parsing [/etc/haproxy/haproxy.cfg:57] : unknown "
            "keyword 'foo' in 'listen' section"
        ),
        near_miss="[NOTICE]   (20) : haproxy version is 2.6.7-c55bfdb",
    ),
)

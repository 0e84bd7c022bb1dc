"""Failures around the engine that no other row explains, by the program that reports them."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

_RUNTIME = r"(?:container init(?: caused)?|container process(?: caused)?|hook #\d|stderr): "

ROWS = (
    Signature(
        id="docker-refused",
        pattern=(
            r"(?:Error response from daemon|^Error: .{0,80}\b(?:crun|runc)): "
            rf"(?:.{{0,500}}{_RUNTIME})?(?P<what>\S.{{0,300}})"
        ),
        cause="The container was not started; Docker or Podman says: {what}",
        fix=(
            "Repeat it on that host with `docker run`, as `{task:cluster.render}` shows it; "
            "`sudo journalctl -u docker` may say more."
        ),
        source="rubenafo/docker-spark-cluster#5; moby/moby#42229",
        role=FailureRole.SYMPTOM,
        fallback=True,
        sample="docker: Error response from daemon: invalid volume specification.",
        near_miss="Response from daemon: OK",
    ),
    Signature(
        id="path-not-permitted",
        pattern=r"PermissionError: \[Errno 13\] Permission denied: '(?P<path>[^'\n]{1,300})'",
        cause="The process may not use {path}: it belongs to another user.",
        fix=(
            "Compare `ls -ld` of it with the user of the process (`id`); in a container, mount it "
            "with that user's rights or set `--user`."
        ),
        source="zylon-ai/private-gpt#1876; spacepatcher/firehol-ip-aggregator#26",
        role=FailureRole.SYMPTOM,
        fallback=True,
        sample="PermissionError: [Errno 13] Permission denied: '/data/logs/a.log'",
        near_miss="continue. Error: [Errno 13] Permission denied: '/data/x'",
    ),
)

"""C28: the engine's build of NCCL wedged pairs under load; the host's, of one version, did not.

The two digests are made.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

from sparkfleet.commands import build_script_command
from sparkfleet.launch.deployment.environment import build_rank_environment
from sparkfleet.launch.host import nccl_library
from sparkfleet.launch.host.nccl_library import NcclLibrary, check_nccl_libraries
from tests.engines import engine, settings

PATH = "/usr/lib/aarch64-linux-gnu/libnccl.so.2"
ONE, OTHER = "a" * 64, "b" * 64
NAMES = ("spark-1", "spark-2")


def _judged(first: str, second: str, **variables: str) -> dict[str, str]:
    own = {name: settings(name, nccl_library=PATH, **variables) for name in NAMES}
    found = {
        name: NcclLibrary(digest=digest, why="" if digest else "No such file or directory")
        for name, digest in zip(NAMES, (first, second), strict=True)
    }
    verdicts = check_nccl_libraries(found, own)
    return {one.host: f"{one.expected} | {one.seen}" for one in verdicts if one.refuses}


def test_one_build_on_all_nodes_passes() -> None:
    assert _judged(ONE, ONE) == {}
    assert _judged(ONE, ONE, nccl_library_sha256=ONE.upper()) == {}


def test_two_builds_are_refused_with_both_digests() -> None:
    assert _judged(ONE, OTHER) == {"spark-2": f"sha256 {ONE}, as on spark-1 | {OTHER}"}


def test_another_build_than_the_declared_one_is_refused_on_every_node() -> None:
    assert set(_judged(ONE, ONE, nccl_library_sha256=OTHER)) == {*NAMES}


def test_a_node_without_it_is_named() -> None:
    assert _judged(ONE, "") == {
        "spark-2": "a file, as on the other hosts | no such file or directory"
    }


def test_containers_have_it_mounted_and_preloaded_also_where_the_image_names_another() -> None:
    own = settings(nccl_library=PATH)
    runs = engine(nccl_library=PATH)
    words = runs.wrap("serve", ("vllm",), {})
    seen = "/opt/sparkfleet/libnccl.so.2"
    assert f"--mount=type=bind,source={PATH},target={seen},readonly" in words
    made = build_rank_environment(
        own,
        (),
        cluster="default",
        hf_home="/models",
        engine=(*runs.environment, *nccl_library.build_preload_variables(own, runs.inside)),
    )
    found = {one.name: one.value for one in made}
    assert (found["LD_PRELOAD"], found["VLLM_NCCL_SO_PATH"]) == (seen, seen)


def test_the_host_reports_the_digest_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "libnccl.so.2"
    path.write_bytes(b"a build")
    assert _identify(path) == {"digest": hashlib.sha256(b"a build").hexdigest(), "why": ""}
    assert _identify(tmp_path / "absent") == {
        "digest": "",
        "why": "No such file or directory",
    }


def _identify(path: Path) -> object:
    command = build_script_command("host/digest", {"path": str(path)}, python=(sys.executable,))
    done = subprocess.run(command.argv, input=command.input, capture_output=True, check=True)
    return json.loads(done.stdout)

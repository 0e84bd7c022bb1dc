"""C24: the recipe's environment reached only the head."""

from __future__ import annotations

from tests.engines import deployed, executed

ENVIRONMENT = {
    "REQUESTS_CA_BUNDLE": "/etc/ssl/proxy ca.pem",
    "HF_HUB_OFFLINE": 1,
    "HF_ENDPOINT": "https://mirror.lan",
}


def test_every_rank_has_the_recipes_environment() -> None:
    _, files = deployed(hosts=2, vllm_env=ENVIRONMENT)
    for own in files.values():
        lines = own["nccl.env"].splitlines()
        assert "export REQUESTS_CA_BUNDLE='/etc/ssl/proxy ca.pem'" in lines
        assert {"export HF_HUB_OFFLINE=1", "export HF_ENDPOINT=https://mirror.lan"} <= set(lines)


def test_every_container_reads_it_before_its_program() -> None:
    _, files = deployed(hosts=2, vllm_env=ENVIRONMENT)
    scripts = [("spark-1", "ray-head.sh"), ("spark-1", "vllm-serve.sh"),
               ("spark-2", "ray-worker.sh")]  # fmt: skip
    for host, script in scripts:
        assert "/sparkfleet/container.sh" in executed(files[host][script])
        assert ". /sparkfleet/nccl.env" in files[host]["container.sh"].splitlines()


def test_a_model_given_as_a_path_is_a_path_on_every_node() -> None:
    _, files = deployed(hosts=2)
    assert "/models/org/model" in executed(files["spark-1"]["vllm-serve.sh"])


def test_nothing_of_it_is_on_a_command_line() -> None:
    _, files = deployed(hosts=2, vllm_env={**ENVIRONMENT, "HF_TOKEN": "hf_secret"})
    for own in files.values():
        assert not [name for name, text in own.items() if name.endswith(".sh") and "hf_" in text]

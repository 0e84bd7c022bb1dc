"""A root is shown before what follows from it, with the exception that a message hides."""

from __future__ import annotations

import pytest

from sparkfleet.doctor.matcher import find_known_failures

_REGISTRY = "(APIServer pid=1) ERROR 04-15 06:22:48 [registry.py:900] "
_SUBPROCESS = (
    "Error in inspecting model architecture 'MiniCPMO'",
    "Traceback (most recent call last):",
    (
        "subprocess.CalledProcessError: Command '['python3', '-m', "
        "'vllm.model_executor.models.registry']' returned non-zero exit status 1."
    ),
    "RuntimeError: Error raised in subprocess:",
    "Traceback (most recent call last):",
    '  File "/x/vllm/model_executor/models/minicpmo.py", line 3, in <module>',
    "{raised}",
)
_VALIDATION = """
(APIServer pid=1) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
(APIServer pid=1)   Value error, Model architectures ['MiniCPMO'] failed to be inspected. \
Please check the logs for more details. [type=value_error, input_value=x, input_type=ArgsKwargs]
""".replace("\\\n", "")


def _render_inspection(raised: str) -> str:
    lines = [f"{_REGISTRY}{line.format(raised=raised)}" for line in _SUBPROCESS]
    return "\n".join(lines) + _VALIDATION


def test_the_exception_behind_code_that_was_not_imported_is_named() -> None:
    raised = "AttributeError: module 'torch.library' has no attribute 'infer_schema'"
    result = find_known_failures({"spark0": _render_inspection(raised)})
    assert [found.id for found in result] == ["model-code-not-imported", "config-invalid"]
    assert result[0].cause == (
        f"vLLM could not import its own code for MiniCPMO; the last exception before: {raised}."
    )


def test_a_log_without_that_exception_says_so() -> None:
    (found,) = find_known_failures(
        {"spark0": "ValueError: Model architectures ['MiniCPMO'] failed to be inspected."}
    )
    assert found.cause.endswith("the last exception before: none in this log.")


@pytest.mark.parametrize(
    ("log", "ids"),
    [
        (
            _render_inspection("ImportError: libcudart.so.12: cannot open shared object file"),
            ["cuda12-wheel", "model-code-not-imported", "config-invalid"],
        ),
        (
            (
                "Cannot access gated repo for url https://huggingface.co/a/b/resolve/main/config.json\n"
                "ValueError: No supported config format found in a/b"
            ),
            ["hub-gated", "model-config-missing"],
        ),
        (
            (
                "HFValidationError: Repo id must be in the form 'repo_name' or "
                "'namespace/repo_name': '/models/q'. Use `repo_type` argument if needed.\n"
                "ValueError: No supported config format found in /models/q"
            ),
            ["model-path-missing", "model-config-missing"],
        ),
        (
            (
                "ConnectionError: Could not find any running Ray instance.\n"
                "bash: ray: command not found"
            ),
            ["ray-not-installed", "ray-not-running"],
        ),
    ],
    ids=["cuda", "gated", "path", "ray"],
)
def test_the_root_comes_first(log: str, ids: list[str]) -> None:
    assert [found.id for found in find_known_failures({"spark0": log})] == ids


@pytest.mark.parametrize("choice", ['"required"', 'function "get_weather"'])
def test_each_tool_choice_that_needs_a_parser_is_known(choice: str) -> None:
    line = f"tool_choice={choice} requires --tool-call-parser to be set"
    (found,) = find_known_failures({"spark0": line})
    assert found.id == "tool-parser-not-set"


def test_a_tool_call_that_was_not_read_is_not_taken_for_a_damaged_file() -> None:
    log = (
        "ERROR 12-14 10:00:00 [mistral_tool_parser.py:200] Error in extracting tool call from "
        "response.\n"
        "ERROR 12-14 10:00:00 [mistral_tool_parser.py:200] json.decoder.JSONDecodeError: "
        "Expecting value: line 1 column 1 (char 0)"
    )
    assert [found.id for found in find_known_failures({"spark0": log})] == ["tool-call-unread"]


def test_a_refused_request_does_not_explain_why_the_engine_stopped() -> None:
    log = (
        "ValueError: This model's maximum context length is 4096 tokens. However, you requested "
        "5000 tokens.\n"
        "torch.AcceleratorError: CUDA error: misaligned address"
    )
    found = find_known_failures({"spark0": log})
    assert [one.id for one in found if one.explains] == ["cuda-failed"]


def test_what_follows_from_a_fallback_does_not_explain_it() -> None:
    log = (
        "torch._dynamo.exc.Unsupported: non-function or method super\n"
        "ERROR 04-24 10:50:38 [multiproc_executor.py:292] Worker proc VllmWorker-0 died "
        "unexpectedly, shutting down executor."
    )
    found = find_known_failures({"spark0": log})
    assert [one.id for one in found if one.explains] == ["torch-compile-refused"]

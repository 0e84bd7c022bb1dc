"""Errors of options in every spelling that argparse prints."""

from __future__ import annotations

import argparse

import pytest

from sparkfleet.doctor.matcher import find_known_failures

SPELLINGS = (
    ("--max-num-seqs",),
    ("--tensor-parallel-size", "-tp"),
    ("-tp", "--tensor-parallel-size"),
    ("--compilation-config", "-cc"),
)


def _refuse(names: tuple[str, ...], *words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what argparse itself prints about an option."""
    parser = argparse.ArgumentParser(prog="vllm serve")
    parser.add_argument(*names, type=int, choices=(1, 2))
    with pytest.raises(SystemExit):
        parser.parse_args([names[0], *words])
    return capsys.readouterr().err


def _find(log: str) -> set[str]:
    return {finding.id for finding in find_known_failures({"spark-01": log})}


@pytest.mark.parametrize("names", SPELLINGS)
@pytest.mark.parametrize(
    ("words", "id_"),
    [
        (("many",), "option-value-type"),
        ((), "option-value-type"),
        (("3",), "option-value-unknown"),
    ],
)
def test_each_spelling_of_an_option_is_known(
    names: tuple[str, ...],
    words: tuple[str, ...],
    id_: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert id_ in _find(_refuse(names, *words, capsys=capsys))


@pytest.mark.parametrize("names", SPELLINGS)
def test_each_spelling_of_json_that_was_quoted_twice_is_known(names: tuple[str, ...]) -> None:
    line = (
        f"vllm serve: error: argument {'/'.join(names)}: "
        "Value {a} cannot be converted to <function loads at 0x7f0c>."
    )
    assert "option-quoted-twice" in _find(line)


@pytest.mark.parametrize(
    ("line", "id_"),
    [
        (
            (
                "ValueError: The decoder prompt contains a(n) image item with length 6105, which "
                "exceeds the pre-allocated encoder cache size 6084."
            ),
            "mm-item-larger-than-batch",
        ),
        ("ImportError: Please install torchao>=0.10.0 via `pip`", "python-package-missing"),
        (
            (
                "ImportError: This modeling file requires the following packages that were not "
                "found in your environment: timm. Run `pip install timm`"
            ),
            "python-package-missing",
        ),
    ],
    ids=["an image", "torchao", "timm"],
)
def test_another_wording_of_a_failure_is_known(line: str, id_: str) -> None:
    assert _find(line) == {id_}


def test_a_missing_part_of_an_installed_package_is_another_release() -> None:
    part = "ModuleNotFoundError: No module named 'compressed_tensors.compressors'"
    assert _find(part) == {"package-of-another-release"}
    assert _find(part.replace(".compressors", "")) == {"python-package-missing"}


def test_an_option_that_was_read_is_not_a_failure() -> None:
    assert _find("non-default args: {'tensor_parallel_size': 2, 'max_num_seqs': 16}") == set()

"""Commands reach a shell as the words that they were made of."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from sparkfleet.commands import Command, build_script_command, quote, quote_folded

WORDS = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
    min_size=1,
    max_size=5,
)
PRINT_ARGV = ["python3", "-c", "import sys; sys.stdout.write('\\0'.join(sys.argv[1:]))"]


def _through_a_shell(text: str) -> list[str]:
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {text}"], capture_output=True, check=True)
    return done.stdout.decode().split("\0")[:-1]


@given(words=WORDS)
def test_quoted_words_come_back_byte_for_byte(words: list[str]) -> None:
    assert _through_a_shell(quote(words)) == words


@given(words=WORDS)
def test_folded_words_come_back_byte_for_byte(words: list[str]) -> None:
    assert _through_a_shell(quote_folded(words)) == words


def test_folding_puts_one_option_on_a_line() -> None:
    text = quote_folded(
        ["vllm", "serve", "/models/x", "--port=8000", "--tool-call-parser", "qwen3"]
    )
    assert text == "vllm serve /models/x \\\n    --port=8000 \\\n    --tool-call-parser qwen3"


def test_a_commands_environment_is_part_of_its_line() -> None:
    command = Command(argv=("sh", "-c", 'printf %s "$A"'), env={"A": "two words; $HOME"})
    done = subprocess.run(["sh", "-c", command.line()], capture_output=True, text=True, check=True)
    assert done.stdout == "two words; $HOME"


def test_a_program_travels_with_the_modules_that_it_imports(tmp_path: Path) -> None:
    asked = {"root": str(tmp_path), "files": [], "caches": [], "full": False, "record": False}
    bare = (sys.executable, "-I", "-S")
    command = build_script_command(
        "weights/tree", {**asked, "ledger": str(tmp_path / "ledger")}, python=bare
    )
    with subprocess.Popen(command.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(command.input)
        child.stdin.flush()  # and not closed: it would take that for a disconnect
        assert json.loads(child.stdout.readline()) == {"files": [], "hashed": 0}
    nothing = [*bare, "-c", "import sparkfleet"]
    assert subprocess.run(nothing, capture_output=True, check=False).returncode == 1

"""A stand-in of sudo that asks for a password."""

from __future__ import annotations

from pathlib import Path

# Asks as sudo does: up to three times, from standard input with -S, and never with -n. What is in
# `free` needs no password. Writes down what it was asked, and every password that it was given.
FAKE = r"""#!/bin/sh
here=$(dirname "$0")/..
printf '%s\n' "$*" >>"$here/asked"
env >>"$here/environment"
while [ "$1" != -- ]; do
    case $1 in -n) quiet=1 ;; esac
    shift
done
shift
if ! grep -qxF "$1" "$here/free"; then
    [ -z "$quiet" ] || { echo "sudo: a password is required" >&2; exit 1; }
    echo "We trust you have received the usual lecture.

" >&2
    for try in 1 2 3; do
        IFS= read -r given || { echo "sudo: $((try - 1)) incorrect password attempt" >&2; exit 1; }
        printf '%s\n' "$given" >>"$here/given"
        [ "$given" = "$(cat "$here/password")" ] && break
        [ $try != 3 ] || { echo "sudo: 3 incorrect password attempts" >&2; exit 1; }
        echo "Sorry, try again." >&2
    done
fi
exec "$@"
"""


def install(folder: Path, password: str) -> Path:
    """Return the folder to put on PATH; `folder` gets what the stand-in writes down."""
    program = folder / "bin" / "sudo"
    program.parent.mkdir()
    program.write_text(FAKE)
    program.chmod(0o755)
    for name in ("free", "given", "asked"):
        (folder / name).touch()
    (folder / "password").write_text(password)
    return program.parent

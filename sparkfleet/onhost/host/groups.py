"""Look at the groups of a user of this host, or put the user into some.

Request: ``do`` (look, add, remove), ``name`` ("" is who runs this) and ``groups``. A look answers
``name``, the groups that it ``lacks``, and those that are ``unknown`` here.
"""

from __future__ import annotations

import getpass
import grp
import json
import os
import pwd
import subprocess
import sys
from typing import Any

from sparkfleet.onhost.shared.answers import build_os_error_answer

SYSTEM = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.readline())
    handlers = {"look": inspect_membership, "add": add_to_groups, "remove": remove_from_groups}
    print(json.dumps(handlers[request["do"]](request)))


def inspect_membership(request: dict[str, Any]) -> dict[str, Any]:
    """Return the groups that the user is not in, by the account files, not the session."""
    name = request["name"] or getpass.getuser()
    groups = request["groups"]
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        return {"error": f"user {name} not found"}
    group_ids = {group.gr_name: group.gr_gid for group in grp.getgrall()}
    memberships = os.getgrouplist(name, user.pw_gid)
    return {
        "name": name,
        "lacks": [
            group for group in groups if group in group_ids and group_ids[group] not in memberships
        ],
        "unknown": [group for group in groups if group not in group_ids],
    }


def add_to_groups(request: dict[str, Any]) -> dict[str, Any]:
    """Put the user into the groups, in addition to its own."""
    return run_account_tool("usermod", "-aG", ",".join(request["groups"]), request["name"])


def remove_from_groups(request: dict[str, Any]) -> dict[str, Any]:
    """Remove the user from each of the groups."""
    answers = [
        run_account_tool("gpasswd", "-d", request["name"], group) for group in request["groups"]
    ]
    return next((answer for answer in answers if answer), {})


def run_account_tool(*argv: str) -> dict[str, Any]:
    """Run a program that changes accounts; its complaint is the error."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=dict(os.environ, PATH=SYSTEM),
            check=False,
        )
    except OSError as error:
        return build_os_error_answer(error, argv[0])
    if done.returncode == 0:
        return {}
    return {"error": done.stderr.strip(), "hint": "to do it as root, set become: true"}


if __name__ == "__main__":
    main()

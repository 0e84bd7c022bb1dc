"""`hosts.*`: facts of the Sparks, checks before a start, and their preparation."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from sparkfleet.cli.command import command
from sparkfleet.cli.hosts.options import (
    AuthorizeOptions,
    HostOptions,
    PrepareOptions,
    TrustOptions,
)
from sparkfleet.cli.options import (
    BECOME,
    CHECK,
    FORKS,
    HOSTS,
    OUTPUT,
    RECIPE,
    RUN,
    TAGS,
    VERBOSE,
    join_limits,
)

HostOptionsT = TypeVar("HostOptionsT", bound=HostOptions)


def _merge_limits(options: HostOptionsT) -> HostOptionsT:
    """Return the options with the hosts of --host in their limit."""
    patterns = filter(None, (options.host, options.limit))
    return replace(options, limit=join_limits("limit", patterns))


@command("hosts.trust", HOSTS, FORKS, OUTPUT)
def trust(options: TrustOptions) -> int:
    """Show the SSH host key of every host and gateway, and add it to known_hosts if you confirm.

    Compare each fingerprint with the one that the machine shows on its own console. Without a
    terminal only keys with a --fingerprint are added. A key that has changed is never added: remove
    the old one first, by name. Exits with 2 if a new key was not added.

      {task:hosts.trust}
      {task:hosts.trust} --host spark-02 --fingerprint SHA256:...
    """
    from sparkfleet.cli.hosts.trust import show_host_keys

    return show_host_keys(_merge_limits(options))


@command("hosts.authorize", HOSTS)
def authorize(options: AuthorizeOptions) -> int:
    """Copy your public SSH key to every host and gateway that does not accept it yet.

    It is OpenSSH's ssh-copy-id, which asks for the password of each machine on the terminal;
    sparkfleet does not see it. Without a key in ~/.ssh, ssh-keygen makes one first.

      {task:hosts.authorize}
      {task:hosts.authorize} --host spark-02 --key ~/.ssh/id_ed25519.pub
    """
    from sparkfleet.cli.hosts.authorize import authorize_key

    return authorize_key(_merge_limits(options))


@command("hosts.facts", HOSTS, FORKS, OUTPUT)
def facts(options: HostOptions) -> int:
    """Show what each host is: system, driver, GPU, memory, disk, login, rails; read-only.

    One column and one round trip for each host, as its user, without sudo. --output json has all
    facts that sparkfleet decides by.

      {task:hosts.facts}
      {task:hosts.facts} --host spark-02 --output json
    """
    from sparkfleet.cli.hosts.facts import show_facts

    return show_facts(_merge_limits(options))


@command("hosts.check", HOSTS, FORKS, VERBOSE, OUTPUT, RECIPE)
def check(options: HostOptions) -> int:
    """Check every host as `cluster.up` does before it copies anything; read-only, needs no recipe.

    SSH, driver, GPU, engine and its group, ports, memory and what takes it, and what must be equal
    on all hosts: one line for each warning and error, with its fix; --verbose shows every check.
    Exits with 2 if a check refuses, with 4 if a host does not answer. A recipe that is named, here
    or in the inventory, counts for memory and engine. `links.verify` checks the links between the
    hosts.

      {task:hosts.check}
      {task:hosts.check} --host spark-02
    """
    from sparkfleet.cli.hosts.check import show_checks

    return show_checks(_merge_limits(options))


@command(
    "hosts.prepare",
    RUN,
    TAGS,
    CHECK,
    BECOME,
    help={
        "tags": "only these: weights, linger, caches, docker, gpu, cdi, ipc, owner, earlyoom",
        "skip_tags": "all changes but these",
    },
)
def prepare(options: PrepareOptions) -> int:
    """Show what would make the hosts ready for cluster.up, and with --yes do it.

    The folder for the weights, lingering, a sudo rule for drop_caches, the docker group, NVIDIA's
    runtime for Docker and CDI: each with its command, why, and how to undo it, and done only where
    it is lacking; RemoveIPC, files of other users and earlyoom are advice. Nothing is changed
    without --yes; network, firmware, clocks and packages never are. Where sudo asks for a password,
    --ask-become-pass asks once for it. Runs playbooks/hosts-prepare.yml.

      {task:hosts.prepare}
      {task:hosts.prepare} --yes --ask-become-pass
      {task:hosts.prepare} --yes --tags docker,linger
      {task:hosts.prepare} --yes --skip-tags caches --host spark-02
    """
    from sparkfleet.cli.hosts.prepare import prepare_hosts

    return prepare_hosts(_merge_limits(options))

"""Options of tasks: what each task offers, its kinds and letters, and the value that it gets."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from sparkfleet.cli.cluster.options import LogsOptions, RenderOptions
from sparkfleet.cli.hosts.options import PrepareOptions
from sparkfleet.cli.links.options import LinkBenchOptions, LinkMapOptions
from sparkfleet.cli.options import HOSTS, SIZE, Options, list_options, parse_options
from sparkfleet.cli.tasks import namespace
from sparkfleet.errors import UsageError

# Each option as typed: NAME is positional, `!` takes no value, `*` repeats; others take a value.
OFFERED = {
    "cluster.disable": "check! cluster diff! inventory* on-head! set*",
    "cluster.enable": "check! cluster diff! inventory* on-head! set*",
    "cluster.export": "cluster inventory* out set* to",
    "cluster.page": "bind cluster every forks inventory* set* token-file",
    "cluster.report": "cluster forks html inventory* set*",
    "cluster.events": "cluster follow! inventory* lines output set*",
    "cluster.down": (
        "all! check! cluster forks inventory* junit limit* lock-wait orphans! output set* "
        "trace verbose!"
    ),
    "cluster.drift": (
        "cluster diff! dp executor forks inventory* junit limit* output pp recipe set* "
        "solo! tp trace verbose!"
    ),
    "cluster.list": "inventory* output set*",
    "cluster.lock": "cluster inventory* lock-wait set*",
    "cluster.logs": "cluster follow! inventory* limit* lines set*",
    "cluster.render": "cluster dp executor forks inventory* limit* out pp recipe set* solo! tp",
    "cluster.status": "cluster inventory* limit* output set* watch!",
    "cluster.switch": (
        "RECIPE allow-degraded ask-become-pass! check! cluster diff! dp executor forks "
        "inventory* junit limit* lock-wait output pp set* solo! tp trace verbose! yes!"
    ),
    "cluster.unlock": "cluster force! inventory* set*",
    "cluster.up": (
        "all! allow-degraded ask-become-pass! check! cluster diff! dp executor forks "
        "inventory* junit limit* lock-wait output pp recipe set* solo! tp trace verbose! yes!"
    ),
    "cluster.watch": "cluster every forks inventory* once! set*",
    "docs": "page",
    "doctor": "bundle cluster inventory* log output set*",
    "gateway.down": "check! inventory* junit lock-wait output set* trace verbose!",
    "gateway.logs": "follow! inventory* lines set*",
    "gateway.status": "inventory* output set*",
    "gateway.up": "check! diff! inventory* junit lock-wait output set* trace verbose!",
    "hosts.check": "cluster forks host* inventory* limit* output recipe set* verbose!",
    "hosts.authorize": "cluster host* inventory* key limit* set*",
    "hosts.facts": "cluster forks host* inventory* limit* output set*",
    "hosts.prepare": (
        "ask-become-pass! check! cluster forks host* inventory* junit limit* output "
        "set* skip-tags* tags* trace verbose! yes!"
    ),
    "hosts.trust": "cluster fingerprint* forks host* inventory* limit* output set*",
    "init": "api-key! dir discover! fingerprint* forks host* recipe replace! yes!",
    "inventory.graph": "inventory* set*",
    "inventory.host": "NAME explain inventory* set*",
    "inventory.list": "inventory* set*",
    "lab.containers": "",
    "lab.down": "",
    "lab.engine": "gpu! index torch wheels",
    "lab.fault": "HOST KIND clear!",
    "lab.model": "gpu!",
    "lab.status": "",
    "lab.up": "authorized! bare! cables gpus! hosts network share! stand-in! wires",
    "links.apply": (
        "arp! ask-become-pass! check! cluster diff! forks inventory* limit* output "
        "revert-after set* subnet verbose! while-serving! yes!"
    ),
    "links.bench": (
        "cluster collective! forks inventory* limit* output recipe seconds set* svg verbose!"
    ),
    "links.plan": "arp! ask-become-pass! cluster forks inventory* limit* output set* subnet",
    "links.repair": (
        "ask-become-pass! check! cluster forks inventory* limit* set* while-serving! yes!"
    ),
    "links.revert": (
        "ask-become-pass! check! cluster forks inventory* limit* set* while-serving! yes!"
    ),
    "links.show": "cluster forks inventory* limit* output recipe set* svg",
    "links.verify": "allow-degraded cluster forks inventory* limit* output recipe set* verbose!",
    "playbook.actions": "markdown! only",
    "playbook.run": (
        "FILE allow-degraded ask-become-pass! check! cluster diff! dp forks inventory* "
        "junit limit* list-hosts! list-tasks! lock-wait output pp recipe set* skip-tags* "
        "solo! start-at tags* tp trace verbose! yes!"
    ),
    "recipes.fit": (
        "RECIPE cluster context folder hub! inventory* limit* max-model-len max-num-seqs "
        " output pp requests set* staged! tp util"
    ),
    "recipes.add": "SOURCE check! name output revision",
    "recipes.remove": "NAME",
    "recipes.update": "NAME check! output revision yes!",
    "recipes.export": "RECIPE output to",
    "recipes.import": "SOURCE check! name output yes!",
    "recipes.list": "cluster fits! group inventory* output search set*",
    "recipes.new": "MODEL folder out",
    "recipes.suggest": "PURPOSE cluster inventory* measured! most output set*",
    "recipes.show": "NAME cluster inventory* output set*",
    "recipes.validate": "NAMES folder output pp tp vllm",
    "serve.bench": "answer cluster context inventory* output recipe requests rounds set*",
    "serve.smoke": "cluster inventory* output recipe set*",
    "serve.watch": "cluster count every inventory* once! output set*",
    "weights.list": "cluster inventory* limit* output set*",
    "weights.plan": "cluster inventory* limit* output recipe set*",
    "weights.prune": "NAME cluster inventory* limit* set* yes!",
    "weights.stage": (
        "check! cluster forks inventory* junit limit* lock-wait output recipe set* trace verbose!"
    ),
    "weights.verify": "cluster full! inventory* limit* output recipe set*",
}
LETTERS = {
    "ask-become-pass": "K",
    "check": "C",
    "diff": "D",
    "forks": "f",
    "inventory": "i",
    "limit": "l",
    "set": "e",
    "tags": "t",
    "verbose": "v",
}
MARKS = {bool: "!", list: "*", str: ""}


@pytest.mark.parametrize("task", OFFERED)
def test_a_task_offers_its_options(task: str) -> None:
    arguments = namespace[task].get_arguments()
    positional = [each.names[0].upper() for each in arguments if each.positional]
    others = [f"{each.names[0]}{MARKS[each.kind]}" for each in arguments if not each.positional]
    assert [*positional, *sorted(others)] == OFFERED[task].split()
    assert all(each.help for each in arguments)


@pytest.mark.parametrize(
    ("task", "name", "expected"),
    [
        ("cluster.up", "tp", "as many as the recipe can use, a power of two"),
        ("recipes.fit", "tp", "by default the smallest that the recipe supports"),
        ("recipes.validate", "tp", "by default the smallest that the recipe supports"),
        ("cluster.up", "yes", "third-party code of a recipe"),
        ("recipes.import", "yes", "import mods"),
    ],
)
def test_help_says_what_the_option_does_in_its_task(task: str, name: str, expected: str) -> None:
    (text,) = (each.help for each in namespace[task].get_arguments() if each.name == name)
    assert expected in str(text)


@pytest.mark.parametrize(
    ("kind", "name"), [(RenderOptions, "out"), (LinkMapOptions, "svg"), (LinkBenchOptions, "svg")]
)
def test_a_tilde_behind_an_equals_sign_is_expanded(
    monkeypatch: pytest.MonkeyPatch, kind: type[Options], name: str
) -> None:
    monkeypatch.setenv("HOME", "/home/me")  # bash leaves it in --out=~/rendered
    options = parse_options(kind, "a.task", {name: "~/rendered"})
    assert getattr(options, name) == Path("/home/me/rendered")
    typed = {"inventory": ["~/i.yml", "lab"], "recipe": "~/r.yml"}
    options = parse_options(Options, "a.task", typed)
    assert (options.inventory, options.recipe) == (("/home/me/i.yml", "lab"), "/home/me/r.yml")


def test_every_task_is_listed() -> None:
    assert set(OFFERED) == set(namespace.task_names)


def test_letters_are_those_of_ansible_in_every_task() -> None:
    for task in OFFERED:
        for argument in namespace[task].get_arguments():
            name, *letters = argument.names
            assert letters == ([LETTERS[name]] if name in LETTERS else [])


def test_options_that_are_not_typed_have_their_defaults() -> None:
    options = parse_options(Options, "cluster.up", {"tp": None, "inventory": [], "check": False})
    assert options == Options(task="cluster.up")
    assert (options.tp, options.pp, options.limit, options.output) == (1, 1, None, "text")


def test_typed_options_are_values() -> None:
    typed = {
        "inventory": ["a.yml", "b.yml"],
        "set": ["vllm_port=8001"],
        "executor": "mp",
        "limit": ["a,b", "c"],
        "lock_wait": "2m",
        "junit": "report.xml",
        "tags": ["x,y", "z"],
        "tp": "2",
    }
    options = parse_options(Options, "cluster.up", typed)
    assert options.inventory == ("a.yml", "b.yml")
    assert options.set_variables == {"vllm_port": 8001, "vllm_executor": "mp"}
    assert (options.limit, options.lock_wait, options.nodes) == ("a,b,c", 120.0, 2)
    assert options.junit == Path("report.xml")
    assert options.selection.tags == {"x", "y", "z"}


def test_a_task_has_options_of_its_own() -> None:
    options = parse_options(LogsOptions, "cluster.logs", {"lines": "5", "follow": True})
    assert (options.lines, options.follow) == (5, True)
    assert LogsOptions(task="cluster.logs").lines == 40
    assert not parse_options(LinkBenchOptions, "links.bench", {"collective": False}).collective


@pytest.mark.parametrize("size", [{"tp": "1"}, {"pp": "2"}, {"solo": True}])
def test_the_whole_cluster_counts_unless_a_size_is_given(size: dict[str, object]) -> None:
    assert parse_options(Options, "cluster.drift", {}, whole_cluster=True).whole_cluster
    assert not parse_options(Options, "cluster.drift", size, whole_cluster=True).whole_cluster


@pytest.mark.parametrize("typed", [{"recipe": ""}, {"inventory": ["a", ""]}])
def test_an_empty_option_is_refused(typed: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="is empty"):
        parse_options(Options, "cluster.up", typed)


def test_groups_name_options_that_exist() -> None:
    names = [option.name for option in list_options(PrepareOptions, [HOSTS])]
    assert set(names) == {"inventory", "set", "cluster", "limit", "host", "yes"}
    with pytest.raises(LookupError, match="has no options nothing"):
        list_options(Options, [("nothing",)])
    assert set(SIZE) <= {field.name for field in fields(Options)}

"""CPU seconds of every reader of input from outside for 10 MB that mean it no good.

``python -m benchmarks.hostile [--megabytes 10] [--only READER]...``. A file that a person writes is
refused at its limit of 1 MB, so each of these is read at 10 MB and at that limit. The table has the
slowest input of each reader, without what ``ssh -G`` takes by itself. Where an input takes more
than 2 s, the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, NoReturn

from huggingface_hub import constants

from benchmarks import doctor
from sparkfleet import facts, inventory
from sparkfleet.cli.recipes.validate import run_recipe_rules
from sparkfleet.errors import CommandError, InputError
from sparkfleet.model import Host, Value
from sparkfleet.onhost.shared.weights.model_shape import read_shape
from sparkfleet.onhost.shared.weights.safetensors import find_header_problem, find_index_problem
from sparkfleet.playbook.parse import load_playbook
from sparkfleet.recipes.recipe import load_recipe
from sparkfleet.recipes.rules.rule_context import ObservedFacts
from sparkfleet.remote.known_hosts import read_known_keys
from sparkfleet.remote.ssh_config import complete_ssh_options
from sparkfleet.remote.ssh_options import parse_ssh_options
from sparkfleet.weights import hub
from tests.unit.facts.test_facts_tolerance import RAW
from tests.unit.fit.test_fit_mutations import TREES, answer
from tests.unit.remote.test_answer_mutations import ASKED, ReplayingConnection, _create_host
from tests.unit.weights.test_hub_answer_mutations import LyingHandler

MB = 1_000_000
LIMIT = 2.0  # seconds of the processor
ENDLESS = 60  # seconds after which an input is given up
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK9ks7jkua5YWIwByRnnnc6UPJQWI75O0e/UJdPYU1JI"
TEXTS: Mapping[str, str] = {  # repeated up to the size, before all readers
    "a letter": "a",
    "spaces": " ",
    "line ends": "\n",
    "brackets": "[",
    "templates": "{{",
    "keys": "a: 1\n",
    "list": "- a\n",
}

Read = Callable[[str], object]


def fill(piece: str, size: int) -> str:
    """Return `piece` again and again, `size` characters together."""
    return (piece * (size // max(len(piece), 1) + 1))[:size]


def number_lines(pattern: str, size: int) -> str:
    """Return lines of `pattern`, in which ``%d`` counts, up to `size` characters."""
    length = len(pattern % (size // 10)) + 1
    return "".join(f"{pattern % number}\n" for number in range(size // length))


def list_written(size: int, lines: Mapping[str, str]) -> dict[str, str]:
    """Return inputs for a file that a person writes: too large, and at its limit."""
    most = min(size, MB - 100)
    at_limit = {name: fill(piece, most) for name, piece in TEXTS.items()}
    counted = {name: number_lines(line, most) for name, line in lines.items()}
    return {"10 MB": fill("a: 1\n", size), **at_limit, **counted}


def read_file(file: Path, use: Callable[[Path], object]) -> Read:
    """Return what writes a text to `file` and has it read."""

    def read(text: str) -> object:
        file.write_text(text)
        return use(file)

    return read


def list_inventory(file: Path) -> object:
    """Return an inventory as `inventory.list` prints it."""
    return inventory.dump_inventory(inventory.load_inventory([str(file)]))


def judge_recipe(file: Path) -> object:
    """Return what the rules say about a recipe."""
    return list(run_recipe_rules(load_recipe(str(file)), tp=2, facts=ObservedFacts(vllm="0.24.0")))


def resolve_host(file: Path) -> object:
    """Return how a host is reached by a configuration of ssh."""
    words = Value(data=f"-F {file}")
    host = Host(name="spark-01", vars={"ansible_ssh_common_args": words})
    return complete_ssh_options(parse_ssh_options(host))


def find_keys(file: Path) -> object:
    """Return the keys of a host in known_hosts."""
    return read_known_keys([file], "spark-01.example.com")


def read_facts(source: str) -> Read:
    """Return what reads a text as the source `source` of facts."""
    return lambda text: facts.parse_facts("spark", {"facts": RAW | {source: {"text": text}}})


def read_answer(name: str, root: Path) -> Read:
    """Return what reads a JSON text as the answer of a host to the question `name`."""

    def read(text: str) -> object:
        link = ReplayingConnection(_create_host(root), [])
        link._answers = [text.encode()]
        return ASKED[name](link)

    return read


def read_hub(running: ThreadingHTTPServer) -> Read:
    """Return what reads a text as the answer of a Hub about a model."""

    def read(text: str) -> object:
        body = text.encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        running.answer = 200, headers, body  # type: ignore[attr-defined]  # for its handler
        return hub.resolve_manifest("org/model")

    return read


def list_header_readers(path: Path) -> Mapping[str, Read]:
    """Return what reads a text as the header of a safetensors file, and as an index."""
    file, index = path / "model.safetensors", path / "model.safetensors.index.json"

    def write(text: str) -> None:
        file.write_bytes(len(text.encode()).to_bytes(8, "little") + text.encode())
        index.write_text(text)

    def verify(text: str) -> object:
        write(text)
        return find_header_problem(file, file.stat().st_size)

    def verify_index(text: str) -> object:
        write(text)
        return find_index_problem(index, nested=False)

    def measure_shape(text: str) -> object:
        write(text)
        return read_shape(path)

    return {"header": verify, "index": verify_index, "shape": measure_shape}


def list_json(size: int) -> dict[str, str]:
    """Return JSON of any shape."""
    items = size // 8
    return {
        "text": json.dumps("a" * size),
        "numbers": json.dumps([0] * (size // 3)),
        "mappings": json.dumps([{}] * (size // 4)),
        "long number": f"[{'7' * size}]",
        "keys": json.dumps({f"k{number}": number for number in range(items // 2)}),
        "value of each key": json.dumps(dict.fromkeys(("facts", "logs", "files"), "a\n" * items)),
    }


def list_configs(size: int) -> dict[str, str]:
    """Return files of config.json with one part that has no end."""
    tree = TREES["llama-3.3-70b-instruct"]
    names = [f"model.layers.{number}.x" for number in range(size // 24)]
    parts: dict[str, Any] = {
        "layer_types": {"layer_types": ["full_attention"] * (size // 20)},
        "modules": {"quantization_config": {"quant_method": "fp8", "ignore": names}},
        "patterns": {
            "quantization_config": {
                "quant_method": "fp8",
                "ignore": [f"re:.*layers.*{at}.*x$" for at in range(50)],
            }
        },
        "globs": {
            "quantization_config": {
                "quant_method": "fp8",
                "ignore": [f"*a*{at}*" for at in range(500)],
            }
        },
        "architectures": {"architectures": names},
        "keys": {f"k{number}": 0 for number in range(size // 12)},
        "long pattern": {"quantization_config": {"ignore": ["re:" + "a*" * (size // 2)]}},
    }
    return {name: json.dumps({**tree, **part}) for name, part in parts.items()} | list_json(size)


def list_hub_answers(size: int) -> dict[str, str]:
    """Return descriptions of a model whose list of files has no end, or no sense."""
    head = {"id": "org/model", "sha": "0" * 40}
    names = [{"rfilename": f"f{number}.bin", "size": 1} for number in range(size // 45)]
    folders = [{"rfilename": "a/" * 50 + f"{number}", "size": 1} for number in range(size // 150)]
    many = {"files": names, "folders": folders, "one name": [{"rfilename": "a" * size}]}
    lists = {name: json.dumps({**head, "siblings": files}) for name, files in many.items()}
    return {**lists, "brackets": "[" * size, "page": fill("<html>", size), **list_json(size)}


Inputs = Iterator[tuple[str, str, Read]]  # the input's name, the input, what reads it


def list_inventories(size: int, path: Path) -> Inputs:
    """Yield inventories in YAML and INI."""
    hosts = {"hosts": "    spark%d: {x: 1}", "ranges": "    s[1:9]x%d: {ansible_host: 10.0.0.1}"}
    for name, text in list_written(size, hosts).items():
        head = "sparks:\n  hosts:\n" if name in hosts else ""
        yield f"YAML, {name}", head + text, read_file(path / "hosts.yml", list_inventory)
    ini = {"hosts": "spark%d x=1", "quoted": "s%d x='a b' y=[1]", "groups": "[g%d:children]"}
    for name, text in list_written(size, ini).items():
        yield f"INI, {name}", text, read_file(path / "hosts.ini", list_inventory)
    words = number_lines("x%d='a b'", min(size, MB - 100)).replace("\n", " ")
    yield "INI, one line", f"s1 {words}", read_file(path / "hosts.ini", list_inventory)
    same = fill("x='a' ", min(size, MB - 100))
    yield "INI, one name", f"s1 {same}", read_file(path / "hosts.ini", list_inventory)


def list_recipes(size: int, path: Path) -> Inputs:
    """Yield recipes."""
    lines = {"options": "  o%d: 1", "rendered": "  o%d: '{{ x }}'", "top keys": "key%d: 1"}
    heads = dict.fromkeys(("options", "rendered"), "vllm_model: a/b\nvllm_args:\n")
    for name, text in list_written(size, lines).items():
        yield name, heads.get(name, "") + text, read_file(path / "r.yml", judge_recipe)


def list_playbooks(size: int, path: Path) -> Inputs:
    """Yield playbooks."""
    for name, text in list_written(size, {"tasks": "    - {command: x%d}"}).items():
        head = "- hosts: all\n  tasks:\n" if name == "tasks" else ""
        yield name, head + text, read_file(path / "p.yml", load_playbook)


def list_facts(size: int, _path: Path) -> Inputs:
    """Yield the sources of a host's facts."""
    for source in sorted(RAW):
        own = RAW[source].get("text", "") or "a"
        for name, piece in TEXTS.items():
            yield f"{source}, {name}", fill(piece, size), read_facts(source)
        if own.startswith("["):
            text = "[" + ",".join([own.strip()[1:-1]] * (size // len(own) + 1)) + "]"
        else:
            text = fill(own.rstrip("\n") + "\n", size)
        yield f"{source}, its own", text, read_facts(source)


def list_host_answers(size: int, path: Path) -> Inputs:
    """Yield answers of a host to questions about its deployment."""
    for asked in ASKED:
        for name, text in list_json(size).items():
            yield f"{asked}, {name}", text, read_answer(asked, path)


def list_hub(size: int, _path: Path) -> Inputs:
    """Yield answers of a Hub about a model."""
    with serve_lies() as server:
        for name, text in list_hub_answers(size).items():
            yield name, text, read_hub(server)


def list_ssh_configs(size: int, path: Path) -> Inputs:
    """Yield configurations of ssh."""
    configs = {"hosts": "Host h%d\n User x", "patterns": "Host *%d*", "keys": "IdentityFile /k%d"}
    for name, line in configs.items():
        yield name, number_lines(line, size), read_file(path / f"config{name}", resolve_host)
    yield "one line", "Host " + fill("a* ", size), read_file(path / "one", resolve_host)
    yield "jump hosts", "ProxyJump " + fill("a,", size), read_file(path / "jumps", resolve_host)


def list_known_hosts(size: int, path: Path) -> Inputs:
    """Yield files of known hosts."""
    lines = {
        "hosts": f"h%d {KEY}",
        "patterns": f"*%d*?*a,!spa?k {KEY}",
        "hashed": f"|1|B7t/AYabn8zgwU47Cb4A/Nqt3eI=|arQPZyRphkzisr7w6wwikvhaOyE= {KEY} %d",
        "revoked": f"@revoked * {KEY} %d",
        "cut": "spark-01.example.com ssh-ed25519 AAAA%d",
        "authorities": f"@cert-authority * {KEY} %d",
    }
    for name, line in lines.items():
        yield name, number_lines(line, size), read_file(path / "known_hosts", find_keys)
    yield "one line", fill("*a*a*a*a*?,", size), read_file(path / "known_hosts", find_keys)


def list_headers(size: int, path: Path) -> Inputs:
    """Yield headers and indexes of safetensors."""
    empty = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
    shards = {f"w{number}": empty for number in range(size // 60)}
    files = {f"w{number}": f"{number}" for number in range(size // 24)}
    headers = {"tensors": json.dumps(shards), "brackets": "[" * size, **list_json(size)}
    headers["weight_map"] = json.dumps({"weight_map": files})
    for name, text in headers.items():
        for reader, read in list_header_readers(path).items():
            yield f"{reader}, {name}", text, read


def list_model_configs(size: int, _path: Path) -> Inputs:
    """Yield files of config.json."""
    for name, text in list_configs(size).items():
        yield name, text, answer


def list_logs(size: int, _path: Path) -> Inputs:
    """Yield logs as engines, Docker and the journal write them."""
    for name, make in doctor.KINDS.items():
        yield name, make(size), doctor.measure


READERS: Mapping[str, Callable[[int, Path], Inputs]] = {
    "inventories": list_inventories,
    "recipes": list_recipes,
    "playbooks": list_playbooks,
    "facts": list_facts,
    "host answers": list_host_answers,
    "Hub answers": list_hub,
    "ssh_config": list_ssh_configs,
    "known_hosts": list_known_hosts,
    "safetensors": list_headers,
    "config.json": list_model_configs,
    "logs": list_logs,
}


def _give_up(number: int, frame: object) -> NoReturn:
    del number, frame
    raise TimeoutError


def measure(read: Read, text: str) -> tuple[float, str]:
    """Return the CPU seconds of `read` for `text`, and how it ended."""
    ended = "read"
    signal.setitimer(signal.ITIMER_PROF, ENDLESS)
    before = time.process_time()
    try:
        read(text)
    except TimeoutError:
        ended = "given up"
    except (InputError, CommandError) as refusal:
        ended = f"refused: {str(refusal).splitlines()[0][:60]}"
    except Exception as failure:  # noqa: BLE001 - what a bug is, is to be seen
        ended = f"BUG {type(failure).__name__}: {str(failure)[:60]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return time.process_time() - before, ended


@contextlib.contextmanager
def serve_lies() -> Iterator[ThreadingHTTPServer]:
    """Run a Hub whose one answer is the attribute `answer`, and have it asked."""
    with ThreadingHTTPServer(("127.0.0.1", 0), LyingHandler) as running:
        constants.ENDPOINT = f"http://127.0.0.1:{running.server_port}"
        threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
        yield running
        running.shutdown()


def measure_reader(reader: str, size: int, *, every: bool) -> tuple[str, bool]:
    """Return a row of the table, and whether each input was read in time and without a bug."""
    slowest = (-1.0, "", "")
    count = 0
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for name, text, read in READERS[reader](size, Path(folder)):
            seconds, ended = measure(read, text)
            bad = seconds > LIMIT or ended.startswith("BUG")
            if every or bad:
                sys.stderr.write(f"{reader}: {name}: {seconds:.2f} s, {ended}\n")
            count += 1
            good = good and not bad
            slowest = max(slowest, (seconds, name, ended))
    return f"| {reader} | {count} | {slowest[1]} | {slowest[0]:.2f} | {slowest[2]} |", good


def main() -> int:
    """Print the table; 1 where an input took too long or was a bug."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=10)
    parser.add_argument("--only", action="append", choices=list(READERS), help="default: all")
    parser.add_argument("--every", action="store_true", help="a line for each input, on stderr")
    asked = parser.parse_args()
    signal.signal(signal.SIGPROF, _give_up)
    code = 0
    print("| reader | inputs | slowest | CPU s | ended |\n|---|---|---|---|---|")
    for reader in asked.only or READERS:
        row, good = measure_reader(reader, asked.megabytes * MB, every=asked.every)
        code |= not good
        print(row, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())

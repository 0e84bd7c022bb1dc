"""``group_vars/`` and ``host_vars/`` next to an inventory, found as Ansible finds them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from sparkfleet.errors import InventoryError, Problem, Where
from sparkfleet.inventory.files.tree import InventoryTree, Variables, overlay_variables
from sparkfleet.inventory.files.yaml_file import PRIORITY, read_variables
from sparkfleet.yaml import positions, source
from sparkfleet.yaml.encryption import ENCRYPTED, find_encryption
from sparkfleet.yaml.source import MAX_BYTES

EXTENSIONS = (".yml", ".yaml", ".json")
SOPS = ".sops"  # before the extension: files that only Ansible's plugin for sops reads
VAULT = "ansible-vault"  # in every message about a value that is encrypted


class VariableFolder:
    """One ``group_vars`` or ``host_vars`` folder; every file in it is read at most once.

    Encrypted content is not an error where no Spark needs it: in files of other groups and hosts,
    and in a file next to readable ones. Ansible recommends such a file for secrets, with names that
    begin with ``vault_``, and plain variables that refer to them:
    https://docs.ansible.com/ansible/latest/tips_tricks/ansible_tips_tricks.html
    """

    def __init__(self, path: Path, tree: InventoryTree, needed: Collection[str] = ()) -> None:
        self._path = path
        self._tree = tree
        self._needed = needed
        self._names = (
            frozenset(file.name for file in path.iterdir()) if path.is_dir() else frozenset()
        )
        self._read: dict[str, Variables] = {}

    def variables(self, name: str) -> Variables:
        """Return what the folder sets for the group or host `name`."""
        if not self._names:
            return {}
        if name not in self._read:
            merged: Variables = {}
            for path in self._files(name):
                passes = self._passes_over(name, path)
                overlay_variables(merged, self._load(path, passes_over=passes))
            self._note_sops_files(name)
            self._read[name] = merged
        return self._read[name]

    def _files(self, name: str) -> list[Path]:
        present = [name + end for end in ("", *EXTENSIONS) if name + end in self._names]
        if len(present) > 1:
            paths = " and ".join(str(self._path / filename) for filename in present)
            where = Where(file=str(self._path / present[1]))
            self._tree.add_problem(f"{paths} both exist; Ansible reads only the first", where)
        paths_found = [self._path / filename for filename in present[:1]]
        return [file for path in paths_found for file in list_variable_files(path)]

    def _note_sops_files(self, name: str) -> None:
        """Note that ``NAME.sops.yml``, which the plugin community.sops.sops reads, is skipped.

        https://docs.ansible.com/ansible/latest/collections/community/sops/sops_vars.html
        """
        for end in EXTENSIONS if name in self._needed else ():
            if (filename := f"{name}{SOPS}{end}") in self._names:
                self._tree.encrypted.append(str(self._path / filename))

    def _passes_over(self, name: str, path: Path) -> bool:
        """Return whether encrypted content of `path`, a file of `name`, is skipped."""
        if not self._needed:  # no group `sparks`: no cluster is worked on
            return False
        if name not in self._needed:
            return True
        is_vault = path.parent != self._path and _is_encrypted(path)
        if is_vault:
            self._tree.encrypted.append(str(path))
        return is_vault

    def _load(self, path: Path, *, passes_over: bool) -> Variables:
        try:
            node = positions.parse_yaml(
                source.read_source_file(path, error=InventoryError),
                error=InventoryError,
                vault=True,
            )
        except InventoryError as failure:
            if not (passes_over and all(map(_reports_encryption, failure.problems))):
                self._tree.problems += failure.problems
            return {}
        variables = read_variables(node, self._tree, noted=not passes_over)
        if (priority := variables.get(PRIORITY)) and priority.where:
            self._tree.add_problem(
                f"{PRIORITY} has no effect here",
                priority.where,
                "set it among the group's vars in the inventory file",
            )
        return variables


def _is_encrypted(path: Path) -> bool:
    return find_encryption(path.read_bytes()[:MAX_BYTES]) is not None


def _reports_encryption(problem: Problem) -> bool:
    return VAULT in problem.message or ENCRYPTED in problem.message


def list_variable_files(path: Path) -> list[Path]:
    """Return the files in a folder and its subfolders, in order; of a file, the file itself."""
    if not path.is_dir():
        return [path]
    files: list[Path] = []
    for child in sorted(path.iterdir()):
        if child.name.startswith(".") or child.name.endswith("~"):
            continue
        if child.is_dir() and not child.suffix:
            files += list_variable_files(child)
        elif child.is_file() and child.suffix in ("", *EXTENSIONS):
            files.append(child)
    return files

"""The precedence of a variable's values: Ansible's order, with ``hash_behaviour=replace``.

From weakest to strongest: vars of `all` in the inventory; vars of the other groups there, by depth,
priority and name; ``group_vars/all``; the other ``group_vars`` in the same order, source by source;
vars of the host in the inventory; ``host_vars``, source by source; extra variables.
"""

from __future__ import annotations

from pathlib import Path

from sparkfleet.inventory.files.folders import VariableFolder
from sparkfleet.inventory.files.tree import InventoryTree, Variables, overlay_variables


class Resolver:
    """Lays the variables of a finished tree over each other."""

    def __init__(self, tree: InventoryTree, folders: list[Path], extra: Variables) -> None:
        self._tree = tree
        self._extra = extra
        needed = tree.list_spark_names() if folders else frozenset()
        self._group_folders = [
            VariableFolder(path / "group_vars", tree, needed) for path in folders
        ]
        self._host_folders = [VariableFolder(path / "host_vars", tree, needed) for path in folders]
        self._bases: dict[frozenset[str], Variables] = {}

    def group(self, name: str) -> Variables:
        """Return what the inventory and every ``group_vars`` set for the group itself."""
        variables = dict(self._tree.groups[name].vars)
        for folder in self._group_folders:
            overlay_variables(variables, folder.variables(name))
        return variables

    def host(self, name: str, groups: frozenset[str]) -> Variables:
        """Return the winning value of every variable of the host `name`, a member of `groups`."""
        if groups not in self._bases:
            self._bases[groups] = self._base(groups)
        variables = dict(self._bases[groups])
        overlay_variables(variables, self._tree.hosts[name].vars)
        for folder in self._host_folders:
            overlay_variables(variables, folder.variables(name))
        overlay_variables(variables, self._extra)
        return variables

    def _base(self, groups: frozenset[str]) -> Variables:
        order = sorted(groups - {"all"}, key=self._rank)
        variables: Variables = {}
        for name in ("all", *order):
            overlay_variables(variables, self._tree.groups[name].vars)
        for folder in self._group_folders:
            overlay_variables(variables, folder.variables("all"))
        for folder in self._group_folders:
            for name in order:
                overlay_variables(variables, folder.variables(name))
        return variables

    def _rank(self, name: str) -> tuple[int, int, str]:
        return self._tree.depths[name], self._tree.groups[name].priority, name

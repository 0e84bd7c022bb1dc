"""Variables of one host for the templates and conditions of tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.errors import PlaybookError
from sparkfleet.inventory.passwords import read_sudo_password
from sparkfleet.launch.host.engine_kind import choose_engine_kind
from sparkfleet.model import EMPTY, Value
from sparkfleet.recipes.settings import Settings
from sparkfleet.templating import holds_template, render_value
from sparkfleet.variables import VARIABLES
from sparkfleet.variables.secret import SUDO_PASSWORDS, VEIL


class HostVariables(Mapping[str, Any]):
    """The variables of one host, from strong to weak, as in Ansible.

    Those of the run (`nodes`, `rank`), ``--set``, variables that tasks registered or `set`, the
    play's `vars`, the inventory; sparkfleet's variables then default to the recipe and the table.
    The play's templates are rendered when they are read; results of tasks are never templates. The
    sudo password is hidden from templates.
    """

    def __init__(
        self, settings: Settings, inventory: Mapping[str, Any], run: Mapping[str, Any]
    ) -> None:
        self._settings = settings
        self._inventory = inventory
        self._run = run
        self._play: Mapping[str, Value] = EMPTY
        self._registered: dict[str, Any] = {}
        self._open: list[str] = []

    def enter(self, play: Mapping[str, Value]) -> None:
        """Use the `vars` of the play that begins, instead of those of the previous play."""
        self._play = play

    def learn(self, variables: Mapping[str, Any]) -> None:
        """Keep variables that a task has registered or set, for the rest of the run."""
        self._registered.update(variables)

    def settings(self) -> Settings:
        """Return sparkfleet's variables; those of the play and its tasks override the host's."""
        free = VARIABLES.keys() - self._settings.given.keys()
        laid = {name: self._render_variable(name) for name in self._play if name in free}
        laid |= {name: Value(data=data) for name, data in self._registered.items() if name in free}
        return self._settings.with_variables(laid)

    def sudo_password(self) -> str:
        """Return the sudo password, "" if no variable has one; raises InventoryError."""
        free = set(SUDO_PASSWORDS) - self._settings.given.keys()
        laid = {name: self._render_variable(name) for name in self._play if name in free}
        return read_sudo_password({**self._settings.host.vars, **laid})

    def __getitem__(self, name: str) -> Any:
        value = self._read(name)
        return VEIL if name in SUDO_PASSWORDS else value

    def _read(self, name: str) -> Any:
        for strong in (self._run, self._settings.given, self._registered):
            if name in strong:
                return strong[name]
        if name in self._play:
            return self._render_variable(name).data
        if name in VARIABLES and (value := self._settings.value(name)) is not None:
            return value
        if name == "engine":  # unset in most inventories; conditions need the one that is used
            return choose_engine_kind(None, self.get("engine_venv"))
        return self._inventory[name]

    def _render_variable(self, name: str) -> Value:
        value = self._play[name]
        if not holds_template(value.data):
            return value
        if name in self._open:
            path = " -> ".join([*self._open, name])
            raise PlaybookError(f"circular reference: {path}", where=value.where)
        self._open.append(name)
        try:
            data = render_value(value.data, self, where=value.where, error=PlaybookError)
        finally:
            self._open.pop()
        return replace(value, data=data, raw=value.data)

    def __iter__(self) -> Iterator[str]:
        layers = (self._run, self._settings.given, self._registered, self._play, self._inventory)
        yield from dict.fromkeys(name for layer in layers for name in layer)

    def __len__(self) -> int:
        return len(list(iter(self)))

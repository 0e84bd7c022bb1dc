"""Jinja: expressions in inventories and playbooks, and the files under ``templates/``.

A text that is one expression keeps its type (``"{{ port + 1 }}"`` is an integer), any other text
becomes text, as in ansible-core 2.19. Jinja is imported at the first template.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkfleet.errors import InputError, TemplateError, Where
from sparkfleet.template_limits import open_budget
from sparkfleet.yaml import source
from sparkfleet.yaml.nodes import Unsafe

if TYPE_CHECKING:
    import jinja2

MARK = re.compile(r"\{[{%#]")
SHOWN = 80  # characters of a template that a message quotes


def holds_template(value: Any) -> bool:
    """Return whether `value`, or any text inside it, is a Jinja template."""
    if isinstance(value, str):
        return "{" in value and not isinstance(value, Unsafe) and MARK.search(value) is not None
    if isinstance(value, Mapping):
        return any(map(holds_template, value.values()))
    return isinstance(value, list | tuple) and any(map(holds_template, value))


def render_value(
    value: Any,
    variables: Mapping[str, Any],
    *,
    where: Where | None = None,
    error: type[InputError] = TemplateError,
) -> Any:
    """Return `value` with every template inside it rendered.

    Only the variables that a template names are read. Raises `error` at `where` for invalid syntax,
    undefined variables and any other error in an expression.
    """
    if isinstance(value, str) and holds_template(value):
        return _convert_errors(_render_text, value, variables, where=where, error=error)
    if isinstance(value, Mapping):
        return {
            key: render_value(item, variables, where=where, error=error)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [render_value(item, variables, where=where, error=error) for item in value]
    return value


def evaluate_expression(
    expression: str,
    variables: Mapping[str, Any],
    *,
    where: Where | None = None,
    error: type[InputError] = TemplateError,
) -> Any:
    """Return the value of a bare `expression`, as in ``when:``; errors as in `render_value`."""
    return _convert_errors(_evaluate_compiled, expression, variables, where=where, error=error)


def check_templates(
    value: Any, *, where: Where | None, error: type[InputError] = TemplateError
) -> None:
    """Raise `error` for a template inside `value` with invalid syntax or an unknown filter."""
    if isinstance(value, str) and holds_template(value):
        _convert_errors(
            lambda text, _: _compile_template(text), value, {}, where=where, error=error
        )
    elif isinstance(value, Mapping):
        check_templates(list(value.values()), where=where, error=error)
    elif isinstance(value, list | tuple):
        for item in value:
            check_templates(item, where=where, error=error)


def explain_chat_template_error(text: str) -> str:
    """Return why a model's chat template cannot be compiled; "" where it can, or that is unknown.

    Tags that transformers adds, such as ``generation``, are not known here, so they pass.
    """
    import jinja2  # noqa: PLC0415 - only where there is a template

    try:
        jinja2.Environment(extensions=["jinja2.ext.loopcontrols"]).parse(text)  # noqa: S701 - no HTML
    except jinja2.TemplateSyntaxError as failure:
        unknown_tag = "unknown tag" in str(failure)
        return "" if unknown_tag else f"line {failure.lineno}: {failure.message}"
    return ""


def check_expression(
    expression: str, *, where: Where | None, error: type[InputError] = TemplateError
) -> None:
    """Raise `error` for an invalid bare `expression`."""
    _convert_errors(
        lambda text, _: _compile_expression(text), expression, {}, where=where, error=error
    )


def render_template(name: str, variables: Mapping[str, Any]) -> str:
    """Return ``templates/<name>`` rendered; the project's own folder is searched first.

    Raises TemplateError if the file is not found, and as `render_value` does.
    """
    return render_file(find_template(name), variables)


def render_html(name: str, variables: Mapping[str, Any]) -> str:
    """Return ``templates/<name>`` rendered, with each value escaped for HTML; else the same."""
    return render_file(find_template(name), variables, html=True)


def find_template(name: str) -> Path:
    """Return where ``templates/<name>`` is; raises TemplateError if it is not found."""
    from sparkfleet import resources, spelling  # noqa: PLC0415 - an inventory needs none

    path = resources.find_data_file("templates", name)
    if path is None:
        names = list(resources.list_data_files("templates", ".j2"))
        raise TemplateError(
            f"template {name!r} not found", hint=spelling.suggest_similar(name, names)
        )
    return path


def render_file(path: Path, variables: Mapping[str, Any], *, html: bool = False) -> str:
    """Return the file at `path` rendered; raises TemplateError as `render_value` does.

    With `html`, each value is escaped for HTML.
    """
    text = source.read_source_file(path, error=TemplateError, html=True)
    try:
        with open_budget():
            template = _compile_template(text.text, html=html)
            return template.render(_pick_variables(text.text, variables))
    except _list_template_errors() as failure:
        line = _find_failing_line(failure)
        where = text.where(line) if line else Where(file=text.file)
        raise TemplateError(_format_failure(failure), where=where) from failure


def _convert_errors(
    function: Callable[[str, Mapping[str, Any]], Any],
    text: str,
    variables: Mapping[str, Any],
    *,
    where: Where | None,
    error: type[InputError],
) -> Any:
    try:
        with open_budget():
            return function(text, variables)
    except _list_template_errors() as failure:
        shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
        raise error(f"{shown!r}: {_format_failure(failure)}", where=where) from failure


@functools.cache
def _list_template_errors() -> tuple[type[Exception], ...]:
    """Return the errors of an expression: Jinja's, and those of the code that it calls."""
    import jinja2  # noqa: PLC0415 - only where there is a template

    return (
        jinja2.TemplateError,
        InputError,
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        MemoryError,
        NameError,  # Jinja writes an infinite number as a name
        OSError,
        RuntimeError,
        TypeError,
        ValueError,
        re.error,
    )


def _format_failure(failure: Exception) -> str:
    kind = "Jinja syntax: " if type(failure).__name__ == "TemplateSyntaxError" else ""
    return kind + (str(failure).split("\n")[0] or type(failure).__name__)


def _find_failing_line(failure: Exception) -> int | None:
    """Return the line of a template that failed, from the syntax error or the traceback."""
    line: int | None = getattr(failure, "lineno", None)
    trace = failure.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _render_text(text: str, variables: Mapping[str, Any]) -> Any:
    needed = _pick_variables(text, variables)
    if expression := _extract_sole_expression(text):
        return _evaluate_compiled(expression, needed)
    return _compile_template(text).render(needed)


def _evaluate_compiled(expression: str, variables: Mapping[str, Any]) -> Any:
    needed = _pick_variables("{{" + expression + "}}", variables)
    value = _compile_expression(expression)(needed)
    if isinstance(value, Iterator):
        value = list(value)  # `map` and `select` return iterators
    _refuse_undefined(value)
    return value


def _refuse_undefined(value: Any) -> None:
    """Raise the error that says which name is undefined, also inside a list or a dictionary.

    Variables of hosts are no dictionaries: they hold no such value, and `hostvars` holds itself.
    """
    if type(value).__name__.endswith("Undefined"):
        str(value)
    elif isinstance(value, dict):
        for item in value.values():
            _refuse_undefined(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_undefined(item)


def _pick_variables(text: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of `variables` that `text` names.

    A variable whose own template fails counts as undefined, so ``default`` works on it.
    """
    picked: dict[str, Any] = {}
    for name in _find_variable_names(text):
        try:
            picked[name] = variables[name]
        except InputError as failure:
            picked[name] = _create_environment().undefined(hint=failure.message)
        except KeyError:
            continue
    return picked


@functools.cache
def _find_variable_names(text: str) -> frozenset[str]:
    from jinja2 import meta  # noqa: PLC0415 - only where there is a template

    return frozenset(meta.find_undeclared_variables(_create_environment().parse(text)))


@functools.cache
def _compile_template(text: str, *, html: bool = False) -> jinja2.Template:
    return _create_environment(html=html).from_string(text)


@functools.cache
def _compile_expression(expression: str) -> Callable[..., Any]:
    return _create_environment().compile_expression(expression, undefined_to_none=False)


@functools.cache
def _extract_sole_expression(text: str) -> str | None:
    tokens = list(_create_environment().lex(text))
    kinds = [kind for _, kind, _ in tokens]
    if kinds[0] != "variable_begin" or kinds.index("variable_end") != len(kinds) - 1:
        return None
    return "".join(value for _, _, value in tokens[1:-1])


@functools.cache
def _create_environment(*, html: bool = False) -> jinja2.Environment:
    from sparkfleet.sandbox import LimitedEnvironment  # noqa: PLC0415 - only for a template

    return LimitedEnvironment(html=html)

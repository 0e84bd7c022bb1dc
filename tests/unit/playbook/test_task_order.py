"""The order of tasks is checked before a run: each action needs results of earlier ones."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from sparkfleet.actions.run.survey import SurveyHosts
from sparkfleet.actions.run_context import RunOptions
from sparkfleet.actions.run_state import RunState
from sparkfleet.errors import PlaybookError, UsageError
from sparkfleet.playbook.arguments import list_arguments
from sparkfleet.playbook.parse import load_playbook
from sparkfleet.playbook.selection import Selection, select_tasks
from sparkfleet.playbook.task_order import check_selected_order
from sparkfleet.playbook.vocabulary import ACTIONS
from tests.scenes import play

SHIPPED = Path(__file__).parents[3] / "playbooks"


def _write(folder: Path, *tasks: str) -> Path:
    path = folder / "own.yml"
    lines = "".join(f"    {line}\n" for task in tasks for line in task.splitlines())
    path.write_text(f"- hosts: sparks\n  tasks:\n{lines}")
    return path


def _problems(path: Path) -> list[str]:
    with pytest.raises(PlaybookError) as caught:
        load_playbook(path)
    return [problem.message for problem in caught.value.problems]


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yml")), ids=lambda path: path.stem)
def test_every_shipped_playbook_is_in_order(path: Path, nodes: int) -> None:
    plays = load_playbook(path)
    check_selected_order(plays, plays, nodes=nodes)


def test_every_field_has_a_provider_and_every_declared_name_is_a_field() -> None:
    names = {item.name for item in fields(RunState)}
    declared = {
        name
        for action in ACTIONS.values()
        for part in (
            *(action.requires, action.requires_in_group, action.uses),
            *(action.provides, action.updates, action.outdates),
        )
        for name in part
    }
    provided = {name for action in ACTIONS.values() for name in action.provides}
    required = {name for action in ACTIONS.values() for name in action.list_requirements(nodes=2)}
    assert declared <= names
    assert required <= provided


def test_a_task_that_comes_too_early_is_an_error_with_its_place_and_what_to_add(
    tmp_path: Path,
) -> None:
    path = _write(tmp_path, "- gather_facts:", "- name: Files", "  render:")
    with pytest.raises(PlaybookError) as caught:
        load_playbook(path)
    (problem,) = caught.value.problems
    assert problem.message == "stage_weights must run before render (render needs weights)"
    assert str(problem.where) == f"{path}:4:7"
    assert problem.hint == "add before this task: `stage_weights:`"


def test_the_same_actions_in_the_wrong_order_are_an_error(tmp_path: Path) -> None:
    path = _write(tmp_path, "- stage_weights:", "- render:", "- gather_facts:")
    assert _problems(path) == [
        "gather_facts must run before render (render needs facts and surveys)"
    ]


@pytest.mark.parametrize(
    ("action", "steps"),
    [
        ("recover", ("gather_facts",)),
        ("stop_deployment", ("survey",)),
        ("replace_deployment", ("gather_facts", "stage_weights", "render")),
    ],
)
def test_what_changes_a_deployment_needs_the_lock(
    tmp_path: Path, action: str, steps: tuple[str, ...]
) -> None:
    tasks = [f"- {name}:" for name in (*steps, action)]
    path = _write(tmp_path, *tasks)
    with pytest.raises(PlaybookError) as caught:
        load_playbook(path)
    (problem,) = caught.value.problems
    assert problem.message == f"lock must run before {action} ({action} needs locks)"
    assert str(problem.where) == f"{path}:{len(tasks) + 2}:7"
    assert problem.hint == "add before this task: `lock:`"
    assert load_playbook(_write(tmp_path, "- lock:", *tasks))


def test_a_playbook_without_the_lock_replaces_nothing(tmp_path: Path) -> None:
    path = tmp_path / "own.yml"
    path.write_text(UP.replace("    - name: Take the lock of the cluster\n      lock:\n\n", ""))
    assert _problems(path) == ["lock must run before recover (recover needs locks)"]


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        (
            ("gather_facts", "lock", "recover"),
            "gather_facts must run between lock and recover (recover needs facts and surveys)",
        ),
        (
            ("survey", "lock", "stop_deployment"),
            "survey must run between lock and stop_deployment (stop_deployment needs surveys)",
        ),
        (
            ("gather_facts", "lock", "stage_weights"),  # it uses facts where there are any
            "gather_facts must run between lock and stage_weights (stage_weights needs facts)",
        ),
        (
            ("gather_facts", "preflight", "lock", "gather_facts", "stage_weights", "render"),
            "preflight must run between lock and render (render needs advice)",
        ),
    ],
)
def test_what_was_read_before_the_lock_was_held_is_read_again(
    tmp_path: Path, tasks: tuple[str, ...], message: str
) -> None:
    """After --lock-wait it would be what the other run found, not what it left."""
    path = _write(tmp_path, *(f"- {name}:" for name in tasks))
    with pytest.raises(PlaybookError) as caught:
        load_playbook(path)
    (problem,) = caught.value.problems
    early = message.split(maxsplit=1)[0]
    assert problem.message == message
    assert str(problem.where) == f"{path}:{len(tasks) + 2}:7"
    assert problem.hint == (
        f"move `{early}:` below `lock:`, or repeat it there: what it read before may have changed"
    )


@pytest.mark.parametrize(
    "tasks",
    [
        ("gather_facts", "health", "links_gate"),  # reads only
        ("gather_facts", "lock", "debug: {msg: '{{ ansible_user_id }}'}"),
        ("survey", "lock", "survey", "stop_deployment"),
        ("lock", "survey", "lock", "stop_deployment"),  # it is held already
    ],
)
def test_what_nothing_reads_after_the_lock_may_come_before_it(
    tmp_path: Path, tasks: tuple[str, ...]
) -> None:
    lines = [f"- {name if ':' in name else f'{name}:'}" for name in tasks]
    assert load_playbook(_write(tmp_path, *lines))


def test_what_a_play_read_is_outdated_in_the_next_one_too(tmp_path: Path) -> None:
    path = tmp_path / "own.yml"
    path.write_text(
        "- hosts: sparks\n  tasks: [{survey: }]\n"
        "- hosts: sparks\n  tasks: [{lock: }, {stop_deployment: }]\n"
    )
    assert _problems(path) == [
        "survey must run between lock and stop_deployment (stop_deployment needs surveys)"
    ]


def test_what_is_missing_is_not_outdated_too(tmp_path: Path) -> None:
    assert _problems(_write(tmp_path, "- health:", "- lock:", "- stop_deployment:")) == [
        "gather_facts or survey must run before health (health needs surveys)"
    ]


@pytest.mark.parametrize("step", ["obtain", "spread"])
def test_an_image_is_inspected_after_an_interrupted_run_is_rolled_back(
    tmp_path: Path, step: str
) -> None:
    tasks = "- lock:", "- gather_facts:", f"- image: {{step: {step}}}", "- recover:"
    assert _problems(_write(tmp_path, *tasks)) == ["recover must run before image"]


@pytest.mark.parametrize("late", ["collective: {step: end}", "drop_caches:"])
def test_nothing_that_frees_memory_follows_the_start_that_needs_it(
    tmp_path: Path, late: str
) -> None:
    path = tmp_path / "own.yml"
    path.write_text(f"{UP.replace(f'      {late}', '      debug: {msg: x}')}\n    - {late}\n")
    name = late.partition(":")[0]
    assert f"{name} must run before serve" in _problems(path)


def test_one_of_several_providers_is_enough(tmp_path: Path) -> None:
    assert _problems(_write(tmp_path, "- health:")) == [
        "gather_facts or survey must run before health (health needs surveys)"
    ]
    for provider in ("survey", "gather_facts"):
        assert load_playbook(_write(tmp_path, f"- {provider}:", "- health:"))


def test_a_missing_result_is_reported_once(tmp_path: Path) -> None:
    path = _write(tmp_path, "- drift:", "- wait_ready:", "- smoke:")
    assert _problems(path) == ["render must run before drift (drift needs launch)"]


def test_all_missing_actions_are_named_together(tmp_path: Path) -> None:
    (problem,) = _problems(_write(tmp_path, "- serve:"))
    assert problem == (
        "render and replace_deployment must run before serve (serve needs launch and replacement)"
    )


def test_results_are_kept_from_play_to_play(tmp_path: Path) -> None:
    path = tmp_path / "own.yml"
    path.write_text(
        "- hosts: sparks\n  tasks: [{survey: }]\n- hosts: sparks\n  tasks: [{health: }]\n"
    )
    assert load_playbook(path)


def test_a_rescue_uses_what_its_block_provides(tmp_path: Path) -> None:
    block = "- block:\n    - survey:\n  rescue:\n    - health:"
    assert load_playbook(_write(tmp_path, block))


def test_what_only_a_rescue_provides_is_missing_after_the_block(tmp_path: Path) -> None:
    block = "- block:\n    - command: 'true'\n  rescue:\n    - survey:"
    assert len(_problems(_write(tmp_path, block, "- health:"))) == 1
    block = "- block:\n    - command: 'true'\n  always:\n    - survey:"
    assert load_playbook(_write(tmp_path, block, "- health:"))


def test_a_provider_with_a_condition_counts(tmp_path: Path) -> None:
    assert load_playbook(_write(tmp_path, "- survey:\n  when: nodes > 1", "- health:"))


@pytest.mark.parametrize(
    "selection", [Selection(start_at="Stop"), Selection(skip_tags=frozenset({"look"}))]
)
def test_a_selection_that_leaves_out_a_needed_task_is_refused(
    tmp_path: Path, selection: Selection
) -> None:
    tasks = "- name: Look\n  survey:\n  tags: look", "- name: Stop\n  health:"
    plays = load_playbook(_write(tmp_path, *tasks))
    with pytest.raises(UsageError) as caught:
        check_selected_order(select_tasks(plays, selection), plays, nodes=1)
    assert caught.value.message == "the task 'Stop' needs the task 'Look', which is not selected"
    assert str(caught.value.problems[0].where).endswith("own.yml:6:7")


def test_a_group_needs_its_fabric_and_one_node_does_not(tmp_path: Path) -> None:
    plays = load_playbook(_write(tmp_path, "- gather_facts:", "- stage_weights:", "- render:"))
    check_selected_order(plays, plays, nodes=1)
    with pytest.raises(PlaybookError, match="links_gate must run before render"):
        check_selected_order(plays, plays, nodes=2)


UP = (SHIPPED / "cluster-up.yml").read_text()


@pytest.mark.parametrize(
    ("early", "late"),
    [
        ("serve:", "wait_ready:"),  # one of two `serve:` is not enough
        ("start_ray: {role: workers}", "join_gate:"),
        ("smoke:", "receipt:"),
        ("wait_ready:", "smoke:"),
        ("leave_gateway:", "replace_deployment:"),
        ("replace_deployment:", "arm_guard:"),
        ("health:", "render:"),
        ("prepare_gpu_clock:", "gpu_clock:"),
        ("recover:", "preflight:"),
        ("recover:", "links_gate:"),
        ("drop_caches:", "serve:"),
    ],
)
def test_a_task_before_what_must_happen_on_the_hosts_first_is_an_error_with_its_place(
    tmp_path: Path, early: str, late: str
) -> None:
    path = tmp_path / "own.yml"
    places = {f"      {early}": late, f"      {late}": early}
    lines = [f"      {places[line]}" if line in places else line for line in UP.splitlines()]
    path.write_text("\n".join(lines))
    with pytest.raises(PlaybookError) as caught:
        load_playbook(path)
    name = early.partition(":")[0]
    found = [p for p in caught.value.problems if p.message.startswith(f"{name} must run before")]
    assert late.removesuffix(":") in {problem.message.split()[-1] for problem in found}
    assert all(problem.where and problem.where.line for problem in found)
    assert {problem.hint for problem in found} == {f"move this task below `{name}:`"}


@pytest.mark.parametrize(
    ("early", "late"),
    [
        ("image: {step: obtain}", "image: {step: spread}"),
        ("collective: {step: begin}", "collective: {step: end}"),
        ("start_ray: {role: head}", "start_ray: {role: workers}"),
    ],
)
def test_the_steps_of_an_action_have_an_order_too(tmp_path: Path, early: str, late: str) -> None:
    path = tmp_path / "own.yml"
    places = {f"      {early}": late, f"      {late}": early}
    lines = [f"      {places[line]}" if line in places else line for line in UP.splitlines()]
    path.write_text("\n".join(lines))
    with pytest.raises(PlaybookError) as caught:
        load_playbook(path)
    problem = next(p for p in caught.value.problems if p.message.startswith(early))
    assert problem.message == f"{early} must run before {late}"
    assert problem.hint == f"move this task below `{early}`"
    assert problem.where
    # The task begins with its name, on the line before the action.
    assert problem.where.line == lines.index(f"      {late}")


def test_steps_that_are_templates_or_alone_may_be_anywhere(tmp_path: Path) -> None:
    before = "- gather_facts:"
    assert load_playbook(_write(tmp_path, before, "- image: {step: spread}"))
    late = "- image: {step: spread}", "- image: {step: '{{ step }}'}"
    assert load_playbook(_write(tmp_path, before, *late))


@pytest.mark.parametrize("name", ACTIONS)
def test_ordered_steps_are_values_of_an_argument(name: str) -> None:
    argument, steps = ACTIONS[name].order
    if steps:
        hint = list_arguments(ACTIONS[name].args_type)[argument].hint
        assert set(steps) <= set(get_args(hint))


def test_what_must_come_first_may_be_missing_and_may_be_in_an_included_playbook(
    tmp_path: Path,
) -> None:
    before = "- gather_facts:", "- stage_weights:", "- render:", "- smoke:"
    assert load_playbook(_write(tmp_path, *before))
    stop = "- survey:", "- stop_deployment:", "- cluster_up:"
    assert load_playbook(_write(tmp_path, "- lock:", *stop))
    assert _problems(_write(tmp_path, *stop)) == [
        "lock must run before stop_deployment (stop_deployment needs locks)"
    ]


def test_tasks_of_a_rescue_are_compared_with_each_other_only(tmp_path: Path) -> None:
    block = "- block:\n    - survey:\n  rescue:\n    - smoke:"
    steps = "- gather_facts:", "- stage_weights:", "- render:"
    assert load_playbook(_write(tmp_path, *steps, block, "- wait_ready:"))


def test_every_action_that_must_come_first_exists() -> None:
    assert {name for action in ACTIONS.values() for name in action.after} <= set(ACTIONS)


def test_a_needed_task_that_was_skipped_is_named(tmp_path: Path) -> None:
    text = "- name: Look\n  survey:\n  when: nodes > 5\n- name: Stop\n  health:\n"
    with pytest.raises(PlaybookError) as caught:
        play(tmp_path, text, options=RunOptions(tp=2))
    assert caught.value.message == (
        "the task 'Stop' needs surveys, but the task that provides it was skipped: 'Look' (survey)"
    )
    assert str(caught.value.problems[0].where).endswith("play.yml:6:7")
    assert caught.value.hint == (
        "remove `when` from 'Look', or add the same condition to this task"
    )


def test_a_survey_that_was_skipped_after_the_lock_is_not_replaced_by_an_earlier_one(
    tmp_path: Path,
) -> None:
    text = (
        "- survey:\n- lock:\n- name: Look\n  survey:\n  when: nodes > 5\n- name: Stop\n  health:\n"
    )
    with pytest.raises(PlaybookError) as caught:
        play(tmp_path, text, options=RunOptions(check=True))
    assert caught.value.message == (
        "the task 'Stop' needs surveys, but the task that provides it was skipped: 'Look' (survey)"
    )


def test_a_mistake_that_an_action_finds_has_the_place_of_its_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of `render` where vllm_executor is auto and no task has inspected the image."""

    def refuse(*_: object) -> None:
        raise PlaybookError("no image was inspected", hint="add a task")

    monkeypatch.setattr(SurveyHosts, "inspect_all", refuse)
    with pytest.raises(PlaybookError, match="no image was inspected") as caught:
        play(tmp_path, "- survey:\n")
    assert str(caught.value.problems[0].where).endswith("play.yml:3:7")
    assert caught.value.hint == "add a task"


def test_a_skipped_task_needs_nothing(tmp_path: Path) -> None:
    text = "- survey:\n  when: nodes > 5\n- health:\n  when: nodes > 5\n"
    ended, _ = play(tmp_path, text)
    assert ended.exit_code == 0


def test_internal_actions_are_not_for_playbooks(tmp_path: Path) -> None:
    (message, *_) = _problems(_write(tmp_path, "- select_fabric:"))
    assert "select_fabric" in message

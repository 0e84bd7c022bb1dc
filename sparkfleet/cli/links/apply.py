"""`links.apply`: shows the plan, asks, and applies it with a timed way back on each host."""

from __future__ import annotations

from sparkfleet.cli.context import open_pool
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.links.confirmation import find_serving, is_confirmed
from sparkfleet.cli.links.options import AddressApplyOptions
from sparkfleet.cli.links.plan import make_plan
from sparkfleet.cli.links.plan_view import build_plan_document, print_plan
from sparkfleet.cli.links.session import open_root_session
from sparkfleet.cli.views.documents import print_document, serialize_verdicts
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.cli.views.tables import create_console
from sparkfleet.cli.views.verdicts import print_verdicts
from sparkfleet.command_name import name_command
from sparkfleet.links.addressing.applying import ApplyResult, ApplyRun, apply_plan


def apply_links(options: AddressApplyOptions) -> int:
    """Show the plan, apply it where it is confirmed, and return 0, or 2 if it was not kept."""
    with open_root_session(options) as session:
        inputs, plan = make_plan(options, session)
        wanted = not plan.refusals and not plan.empty
        serving = find_serving(session) if wanted else None
    if not options.json:
        print_plan(plan)
    if not wanted or not is_confirmed(options, "apply this?", serving):
        if options.json:
            print_document(**build_plan_document(plan), changed=False, serving=str(serving or ""))
        return compute_exit_code(refused=bool(plan.refusals))
    run = ApplyRun(
        inputs=inputs,
        plan=plan,
        open_pool=lambda: open_pool(options),
        say=lambda line: None if options.json else print_lines(line),
        seconds=options.revert_after,
    )
    result = apply_plan(run)
    if options.json:
        print_document(
            **build_plan_document(plan),
            changed=not result.problem,
            problem=result.problem,
            hosts=dict(result.hosts),
            verdicts=serialize_verdicts(result.verdicts),
        )
    else:
        _print_result(result, verbose=options.verbose)
    return compute_exit_code(refused=bool(result.problem))


def _print_result(result: ApplyResult, *, verbose: bool) -> None:
    if result.verdicts:
        print_verdicts(create_console(), result.verdicts, verbose=verbose)
    for host, state in result.hosts.items():
        print_lines(f"{host}: {state}")
    if result.problem:
        print_lines(f"error: the change was not kept: {result.problem}")
        if "kept" in result.hosts.values():
            print_lines(f"some hosts kept it: run this again, or {name_command('links.revert')}")
        return
    print_lines(
        f"each peer answers on each rail with full-size frames; {name_command('links.verify')} "
        f"checks more, {name_command('links.revert')} restores what was before"
    )
    if any(verdict.check == "link.arp_flux" for verdict in result.verdicts):
        print_lines(f"for link.arp_flux: {name_command('links.apply')} --arp")

"""A public function of a module begins with a verb: what it does, or says of its argument."""

from __future__ import annotations

import ast

from tests.source import parse_package

VERBS = """
accept acquire add advise align allocate announce answer append apply arm ask assign assume
attempt authorize become begin bench bind block boot build cache calibrate can change charge
check choose classify clean close collect combine command compare compile complete compute
confirm connect convert copy count create cut damage decide decode deliver describe diagnose dial
diff disable downgrade drain drop dump duplicate echo edit empty enable encode end ensure enter
escape estimate evaluate examine execute exit expand explain export fetch find fingerprint finish
fit flush fold follow forget format gather generate get give greet group guard handle hash hide
hold identify ignore import index inject inspect install iterate join judge keep kill land lay
lengthen lift limit list listen load locate lock look lookup make map mask match measure merge
mount name negate note open overlay pack parse pause ping pivot place plan predict prefer prepare
print probe prompt protect prune pull put query quote read receive recommend record redact refuse
register relaunch release reload remember remount remove render renew repair repeat replace
report require resolve restore revert review run sample save scan schedule search see select send
serialize serve set settle share shorten show shuffle signal skip sleep spell split start stat
stop store strip suggest sum summarize survey swap sweep take thaw time touch train translate
trust try unblock undo unlock unmount unpack unshare unswap update validate verify wait walk
watch wrap write
"""
PREDICATES = """
answers did fits has holds is looks matches names repeats replaces runs starts stops takes uses
went works
"""
PREPOSITIONS = "in on"  # steps of a fault, on a host or a rail
# The steps of a program, options of a task, arguments of an action, and verdicts by their weight.
NOUNS = "arg choice duration error flag info main number ok option repeated warning"


def test_a_public_function_begins_with_a_verb() -> None:
    """A new verb is added above, where none of them says what the function does."""
    allowed = {*VERBS.split(), *PREDICATES.split(), *PREPOSITIONS.split()}
    others = [
        f"{path}: {node.name}"
        for path, tree in parse_package().items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and not path.endswith("tasks.py")  # named after their tasks
        and node.name.split("_")[0] not in allowed
        and node.name not in NOUNS.split()
    ]
    assert others == []


def test_every_word_begins_a_name() -> None:
    begun = {
        node.name.split("_")[0]
        for tree in parse_package().values()
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }
    words = {*VERBS.split(), *PREDICATES.split(), *PREPOSITIONS.split(), *NOUNS.split()}
    assert words - begun == set()

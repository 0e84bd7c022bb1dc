"""Values that people, mistakes and attackers write: numbers, scalars, templates and characters."""

from __future__ import annotations

ODD_NUMBERS = (
    *("0", "-0", "-1", "1e999", "-1e999", "inf", "-.inf", ".nan", "nan", "0x10", "0o17", "017"),
    *("0b1", "1_000", "1__0", "1:30", "190:20:30", "9" * 30, "9" * 5000, "1e-400", "0.1.2", "+5"),
    *("٣", "½", "\uff11\uff12", "1,5", "4294967296", "9223372036854775808", "1e18", "1 000", "5%"),
)
ODD_SCALARS = (
    *(
        "null",
        "~",
        "",
        "yes",
        "NO",
        "=",
        "-",
        "--",
        "?",
        "[]",
        "{}",
        "[[]]",
        "[{}]",
        "{a: {b: []}}",
    ),
    *("2026-02-30", "2026-11-29T25:00:00Z", "'", '"', '"\\ud800"', '"\\0"', '"\\x1b[2J"', "'a\nb'"),
    *("|", ">-", "|2", "@x", "`x`", "%YAML 9.9", "---", "...", "!!binary x", "!!set {a}", "!!omap"),
    *("!!python/name:os.system", "!unsafe '{{ x }}'", "!vault x", "!!float x", "!!int ''", "!x y"),
    *("!!timestamp 1", "!!pairs [a: b]", "!!str", "&a [*a]", "*missing", "[*a, *a]", "{<<: 1}"),
    *(
        "../../x",
        "/",
        "~root/x",
        "$HOME",
        "`id`",
        "$(id)",
        "; rm",
        "-oProxyCommand=x",
        "a" * 70_000,
    ),
)
ODD_JINJA = (
    *("{{ x }}", "{{", "}}", "{%", "{#", "{% raw %}", "{{ {} }}", "{{ self }}", "{{ [][0] }}"),
    *("{{ 9 ** 9 ** 9 }}", "{{ 'a' * 10 ** 12 }}", "{{ range(10 ** 12) | list }}", "{{ 1 / 0 }}"),
    *(
        "{{ ().__class__ }}",
        "{{ x.y.z }}",
        "{{ x[1:] | map('upper') }}",
        "{{ lookup('env', 'A') }}",
    ),
    *(
        "{{ hostvars['spark-01'] }}",
        "{{ groups.all }}",
        "{{ vllm_port }}",
        "{{ omit }}",
        "{{ '{{' }}",
    ),
    *("{% for i in range(10 ** 9) %}x{% endfor %}", "{% set x = x %}{{ x }}", "{{ x is y }}"),
    *(
        "{% include '/etc/passwd' %}",
        "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{{ \u202e }}",
    ),
)
ODD_SIGNS = (
    *("\0", "\t", "\r", "\n", "\r\n", "\f", "\v", "\x1b[2J", "\x7f", "\x85", "\u2028", "\u2029"),
    *("\ufeff", "\u200b", "\u200d", "\u202e", "\u2066", "\u00a0", "\u3000", "\ud800", "\udcff"),
    *(
        "\ufffe",
        "e\u0301",
        "\u00e9",
        "İ",
        "\u017f",
        "ǅ",
        "👩‍💻",
        "\U0010ffff",
        "\u0430",
        "\uff1a",
        "\uff1d",
    ),
)
ODD_JSON = (
    *("null", "NaN", "-Infinity", "1e999", "9" * 5000, "[" * 9000, '"\\ud800"'),
    *("[" * 200 + "]" * 200, '{"a": ' * 900 + "0" + "}" * 900),
)
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = (
    *("<<: *a", "<<: [*a, *a]", "<<: {x: 1}", "x: &a {y: 1}", "? [a, b]", "? {a: b}", "? a", ": b"),
    *(BOMB, "x: " + "[" * 99 + "]" * 99, "x: " + "[" * 20_000, "x: " + "{a: " * 200 + "}" * 200),
    *("- " * 150 + "x", "#" * 90_000, "k" * 2000 + ": v", "1: 2", "true: 1", "null: 1", "1.5: 2"),
)

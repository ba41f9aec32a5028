"""An author's discussion: numbers come from the tables, and a missing one is an error."""

from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
import synthetic

from perepisode.config import ConfigError
from perepisode.report import discussion, page

TABLES = {
    "complete": pd.DataFrame({"agent": ["A", "B"], "cvar": [1.0, 2.5], "cvar_ci": [0.25, 0.5], "p_over": [0.01, 0.4]}),
    "curve": pd.DataFrame({"arm": ["d=1"] * 3 + ["d=2"], "steps": [0, 50, 100, 50], "mean": [0.0, 0.5, 0.75, 9.0]}),
    "paper": pd.DataFrame({"where": ["t", "t"], "agent": ["A", "B"], "here": [3.0, 4.0]}),
}


def read(tmp_path, text):
    (tmp_path / "words.md").write_text(text)
    return discussion.read(tmp_path / "words.md", TABLES)


def test_numbers_are_those_of_the_tables(tmp_path):
    text = """### Is B worse?
Yes: {{ plus_minus(value("complete", "B", "cvar"), value("complete", "B", "cvar_ci")) }},
{{ percent(value("complete", "B", "p_over")) }} over.

Second {{ number(value("paper", {"where": "t", "agent": "A"}, "here"), 1) }}.

### And A?

No."""
    assert read(tmp_path, text) == [
        ("Is B worse?", ["Yes: 2.50\u00a0±\u00a00.50, 40.0\u00a0% over.", "Second 3.0."]),
        ("And A?", ["No."]),
    ]


def test_a_curve_is_read_at_the_step_that_is_nearest(tmp_path):
    text = """### λ
From {{ number(value("curve", {"arm": "d=1"}, "mean", steps=40)) }} to
{{ number(value("curve", "d=1", "mean", steps=1e9)) }}."""
    assert read(tmp_path, text) == [("λ", ["From 0.50 to 0.75."])]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ('value("cost", "A", "cvar")', "table 'cost', which this report does not have; it has complete, curve, paper"),
        ('value("complete", "C", "cvar")', "there are 0 such rows; its rows: A, B"),
        ('value("complete", "A", "cva")', "column 'cva' of complete, which has agent, cvar"),
        ('value("paper", "t", "here")', "there are 2 such rows"),
        ("cvar", "'cvar' is undefined"),
        ("value(", "not a valid discussion"),
        ('number(value("complete", "A", "agent"))', "not a valid discussion"),
        ("percent(none)", "not a valid discussion"),
    ],
)
def test_a_missing_number_is_an_error(tmp_path, asked, message):
    with pytest.raises(ConfigError, match=r"words\.md") as rejected:
        read(tmp_path, f"### A\n\n{{{{ {asked} }}}}")
    assert message in str(rejected.value)
    assert "\n" not in str(rejected.value)


def test_text_without_a_heading_and_a_missing_file_are_errors(tmp_path):
    with pytest.raises(ConfigError, match="begins without a heading"):
        read(tmp_path, "Just words.")
    with pytest.raises(ConfigError, match="does not exist; give"):
        discussion.read(tmp_path / "nothing.md", TABLES)


def test_a_discussion_comes_first_in_both_reports_and_is_escaped(tmp_path):
    synthetic.external(episodes=40).to_csv(tmp_path / "episodes.csv", index=False)
    (tmp_path / "words.md").write_text(
        '### Why < "so"?\n\nPPO: {{ number(value("complete_violations", "PPO", "violations")) }}.'
    )
    built = page.build(tmp_path / "episodes.csv", tmp_path / "out", discussion=tmp_path / "words.md")
    mean = pd.read_csv(tmp_path / "out" / "data" / "complete_violations.csv").set_index("agent").violations["PPO"]
    html, markdown = built.read_text(), (tmp_path / "out" / "report.md").read_text()
    assert f"<p>PPO: {mean:.2f}.</p>" in html
    assert "<h3>Why &lt; &#34;so&#34;?</h3>" in html
    assert f"\nPPO: {mean:.2f}.\n" in markdown
    assert markdown.index("## Discussion") < markdown.index("## Violations")


@pytest.mark.parametrize(
    "asked",
    [
        'value.__globals__["__builtins__"]["open"]("x", "w").write("y")',
        '"".__class__.__mro__[1].__subclasses__()',
        "number.__code__.co_consts",
        '"{0.__class__}".format(1)',
        "self.__init__.__globals__",
    ],
)
def test_a_poisoned_discussion_runs_nothing(tmp_path, monkeypatch, asked):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"words\.md"):
        read(tmp_path, f"### A\n\n{{{{ {asked} }}}}")
    assert [path.name for path in tmp_path.iterdir()] == ["words.md"]


def test_a_discussion_reads_no_other_file(tmp_path):
    (tmp_path / "secret").write_text("secret")
    for asked in ('{% include "secret" %}', '{% import "secret" as s %}', '{% extends "secret" %}'):
        with pytest.raises(ConfigError, match=r"words\.md"):
            read(tmp_path, f"### A\n\n{asked}")


@pytest.mark.parametrize(
    "words",
    [
        "{% for a in [1, 2] %}{% for b in [1, 2] %}x{% endfor %}{% endfor %}",
        "{% for i in range(10**9) %}{% endfor %}",
        '{{ "x" * 1000000000 }}',
        "{{ 10 ** 10 ** 10 }}",
        '{{ "%999999999d" % 1 }}',
        '{{ "%*d" % (999999999, 1) }}',
        '{{ "x" | center(999999999) }}',
        '{{ "{:999999999}".format(1) }}',
        '{% set a = "xxxxxxxxxx" %}' + "{% set a = a ~ a %}" * 60 + "{{ a }}",
        "{% set a = [1, 2] %}" + "{% set a = a + a %}" * 60,
        "{% set a = 10000000000 %}" + "{% set a = a * a %}" * 60,
        "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f(g) %}{{ g(g) }}{{ g(g) }}{% endmacro %}{{ f(f) }}",
        "{% macro a() %}xx{% endmacro %}"
        + "".join(f"{{% macro {b}() %}}{{{{ {a}() ~ {a}() }}}}{{% endmacro %}}" for a, b in pairwise("abcdefghijklmno"))
        + "{{ o() }}",
        '{{ values("complete", {"agent": ["A"] * 999, "cvar": ["A"] * 999}, "cvar") }}',
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ " + "-" * 5000 + "1 }}",
        "{{ " + "+".join(["1"] * 20000) + " }}",
        "{{ " + "9" * 5000 + " }}",
        "x" * 70_000,
        '{% set a = "' + "x" * 9000 + '" %}{% macro m(a) %}' + "{{ a }}" * 3000 + "{% endmacro %}{{ m(a) }}",
        "{% block a %}{% endblock %}",
        "{% call f() %}{% endcall %}",
        "{% filter upper %}x{% endfilter %}",
        "{{ value['__globals__'] }}",
        "{{ joined }}{{ ''.join([]) }}",
        "{% raw",
        "{{ [].append(1) }}",
        "{{ 1 / 0 }}",
        "{{ number(1, 1000000000) }}",
        "{{ grouped(value) }}",
    ],
)
def test_a_discussion_that_asks_for_too_much_is_rejected_in_one_line(tmp_path, words):
    with pytest.raises(ConfigError, match=r"words\.md") as rejected:
        read(tmp_path, f"### A\n\n{words}")
    assert "\n" not in str(rejected.value)


def test_several_rows_at_once(tmp_path):
    text = """### A
{{ number(values("paper", {"where": "t", "agent": ["A", "B"]}, "here") | sum, 1) }} of
{{ values("paper", {"where": "t", "agent": ["A", "B"]}, "here") | length }}, {{ grouped(1234567) }}."""
    assert read(tmp_path, text) == [("A", ["7.0 of 2, 1,234,567."])]


def test_the_committed_discussions_are_far_from_every_limit():
    for path in (Path(__file__).parents[2] / "results").glob("discussion*.md"):
        assert path.stat().st_size < discussion.LARGEST / 3

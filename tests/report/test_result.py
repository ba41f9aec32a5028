"""`perepisode.report` and `perepisode.compare` in Python: data frames in; numbers, figures and a first screen out."""

import inspect
import json
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import perepisode
from perepisode import cli
from perepisode.config import ConfigError
from perepisode.runs import made_with

EXAMPLE = Path(__file__).parents[2] / "examples" / "catastrophes" / "episodes.csv"


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return pd.read_csv(EXAMPLE)


@pytest.fixture(scope="module")
def report(table):
    return perepisode.report(table, quiet=True)


def test_a_data_frame_reads_as_its_file_does(table, report):
    from_file = perepisode.report(EXAMPLE, quiet=True)
    pd.testing.assert_frame_equal(report.pairs, from_file.pairs)
    pd.testing.assert_frame_equal(report.agents, from_file.agents)
    assert report.headline == from_file.headline
    assert list(table.columns) == ["algo", "seed", "EpRet", "EpCost"]  # the caller's frame is left as it was


def test_several_frames_and_files_are_one_table(table, tmp_path):
    cpo, rest = table[table["algo"] == "CPO"], table[table["algo"] != "CPO"]
    rest.to_csv(tmp_path / "rest.csv", index=False)
    joined = perepisode.report([cpo, tmp_path / "rest.csv"], quiet=True)
    assert sorted(joined.agents["agent"]) == ["CPO", "FOCOPS", "P3O", "PPO-Lag"]
    assert set(joined.tables["provenance"]["File"]) == {"data frame 1", "rest.csv"}


def test_agents_have_the_numbers_of_pandas(table, report):
    agents = report.agents.set_index("agent")
    means = table.groupby(["algo", "seed"])["EpCost"].mean().groupby("algo").mean()
    assert agents["violations"].to_dict() == pytest.approx(means.to_dict())
    assert agents["seeds"].to_dict() == dict.fromkeys(means.index, 5)


def test_tables_and_figures_are_those_of_the_page(report, tmp_path):
    path = report.save(tmp_path, formats=("svg",))
    assert path == report.path == tmp_path / "index.html"
    assert {file.stem for file in (tmp_path / "tables").iterdir()} == set(report.tables)
    assert {f"{name}.svg" for name in report.figures} == {file.name for file in (tmp_path / "figures").iterdir()}
    assert json.loads((tmp_path / "summary.json").read_text())["headline"] == report.headline
    figure = report.figure("tail")
    assert figure.name == "tail_cost"
    assert figure.figure.axes
    written = pd.read_csv(tmp_path / "data" / "tail_cost.csv")
    pd.testing.assert_frame_equal(written, figure.frame.reset_index(drop=True), check_dtype=False)
    with pytest.raises(ConfigError, match="there is no figure 'heads'; this report has"):
        report.figure("heads")


def test_a_notebook_shows_the_first_screen(report):
    html = report._repr_html_()
    for text in (report.headline.removesuffix(report.finding.means).split(",")[0], report.finding.means, "Caveats"):
        assert text.replace("\u00a0", " ").strip() in html.replace("\u00a0", " ")
    assert html.index("conditional value at risk") < html.index("most clearly")  # explained before it is used
    assert html.count("<svg") == 1
    assert "<script" not in html
    assert report.figure("tail")._repr_html_().startswith('<svg style="background: #fff')


def test_labels_are_escaped_in_a_notebook(table):
    named = table.replace({"algo": {"FOCOPS": "<script>alert(1)</script>"}})
    shown = perepisode.report(named, quiet=True)
    assert "<script" not in shown._repr_html_() + "".join(shown.figure(name)._repr_html_() for name in shown.figures)


def test_nothing_is_written_without_a_folder(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    perepisode.report(table, quiet=True)
    assert not list(tmp_path.iterdir())
    perepisode.report(table, out="here", quiet=True, formats=("svg",))
    assert (tmp_path / "here" / "index.html").exists()


def test_quiet_prints_nothing_and_otherwise_the_table_and_the_headline(table, capsys):
    perepisode.report(table, quiet=True)
    assert capsys.readouterr().out == ""
    shown = perepisode.report(table)
    assert capsys.readouterr().out.splitlines()[-1] == shown.headline


def test_two_agents_are_compared(table):
    a, b = (table[table["algo"] == name].drop(columns="algo") for name in ("FOCOPS", "CPO"))
    both = perepisode.compare(a.assign(method="x"), b.assign(method="y"), names=("FOCOPS", "CPO"), quiet=True)
    assert both.headline.startswith("FOCOPS has a heavier tail than CPO: it averages a cost of 643 per episode")
    every = perepisode.report(table, quiet=True).pairs.set_index(["agent", "other"])
    (pair,) = both.pairs.to_dict("records")
    assert pair["p"] == pytest.approx(every.loc[("FOCOPS", "CPO"), "p"] / 6, rel=0.35)  # not corrected for six pairs
    assert pair["return_difference"] == pytest.approx(a["EpRet"].mean() - b["EpRet"].mean())
    with pytest.raises(ValueError, match="A has the episodes of 4 agents"):
        perepisode.compare(table, b.assign(method="y"), quiet=True)
    unnamed = perepisode.compare(a, b, names=("FOCOPS", "CPO"), quiet=True)  # without a column for the agent
    assert unnamed.headline == both.headline
    with pytest.raises(ValueError, match="has no column 'seed'"):
        perepisode.compare(a.drop(columns="seed"), b, quiet=True)


def test_two_agents_that_differ_in_both_means_are_still_compared():
    generator = np.random.default_rng(0)

    def agent(gained, shape):
        seeds = (
            {
                "method": "x",
                "seed": seed,
                "return": generator.normal(gained, 1, 200),
                "cost": generator.gamma(shape, 5, 200),
            }
            for seed in range(4)
        )
        return pd.concat([pd.DataFrame(seed) for seed in seeds])

    both = perepisode.compare(agent(10, 1), agent(20, 4), quiet=True)
    assert both.pairs["return_verdict"].tolist() == ["different"]
    assert both.headline.startswith("A has a lighter tail than B")
    assert "Mean return and mean cost differ" in both.headline


def test_what_made_a_report_is_in_it(report, tmp_path):
    report.save(tmp_path, formats=("svg",))
    digest = subprocess.run(["sha256sum", EXAMPLE], capture_output=True, text=True, check=True).stdout.split()[0]
    of_file = perepisode.report(EXAMPLE, quiet=True).tables["provenance"].set_index("Key")["Value"]
    assert of_file["sha256"] == digest
    made = json.loads((tmp_path / "summary.json").read_text())["made_with"]
    assert made["perepisode"] == perepisode.__version__
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent)
    if head.returncode == 0:  # a clone: not a package without its history
        assert head.stdout.startswith(made["commit"].removesuffix("-dirty"))
        assert made["commit"] in (tmp_path / "index.html").read_text()


def test_another_projects_repository_is_not_named(tmp_path, monkeypatch):
    """The package installed below a repository that does not have its files."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.setattr("perepisode.runs.__file__", str(tmp_path / "runs.py"))
    (tmp_path / "runs.py").touch()
    assert "commit" not in made_with.__wrapped__()


def test_the_command_has_the_options_of_the_function():
    options = set(inspect.signature(perepisode.report).parameters) - {"quiet", "formats"}
    assert options == set(cli.BuildReport.__dataclass_fields__) - {"config", "print_config"}


def test_counts_of_a_kind_beside_the_violations_of_another_library_are_no_dilemma(table, report):
    """A recorder's table has such columns, and no column `dilemma`."""
    assert perepisode.report(table.assign(violations_spills=0), quiet=True).headline == report.headline

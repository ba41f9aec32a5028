"""The example on costs, as a user of another library has it: read unchanged, called costs, compared at once."""

import contextlib
import importlib.util
import io
import json
import re
from pathlib import Path

import pandas as pd
import pytest

from perepisode import cli
from perepisode.evaluation import episodes

EXAMPLE = Path(__file__).parents[2] / "examples" / "costs"
TABLE = pd.read_csv(EXAMPLE / "episodes.csv")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """(the page's folder, what was printed)"""
    out, output = tmp_path_factory.mktemp("costs"), io.StringIO()
    words = [
        "report",
        str(EXAMPLE / "episodes.csv"),
        "--out",
        str(out),
        "--cost-limit",
        "25",
        "--names",
        "FOCOPS=My agent",
    ]
    with contextlib.redirect_stdout(output):
        assert cli.run(cli.parsed(words)) == 0
    return out, output.getvalue()


def test_the_committed_table_is_what_the_script_makes():
    spec = importlib.util.spec_from_file_location("make", EXAMPLE / "make.py")
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    pd.testing.assert_frame_equal(make.table(), TABLE)


def worst(algo, share=0.1):
    """The mean of the worst episodes, by sorting."""
    count = round(share * 300)
    each = [
        seed["EpCost"].sort_values().iloc[-count:].mean() for _, seed in TABLE[TABLE["algo"] == algo].groupby("seed")
    ]
    return sum(each) / 3


def test_the_headline_says_equivalent_mean_cost_and_a_heavier_tail(report):
    first = (report[0] / "index.html").read_text().split("<nav")[0].replace("\u00a0", " ")
    heavy, light = worst("FOCOPS", 0.02), worst("PPO-Lag", 0.02)
    means = [TABLE.loc[TABLE["algo"] == algo, "EpCost"].mean() for algo in ("FOCOPS", "PPO-Lag")]
    assert (
        f"My agent has a heavier tail than PPO-Lag: it averages a cost of {heavy:.0f} per episode in its worst 2 % of "
        f"episodes, against {light:.0f} for PPO-Lag. "
    ) in first
    assert (
        f"mean cost is equivalent to within 20 % (return 20.6 and 19.8, cost {means[0]:.1f} and {means[1]:.1f})"
        in first
    )
    assert "violation" not in re.sub(r"<style.*?</style>", "", first, flags=re.DOTALL)


def test_a_limit_is_a_column_of_its_own(report):
    frame = pd.read_csv(report[0] / "data" / "complete_cost.csv").set_index("agent")
    costs = TABLE.loc[TABLE["algo"] == "CPO", "EpCost"]
    assert frame.loc["CPO", "p_over_25"] == pytest.approx((costs > 25).mean())
    by_seed = TABLE[(TABLE["algo"] == "CPO") & (TABLE["EpCost"] > 25)].groupby("seed")["EpCost"]
    assert frame.loc["CPO", "excess"] == pytest.approx(by_seed.mean().mean() - 25)
    assert frame.loc["CPO", "cvar"] == pytest.approx(worst("CPO"))
    assert "My agent" in frame.index
    assert "FOCOPS" not in frame.index


def test_columns_read_under_other_names_are_reported(report):
    origin = pd.read_csv(report[0] / "data" / "provenance.csv").set_index("Key")["Value"]
    assert origin["columns"] == "algo is method, EpRet is return, EpCost is cost"
    assert "algo is method, EpRet is return, EpCost is cost" in report[1]


@pytest.mark.parametrize(
    ("columns", "word"),
    [
        (("Metrics/EpRet", "Metrics/EpCost", "Metrics/EpLen"), "cost"),
        (("episode_reward", "cost", "ep_len"), "cost"),
        (("r", "costs", "l"), "cost"),
        (("ep_ret", "ep_cost", "Length"), "cost"),
        (("reward", "violations", "l"), "violations"),
        (("return", "Violations", "length"), "violations"),
    ],
)
def test_names_of_other_libraries_are_read(tmp_path, columns, word):
    rows = {"Algorithm": ["A", "A"], "seed": [1, 1], columns[0]: [3.0, 4.0], columns[1]: [1, 2], columns[2]: [10, 20]}
    pd.DataFrame(rows).to_csv(tmp_path / "a.csv", index=False)
    table = episodes.read(tmp_path / "a.csv")
    assert table[["method", "return", "violations", "length"]].to_numpy().tolist() == [["A", 3, 1, 10], ["A", 4, 2, 20]]
    assert (table.attrs["word"], table["dilemma"].unique().tolist()) == (word, [word])


def test_our_own_names_come_first_and_a_monitors_first_line_is_skipped(tmp_path):
    path = tmp_path / "monitor.csv"
    about = json.dumps({"t_start": 1.0, "env_id": "SafetyPointGoal1-v0"})
    path.write_text(f"#{about}\nr,l,t,cost,violations,method,seed\n5.5,10,0.1,7.25,2,A,1\n")
    table = episodes.read(path)
    assert table[["return", "violations", "length"]].to_numpy().tolist() == [[5.5, 2.0, 10.0]]
    assert table.attrs["word"] == "violations"


def test_training_epochs_are_not_episodes(tmp_path):
    rows = {"algo": ["A"], "seed": [1], "Metrics/EpRet": [1.0], "Metrics/EpCost": [2.0], "Train/Epoch": [0]}
    pd.DataFrame(rows).to_csv(tmp_path / "progress.csv", index=False)
    with pytest.raises(ValueError, match="a row is a training epoch, a mean over episodes"):
        episodes.read(tmp_path / "progress.csv")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--names", "SAC=Mine"], "no method is called 'SAC'"),
        (["--names", "CPO=PPO"], "two methods would be called 'PPO'"),
        (["--names", "CPO"], "--names 'CPO' gives no name; write method=name"),
        (["--alpha", "0"], "alpha=0.0 is out of range; alpha must be a number, above 0 and at most 1"),
        (["--cost-limit", "-1"], "limit"),
    ],
)
def test_wrong_options_are_rejected_in_one_line(tmp_path, capsys, options, message):
    assert cli.run(cli.parsed(["report", str(EXAMPLE / "episodes.csv"), "--out", str(tmp_path / "out"), *options])) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1

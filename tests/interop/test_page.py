"""docs/how-to/other-libraries.md: every Python block runs, and the report reads what the recorder wrote."""

import re
import shlex
from pathlib import Path

import pandas as pd
import pytest

from perepisode import cli
from perepisode.environments.temptation import Temptation, exact

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "other-libraries.md"
JAX_LOOPS = "The recorder for JAX loops"
RUN = ("gymnax", "rejax", "Gymnasium", "Safety-Gymnasium's step", "Stable-Baselines3", "The recorder", JAX_LOOPS)


def section(heading: str) -> str:
    parts = re.split(r"^##+ ", PAGE.read_text(), flags=re.MULTILINE)
    return next(part for part in parts if part.startswith(f"{heading}\n"))


def test_every_python_block_is_run_here():
    assert [section(heading).count("```python") for heading in RUN] == [1] * len(RUN)
    assert PAGE.read_text().count("```python") == len(RUN)


@pytest.mark.parametrize("heading", ["gymnax", "Gymnasium", "Safety-Gymnasium's step"])
def test_the_blocks_run(heading):
    pytest.importorskip("gymnax" if heading == "gymnax" else "gymnasium")
    (code,) = re.findall(r"```python\n(.*?)```", section(heading), re.DOTALL)
    exec(code, {})


@pytest.mark.slow
def test_rejax_learns_to_within_two_percent_of_the_exact_optimum():
    pytest.importorskip("rejax")
    (code,) = re.findall(r"```python\n(.*?)```", section("rejax"), re.DOTALL)
    names = {}
    exec(code, names)
    best = exact.linear_price(Temptation(), 0.0).mean_return
    assert best == pytest.approx(40.0)
    # an evaluation has 128 episodes, so the mean of the last four is accurate to about 0.25
    assert names["returns"][-4:].mean() == pytest.approx(best, rel=0.02)
    assert (names["lengths"] == Temptation().horizon).all()


@pytest.mark.slow
def test_stable_baselines_learns_to_within_two_percent_of_the_exact_optimum():
    pytest.importorskip("stable_baselines3")
    (code,) = re.findall(r"```python\n(.*?)```", section("Stable-Baselines3"), re.DOTALL)
    message = []
    exec(code, {"print": message.append})
    ((mean, _),) = message
    assert mean == pytest.approx(exact.linear_price(Temptation(), 0.0).mean_return, rel=0.02)


def test_the_tables_of_the_recorder_are_reported(tmp_path, monkeypatch):
    pytest.importorskip("gymnasium")
    monkeypatch.chdir(tmp_path)
    text = section("The recorder")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(code, {})
    tables = [pd.read_parquet(path) for path in sorted(tmp_path.glob("random-*.parquet"))]
    # 200 steps are four whole episodes of forty and the steps that begin the next ones
    assert [len(table) for table in tables] == [8 * 4] * 3
    assert (pd.concat(tables)["length"] == 40).all()
    (command,) = re.findall(r"```sh\n(.*?)\n```", text, re.DOTALL)
    program, *words = shlex.split(command)
    assert program == "perepisode"
    with pytest.raises(SystemExit) as done:
        cli.main(words)
    assert done.value.code == 0
    assert "random" in (tmp_path / "report" / "index.html").read_text()


def test_the_recorder_for_jax_loops_as_shown_in_and_after_the_scan(tmp_path, monkeypatch):
    pytest.importorskip("gymnax")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", section(JAX_LOOPS), re.DOTALL)
    exec(code, {})
    after = pd.read_parquet("random.parquet")
    assert after["env_index"].value_counts().eq(5).all()  # 200 steps are five whole episodes of forty
    assert (len(after), set(after["length"]), after["in_first"].all()) == (64 * 5, {40}, True)
    assert set(after["dilemma"]) == {"temptation"}
    (recorder,) = re.findall(r"^recorder = .*\n", code, re.MULTILINE)
    inside = code.replace(
        "return state, info  # or here: recorder.add(info)", "recorder.add(info)\n    return state, None"
    )
    exec(
        inside.replace(recorder, "")
        .replace("def step", f"{recorder}\n\ndef step")
        .replace(".add(info).write", ".write"),
        {},
    )
    pd.testing.assert_frame_equal(pd.read_parquet("random.parquet"), after)

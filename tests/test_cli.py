"""The command line as a person meets it."""

import subprocess
import sys

import pytest

from perepisode import cli

pytestmark = pytest.mark.processes

COMMANDS = ("train", "evaluate", "agents", "distill", "matrix", "study", "report", "watch", "bench", "demo")


def perepisode(*arguments):
    return subprocess.run([sys.executable, "-m", "perepisode", *arguments], capture_output=True, text=True)


def test_help_names_every_command():
    shown = perepisode("--help")
    assert shown.returncode == 0
    assert all(command in shown.stdout for command in COMMANDS)


@pytest.mark.parametrize("arguments", [("trian",), ("train", "--bugdet", "1"), ("train", "--gamma", "much")])
def test_unknown_words_are_refused(arguments):
    refused = perepisode(*arguments)
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr


def test_wrong_values_are_one_line():
    refused = perepisode("train", "--method", "lagrangian", "--budget", "-1")
    assert refused.returncode == 2
    assert refused.stderr.strip() == "perepisode: budget=-1 is out of range; budget must be a number, at least 0"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("train --method esr --budget --steps 1e4", "--budget is given no value"),  # many values, and a default
        ("train --method esr --steps 1e4 --learning_rate", "--learning_rate is given no value"),
        ("train --seeds --budget 1", "--seeds is given no value"),
        ("report x.csv --names --cost-limit 1", "--names is given no value"),
        ("study plan --bench", "--bench is given no value"),  # one value
        ("train --steps 1e4x", "--steps/--total-timesteps: '1e4x' is not a number"),
        ("bench --num-envs many", "--num-envs: 'many' is not a whole number"),
        ("train --chunk 1.5", "--chunk: '1.5' is not a whole number"),
    ],
)
def test_a_value_that_is_missing_or_no_number_is_named_with_its_option(arguments, said, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments.split())
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"perepisode: {said}; see `perepisode --help`\n"


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_the_parsers_box_is_one_line_whatever_it_is_drawn_with(encoding, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    refused = perepisode("train", "--methd", "esr")
    said = "Unrecognized options: --methd, esr; perhaps you meant --method; see `perepisode --help`"
    assert refused.stderr == f"perepisode: {said}\n"


def test_a_missing_table_is_one_line(tmp_path):
    refused = perepisode("report", str(tmp_path / "nowhere.parquet"))
    assert refused.returncode == 2
    assert len(refused.stderr.strip().splitlines()) == 1
    assert "nowhere.parquet" in refused.stderr


def test_listing_the_study_starts_no_device():
    program = (
        "import sys, perepisode.cli as c\n"
        "try: c.main(['matrix', '--format', 'csv'])\n"
        "except SystemExit as e: assert not e.code, e.code\n"
        "import jax._src.xla_bridge as b; assert not b._backends, b._backends\n"
        "assert not any(m.startswith('craftax') for m in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert len(shown.stdout.strip().splitlines()) == 184


@pytest.mark.processes
@pytest.mark.parametrize("asked", [["matrix", "--format", "json"], ["train", "--help"]], ids=" ".join)
def test_a_reader_that_has_enough_is_no_trouble(asked):
    """`perepisode matrix | head -1`: the pipe is closed before all was written."""
    command = [sys.executable, "-u", "-m", "perepisode.cli", *asked]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


def test_help_says_what_a_group_of_settings_is_for(capsys):
    """And not what a comment beside it says to other programs."""
    with pytest.raises(SystemExit):
        cli.main(["train", "--help"])
    shown = capsys.readouterr().out
    assert shown.count("Several values are swept.") == 3
    assert "noqa" not in shown


def test_a_setting_given_twice_is_refused(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["train", "--method", "lagrangian", "--budget", "1", "--set", "lambda_lr=1", "lambda_lr=2"])
    assert end.value.code == 2
    assert "lambda_lr is given twice; give its values together: --set lambda_lr=1,2" in capsys.readouterr().err


def test_a_setting_given_twice_under_two_names_is_refused(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["train", "--method", "lagrangian", "--budget", "1", "--ent-coef", "0.1", "--set", "learner.entropy=2"])
    assert end.value.code == 2
    assert "entropy is given twice; give its values together: --set learner.entropy=1,2" in capsys.readouterr().err

"""The command line as users meet it: help, versions, errors in one line, closed pipes."""

import re
import subprocess
import sys
from collections import Counter

import pytest

from perepisode import __version__, cli

pytestmark = pytest.mark.processes

COMMANDS = ("train", "evaluate", "agents", "label", "distill", "matrix", "study", "report", "watch", "bench", "demo")
COMMANDS += ("track", "version")
SUBCOMMANDS = [*COMMANDS, *(f"agents {name}" for name in ("list", "card", "export"))]
SUBCOMMANDS += [f"study {name}" for name in ("plan", "run", "status", "submit")]


def perepisode(*arguments):
    return subprocess.run([sys.executable, "-m", "perepisode", *arguments], capture_output=True, text=True)


def error_of(capsys, *arguments) -> str:
    """What a command prints to stderr before it exits with code 2."""
    with pytest.raises(SystemExit) as ended:
        cli.main(list(arguments))
    assert ended.value.code == 2
    return capsys.readouterr().err


def help_of(capsys, *arguments) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main([*arguments, "--help"])
    assert not ended.value.code
    return capsys.readouterr().out


def test_help_names_every_command_and_says_what_the_tool_is():
    shown = perepisode("--help")
    assert shown.returncode == 0
    assert all(command in shown.stdout for command in COMMANDS)
    assert "usage: perepisode [-h] [--version] COMMAND" in shown.stdout
    about = " ".join(shown.stdout.split())
    assert "Safe RL" in about
    assert "per-episode" in about


@pytest.mark.parametrize("command", ["", *SUBCOMMANDS])
def test_help_fits_sixty_columns_and_nothing_is_cut(command, capsys, monkeypatch):
    """Every word of a wide help is a word of the narrow one."""
    shown = {}
    for columns in ("60", "120"):
        monkeypatch.setenv("COLUMNS", columns)
        shown[columns] = help_of(capsys, *command.split())
    assert max(map(len, shown["60"].splitlines())) <= 60
    narrow, wide = (Counter(re.sub("[│╭╮╰╯─]|--- *$", " ", text).split()) for text in shown.values())
    assert not list(wide - narrow)


@pytest.mark.parametrize("command", ["", *SUBCOMMANDS])
def test_help_calls_values_by_plain_names(command, capsys):
    assert not re.findall(r"\S*\{None\}\S*|\[[A-Z]+ \[", help_of(capsys, *command.split()))


def test_version_is_an_option(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"perepisode {__version__}\n"


@pytest.mark.parametrize(("method", "option"), [("ser", "--weight"), ("esr_distilled", "--utility")])
def test_a_missing_setting_of_a_built_in_method_is_named_as_its_option(method, option, capsys):
    name = option.removeprefix("--")
    assert error_of(capsys, "train", "--method", method) == f"perepisode: {method} needs {name}; give {option}\n"


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
    ("arguments", "message"),
    [
        ("train --method esr --budget --steps 1e4", "--budget has no value"),  # takes several values, has a default
        ("train --method esr --steps 1e4 --learning_rate", "--learning_rate has no value"),
        ("train --seeds --budget 1", "--seeds has no value"),
        ("report x.csv --names --cost-limit 1", "--names has no value"),
        ("study plan --bench", "--bench has no value"),  # takes one value
        ("train --steps 1e4x", "--steps/--total-timesteps: '1e4x' is not a number"),
        ("bench --num-envs many", "--num-envs: 'many' is not a whole number"),
        ("train --chunk 1.5", "--chunk: '1.5' is not a whole number"),
    ],
)
def test_a_missing_value_or_one_that_is_not_a_number_is_named_with_its_option(arguments, message, capsys):
    assert error_of(capsys, *arguments.split()) == f"perepisode: {message}; see `perepisode --help`\n"


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_the_parsers_boxed_error_becomes_one_line_in_any_encoding(encoding, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    refused = perepisode("train", "--methd", "esr")
    message = "Unrecognized options: --methd, esr; perhaps you meant --method; see `perepisode --help`"
    assert refused.stderr == f"perepisode: {message}\n"


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


@pytest.mark.parametrize("arguments", [["matrix", "--format", "json"], ["train", "--help"]], ids=" ".join)
def test_a_reader_that_closes_the_pipe_early_is_no_error(arguments):
    """`perepisode matrix | head -1` closes the pipe before everything is written."""
    command = [sys.executable, "-u", "-m", "perepisode.cli", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


def test_help_describes_each_group_of_settings(capsys):
    """The description is not a comment meant for other programs."""
    shown = help_of(capsys, "train")
    assert shown.count("Several values are swept.") == 3
    assert "noqa" not in shown


def test_a_setting_given_twice_is_refused(capsys):
    twice = ("train", "--method", "lagrangian", "--budget", "1", "--set", "lambda_lr=1", "lambda_lr=2")
    assert "lambda_lr is given twice; give its values together: --set lambda_lr=1,2" in error_of(capsys, *twice)


def test_a_setting_given_twice_under_two_names_is_refused(capsys):
    """Once by its option and once by its name in version 0.1."""
    twice = ("train", "--method", "lagrangian", "--budget", "1", "--ent-coef", "0.1", "--set", "learner.entropy=2")
    assert "ent_coef is given twice; give its values together: --set ppo.ent_coef=1,2" in error_of(capsys, *twice)

"""Options from a TOML file mean what they mean on the command line, and --print-config writes such a file."""

import tomllib
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perepisode import cli
from perepisode.config import ConfigError
from tests.boundary.command_line import answer, refused

TRAINED = [
    "train",
    "train --method esr ser:weight=0.1 lagrangian:budget=0.5 --budget 1 2 --accrued-obs scaled --seeds 1",
    "train --gamma 0.9 1 --learning-rate 1e-5 0.00012345 --anneal-lr no --seeds 7",
    "train --set ppo.num_envs=16,32 env.wage=0.25 --offer-prob 0.1 --steps 20480 --cost-per event --detector paper",
    "train --env craftax --dilemma no_killing --method ser_racc --weight 3 --steps 1e9 --precision fp32",
    "train --agent pqn_gru --learning-rate 1e-4 --seeds 1",
    "train --method esr --budget 10 --hidden-size 64.0 --num-minibatches 4 --max-grad-norm 0.5 --seeds 1 2",
]
OTHERS = [
    "evaluate no_killing/esr-k1 out --num-envs 8 --seed 3 --out table.parquet",
    "report a.csv b.csv --names a=b --cost-limit 2 --alpha 0.2 --runs out --plan plan.toml",
    "study plan --env temptation --extra-baselines --seeds 1 2 --steps 1e6 --pack 4 --gpus 2",
    "study run --only esr --workers 2 --memory 16.5 --out elsewhere",
    "study submit --slurm --time 2:00:00 --dry-run",
]


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def written(text: str) -> str:
    Path("run.toml").write_text(text)
    return "run.toml"


def printed(line: str) -> str:
    code, out, err = answer(*line.split(), "--print-config")
    assert (code, err) == (0, "")
    return out


def with_file(command: str, text: str, *words: str):
    """The command with the options of this file and these words."""
    return cli.parsed([*command.split(), "--config", written(text), *words])


def ids(command) -> list[str]:
    return [run.id for run in command.runs()[0]]


@pytest.mark.parametrize("line", TRAINED)
def test_the_printed_file_trains_the_same_runs(line):
    typed = cli.parsed(line.split())
    assert ids(with_file("train", printed(line))) == ids(typed)
    assert len(ids(typed)) == len(set(ids(typed))) >= 1


@pytest.mark.parametrize("line", OTHERS)
def test_the_printed_file_gives_the_same_options(line):
    command = line if line.split()[0] != "study" else " ".join(line.split()[:2])
    name = command.split()[0] if command == line else command
    typed, read = cli.parsed(line.split()), with_file(name, printed(line))
    if name != line.split()[0]:
        typed, read = typed.action, read.action
    assert replace(read, config=None) == typed


NUMBERS = {
    "learning_rate": st.floats(1e-12, 1e3),
    "gae_lambda": st.floats(0, 1),
    "ent_coef": st.floats(-1e6, 1e6),
    "budget": st.floats(0, 1e9),
    "max_grad_norm": st.integers(1, 10**15),
}


@settings(max_examples=25)
@given(st.fixed_dictionaries({}, optional=NUMBERS))
def test_any_number_is_read_as_it_was_typed(values):
    words = [word for name, value in values.items() for word in ("--" + name.replace("_", "-"), repr(value))]
    line = " ".join(["train --seeds 1", *words])
    assert ids(with_file("train", printed(line))) == ids(cli.parsed(line.split()))


def test_words_override_the_file():
    text = 'method = ["ser"]\nweight = 0.1\nseeds = [1, 2]\nnum_envs = 16\nsteps = 1e5\n'
    command = with_file("train", text, "--seeds", "5", "--num_envs=32", "--total-timesteps", "2e5")
    (run,), _ = command.runs()
    assert (run.method, run.seed, run.config.num_envs, run.total_timesteps) == ("ser", 5, 32, 200_000)


def test_a_switch_can_be_overridden_both_ways():
    for value, word, expected in (("true", "--no-extra-baselines", False), ("false", "--extra-baselines", True)):
        text = f"extra_baselines = {value}\n"
        assert with_file("study plan", text).action.extra_baselines is not expected
        assert with_file("study plan", text, word).action.extra_baselines is expected


def test_positional_arguments_override_the_files():
    text = 'paths = ["a", "b"]\nnum_envs = 4\n'
    assert with_file("evaluate", text).paths == (Path("a"), Path("b"))
    command = cli.parsed(["evaluate", "c", "--config", written(text)])
    assert (command.paths, command.num_envs) == ((Path("c"),), 4)


def test_names_with_dashes_are_the_same():
    assert with_file("train", "num-envs = 16\n").agent_settings.num_envs == ("16",)


def test_every_option_of_the_command_can_be_in_a_file():
    """Each with the value that --print-config writes for it."""
    for name, cls in cli._from_file().items():
        options = cli.option_files.options_of(cls, cli._settings_by_option())
        named = {member.name for member in fields(cls) if not member.name.endswith("_settings")}
        assert named - {"config", "print_config"} <= set(options), name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('seeds = "42"', 'seeds must be a whole number, but is "42"'),
        ("seeds = [1, 2.5]", "seeds must be a whole number, but is 2.5"),
        ("seeds = true", "seeds must be a whole number, but is true"),
        ("seed = 42", "'seed' is no option of `perepisode train`; perhaps you meant seeds"),
        ("chunk = 1.5", "chunk must be a whole number, but is 1.5"),
        ("chunk = [1, 2]", "chunk takes one value, not 2"),
        ("chunk = 0", "chunk=0 is out of range; chunk must be a whole number, at least 1"),
        ("anneal_lr = 1", "anneal_lr must be true or false, but is 1"),
        ('budget = "1"', 'budget must be a number, but is "1"'),
        ("budget = []", "budget has no value; leave it out"),
        ("env = 3", "env must be text, but is 3"),
        ("out = 1979-01-01", 'out must be text, but is "1979-01-01"'),
        ("a = [", "run.toml is not TOML"),
        ("[ppo]\nnum_envs = 8", "'ppo' is no option of `perepisode train`"),
        ("num-envs = 8\nnum_envs = 8", "num_envs is given twice"),
        ("steps = 1e5\ntotal_timesteps = 1e5", "total_timesteps is given twice"),
        ('out = "--track"', "begins with a dash"),
        ('config = "other.toml"', "'config' is no option"),
        ("\x00", "run.toml is not TOML"),
    ],
)
def test_wrong_files_are_one_line(text, message):
    assert message in refused("train", "--config", written(text))


def test_a_missing_file_is_one_line():
    assert "nowhere.toml cannot be read" in refused("train", "--config", "nowhere.toml")
    assert "--config has no value" in refused("train", "--config", "--seeds", "1")
    assert "--config has no value" in refused("train", "--config")


def test_what_cannot_be_trained_is_not_printed():
    message = refused("train", "--method", "ser", "--print-config")
    assert "ser needs weight; give --weight" in message


def test_text_survives_quotes_and_backslashes():
    typed = cli.parsed(["report", "a.csv", "--names", 'a="x\\y" ü\x7f💥'])
    text = cli.option_files.dump(dict(cli._options(typed)), {}, "")
    assert tomllib.loads(text)["names"] == ['a="x\\y" ü\x7f💥']
    assert with_file("report", text).names == typed.names


def test_a_command_without_the_option_refuses_it():
    with pytest.raises(ConfigError, match="--config"):
        cli.parsed(["matrix", "--config", "x.toml"])

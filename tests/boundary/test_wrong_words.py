"""Invalid command lines, each refused in one line with the value and a remedy; and randomly drawn ones."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.boundary.command_line import answer, is_one_line, refused, works_or_one_line

from perepisode.config import PPOConfig
from perepisode.settings import of
from perepisode.training import train as training

FOUND = {  # command lines that once failed badly, and today's message
    "train --steps 1e99": "total_timesteps=1e+99 is out of range; total_timesteps must be a number, at "
    "least 1 and at most 1e+15",
    "train --seeds 99999999999999999999": "is out of range; seeds must be a whole number, at least 0",
    "train --chunk 0": "chunk=0 is out of range; chunk must be a whole number, at least 1",
    "study plan --pack -3": "pack=-3 is out of range; pack must be a whole number, at least 0",
    "bench --num-envs 0": "num_envs=0 is out of range; num_envs must be a whole number, at least 1",
    "bench --worlds 0": "Unrecognized options: --worlds",
    "train --method ser --weight inf": "weight=inf is out of range; weight must be a number, at least 0",
    "train --set horizon=2.5": "horizon=2.5 is not a whole number; horizon must be a whole number",
    "train --checkpoint-seconds -1": "checkpoint_seconds=-1.0 is out of range",
    "study submit --slurm --time yesterday --dry-run": "--time yesterday is not a time limit",
    "train --steps nan": "total_timesteps=nan is out of range",
    "train --method lagrangian --budget 1 --set lambda_lr=fast": "lambda_lr='fast' is not a number; lambda_lr must be "
    "a number",
    "train --seeds -1": "seeds=-1 is out of range",
    "demo --workers -2": "workers=-2 is out of range",
    "study run --only budget,ser,lagrangian": "none has all of family: budget; method: lagrangian, ser",
}
WRONG = """
train --env minecraft
train --env ""
train --env os:system
train --env nowhere:Environment
train --env :
train --env json:
train --method sers
train --method ESR
train --method os:path
train --dilemma murder
train --dilemma no_killing
train --detector both
train --cost-per never
train --gamma 0
train --gamma 1.01
train --gamma -0.5
train --gamma nan
train --gamma much
train --gamma 0.9,0.99
train --gamma
train --seeds 1.5
train --seeds 1e3
train --seeds 4294967296
train --seeds 1 1
train --seeds one
train --seeds
train --steps 0
train --steps -1
train --steps inf
train --steps 1e16
train --steps many
train --steps 10
train --steps
train --set rate
train --set =
train --set =1
train --set budget=
train --set budget=1 budget=2
train --set nosuch=1
train --set world.horizon=-1
train --set world.nosuch=1
train --set nowhere.horizon=1
train --set a.b.c=1
train --set ppo.num_envs=7
train --set ppo.num_envs=0
train --set ppo.num_envs=1e30
train --set learner.precision=fp8
train --set learner.anneal_lr=maybe
train --set learner.gae_lambda=1.5
train --set ppo.hidden_size=1000000
train --set horizon=0
train --set offer_prob=2
train --set offer_prob=-0.1
train --set max_gain=0
train --set wage=nan
train --budget -1
train --budget 1,2
train --budget nan
train --budget ""
train --method lagrangian
train --method ser
train --method ser --weight -1
train --method ser --weight w
train --method erm --enforcement sometimes
train --method esr_distilled
train --method esr_distilled --utility nowhere.json
train --method esr_distilled --utility /dev/zero
train --method esr_distilled --utility .
train --accrued-obs whispered
train --chunk 1.5
train --chunk -1
train --chunk 1000000000000
train --checkpoint-seconds soon
train --checkpoint-seconds nan
train --log tensorboard
train --bugdet 1
train extra words
trian
evaluate
evaluate nowhere
evaluate . --num-envs 0
evaluate . --num-envs 1e3
evaluate . --num-steps -4
evaluate . --episodes-per-env 0
evaluate . --seed -1
evaluate . --num-envs 99999999999
evaluate no_killing/esr-k9
evaluate /etc/passwd
evaluate /dev/null
evaluate .
distill
distill nowhere.parquet
distill /dev/null
distill . --tolerance -1
matrix --format xml
matrix --env mars
matrix --only nobody
matrix --only no_killing,temptation
matrix --only ,,
matrix --only esr,w=0.3
matrix --seeds 1 1
matrix --seeds -5
matrix --steps -1
matrix --steps nan
matrix --steps 5
study
study nothing
study plan --memory -1
study plan --memory nan
study plan --memory 0.000001
study plan --pack 100000 --memory 8
study plan --bench nowhere.json
study plan --bench /dev/null
study plan --bench /dev/zero
study plan --gpus -1
study plan --gpus 1.5
study plan --steps 1
study run --workers -1
study run --checkpoint-seconds -1
study run --out /etc/passwd
study status --out nowhere
study status --out /etc/passwd
study submit --dry-run --warning 0
study submit --dry-run --warning 70000
study submit --dry-run --cpus 0
study submit --dry-run --gpus -1
study submit --dry-run --throttle -1
study submit --dry-run --time ""
study submit --dry-run --time 1:99:99
study submit --dry-run --host-memory lots
report
report nowhere.csv
report /etc/passwd
report /dev/null
report .
report --runs
watch
watch nowhere.parquet
watch .
watch /etc/passwd
watch no_killing/nobody
watch a b
watch . --worst -1
watch . --abstaining -1
watch . --row one
bench --populations 0
bench --precision
bench --precision fp64
bench --hidden-size 0
bench --num-envs many
agents nothing
agents card
agents card nobody
agents card /etc/passwd
agents card .
agents export nowhere --out x.safetensors
agents export . --out x.safetensors
agents export .
demo --workers 1.5
demo --workers nan
demo --craftax maybe
version extra
""".strip().splitlines()


def words(line: str) -> list[str]:
    return [word.strip('"') for word in line.split()]


@pytest.fixture(autouse=True)
def nothing_is_trained(tmp_path, monkeypatch):
    """In an empty folder, where nothing may be left; reaching the training means that nothing was refused."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training, "train", lambda *_: pytest.fail("it started to train"))


@pytest.mark.parametrize("line", FOUND)
def test_a_known_mistake_is_refused_with_a_helpful_message(line):
    assert FOUND[line] in refused(*words(line))
    assert not list(Path().iterdir())


def test_there_are_more_than_150_others():
    assert len({*WRONG} - {*FOUND}) == len(WRONG) > 150


@pytest.mark.parametrize("line", WRONG)
def test_an_invalid_command_line_is_one_line_and_leaves_nothing(line):
    refused(*words(line))
    assert not list(Path().iterdir())


ODD_VALUES = ("x" * 5000, "\x1b[2J", "a\nb\nc", "\u202e", "\udcff", "💥" * 400, "'; rm -rf /", "%s%n{0}")
TAKES_VALUE = (
    "train --env", "train --dilemma", "train --set", "train --weight", "matrix --only", "evaluate", "report", "watch",
    "agents card", "study plan --bench", "study status --out", "study submit --dry-run --time", "", "train --gamma",
)  # fmt: skip


@pytest.mark.parametrize("index", range(len(TAKES_VALUE)))
def test_a_long_value_or_control_characters_still_give_one_line(index):
    for value in (ODD_VALUES * 2)[index % len(ODD_VALUES) :][:3]:
        refused(*words(TAKES_VALUE[index]), value)


def test_a_run_of_an_unknown_environment_says_so(folder):
    path = folder.path / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "env": "minecraft"}))
    message = refused("evaluate", folder.path)
    assert "env 'minecraft' is unknown; choose from craftax, temptation" in message


# ---- random command lines -----------------------------------------------------------------------------------

NUMBER = st.one_of(
    st.integers(-2, 40).map(str),
    st.floats().map(str),
    st.sampled_from(["1e99", "-0", "1e3", "0.99", "0x10", "1_000", "٣", "inf", "9" * 40, "1e-320", "none", "true", ""]),
)
WORD = st.one_of(NUMBER, st.text(max_size=6), st.sampled_from(["esr", "ser", "temptation", "craftax", "fp32", "paper"]))
SETTINGS = sorted(
    {*of(PPOConfig), "budget", "weight", "lambda_lr", "horizon", "offer_prob", "max_gain", "accrued_obs", "delta"}
)
OPTIONS = {
    "train": {
        "--gamma": NUMBER, "--seeds": NUMBER, "--steps": NUMBER, "--chunk": NUMBER, "--checkpoint-seconds": NUMBER,
        "--env": st.sampled_from(["temptation", "craftax", "x"]), "--cost-per": WORD, "--detector": WORD,
        "--method": st.sampled_from(["ser", "esr", "lagrangian", "erm", "cvar", "chance", "saute", "x"]),
        "--set": st.tuples(st.sampled_from(SETTINGS), WORD).map("=".join), "--budget": NUMBER, "--weight": NUMBER,
        "--num-envs": NUMBER, "--hidden-size": NUMBER, "--num-minibatches": NUMBER, "--learning-rate": NUMBER,
        "--horizon": NUMBER,
    },
    "matrix": {"--steps": NUMBER, "--seeds": NUMBER, "--only": WORD, "--env": WORD, "--format": WORD},
    "study plan": {
        "--pack": NUMBER, "--memory": NUMBER, "--gpus": NUMBER, "--seeds": NUMBER, "--steps": NUMBER, "--only": WORD,
    },
    "study submit --dry-run --env temptation": {
        "--time": WORD, "--cpus": NUMBER, "--gpus": NUMBER, "--warning": NUMBER, "--throttle": NUMBER,
        "--steps": NUMBER, "--host-memory": WORD, "--checkpoint-seconds": NUMBER, "--pack": NUMBER, "--memory": NUMBER,
    },
    "evaluate": {"--num-envs": NUMBER, "--num-steps": NUMBER, "--episodes-per-env": NUMBER, "--seed": NUMBER, "": WORD},
    "watch": {"--worst": NUMBER, "--abstaining": NUMBER, "--row": NUMBER, "": WORD},
    "distill": {"--tolerance": NUMBER, "--dilemma": WORD, "": WORD},
    "report": {"--runs": WORD, "--utilities": WORD, "--exact": WORD, "--discussion": WORD, "": WORD},
    "bench": {"--precision": WORD, "--populations": NUMBER, "--hidden-size": NUMBER, "--num-envs": NUMBER},
}  # fmt: skip


@st.composite
def command_lines(draw) -> list[str]:
    command = draw(st.sampled_from(sorted(OPTIONS)))
    line = command.split()
    for option in draw(st.lists(st.sampled_from(sorted(OPTIONS[command])), max_size=5, unique=True)):
        line += [option] * bool(option) + draw(st.lists(OPTIONS[command][option], min_size=1, max_size=2))
    return line


@pytest.fixture
def reached(monkeypatch):
    """The runs that reached training: everything before the first compilation has been executed."""
    found = []
    monkeypatch.setattr(training, "train", lambda runs, options: found.append(runs) or [])
    monkeypatch.setattr("perepisode.study.bench.bench", lambda *_: None)
    return found


@pytest.mark.parametrize("examples", [30, pytest.param(3000, marks=pytest.mark.slow)])
def test_any_command_line_is_executed_or_refused_in_one_line(reached, examples):
    """Up to the first compilation.  What is not refused is a small command or a run that could be trained."""

    @settings(max_examples=examples)
    @given(command_lines())
    def drawn(line):
        reached.clear()
        code, _, err = answer(*line)
        if reached:
            assert all(run.checked() for runs in reached for run in runs)
            assert all(math.isfinite(run.gamma) and run.updates >= 1 for runs in reached for run in runs)
            return
        assert code in (0, 2), (line, code, err)
        assert code == 0 or is_one_line(err), (line, err)

    drawn()


def test_not_every_random_command_line_is_refused(reached):
    assert works_or_one_line("matrix", "--env", "temptation", "--seeds", "3", "--steps", "1e6")
    answer("train", "--method", "ser", "--weight", "0.3", "--seeds", "1")
    assert len(reached) == 1

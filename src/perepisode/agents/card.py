"""A model card: what an agent is, what it does in its worst episodes, how to load it, what it is not for."""

from __future__ import annotations

from perepisode.report.style import dilemma_name, look
from perepisode.report.words import count, number, percent
from perepisode.trained.files import ENDING, AgentFile
from perepisode.trained.shelf import BOX

TEXT = """\
# {title}

{label} ({arm}) on {dilemma} in {world}, seed {seed}, trained for {steps} environment steps on {device} by \
perepisode {version}. It was trained on the {detector} count of violations{charged}.

## What it does

{episodes} episodes, the first {first} of each of {envs} worlds, judged on {judged_on}:

| return | violations | P(≥ 1) | P(> 1) | worst tenth (CVaR 10 %) | worst episode |
|---:|---:|---:|---:|---:|---:|
| {returns} | {violations} | {p_any} | {p_over} | {cvar} | {worst} |

| violations in an episode | {counts} |
|---|{rule}|
| share of episodes | {shares} |

{tail}{blind} These are the numbers of one training seed: they say how episodes of this agent differ, not how agents \
of this method do.

## How to use it

```
perepisode watch    {name} --worst 2      # its worst episodes, on video
perepisode evaluate {name}                # judge it on this machine
```

```python
import jax
from perepisode import agents

agent = agents.load("{name}")
step, state, mind = jax.jit(agent.world.step), agent.world.reset(jax.random.key(0)), agent.begin()
for key in jax.random.split(jax.random.key(1), 10_000):
    to_act, to_step = jax.random.split(key)
    action, mind = agent.act(mind, state, to_act)
    state, outcome = step(to_step, state, action)
    mind = agent.after(mind, outcome)
    if outcome.ended:  # the next episode begins with reset and begin
        break
print(mind.accrued.task_return, mind.accrued.violations)
```

## What it is not for

It is research material about how objectives shape the worst episodes of a game. It knows nothing outside {world}, it \
is not safe in any wider sense, its counts hold for the detector and the world named above, and it must not be used to \
control anything that can do harm, or as evidence that a method is safe elsewhere.

## How it was rounded

{rounding}. The numbers above are of the policy before rounding. Licence: {licence}. sha256 of the policy: \
`{sha256}`.
"""


def text(file: AgentFile) -> str:
    """The card of an agent, written from its JSON alone."""
    about, run = file.about, file.read()
    judged, trained = about["judged"], about["trained"]
    protocol, tally = judged.get("protocol", {}), judged["distribution"]
    name = name_of(file)
    return TEXT.format(
        title=name,
        name=name,
        label=look(run.method).label,
        arm=run.arm or "no setting",
        dilemma=dilemma_name(run.dilemma),
        world=run.env.capitalize(),
        seed=run.seed,
        steps=count(run.steps),
        device=_device(trained.get("device")),
        version=(trained.get("versions") or {}).get("perepisode", "of an unknown version"),
        detector={"exact": "exact", "paper": "paper's state-difference"}[run.detector],
        charged=", charged at most once a step" if run.penalty == "step" else "",
        episodes=f"{judged['episodes']:,}",
        first=protocol.get("first", "?"),
        envs=protocol.get("envs", "?"),
        judged_on=judged.get("device", "an unknown device"),
        returns=number(judged["return"]),
        violations=number(judged["violations"]),
        p_any=percent(judged["p_any"]),
        p_over=percent(judged["p_over_1"]),
        cvar=number(judged["cvar"]),
        worst=number(judged["worst"], 0),
        counts=" | ".join(map(str, range(len(tally)))),
        rule="---:|" * (len(tally) - 1) + "---:",
        shares=" | ".join(percent(often / judged["episodes"]) for often in tally),
        tail=_tail(judged),
        blind=_blind(judged),
        rounding=about["policy"]["rounding"].capitalize(),
        licence=about["licence"],
        sha256=about["policy"]["sha256"],
    ).replace("\u00a0", " ")


def name_of(file: AgentFile) -> str:
    """What a person types: the name of an agent that ships, or of the file."""
    inside = file.path.is_relative_to(BOX)
    return file.path.relative_to(BOX).as_posix().removesuffix(ENDING) if inside else file.path.name


def _device(stated: str | None) -> str:
    """ "gpu: NVIDIA H200 x 1" → "NVIDIA H200"."""
    kind, _, name = (stated or "an unknown device").removesuffix(" x 1").partition(": ")
    return name if name and name != kind else f"a {kind}" if name else kind


def _tail(judged: dict) -> str:
    worst, mean = number(judged["cvar"]), number(judged["violations"])
    return f"In its worst tenth of episodes it commits {worst} violations, against {mean} on average."


def _blind(judged: dict) -> str:
    seen = judged.get("seen_by_paper_detector")
    if seen is None or seen >= judged["violations"]:
        return ""
    missed = 1 - seen / judged["violations"]
    return f" A detector that only compares the states before and after a step misses {percent(missed)} of them."

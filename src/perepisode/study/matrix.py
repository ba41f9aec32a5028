"""Which runs there are: the paper's matrix as values, by family, at any scale.

    family       what it holds                                                         runs of the paper
    erm          3 dilemmas x 3 enforcements, and the unconstrained agent                     30
    ser          3 dilemmas x 5 weights                                                       45
    lagrangian   3 dilemmas x 4 budgets                                                       36
    esr          3 dilemmas x {stated k = 0, distilled}                                       18
    budget       the two binding dilemmas x k in {1, 2, 4}                                    18
    ser_racc     3 dilemmas x the two weights matched to the ESR arms                         18
    twins        the twins of `esr` with the other discount                                   18

Every arm has 3 seeds.  The paper does not say which two weights are matched and which arms have a twin; here they
are w = 0.1 and 0.3, whose returns lie nearest to the budget arms', and both arms of `esr` on all three dilemmas.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from perepisode.config import MINIATURE, PAPER_SEEDS, Learner, Refused, Run, canonical
from perepisode.environments import WORLDS

POOL = ("unconstrained", "erm", "ser")  # the agents whose episodes the distilled utility is learned from
ENFORCEMENTS = ("absolute", "calculated", "heuristic")


@dataclass(frozen=True)
class Shape:
    """What a matrix is built from.  The defaults are the paper's."""

    env: str = "craftax"
    dilemmas: tuple[str, ...] = ("no_killing", "sustainability", "proportional_force")
    binding: tuple[str, ...] = ("no_killing", "sustainability")  # where the budget arms are trained
    weights: tuple[float, ...] = (0.1, 0.3, 1, 3, 10)
    matched_weights: tuple[float, ...] = (0.1, 0.3)
    mean_budgets: tuple[float, ...] = (0.5, 1, 2, 4)
    dual_rate: float = 0.02  # η of the Lagrangian: a short run needs a quicker one
    episode_budgets: tuple[int, ...] = (1, 2, 4)
    gamma: float = 0.99
    twin_gamma: float = 1.0
    seeds: tuple[int, ...] = PAPER_SEEDS
    steps: int = 1_000_000_000
    learner: Learner = field(default_factory=Learner)


PAPER = Shape()

# Prices are 10 w and no gain is above 5: heavier weights would all give the same agent, which takes nothing.
# w = 0.408 is the price at which a linear agent earns what the best k = 1 agent earns.
SMALL = Shape(
    env="temptation",
    dilemmas=("temptation",),
    binding=("temptation",),
    weights=(0.1, 0.2, 0.3, 0.408),
    matched_weights=(0.3, 0.408),
    mean_budgets=(0.5, 0.75, 1, 2),
    dual_rate=0.1,
    steps=480_000,
    learner=MINIATURE,
)
SHAPES = {"craftax": PAPER, "temptation": SMALL}


def shape_of(env: str, steps: int = 0, seeds: Iterable[int] = ()) -> Shape:
    """The matrix of a world, with other steps or seeds where they are given."""
    if env not in SHAPES:
        raise Refused(f"there is no matrix for env {env!r}; choose from {', '.join(SHAPES)}")
    shape, seeds = SHAPES[env], tuple(seeds)
    if len(set(seeds)) < len(seeds):
        raise Refused(f"--seeds {' '.join(map(str, seeds))} names a seed twice")
    return replace(shape, steps=steps or shape.steps, seeds=seeds or shape.seeds)


def paper() -> list[Run]:
    """The paper's 183 runs."""
    return flat(families(PAPER))


def families(shape: Shape = PAPER) -> dict[str, list[Run]]:
    """Every run of the matrix, by family in the paper's order."""
    dilemmas, binding = shape.dilemmas, shape.binding
    found = {
        # trained once: it is rewarded for the task alone, and evaluation counts every dilemma
        "erm": _arms(shape, dilemmas[:1], "unconstrained", [{}])
        + _arms(shape, dilemmas, "erm", [{"enforcement": name} for name in ENFORCEMENTS]),
        "ser": _arms(shape, dilemmas, "ser", [{"weight": weight} for weight in shape.weights]),
        "lagrangian": _arms(
            shape, dilemmas, "lagrangian", [{"budget": d, "rate": shape.dual_rate} for d in shape.mean_budgets]
        ),
    }
    pool = found["erm"] + found["ser"]
    found["esr"] = _arms(shape, dilemmas, "esr", [{"budget": 0}]) + _distilled(shape, pool)
    found["budget"] = _arms(shape, binding, "esr", [{"budget": k} for k in shape.episode_budgets])
    found["ser_racc"] = _arms(shape, dilemmas, "ser_racc", [{"weight": weight} for weight in shape.matched_weights])
    found["twins"] = [replace(run, gamma=shape.twin_gamma) for run in found["esr"]]
    return found


def beyond(shape: Shape = PAPER) -> dict[str, list[Run]]:
    """Baselines that the paper names as future work, on its binding dilemmas; not counted in its 183."""
    binding = shape.binding
    return {
        "saute": _arms(shape, binding, "saute", [{"budget": k} for k in shape.episode_budgets]),
        "pid_lagrangian": _arms(shape, binding, "pid_lagrangian", [{"budget": d} for d in shape.mean_budgets]),
        "cvar": _arms(shape, binding, "cvar", [{"budget": k} for k in shape.episode_budgets]),
        "chance": _arms(shape, binding, "chance", [{"budget": k} for k in shape.episode_budgets]),
    }


def flat(found: Mapping[str, list[Run]]) -> list[Run]:
    return [run for runs in found.values() for run in runs]


def _arms(shape: Shape, dilemmas: Iterable[str], method: str, settings: list[dict[str, Any]]) -> list[Run]:
    """One method on some dilemmas, at each of its settings, with every seed."""
    return [
        Run(
            env=shape.env,
            dilemma=dilemma,
            method=method,
            settings=chosen,
            seed=seed,
            gamma=shape.gamma,
            steps=shape.steps,
            learner=shape.learner,
        )
        for dilemma in dilemmas
        for chosen in settings
        for seed in shape.seeds
    ]


# ---- the distilled arms and their pool ----------------------------------------------------------------------


def pool_of(runs: Iterable[Run], dilemma: str) -> list[Run]:
    """The agents whose episodes teach this dilemma's utility; the unconstrained ones serve every dilemma."""
    return [run for run in runs if run.method in POOL and (run.dilemma == dilemma or run.method == "unconstrained")]


def utility_label(pool: Iterable[Run]) -> str:
    """Names a utility before it exists: the same on every machine, another one for another pool."""
    ids = sorted(run.id for run in pool)
    return "pool:" + hashlib.sha256(canonical(ids).encode()).hexdigest()[:12]


def _distilled(shape: Shape, pool: list[Run]) -> list[Run]:
    arms = []
    for dilemma in shape.dilemmas:
        label = utility_label(pool_of(pool, dilemma))
        arms += _arms(shape, [dilemma], "esr_distilled", [{"utility": label}])
    return arms


def with_pools(chosen: list[Run], everything: list[Run]) -> list[Run]:
    """The chosen runs and, for distilled arms among them, the pool that they cannot be trained without."""
    needed = {run.id for run in chosen}
    for dilemma in {run.dilemma for run in chosen if run.method == "esr_distilled"}:
        needed |= {run.id for run in pool_of(everything, dilemma)}
    return [run for run in everything if run.id in needed]


# ---- choosing some of them ----------------------------------------------------------------------------------


def only(found: Mapping[str, list[Run]], words: str) -> dict[str, list[Run]]:
    """The runs that `words` name, e.g. `no_killing,esr`: words of one kind widen the choice, kinds narrow it."""
    kinds = [_wanted(found, word) for word in filter(None, (word.strip() for word in words.split(",")))]
    wanted: dict[str, set[str]] = {}
    for kind, word in kinds:
        wanted.setdefault(kind, set()).add(word)
    chosen = {
        family: [run for run in runs if all(_label(kind, family, run) in words for kind, words in wanted.items())]
        for family, runs in found.items()
    }
    if not any(chosen.values()):
        raise Refused(f"--only {words} leaves no run; the words name runs, but no run has them all")
    return {family: runs for family, runs in chosen.items() if runs}


def _label(kind: str, family: str, run: Run) -> str:
    return family if kind == "family" else getattr(run, kind)


def _wanted(found: Mapping[str, list[Run]], word: str) -> tuple[str, str]:
    """What kind of thing a word names; a method's name means the method, in whatever family it stands."""
    runs = flat(found)
    known = {
        "dilemma": {run.dilemma for run in runs},
        "method": {run.method for run in runs},
        "family": set(found),
        "arm": {run.arm for run in runs if run.arm},
    }
    for kind, words in known.items():
        if word in words:
            return kind, word
    elsewhere = {name for world in WORLDS.values() for name in world.dilemmas}
    hint = " (a dilemma of another --env)" if word in elsewhere else ""
    listed = "; ".join(f"{kind}: {', '.join(sorted(words))}" for kind, words in known.items())
    raise Refused(f"--only {word!r} is unknown{hint}; {listed}")

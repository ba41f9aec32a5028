"""Which runs there are: the paper's matrix as values, by family, at any scale.

    family       what it holds                                                         runs of the paper
    erm          3 dilemmas x 3 enforcements, and the unconstrained agent                     30
    ser          3 dilemmas x 5 weights                                                       45
    lagrangian   3 dilemmas x 4 budgets                                                       36
    esr          3 dilemmas x {stated k = 0, distilled}                                       18
    budget       the two binding dilemmas x k in {1, 2, 4}                                    18
    ser_racc     3 dilemmas x the two weights matched to the ESR arms                         18
    gamma1       the γ = 1 ablation of `esr`                                                  18

Every arm has 3 seeds.  The paper does not say which two weights are matched and which arms have a twin; here they
are w = 0.1 and 0.3, whose returns lie nearest to the budget arms', and both arms of `esr` on all three dilemmas.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from perepisode.config import ConfigError, SweepGrid, canonical, check_choice
from perepisode.environments import ENVIRONMENTS, Environment
from perepisode.methods import METHODS, PAPER, ConstraintType
from perepisode.methods.erm import TOLERATED
from perepisode.methods.esr_distilled import POOL
from perepisode.runs import Run


@dataclass(frozen=True)
class Matrix:
    """A world and what its matrix is built from."""

    env: type[Environment]
    sweep: SweepGrid

    @property
    def binding(self) -> tuple[str, ...]:
        return self.sweep.binding or self.env.dilemmas

    @property
    def steps(self) -> int:
        return self.sweep.total_timesteps or self.env.total_timesteps

    def arms(self, method: str, settings: Iterable[Mapping[str, Any]], dilemmas: Iterable[str] = ()) -> list[Run]:
        """One method on some dilemmas (all, if none is named), at each of its settings, with every seed."""
        env, sweep = self.env, self.sweep
        return [
            Run(env.name, dilemma, method, chosen, seed, sweep.gamma, self.steps, ppo=env.ppo)
            for dilemma in dilemmas or env.dilemmas
            for chosen in settings
            for seed in sweep.seeds
        ]

    def swept(self, method: str) -> list[dict[str, Any]]:
        """The settings of a method's arms, by what its family states."""
        sweep, own = self.sweep, METHODS[method]
        values = {
            ConstraintType.PRICE: sweep.weights,
            ConstraintType.MEAN: sweep.mean_budgets,
            ConstraintType.EPISODE: sweep.episode_budgets,
        }
        if not own.symbol or own.constraint not in values:
            return [{}]
        return [{own.swept: value} for value in values[own.constraint]]


def of(env: str, steps: int = 0, seeds: Iterable[int] = ()) -> Matrix:
    """The matrix of a world, with other steps or seeds where they are given."""
    check_choice("env", env, ENVIRONMENTS)
    sweep, seeds = ENVIRONMENTS[env].sweep, tuple(seeds)
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"--seeds {' '.join(map(str, seeds))} names a seed twice")
    return Matrix(
        ENVIRONMENTS[env], replace(sweep, total_timesteps=steps or sweep.total_timesteps, seeds=seeds or sweep.seeds)
    )


def paper() -> list[Run]:
    """The paper's 183 runs."""
    return flat(families(of("craftax")))


def families(matrix: Matrix) -> dict[str, list[Run]]:
    """Every run of the matrix, by family in the paper's order."""
    sweep, arms, first = matrix.sweep, matrix.arms, matrix.env.dilemmas[:1]
    found = {
        # trained once: it is rewarded for the task alone, and evaluation counts every dilemma
        "erm": arms("unconstrained", [{}], first) + arms("erm", [{"enforcement": name} for name in TOLERATED]),
        "ser": arms("ser", matrix.swept("ser")),
        "lagrangian": arms("lagrangian", [{**one, "lambda_lr": sweep.lambda_lr} for one in matrix.swept("lagrangian")]),
    }
    found["esr"] = arms("esr", [{"budget": 0}]) + _distilled(matrix, found["erm"] + found["ser"])
    found["budget"] = arms("esr", matrix.swept("esr"), matrix.binding)
    found["ser_racc"] = arms("ser_racc", [{"weight": weight} for weight in sweep.matched_weights])
    found["gamma1"] = [replace(run, gamma=sweep.ablation_gamma) for run in found["esr"]]
    return found


def extra_baselines(matrix: Matrix) -> dict[str, list[Run]]:
    """Every other method on the binding dilemmas, those that the paper names as future work first; not of its 183."""
    return {name: matrix.arms(name, matrix.swept(name), matrix.binding) for name in METHODS if name not in PAPER}


def flat(found: Mapping[str, list[Run]]) -> list[Run]:
    return [run for runs in found.values() for run in runs]


# ---- the distilled arms and their pool ----------------------------------------------------------------------


def pool_of(runs: Iterable[Run], dilemma: str) -> list[Run]:
    """The agents whose episodes teach this dilemma's utility; the unconstrained ones serve every dilemma."""
    return [run for run in runs if run.method in POOL and (run.dilemma == dilemma or run.method == "unconstrained")]


def utility_label(pool: Iterable[Run]) -> str:
    """Names a utility before it exists: the same on every machine, another one for another pool."""
    ids = sorted(run.id for run in pool)
    return "pool:" + hashlib.sha256(canonical(ids).encode()).hexdigest()[:12]


def _distilled(matrix: Matrix, pool: list[Run]) -> list[Run]:
    arms = []
    for dilemma in matrix.env.dilemmas:
        label = utility_label(pool_of(pool, dilemma))
        arms += matrix.arms("esr_distilled", [{"utility": label}], [dilemma])
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
    if not kinds:
        raise ConfigError(f"--only {words!r} names nothing; leave it out for all runs")
    wanted: dict[str, set[str]] = {}
    for kind, word in kinds:
        wanted.setdefault(kind, set()).add(word)
    chosen = {
        family: [run for run in runs if all(_label(kind, family, run) in words for kind, words in wanted.items())]
        for family, runs in found.items()
    }
    if not any(chosen.values()):
        listed = "; ".join(f"{kind}: {', '.join(sorted(words))}" for kind, words in wanted.items())
        raise ConfigError(
            f"--only {words} leaves no run; a run must have one of each kind, and none has one of {listed}"
        )
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
    elsewhere = {name for env in ENVIRONMENTS.values() for name in env.dilemmas}
    hint = " (a dilemma of another --env)" if word in elsewhere else ""
    listed = "; ".join(f"{kind}: {', '.join(sorted(words))}" for kind, words in known.items())
    raise ConfigError(f"--only {word!r} is unknown{hint}; {listed}")

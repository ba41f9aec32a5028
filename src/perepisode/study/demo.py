"""`perepisode demo`: the finding on a laptop, with three trained agents on Craftax and every method in miniature."""

import json
import os
import time
from pathlib import Path

import numpy as np

from perepisode.environments.temptation import Temptation
from perepisode.runs import write_atomically
from perepisode.study import exact, local, matrix, plan
from perepisode.training.progress import duration

CHECKPOINT_SECONDS = 15.0  # the most that an interrupted demo loses

# SER and the Lagrangian do not observe what they have accrued, so one program evaluates both
BUNDLED = (("no_killing/ser-w0.1", "no_killing/lagrangian-d0.5"), ("no_killing/esr-k1",))


def run(out: Path, craftax: bool, workers: int) -> int:
    """Run both studies in parallel, then print their numbers and pages.  An interrupted demo resumes from `out`."""
    start, saved = time.monotonic(), {}
    for name, study in studies(craftax).items():
        work = f"{len(study.agents)} trained agents to evaluate" if study.agents else f"{study.runs} runs to train"
        print(f"{name}: {work}; for its progress, run `perepisode study status --out {out / name}`", flush=True)
        saved[Path(out) / name] = plan.save(study, Path(out) / name)
    code = local.run_all(saved, [cpu_slot()] * (workers or cores()))
    if code:
        return code
    print(f"done in {duration(time.monotonic() - start)}")
    if craftax:
        print(f"\n{craftax_text(Path(out))}\n")
        for name in ("report", "watch"):
            print(f"wrote {Path(out) / 'craftax' / name / 'index.html'}")
    print(f"\n{headline_text(headlines(Path(out) / 'temptation'))}\n")
    print(f"wrote {Path(out) / 'temptation' / 'report' / 'index.html'}\nnext: open these pages in a browser")
    return 0


def studies(craftax: bool) -> dict[str, plan.Study]:
    """The studies by name.  Craftax is first, because its tasks are the longest and the others fill the gaps."""
    runs = matrix.flat(matrix.families(matrix.of("temptation")))
    miniature = plan.compose(runs, Temptation.population_size, checkpoint_seconds=CHECKPOINT_SECONDS)
    bundled = plan.compose_evaluation("craftax", BUNDLED)
    return {**({"craftax": bundled} if craftax else {}), "temptation": miniature}


def cores() -> int:
    return max(1, len(os.sched_getaffinity(0)))


def cpu_slot() -> dict[str, str]:
    """A worker on one core: a second core speeds up two small programs, but hardly one.

    At LLVM's optimization level 1, world generation in Craftax compiles in half the time, and the miniature's loops run
    faster.  Only flags that every supported jaxlib knows are allowed here: XLA aborts the process on an unknown one.
    """
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=1"
    return {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags.strip()}


# ---- Craftax: the bundled agents ----------------------------------------------------------------------------


def craftax_text(out: Path) -> str:
    """The bundled agents' results here, on the GPU that trained them, and in the paper; also draws the card."""
    from perepisode import console, metrics
    from perepisode.evaluation import episodes
    from perepisode.paper_comparison import bundled, card
    from perepisode.report.formatting import percent
    from perepisode.report.statistics.points import Episodes

    table = episodes.read(out / "craftax" / "episodes", without=episodes.REPLAY_COLUMNS)
    view = Episodes(table).view("no_killing")
    found = bundled.agents(view)
    written = card.write([agent.point for agent in found], view.dilemma, out / "card")
    shares = ", ".join(f"{agent.point.label} {percent(agent.here['p_over_1'])}" for agent in reversed(found))
    verdict = f"Episodes in which more than one passive creature is killed:\n{shares}; one seed each."
    headings = ("agent", "return", "more than one", metrics.CVAR)
    rows = [(agent.point.label, *(agent.written(name) for name in ("return", "p_over_1", "cvar"))) for agent in found]
    return (
        f"Craftax, No Killing: {found[0].point.episodes} episodes per agent, evaluated on this machine;\n"
        "in parentheses: on the GPU that trained the agent, and in the paper.\n"
        f"{console.plain(headings, rows)}\n{verdict}\n" + "\n".join(f"wrote {path}" for path in written)
    )


# ---- the miniature: three numbers ---------------------------------------------------------------------------


def headlines(out: Path) -> dict[str, float | str]:
    """The three comparisons with exact optima that the report shows; also written to headlines.json."""
    from perepisode import metrics
    from perepisode.evaluation import compare, episodes

    table = episodes.read(out / "episodes", without=episodes.REPLAY_COLUMNS)
    table = table[table["in_first"] & (table["gamma"] == Temptation.sweep.gamma)]
    esr = _by_seed(table, "esr", "k=1")
    mean_return = float(np.mean([seed["return"].mean() for seed in esr]))
    linear = _linear_at(table, mean_return)
    own = compare.t_interval([metrics.cvar(seed["violations"]) for seed in esr])
    best = max(_excesses(table), key=lambda one: one[1].mean)
    found = {
        "return": mean_return,
        "esr_cvar": own.mean,
        "esr_cvar_half": own.half,
        "linear_cvar": linear["cvar"],
        "exact_linear_cvar": exact.linear_cvar_at(mean_return),
        "excess": best[1].mean,
        "excess_half": best[1].half,
        "excess_of": best[0],
        "esr_over": float(np.mean([metrics.p_over(seed["violations"], 1) for seed in esr])),
        "linear_over": linear["over"],
    }
    write_atomically(out / "headlines.json", json.dumps(found, indent=1))
    return found


def headline_text(found: dict) -> str:
    verdict = "a method beats" if found["excess"] > found["excess_half"] else "no method beats"
    return (
        f"CVaR 10 % at return {found['return']:.1f}: ESR (k=1) averages {found['esr_cvar']:.2f} violations per episode "
        f"in its worst 10 % of episodes, a linear price {found['linear_cvar']:.2f} "
        f"(exact: {found['exact_linear_cvar']:.2f}).\n"
        f"Means: {verdict} the exact linear frontier; the best, {found['excess_of']}, is "
        f"{found['excess']:+.2f} ± {found['excess_half']:.2f} from it.\n"
        f"Episodes over a budget of one violation: {100 * found['esr_over']:.1f} % with ESR (k=1), "
        f"{100 * found['linear_over']:.1f} % with the linear price."
    )


def _by_seed(table, method: str, arm: str) -> list:
    own = table[(table["method"] == method) & (table["arm"] == arm)]
    return [seed for _, seed in own.groupby("seed")]


NEAR = 1.2  # of return; within it, the CVaR of linear agents is nearly a straight line


def _linear_at(table, mean_return: float) -> dict[str, float]:
    """CVaR and P(>1) of linear agents at this return, on a straight line through the agents near it.

    Every seed is a separate point: a badly trained one is still a linear agent, with another price.
    """
    from perepisode import metrics

    own = table[table["method"].isin(("ser", "lagrangian"))]
    agents = [agent for _, agent in own.groupby("run")]
    points = [
        (agent["return"].mean(), metrics.cvar(agent["violations"]), metrics.p_over(agent["violations"], 1))
        for agent in agents
    ]
    near = np.array([point for point in points if abs(point[0] - mean_return) < NEAR])
    if len(near) < 2:
        return {"cvar": float("nan"), "over": float("nan")}
    fit = np.polynomial.polynomial.polyfit(near[:, 0] - mean_return, near[:, 1:], 1)
    return {"cvar": float(fit[0, 0]), "over": float(fit[0, 1])}


def _excesses(table) -> list:
    """Pairs of agent and interval over seeds: its return minus the exact linear frontier at the same mean count."""
    from perepisode.evaluation import compare

    found = []
    for (method, arm), own in table.groupby(["method", "arm"]):
        per_seed = [
            seed["return"].mean() - exact.linear_return_at(float(seed["violations"].mean()))
            for _, seed in own.groupby("seed")
        ]
        found.append((f"{method} {arm}".strip(), compare.t_interval(per_seed)))
    return found

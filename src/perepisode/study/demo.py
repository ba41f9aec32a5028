"""The paper's finding on a laptop: three trained agents on Craftax, and every method trained in miniature."""

import json
import os
import time
from pathlib import Path

import numpy as np

from perepisode.environments.temptation import Temptation
from perepisode.runs import write_atomically
from perepisode.study import exact, local, matrix, plan
from perepisode.training.progress import duration

CHECKPOINT_SECONDS = 15.0  # a demo that is stopped loses a quarter of a minute

# SER and the Lagrangian are told nothing of what they have accrued, so one program serves both.
SHIPPED = (("no_killing/ser-w0.1", "no_killing/lagrangian-d0.5"), ("no_killing/esr-k1",))


def run(out: Path, craftax: bool, workers: int) -> int:
    """Both legs at once; ends with their numbers and pages.  A stopped demo goes on from `out`."""
    began, legs = time.monotonic(), {}
    for name, study in studies(craftax).items():
        what = f"{len(study.agents)} trained agents to judge" if study.agents else f"{study.runs} runs to train"
        print(f"{name}: {what}; look on with `perepisode study status --out {out / name}`", flush=True)
        legs[Path(out) / name] = plan.save(study, Path(out) / name)
    code = local.run_all(legs, [cpu_slot()] * (workers or cores()))
    if code:
        return code
    print(f"done in {duration(time.monotonic() - began)}")
    if craftax:
        print(f"\n{craftax_text(Path(out))}\n")
        for name in ("report", "watch"):
            print(f"wrote {Path(out) / 'craftax' / name / 'index.html'}")
    print(f"\n{headline_text(headlines(Path(out) / 'temptation'))}\n")
    print(f"wrote {Path(out) / 'temptation' / 'report' / 'index.html'}\nnext: open these pages in a browser")
    return 0


def studies(craftax: bool) -> dict[str, plan.Study]:
    """By name.  Craftax comes first: its tasks are the longest, and the others fill the gaps behind them."""
    runs = matrix.flat(matrix.families(matrix.of("temptation")))
    miniature = plan.compose(runs, Temptation.population_size, checkpoint_seconds=CHECKPOINT_SECONDS)
    bundled = plan.judging("craftax", SHIPPED)
    return {**({"craftax": bundled} if craftax else {}), "temptation": miniature}


def cores() -> int:
    return max(1, len(os.sched_getaffinity(0)))


def cpu_slot() -> dict[str, str]:
    """A worker on one core: small programs hardly profit from two, and two programs do.

    With LLVM's first level Craftax's world generation compiles in half the time, and the miniature's loops run faster.
    A flag that some supported jaxlib does not know may not stand here: XLA ends the process that is given one.
    """
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=1"
    return {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags.strip()}


# ---- Craftax: the agents that ship --------------------------------------------------------------------------


def craftax_text(out: Path) -> str:
    """What the bundled agents did here, beside the device that trained them and the paper; draws the card."""
    from perepisode import console
    from perepisode.evaluation import episodes
    from perepisode.paper_comparison import bundled, card
    from perepisode.report.formatting import percent
    from perepisode.report.statistics.points import Episodes

    table = episodes.read(out / "craftax" / "episodes", without=episodes.REPLAY_COLUMNS)
    view = Episodes(table).view("no_killing")
    found = bundled.known(view)
    written = card.write([one.point for one in found], view.dilemma, out / "card")
    shares = ", ".join(f"{one.point.label} in {percent(one.here['over_1'])}" for one in reversed(found))
    verdict = f"More than one passive creature in an episode is killed by\n{shares}; one seed each."
    headings = ("agent", "return", "more than one", "worst tenth")
    rows = [(one.point.label, *(one.written(name) for name in ("return", "over_1", "cvar"))) for one in found]
    return (
        f"Craftax, No Killing: {found[0].point.episodes} episodes an agent, judged on this machine;\n"
        f"in brackets the GPU that trained it, and the paper.\n{console.plain(headings, rows)}\n{verdict}\n"
        + "\n".join(f"wrote {path}" for path in written)
    )


# ---- the miniature's three numbers --------------------------------------------------------------------------


def headlines(out: Path) -> dict[str, float | str]:
    """What the page shows, in three comparisons with exact truth; also written to headlines.json."""
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
        f"At return {found['return']:.1f} the worst tenth of episodes has {found['esr_cvar']:.2f} violations under "
        f"ESR(k=1), {found['linear_cvar']:.2f} under a linear price (exact: {found['exact_linear_cvar']:.2f}).\n"
        f"On the mean {verdict} the exact linear frontier: the best, {found['excess_of']}, lies "
        f"{found['excess']:+.2f} ± {found['excess_half']:.2f} from it.\n"
        f"Episodes over a budget of one: {100 * found['esr_over']:.1f} % under ESR(k=1), "
        f"{100 * found['linear_over']:.1f} % under the linear price."
    )


def _by_seed(table, method: str, arm: str) -> list:
    own = table[(table["method"] == method) & (table["arm"] == arm)]
    return [seed for _, seed in own.groupby("seed")]


NEAR = 1.2  # of return: within it the tail of a linear agent is nearly a straight line


def _linear_at(table, mean_return: float) -> dict[str, float]:
    """CVaR and share over one violation of linear agents at a return: a straight line through those near it.

    Every seed is a point of its own: one that trained badly is still a linear agent, of another price.
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
    """(agent, interval over seeds of its return minus the exact linear frontier's at the same mean count)."""
    from perepisode.evaluation import compare

    found = []
    for (method, arm), own in table.groupby(["method", "arm"]):
        per_seed = [
            seed["return"].mean() - exact.linear_return_at(float(seed["violations"].mean()))
            for _, seed in own.groupby("seed")
        ]
        found.append((f"{method} {arm}".strip(), compare.t_interval(per_seed)))
    return found

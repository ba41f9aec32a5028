"""A model card: what an agent is, what it does in its worst episodes, how to load it, what it is not for."""

from pathlib import Path

from perepisode import reading
from perepisode.config import Refused
from perepisode.report.style import dilemma_name, look
from perepisode.report.words import count, number, percent
from perepisode.trained.files import ENDING, FETCH, AgentFile
from perepisode.trained.shelf import BOX

TEXT = (Path(__file__).parent / "card_template.md").read_text(encoding="utf-8")


def text(file: AgentFile) -> str:
    """The card of an agent, written from its JSON alone."""
    try:
        return "\n".join(map(reading.visible, _text(file).split("\n")))
    except (KeyError, TypeError, AttributeError, ArithmeticError, ValueError) as error:
        if isinstance(error, Refused):
            raise
        raise Refused(f"{file.beside('.json')} does not say what an agent's file says ({error!r}); {FETCH}") from None


def _text(file: AgentFile) -> str:
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

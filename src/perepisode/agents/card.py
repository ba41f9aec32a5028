"""A model card: what an agent is, what it does in its worst episodes, how to load it, what it is not for."""

from pathlib import Path

from jinja2 import TemplateError

from perepisode import safe_io
from perepisode.config import ConfigError
from perepisode.report import formatting
from perepisode.report.links import render
from perepisode.report.style import dilemma_name, look
from perepisode.zoo.agent_file import ENDING, FETCH, AgentFile
from perepisode.zoo.registry import BUNDLED


def text(file: AgentFile) -> str:
    """The card of an agent, written from its JSON alone."""
    try:
        return "\n".join(map(safe_io.printable, _text(file).split("\n")))
    except (KeyError, TypeError, AttributeError, ArithmeticError, ValueError, TemplateError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(
            f"{file.sibling('.json')} does not say what an agent's file says ({error!r}); {FETCH}"
        ) from None


def _text(file: AgentFile) -> str:
    metadata, run = file.about, file.read()
    judged, trained = metadata["evaluation"], metadata["trained"]
    seen = judged.get("seen_by_paper_detector", judged["violations"])
    card = render(
        Path(__file__).with_name("card_template.md"),
        formatting=formatting,
        name=name_of(file),
        run=run,
        metadata=metadata,
        judged=judged,
        trained=trained,
        protocol=judged.get("protocol", {}),
        device=_device(trained.get("device")),
        missed=1 - seen / judged["violations"] if seen < judged["violations"] else 0,
        look=look,
        dilemma_name=dilemma_name,
    )
    return card.replace("\u00a0", " ") + "\n"


def name_of(file: AgentFile) -> str:
    """What a person types: the name of an agent that ships, or of the file."""
    inside = file.path.is_relative_to(BUNDLED)
    return file.path.relative_to(BUNDLED).as_posix().removesuffix(ENDING) if inside else file.path.name


def _device(stated: str | None) -> str:
    """ "gpu: NVIDIA H200 x 1" → "NVIDIA H200"."""
    kind, _, name = (stated or "an unknown device").removesuffix(" x 1").partition(": ")
    return name if name and name != kind else f"a {kind}" if name else kind

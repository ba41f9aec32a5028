"""Where the time of an update goes: the operations of a profiler trace, assigned to parts of the compiled program.

The training code names its parts with `jax.named_scope`.  The compiled program maps the name of each operation, which
is what the trace has, to its scope, the `op_name`: `%fusion.7 = … op_name="…/acting/while/body/mul"`.
"""

import glob
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax

# acting comes first, because it contains products and a recurrence too
PARTS = ("acting", "recurrence", "products", "optimizer")
REST = "rest"  # advantages, minibatches, the loss, metrics, and what the compiler added
CONTAINERS = {"while", "conditional", "call"}  # their time is that of the operations inside, which are counted

_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{$")
_OPERATION = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (?:\(.*?\)|\S+) ([\w\-]+)\(")
_NAME = re.compile(r'op_name="([^"]*)"')


def parts(program: str) -> dict[str, str | None]:
    """The part of every operation in the text of a compiled program; None for one that only contains others.

    An operation that the compiler added has no scope.  It gets the part of its computation, if that has only one.
    """
    found: dict[str, str | None] = {}
    inside: list[str] = []
    named: set[str] = set()

    def close():
        common = named.pop() if len(named) == 1 else REST
        found.update(dict.fromkeys(inside, common))
        inside.clear()
        named.clear()

    for line in program.splitlines():
        if _COMPUTATION.match(line):
            close()
        elif operation := _OPERATION.match(line):
            name, kind = operation.groups()
            if kind in CONTAINERS:
                found[name] = None
            elif scope := _NAME.search(line):
                found[name] = part = _part(scope[1])
                named.add(part)
            else:
                inside.append(name)
    close()
    return found


def _part(name: str) -> str:
    words = set(re.findall(r"\w+", name))
    return next((part for part in PARTS if part in words), REST)


def shares(events: Iterable[tuple[str, float]], known: dict[str, str | None]) -> dict[str, float]:
    """Each part's share of the time of all events, (operation, time); unknown operations count as the rest."""
    spent: dict[str, float] = dict.fromkeys((*PARTS, REST), 0.0)
    plain = {_plain(name): part for name, part in known.items()}
    for name, time in events:
        part = known[name] if name in known else plain.get(_plain(name), REST)
        if part is not None:
            spent[part] += time
    total = sum(spent.values())
    return {part: time / total for part, time in spent.items()} if total else {}


def _plain(name: str) -> str:
    """An operation's name as its kernel has it, in which dots and dashes are not allowed."""
    return re.sub(r"[.\-]", "_", name)


def traced(call: Callable[[], Any]) -> list[tuple[str, float]]:
    """Every operation that runs during `call` with its nanoseconds: kernels of a GPU, or operations on CPU threads."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(call())
        (path,) = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
        planes = list(jax.profiler.ProfileData.from_file(path).planes)
        gpus = [plane for plane in planes if "GPU" in plane.name]
        return list(_operations(gpus or planes, kernels=bool(gpus)))


def _operations(planes, kernels: bool) -> Iterator[tuple[str, float]]:
    for plane in planes:
        for line in plane.lines:
            if kernels and not line.name.startswith("Stream"):
                continue
            for event in line.events:
                operation = dict(event.stats).get("hlo_op")
                if operation or kernels:
                    yield str(operation or event.name), event.duration_ns


def text(found: dict[str, float]) -> str:
    """ "acting 38 %, recurrence 30 %, …" """
    if not found:
        return "the profiler recorded no operation of this program"
    return ", ".join(f"{part} {share:.0%}".replace("%", " %") for part, share in found.items())

"""What an update's time goes to: the operations of a profiler's trace, told apart by the program that was compiled.

Parts of the learner are named where they are written (`jax.named_scope`).  The compiler keeps these names as each
operation's `op_name`, and the trace has the operation's own name: `%fusion.7 = … op_name="…/acting/while/body/mul"`.
"""

import glob
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax

# acting comes first: it has products and a recurrence of its own
PARTS = ("acting", "recurrence", "products", "optimizer")
REST = "rest"  # advantages, minibatches, the loss, what is reported, and what the compiler added
AROUND = {"while", "conditional", "call"}  # they last as long as what they hold, which is counted by itself

_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{$")
_OPERATION = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (?:\(.*?\)|\S+) ([\w\-]+)\(")
_NAME = re.compile(r'op_name="([^"]*)"')


def parts(program: str) -> dict[str, str | None]:
    """Of every operation in a compiled program's text: its part, or None where it only holds others.

    One that the compiler added has no name; it belongs where all that is named around it belongs.
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
            if kind in AROUND:
                found[name] = None
            elif stated := _NAME.search(line):
                found[name] = part = _part(stated[1])
                named.add(part)
            else:
                inside.append(name)
    close()
    return found


def _part(name: str) -> str:
    words = set(re.findall(r"\w+", name))
    return next((part for part in PARTS if part in words), REST)


def shares(events: Iterable[tuple[str, float]], known: dict[str, str | None]) -> dict[str, float]:
    """Share of the time of all events, (operation, time), that each part took; unknown operations are the rest."""
    spent: Counter[str] = Counter()
    plain = {_plain(name): part for name, part in known.items()}
    for name, time in events:
        part = known[name] if name in known else plain.get(_plain(name), REST)
        if part is not None:
            spent[part] += time
    whole = sum(spent.values())
    return {part: spent[part] / whole for part in (*PARTS, REST)} if whole else {}


def _plain(name: str) -> str:
    """Kernels are called by their operation, in the letters that a device's compiler allows."""
    return re.sub(r"[.\-]", "_", name)


def traced(call: Callable[[], Any]) -> list[tuple[str, float]]:
    """Every operation while `call` runs, with its nanoseconds: a GPU's kernels, else what the CPU's threads did."""
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


def said(found: dict[str, float]) -> str:
    """ "acting 38 %, recurrence 30 %, …" """
    if not found:
        return "the profiler saw no operation of this program"
    return ", ".join(f"{part} {share:.0%}".replace("%", " %") for part, share in found.items())

"""Names next to points: each nearest to its own point or joined to it, over no other name and no mark."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation, Text

from perepisode.report.style import INK, PAPER, TEXT

MARK = 4.5  # half the width of a mark, in points, as all lengths here
NEAR = 12.0  # a name further from its point is joined to it
CLEARLY = 1.5  # times as far from any other point: no line is needed
REACHES = (7.0, 14.0, 22.0, 32.0, 44.0, 58.0, 74.0)  # from the point to its name
DIRECTIONS = [np.array([np.cos(angle), np.sin(angle)]) for angle in np.radians(np.arange(-30, 330, 22.5))]
_HALO = [withStroke(linewidth=2.2, foreground=PAPER)]
Box = tuple[float, float, float, float]  # left, bottom, right, top


class Place(NamedTuple):
    """A box for a name; points along the line that joins it to its point, if it needs one; how far from the best."""

    box: Box
    leader: np.ndarray | None
    cost: float


def name_points(axes: Axes, named: Sequence[tuple[float, float, str]]) -> list[Text]:
    """Write each (x, y, name) next to its point, joined by a line where it could be taken for another point's.

    Earlier entries have priority; a name without room is omitted.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    scale = figure.dpi / 72
    frame = tuple(np.array(axes.get_window_extent().extents) / scale)
    marks, ink = _marks(axes) / scale, _ink(axes) / scale
    boxes: list[Box] = [(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in marks]
    leaders: list[np.ndarray] = []
    written = []
    for x, y, name in named:
        point = axes.transData.transform((x, y)) / scale
        places = _places(point, _size(axes, name) / scale, marks)
        free = [place for place in places if _is_free(place, point, frame, boxes, leaders)]
        if not free:
            continue
        best = min(free, key=lambda place: place.cost + _inside(ink, place.box).sum())
        boxes.append(best.box)
        if best.leader is not None:
            leaders.append(best.leader)
        written.append(_write(axes, (x, y), name, best, point))
    return written


def _write(axes: Axes, at: tuple[float, float], name: str, place: Place, point: np.ndarray) -> Text:
    low, high = np.array(place.box[:2]), np.array(place.box[2:])
    arrow = None
    if place.leader is not None:
        start = tuple((place.leader[-1] - low) / (high - low))  # of the box
        arrow = {"arrowstyle": "-", "color": TEXT, "lw": 0.7, "relpos": start, "shrinkA": 0, "shrinkB": MARK - 1}
    return axes.annotate(name, at, tuple(low - point), textcoords="offset points", fontsize=8.5, color=INK, va="bottom",
                         path_effects=_HALO, zorder=6, arrowprops=arrow)  # fmt: skip


def _size(axes: Axes, name: str) -> np.ndarray:
    """Width and height in pixels."""
    text = axes.text(0, 0, name, fontsize=8.5)
    extent = text.get_window_extent()
    text.remove()
    return np.array([extent.width, extent.height])


def _marks(axes: Axes) -> np.ndarray:
    """The pixels of all marks."""
    marked = [line for line in axes.lines if line.get_marker() not in ("None", "", " ", None)]
    points = [line.get_transform().transform(line.get_xydata()) for line in marked]
    return np.concatenate([np.empty((0, 2)), *points])


def _ink(axes: Axes) -> np.ndarray:
    """Pixels along all lines, intervals and arrows: names avoid them if they can."""
    paths = [(line.get_path(), line.get_transform()) for line in axes.lines]
    paths += [(path, bars.get_transform()) for bars in axes.collections for path in bars.get_paths()]
    drawn = [np.asarray(transform.transform_path(path).vertices) for path, transform in paths]
    drawn += [axes.transData.transform([text.xy, text.xyann]) for text in axes.texts if isinstance(text, Annotation)]
    steps = [ends for vertices in drawn for ends in itertools.pairwise(vertices) if np.isfinite(ends).all()]
    return np.concatenate([np.empty((0, 2)), *(_along(*ends) for ends in steps)])


def _along(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    number = 2 + min(500, int(np.hypot(*(end - start)) / 3))
    return np.linspace(start, end, number)


def _places(point: np.ndarray, size: np.ndarray, marks: np.ndarray) -> Iterator[Place]:
    """Boxes around a point, near ones first."""
    others = marks[np.hypot(*(marks - point).T) > 0.5]
    for reach, direction in itertools.product(REACHES, DIRECTIONS):
        # above and below, a name is centred; on a side it ends where it is nearest
        centre = point + reach * direction + size / 2 * np.clip(2 * direction, -1, 1)
        box = (*(centre - size / 2), *(centre + size / 2))
        away, *rest = _distances(box, np.array([point, *others]))
        if away <= NEAR and min(rest, default=np.inf) > CLEARLY * away:
            yield Place(box, None, reach)
        elif away > MARK + 4:  # long enough to be seen
            yield Place(box, _along(point, np.clip(point, box[:2], box[2:])), reach + 6)


def _is_free(place: Place, point: np.ndarray, frame: Box, boxes: Sequence[Box], leaders: Sequence[np.ndarray]) -> bool:
    box, leader, _ = place
    inside = frame[0] <= box[0] and box[2] <= frame[2] and frame[1] <= box[1] and box[3] <= frame[3]
    if not inside or any(overlap(box, other) for other in boxes) or any(_inside(each, box).any() for each in leaders):
        return False
    if leader is None:
        return True
    over = any(_inside(leader, other).any() for other in boxes if not _inside(point, other))
    return not over and not any(_cross(leader, other) for other in leaders)


def _cross(one: np.ndarray, other: np.ndarray) -> bool:
    apart = one[:, None] - other[None]
    return bool((np.hypot(apart[..., 0], apart[..., 1]) < 2).any())


def _inside(points: np.ndarray, box: Box) -> np.ndarray:
    return np.all((np.array(box[:2]) < points) & (points < np.array(box[2:])), axis=-1)


def _distances(box: Box, points: np.ndarray) -> np.ndarray:
    return np.hypot(*(points - np.clip(points, box[:2], box[2:])).T)


def overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]

"""Names of points, as matplotlib measures what it has drawn: over nothing, and each nearest to its own point."""

import itertools

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from perepisode.report.drawing import canvas, marks


def drawn(points, names, width):
    """A scatter figure of this width with names, as a report draws it."""
    with canvas.style():
        figure = Figure((width, 4.1), layout="constrained")
        axes = figure.subplots()
        axes.plot(*np.transpose(points), "o", ms=7, label="agents")
        marks.name_all(axes, [(*point, name) for point, name in zip(points, names)])
        figure.draw_without_rendering()
    return figure, axes


def names_of(axes):
    return [text for text in axes.texts if text.get_text()]


def box_of(text) -> Bbox:
    """Of the words alone: the extent of an annotation has its line too."""
    return Text.get_window_extent(text)


@pytest.fixture(scope="module", params=range(12))
def crowd(request):
    """Points in clusters: as many as a page has agents, on a desktop and on a phone."""
    draw = np.random.default_rng(request.param)
    centres = draw.uniform(0, 1, (4, 2))
    points = centres[draw.integers(4, size=15)] + draw.normal(0, 0.08, (15, 2))
    names = [("k=1", "w=0.408", "k=1, scaled obs")[index % 3] + "'" * (index // 3) for index in range(15)]
    return points, names, drawn(points, names, (canvas.WIDTH, canvas.NARROW)[request.param % 2])


def pixels(axes, points) -> np.ndarray:
    return axes.transData.transform(points)


def distance(box, pixel) -> float:
    return float(np.hypot(*(pixel - np.clip(pixel, (box.x0, box.y0), (box.x1, box.y1)))))


def test_names_cover_no_name_no_mark_and_no_frame(crowd):
    points, _, (figure, axes) = crowd
    boxes = [box_of(text) for text in names_of(axes)]
    for one, other in itertools.combinations(boxes, 2):
        assert Bbox.intersection(one.padded(-0.5), other) is None
    radius = 3.5 * figure.dpi / 72
    for box, pixel in itertools.product(boxes, pixels(axes, points)):
        assert distance(box, pixel) >= radius - 0.5
    frame = axes.get_window_extent().padded(1)
    assert all(frame.contains(*corner) for box in boxes for corner in (box.min, box.max))


def test_a_name_is_nearest_to_its_own_point_or_joined_to_it(crowd):
    points, _, (figure, axes) = crowd
    found = names_of(axes)
    for text in found:
        own = pixels(axes, [text.xy])[0]
        others = [pixel for pixel in pixels(axes, points) if np.hypot(*(pixel - own)) > 1]
        box = box_of(text)
        if text.arrow_patch is None:
            assert distance(box, own) < 13 * figure.dpi / 72
            assert distance(box, own) < min(distance(box, other) for other in others)
    assert len(found) >= 11  # of 15


def test_lines_to_points_do_not_cross_words_or_each_other(crowd):
    _, _, (_, axes) = crowd
    joined = [text for text in names_of(axes) if text.arrow_patch is not None]
    ends = [text.arrow_patch.get_transform().transform(text.arrow_patch.get_path().vertices) for text in joined]
    lines = [np.linspace(each[0], each[-1], 60) for each in ends]
    for (text, line), other in itertools.product(zip(joined, lines), names_of(axes)):
        if other is not text:
            box = box_of(other).padded(-0.5)
            assert not any(box.contains(*pixel) for pixel in line)
    for one, other in itertools.combinations(lines, 2):
        assert np.hypot(*(one[:, None] - other[None]).transpose(2, 0, 1)).min() > 1


def test_what_is_not_named_is_in_the_legend():
    """Sixty points leave no room for most names."""
    draw = np.random.default_rng(3)
    with canvas.style():
        figure = Figure((canvas.NARROW, 3), layout="constrained")
        axes, names = figure.subplots(), [f"method {index}" for index in range(60)]
        points = draw.uniform(0, 1, (60, 2))
        for point, name in zip(points, names):
            axes.plot(*point, "o", label=name)
        marks.name_all(axes, [(*point, name) for point, name in zip(points, names)])
    written = {text.get_text() for text in names_of(axes)}
    (legend,) = figure.legends
    assert {text.get_text() for text in legend.get_texts()} | written == set(names)
    assert 5 < len(written) < 60

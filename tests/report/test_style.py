"""Everybody can distinguish the methods: by colours for normal vision and three types of colour blindness, and not by
colours alone."""

import itertools

import numpy as np
import pytest

from perepisode.methods import METHODS
from perepisode.report import style

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB
SIGHTS = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
LEAST = 13.0  # of CIELAB; adjacent colours are just distinguishable at 2.3
FROM_PAPER = 2.2  # contrast of a mark with the page
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(colour: str, sight) -> np.ndarray:
    seen = np.clip(np.asarray(sight) @ linear(colour), 0, 1)
    ratio = TO_XYZ @ seen / [0.95047, 1.0, 1.08883]
    x, y, z = np.where(ratio > 216 / 24389, np.cbrt(ratio), (24389 / 27 * ratio + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one: str, other: str) -> float:
    low, high = sorted(TO_XYZ[1] @ linear(colour) + 0.05 for colour in (one, other))
    return high / low


def test_lab_of_known_colours():
    known = {"#ffffff": (100, 0, 0), "#ff0000": (53.2, 80.1, 67.2), "#0000ff": (32.3, 79.2, -107.9)}
    for colour, expected in known.items():
        assert lab(colour, SIGHTS["normal"]) == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("sight", SIGHTS)
def test_any_two_colours_differ_for_everybody_and_from_the_greys(sight, dark):
    colours, greys = ([*(page.values() if dark else page)] for page in (style.PALETTE, style.GREYS))
    drawn = (style.PAPER, style.INK, style.FAINT, style.GRID)
    lines = [grey for name, grey in zip(style.GREYS, greys) if name in drawn]
    assert len(set(colours)) >= 12
    places = {colour: lab(colour, SIGHTS[sight]) for colour in (*colours, *lines)}
    for one, other in (*itertools.combinations(colours, 2), *itertools.product(colours, lines)):
        assert np.linalg.norm(places[one] - places[other]) > LEAST, (one, other)


@pytest.mark.parametrize("dark", [False, True])
def test_marks_and_words_stand_out_from_the_page(dark):
    paper, ink, text, edge, *_ = style.GREYS.values() if dark else style.GREYS
    assert min(contrast(colour, paper) for colour in (style.PALETTE.values() if dark else style.PALETTE)) > FROM_PAPER
    assert min(contrast(colour, paper) for colour in (ink, text)) > 4.5
    over = style.on_dark(style.OVER) if dark else style.OVER
    assert contrast(over, paper) > 4.5
    assert contrast(edge, paper) > 3


def test_methods_of_the_package_keep_a_look_of_their_own():
    looks = [style.look(method) for method in METHODS if METHODS[method].colour]
    assert {one.colour for one in looks} <= set(style.PALETTE)
    assert len({one.colour for one in looks}) == len({one.marker for one in looks}) == len(looks)
    with style.on_page(["CPO", "esr", "FOCOPS"]):
        assert style.look("esr") == next(one for one in looks if one.label == "ESR")


def test_unknown_methods_take_what_the_page_leaves_free_in_order_of_appearance():
    names = ["CPO", "FOCOPS", "ser", "PCPO", "P3O", *(f"method {index}" for index in range(7))]
    with style.on_page(names):
        looks = {name: style.look(name) for name in names}
    assert len({one.colour for one in looks.values()}) == len({one.marker for one in looks.values()}) == 12
    free = [colour for colour in style.PALETTE if colour != METHODS["ser"].colour]
    assert [one.colour for name, one in looks.items() if name != "ser"] == free
    with style.on_page(reversed(names)):
        assert style.look("CPO").colour == free[-1]
    assert style.look("CPO").colour == next(iter(style.PALETTE))  # alone


def test_neighbours_in_the_palette_have_other_lines_too():
    with style.on_page(names := [f"method {index}" for index in range(12)]):
        lines = [style.look(name).line for name in names]
    assert all(len(set(map(str, four))) == 4 for four in zip(lines, lines[1:], lines[2:], lines[3:]))


def test_more_methods_than_colours_differ_by_marker():
    with style.on_page(names := [f"method {index}" for index in range(15)]):
        looks = [style.look(name) for name in names]
    assert looks[0].colour == looks[12].colour
    assert len({(one.colour, one.marker) for one in looks}) == 15


def test_a_colour_from_elsewhere_is_as_light_on_a_dark_page_as_it_was_dark():
    assert style.on_dark("#000000") == "#ffffff"
    assert contrast(style.on_dark("#440154"), style.GREYS[style.PAPER]) > 4.5  # the dark end of viridis

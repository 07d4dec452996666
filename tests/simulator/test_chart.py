"""The picture of a comparison is well-formed, the same each time, and says what it shows."""

from __future__ import annotations

from xml.etree import ElementTree

from cotenant.simulator.chart import svg
from cotenant.simulator.comparison import Played
from tests.simulator.test_comparison import PLAYED

SVG = "{http://www.w3.org/2000/svg}"


def test_every_policy_has_a_line_in_each_plot_and_its_mean_in_the_legend() -> None:
    text = svg(PLAYED, 1, "a <trace> & more")
    root = ElementTree.fromstring(text)
    words = ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]
    assert len(list(root.iter(f"{SVG}polyline"))) == 2 * len(PLAYED)
    assert {"a <trace> & more", "Age: mean 1.33 h", "SRSF (pool): mean 1.50 h", "GPUs in use, of 1"} <= set(words)
    assert text == svg(PLAYED, 1, "a <trace> & more")


def test_a_line_stays_inside_the_picture_and_never_falls_for_completion_times() -> None:
    root = ElementTree.fromstring(svg(PLAYED, 1, "t"))
    first = next(root.iter(f"{SVG}polyline"))
    points = [tuple(map(float, point.split(","))) for point in first.attrib["points"].split()]
    width, height = (float(size) for size in root.attrib["viewBox"].split()[2:])
    assert all(0 <= x <= width and 0 <= y <= height for x, y in points)
    assert points == sorted(points, key=lambda point: (point[0], -point[1]))


def test_nothing_to_draw_is_an_empty_picture() -> None:
    assert ElementTree.fromstring(svg([Played("Age", [])], 8, "none")).tag == f"{SVG}svg"

"""The screen of `cotenant top`, as text."""

from __future__ import annotations

import pytest

from cotenant.cli.administrators.gpu_shares import gpu_views
from cotenant.cli.administrators.top.rows import TopData, listing
from cotenant.cli.administrators.top.screen import whole
from cotenant.cli.administrators.top.view import Overlay, TopView
from tests.cli.administrators.top.played_top import DATA, NOW, after, node, shown


def test_queues_are_a_tree_with_bars_of_what_is_their_own_and_borrowed() -> None:
    lines = shown(TopView())
    assert lines[0].endswith("5 GPUs: 1.75 held, 2 idle, 2 ill   2 jobs wait")
    assert lines[1] == "[1 Queues] 2 GPUs  3 Waiting    by tree"
    assert [line.split()[0] for line in lines[3:7]] == ["QUEUE", "lab", "team-a", "team-b"]
    assert lines[5].endswith("█" * 13 + "▒" * 7)
    assert lines[6].endswith("█" * 5 + "·" * 15)


def test_the_wall_has_a_brick_for_each_gpu_and_the_letters_their_jobs() -> None:
    assert shown(TopView(view="GPUs"))[3:10] == [
        "NODE  GPUS",
        "n1    [CCCCCCCC] [AA......] [xxxxxxxx] H100",
        "n2    [BBBB....] [xxxxxxxx] H100",
        "",
        "A  red/notebook",
        "B  red/sweep",
        "C  red/train",
    ]


def test_who_waits_has_its_reason_and_what_helps_below() -> None:
    lines = shown(TopView(view="Waiting"))
    assert [lines[4].split()[1], lines[6].split()[1]] == ["next", "big"]
    assert lines[7] == "    Queue team-a may hold 8.  would start now if workers is 2"
    assert "runs" not in "".join(lines)


def test_a_simulated_gpu_is_not_called_idle() -> None:
    nodes = [node("n1", 0, None, holders=[("train", 0, 1000)])]
    nodes[0]["status"]["simulated"] = True
    data = TopData(gpus=list(gpu_views(nodes)))
    assert "1 held, 0 idle" in whole(TopView(), data, listing(TopView(), data, NOW), NOW)


@pytest.mark.parametrize("rows", range(1, 12))
@pytest.mark.parametrize("overlay", Overlay)
@pytest.mark.parametrize("view", ["Queues", "GPUs", "Waiting"])
def test_nothing_is_larger_than_the_terminal(rows: int, view: str, overlay: Overlay) -> None:
    for columns in (1, 20, 80):
        lines = shown(TopView(view=view, overlay=overlay), rows, columns)
        assert len(lines) == rows
        assert max(len(line) for line in lines) <= columns


@pytest.mark.parametrize(
    ("keys", "head", "says"),
    [
        (["\n"], "lab", "the lower share goes first"),
        (["2", "\n"], "n1", "red/notebook (0.25)"),
        (["2", "G", "\n"], "red/train", "n1     0     H100    busy"),
        (["3", "G", "\n"], "red/big", "red/big waits in queue red for 2 GPUs: QueueLimit"),
        (["3", "?"], "KEYS", "  P              by place; once more: reversed"),
    ],
    ids=["a queue", "a node", "a job that holds GPUs", "a job that waits", "the keys"],
)
def test_details_are_those_of_the_row_at_the_cursor(keys: list[str], head: str, says: str) -> None:
    lines = shown(after(keys), rows=24)
    assert (lines[3], [line for line in lines if says in line] != []) == (head, True), lines


def test_details_are_as_wide_as_the_terminal_and_lose_nothing() -> None:
    lines = shown(after(["3", "G", "\n"]), rows=30, columns=24)
    assert "".join(line.strip() for line in lines[4:-1]).replace(" ", "").startswith("red/bigwaitsinqueueredfor2GPUs")


def test_once_the_whole_view_is_printed() -> None:
    text = whole(TopView(view="Waiting"), DATA, listing(TopView(view="Waiting"), DATA, NOW), NOW)
    assert text.splitlines()[-1] == "    Queue team-a may hold 8.  would start now if workers is 2"

"""The end of a story, and what of it is about the subjects that are asked for."""

from __future__ import annotations

from tests.support.simulation.story import LINES_MAX, Story


def story_of(*texts: str) -> Story:
    moments = iter(range(len(texts)))
    story = Story(lambda: float(next(moments)))
    for text in texts:
        story.tell(text)
    return story


def test_a_short_story_is_told_whole_with_its_times() -> None:
    assert story_of("n1 fails", "n1 is back").told("n2") == "    0.000  n1 fails\n    1.000  n1 is back"


def test_of_a_long_one_the_lines_about_the_subjects_are_kept_and_the_last_ones() -> None:
    story = story_of("red/job0 starts", *(f"beat {number}" for number in range(98)), "red/job0 is lost")
    lines = story.told("red/job0").split("\n")
    assert lines[0] == f"           … {100 - (LINES_MAX - 1)} lines are left out"
    assert lines[1] == "    0.000  red/job0 starts"
    assert lines[2:] == [f"{number + 1:9.3f}  beat {number}" for number in range(71, 98)] + [
        "   99.000  red/job0 is lost"
    ]


def test_a_subject_that_is_in_every_line_leaves_room_for_what_happened_last() -> None:
    lines = story_of(*(f"red/job0 step {number}" for number in range(90)), "the end").told("red/job0").split("\n")
    assert (len(lines), lines[-1]) == (LINES_MAX, "   90.000  the end")


def test_the_longest_story_that_is_told_whole() -> None:
    assert len(story_of(*("x",) * LINES_MAX).told().split("\n")) == LINES_MAX
    assert "left out" not in story_of(*("x",) * LINES_MAX).told()

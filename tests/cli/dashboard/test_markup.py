"""What pages have in common: amounts, counts, and sentences that stand there once."""

from __future__ import annotations

import pytest

from cotenant.dashboard.markup import hours, markup
from cotenant.dashboard.reading.rows import JobRow
from cotenant.dashboard.views.line import line_view
from cotenant.dashboard.views.wish import Wish
from tests.cli.dashboard.conftest import Browser


@pytest.mark.parametrize(
    ("amount", "shown"),
    [(0, "0"), (0.0027, "0.003"), (0.25, "0.25"), (2.46, "2.5"), (1204.4, "1,204")],
    ids=["nothing", "a trial of ten seconds", "less than one", "some", "many"],
)
def test_hours_have_as_many_digits_as_matter(amount: float, shown: str) -> None:
    assert hours(amount) == shown


@pytest.mark.parametrize(("names", "counted"), [(["a"], "1 job<"), (["a", "b"], "2 jobs<")], ids=["one", "two"])
def test_one_job_is_not_counted_as_jobs(names: list[str], counted: str) -> None:
    assert counted in line(*names)


def test_a_short_name_stands_on_one_line_and_a_long_one_may_break() -> None:
    assert '<th scope="row" class="whole">' in line("train")
    assert '<th scope="row" class="">' in line("train-with-a-name-of-many-words")


def line(*names: str) -> str:
    """The page of the jobs with these names, which wait."""
    rows = [JobRow(namespace="team-a", name=name, phase="Pending", queue="team-a") for name in names]
    context = {"page": {"title": "Jobs"}, "notes": [], "is_loading": False, "wish": Wish(), "colour": lambda _: "t0"}
    return markup("line.html", context | {"view": line_view(rows, Wish())})


async def page(browser: Browser, path: str) -> str:
    async with browser.get(path) as response:
        return await response.text()


async def test_a_running_job_is_not_called_running_twice(browser: Browser) -> None:
    assert '<span class="phase Running">Running</span> <b>' not in await page(browser, "/jobs/speech/train-1")


async def test_why_a_job_waits_is_said_once(browser: Browser) -> None:
    shown = await page(browser, "/jobs/speech/sweep-1")
    assert "It is number <b>3</b> in the line." in shown
    assert shown.count("2 are free there.") == 1


def test_a_service_account_has_its_short_name_in_the_header_and_the_whole_one_in_its_title() -> None:
    about = {"title": "Jobs", "path": "/line", "is_filtered": False}
    page = {"page": about, "pages": [], "wish": Wish(), "main": "", "is_whole": True}
    header = markup("page.html", page | {"user": "system:serviceaccount:a:b"})
    assert ">a:b</span>" in header
    assert 'title="system:serviceaccount:a:b: your name' in header

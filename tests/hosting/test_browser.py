"""A drill as an operator sees it, from logging in to the certificate; pictures are kept.

They lie in `.medusa/pictures` of the repository (or MEDUSA_PICTURES), numbered in order.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.base.settings import REPOSITORY
from tests.hosting.browsing import CHROMIUM, Person, person
from tests.hosting.live import Live, live_federation
from tests.waiting import until

pytestmark = pytest.mark.browser

PICTURES = Path(os.environ.get("MEDUSA_PICTURES") or REPOSITORY / ".medusa" / "pictures")
DRILL = "medusa_drill"
REFUSED = (
    (
        "shell-and-sql",
        {"participant": "beta'; DROP TABLE medusa.job; -- $(reboot)", "partner": "alpha"},
        r"there is no participant .*DROP TABLE",
    ),
    (
        "negative-duration",
        {"participant": "beta", "partner": "alpha", "lasts": "-5s"},
        r"lasts: duration '-5s' is not one",
    ),
    (
        "unknown-participant",
        {"participant": "beta", "partner": "alhpa"},
        r"there is no participant 'alhpa'.*did you mean 'alpha'",
    ),
)


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not on this machine: install Debian's chromium")
    for old in PICTURES.glob("*.png"):
        old.unlink()
    with live_federation() as made:
        yield made


@pytest.fixture(scope="module")
def operator(live: Live) -> Iterator[Person]:
    with person(f"http://127.0.0.1:{live.platform.port}", PICTURES) as one:
        one.logs_in(live.password)
        yield one


def tentative_in(live: Live, run: str) -> int:
    """How many tentative answers the drill has told of; 0 while it has not begun to watch."""
    output = live.log(DRILL, run, "watch")
    return max((int(n) for n in re.findall(r"beta/lower: (\d+) tentative", output)), default=0)


def faults_of(live: Live) -> bytes:
    """What was ever done on purpose, as it is written down."""
    written = live.platform.home / "drills.json"
    return written.read_bytes() if written.exists() else b""


def test_a_drill_is_triggered_by_its_form_seen_to_be_corrected_and_certified(
    live: Live, operator: Person
) -> None:
    page = operator.page
    operator.go("/dags?tags=medusa")
    operator.finds(DRILL)
    operator.see("dags")
    run = operator.triggers(
        DRILL,
        {
            "participant": "beta",
            "partner": "alpha",
            "lasts": "25s",
            "network": "kept",
            "must_be_in_time": False,
        },
        "form",
    )
    until(lambda: tentative_in(live, run) > 0, "there are tentative answers", 120)
    operator.go(f"/dags/{DRILL}/runs/{run}/tasks/watch")
    operator.finds(re.compile(r"beta/lower: \d+ tentative"))
    operator.see("tentative")
    assert live.wait(DRILL, run)["state"] == "success"
    operator.go(f"/dags/{DRILL}/runs/{run}/tasks/recover")
    operator.finds("all is final again")
    operator.see("corrected")
    judge = f"/dags/{DRILL}/runs/{run}/tasks/judge/details"
    operator.go(judge)
    page.get_by_role("link", name="Certificate", exact=True).wait_for()
    operator.see("judged")
    operator.follows("Report")
    operator.finds("corrected")
    operator.see("report", whole=True)
    operator.go(judge)
    operator.follows("Certificate")
    page.get_by_placeholder("Search").first.fill("beta_lower_converged")
    checked = page.get_by_role("row", name=re.compile("beta_lower_converged_buckets"))
    checked.first.wait_for()
    operator.see("certificates")
    checked.get_by_role("cell").nth(1).click()
    operator.finds("Succeeded")
    operator.see("certificate", whole=True)


@pytest.mark.parametrize(("name", "form", "reason"), REFUSED, ids=[one[0] for one in REFUSED])
def test_what_cannot_be_is_refused_with_the_reason_where_the_operator_looks(
    live: Live, operator: Person, name: str, form: dict[str, str], reason: str
) -> None:
    before = faults_of(live)
    run = operator.triggers(DRILL, form, f"form-{name}")
    ended = live.wait(DRILL, run)
    assert ended["state"] == "failed"
    operator.go(f"/dags/{DRILL}/runs/{run}")
    operator.finds(re.compile(reason))
    operator.see(f"note-{name}")
    operator.go(f"/dags/{DRILL}/runs/{run}/tasks/prepare")
    operator.finds(re.compile(reason))
    operator.see(f"log-{name}")
    assert faults_of(live) == before, "nothing was done"


def test_nothing_was_asked_of_any_other_machine(operator: Person) -> None:
    assert operator.asked
    assert [
        url
        for url in operator.asked
        if not url.startswith((operator.url, f"blob:{operator.url}", "data:"))
    ] == []
    assert sorted(PICTURES.glob("*.png"))

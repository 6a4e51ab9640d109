"""The federation as it is drawn and listed."""

from __future__ import annotations

import re
from typing import Any

from pipelines.platform.drills.link_faults import FILE, LinkFaults, Lost, write_faults
from tests.pages.conftest import LEASE
from tests.pages.pages_under_test import ALPHA, BETA, Shown


def by_name(document: Any) -> dict[tuple[str, str], Any]:
    return {(one["participant"], one["name"]): one for one in document["fragments"]}


def test_each_fragment_is_shown_with_its_state_and_the_holder_of_its_lease(shown: Shown) -> None:
    found = by_name(shown.document("federation.json"))
    main = found["beta", "kept/main"]
    assert (main["state"], main["because"]) == ("up_failure", "without more")
    assert [(one["holder"], one["epoch"], one["is_held"]) for one in main["leases"]] == [
        ("host-beta:11", 3, True)
    ]
    assert found["alpha", "landing/given"]["state"] == "stable"


def test_a_fragment_whose_lease_has_lapsed_is_stopped(shown: Shown) -> None:
    shown.sql(ALPHA, "DELETE FROM medusa.lease")
    lapsed = LEASE.format(fragment="landing/given", home="alpha", lasts="-1 minute")
    shown.sql(ALPHA, lapsed)
    assert (
        by_name(shown.document("federation.json"))["alpha", "landing/given"]["state"] == "stopped"
    )


def test_a_stream_that_has_ended_is_final_through_its_last_row(shown: Shown) -> None:
    ended = "SET boundary_us = 9223372036854775807, end_us = 7000000 WHERE stream = 'lower'"
    shown.sql(BETA, f"UPDATE medusa.stream_producer {ended}")
    streams = {one["stream"]: one for one in shown.document("federation.json")["streams"]}
    assert streams["lower"]["stable_through_us"] == 7_000_000
    assert streams["given"]["stable_through_us"] == 9_000_000


def test_a_link_with_a_partner_whose_key_was_disowned_is_not_drawn(shown: Shown) -> None:
    assert "gamma" in {one["partner"] for one in shown.document("federation.json")["links"]}
    shown.sql(
        BETA,
        """INSERT INTO medusa_market.key_disowned (participant, public_key)
        SELECT participant, public_key FROM medusa_market.party_key
        WHERE participant = 'gamma'""",
    )
    assert "gamma" not in {one["partner"] for one in shown.document("federation.json")["links"]}


def test_a_participant_known_only_through_the_exchange_is_shown_as_such(shown: Shown) -> None:
    document = shown.document("federation.json")
    gamma = next(one for one in document["participants"] if one["name"] == "gamma")
    assert not gamma["is_seen"]
    assert by_name(document)["gamma", "landing/more"]["state"] == "unknown"
    picture = shown.part("federation")
    assert 'class="lane elsewhere"' in picture
    assert "by the exchange" in picture


def test_a_broken_link_is_drawn_with_a_word_and_listed_first(shown: Shown) -> None:
    links = shown.document("federation.json")["links"]
    assert [(one["reader"], one["partner"], one["state"]) for one in links] == [
        ("beta", "gamma", "unreachable"),
        ("beta", "alpha", "reachable"),
    ]
    assert "✕ unreachable" in shown.part("federation")
    assert "38 ms" in shown.part("federation")


def test_a_moved_fragment_is_where_it_is_computed_with_whom_it_belongs_to(shown: Shown) -> None:
    shown.sql(ALPHA, """
        INSERT INTO medusa.assignment (fragment, partition, epoch, participant, replica, plan)
        VALUES ('kept/main', 0, 2, 'alpha', 0, 'plan');
        INSERT INTO medusa.fragment_owner
            (fragment, partition, epoch, participant, replica, from_us, timeout_ms, because)
        VALUES ('kept/main', 0, 1, 'gamma', 0, 0, 0, 'cheaper by 0.2');""")  # fmt: skip
    found = by_name(shown.document("federation.json"))
    left, present = found["alpha", "kept/main"], found["gamma", "kept/main"]
    assert left["is_left"]
    assert left["computed_by"] == "gamma"
    assert present["belongs_to"] == "alpha"
    assert "now at gamma" in shown.part("federation")


def test_the_table_says_what_the_picture_shows(shown: Shown) -> None:
    text = shown.part("federation")
    table = text[text.index('id="fragments-table"') :]
    for fragment in ("kept/main", "landing/given", "landing/more"):
        assert fragment in table
    assert {"UP_FAILURE", "STABLE", "not known"} <= set(re.findall(r"</svg>([\w ]+)</span>", table))


def test_a_participant_can_be_chosen_with_what_it_reads_and_writes(shown: Shown) -> None:
    document = shown.document("federation.json?participant=alpha")
    assert {one["participant"] for one in document["fragments"]} == {"alpha", "beta"}
    assert shown.document("federation.json?participant=nobody")["fragments"] == []
    assert "Nothing that you may see" in shown.part("federation?participant=nobody")


def test_hostile_values_are_escaped_wherever_they_are_shown(shown: Shown) -> None:
    hostile = "<script>alert(1)</script>\\u202e\"'"
    shown.sql(
        BETA, f"UPDATE medusa.transition SET because = E'{hostile.replace(chr(39), chr(39) * 2)}'"
    )
    shown.sql(BETA, "UPDATE medusa.lease SET holder = '<img src=x onerror=alert(2)>'")
    shown.sql(BETA, "UPDATE medusa_market.link SET error = '</svg><script>3</script>'")
    for path in ("federation", "federation?participant=%3Cscript%3Ealert(4)%3C/script%3E"):
        text = shown.get(path).text
        assert text.count("<script") == 1, "the page's own"
        assert "<img" not in text
        assert "\u202e" not in text


def test_a_link_that_a_drill_cuts_is_shown_as_cut_though_no_home_reports_it(shown: Shown) -> None:
    def link() -> tuple[str, str | None]:
        (found,) = [one for one in shown.document("federation.json")["links"]
                    if (one["reader"], one["partner"]) == ("beta", "alpha")]  # fmt: skip
        return found["state"], found["error"]

    directory = shown.settings.directory
    assert link() == ("reachable", None)
    write_faults(directory, LinkFaults(lost=(Lost(ALPHA, BETA),)))
    assert link() == ("unreachable", "cut by a drill")
    (directory / FILE).unlink()
    assert link() == ("reachable", None)

"""Drills of a link whose other end is in another folder: declared, listed and healed at one end."""

from __future__ import annotations

import pytest

from tests.partners.offices import Office
from tests.partners.test_joining import joined


@pytest.mark.long
def test_the_link_to_a_partner_elsewhere_is_cut_and_healed_at_this_end(
    offices: tuple[Office, Office],
) -> None:
    alpha, beta = offices
    refused = alpha.run("fault", "cut", "alpha", "beta")
    assert refused.returncode == 2
    assert "there is no participant 'beta'" in refused.stderr
    joined(offices)
    for one, other in (("alpha", "beta"), ("beta", "alpha")):
        cut = alpha.run("fault", "cut", one, other)
        assert (cut.returncode, cut.stderr) == (0, "")
    slow = alpha.run("fault", "slow", "beta", "alpha", "--by", "1s")
    assert slow.returncode == 0, slow.stderr
    assert alpha.run("fault", "list").stdout.count("lost") == 2
    assert beta.run("fault", "list").stdout.startswith("every link is whole"), (
        "the other end is not"
    )
    healed = alpha.run("fault", "heal", "alpha", "beta")
    assert "whole again: the link between alpha and beta" in healed.stdout
    assert alpha.run("fault", "list").stdout.startswith("every link is whole")
    for names in (("alpha", "nobody"), ("beta", "nobody")):
        assert alpha.run("fault", "cut", *names).returncode == 2
    for of_one in ("kill", "freeze"):
        assert alpha.run("fault", of_one, "beta").returncode == 2

"""When the kit strikes."""

from __future__ import annotations

import pytest

from cutwater.testing.connectors.faults import FIRST_SHARE, LAST_SHARE, Fault, strikes_of

STRIKING = [fault for fault in Fault if fault not in (Fault.NOTHING, Fault.POISON)]


@pytest.mark.parametrize("fault", STRIKING)
def test_strikes_come_in_order_before_records_only_trickle(fault: Fault) -> None:
    shares = [strike.share for seed in range(100) for strike in strikes_of(fault, seed)]
    per_seed = len(strikes_of(fault, 0))
    in_order = all(
        shares[start : start + per_seed] == sorted(shares[start : start + per_seed])
        for start in range(0, len(shares), per_seed)
    )
    assert (in_order, min(shares) >= FIRST_SHARE, max(shares) <= LAST_SHARE) == (True, True, True)


@pytest.mark.parametrize("fault", STRIKING)
def test_the_seed_decides_the_moments(fault: Fault) -> None:
    assert (strikes_of(fault, 1) == strikes_of(fault, 1), strikes_of(fault, 1) == strikes_of(fault, 2)) == (True, False)


@pytest.mark.parametrize("fault", [Fault.NOTHING, Fault.POISON])
def test_nobody_strikes_a_plain_run(fault: Fault) -> None:
    assert strikes_of(fault, 0) == ()

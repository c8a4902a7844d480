"""Does the status of a job say how many records failed?"""

from __future__ import annotations

import cutwater as cw
from cutwater.testing.harness import LocalLauncher


def test_failed_records_are_part_of_the_status() -> None:
    env = cw.Environment(launcher=LocalLauncher())
    divided = env.from_collection([4, 0, 0, 2, "x"]).map(lambda n: 8 // n, on_error="dead_letter")
    divided.side_output("errors").sink_to(cw.sinks.discard())
    divided.filter(len, on_error="skip").sink_to(cw.sinks.discard())
    status = env.execute("failing").status
    assert (status.dead_letters, status.skipped_records) == (3, 2)

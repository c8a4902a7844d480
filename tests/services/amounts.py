"""How many records go through a trial of the kit?"""

from __future__ import annotations

import os

#: As many as the guarantees are stated for; fewer in each run of the tests, where the faults are what matters.
RECORDS = 100_000 if os.environ.get("CUTWATER_TRIALS") == "all" else 20_000

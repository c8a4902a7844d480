"""Test a job without a cluster: `LocalLauncher` runs it in memory, `stand_in` gives it records to read."""

from cutwater.testing.harness import LocalLauncher
from cutwater.testing.stand_ins import simulating, stand_in

__all__ = ["LocalLauncher", "simulating", "stand_in"]

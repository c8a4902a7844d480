"""Spark looks for packages of such a name, and finds the data source "cutwater" in this one."""

from cutwater.deploy.state_source import StateSource as DefaultSource

__all__ = ["DefaultSource"]

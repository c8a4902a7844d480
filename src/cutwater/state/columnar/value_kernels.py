"""How do the rows of a batch change the values of their keys?

A NaN, which differs from itself, is above every number: what is smallest or largest never depends on the order.

Two forms of each: `add_…` only updates, `run_…` also writes down the value after each row. `valid` is empty when every
row has a value; `seen` says which slots have had one.
"""

from __future__ import annotations

import numpy as np

from cutwater.state.columnar.buffers import Bytes, Codes, Integers
from cutwater.state.columnar.compiling import kernel

#: Integers or Floats: Numba compiles a kernel for each.
Numbers = np.ndarray


@kernel
def add_counts(slots: Codes, values: Integers) -> None:
    for row in range(len(slots)):
        values[slots[row]] += 1


@kernel
def run_counts(slots: Codes, values: Integers, results: Integers) -> None:
    for row in range(len(slots)):
        values[slots[row]] += 1
        results[row] = values[slots[row]]


@kernel
def add_sums(slots: Codes, inputs: Numbers, valid: Bytes, values: Numbers, seen: Bytes, limits: Numbers) -> int:
    """The row whose sum would leave the limits, or -1: asked first, since a compiler may take it that none does."""
    lowest, highest = limits
    all_valid = len(valid) == 0
    for row in range(len(slots)):
        if all_valid or valid[row]:
            slot = slots[row]
            value = inputs[row]
            if values[slot] > highest - value if value > 0 else values[slot] < lowest - value:
                return row
            values[slot] += value
            seen[slot] = 1
    return -1


@kernel
def run_sums(
    slots: Codes,
    inputs: Numbers,
    valid: Bytes,
    values: Numbers,
    seen: Bytes,
    limits: Numbers,
    results: Numbers,
    known: Bytes,
) -> int:
    lowest, highest = limits
    all_valid = len(valid) == 0
    for row in range(len(slots)):
        slot = slots[row]
        if all_valid or valid[row]:
            value = inputs[row]
            if values[slot] > highest - value if value > 0 else values[slot] < lowest - value:
                return row
            values[slot] += value
            seen[slot] = 1
        results[row] = values[slot]
        known[row] = seen[slot]
    return -1


@kernel
def add_extremes(slots: Codes, inputs: Numbers, valid: Bytes, values: Numbers, seen: Bytes, largest: bool) -> None:
    all_valid = len(valid) == 0
    for row in range(len(slots)):
        if all_valid or valid[row]:
            slot = slots[row]
            value = inputs[row]
            if not seen[slot] or (
                value > values[slot] or value != value
                if largest
                else value < values[slot] or values[slot] != values[slot]
            ):
                values[slot] = value
                seen[slot] = 1


@kernel
def run_extremes(
    slots: Codes,
    inputs: Numbers,
    valid: Bytes,
    values: Numbers,
    seen: Bytes,
    largest: bool,
    results: Numbers,
    known: Bytes,
) -> None:
    all_valid = len(valid) == 0
    for row in range(len(slots)):
        slot = slots[row]
        if all_valid or valid[row]:
            value = inputs[row]
            if not seen[slot] or (
                value > values[slot] or value != value
                if largest
                else value < values[slot] or values[slot] != values[slot]
            ):
                values[slot] = value
                seen[slot] = 1
        results[row] = values[slot]
        known[row] = seen[slot]

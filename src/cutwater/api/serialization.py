"""Can the job travel, and if not, which variable is to blame?

Every operator's build is pickled once, here in the driver, where the author sees the failure. What travels are the
bytes: every task unpickles a copy of its own, so a user's object is never shared by two tasks or two attempts.
"""

from __future__ import annotations

import functools
import pickle
import types
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import cloudpickle

from cutwater.errors import CutwaterError, SerializationError
from cutwater.graph.model import LogicalGraph, LogicalNode
from cutwater.graph.validation import describe_node

_DEPTH_MAX = 20


@dataclass(frozen=True, slots=True)
class PickledBuild:
    """A build as bytes."""

    data: bytes

    def __call__(self) -> Any:
        return pickle.loads(self.data)()


def make_portable(graph: LogicalGraph) -> LogicalGraph:
    """The same graph with pickled builds; raises `SerializationError` for what can't be pickled."""
    return LogicalGraph({uid: _portable(node) for uid, node in graph.nodes.items()}, list(graph.edges))


def _portable(node: LogicalNode) -> LogicalNode:
    try:
        data = cloudpickle.dumps(node.build)
    except CutwaterError:
        raise
    except Exception as error:
        raise SerializationError(
            f"{describe_node(node)} can't be sent to the cluster",
            detail=_blame(node.build) or f"{type(error).__name__}: {error}",
            hint="open connections, files and sessions in the function's open(context), or where they are used",
        ) from error
    return replace(node, build=PickledBuild(data))


def _blame(value: object) -> str:
    """Follows what fails to the innermost part that fails on its own."""
    where, culprit = "", value
    for _ in range(_DEPTH_MAX):
        found = next(((place, part) for place, part in _parts(culprit) if _failure(part) is not None), None)
        if found is None:
            break
        place, culprit = found
        where = place or where
    failure = _failure(culprit)
    if not where or failure is None:
        return ""
    return f"{where} is a {type(culprit).__module__}.{type(culprit).__qualname__}: {failure}"


def _failure(value: object) -> str | None:
    try:
        cloudpickle.dumps(value)
    except Exception as error:
        return str(error) or type(error).__name__
    return None


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """What a value consists of, each with words for it; no words: not worth a mention."""
    match value:
        case types.FunctionType():
            yield from _variables(value)
        case types.MethodType():
            yield "", value.__self__
        case functools.partial():
            yield "", value.func
            yield from (("an argument of a partial", argument) for argument in value.args)
            yield from ((f'argument "{name}" of a partial', argument) for name, argument in value.keywords.items())
        case dict():
            yield from ((f"the entry {key!r}", part) for key, part in value.items())
        case list() | tuple() | set() | frozenset():
            yield from (("", part) for part in value)
        case _:
            names = [*getattr(value, "__dict__", {}), *getattr(type(value), "__slots__", ())]
            ours = type(value).__module__.startswith("cutwater.")
            for name in names:
                part = getattr(value, name, None)
                yield ("" if ours else f'attribute "{name}" of "{type(value).__qualname__}"'), part


def _variables(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    name = f'function "{function.__name__}"' if function.__name__ != "<lambda>" else "a lambda"
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f'variable "{variable}" of {name}', cell.cell_contents
        except ValueError:
            continue  # not assigned yet
    for variable in sorted(_global_names(function.__code__)):
        if variable in function.__globals__:
            yield f'global variable "{variable}", used by {name},', function.__globals__[variable]
    for default in function.__defaults__ or ():
        yield f"a default of {name}", default


def _global_names(code: types.CodeType) -> set[str]:
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*map(_global_names, inner))

"""Which options of a program does the command line override, and how?

`cutwater run job.py --set checkpoints.every=5s --restore latest` runs the program as it is, inside `overridden_by(…)`:
each `Environment` that is made there takes these options before those of the program, which count more than those of a
file. Values come as text, and are checked by the classes that hold them (`cutwater.config`).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from types import NoneType
from typing import Any, cast, get_args, get_type_hints

from cutwater.api import restart
from cutwater.config import Checkpoints, Control, JobOptions, OptionValues, TlsFiles
from cutwater.errors import ConfigurationError

#: Options with options of their own: `checkpoints.every`.
_GROUPS: Mapping[str, type[Any]] = {"checkpoints": Checkpoints, "tls": TlsFiles, "control": Control}
#: Others would see it in the list of processes.
_SECRET = "checkpoints.secret"
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True, slots=True)
class Target:
    """Which Spark runs the jobs of a program that brings none."""

    #: "local[4]", "spark://host:7077", "yarn", "k8s://…".
    master: str | None = None
    #: A Spark Connect server: "sc://host".
    remote: str | None = None
    #: Options of spark-submit, as one writes them there.
    submit: str | None = None

    def __str__(self) -> str:
        return self.master or self.remote or f"spark-submit {self.submit}"


@dataclass(slots=True)
class Overrides:
    """What counts more than the program."""

    #: A value for each option; of those in `_GROUPS` a mapping, for the options that they have.
    options: Mapping[str, Any] = field(default_factory=dict)
    #: None: as the program says; "none": the job starts empty.
    restore: str | None = None
    target: Target | None = None
    #: The Spark that was made for the target.
    made_spark: Any = None
    #: Whether a program has asked for them.
    used: bool = False

    def applied_to(self, options: OptionValues) -> OptionValues:
        self.used = True
        merged: dict[str, Any] = dict(options)
        for name, value in self.options.items():
            changes = isinstance(value, Mapping) and name in _GROUPS
            merged[name] = _changed(_GROUPS[name], merged.get(name), value) if changes else value
        return cast(OptionValues, merged)

    def restored_from(self, restore: str | None) -> str | None:
        if self.restore is None:
            return restore
        return None if self.restore == "none" else self.restore


_current: list[Overrides] = []


@contextmanager
def overridden_by(overrides: Overrides) -> Iterator[None]:
    """Counts for every `Environment` that is made inside. For one thread."""
    _current.append(overrides)
    try:
        yield
    finally:
        _current.pop()


def overrides() -> Overrides:
    """Those that count here; they may be none."""
    return _current[-1] if _current else Overrides()


def parse_settings(written: Sequence[str]) -> dict[str, Any]:
    """Of `key=value`, what `Overrides.options` takes. Raises `ConfigurationError` for what no job has."""
    texts = dict(map(_key_and_value, written))
    found: dict[str, Any] = {}
    for key, text in texts.items():
        group, dot, name = key.partition(".")
        if group == "restart":
            continue
        if dot and group in _GROUPS:
            _check_known(key)
            found[group] = {**_options_of(group, found), name: _value(text, _types(_GROUPS[group])[name], option=key)}
        else:
            found[key] = _plain_value(key, text)
    return found | _restart(texts)


def keys() -> list[str]:
    """All that can be set, for completion and hints."""
    plain = [name for name in OptionValues.__annotations__ if name != "checkpoints"]
    grouped = [f"{group}.{name}" for group, kind in _GROUPS.items() for name in _types(kind)]
    parameters = {name for make in _restarts().values() for name in inspect.signature(make).parameters}
    return [*plain, *(key for key in grouped if key != _SECRET), *(f"restart.{name}" for name in sorted(parameters))]


def _key_and_value(written: str) -> tuple[str, str]:
    key, equals, value = written.partition("=")
    if not equals or not key.strip():
        raise ConfigurationError(f"{written!r} sets nothing", hint="write --set key=value, as in checkpoints.every=5s")
    return key.strip(), value.strip()


def _plain_value(key: str, text: str) -> Any:
    _check_known(key)
    return _value(text, _types(JobOptions)[key], option=key)


def _options_of(group: str, found: Mapping[str, Any]) -> Mapping[str, Any]:
    before = found.get(group, {})
    if not isinstance(before, Mapping):
        raise ConfigurationError(f"{group}={before} contradicts options of {group!r} that are set as well")
    return before


def _check_known(key: str) -> None:
    known = keys()
    if key in known:
        return
    if key == _SECRET:
        raise ConfigurationError(
            "a secret can't be set here",
            detail="everyone on this machine sees the options of a running program",
            hint="--set checkpoints.secret_file=…, a file that only you can read",
        )
    if key in _GROUPS:
        own = ", ".join(each for each in known if each.startswith(f"{key}."))
        raise ConfigurationError(f"{key!r} has options of its own", hint=f"set one of {own}")
    nearest = [each for each in known if each.endswith(f".{key}")] or get_close_matches(key, known, n=1)
    raise ConfigurationError(
        f"there is no option {key!r}",
        hint=f"did you mean {nearest[0]!r}?" if nearest else f"the options are {', '.join(known)}",
    )


def _restarts() -> dict[str, Any]:
    return {name: getattr(restart, name) for name in restart.__all__}


def _restart(texts: Mapping[str, str]) -> dict[str, Any]:
    """`restart=fixed_delay restart.attempts=5`: the functions of `cutwater.restart`, and their parameters."""
    own = {key.partition(".")[2]: text for key, text in texts.items() if key.startswith("restart.")}
    makers = _restarts()
    if "restart" not in texts:
        if own:
            raise ConfigurationError(
                f"'restart.{next(iter(own))}' needs to know which strategy is meant",
                hint=f"add --set restart=…: {', '.join(makers)}",
            )
        return {}
    name = texts["restart"]
    if name not in makers:
        nearest = get_close_matches(name, makers, n=1)
        raise ConfigurationError(
            f"there is no restart strategy {name!r}",
            hint=f"did you mean {nearest[0]!r}?" if nearest else f"choose one of {', '.join(makers)}",
        )
    types = _types(makers[name])
    types.pop("return")
    for parameter in own:
        if parameter not in types:
            nearest = get_close_matches(parameter, types, n=1)
            raise ConfigurationError(
                f"the restart strategy {name!r} has no option {parameter!r}",
                hint=f"did you mean {nearest[0]!r}?" if nearest else f"it has {', '.join(types) or 'none'}",
            )
    given = {key: _value(text, types[key], option=f"restart.{key}") for key, text in own.items()}
    return {"restart": makers[name](**given)}


def _types(of: Any) -> dict[str, Any]:
    return get_type_hints(of)


def _value(text: str, hint: Any, *, option: str) -> Any:
    """The text as what the option takes; whether it is a good value, the option's class says."""
    kinds = get_args(hint) or (hint,)
    if NoneType in kinds and text.lower() == "none":
        return None
    if bool in kinds:
        if text.lower() not in _YES + _NO:
            raise ConfigurationError(f"{option} is true or false, not {text!r}")
        return text.lower() in _YES
    for number in (int, float):
        if number in kinds:
            try:
                return number(text)
            except ValueError:
                if str not in kinds:
                    raise ConfigurationError(f"{option} must be a number, not {text!r}") from None
    return text


def _changed(kind: type[Any], current: Any, given: Mapping[str, Any]) -> Any:
    if not isinstance(current, kind):
        return kind(**given)
    if kind is Checkpoints:
        given = _consistent(current, given)
    return replace(current, **given)


def _consistent(current: Checkpoints, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is given counts, and what was worked out from something else that the program said is worked out again."""
    found = dict(given)
    turns_on_or_off = not current.enabled or found.get("mode") == "none" or found.get("every", "") is None
    if turns_on_or_off and {"mode", "every"} & found.keys():
        found = {"mode": "default", "every": "default", **found}
    if "secret_file" in found:
        found["secret"] = None
    return found

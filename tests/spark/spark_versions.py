"""`python -m tests.spark.spark_versions [4.0 4.1 …]`: does Cutwater do what it says on each version of Spark?

Each version lives in a virtual environment of its own under `build/spark`, which pip fills as it does for users: with
the newest packages that Cutwater's and this PySpark's requirements allow. `--install` makes the environments only.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from servers.packages import NotInstallable, run

from cutwater.deploy.spark_versions import CONNECT, DATA_SOURCES, Feature, number_of

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "build" / "spark"
READY = ".requirements"
VERSIONS = ("3.5", "4.0", "4.1", "4.2", "4.3")
#: What tests/spark imports besides.
TOOLS = ("pytest>=8.3", "pytest-timeout>=2.3", "hypothesis>=6.130", "psutil>=5.9")

#: A use of PySpark → the tests of this folder that make it.
USES: Mapping[str, tuple[str, ...]] = {
    "a session of the user's": ("test_own_sessions.py::test_slots_on_this_machine_run_the_python_of_the_script",),
    "embedded session, slots killed": (
        "test_slot_pool.py::test_a_killed_slot_is_noticed_at_once_and_replaced",
        "test_slot_pool.py::test_stopping_cancels_slots_that_wait_for_a_core",
    ),
    "exactly once, slot killed": ("test_exactly_once.py::test_a_killed_python_worker[local[4]]",),
    "exactly once, executor killed": ("test_exactly_once.py::test_a_killed_executor[local-cluster[2,2,1024]]",),
    "exactly once, driver killed": ("test_driver_death.py",),
    "modules travel to executors": ("test_deployments.py::test_modules_of_the_user_travel_with_the_job",),
    "DataFrame as source": (
        "test_deployments.py::test_a_dataframe_is_a_source",
        "test_deployments.py::test_a_dataframe_that_spark_cannot_compute_fails_the_job",
    ),
    "DataFrame per epoch as sink": (
        "test_spark_ends.py::test_every_row_reaches_the_function_in_one_epoch_when_slots_are_killed",
    ),
    "streaming DataFrame as source": (
        "test_spark_ends.py::test_every_row_of_a_streaming_dataframe_arrives_once_when_slots_are_killed",
    ),
    "Python data sources": (
        "test_python_data_sources.py::test_python_data_sources_read_and_write_each_row_once_when_slots_are_killed",
    ),
    "state as a table": (
        "test_state_table.py::test_one_query_over_a_savepoint_gives_the_answer_of_the_job[rocksdb]",
        "test_state_table.py::test_a_job_goes_on_from_a_corrected_table",
    ),
    "Spark Connect": ("test_deployments.py::test_a_job_on_spark_connect_survives_a_kill",),
}
#: What older versions lack: there, a test says that it is refused, or there is nothing to run.
FEATURES: Mapping[str, Feature] = {
    "Python data sources": DATA_SOURCES,
    "state as a table": DATA_SOURCES,
    "Spark Connect": CONNECT,
}
REFUSALS: Mapping[str, tuple[str, ...]] = {
    "Python data sources": ("test_spark_versions.py::test_a_data_source_is_refused_by_a_spark_that_has_none",),
}
LACKING = "lacking"
SIGNS = {"passed": "✓", LACKING: "–"}
#: What `make test` tries on the oldest version.
BRIEF = (
    "a session of the user's",
    "exactly once, slot killed",
    "DataFrame as source",
    "DataFrame per epoch as sink",
)


def python_of(version: str) -> Path | None:
    """The Python of its environment; None: it was not made."""
    folder = FOLDER / version
    made = (folder / READY).exists() and (folder / READY).read_text() == _requirements(version)
    return folder / "bin" / "python" if made else None


def install(version: str) -> Path:
    """Takes a minute or two, once: PySpark is 430 MB. Raises `NotInstallable`."""
    there = python_of(version)
    if there is not None:
        return there
    folder = FOLDER / version
    python = folder / "bin" / "python"
    if not python.exists():
        run(sys.executable, "-m", "venv", folder)
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *_packages(version))
    (folder / READY).write_text(_requirements(version))
    return python


def outcomes(version: str, uses: Iterable[str]) -> dict[str, str]:
    """Use → "passed", or what went wrong."""
    python, uses = install(version), list(uses)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        chosen = {use: tests_of(use, version) for use in uses}
        tests = [f"tests/spark/{test}" for use in uses for test in chosen[use]]
        # No -n: each test has a Spark of its own. The packages of this process must not shadow those of the version.
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        options = ["-q", "-p", "no:cacheprovider", "--tb=short", "-o", "junit_family=xunit1", f"--junitxml={report}"]
        command = [python, "-m", "pytest", *options, *tests]
        done = subprocess.run(command, cwd=REPOSITORY, env=variables, stdout=sys.stderr)
        found = read_report(report) if report.exists() else {}
    missing = f"did not run: pytest ended with {done.returncode}"
    results = {use: _worst(found, chosen[use]) or missing for use in uses if chosen[use]}
    passed = {use: LACKING if lacks(version, use) else "passed" for use in uses}
    return {use: passed[use] if results.get(use, "passed") == "passed" else results[use] for use in uses}


def lacks(version: str, use: str) -> bool:
    return use in FEATURES and number_of(version) < FEATURES[use].since


def tests_of(use: str, version: str) -> tuple[str, ...]:
    return REFUSALS.get(use, ()) if lacks(version, use) else USES[use]


def read_report(path: Path) -> dict[tuple[str, str], str]:
    """Module and name of each test → its outcome."""
    found = {}
    for case in ElementTree.parse(path).iter("testcase"):
        wrong = [problem for kind in ("failure", "error", "skipped") for problem in case.findall(kind)]
        outcome = f"{wrong[0].tag}: {wrong[0].get('message', '').splitlines()[0][:150]}" if wrong else "passed"
        found[case.get("classname", "").rpartition(".")[2], case.get("name", "")] = outcome
    return found


def versions_in(python: Path) -> dict[str, str]:
    """What pip has chosen."""
    names = ("pyspark", "pyarrow", "pandas", "numpy", "numba")
    code = f"from importlib.metadata import version; print(*map(version, {names!r}))"
    said = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
    return dict(zip(names, said.split(), strict=True))


def _worst(found: Mapping[tuple[str, str], str], tests: Sequence[str]) -> str:
    """The first that did not pass; an empty text when none was run."""
    outcomes = [
        outcome
        for test in tests
        for (module, name), outcome in found.items()
        if module == test.partition("::")[0].removesuffix(".py") and test.partition("::")[2] in ("", name)
    ]
    return next((outcome for outcome in outcomes if outcome != "passed"), outcomes[0] if outcomes else "")


def _packages(version: str) -> list[str]:
    # The extra is named with the version, or pip looks for it through all newer versions first, at 430 MB each.
    extra = "" if lacks(version, "Spark Connect") else "[connect]"
    return ["-e", f"{REPOSITORY}[tls]", f"pyspark{extra}=={version}.*", *TOOLS]


def _requirements(version: str) -> str:
    """With the lines of pyproject.toml that decide what pip installs."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return "\n".join([*_packages(version), *project["dependencies"], *project["optional-dependencies"]["tls"]])


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.spark.spark_versions", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("versions", nargs="*", metavar="version", help=f"of {', '.join(VERSIONS)}; without any: all")
    parser.add_argument("--install", action="store_true", help="make the environments, and run nothing")
    parser.add_argument("--oldest", action="store_true", help="only the oldest version")
    options = parser.parse_args()
    chosen = VERSIONS[:1] if options.oldest else options.versions or VERSIONS
    unknown = [version for version in options.versions if version not in VERSIONS]
    if unknown:
        parser.error(f"no such version: {', '.join(unknown)}")
    console = Console(highlight=False, soft_wrap=True)
    results: dict[str, dict[str, str]] = {}
    for version in chosen:
        try:
            python = install(version)
        except NotInstallable as problem:
            console.print(f"Spark {version} can't be had: {problem}", markup=False)
            results[version] = dict.fromkeys(USES, f"not installed: {problem}")
            continue
        console.print(" ".join(f"{name} {number}" for name, number in versions_in(python).items()))
        if not options.install:
            results[version] = outcomes(version, USES)
    if options.install:
        return 0
    show(results, console)
    return int(any(outcome not in SIGNS for each in results.values() for outcome in each.values()))


def show(results: Mapping[str, Mapping[str, str]], console: Console) -> None:
    table = Table("", *results)
    for use in USES:
        table.add_row(use, *(SIGNS.get(each[use], "✗") for each in results.values()))
    console.print(table)
    for version, each in results.items():
        for use, outcome in each.items():
            if outcome not in SIGNS:
                console.print(f"{version}, {use}: {outcome}", markup=False)


if __name__ == "__main__":
    sys.exit(main())

"""`cutwater state`: what is in snapshots, is it whole, and what is left over?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.filesize import decimal as shown_size
from rich.markup import escape
from rich.table import Table

from cutwater.cli.showing import AsJson

if TYPE_CHECKING:
    import pyarrow as pa

    from cutwater.inspection.snapshots import OpenSnapshot, StateSummary
    from cutwater.inspection.storages import FoundSnapshot

app = typer.Typer(help="Look into snapshots: checkpoints and savepoints.", no_args_is_help=True)

Snapshot = Annotated[str, typer.Argument(help="The folder of a checkpoint (…/chk-7) or a savepoint; a path or URL.")]
Operator = Annotated[str, typer.Argument(help="The operator's uid.")]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Unpickle values of any class: runs whatever code the snapshot's author put there."),
]
State = Annotated[str, typer.Argument(help="The name of the state.")]


@app.command("list")
def list_(
    path: Annotated[str, typer.Argument(help="A snapshot: its states. Any other folder: the snapshots below it.")],
    *,
    as_json: AsJson = False,
) -> None:
    """The snapshots below a folder, or the states in a snapshot."""
    from cutwater.inspection.storages import snapshots_below

    console = Console()
    found = snapshots_below(path)
    if len(found) == 1 and found[0].folder == "" and found[0].snapshot is not None:
        states = found[0].snapshot
        _print_json([_plain_state(one) for one in states.states()]) if as_json else console.print(_states(states))
        return
    if as_json:
        _print_json([_plain_snapshot(one) for one in found])
        return
    table = Table("snapshot", "kind", "job", "taken at", "tasks", "size", "new", box=None)
    for one in found:
        if one.snapshot is None:
            table.add_row(_cell(one.folder), f"[red]{_cell(one.problem)}[/]")
            continue
        manifest = one.snapshot.manifest
        size, new = shown_size(manifest.size_bytes), shown_size(manifest.new_bytes)
        tasks = str(len(manifest.tasks))
        shown = map(_cell, (one.folder, manifest.kind, manifest.job_name, manifest.created_at))
        table.add_row(*shown, tasks, size, new)
    console.print(table if found else f"there is no snapshot below {path}")


@app.command()
def show(
    snapshot: Snapshot,
    operator: Operator,
    state: State,
    *,
    rows: Annotated[int, typer.Option(min=1, help="How many rows.")] = 20,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Some rows of a state."""
    if as_json:
        found = (row for batch in _batches(snapshot, operator, state, trust=trust) for row in batch.to_pylist())
        _print_json([row for row, _ in zip(found, range(rows), strict=False)])
        return
    table = Table(box=None)
    shown = 0
    for batch in _batches(snapshot, operator, state, trust=trust):
        if not table.columns:
            for name in batch.schema.names:
                table.add_column(_cell(name))
        for row in batch.slice(0, rows - shown).to_pylist():
            table.add_row(*(_cell(value) for value in row.values()))
            shown += 1
        if shown >= rows:
            break
    Console().print(table if shown else "no rows")


@app.command()
def verify(
    path: Annotated[str, typer.Argument(help="A snapshot, or a folder with snapshots below it.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Is every file of every snapshot there, and as it was written? Reads all of them."""
    from cutwater.inspection.storages import problem_of, snapshots_below

    console = Console()
    damaged = 0
    found = snapshots_below(path)
    told: list[dict[str, Any]] = []
    for one in found:
        problem = one.problem if one.snapshot is None else problem_of(one.snapshot)
        if problem is None and one.snapshot is not None:
            problem = _problem_in_rows(one.snapshot)
        damaged += problem is not None
        told.append({"snapshot": one.folder or path, "whole": problem is None, "problem": problem})
        if not as_json:
            words = "[green]whole[/]" if problem is None else f"[red]{escape(problem)}[/]"
            console.print(f"{escape(one.folder or path)}: {words}")
    if as_json:
        _print_json(told)
    elif not found:
        console.print(f"there is no snapshot below {path}")
    if damaged or not found:
        raise typer.Exit(1)


@app.command()
def diff(
    before: Snapshot,
    after: Snapshot,
    operator: Operator,
    state: State,
    *,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """How many rows of a state were added, removed and changed between two snapshots, and which."""
    old, new = (_by_identity(path, operator, state, trust=trust) for path in (before, after))
    console = Console()
    added, removed = new.keys() - old.keys(), old.keys() - new.keys()
    changed = {identity for identity in new.keys() & old.keys() if new[identity] != old[identity]}
    if as_json:
        sides = {"added": added, "removed": removed, "changed": changed}
        _print_json(
            {
                side: [{"key": each, "before": old.get(each), "after": new.get(each)} for each in sorted(identities)]
                for side, identities in sides.items()
            }
        )
        return
    for sign, style, identities in (("+", "green", added), ("-", "red", removed), ("~", "yellow", changed)):
        for identity in sorted(identities)[:20]:
            values = " → ".join(_cell(side[identity]) for side in (old, new) if identity in side)
            console.print(f"[{style}]{sign}[/]", f"{_cell(identity)}  {values}", highlight=False)
    console.print(f"{len(added)} added, {len(removed)} removed, {len(changed)} changed of {len(old)}")


@app.command()
def export(
    snapshot: Snapshot,
    operator: Operator,
    state: State,
    output: Annotated[Path, typer.Argument(help="A Parquet file that is not there yet.")],
    *,
    trust: Trust = False,
) -> None:
    """Writes a state as one Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from cutwater.errors import UserError

    if output.exists():
        raise UserError(f'"{output}" is there already', hint="choose another name")
    batches = [pa.Table.from_batches([batch]) for batch in _batches(snapshot, operator, state, trust=trust)]
    if not batches:
        raise UserError("the state has no rows")
    table = pa.concat_tables(batches, promote_options="permissive")
    pq.write_table(table, output)
    Console().print(f"{table.num_rows} rows in {output}")


@app.command()
def sign(
    savepoint: Annotated[str, typer.Argument(help="The folder of a savepoint that you trust; a path or URL.")],
    *,
    secret_file: Annotated[str, typer.Option(help="The file that Checkpoints(secret_file=…) names.")],
) -> None:
    """Signs a savepoint, so that a job with this secret restores it."""
    from cutwater.inspection.signing import sign
    from cutwater.signatures import secret_from_file

    manifest = sign(savepoint, secret_from_file(secret_file))
    Console(highlight=False).print(f"{savepoint}: signed, with {len(list(manifest.files))} files")


@app.command()
def dispose(
    snapshots: Annotated[
        list[str], typer.Argument(help="Folders of savepoints or checkpoints that are no longer needed.")
    ],
) -> None:
    """Deletes snapshots, and the files that only they name. No job may be running that owns or restores them."""
    from cutwater.snapshots.disposal import dispose
    from cutwater.snapshots.storage import absolute_url

    for path in snapshots:
        Console(highlight=False).print(f"{path}: {dispose(absolute_url(path))} files deleted")


@app.command()
def gc(
    path: Annotated[str, typer.Argument(help="The storage of checkpoints, or the folder of one job. No job may run.")],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted.")] = False,
    as_json: AsJson = False,
) -> None:
    """Deletes files that no snapshot names: what drivers and workers that died have left behind."""
    from cutwater.inspection.storages import delete, orphans_below

    console = Console(highlight=False)
    orphans = orphans_below(path)
    if as_json:
        _print_json([{"path": orphan.path, "size_bytes": orphan.size_bytes} for orphan in orphans])
        if not dry_run:
            delete(path, orphans)
        return
    for orphan in orphans:
        console.print(f"{orphan.path}  {shown_size(orphan.size_bytes)}")
    size = shown_size(sum(orphan.size_bytes for orphan in orphans))
    if dry_run:
        console.print(f"{len(orphans)} files of {size} would be deleted")
        return
    delete(path, orphans)
    console.print(f"{len(orphans)} files of {size} deleted")


def _states(snapshot: OpenSnapshot) -> Table:
    table = Table("operator", "state", "kind", "form", "tasks", "size", box=None)
    for one in snapshot.states():
        size = "" if one.size_bytes is None else shown_size(one.size_bytes)
        table.add_row(*map(_cell, (one.operator, one.name, one.kind, one.form)), str(one.tasks), size)
    return table


def _plain_state(one: StateSummary) -> dict[str, Any]:
    return {
        "operator": one.operator,
        "state": one.name,
        "kind": one.kind,
        "form": one.form,
        "tasks": one.tasks,
        "size_bytes": one.size_bytes,
    }


def _plain_snapshot(one: FoundSnapshot) -> dict[str, Any]:
    if one.snapshot is None:
        return {"snapshot": one.folder, "problem": one.problem}
    manifest = one.snapshot.manifest
    return {
        "snapshot": one.folder,
        "kind": manifest.kind,
        "job": manifest.job_name,
        "taken_at": manifest.created_at,
        "tasks": len(manifest.tasks),
        "size_bytes": manifest.size_bytes,
        "new_bytes": manifest.new_bytes,
    }


def _print_json(value: Any) -> None:
    """State may be of any type: what JSON has no word for is written as text."""
    typer.echo(json.dumps(value, indent=2, default=str, ensure_ascii=False))


def _batches(path: str, operator: str, state: str, *, trust: bool) -> Iterator[pa.RecordBatch]:
    from cutwater.inspection.rows import read, readable
    from cutwater.inspection.snapshots import open_snapshot

    for part in open_snapshot(path).parts_of(operator, state):
        yield from map(readable, read(part, trust=trust))


def _by_identity(path: str, operator: str, state: str, *, trust: bool) -> dict[str, object]:
    found: dict[str, object] = {}
    for batch in _batches(path, operator, state, trust=trust):
        names = [name for name in ("key", "namespace", "item") if name in batch.schema.names]
        for row in batch.to_pylist():
            identity = " ".join(str(row.pop(name)) for name in names)
            row.pop("key_group", None)
            found[identity] = next(iter(row.values())) if len(row) == 1 else row
    return found


def _problem_in_rows(snapshot: OpenSnapshot) -> str | None:
    from cutwater.errors import CutwaterError
    from cutwater.inspection.rows import read

    try:
        for summary in snapshot.states():
            for part in snapshot.parts_of(summary.operator, summary.name):
                for _ in read(part):
                    pass
    except CutwaterError as error:
        return f"{error.fact}: {error.detail}"
    return None


def _cell(value: object) -> str:
    """A stranger's text can neither set colours nor steer the terminal."""
    text = str(value)
    text = text if len(text) <= 100 else text[:99] + "…"
    return escape("".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text))

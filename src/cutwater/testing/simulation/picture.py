"""Who waits for what? For people who look at a run that got stuck."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cutwater.testing.simulation.run import Run


def describe(run: Run) -> str:
    """Every living process and what it is about."""
    lines = [f"at {run.world.now:.3f} s, after {run.world.events} events"]
    for node in run.cluster.nodes:
        if not node.process.alive:
            continue
        coordinator = node.coordinator
        kind = "official" if node.official else "zombie"
        status = coordinator.status
        lines.append(f"{node.process.name} ({kind}) is {status.state}, attempt {status.attempt}")
        if status.recoveries:
            lines.append(f"  it failed last because: {status.recoveries[-1].cause}")
        machine = coordinator._checkpoints._machine
        for pending in machine._pending.values():
            waiting = ", ".join(sorted(map(str, pending.waiting))) or "its manifest"
            lines.append(f"  checkpoint {pending.checkpoint} ({pending.kind}) waits for {waiting}")
        for name, (moment, _) in coordinator._deadlines.items():
            lines.append(f"  {name} at {moment:.3f} s")
        for slot in node.slots.values():
            lines += _slot(slot)
    return "\n".join(lines)


def _slot(node: object) -> list[str]:
    slot, process = node.slot, node.process  # type: ignore[attr-defined]
    if not process.alive:
        return [f"  {process.name} is gone"]
    deployment = slot._deployment
    if deployment is None:
        return [f"  {process.name} has no tasks"]
    lines = [f"  {process.name} has attempt {deployment.attempt}, {len(slot._running)} tasks run"]
    for task in deployment.tasks.values():
        gate = task.inputs
        what = str(task.lifecycle.state) if task._ended else f"aligns {task._aligner.aligning}"
        lines.append(
            f"    {task.id} {what}, blocked {sorted(gate._blocked)}, ended {sorted(gate._ended)} of {len(gate.ports)}, "
            f"{len(gate)} elements wait"
        )
    return lines

"""How will the job run, and what does it promise?

A plan reads as text (`print(plan)`), and shows itself as a picture in a notebook.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cutwater.config import JobOptions
from cutwater.durations import describe_seconds
from cutwater.graph.drawing import draw, edge_label, receivers_with_several_ports
from cutwater.graph.guarantees import PathGuarantee, by_sink
from cutwater.graph.model import ExecutionGraph, LogicalNode, Vertex


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """The execution graph of a job with everything worth knowing about it before it starts."""

    name: str
    graph: ExecutionGraph
    options: JobOptions
    guarantees: tuple[PathGuarantee, ...]
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """The text, too: what a Python console shows of `env.explain()`."""
        return explain(self)

    def svg(self) -> str:
        """The picture, as an SVG document."""
        return draw(self.graph, title=self.name, guarantees=self.guarantees)

    def save_svg(self, path: str | Path) -> None:
        """Writes the picture to a file."""
        Path(path).write_text(self.svg(), encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg()


def explain(plan: Plan) -> str:
    """The plan as text."""
    numbers = {vertex.uid: number for number, vertex in enumerate(plan.graph.vertices, start=1)}
    lines = [_headline(plan)]
    for vertex in plan.graph.vertices:
        lines += ["", *_vertex_lines(vertex, plan.graph, numbers)]
    if plan.graph.refusals:
        lines += ["", "not chained"]
        lines += [f"  {one.sender} → {one.receiver}: {one.reason}" for one in plan.graph.refusals]
    if plan.guarantees:
        lines += ["", "end to end"]
        lines += [
            f"  {', '.join(names)} → {path.sink}: {path.guarantee.words}; {path.reason}"
            for names, path in by_sink(plan.guarantees)
        ]
    if plan.warnings:
        lines += ["", "warnings", *(f"  {warning}" for warning in plan.warnings)]
    return "\n".join(lines)


def _headline(plan: Plan) -> str:
    checkpoints = plan.options.checkpoints
    if checkpoints.every_seconds is None:
        words = "no checkpoints"
    else:
        mode = checkpoints.checkpoint_mode.replace("_", " ")
        words = f"checkpoints {mode} every {describe_seconds(checkpoints.every_seconds)}"
    slots = _count(plan.graph.slots_needed, "slot")
    return f'job "{plan.name}": {_count(len(plan.graph.vertices), "chain")}, {slots}, {words}'


def _vertex_lines(vertex: Vertex, graph: ExecutionGraph, numbers: dict[str, int]) -> list[str]:
    lines = [f"{numbers[vertex.uid]}. {vertex.name}  [{_count(vertex.parallelism, 'task')}]"]
    details = _columns([_operator_columns(node) for node in vertex.operators])
    lines += [f"     {line}" for line in details]
    several = receivers_with_several_ports(graph)
    for edge in graph.edges:
        if edge.sender == vertex.uid:
            sender = vertex.operators[edge.sender_operator].uid
            origin = f"{sender} " if len(vertex.operators) > 1 else ""
            label = edge_label(edge, several_ports=edge.receiver in several)
            lines.append(f"   {origin}→ {numbers[edge.receiver]}. {edge.receiver}  ({label})")
    return lines


def _operator_columns(node: LogicalNode) -> tuple[str, ...]:
    uid = node.uid if node.uid_is_explicit else f"{node.uid} (generated uid)"
    return str(node.kind), node.name, uid, node.written_at


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

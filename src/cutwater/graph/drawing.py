"""What does the dataflow look like?

One rounded box per chain with its operators inside, arrows labelled with how records are spread. The result is one
self-contained SVG document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from cutwater.graph.guarantees import PathGuarantee, by_sink
from cutwater.graph.layout import Box, Layout, Link, Point, lay_out
from cutwater.graph.model import ExecutionEdge, ExecutionGraph, LogicalNode, NodeKind, Partitioning, Vertex

_MARGIN = 28.0
_HEADER = 30.0
_ROW = 44.0
_ROW_GAP = 14.0
_PADDING = 12.0
_INDENT = 22.0
_PORT_GAP = 20.0
_EXIT_GAP = 6.0
_NAME_LENGTH_MAX = 40
_LETTER_WIDTH = 7.6  # of the name font; a little too wide is better than text over the edge
_SMALL_LETTER_WIDTH = 6.3

_STYLE = """
  text { font-family: Inter, "Helvetica Neue", Helvetica, Arial, "DejaVu Sans", sans-serif; fill: #1f2933; }
  .title { font-size: 16px; font-weight: 600; }
  .name { font-size: 13px; font-weight: 500; }
  .small { font-size: 10.5px; fill: #6b7785; }
  .label { font-size: 10.5px; fill: #3e4c59; }
  .chain { fill: #f7f9fb; stroke: #c3ccd6; }
  .operator { fill: #ffffff; stroke: #d9e0e7; }
  .arrow { fill: none; stroke: #7b8794; stroke-width: 1.4; }
  .call { fill: none; stroke: #b3bec9; stroke-width: 1.4; }
  .source { fill: #2a7f76; } .step { fill: #5a6b7f; } .sink { fill: #b7791f; }
"""


@dataclass(frozen=True, slots=True)
class _Row:
    """An operator inside its chain's box."""

    node: LogicalNode
    depth: int
    #: The row that calls it, and with which side output; None for the head.
    caller: int | None
    tag: str | None


def draw(graph: ExecutionGraph, *, title: str = "", guarantees: Sequence[PathGuarantee] = ()) -> str:
    """An SVG document."""
    rows = {vertex.uid: _rows(vertex) for vertex in graph.vertices}
    boxes = [_box(vertex, rows[vertex.uid], graph.edges) for vertex in graph.vertices]
    as_written = [float(edge.index) for edge in graph.edges]
    layout = lay_out(boxes, _links(graph, rows, exit_order=as_written, entry_order=as_written))
    # Arrows that share an end leave and arrive in the order of their other ends, which is known only now.
    exits, entries = [route[1][1] for route in layout.routes], [route[-2][1] for route in layout.routes]
    layout = lay_out(boxes, _links(graph, rows, exit_order=exits, entry_order=entries))

    top = _MARGIN + (30.0 if title else 0.0)
    promises = [f"{', '.join(names)} → {path.sink}: {path.guarantee.words}" for names, path in by_sink(guarantees)]
    below = top + layout.height + 22.0
    texts = [title, *promises]
    width = max(layout.width, *(len(text) * _LETTER_WIDTH for text in texts)) + 2 * _MARGIN
    height = below + 17.0 * len(promises) + (_MARGIN / 2 if promises else 0.0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(title or "dataflow", quote=True)}">',
        f"<style>{_STYLE}</style>",
        '<defs><marker id="cutwater-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0.5 0.8 L7 4 L0.5 7.2 Z" fill="#7b8794"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="10" fill="#ffffff"/>',
    ]
    if title:
        parts.append(_text(title, _MARGIN, _MARGIN + 8, "title"))
    parts.append(f'<g transform="translate({_MARGIN:.1f} {top:.1f})">')
    parts += [f'<path class="arrow" d="{_curve(route)}" marker-end="url(#cutwater-head)"/>' for route in layout.routes]
    for vertex, box, corner in zip(graph.vertices, boxes, layout.corners, strict=True):
        parts += _draw_chain(vertex, rows[vertex.uid], box, corner)
    parts += _draw_labels(graph, layout)
    parts.append("</g>")
    parts += [_text(line, _MARGIN, below + 8 + 17 * index, "small") for index, line in enumerate(promises)]
    parts.append("</svg>")
    return "\n".join(parts)


def edge_label(edge: ExecutionEdge, *, several_ports: bool) -> str:
    """`hash by word`, `late: forward`, `broadcast to input 2`."""
    words = str(edge.partitioning)
    if edge.partitioning is Partitioning.HASH and edge.key is not None:
        words += f" by {edge.key.describe()}"
    if edge.tag is not None:
        words = f"{edge.tag}: {words}"
    return f"{words} to input {edge.port + 1}" if several_ports else words


def receivers_with_several_ports(graph: ExecutionGraph) -> frozenset[str]:
    """Vertices whose inputs must be told apart."""
    return frozenset(edge.receiver for edge in graph.edges if edge.port > 0)


def _rows(vertex: Vertex) -> list[_Row]:
    """The tree of calls, callers first, each branch in one piece; only forks indent."""
    rows: list[_Row] = []
    waiting: list[tuple[int, int, int | None, str | None]] = [(0, 0, None, None)]
    while waiting:
        operator, depth, caller, tag = waiting.pop()
        rows.append(_Row(vertex.operators[operator], depth, caller, tag))
        here = len(rows) - 1
        calls = [call for call in vertex.calls if call.sender == operator]
        deeper = depth + (len(calls) > 1)
        waiting += [(call.receiver, deeper, here, call.tag) for call in reversed(calls)]
    return rows


def _box(vertex: Vertex, rows: Sequence[_Row], edges: Sequence[ExecutionEdge]) -> Box:
    widths = [
        row.depth * _INDENT
        + max(len(_shortened(row.node.name)) * _LETTER_WIDTH, len(_details(row)) * _SMALL_LETTER_WIDTH)
        for row in rows
    ]
    inputs = sum(edge.receiver == vertex.uid for edge in edges)
    height = _HEADER + len(rows) * (_ROW + _ROW_GAP) - _ROW_GAP + _PADDING
    return Box(max(150.0, max(widths) + 2 * _PADDING + 34.0), max(height, inputs * _PORT_GAP + 2 * _PADDING))


def _links(
    graph: ExecutionGraph, rows: dict[str, list[_Row]], *, exit_order: Sequence[float], entry_order: Sequence[float]
) -> list[Link]:
    places = {vertex.uid: index for index, vertex in enumerate(graph.vertices)}
    several = receivers_with_several_ports(graph)
    links = []
    for edge in graph.edges:
        uid = graph.vertices[places[edge.sender]].operators[edge.sender_operator].uid
        row = next(index for index, row in enumerate(rows[edge.sender]) if row.node.uid == uid)
        fellows = [
            other.index
            for other in graph.edges
            if (other.sender, other.sender_operator) == (edge.sender, edge.sender_operator)
        ]
        siblings = [other.index for other in graph.edges if other.receiver == edge.receiver]
        exit_shift = _fan(edge.index, fellows, exit_order, gap=_EXIT_GAP)
        entry_shift = _fan(edge.index, siblings, entry_order, gap=_PORT_GAP)
        links.append(
            Link(
                sender=places[edge.sender],
                receiver=places[edge.receiver],
                exit_offset=_row_middle(row) + exit_shift,
                entry_offset=max(_row_middle(0) + entry_shift, 12.0),
                label_width=len(edge_label(edge, several_ports=edge.receiver in several)) * _SMALL_LETTER_WIDTH,
            )
        )
    return links


def _fan(index: int, sharing: Sequence[int], order: Sequence[float], *, gap: float) -> float:
    """Arrows that share an end are spread around its middle."""
    ranked = sorted(sharing, key=lambda other: (order[other], other))
    return (ranked.index(index) - (len(ranked) - 1) / 2) * gap


def _row_top(row: int) -> float:
    return _HEADER + row * (_ROW + _ROW_GAP)


def _row_middle(row: int) -> float:
    return _row_top(row) + _ROW / 2


def _draw_chain(vertex: Vertex, rows: Sequence[_Row], box: Box, corner: Point) -> list[str]:
    tasks = "1 task" if vertex.parallelism == 1 else f"{vertex.parallelism} tasks"
    parts = [
        f'<g transform="translate({corner[0]:.1f} {corner[1]:.1f})"><title>{escape(vertex.name)}</title>',
        f'<rect class="chain" width="{box.width:.1f}" height="{box.height:.1f}" rx="12"/>',
        _text(tasks, _PADDING + 2, 20, "small"),
    ]
    for index, row in enumerate(rows):
        parts += _draw_call(rows, index)
        parts += _draw_operator(row, _PADDING + row.depth * _INDENT, _row_top(index), box.width - _PADDING)
    return [*parts, "</g>"]


def _draw_call(rows: Sequence[_Row], index: int) -> list[str]:
    """A short line down to the next row, or an elbow from the trunk of a fork."""
    row = rows[index]
    if row.caller is None:
        return []
    caller = rows[row.caller]
    x = _PADDING + caller.depth * _INDENT + 11
    start = _row_top(row.caller) + _ROW
    if caller.depth == row.depth:
        return [f'<path class="call" d="M{x:.1f} {start:.1f} V{_row_top(index):.1f}"/>']
    middle = _row_middle(index)
    return [f'<path class="call" d="M{x:.1f} {start:.1f} V{middle - 6:.1f} q0 6 6 6 H{x + _INDENT - 11:.1f}"/>']


def _draw_operator(row: _Row, left: float, top: float, right: float) -> list[str]:
    colour = {NodeKind.SOURCE: "source", NodeKind.OPERATOR: "step", NodeKind.SINK: "sink"}[row.node.kind]
    return [
        f"<g><title>{escape(row.node.name)}{escape(' · ' + row.node.written_at if row.node.written_at else '')}</title>"
        f'<rect class="operator" x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{_ROW:.1f}" rx="7"/>',
        f'<rect class="{colour}" x="{left + 9:.1f}" y="{top + 12:.1f}" width="4" height="{_ROW - 24:.1f}" rx="2"/>',
        _text(_shortened(row.node.name), left + 22, top + 19, "name"),
        _text(_details(row), left + 22, top + 34, "small") + "</g>",
    ]


def _draw_labels(graph: ExecutionGraph, layout: Layout) -> list[str]:
    """Each in the middle of its arrow's first gap, moved down where another label is already there."""
    several = receivers_with_several_ports(graph)
    parts: list[str] = []
    placed: list[tuple[float, float, float]] = []
    for edge, route in zip(graph.edges, layout.routes, strict=True):
        label = edge_label(edge, several_ports=edge.receiver in several)
        half = len(label) * _SMALL_LETTER_WIDTH / 2 + 4
        (left, start), (right, end) = route[0], route[1]
        x, y = (left + right) / 2, (start + end) / 2
        while any(abs(y - other_y) < 17 and abs(x - other_x) < half + other for other_x, other_y, other in placed):
            y += 4
        placed.append((x, y, half))
        parts.append(
            f'<rect x="{x - half:.1f}" y="{y - 8:.1f}" width="{2 * half:.1f}" height="16" rx="4" fill="#ffffff"/>'
            f'<text class="label" x="{x:.1f}" y="{y + 3.5:.1f}" text-anchor="middle">{escape(label)}</text>'
        )
    return parts


def _curve(route: Sequence[Point]) -> str:
    """S-curves between layers, straight lines through lanes; it ends a little before the box, at the arrow's head."""
    path = f"M{route[0][0]:.1f} {route[0][1]:.1f}"
    for index in range(1, len(route)):
        (left, start), (right, end) = route[index - 1], route[index]
        if index == len(route) - 1:
            right -= 1.5
        if index % 2 == 0:
            path += f" L{right:.1f} {end:.1f}"
        else:
            middle = (left + right) / 2
            path += f" C{middle:.1f} {start:.1f} {middle:.1f} {end:.1f} {right:.1f} {end:.1f}"
    return path


def _text(words: str, x: float, y: float, style: str) -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'


def _details(row: _Row) -> str:
    side = f"{row.tag} · " if row.tag is not None else ""
    return f"{side}{row.node.uid}"


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME_LENGTH_MAX else name[: _NAME_LENGTH_MAX - 1] + "…"

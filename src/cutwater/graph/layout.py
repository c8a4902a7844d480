"""Where does each box of a picture go, and which way does each arrow take?

A layered layout, left to right: a box stands right of everything that it reads from, boxes of a layer are ordered so
that few arrows cross, and moved up and down until arrows are nearly level. An arrow that passes a layer gets a narrow
lane of its own there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_BOX_GAP = 34.0
_LANE_HEIGHT = 18.0
_SWEEPS = 8

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Box:
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Link:
    """An arrow between two boxes, by index; it leaves and arrives at these distances from the boxes' tops."""

    sender: int
    receiver: int
    exit_offset: float
    entry_offset: float
    #: Room that the arrow's label needs between two layers.
    label_width: float


@dataclass(frozen=True, slots=True)
class Layout:
    """Top left corners of the boxes, and for each link the points that it passes, two per gap between layers."""

    corners: tuple[Point, ...]
    routes: tuple[tuple[Point, ...], ...]
    width: float
    height: float


@dataclass(slots=True)
class _Item:
    """What takes up room in a layer: a box, or the lane of a link that passes through."""

    layer: int
    width: float
    height: float
    y: float = 0.0


@dataclass(frozen=True, slots=True)
class _Segment:
    """Part of a link between neighbouring layers, by item index."""

    sender: int
    receiver: int
    exit_offset: float
    entry_offset: float


def lay_out(boxes: Sequence[Box], links: Sequence[Link]) -> Layout:
    """Boxes must be in topological order of the links."""
    layers_of_boxes = _layers(len(boxes), links)
    items = [_Item(layer, box.width, box.height) for layer, box in zip(layers_of_boxes, boxes, strict=True)]
    paths = [_add_lanes(items, link) for link in links]
    segments = [segment for path in paths for segment in path]
    layers: list[list[int]] = [[] for _ in range(max(layers_of_boxes) + 1)]
    for index, item in enumerate(items):
        layers[item.layer].append(index)

    _order(layers, segments)
    _stack(layers, items)
    for sweep in range(_SWEEPS):
        _level(layers, items, segments, forwards=sweep % 2 == 0)
    top = min(item.y for item in items)
    for item in items:
        item.y -= top

    lefts, widths = _columns(layers, items, links, layers_of_boxes)
    corners = tuple((lefts[item.layer] + (widths[item.layer] - item.width) / 2, item.y) for item in items[: len(boxes)])
    routes = []
    for path in paths:
        points: list[Point] = []
        for segment in path:
            sender, receiver = items[segment.sender], items[segment.receiver]
            is_box = segment.sender < len(boxes)
            right = corners[segment.sender][0] + sender.width if is_box else lefts[sender.layer] + widths[sender.layer]
            left = corners[segment.receiver][0] if segment.receiver < len(boxes) else lefts[receiver.layer]
            points += [(right, sender.y + segment.exit_offset), (left, receiver.y + segment.entry_offset)]
        routes.append(tuple(points))
    return Layout(corners, tuple(routes), lefts[-1] + widths[-1], max(item.y + item.height for item in items))


def _layers(count: int, links: Sequence[Link]) -> list[int]:
    """Longest way from a source; then a box without inputs moves right, next to its first reader."""
    layers = [0] * count
    for box in range(count):
        layers[box] = max((layers[link.sender] + 1 for link in links if link.receiver == box), default=0)
    for box in range(count):
        readers = [layers[link.receiver] for link in links if link.sender == box]
        if readers and not any(link.receiver == box for link in links):
            layers[box] = min(readers) - 1
    return layers


def _add_lanes(items: list[_Item], link: Link) -> list[_Segment]:
    path: list[_Segment] = []
    previous, exit_offset = link.sender, link.exit_offset
    for layer in range(items[link.sender].layer + 1, items[link.receiver].layer):
        items.append(_Item(layer, 0.0, _LANE_HEIGHT))
        path.append(_Segment(previous, len(items) - 1, exit_offset, _LANE_HEIGHT / 2))
        previous, exit_offset = len(items) - 1, _LANE_HEIGHT / 2
    path.append(_Segment(previous, link.receiver, exit_offset, link.entry_offset))
    return path


def _order(layers: list[list[int]], segments: Sequence[_Segment]) -> None:
    """Sorts each layer by the mean place of its neighbours, back and forth, which removes most crossings."""
    for sweep in range(_SWEEPS):
        forwards = sweep % 2 == 0
        for here, beside in _neighbouring(layers, forwards=forwards):
            place = {item: float(index) for index, item in enumerate(beside)}
            means = {item: _mean_place(item, place, segments, forwards=forwards) for item in here}
            standing = {item: index for index, item in enumerate(here)}
            here.sort(key=lambda item: (standing[item] if (mean := means[item]) is None else mean, standing[item]))


def _mean_place(item: int, place: Mapping[int, float], segments: Sequence[_Segment], *, forwards: bool) -> float | None:
    """None: no neighbour on that side. An arrow from further down in the same box counts as a little lower."""
    if forwards:
        found = [place[s.sender] + s.exit_offset / 1e4 for s in segments if s.receiver == item and s.sender in place]
    else:
        found = [place[s.receiver] + s.entry_offset / 1e4 for s in segments if s.sender == item and s.receiver in place]
    return sum(found) / len(found) if found else None


def _stack(layers: Sequence[Sequence[int]], items: Sequence[_Item]) -> None:
    for layer in layers:
        y = 0.0
        for index in layer:
            items[index].y = y
            y += items[index].height + _BOX_GAP


def _level(layers: list[list[int]], items: Sequence[_Item], segments: Sequence[_Segment], *, forwards: bool) -> None:
    """Moves the items of each layer to where their arrows would be level, as far as order and room allow."""
    for here, _ in _neighbouring(layers, forwards=forwards):
        wanted = []
        for index in here:
            if forwards:
                levels = [items[s.sender].y + s.exit_offset - s.entry_offset for s in segments if s.receiver == index]
            else:
                levels = [items[s.receiver].y + s.entry_offset - s.exit_offset for s in segments if s.sender == index]
            wanted.append(sum(levels) / len(levels) if levels else items[index].y)
        for index, y in zip(here, _spread(wanted, [items[index].height for index in here]), strict=True):
            items[index].y = y


def _spread(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Places as near as can be to the wanted ones that keep order and gaps: neighbours in conflict move as a block."""
    starts = [0.0]
    for height in heights[:-1]:
        starts.append(starts[-1] + height + _BOX_GAP)
    blocks: list[tuple[float, int]] = []
    for want, start in zip(wanted, starts, strict=True):
        mean, size = want - start, 1
        while blocks and blocks[-1][0] > mean:
            before, before_size = blocks.pop()
            mean = (mean * size + before * before_size) / (size + before_size)
            size += before_size
        blocks.append((mean, size))
    shifts = [mean for mean, size in blocks for _ in range(size)]
    return [shift + start for shift, start in zip(shifts, starts, strict=True)]


def _neighbouring(layers: list[list[int]], *, forwards: bool) -> list[tuple[list[int], list[int]]]:
    """(layer, the one that it follows) in the direction of the sweep."""
    ordered = layers if forwards else layers[::-1]
    return list(zip(ordered[1:], ordered, strict=False))


def _columns(
    layers: Sequence[Sequence[int]], items: Sequence[_Item], links: Sequence[Link], layers_of_boxes: Sequence[int]
) -> tuple[list[float], list[float]]:
    """Left edge and width of each layer; gaps have room for the labels of the arrows that start in them."""
    widths = [max(items[index].width for index in layer) for layer in layers]
    lefts = [0.0]
    for layer, width in enumerate(widths[:-1]):
        labels = [link.label_width for link in links if layers_of_boxes[link.sender] == layer]
        lefts.append(lefts[-1] + width + max(labels, default=0.0) + 56.0)
    return lefts, widths

// Where does each chain of a graph stand? In layers: every sender before its receivers, few crossings.

// Longest way from a source; a source stands right before the first chain that it feeds.
function layersOf(uids, edges) {
  const layer = new Map(uids.map((uid) => [uid, 0]));
  for (const uid of uids) {
    for (const edge of edges) if (edge.receiver === uid) layer.set(uid, Math.max(layer.get(uid), layer.get(edge.sender) + 1));
  }
  for (const uid of [...uids].reverse()) {
    const isSource = !edges.some((edge) => edge.receiver === uid);
    const receivers = edges.filter((edge) => edge.sender === uid).map((edge) => layer.get(edge.receiver));
    if (isSource && receivers.length) layer.set(uid, Math.min(...receivers) - 1);
  }
  return layer;
}

// An edge that passes over a layer gets a place of its own there, so that it crosses no box.
function withBends(uids, edges) {
  const layer = layersOf(uids, edges);
  const layers = Array.from({ length: Math.max(0, ...layer.values()) + 1 }, () => []);
  for (const uid of uids) layers[layer.get(uid)].push(uid);
  const ways = edges.map((edge, number) => {
    const way = [edge.sender];
    for (let at = layer.get(edge.sender) + 1; at < layer.get(edge.receiver); at += 1) {
      const bend = `bend ${number} ${at}`;
      layers[at].push(bend);
      way.push(bend);
    }
    return [...way, edge.receiver];
  });
  return { layers, ways };
}

function ordered(layers, ways) {
  const neighbours = new Map(layers.flat().map((id) => [id, []]));
  for (const way of ways) {
    for (let at = 1; at < way.length; at += 1) {
      neighbours.get(way[at - 1]).push(way[at]);
      neighbours.get(way[at]).push(way[at - 1]);
    }
  }
  const rank = new Map();
  const number = () => layers.forEach((layer) => layer.forEach((id, at) => rank.set(id, at - (layer.length - 1) / 2)));
  number();
  for (let sweep = 0; sweep < 6; sweep += 1) {
    const order = sweep % 2 ? [...layers.keys()].reverse() : [...layers.keys()];
    for (const at of order) {
      const wish = new Map(layers[at].map((id) => [id, mean(neighbours.get(id).map((each) => rank.get(each))) ?? rank.get(id)]));
      layers[at].sort((a, b) => wish.get(a) - wish.get(b));
      number();
    }
  }
  return neighbours;
}

function mean(values) {
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : undefined;
}

// Along: the direction in which records flow. Across: the other one.
// size(uid) gives {along, across}; the answer has a box {along, across, size} for each chain and the points of each edge.
export function placed(uids, edges, { size, gapAlong, gapAcross, bendAcross = 16 }) {
  const { layers, ways } = withBends(uids, edges);
  const neighbours = ordered(layers, ways);
  const sizeOf = (id) => (id.startsWith("bend ") ? { along: 0, across: bendAcross } : size(id));
  const boxes = new Map();
  const widths = layers.map((layer) => layer.reduce((sum, id) => sum + sizeOf(id).across + gapAcross, -gapAcross));
  const widest = Math.max(0, ...widths);
  let along = 0;
  layers.forEach((layer, number) => {
    const depth = Math.max(...layer.map((id) => sizeOf(id).along));
    let from = -widths[number] / 2;
    // As near to their senders as the order allows, as one block, and not beyond the widest layer.
    const wishes = [];
    for (const id of layer) {
      const own = sizeOf(id);
      const senders = neighbours.get(id).filter((each) => boxes.has(each)).map((each) => centre(boxes.get(each)));
      if (senders.length) wishes.push(mean(senders) - (from + own.across / 2));
      boxes.set(id, { along: along + (depth - own.along) / 2, across: from, size: own });
      from += own.across + gapAcross;
    }
    const free = (widest - widths[number]) / 2;
    const shift = Math.max(-free, Math.min(free, mean(wishes) ?? 0));
    for (const id of layer) boxes.get(id).across += shift;
    along += depth + gapAlong;
  });
  const least = Math.min(0, ...[...boxes.values()].map((box) => box.across));
  for (const box of boxes.values()) box.across -= least;
  return {
    boxes,
    ways: ways.map((way) => way.map((id) => boxes.get(id))),
    along: along - gapAlong,
    across: Math.max(0, ...[...boxes.values()].map((box) => box.across + box.size.across)),
    layers: layers.length,
  };
}

function centre(box) {
  return box.across + box.size.across / 2;
}

export function layerCount(uids, edges) {
  return Math.max(0, ...layersOf(uids, edges).values()) + 1;
}

export function widestLayer(uids, edges) {
  const sizes = new Map();
  for (const layer of layersOf(uids, edges).values()) sizes.set(layer, (sizes.get(layer) ?? 0) + 1);
  return Math.max(1, ...sizes.values());
}

// The job graph: boxes are buttons, so that text, keyboard and screen readers work; the edges below them are SVG.
import { edgeRate, lagOf, operatorRates, sharesOf, sum, tasksByChain, watermarkOf } from "/assets/activity.js";
import { curve } from "/assets/curve.js";
import { h, s, setText } from "/assets/dom.js";
import { plural, rate, share, short } from "/assets/format.js";
import { layerCount, placed, widestLayer } from "/assets/layout.js";
import { watermarkWords } from "/assets/watermark.js";

const VERTICAL_BELOW = 760;
const NODE = { least: 200, most: 286 };
const GAP = { along: 104, alongMost: 200, across: 24 };
const VERTICAL_GAP = { along: 58, across: 14 };

export function graphView(root, onSelect) {
  let graph = null;
  let drawn = null;
  let selected = null;
  let last = null;
  const frame = h("div", { class: "graph-frame", tabindex: "0", role: "group", "aria-label": "Chains of operators, from sources to sinks" });
  root.append(frame);

  function select(uid) {
    selected = selected === uid ? null : uid;
    for (const node of drawn.nodes.values()) node.root.setAttribute("aria-pressed", String(node.uid === selected));
    onSelect(selected);
  }

  function draw() {
    if (!graph) return;
    drawn = drawGraph(frame, graph, select, last);
    drawn.nodes.get(selected)?.root.setAttribute("aria-pressed", "true");
  }

  new ResizeObserver(() => draw()).observe(root);
  return {
    update(status) {
      last = status;
      if (JSON.stringify(graph) !== JSON.stringify(status.graph)) {
        graph = status.graph;
        draw();
      }
      fill(drawn, status);
      // E.g. the first watermark: a line more.
      if ([...drawn.nodes.values()].some((node) => node.root.offsetHeight > node.height)) draw();
    },
  };
}

function drawGraph(frame, graph, select, status) {
  const width = frame.clientWidth - 8;
  const vertical = width < VERTICAL_BELOW;
  const gap = vertical ? VERTICAL_GAP : GAP;
  const uids = graph.chains.map((chain) => chain.uid);
  const beside = vertical ? widestLayer(uids, graph.edges) : layerCount(uids, graph.edges);
  const gapBeside = vertical ? gap.across : gap.along;
  const nodeWidth = Math.max(vertical ? 150 : NODE.least, Math.min(vertical ? 330 : NODE.most, (width - 4 - (beside - 1) * gapBeside) / beside));
  const nodes = new Map(graph.chains.map((chain) => [chain.uid, makeNode(chain, nodeWidth, select)]));
  const focused = document.activeElement?.dataset?.uid;
  frame.replaceChildren(...[...nodes.values()].map((node) => node.root));
  fill({ nodes, edges: [], graph }, status);
  for (const node of nodes.values()) node.height = node.root.offsetHeight;
  const size = (uid) => {
    const { height } = nodes.get(uid);
    return vertical ? { along: height, across: nodeWidth } : { along: nodeWidth, across: height };
  };
  const room = (width - 4 - beside * nodeWidth) / Math.max(1, beside - 1);
  const gapAlong = vertical ? gap.along : Math.max(gap.along, Math.min(gap.alongMost, room));
  const layout = placed(uids, graph.edges, { size, gapAlong, gapAcross: gap.across });
  const total = vertical ? { x: layout.across, y: layout.along } : { x: layout.along, y: layout.across };
  const shift = Math.max(0, (width - total.x) / 2);
  const at = (along, across) => (vertical ? { x: across + shift, y: along } : { x: along + shift, y: across });
  for (const [uid, node] of nodes) {
    const box = layout.boxes.get(uid);
    const { x, y } = at(box.along, box.across);
    Object.assign(node.root.style, { left: `${x}px`, top: `${y}px` });
  }
  frame.style.height = `${total.y + 8}px`;
  const edges = graph.edges.map((edge, number) => makeEdge(edge, portsOf(layout.ways[number], graph.edges, number, at), vertical));
  const canvas = s("svg", { class: "edges", width: Math.max(width, total.x), height: total.y, "aria-hidden": "true" }, edges.map((edge) => edge.lines));
  frame.prepend(canvas);
  frame.append(...edges.map((edge) => edge.label));
  fill({ nodes, edges, graph }, status);
  if (focused) nodes.get(focused)?.root.focus();
  return { nodes, edges, graph };
}

// Several edges at one side of a box don't meet in one point.
function portsOf(way, edges, number, at) {
  const edge = edges[number];
  const offset = (end) => {
    const others = edges.filter((each) => each[end] === edge[end]);
    return (others.indexOf(edge) - (others.length - 1) / 2) * 18;
  };
  const middle = (box) => box.across + box.size.across / 2;
  const points = [];
  way.forEach((box, step) => {
    const first = step === 0;
    const final = step === way.length - 1;
    if (first) points.push(at(box.along + box.size.along, middle(box) + offset("sender")));
    else if (final) points.push(at(box.along, middle(box) + offset("receiver")));
    else points.push(at(box.along, middle(box)));
  });
  return points;
}

function makeEdge(edge, points, vertical) {
  const curves = points.slice(1).map((point, at) => curve(points[at], point, vertical));
  const path = curves.map((each) => each.path).join("");
  const moving = s("path", { class: "flow", d: path });
  const end = points.at(-1);
  const arrow = vertical ? `M${end.x - 4},${end.y - 7}L${end.x},${end.y - 1}L${end.x + 4},${end.y - 7}` : `M${end.x - 7},${end.y - 4}L${end.x - 1},${end.y}L${end.x - 7},${end.y + 4}`;
  const middle = curves[Math.floor((curves.length - 1) / 2)].at(0.5);
  const rateText = h("span", { class: "edge-rate" });
  const how = edge.tag ? `${edge.partitioning} · ${edge.tag}` : edge.partitioning;
  const label = h("div", { class: "edge-label" }, h("span", { class: "edge-how" }, how), rateText);
  Object.assign(label.style, { left: `${middle.x}px`, top: `${middle.y}px` });
  return { edge, moving, rateText, label, lines: s("g", { class: "edge" }, s("path", { class: "channel", d: path }), moving, s("path", { class: "arrow", d: arrow })) };
}

function makeNode(chain, width, select) {
  const rates = new Map();
  const rows = chain.operators.map((operator) => {
    const figure = h("span", { class: "op-rate" });
    rates.set(operator.uid, { figure, kind: operator.kind });
    const written = operator.written_at ? `, written at ${operator.written_at}` : "";
    return h("span", { class: "op", title: `${operator.kind} ${operator.uid}: ${operator.name}${written}` },
      h("i", { class: `kind ${operator.kind}` }), h("span", { class: "op-name" }, operator.uid), figure);
  });
  const parts = {
    lag: h("span", { class: "node-lag" }),
    busy: h("i", { class: "busy" }), backpressured: h("i", { class: "backpressured" }), idle: h("i", { class: "idle" }),
    shares: h("span", { class: "shares" }),
    watermark: h("span", { class: "watermark" }),
  };
  const root = h("button", { type: "button", class: "node", "aria-pressed": "false", "data-uid": chain.uid, onclick: () => select(chain.uid) },
    h("span", { class: "node-head" }, h("span", null, plural(chain.parallelism, "task")), parts.lag),
    h("span", { class: "ops" }, rows),
    h("span", { class: "bar" }, parts.busy, parts.backpressured, parts.idle),
    parts.shares, parts.watermark);
  root.style.width = `${width}px`;
  return { uid: chain.uid, root, rates, parts };
}

function fill({ nodes, edges, graph }, status) {
  const byChain = tasksByChain(status);
  for (const [uid, node] of nodes) fillNode(node, byChain.get(uid) ?? [], status);
  for (const each of edges) {
    const value = edgeRate(each.edge, graph.edges, byChain);
    setText(each.rateText, value === null ? "" : rate(value));
    each.moving.dataset.speed = value ? String(Math.min(4, Math.ceil(Math.log10(value + 1)))) : "0";
  }
}

function fillNode(node, tasks, status) {
  for (const [uid, { figure, kind }] of node.rates) setText(figure, rateOf(tasks, uid, kind, node.rates.size));
  const shares = sharesOf(tasks);
  for (const name of ["busy", "backpressured", "idle"]) node.parts[name].style.flexGrow = String(shares[name]);
  const rest = shares.backpressured >= 0.005 ? `${share(shares.backpressured)} backpressured` : `${share(shares.idle)} idle`;
  setText(node.parts.shares, tasks.length ? `${share(shares.busy)} busy · ${rest}` : "not running");
  const lag = lagOf(tasks);
  setText(node.parts.lag, lag === null ? "" : `${short(lag)} to read`);
  setText(node.parts.watermark, watermarkWords(watermarkOf(tasks), status.as_of_ms));
}

function rateOf(tasks, operator, kind, operators) {
  const found = operatorRates(tasks, operator);
  if (found.known) return rate(kind === "sink" ? found.in : found.out);
  // What the chain as a whole counts is what its only operator does.
  return operators === 1 ? rate(sum(tasks, (task) => (kind === "sink" ? task.records_in_per_second : task.records_out_per_second))) : "";
}

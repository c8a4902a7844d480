// What did the last checkpoints cost? Duration, size and alignment, one below the other.
import { figure, h, s, table, text } from "/assets/dom.js";
import { bytes, clock, count, seconds } from "/assets/format.js";

const PANELS = [
  { name: "duration", value: (each) => each.duration_seconds, words: seconds, height: 86 },
  { name: "alignment", value: (each) => each.alignment_seconds_max, words: seconds, height: 42 },
  { name: "size", value: (each) => each.size_bytes, part: (each) => each.new_bytes, words: bytes, height: 54 },
];
const COLUMNS = [
  text("Checkpoint"), text("Kind"), text("Begun"), text("Outcome"), figure("Duration"), figure("Alignment"), figure("Frozen"),
  figure("Written in"), figure("Size"), figure("Newly written"), figure("Tasks"),
];
const ROWS_MAX = 25;
const LEFT = 86;
const GAP = 16;

export function historyView(root, onSelect) {
  let shown = [];
  let drawn = "";
  let marked = { checkpoint: null, following: true };
  const chart = h("div", { class: "history" });
  const tableOf = h("div");
  const asTable = h("details", { class: "as-table", ontoggle: () => list() }, h("summary", null, "As a table"), tableOf);
  root.append(chart, asTable);

  function list() {
    if (!asTable.open) return;
    tableOf.replaceChildren(table("Newest checkpoints", COLUMNS, shown.slice(-ROWS_MAX).reverse().map((each) => row(each, onSelect))));
  }

  function draw() {
    const hadFocus = chart.contains(document.activeElement);
    if (root.clientWidth < LEFT * 2) return; // not laid out yet
    const drawing = shown.length ? drawHistory(shown, root.clientWidth, marked, onSelect) : h("p", { class: "empty" }, "No checkpoint yet.");
    chart.replaceChildren(drawing);
    if (hadFocus) chart.querySelector("[tabindex='0']")?.focus();
  }

  new ResizeObserver(draw).observe(root);
  return {
    update(status) {
      // The figures of one that is under way move all the time: they are drawn when it is over.
      const now = [...status.checkpoints, ...status.checkpoints_under_way];
      const sign = now.map((each) => `${each.checkpoint} ${each.outcome} ${each.triggered_at_ms}`).join();
      summarise(status);
      if (sign === drawn) return;
      drawn = sign;
      shown = now;
      draw();
      if (!tableOf.contains(document.activeElement)) list();
    },
    mark(checkpoint, following) {
      if (marked.checkpoint === checkpoint && marked.following === following) return;
      marked = { checkpoint, following };
      draw();
    },
  };
}

function summarise(status) {
  const words = [`${count(status.checkpoints_completed)} completed`, `${count(status.checkpoints_failed)} failed`];
  document.getElementById("checkpoints-summary").textContent = words.join(" · ");
}

function failed(each) {
  return each.outcome !== "completed" && each.outcome !== "under way";
}

function drawHistory(all, width, marked, onSelect) {
  const fits = Math.max(8, Math.floor((width - LEFT) / 11));
  const shown = all.slice(-fits);
  const step = Math.min(34, (width - LEFT) / shown.length);
  const bar = Math.max(4, Math.min(20, step - 4));
  let top = 4;
  const rows = PANELS.map((panel) => {
    const found = { ...panel, top, most: Math.max(...shown.map(panel.value), 0) || 1 };
    top += panel.height + GAP;
    return found;
  });
  const height = top + 14;
  const axes = rows.map((row) => axis(row, width));
  const focusable = shown.some((each) => each.checkpoint === marked.checkpoint) ? marked.checkpoint : shown.at(-1).checkpoint;
  const columns = shown.map((each, at) => column({ each, x: LEFT + at * step, step, bar, rows, width, height, marked, focusable, onSelect }));
  const group = s("g", { role: "group", "aria-label": "Checkpoints; the arrow keys go from one to the next" }, columns);
  group.addEventListener("keydown", (event) => move(event, shown, focusable, onSelect));
  return s("svg", { width, height, class: "history-chart" }, axes, group);
}

function axis(row, width) {
  const bottom = row.top + row.height;
  return s("g", { class: "axis", "aria-hidden": "true" },
    s("text", { x: 0, y: row.top + 11, class: "axis-name" }, row.name),
    s("text", { x: 0, y: row.top + 27 }, `max ${row.words(row.most)}`),
    s("line", { x1: LEFT, x2: width, y1: bottom + 0.5, y2: bottom + 0.5 }));
}

function column({ each, x, step, bar, rows, width, height, marked, focusable, onSelect }) {
  const chosen = each.checkpoint === marked.checkpoint;
  const mid = x + step / 2;
  const bars = rows.map((row) => {
    const total = Math.max(1.5, (row.value(each) / row.most) * row.height);
    const bottom = row.top + row.height;
    const parts = [s("rect", { class: row.part ? `${row.name} shared` : row.name, x: mid - bar / 2, y: bottom - total, width: bar, height: total, rx: Math.min(2, bar / 3) })];
    if (row.part) {
      const part = (row.part(each) / row.most) * row.height;
      parts.push(s("rect", { class: row.name, x: mid - bar / 2, y: bottom - part, width: bar, height: part, rx: Math.min(2, bar / 3) }));
    }
    return parts;
  });
  const mark = failed(each) ? s("path", { class: "cross", d: `M${mid - 4},6l8,8m0,-8l-8,8` }) : each.kind !== "checkpoint" ? s("path", { class: "diamond", d: `M${mid},4l5,5l-5,5l-5,-5z` }) : null;
  const label = chosen ? s("text", { class: "column-name", x: Math.min(mid, width - 12), y: height - 3, "text-anchor": "middle" }, String(each.checkpoint)) : null;
  return s("g", {
    role: "button", class: `column ${failed(each) ? "failed" : each.outcome === "under way" ? "under-way" : ""}`, "aria-pressed": String(chosen),
    tabindex: each.checkpoint === focusable ? "0" : "-1", "aria-label": sentence(each), onclick: () => onSelect(each.checkpoint),
  }, s("title", null, sentence(each)), s("rect", { class: "hit", x: x + 0.5, y: 0, width: step - 1, height: height - 14, rx: 4 }), bars, mark, label);
}

function move(event, shown, from, onSelect) {
  const at = shown.findIndex((each) => each.checkpoint === from);
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: shown.length - 1, Enter: at, " ": at }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  if (shown[to]) onSelect(shown[to].checkpoint);
}

function sentence(each) {
  return `${each.kind} ${each.checkpoint}, ${each.outcome}: ${seconds(each.duration_seconds)}, ${bytes(each.size_bytes)}, alignment ${seconds(each.alignment_seconds_max)}`;
}

function row(each, onSelect) {
  return [
    h("button", { type: "button", class: "link", onclick: () => onSelect(each.checkpoint) }, String(each.checkpoint)), each.kind, clock(each.triggered_at_ms), each.outcome,
    seconds(each.duration_seconds), seconds(each.alignment_seconds_max), seconds(each.sync_seconds_max), seconds(each.async_seconds_max),
    bytes(each.size_bytes), bytes(each.new_bytes), each.tasks_total ? `${each.tasks_acknowledged} of ${each.tasks_total}` : "–",
  ];
}

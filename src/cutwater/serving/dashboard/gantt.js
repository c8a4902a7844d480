// The barrier's way as bars: a row for each task, and above all the coordinator.
import { s } from "/assets/dom.js";
import { plural, seconds } from "/assets/format.js";

const SPANS = [["waiting", 0, "arrived"], ["aligning", "arrived", "aligned"], ["writing", "frozen", "written"], ["frozen", "aligned", "frozen"], ["telling", "written", "acknowledged"]];
const RIGHT = 14;

export function gantt(timeline, width, onDrag) {
  const left = Math.round(Math.min(190, Math.max(96, width * 0.16)));
  const many = timeline.tasks.length > 32;
  const rowHeight = many ? 11 : 21;
  const top = 24 + rowHeight + 6;
  const height = top + timeline.tasks.length * rowHeight + 8;
  const x = (time) => left + (Math.min(time, timeline.duration) / timeline.duration) * (width - left - RIGHT);
  const rows = timeline.tasks.map((task, at) => row(task, { y: top + at * rowHeight, rowHeight, left, x, many, first: timeline.tasks[at - 1]?.chain !== task.chain, width }));
  const playhead = s("line", { class: "playhead", y1: 20, y2: height });
  const root = s("svg", { width, height, class: "gantt", role: "img", "aria-label": `When each task got the barrier of checkpoint ${timeline.checkpoint.checkpoint}; the table below has the figures` },
    hatch(), ticks(timeline, x, height, left, width), coordinatorRow(timeline, x, { y: 24, rowHeight }), rows, playhead);
  draggable(root, (at) => onDrag(((at - left) / (width - left - RIGHT)) * timeline.duration));
  return {
    root, left, right: RIGHT,
    go(time) {
      for (const [name, value] of [["x1", x(time)], ["x2", x(time)]]) playhead.setAttribute(name, value);
    },
  };
}

function row(task, { y, rowHeight, left, x, many, first, width }) {
  const middle = y + rowHeight / 2;
  const high = many ? 7 : 11;
  const label = many && !first ? null : s("text", { class: "row-name", x: 0, y: middle + 4 }, shortened(task.id, left));
  const line = first ? s("line", { class: "group-line", x1: 0, x2: width, y1: y + 0.5, y2: y + 0.5 }) : null;
  if (!task.known) return s("g", { class: "gantt-row unknown" }, line, label, s("text", { class: "row-note", x: left + 6, y: middle + 4 }, "has not acknowledged"));
  const parts = SPANS.map(([name, from, to]) => {
    const [begin, end] = [x(from === 0 ? 0 : task[from]), x(task[to])];
    if (name === "waiting" || name === "telling") return s("line", { class: `span ${name}`, x1: begin, x2: end, y1: middle, y2: middle });
    // What happened is seen, however short it was.
    return task[to] > task[from] ? s("rect", { class: `span ${name}`, x: begin, y: middle - high / 2, width: Math.max(2, end - begin), height: high, rx: 1.5 }) : null;
  });
  const barrier = s("rect", { class: "barrier-mark", x: x(task.arrived) - 1.5, y: middle - high / 2 - 2, width: 3, height: high + 4, rx: 1.5 });
  const done = s("circle", { class: "done-mark", cx: x(task.acknowledged), cy: middle, r: many ? 2.5 : 4 });
  return s("g", { class: "gantt-row" }, s("title", null, sentence(task)), line, label, parts, barrier, done);
}

export function sentence(task) {
  return `${task.id}: barrier after ${seconds(task.arrived)}, aligned in ${seconds(task.aligned - task.arrived)}, frozen for ${seconds(task.frozen - task.aligned)}, written in ${seconds(task.written - task.frozen)}, acknowledged after ${seconds(task.acknowledged)}`;
}

function coordinatorRow(timeline, x, { y, rowHeight }) {
  const middle = y + rowHeight / 2;
  const acknowledged = Math.max(0, ...timeline.tasks.filter((task) => task.known).map((task) => task.acknowledged));
  return s("g", { class: "gantt-row coordinator" },
    s("title", null, `The coordinator triggered it at 0 and had ${plural(timeline.tasks.filter((task) => task.known).length, "acknowledgement")} after ${seconds(acknowledged)}`),
    s("text", { class: "row-name", x: 0, y: middle + 4 }, "coordinator"),
    s("line", { class: "span waiting", x1: x(0), x2: x(timeline.duration), y1: middle, y2: middle }),
    s("rect", { class: "barrier-mark", x: x(0) - 1.5, y: middle - 7, width: 3, height: 14, rx: 1.5 }),
    acknowledged < timeline.duration ? s("rect", { class: "span publishing", x: x(acknowledged), y: middle - 4, width: Math.max(2, x(timeline.duration) - x(acknowledged)), height: 8, rx: 1.5 }) : null,
    timeline.checkpoint.outcome === "completed" ? s("circle", { class: "done-mark", cx: x(timeline.duration), cy: middle, r: 4.5 }) : null);
}

function ticks(timeline, x, height, left, width) {
  const wanted = Math.max(2, Math.floor((width - left) / 110));
  const raw = timeline.duration / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= raw) * power;
  const marks = [];
  for (let at = 0; at <= timeline.duration * 0.97; at += step) {
    marks.push(s("line", { class: "tick", x1: x(at), x2: x(at), y1: 22, y2: height - 4 }), s("text", { class: "tick-name", x: x(at), y: 14, "text-anchor": at === 0 ? "start" : "middle" }, seconds(at)));
  }
  return s("g", { "aria-hidden": "true" }, marks);
}

// Aligning is told apart by its pattern, too.
function hatch() {
  return s("defs", null, s("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    s("rect", { width: 5, height: 5, class: "hatch-back" }), s("rect", { width: 2, height: 5, class: "hatch-line" })));
}

export function shortened(text, width) {
  const most = Math.floor(width / 7.8);
  if (text.length <= most) return text;
  const index = text.includes("[") ? text.slice(text.lastIndexOf("[")) : "";
  return `${text.slice(0, Math.max(3, most - index.length - 1))}…${index}`;
}

function draggable(root, onDrag) {
  let dragging = false;
  const to = (event) => onDrag(event.clientX - root.getBoundingClientRect().left);
  root.addEventListener("pointerdown", (event) => { dragging = true; root.setPointerCapture(event.pointerId); to(event); });
  root.addEventListener("pointermove", (event) => { if (dragging) to(event); });
  for (const end of ["pointerup", "pointercancel"]) root.addEventListener(end, () => { dragging = false; });
}

// The barrier on its way through the graph, at one moment.
//
// A line is a channel: ahead of the barrier flow the records of this checkpoint, behind it those of the next. A barrier
// that has arrived waits at its task until the others have come, too: that is the alignment.
import { curve } from "/assets/curve.js";
import { s, setText } from "/assets/dom.js";
import { shortened } from "/assets/gantt.js";
import { layerCount, placed, widestLayer } from "/assets/layout.js";
import { phaseAt } from "/assets/timeline.js";

const VERTICAL_BELOW = 640;
const WORDS = { before: "", aligning: "aligning", frozen: "frozen", writing: "writing", written: "written", acknowledged: "done" };
const TOP = 46;
const TITLE = 20;

export function barrierGraph(timeline, width) {
  const vertical = width < VERTICAL_BELOW;
  const cells = cellSizes(timeline, width, vertical);
  const layout = layoutOf(timeline, cells, width, vertical);
  const places = placesOf(timeline, layout, cells, vertical);
  const coordinator = coordinatorBar(timeline, width);
  const flights = [...timeline.flights, ...triggers(timeline)].map((flight) => makeFlight(flight, places, vertical, width));
  const tasks = timeline.tasks.map((task) => makeTask(task, places.get(task.id), cells, width));
  const height = TOP + (vertical ? layout.along : layout.across) + 6;
  const root = s("svg", { width, height, class: "barrier-graph", role: "img", "aria-label": `The barrier of checkpoint ${timeline.checkpoint.checkpoint} on its way through the graph; the table below has the figures` },
    coordinator.root, flights.map((each) => each.lines), titles(timeline, layout, places, vertical),
    tasks.map((each) => each.root), flights.map((each) => each.token), tasks.map((each) => each.answer));
  return {
    root,
    go(time) {
      for (const flight of flights) flight.go(time);
      for (const task of tasks) task.go(time);
      coordinator.go(time);
    },
  };
}

function cellSizes(timeline, width, vertical) {
  const most = Math.max(...timeline.chains.map((chain) => timeline.tasks.filter((task) => task.chain === chain.uid).length));
  const uids = timeline.chains.map((chain) => chain.uid);
  if (vertical) {
    const beside = widestLayer(uids, timeline.edges);
    const room = (width - (beside - 1) * 14) / beside;
    return { width: Math.max(10, Math.min(92, (room - (most - 1) * 6) / most)), height: 28, gap: 6, words: (room - (most - 1) * 6) / most >= 84 };
  }
  const layers = layerCount(uids, timeline.edges);
  const cellWidth = Math.max(84, Math.min(164, (width - (layers - 1) * 70) / layers));
  const cellHeight = most <= 6 ? 28 : most <= 16 ? 16 : 8;
  return { width: cellWidth, height: cellHeight, gap: cellHeight > 20 ? 8 : 3, words: cellHeight >= 16 };
}

function layoutOf(timeline, cells, width, vertical) {
  const count = (uid) => timeline.tasks.filter((task) => task.chain === uid).length;
  const uids = timeline.chains.map((chain) => chain.uid);
  const stacked = (uid, size) => count(uid) * size + (count(uid) - 1) * cells.gap;
  const size = (uid) => vertical
    ? { along: cells.height + TITLE, across: stacked(uid, cells.width) }
    : { along: cells.width, across: stacked(uid, cells.height) + TITLE };
  const layers = layerCount(uids, timeline.edges);
  const gapAlong = vertical ? 52 : Math.max(56, Math.min(360, (width - layers * cells.width) / Math.max(1, layers - 1)));
  return placed(uids, timeline.edges, { size, gapAlong, gapAcross: vertical ? 14 : 12, bendAcross: 10 });
}

function placesOf(timeline, layout, cells, vertical) {
  const total = vertical ? layout.across : layout.along;
  const shift = Math.max(0, (timeline.width ?? 0) - total) / 2;
  const places = new Map();
  for (const chain of timeline.chains) {
    const box = layout.boxes.get(chain.uid);
    timeline.tasks.filter((task) => task.chain === chain.uid).forEach((task, at) => {
      const corner = vertical
        ? { x: shift + box.across + at * (cells.width + cells.gap), y: TOP + box.along + TITLE }
        : { x: shift + box.along, y: TOP + box.across + TITLE + at * (cells.height + cells.gap) };
      const middle = { x: corner.x + cells.width / 2, y: corner.y + cells.height / 2 };
      places.set(task.id, {
        corner, middle,
        entry: vertical ? { x: middle.x, y: corner.y } : { x: corner.x, y: middle.y },
        exit: vertical ? { x: middle.x, y: corner.y + cells.height } : { x: corner.x + cells.width, y: middle.y },
      });
    });
  }
  return places;
}

function titles(timeline, layout, places, vertical) {
  return timeline.chains.map((chain) => {
    const first = timeline.tasks.find((task) => task.chain === chain.uid);
    const { corner } = places.get(first.id);
    const box = layout.boxes.get(chain.uid);
    const room = vertical ? box.size.across : box.size.along;
    return s("text", { class: "chain-name", x: corner.x, y: corner.y - 7 }, s("title", null, chain.name), shortened(chain.uid, room));
  });
}

// The trigger comes from the coordinator, by the side: it flows with no records.
function triggers(timeline) {
  const fed = new Set(timeline.edges.map((edge) => edge.receiver));
  return timeline.tasks.filter((task) => !fed.has(task.chain)).map((task) => ({ from: null, to: task, departs: 0, arrives: task.arrived }));
}

function makeFlight(flight, places, vertical, width) {
  const target = places.get(flight.to.id);
  const trigger = flight.from === null;
  const start = trigger ? { x: Math.min(target.middle.x, width - 30), y: 30 } : places.get(flight.from.id).exit;
  const end = trigger ? { x: target.middle.x, y: target.corner.y } : target.entry;
  const line = trigger ? curve(start, end, true) : curve(start, end, vertical);
  const behind = s("path", { class: "behind", d: line.path, pathLength: "1" });
  const token = s("rect", { class: "token", x: -2, y: -7, width: 4, height: 14, rx: 2 });
  return {
    lines: trigger ? s("path", { class: "trigger-line", d: line.path }) : s("g", { class: "way" }, s("path", { class: "ahead", d: line.path }), behind),
    token,
    go(time) {
      const span = flight.arrives - flight.departs;
      const part = time <= flight.departs ? 0 : span > 0 && time < flight.arrives ? (span === Infinity ? 0.5 : (time - flight.departs) / span) : 1;
      const under = time >= flight.departs && time < Math.max(flight.arrives, trigger ? 0 : flight.to.aligned);
      token.classList.toggle("gone", !under);
      token.classList.toggle("held", part === 1);
      if (under) {
        const at = line.at(Math.min(part, 0.97));
        token.setAttribute("transform", `translate(${at.x},${at.y}) rotate(${line.angle(Math.min(part, 0.97))})`);
      }
      behind.setAttribute("stroke-dasharray", `${part} 2`);
      behind.classList.toggle("gone", part === 0);
    },
  };
}

function makeTask(task, place, cells, width) {
  const { corner, middle } = place;
  const body = s("rect", { class: "cell", x: corner.x, y: corner.y, width: cells.width, height: cells.height, rx: Math.min(7, cells.height / 3) });
  const progress = s("rect", { class: "progress", x: corner.x, y: corner.y, width: 0, height: cells.height, rx: Math.min(7, cells.height / 3) });
  const index = cells.height >= 16 ? s("text", { class: "cell-index", x: corner.x + 9, y: middle.y + 4 }, String(task.index)) : null;
  const word = s("text", { class: "cell-word", x: corner.x + cells.width - 9, y: middle.y + 4, "text-anchor": "end" });
  const answer = s("circle", { class: "answer", r: 3.5 });
  const root = s("g", { class: "task" }, s("title", null, task.id), body, progress, index, cells.words ? word : null);
  return {
    root, answer,
    go(time) {
      const phase = phaseAt(task, time);
      root.dataset.phase = phase;
      setText(word, WORDS[phase]);
      const part = phase === "writing" ? (time - task.frozen) / (task.written - task.frozen) : 0;
      progress.setAttribute("width", part * cells.width);
      const told = (time - task.written) / (task.acknowledged - task.written || 1);
      answer.classList.toggle("gone", phase !== "written");
      if (phase === "written") {
        answer.setAttribute("cx", middle.x + (Math.min(middle.x, width - 30) - middle.x) * told);
        answer.setAttribute("cy", corner.y + (28 - corner.y) * told);
      }
    },
  };
}

function coordinatorBar(timeline, width) {
  const words = s("text", { x: 12, y: 19, class: "coordinator-words" });
  const filled = s("rect", { class: "coordinator-part", x: 0, y: 0, width: 0, height: 28, rx: 7 });
  return {
    root: s("g", { class: "coordinator-bar" }, s("rect", { class: "coordinator-back", x: 0.5, y: 0.5, width: width - 1, height: 27, rx: 7 }), filled, words),
    go(time) {
      const total = timeline.checkpoint.tasks_total || timeline.tasks.length;
      const heard = timeline.tasks.filter((task) => task.acknowledged <= time).length;
      filled.setAttribute("width", total ? (heard / total) * width : 0);
      const complete = timeline.checkpoint.outcome === "completed" && time >= timeline.duration;
      setText(words, `coordinator · ${complete ? "complete" : heard ? `${heard} of ${total} acknowledged` : "triggered"}`);
    },
  };
}

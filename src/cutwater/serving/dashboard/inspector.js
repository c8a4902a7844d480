// The tasks and operators of the chain that is selected in the graph.
import { operatorRates, sharesOf, tasksByChain } from "/assets/activity.js";
import { figure, h, table, text } from "/assets/dom.js";
import { count, rate, share } from "/assets/format.js";
import { watermarkWords } from "/assets/watermark.js";

const TASK_COLUMNS = [
  text("Task"), text("Slot"), figure("In"), figure("In/s"), figure("Out"), figure("Out/s"), figure("Busy"), figure("Backpressured"),
  figure("Idle"), figure("Queued"), figure("To read"), text("Event time"), text("Left out"),
];
const OPERATOR_COLUMNS = [
  text("Operator"), text("What it is"), text("Written at"), figure("In"), figure("In/s"), figure("Out"), figure("Out/s"), figure("Busy"), text("Metrics"),
];

export function inspectorView(root) {
  let selected = null;
  let status = null;

  function show() {
    const chain = status?.graph.chains.find((each) => each.uid === selected);
    root.hidden = !chain;
    if (!chain) return;
    const tasks = tasksByChain(status).get(chain.uid);
    const scrolled = [...root.querySelectorAll(".table-frame")].map((frame) => frame.scrollLeft);
    root.replaceChildren(
      h("h3", null, "Tasks of ", chain.uid),
      table(`Tasks of ${chain.uid}`, TASK_COLUMNS, tasks.map((task) => taskRow(task, status))),
      h("h3", null, "Operators"),
      table(`Operators of ${chain.uid}`, OPERATOR_COLUMNS, chain.operators.map((operator) => operatorRow(operator, tasks))));
    root.querySelectorAll(".table-frame").forEach((frame, at) => { frame.scrollLeft = scrolled[at] ?? 0; });
  }

  return {
    select(chain) {
      selected = chain;
      show();
      if (chain) root.scrollIntoView({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    },
    update(next) {
      status = next;
      // Who reads a table with the keyboard keeps it as it is.
      if (!root.contains(document.activeElement)) show();
    },
  };
}

function taskRow(task, status) {
  const shares = sharesOf([task]);
  const lags = Object.values(task.lag);
  return [
    task.task, task.slot, count(task.records_in), rate(task.records_in_per_second), count(task.records_out), rate(task.records_out_per_second),
    share(shares.busy), share(shares.backpressured), share(shares.idle), count(task.queued_elements),
    lags.length ? count(lags.reduce((total, lag) => total + lag, 0)) : "–",
    watermarkWords(task.watermark_ms, status.as_of_ms).replace("watermark ", "") || "–", leftOut(task),
  ];
}

function leftOut(task) {
  const counts = [["late", task.late_records], ["bad timestamps", task.bad_timestamps], ["skipped", task.skipped_records], ["dead letters", task.dead_letters]];
  return counts.filter(([, number]) => number).map(([name, number]) => `${count(number)} ${name}`).join(", ") || "none";
}

function operatorRow(operator, tasks) {
  const found = operatorRates(tasks, operator.uid);
  return [
    operator.uid, operator.name, operator.written_at || "–", count(found.recordsIn), rate(found.in), count(found.recordsOut), rate(found.out),
    share(found.busy), metricsOf(tasks, operator.uid),
  ];
}

function metricsOf(tasks, operator) {
  const totals = new Map();
  for (const task of tasks) {
    for (const metric of task.operators.filter((each) => each.operator === operator).flatMap((each) => each.metrics)) {
      const found = totals.get(metric.name) ?? { kind: metric.kind, value: 0, count: 0 };
      totals.set(metric.name, { kind: metric.kind, value: found.value + metric.value, count: found.count + metric.count });
    }
  }
  const words = [...totals].map(([name, { kind, value, count: observed }]) =>
    kind === "histogram" ? `${name}: mean ${(observed ? value / observed : 0).toPrecision(3)} of ${count(observed)}` : `${name}: ${Number.isInteger(value) ? count(value) : value.toPrecision(4)}`);
  return words.join(", ") || "–";
}

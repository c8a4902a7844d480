// The job at a glance.
import { byId, h, setText } from "/assets/dom.js";
import { count, plural, rate, seconds, words } from "/assets/format.js";

const MOOD = { running: "good", finished: "good", failed: "bad", restarting: "busy", cancelling: "busy", cancelled: "over" };

export function headerView() {
  const facts = new Map();
  const list = byId("facts");

  function tell(name, value, note = "") {
    if (!facts.has(name)) {
      const parts = { value: h("span", { class: "fact-value" }), note: h("span", { class: "fact-note" }) };
      facts.set(name, parts);
      list.append(h("div", null, h("dt", null, name), h("dd", null, parts.value, parts.note)));
    }
    const parts = facts.get(name);
    setText(parts.value, value);
    setText(parts.note, note);
  }

  return {
    update(status) {
      setText(byId("job-name"), status.name);
      document.title = `${status.name} · ${words(status.state)} · Cutwater`;
      const state = byId("job-state");
      setText(state, words(status.state));
      state.dataset.mood = MOOD[status.state] ?? "busy";
      const read = sourcesRate(status);
      tell("read", rate(read.perSecond), `${count(read.total)} in all`);
      tell("running for", seconds(Math.max(0, status.running_seconds)), `attempt ${status.attempt}`);
      tell("checkpoints", count(status.checkpoints_completed), status.checkpoints_failed ? `${count(status.checkpoints_failed)} failed` : "none failed");
      tell("restarts", count(status.restarts), plural(status.slots.length, "slot"));
      tell("warnings", count(status.warnings_total), status.warnings.at(-1) ?? "");
      const notice = byId("notice");
      notice.hidden = !status.waiting_for;
      setText(notice, status.waiting_for ? `Waiting for ${status.waiting_for}` : "");
    },
  };
}

function sourcesRate(status) {
  const sources = new Set();
  for (const chain of status.graph.chains) {
    if (chain.operators.some((operator) => operator.kind === "source")) sources.add(chain.uid);
  }
  let perSecond = 0;
  let total = 0;
  for (const task of status.tasks) {
    if (!sources.has(task.task.slice(0, task.task.lastIndexOf("[")))) continue;
    // The first operator of a source's chain is the source; what it gave is what was read.
    const source = task.operators[0];
    perSecond += source ? source.records_out_per_second : task.records_out_per_second;
    total += source ? source.records_out : task.records_out;
  }
  return { perSecond, total };
}

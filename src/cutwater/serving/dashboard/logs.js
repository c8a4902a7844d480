// What do the slots and the driver write? The newest lines, as they come.
import { askIfThere } from "/assets/api.js";
import { byId, h } from "/assets/dom.js";
import { clock } from "/assets/format.js";

const PAUSE_MS = 2000;
const SHOWN_MAX = 500;

export function logsView(root, path) {
  const list = byId("log-lines");
  const onlyWarnings = h("input", { type: "checkbox", id: "only-warnings", onchange: () => { list.dataset.only = onlyWarnings.checked ? "warnings" : ""; } });
  byId("logs-options").append(h("span", { class: "check" }, onlyWarnings, h("label", { for: "only-warnings" }, "Only warnings and errors")));
  let after = 0;
  let there = true;
  let askedAt = -Infinity;
  return {
    async update() {
      if (!there || performance.now() - askedAt < PAUSE_MS) return;
      askedAt = performance.now();
      const answer = await askIfThere(path(`/logs?after=${after}`)).catch(() => []);
      there = answer !== undefined;
      const lines = Array.isArray(answer) ? answer : answer?.lines ?? [];
      if (!lines.length) return;
      root.hidden = false;
      after = lines.at(-1).number;
      append(list, lines);
    },
  };
}

function append(list, lines) {
  const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 30;
  list.append(...lines.map(row));
  while (list.children.length > SHOWN_MAX) list.firstElementChild.remove();
  if (atEnd) list.scrollTop = list.scrollHeight;
}

function row(line) {
  const grave = ["WARNING", "ERROR", "CRITICAL"].includes(line.level);
  const who = [line.slot || "driver", line.task].filter(Boolean).join(" ");
  return h("div", { class: grave ? "log-line grave" : "log-line", "data-level": line.level },
    h("span", { class: "log-when" }, clock(line.at_ms)), h("span", { class: "log-level" }, line.level.toLowerCase()), h("span", { class: "log-who" }, who), h("span", { class: "log-text" }, line.text));
}

// How did it go? A line for what was asked of the job, from "in progress" to its outcome.
import { ask } from "/assets/api.js";
import { byId, h } from "/assets/dom.js";

const PAUSE_MS = 300;
const SHOWN_MAX = 4;

export async function followOperation(operation, name, path) {
  const line = told(name, "in progress …");
  line.dataset.state = "in_progress";
  let now = operation;
  while (now.state === "in_progress") {
    await new Promise((resolve) => { setTimeout(resolve, PAUSE_MS); });
    now = await ask(path(`/operations/${now.operation}`)).catch((refused) => ({ state: "failed", failure: refused }));
  }
  line.remove();
  if (now.state === "failed") told(name, null, now.failure);
  else told(name, now.path ? `complete: ${now.path}` : "complete");
}

export function told(name, words, failure = null) {
  const list = byId("operations");
  const line = h("div", { class: "operation" },
    h("p", null, h("strong", null, name), " ", failure ? `failed: ${failure.fact}` : words),
    failure?.detail ? h("p", { class: "detail" }, failure.detail) : null,
    failure?.hint ? h("p", { class: "hint" }, `Hint: ${failure.hint}`) : null,
    h("button", { type: "button", class: "quiet", "aria-label": `Dismiss: ${name}`, onclick: () => line.remove() }, "Dismiss"));
  line.dataset.state = failure ? "failed" : "completed";
  list.prepend(line);
  while (list.children.length > SHOWN_MAX) list.lastElementChild.remove();
  return line;
}

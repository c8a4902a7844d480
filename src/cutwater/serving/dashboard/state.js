// How much does each operator keep, and is it spread evenly?
import { byId, h, setText } from "/assets/dom.js";
import { bytes, plural, share } from "/assets/format.js";

const SKEWED = 2;
// Of all state; what is less gets one line together.
const SHOWN_FROM = 0.002;

export function stateView(root) {
  let seen = "";
  return {
    update(status) {
      const now = JSON.stringify(status.operator_states);
      if (now === seen) return;
      seen = now;
      const states = [...status.operator_states].sort((a, b) => b.size_bytes - a.size_bytes);
      const total = states.reduce((sum, each) => sum + each.size_bytes, 0);
      setText(byId("state-total"), states.length ? `${bytes(total)} in the newest checkpoint` : "");
      const large = states.filter((each) => each.size_bytes >= SHOWN_FROM * total);
      root.replaceChildren(...(states.length ? [...large.map((each) => operator(each, total)), others(states.slice(large.length))] : [h("p", { class: "empty" }, "Shown after the first checkpoint.")]));
    },
  };
}

function others(states) {
  if (!states.length) return "";
  const total = states.reduce((sum, each) => sum + each.size_bytes, 0);
  return h("p", { class: "card-note others" }, `${bytes(total)} more in ${states.map((each) => each.operator).join(", ")}`);
}

function operator(state, total) {
  const fill = h("i");
  fill.style.width = `${total ? (state.size_bytes / total) * 100 : 0}%`;
  return h("div", { class: "state" },
    h("div", { class: "state-head" }, h("strong", null, state.operator), h("span", null, bytes(state.size_bytes))),
    h("div", { class: "meter" }, fill),
    h("p", { class: "card-note" }, [taskWords(state), groupWords(state)].filter(Boolean).join(" · ")),
    state.group_bytes.length > 1 && state.size_bytes > 0 ? strip(state) : null);
}

function taskWords(state) {
  if (state.task_bytes.length < 2) return "";
  const mean = state.size_bytes / state.task_bytes.length || 1;
  const most = Math.max(...state.task_bytes);
  const even = most / mean < SKEWED;
  return even ? `spread evenly over ${plural(state.task_bytes.length, "task")}` : `task ${state.task_bytes.indexOf(most)} has ${(most / mean).toFixed(1)} times the mean`;
}

function groupWords(state) {
  if (state.largest_group === null || !state.size_bytes) return "";
  return `largest key group ${state.largest_group}: ${bytes(state.largest_group_bytes)}, ${share(state.largest_group_bytes / state.size_bytes)}`;
}

// Each cell some neighbouring key groups; the higher, the more they hold.
function strip(state) {
  const most = Math.max(...state.group_bytes) || 1;
  const words = `State over the key groups, ${state.group_bytes.length} parts: the largest has ${bytes(most)}`;
  return h("div", { class: "groups", role: "img", "aria-label": words, title: words }, state.group_bytes.map((size) => {
    const cell = h("i");
    cell.style.height = `${Math.max(3, (size / most) * 100)}%`;
    if (size === most && most * state.group_bytes.length > SKEWED * state.size_bytes) cell.className = "most";
    return cell;
  }));
}

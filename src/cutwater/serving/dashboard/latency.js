// How long does a record take, at most? So long as a barrier, which waits in the same queues.
import { h } from "/assets/dom.js";
import { plural, seconds } from "/assets/format.js";

export function latencyView(root) {
  let seen = "";
  return {
    update(status) {
      const now = JSON.stringify(status.latency);
      if (now === seen) return;
      seen = now;
      root.replaceChildren(...(status.latency ? figures(status.latency) : [h("p", { class: "empty" }, "Shown after the first checkpoint.")]));
    },
  };
}

function figures(latency) {
  const rows = [["p50", latency.p50_seconds], ["p95", latency.p95_seconds], ["p99", latency.p99_seconds]].map(([name, value]) => {
    const bar = h("i");
    bar.style.width = `${latency.p99_seconds ? (value / latency.p99_seconds) * 100 : 0}%`;
    return h("div", { class: "percentile" }, h("span", { class: "percentile-name" }, name), h("span", { class: "meter" }, bar), h("strong", null, seconds(value)));
  });
  return [...rows, h("p", { class: "card-note" }, `From a source to the last tasks, measured by ${plural(latency.samples, "barrier")}: a record that waits in the same queues takes no longer.`)];
}

// Why did attempts fail? The newest first, each with the user's own code before ours.
import { ask } from "/assets/api.js";
import { h } from "/assets/dom.js";
import { clock, plural, seconds } from "/assets/format.js";

const OPEN_FIRST = 1;

export function exceptionsView(root, path) {
  let seen = "";
  root.replaceChildren(h("p", { class: "empty" }, "No attempt has failed."));
  return {
    async update(status) {
      // What changes while a recovery goes on is asked for again; nothing else is.
      const now = JSON.stringify([status.restarts, status.recoveries.at(-1), status.failure]);
      if (now === seen || (!status.restarts && !status.failure)) return;
      seen = now;
      const answer = await ask(path("/exceptions")).catch(() => { seen = ""; });
      if (answer) show(root, answer);
    },
  };
}

function show(root, { restarts, recoveries, failure }) {
  const failed = failure ? [h("div", { class: "exception final" }, h("p", { class: "exception-head" }, h("strong", null, "The job failed: "), failure.fact), explained(failure.detail, failure.hint))] : [];
  const open = new Set([...root.querySelectorAll("details[open]")].map((each) => each.dataset.attempt));
  const first = root.querySelector("details") === null;
  root.replaceChildren(
    ...failed,
    h("p", { class: "card-note" }, plural(restarts, "restart")),
    h("ol", { class: "exceptions", reversed: true }, recoveries.map((each, at) => attempt(each, open.has(key(each)) || (first && at < OPEN_FIRST)))));
}

function key(recovery) {
  return `${recovery.attempt} ${recovery.noticed_at_ms}`;
}

function attempt(recovery, open) {
  const [fact, ...rest] = recovery.cause.split("\n");
  return h("li", { class: "exception" }, h("details", { open, "data-attempt": key(recovery) },
    h("summary", null,
      h("span", { class: "exception-when" }, `${clock(recovery.noticed_at_ms)} · ${recovery.attempt ? `attempt ${recovery.attempt}` : "no attempt could begin"}`),
      h("span", { class: "exception-fact" }, fact)),
    rest.length ? said(rest.join("\n"), fact) : null,
    h("p", { class: "way-back" }, wayBack(recovery)),
    recovery.skipped.map(([checkpoint, why]) => h("p", { class: "way-back" }, `Passed over checkpoint ${checkpoint}: ${why}`))));
}

// As an error is written: "  detail: …", which begins with the user's frames, and "  hint:   …".
function said(text, fact) {
  const [detail, hint] = text.split(/^ {2}hint: +/m);
  return explained(detail.replace(/^ {2}detail: /, "").replace(/^ {10}/gm, "").trimEnd(), hint?.trim(), fact);
}

function explained(detail, hint, fact = "") {
  return [detail && !fact.includes(detail) ? h("pre", { tabindex: "0", "aria-label": "Detail" }, detail) : null, hint ? h("p", { class: "exception-hint" }, `Hint: ${hint}`) : null];
}

function wayBack(recovery) {
  const start = recovery.restored_checkpoint === null ? "the beginning" : `checkpoint ${recovery.restored_checkpoint}`;
  const steps = [["slots ready", recovery.slots_ready_seconds], ["deployed", recovery.deployed_seconds], ["state restored", recovery.restore_seconds], ["first record", recovery.first_record_seconds]];
  const done = steps.filter(([, value]) => value !== null).map(([name, value]) => `${name} after ${seconds(value)}`);
  return done.length ? `Went on from ${start}: ${done.join(", ")}.` : "On its way back …";
}

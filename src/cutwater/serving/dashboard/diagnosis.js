// Why is it slow? The same sentence that `cutwater doctor` writes.
import { askIfThere } from "/assets/api.js";
import { h } from "/assets/dom.js";
import { isOver } from "/assets/live.js";

const PAUSE_MS = 5000;

export function diagnosisView(root, path) {
  let askedAt = -Infinity;
  let there = true;
  return {
    async update(status) {
      if (isOver(status)) root.hidden = true;
      if (!there || isOver(status) || performance.now() - askedAt < PAUSE_MS) return;
      askedAt = performance.now();
      const answer = await askIfThere(path("/diagnosis")).catch(() => ({ findings: [] }));
      there = answer !== undefined;
      show(root, answer?.findings ?? []);
    },
  };
}

function show(root, findings) {
  root.hidden = findings.length === 0;
  if (root.hidden) return;
  const [first, ...rest] = findings;
  root.dataset.severity = first.severity;
  root.replaceChildren(sentence(first));
  if (rest.length) {
    root.append(h("details", null, h("summary", null, `${rest.length} more`), rest.map(sentence)));
  }
}

function sentence(finding) {
  const hint = finding.suggestion ? h("span", { class: "suggestion" }, ` Hint: ${finding.suggestion}.`) : null;
  return h("p", null, h("strong", null, `${finding.title}.`), finding.evidence ? ` ${finding.evidence}.` : "", hint);
}

// Which checkpoint's barrier is shown, and at which moment? The newest, played when it is complete, until one is chosen.
import { askIfThere } from "/assets/api.js";
import { barrierGraph } from "/assets/barrier_graph.js";
import { figure, h, setText, table, text } from "/assets/dom.js";
import { bytes, clock, seconds } from "/assets/format.js";
import { gantt } from "/assets/gantt.js";
import { player } from "/assets/player.js";
import { phaseAt, timelineOf } from "/assets/timeline.js";

const LIVE_AFTER_MS = 1500;
const REST_MS = 2500;
const LEGEND = [["before", "before the barrier"], ["aligning", "waits for the other barriers"], ["frozen", "freezes its state"], ["writing", "works on, and writes beside it"], ["acknowledged", "acknowledged"]];
const COLUMNS = [text("Task"), figure("Barrier after"), figure("Aligned in"), figure("Frozen for"), figure("Written in"), figure("Acknowledged after"), figure("Size"), figure("Newly written")];

export function barrierView(root, path) {
  const parts = skeleton(root);
  let status = null;
  let shown = null;
  let following = true;
  let restUntil = 0;
  let loading = null;
  let pictures = [];
  const view = { onShown: () => {}, select, update };

  const play = player(goTo, touched, () => { restUntil = performance.now() + REST_MS; });
  parts.controls.prepend(play.button);
  parts.scrub.append(play.range);
  parts.moment.append(play.told);
  parts.follow.addEventListener("click", () => (following ? unfollow() : follow()));
  new ResizeObserver(() => {
    draw();
    play.again();
  }).observe(root);

  function goTo(moment) {
    for (const picture of pictures) picture.go(moment);
    if (shown) setText(parts.now, momentWords(shown, moment));
  }

  function touched() {
    if (following) unfollow();
  }

  function unfollow() {
    following = false;
    tell();
  }

  function follow() {
    following = true;
    restUntil = 0;
    tell();
    advance();
  }

  function tell() {
    parts.follow.setAttribute("aria-pressed", String(following));
    view.onShown(shown?.checkpoint.checkpoint ?? null, following);
  }

  async function select(checkpoint) {
    unfollow();
    await load(checkpoint, { autoplay: true, chosen: true });
  }

  async function load(checkpoint, { autoplay, live, chosen }) {
    loading = checkpoint;
    const details = await askIfThere(path(`/checkpoints/${checkpoint}`)).catch(() => undefined);
    // Meanwhile another one was asked for, or someone began to scrub the one that is shown.
    if (loading !== checkpoint) return;
    loading = null;
    if (!details || (!chosen && !following)) return;
    shown = timelineOf(details, status.graph, status.attempt);
    draw();
    if (live) play.live(shown.duration);
    else play.load(shown.duration, { autoplay });
    tell();
  }

  function draw() {
    parts.body.hidden = !shown?.tasks.length;
    if (!shown?.tasks.length) return;
    const width = parts.pictures.clientWidth;
    shown.width = width;
    const chart = gantt(shown, width, play.scrub);
    pictures = [barrierGraph(shown, width), chart];
    parts.pictures.replaceChildren(...pictures.map((picture) => picture.root));
    Object.assign(parts.scrub.style, { marginLeft: `${chart.left - 8}px`, marginRight: `${chart.right - 8}px` });
    setText(parts.title, `The barrier’s way through ${shown.checkpoint.kind} ${shown.checkpoint.checkpoint}`);
    setText(parts.outcome, `${clock(shown.checkpoint.triggered_at_ms)} · ${shown.checkpoint.outcome} · ${seconds(shown.checkpoint.duration_seconds)}`);
    parts.table.replaceChildren(table(`Tasks of checkpoint ${shown.checkpoint.checkpoint}`, COLUMNS, shown.tasks.map(row)));
  }

  // Slow ones are watched while they run; quick ones are played when they are complete, one after the other.
  function advance() {
    if (!following || play.playing || loading !== null || performance.now() < restUntil) return;
    const underWay = status.checkpoints_under_way.at(-1);
    if (underWay && status.as_of_ms - underWay.triggered_at_ms > LIVE_AFTER_MS) {
      load(underWay.checkpoint, { live: true });
      return;
    }
    const newest = status.checkpoints.filter((each) => each.outcome === "completed").at(-1);
    const same = shown && newest && shown.checkpoint.checkpoint === newest.checkpoint && shown.checkpoint.outcome === "completed";
    if (newest && !same) load(newest.checkpoint, { autoplay: true });
  }

  function update(next) {
    status = next;
    // One that was chosen while it was under way goes on to its end.
    if (!following && shown?.checkpoint.outcome === "under way" && loading === null) load(shown.checkpoint.checkpoint, { live: true, chosen: true });
    advance();
  }

  return view;
}

function skeleton(root) {
  const parts = {
    title: h("h3", null, "The barrier’s way"), outcome: h("p", { class: "card-note" }), pictures: h("div", { class: "pictures" }),
    scrub: h("div", { class: "scrub" }), moment: h("span", { class: "moment-of" }), now: h("p", { class: "now" }), table: h("div"),
    follow: h("button", { type: "button", class: "follow", "aria-pressed": "true" }, "Follow the newest"),
  };
  parts.controls = h("div", { class: "player" }, parts.moment, parts.now, parts.follow);
  const legend = h("ul", { class: "legend", "aria-label": "What a task does" }, LEGEND.map(([phase, words]) => h("li", null, h("i", { class: `swatch phase ${phase}` }), words)));
  parts.body = h("div", { hidden: true },
    h("div", { class: "card-head" }, parts.title, parts.outcome),
    h("p", { class: "lead" }, "A barrier flows with the records and parts them: those ahead of it belong to this checkpoint, those behind it to the next. No task stops for longer than it takes to freeze its state."),
    legend, parts.pictures, parts.scrub, parts.controls,
    h("details", { class: "as-table" }, h("summary", null, "As a table"), parts.table));
  root.append(parts.body);
  return parts;
}

function momentWords(timeline, moment) {
  const counts = new Map();
  for (const task of timeline.tasks) {
    const phase = phaseAt(task, moment);
    counts.set(phase, (counts.get(phase) ?? 0) + 1);
  }
  const names = { before: "before the barrier", aligning: "aligning", frozen: "frozen", writing: "writing", written: "written", acknowledged: "acknowledged" };
  return Object.entries(names).filter(([phase]) => counts.has(phase)).map(([phase, name]) => `${counts.get(phase)} ${name}`).join(" · ");
}

function row(task) {
  if (!task.known) return [task.id, ...Array(5).fill("not yet"), "–", "–"];
  return [
    task.id, seconds(task.arrived), seconds(task.aligned - task.arrived), seconds(task.frozen - task.aligned), seconds(task.written - task.frozen),
    seconds(task.acknowledged), bytes(task.size), bytes(task.newBytes),
  ];
}

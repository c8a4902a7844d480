// Play, pause, drag: which moment of a checkpoint is shown? A few milliseconds are played in as many seconds.
import { h, setText } from "/assets/dom.js";
import { seconds } from "/assets/format.js";

const PLAY_SECONDS = 5;
const STEPS = 1000;
const reduced = matchMedia("(prefers-reduced-motion: reduce)");

export function player(onMoment, onTouched, onEnd) {
  let duration = 1;
  let moment = 0;
  let playing = false;
  let drawnAt = 0;
  let run = 0; // a frame of an earlier one may still come
  const button = h("button", { type: "button", class: "play", onclick: () => { onTouched(); playing ? pause() : play(moment >= duration ? 0 : moment); } });
  const range = h("input", { type: "range", min: "0", max: String(STEPS), step: "1", "aria-label": "Moment of the checkpoint", oninput: () => scrub((range.value / STEPS) * duration) });
  const told = h("output", { class: "moment" });

  function show() {
    range.value = String(Math.round((moment / duration) * STEPS));
    range.setAttribute("aria-valuetext", `${seconds(moment)} of ${seconds(duration)}`);
    setText(told, `${seconds(moment)} of ${seconds(duration)}`);
    button.setAttribute("aria-label", playing ? "Pause" : "Play");
    button.dataset.playing = String(playing);
  }

  function scrub(to) {
    onTouched();
    playing = false;
    go(to);
  }

  function go(to) {
    moment = Math.max(0, Math.min(duration, to));
    onMoment(moment);
    show();
  }

  function frame(now, turn) {
    if (!playing || turn !== run) return;
    // Without motion: ten still pictures.
    if (now - drawnAt >= (reduced.matches ? 700 : 0)) {
      const passed = reduced.matches ? PLAY_SECONDS / 10 : Math.min(0.1, (now - drawnAt) / 1000);
      drawnAt = now;
      go(moment + (passed / PLAY_SECONDS) * duration);
    }
    if (moment >= duration) {
      pause();
      onEnd();
    } else requestAnimationFrame((next) => frame(next, turn));
  }

  function play(from) {
    go(from);
    if (playing) return;
    playing = true;
    drawnAt = performance.now();
    show();
    run += 1;
    const turn = run;
    requestAnimationFrame((now) => frame(now, turn));
  }

  function pause() {
    playing = false;
    show();
  }

  return {
    button, range, told, scrub,
    again: () => go(moment),
    get playing() { return playing; },
    load(length, { autoplay }) {
      duration = length;
      pause();
      if (autoplay && !reduced.matches) play(0);
      else go(duration);
    },
    // Of a checkpoint that is under way: the moment is now.
    live(length) {
      duration = length;
      pause();
      go(duration);
    },
  };
}

// The job's status each time it has changed, until the job ends. A page that nobody looks at costs the driver nothing.
import { ask, jobPath } from "/assets/api.js";
import { byId, setText } from "/assets/dom.js";

const AGAIN_MS = 2000;
const TERMINAL = new Set(["finished", "cancelled", "failed"]);

export function isOver(status) {
  return TERMINAL.has(status.state);
}

export function followJob(jobId, onStatus) {
  let stream = null;
  let over = false;

  function open() {
    if (stream || over || document.hidden) return;
    stream = new EventSource(jobPath(jobId, "/events"));
    stream.addEventListener("status", (event) => {
      const status = JSON.parse(event.data);
      over = isOver(status);
      show(over ? "over" : "live");
      if (over) close();
      onStatus(status);
    });
    stream.addEventListener("error", () => {
      close();
      show("lost");
      setTimeout(tryAgain, AGAIN_MS);
    });
  }

  async function tryAgain() {
    try {
      await ask("/session");
      open();
    } catch (refused) {
      if (refused.status !== 401) setTimeout(tryAgain, AGAIN_MS);
    }
  }

  function close() {
    stream?.close();
    stream = null;
  }

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) open();
    else if (!over) {
      close();
      show("paused");
    }
  });
  open();
}

const WORDS = { live: "live", over: "job has ended", lost: "connection lost, trying again", paused: "paused" };

function show(state) {
  const connection = byId("connection");
  connection.dataset.state = state;
  setText(connection, WORDS[state]);
}

// The buttons that steer the job. Each asks before it does something, and shows how it went.
import { ask } from "/assets/api.js";
import { h } from "/assets/dom.js";
import { confirmed } from "/assets/confirm.js";
import { isOver } from "/assets/live.js";
import { followOperation, told } from "/assets/operations.js";

const FOLDER = { name: "folder", label: "Folder", type: "text", placeholder: "file:///savepoints", hint: "The savepoint gets a folder of its own below it, as the driver sees it.", required: true };
const LAST_FOLDER = { ...FOLDER, name: "savepoint", label: "Savepoint in folder (none if empty)", required: false };
const DRAIN = { name: "drain", label: "Drain: event time ends, too, and open windows give what they have", type: "checkbox" };

const ACTIONS = [
  { name: "Checkpoint", path: "/checkpoints", title: "Take a checkpoint now?", text: "The job goes on meanwhile." },
  { name: "Savepoint", path: "/savepoints", title: "Take a savepoint?", text: "The job goes on meanwhile. A savepoint stays until you delete it.", fields: [FOLDER] },
  { name: "Rescale", path: "/rescale", title: "Change the number of tasks?", text: "The job takes a checkpoint, and goes on from it with so many tasks per operator.", fields: (status) => [parallelismField(status)] },
  { name: "Stop", path: "/stop", title: "Stop the job?", text: "The sources end, and everything that was read reaches the sinks.", fields: [LAST_FOLDER, DRAIN], grave: true },
  { name: "Cancel", path: "/cancel", title: "Cancel the job?", text: "It ends as it is, without a last checkpoint. What the sinks have not committed is lost until the job is restored.", grave: true },
];

function parallelismField(status) {
  const now = Math.max(1, ...status.graph.chains.map((chain) => chain.parallelism));
  return { name: "parallelism", label: "Tasks per operator", type: "number", min: 1, max: 32768, value: now, required: true };
}

export function controls(root, path, mayChange) {
  let status = null;
  if (!mayChange) {
    root.replaceWith(h("p", { class: "read-only" }, "You may look, not steer: this session is for reading only."));
    return { update() {} };
  }
  const buttons = ACTIONS.map((action) => h("button", { type: "button", class: action.grave ? "grave" : null, onclick: () => run(action) }, action.fields ? `${action.name}…` : action.name));
  root.append(...buttons);

  async function run(action) {
    const fields = typeof action.fields === "function" ? action.fields(status) : action.fields ?? [];
    const body = await confirmed({ ...action, fields });
    if (!body) return;
    try {
      const answer = await ask(path(action.path), { method: "POST", body: fields.length ? body : undefined });
      if (answer.operation) await followOperation(answer, action.name, path);
      else told(action.name, "was told to the job");
    } catch (refused) {
      told(action.name, null, refused);
    }
  }

  return {
    update(next) {
      status = next;
      for (const button of buttons) button.disabled = isOver(status);
    },
  };
}

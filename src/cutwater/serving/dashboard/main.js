// Which views are there, and what drives them? Every status of the job goes to each of them.
import { ask, jobPath } from "/assets/api.js";
import { barrierView } from "/assets/barrier.js";
import { historyView } from "/assets/checkpoints.js";
import { controls } from "/assets/controls.js";
import { diagnosisView } from "/assets/diagnosis.js";
import { byId } from "/assets/dom.js";
import { exceptionsView } from "/assets/exceptions.js";
import { graphView } from "/assets/graph.js";
import { headerView } from "/assets/header.js";
import { inspectorView } from "/assets/inspector.js";
import { latencyView } from "/assets/latency.js";
import { followJob } from "/assets/live.js";
import { logsView } from "/assets/logs.js";
import { currentSession, signOutButton } from "/assets/session.js";
import { stateView } from "/assets/state.js";
import { themeSwitch } from "/assets/theme_switch.js";

themeSwitch(byId("theme"));
signOutButton(byId("sign-out"));
document.addEventListener("signed-out", () => {
  const notice = byId("notice");
  notice.hidden = false;
  notice.textContent = "Your session is over. Reload the page to sign in again.";
});

const session = await currentSession();
const { jobs: [job] } = await ask("/jobs");
const path = (rest) => jobPath(job.job_id, rest);

const inspector = inspectorView(byId("inspector"));
const barrier = barrierView(byId("barrier"), path);
const history = historyView(byId("history"), (checkpoint) => barrier.select(checkpoint));
barrier.onShown = (checkpoint, following) => history.mark(checkpoint, following);
const views = [
  headerView(),
  controls(byId("actions"), path, session.access === "change"),
  graphView(byId("graph-canvas"), (chain) => inspector.select(chain)),
  inspector,
  history,
  barrier,
  stateView(byId("operator-states")),
  latencyView(byId("latency")),
  exceptionsView(byId("exceptions"), path),
  diagnosisView(byId("diagnosis"), path),
  logsView(byId("logs"), path),
];
followJob(job.job_id, (status) => {
  for (const view of views) view.update(status);
});

// When was the barrier where? All times in seconds from the trigger.
//
// Each task says when its first barrier came, when it had them all, when its state was frozen (and the barrier passed
// on), when it was written, and when the coordinator heard of it. Of the barriers on one task's inputs the first and the
// last arrival are known; those between are drawn in the order in which they were sent.
import { chainOf, indexOf } from "/assets/activity.js";

const CHANNELS_MAX = 160;

export const PHASES = ["before", "aligning", "frozen", "writing", "written", "acknowledged"];

export function timelineOf(details, graph, attempt) {
  const known = new Map(details.tasks.map((task) => [task.task, timed(task)]));
  const tasks = expectedTasks(details, graph, attempt).map((id) => known.get(id) ?? unknown(id));
  const last = Math.max(0, ...tasks.filter((task) => task.known).map((task) => task.acknowledged));
  const duration = Math.max(details.checkpoint.duration_seconds, last, 1e-6);
  const chains = graph.chains.filter((chain) => tasks.some((task) => task.chain === chain.uid));
  const uids = new Set(chains.map((chain) => chain.uid));
  const edges = graph.edges.filter((edge) => uids.has(edge.sender) && uids.has(edge.receiver));
  return { checkpoint: details.checkpoint, tasks, chains, edges, duration, flights: flightsOf(tasks, edges) };
}

function timed(task) {
  const arrived = task.start_delay_seconds;
  const aligned = arrived + task.alignment_seconds;
  const frozen = aligned + task.sync_seconds;
  const written = frozen + task.async_seconds;
  const acknowledged = Math.max(task.acknowledged_seconds, written);
  return { id: task.task, chain: chainOf(task.task), index: indexOf(task.task), known: true, arrived, aligned, frozen, written, acknowledged, size: task.size_bytes, newBytes: task.new_bytes };
}

function unknown(id) {
  const never = Infinity;
  return { id, chain: chainOf(id), index: indexOf(id), known: false, arrived: never, aligned: never, frozen: never, written: never, acknowledged: never, size: 0, newBytes: 0 };
}

// Those that have told, and, of a checkpoint that is not complete, those of this attempt that have not.
function expectedTasks(details, graph, attempt) {
  const found = new Set(details.tasks.map((task) => task.task));
  if (details.checkpoint.outcome !== "completed" && details.checkpoint.attempt === attempt) {
    for (const chain of graph.chains) for (let at = 0; at < chain.parallelism; at += 1) found.add(`${chain.uid}[${at}]`);
  }
  const place = new Map(graph.chains.map((chain, at) => [chain.uid, at]));
  return [...found].sort((a, b) => (place.get(chainOf(a)) ?? 0) - (place.get(chainOf(b)) ?? 0) || indexOf(a) - indexOf(b));
}

function flightsOf(tasks, edges) {
  const ofChain = (uid) => tasks.filter((task) => task.chain === uid);
  const flights = [];
  for (const task of tasks) {
    const inputs = [];
    for (const edge of edges.filter((each) => each.receiver === task.chain)) {
      for (const sender of ofChain(edge.sender)) if (connected(edge.partitioning, sender, task)) inputs.push(sender);
    }
    flights.push(...arrivals(thinned(inputs, tasks.length), task));
  }
  return flights;
}

function connected(partitioning, sender, receiver) {
  if (partitioning === "forward") return sender.index === receiver.index;
  return partitioning !== "global" || receiver.index === 0;
}

// Of very many channels only those of the first and the last barrier.
function thinned(inputs, tasks) {
  if (inputs.length * tasks <= CHANNELS_MAX || inputs.length <= 2) return inputs;
  const inOrder = [...inputs].sort((a, b) => a.frozen - b.frozen);
  return [inOrder[0], inOrder.at(-1)];
}

function arrivals(inputs, task) {
  const inOrder = [...inputs].sort((a, b) => a.frozen - b.frozen);
  return inOrder.map((sender, at) => {
    const part = inOrder.length === 1 ? 1 : at / (inOrder.length - 1);
    const arrives = task.known ? task.arrived + part * (task.aligned - task.arrived) : Infinity;
    return { from: sender, to: task, departs: sender.frozen, arrives: Math.max(arrives, sender.frozen) };
  });
}

export function phaseAt(task, time) {
  if (time < task.arrived) return "before";
  if (time < task.aligned) return "aligning";
  if (time < task.frozen) return "frozen";
  if (time < task.written) return "writing";
  return time < task.acknowledged ? "written" : "acknowledged";
}

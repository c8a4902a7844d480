// What does a chain do, over all its tasks? The sums and means that the views share.

export function chainOf(task) {
  return task.slice(0, task.lastIndexOf("["));
}

export function indexOf(task) {
  return Number(task.slice(task.lastIndexOf("[") + 1, -1));
}

export function tasksByChain(status) {
  const found = new Map(status.graph.chains.map((chain) => [chain.uid, []]));
  for (const task of status.tasks) found.get(chainOf(task.task))?.push(task);
  return found;
}

export function sum(items, value) {
  return items.reduce((total, item) => total + value(item), 0);
}

// Busy, backpressured, idle: of the last seconds; before the first measurement, of all the time.
export function sharesOf(tasks) {
  const of = (name) => sum(tasks, (task) => task[`${name}_share`]);
  let shares = { busy: of("busy"), backpressured: of("backpressured"), idle: of("idle") };
  if (shares.busy + shares.backpressured + shares.idle === 0) {
    const spent = (name) => sum(tasks, (task) => task[`${name}_seconds`]);
    shares = { busy: spent("busy"), backpressured: spent("backpressured"), idle: spent("idle") };
  }
  const total = shares.busy + shares.backpressured + shares.idle || 1;
  return { busy: shares.busy / total, backpressured: shares.backpressured / total, idle: shares.idle / total };
}

export function operatorRates(tasks, operator) {
  const found = tasks.flatMap((task) => task.operators.filter((each) => each.operator === operator));
  return {
    known: found.length > 0,
    in: sum(found, (each) => each.records_in_per_second),
    out: sum(found, (each) => each.records_out_per_second),
    recordsIn: sum(found, (each) => each.records_in),
    recordsOut: sum(found, (each) => each.records_out),
    busy: found.length ? sum(found, (each) => each.busy_share) / found.length : 0,
  };
}

// What arrives by an edge. Chains count what they send and get, not edges: an edge's own rate is that of a sender with no
// other, or what is left of its receiver's when the others are known. null: it can't be told.
export function edgeRate(edge, edges, byChain) {
  const own = sentAlone(edge, edges, byChain);
  if (own !== null) return own;
  const others = edges.filter((each) => each.receiver === edge.receiver && each !== edge).map((each) => sentAlone(each, edges, byChain));
  if (others.includes(null)) return null;
  const received = sum(byChain.get(edge.receiver) ?? [], (task) => task.records_in_per_second);
  return Math.max(0, received - others.reduce((total, other) => total + other, 0));
}

function sentAlone(edge, edges, byChain) {
  if (edges.filter((each) => each.sender === edge.sender).length > 1) return null;
  const copies = edge.partitioning === "broadcast" ? byChain.get(edge.receiver)?.length ?? 1 : 1;
  return copies * sum(byChain.get(edge.sender) ?? [], (task) => task.records_out_per_second);
}

export function lagOf(tasks) {
  const lags = tasks.flatMap((task) => Object.values(task.lag));
  return lags.length ? lags.reduce((total, lag) => total + lag, 0) : null;
}

export function watermarkOf(tasks) {
  const known = tasks.map((task) => task.watermark_ms).filter((watermark) => watermark !== null);
  return known.length && known.length === tasks.length ? Math.min(...known) : null;
}

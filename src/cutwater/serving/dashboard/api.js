// How is something asked of the job's control service? By the session's cookie: no script ever sees a token.
export class Refused extends Error {
  constructor(status, failure) {
    super(failure.fact);
    this.status = status;
    this.fact = failure.fact;
    this.detail = failure.detail ?? "";
    this.hint = failure.hint ?? "";
  }
}

export async function ask(path, { method = "GET", body } = {}) {
  const headers = { "x-cutwater": "page" };
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Refused(0, { fact: "the job does not answer", hint: "look whether its driver still runs" });
  }
  const said = await answer.json().catch(() => ({ fact: `HTTP ${answer.status}` }));
  if (answer.status === 401) document.dispatchEvent(new Event("signed-out"));
  if (!answer.ok) throw new Refused(answer.status, said);
  return said;
}

// Of what not every job has: undefined when there is none.
export async function askIfThere(path) {
  try {
    return await ask(path);
  } catch (refused) {
    if (refused.status === 404) return undefined;
    throw refused;
  }
}

export function jobPath(jobId, rest = "") {
  return `/jobs/${encodeURIComponent(jobId)}${rest}`;
}

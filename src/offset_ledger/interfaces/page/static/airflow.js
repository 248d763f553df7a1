// The Airflow UI around the page: its theme, links into it, and its REST API.

const framed = window.parent !== window;
const base = new URL("../", document.baseURI); // the page is mounted one level below Airflow

/** Follow Airflow's light or dark, now and when the user changes it. */
export function followTheme() {
  const outer = framed ? window.parent.document.documentElement : null;
  const chosen = () => {
    if (outer?.classList.contains("dark")) return "dark";
    if (outer?.classList.contains("light")) return "light";
    const stored = localStorage.getItem("theme");
    if (stored === "dark" || stored === "light") return stored;
    return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  };
  const apply = () => {
    document.documentElement.dataset.theme = chosen();
    window.dispatchEvent(new Event("themechange"));
  };
  apply();
  if (outer) new MutationObserver(apply).observe(outer, { attributeFilter: ["class"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  window.addEventListener("storage", apply);
}

/** Attributes of a link to a page of Airflow, which is followed in Airflow's own window: a frame may not open one. */
export function airflowLink(path) {
  const href = new URL(path, base).href;
  const onclick = (event) => {
    if (!framed) return;
    event.preventDefault();
    const link = window.parent.document.createElement("a");
    link.href = href;
    if (event.ctrlKey || event.metaKey) link.target = "_blank";
    link.click();
  };
  return { href, onclick };
}

/** Attributes of a link to the other one of our pages; in a frame Airflow goes there, so that its address says where. */
export const pageLink = (href, route, name) =>
  framed ? airflowLink(`plugin/${route}#${encodeURIComponent(name)}`) : { href: `${href}#${encodeURIComponent(name)}` };

export const runPath = (dagId, runId) => `dags/${encodeURIComponent(dagId)}/runs/${encodeURIComponent(runId)}`;

const READ_TIMEOUT = 60000; // milliseconds

/** JSON from the page's own API; throws an Error with the server's message. */
export async function read(path) {
  const signal = AbortSignal.timeout(READ_TIMEOUT);
  const silent = (error) => {
    throw new Error(`Airflow's API server does not answer (${error.message}).`);
  };
  return checkedJson(await fetch(`api/${path}`, { credentials: "same-origin", signal }).catch(silent));
}

/** Trigger a DAG as the logged-in user; Airflow itself decides whether this user may. Returns the run. */
export async function trigger(dagId, conf) {
  const address = new URL(`api/v2/dags/${encodeURIComponent(dagId)}/dagRuns`, base);
  const body = JSON.stringify({ logical_date: null, conf });
  const headers = { "Content-Type": "application/json" };
  return checkedJson(await fetch(address, { method: "POST", credentials: "same-origin", headers, body }));
}

async function checkedJson(response) {
  const body = await response.json().catch(() => null);
  if (response.ok) return body;
  if (response.status === 401) throw new Error("You are logged out; reload the page to log in again.");
  const { detail } = body ?? {};
  const status = `HTTP ${response.status} ${response.statusText}`;
  const silent = `Airflow's API server cannot answer (${status}): look whether its metadata database, Postgres, does.`;
  const message = typeof detail === "string" ? detail : detail ? JSON.stringify(detail) : silent;
  throw new Error(response.status === 403 ? `Airflow refused: ${message}` : message);
}

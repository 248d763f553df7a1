// What the page has in common with the Airflow around it: colours, links and the REST API.

const framed = window.parent !== window;
const base = new URL("../", document.baseURI); // the page is mounted one level below Airflow

/** Follow Airflow's light or dark, now and when the user changes it. */
export function followTheme() {
  const outer = framed ? window.parent.document.documentElement : null;
  const wanted = () => {
    if (outer?.classList.contains("dark")) return "dark";
    if (outer?.classList.contains("light")) return "light";
    const kept = localStorage.getItem("theme");
    if (kept === "dark" || kept === "light") return kept;
    return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  };
  const apply = () => (document.documentElement.dataset.theme = wanted());
  apply();
  if (outer) new MutationObserver(apply).observe(outer, { attributeFilter: ["class"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  window.addEventListener("storage", apply);
}

/** Attributes of a link to a page of Airflow. Its frame may open no window: the link is followed in Airflow's own. */
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

export const runPath = (dagId, runId) => `dags/${encodeURIComponent(dagId)}/runs/${encodeURIComponent(runId)}`;

const PATIENCE = 60000; // milliseconds after which an answer is given up

/** JSON from the page's own API; throws an Error with the server's line. */
export async function read(path) {
  const signal = AbortSignal.timeout(PATIENCE);
  return answered(await fetch(`api/${path}`, { credentials: "same-origin", signal }));
}

/** Trigger a DAG as the logged-in user; Airflow itself decides whether this user may. Returns the run. */
export async function trigger(dagId, conf) {
  const address = new URL(`api/v2/dags/${encodeURIComponent(dagId)}/dagRuns`, base);
  const body = JSON.stringify({ logical_date: null, conf });
  const headers = { "Content-Type": "application/json" };
  return answered(await fetch(address, { method: "POST", credentials: "same-origin", headers, body }));
}

async function answered(response) {
  const found = await response.json().catch(() => null);
  if (response.ok) return found;
  if (response.status === 401) throw new Error("You are logged out; reload the page to log in again.");
  const told = typeof found?.detail === "string" ? found.detail : JSON.stringify(found?.detail ?? response.statusText);
  throw new Error(response.status === 403 ? `Airflow refused: ${told}` : told);
}

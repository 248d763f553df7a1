// The ledger page: its filters, what it reads from the API, and its sections.

import { read } from "./airflow.js";
import { batches } from "./batches.js";
import { charts } from "./charts.js";
import { h } from "./dom.js";
import { newestFindings } from "./findings.js";
import { partitions } from "./partitions.js";
import { named, readings } from "./readings.js";
import { head, notice, overview } from "./views.js";

const WINDOWS = ["1h", "24h", "7d", "30d"];

const tab = new URLSearchParams(location.search); // on a DAG's tab: dag_id; on a run's: run_id too
const view = {
  kind: "",
  state: "",
  pages: [],
  open: new Set(),
  window: localStorage.getItem("offset-ledger.window") ?? "24h",
  run_id: tab.get("run_id"),
};

/** On a DAG's tab its pipelines: one, or one for each topic. */
function ofTab(pipelines) {
  const dag = tab.get("dag_id");
  return dag ? pipelines.filter((p) => Object.values(p.actions).some((action) => action.dag_id === dag)) : pipelines;
}

const chosen = (pipelines) => named(ofTab(pipelines));

/** Everything that the page shows; ``before`` is the result of the last time. */
async function readAll(before) {
  const answer = await read("pipelines");
  const pipeline = chosen(answer.pipelines);
  const more = pipeline && !pipeline.ledger_problem ? await readPipeline(pipeline.name, before) : {};
  return { ...answer, ...more, name: pipeline?.name };
}

async function readPipeline(name, before) {
  const wanted = new URLSearchParams({ limit: 50 });
  for (const key of ["kind", "state"]) if (view[key]) wanted.set(key, view[key]);
  if (view.pages.length) wanted.set("before", view.pages.at(-1));
  if (view.run_id) for (const key of ["dag_id", "run_id"]) wanted.set(key, tab.get(key));
  const at = `pipelines/${encodeURIComponent(name)}`;
  const [detail, page, points] = await Promise.all([
    read(at),
    read(`${at}/batches?${wanted}`),
    read(`${at}/history?window=${view.window}`),
  ]);
  if (view.run_id && !before?.page) page.batches.forEach((batch) => view.open.add(batch.batch_id)); // a run has few: all open
  const open = page.batches.filter((batch) => view.open.has(batch.batch_id));
  const opened = await Promise.all(open.map((batch) => read(`${at}/batches/${batch.batch_id}`)));
  return { detail, page, points, opened: new Map(opened.map((batch) => [batch.batch_id, batch])) };
}

/** Change what the page shows, and read it. */
function refresh(change = {}) {
  if ("toggle" in change && !view.open.delete(change.toggle)) view.open.add(change.toggle);
  for (const name of ["kind", "state", "pages", "window"]) if (name in change) view[name] = change[name];
  return reading.refresh();
}

function draw(shown) {
  const [mine, pipeline] = [ofTab(shown.pipelines), chosen(shown.pipelines)];
  if (!pipeline) {
    const other = tab.has("dag_id") && !mine.length && notice("plain", `${tab.get("dag_id")} is not a DAG of a pipeline.`);
    return other || [h("h1", {}, "Pipelines"), overview(mine)];
  }
  const several = mine.length > 1;
  const detail = shown.name === pipeline.name ? shown.detail : undefined;
  return [head({ ...pipeline, ...detail }, several, refresh), detail && sections(shown)];
}

function sections({ detail, page, opened, points }) {
  const list = batches(detail, view, page, opened, refresh);
  const bars = detail.partitions.length > 0 && partitions(detail.partitions);
  return view.run_id ? [list, bars] : [bars, overTime(points), newestFindings(detail), list];
}

function overTime(points) {
  const choose = (name) => () => {
    localStorage.setItem("offset-ledger.window", name);
    refresh({ window: name });
  };
  const button = (name) =>
    h(
      "button",
      { onclick: choose(name), "aria-pressed": String(view.window === name), "data-key": `window-${name}` },
      name,
    );
  return h(
    "section",
    {},
    h("div.head", {}, h("h2", {}, "Over time"), h("div.buttons.group", {}, WINDOWS.map(button))),
    h("div.charts", {}, charts(points)),
  );
}

const reading = readings(document.getElementById("page"), readAll, draw);
if (!WINDOWS.includes(view.window)) view.window = "24h";
window.addEventListener("hashchange", () => {
  Object.assign(view, { kind: "", state: "", pages: [], open: new Set() });
  reading.show();
  reading.refresh();
});
reading.refresh();

// The page: what is chosen, reading it again and again, and showing it.

import { followTheme, read } from "./airflow.js";
import { batches } from "./batches.js";
import { charts } from "./charts.js";
import { fill, h } from "./dom.js";
import { moment } from "./format.js";
import { partitions } from "./partitions.js";
import { findings, head, notice, overview } from "./views.js";

const EVERY = 8000; // milliseconds between two readings while somebody looks
const WINDOWS = ["1h", "24h", "7d", "30d"];

const tab = new URLSearchParams(location.search); // on a DAG's tab: dag_id; on a run's: run_id too
const place = document.getElementById("page");
const view = {
  kind: "",
  state: "",
  pages: [],
  open: new Set(),
  window: localStorage.getItem("offset-ledger.window") ?? "24h",
  run_id: tab.get("run_id"),
};
let shown = { pipelines: [], problems: [], at: null };
let failure = null;
let turn = 0;

function chosen() {
  const dag = tab.get("dag_id");
  if (dag) return shown.pipelines.find((p) => Object.values(p.actions).some((action) => action.dag_id === dag));
  const only = shown.pipelines.length === 1 ? shown.pipelines[0] : undefined;
  return shown.pipelines.find((p) => p.name === decodeURIComponent(location.hash.slice(1))) ?? only;
}

/** Read everything that is on view; a later reading that has begun meanwhile wins. */
async function refresh(change = {}) {
  if ("toggle" in change && !view.open.delete(change.toggle)) view.open.add(change.toggle);
  for (const name of ["kind", "state", "pages", "window"]) if (name in change) view[name] = change[name];
  const mine = ++turn;
  try {
    const found = { ...(await read("pipelines")), at: new Date().toISOString() };
    if (mine !== turn) return;
    shown = { ...shown, ...found };
    const pipeline = chosen();
    const more = pipeline && !pipeline.ledger_problem ? await readPipeline(pipeline.name) : {};
    if (mine !== turn) return;
    shown = { ...found, ...more, name: pipeline?.name };
    failure = null;
  } catch (error) {
    if (mine !== turn) return;
    failure = error.message;
  }
  show();
}

async function readPipeline(name) {
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
  if (view.run_id && !shown.page) page.batches.forEach((batch) => view.open.add(batch.batch_id)); // a run has few: all open
  const open = page.batches.filter((batch) => view.open.has(batch.batch_id));
  const opened = await Promise.all(open.map((batch) => read(`${at}/batches/${batch.batch_id}`)));
  return { detail, page, points, opened: new Map(opened.map((batch) => [batch.batch_id, batch])) };
}

function show() {
  const pipeline = chosen();
  const problems = [
    failure && notice("bad", failure, shown.at && ` What is shown is from ${moment(shown.at)}.`),
    shown.problems.map((line) => notice("bad", line)),
  ];
  if (!shown.at) return fill(place, problems);
  if (!pipeline) {
    const other = tab.get("dag_id") && notice("plain", `${tab.get("dag_id")} is not a DAG of a pipeline.`);
    return fill(place, problems, other || [h("h1", {}, "Pipelines"), overview(shown.pipelines)], footer());
  }
  const several = shown.pipelines.length > 1 && !tab.has("dag_id");
  const detail = shown.name === pipeline.name ? shown.detail : undefined;
  fill(place, problems, head({ ...pipeline, ...detail }, several, refresh), detail && sections(detail), footer());
}

function sections(detail) {
  const list = batches(detail, view, shown.page, shown.opened, refresh);
  if (view.run_id) return [list, detail.partitions.length > 0 && partitions(detail.partitions)];
  return [detail.partitions.length > 0 && partitions(detail.partitions), overTime(), findings(detail.findings), list];
}

function overTime() {
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
    h("div.charts", {}, charts(shown.points)),
  );
}

const footer = () => h("footer.soft", {}, `Read at ${moment(shown.at)}; reads itself again every ${EVERY / 1000} s.`);

followTheme();
if (!WINDOWS.includes(view.window)) view.window = "24h";
window.addEventListener("hashchange", () => {
  Object.assign(view, { kind: "", state: "", pages: [], open: new Set() });
  show();
  refresh();
});
document.addEventListener("visibilitychange", () => document.hidden || refresh());
setInterval(() => document.hidden || refresh(), EVERY);
refresh();

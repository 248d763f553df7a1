// The ledger page: its filters, what it reads from the API, and its sections.

import { address, addressed, addressedView, followAddress, named, nameShown } from "./address.js";
import { read } from "./airflow.js";
import { batches } from "./batches.js";
import { charts } from "./charts.js";
import { notice } from "./chips.js";
import { completeness } from "./completeness.js";
import { h, toggled } from "./dom.js";
import { newestFindings } from "./findings.js";
import { overview } from "./overview.js";
import { partitions } from "./partitions.js";
import { quarantine, wanted as wantedRecords } from "./quarantine.js";
import { readings } from "./readings.js";
import { head } from "./views.js";

const WINDOWS = ["1h", "24h", "7d", "30d"];
const SECTIONS = [
  ["", "Batches and partitions"],
  ["completeness", "Completeness"],
  ["quarantine", "Quarantine"],
];
const SHOWN_BATCHES = 25;

/** What the view of a section starts with, besides what every view has. */
const FIELDS = {
  "": { kind: "", state: "", pages: [], open: [] },
  completeness: { all: "" },
  quarantine: { state: "unresolved", reason: "", partition: "", since: "", until: "", pages: [], open: "" },
};

const tab = new URLSearchParams(location.search); // on a DAG's tab: dag_id; on a run's: run_id too
const run_id = tab.get("run_id");
let view;

const initial = () => ({ level: "", search: "", window: "24h", ...FIELDS[section()] });

/** The part of a pipeline that the address names after it. */
function section() {
  const name = addressed()[1] ?? "";
  return SECTIONS.some(([known]) => known === name) ? name : "";
}

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
  if (pipeline && !tab.has("dag_id")) nameShown(pipeline);
  const more = pipeline && !pipeline.ledger_problem ? await readPipeline(pipeline.name, before) : {};
  return { ...answer, ...more, name: pipeline?.name };
}

async function readPipeline(name, before) {
  const at = `pipelines/${encodeURIComponent(name)}`;
  const shown = section();
  const part = { completeness: readCompleteness, quarantine: readQuarantine }[shown] ?? readBatches;
  const [detail, more] = await Promise.all([read(at), part(at, before)]);
  return { detail, ...more, section: shown };
}

const readCompleteness = async (at) => ({ complete: await read(`${at}/completeness?window=${view.window}`) });

async function readQuarantine(at) {
  const record = view.open && read(`${at}/quarantine/${encodeURIComponent(view.open)}`);
  const [records, opened] = await Promise.all([read(`${at}/quarantine?${wantedRecords(view)}`), record]);
  return { records, record: opened };
}

async function readBatches(at, before) {
  const wanted = new URLSearchParams({ limit: SHOWN_BATCHES });
  for (const key of ["kind", "state"]) if (view[key]) wanted.set(key, view[key]);
  if (view.pages.length) wanted.set("before", view.pages.at(-1));
  if (run_id) for (const key of ["dag_id", "run_id"]) wanted.set(key, tab.get(key));
  const [page, points] = await Promise.all([
    read(`${at}/batches?${wanted}`),
    read(`${at}/history?window=${view.window}`),
  ]);
  if (run_id && !before?.page && !view.open.length) view.open = page.batches.map((batch) => `${batch.batch_id}`); // a run has few
  const open = page.batches.filter((batch) => view.open.includes(`${batch.batch_id}`));
  const opened = await Promise.all(open.map((batch) => read(`${at}/batches/${batch.batch_id}`)));
  return { page, points, opened: new Map(opened.map((batch) => [batch.batch_id, batch])) };
}

/** Change what the page shows, and read it. */
function refresh({ toggle, ...change } = {}) {
  Object.assign(view, change);
  if (toggle) view.open = toggled(view.open, `${toggle}`);
  address(view, initial());
  return reading.refresh();
}

/** Draw the view, which was changed, from what has been read. */
function redraw() {
  address(view, initial());
  reading.show();
}

function draw(shown, failure) {
  const [mine, pipeline] = [ofTab(shown.pipelines), chosen(shown.pipelines)];
  if (!pipeline) {
    const other = tab.has("dag_id") && !mine.length && notice("plain", `${tab.get("dag_id")} is not a DAG of a pipeline.`);
    return other || [h("h1", {}, "Pipelines"), overview(mine, view, redraw)];
  }
  const several = mine.length > 1;
  const detail = shown.name === pipeline.name && shown.section === section() ? shown.detail : undefined;
  const tabs = !run_id && !pipeline.ledger_problem && sectionTabs(pipeline);
  const unread = tabs && h("p.soft", {}, failure ? "What this part shows is not known: it has not been read yet." : "Reading…");
  const part = detail ? sections(shown) : unread;
  return [head({ ...pipeline, ...detail, whole: section() === "" }, several, refresh), tabs, part];
}

function sectionTabs(pipeline) {
  const link = ([name, text]) => {
    const window = view.window === "24h" ? "" : `?window=${view.window}`;
    const href = `#${encodeURIComponent(pipeline.name)}${name && `/${name}`}${window}`;
    return h("a.tab", { href, "aria-current": section() === name ? "page" : null, "data-key": `tab-${name}` }, text);
  };
  return h("nav.tabs", { "aria-label": "Parts of the pipeline" }, SECTIONS.map(link));
}

function sections({ detail, page, opened, points, complete, records, record, section: shown }) {
  if (shown === "completeness")
    return completeness(complete, windows(), view.all, () => refresh({ all: "1" }));
  if (shown === "quarantine") return quarantine(detail, records, view, record, refresh);
  const list = batches(detail, { ...view, run_id }, page, opened, refresh);
  const places = detail.partitions.length > 0 && partitions(detail);
  return run_id ? [list, places] : [list, places, overTime(detail, points), newestFindings(detail)];
}

function overTime(detail, points) {
  return h(
    "section",
    {},
    h("div.head", {}, h("h2", {}, "Over time"), windows()),
    h("div.charts", {}, charts(detail, points)),
  );
}

/** Buttons that choose the window. */
function windows() {
  const button = (name) =>
    h(
      "button",
      { onclick: () => refresh({ window: name }), "aria-pressed": String(view.window === name), "data-key": `window-${name}` },
      name,
    );
  return h("div.buttons.group", { role: "group", "aria-label": "Window" }, WINDOWS.map(button));
}

const reading = readings(document.getElementById("page"), readAll, draw);
const start = () => {
  view = addressedView(initial());
  if (!WINDOWS.includes(view.window)) view.window = "24h";
  redraw();
  reading.refresh();
};
followAddress(start);
start();

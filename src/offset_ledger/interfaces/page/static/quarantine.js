// The quarantined records of a pipeline: filters, a list in pages, and one record with its bytes.

import { read } from "./airflow.js";
import { pager } from "./batches.js";
import { chip } from "./chips.js";
import { dismiss, redrive } from "./dialogs.js";
import { h } from "./dom.js";
import { ago, bytes, moment, number } from "./format.js";
import { content, line as valueLine, reasonLines } from "./record.js";
import { row, table } from "./tables.js";

const STATES = ["unresolved", "dismissed", "resolved"];
const COLUMNS = ["Record", "Reasons", "Timestamp", "Quarantined", "Batch", "Value"];
const CELLS = ["td.when", "td.wide", "td.when", "td.when", "td.num", "td.num"];

/** What the API is asked for. */
export function wanted(filters) {
  const query = new URLSearchParams({ limit: 50, state: filters.state });
  for (const name of ["reason", "partition"]) if (filters[name]) query.set(name, filters[name]);
  for (const name of ["since", "until"]) if (filters[name]) query.set(name, new Date(`${filters[name]}Z`).toISOString());
  if (filters.pages.length) query.set("before", filters.pages.at(-1));
  return query;
}

/** The section. ``change`` sets filters and reads again. */
export function quarantine(pipeline, page, filters, opened, change) {
  const rows = page.records.flatMap((each) => [line(each, filters, change), filters.open === `${each.quarantine_id}` && unfolded(pipeline, each, opened, change)]);
  const none = h("tr", {}, h("td.soft", { colspan: COLUMNS.length }, "No record matches."));
  return h(
    "section",
    {},
    h("div.head", {}, h("h2", {}, "Quarantined records"), shownOf(pipeline, page, filters), h("div.buttons", {}, headButtons(pipeline, filters, change))),
    form(pipeline, filters, change),
    page.masked &&
      h("p.notice", {}, "Keys, values, headers and details are shown to users who may edit the DAG; you see their sizes."),
    table("quarantined records", COLUMNS, rows.length ? rows : none, ["Batch", "Value"]),
    pager(filters, page, change),
  );
}

/** How many of the unresolved records are on this page, where they are not filtered otherwise than by reason. */
function shownOf({ quarantined, quarantine_counted, quarantine_codes }, { records }, filters) {
  const { state, reason, partition, since, until } = filters;
  if (state !== "unresolved" || partition || since || until) return null;
  const all = reason ? (quarantine_codes[reason] ?? 0) : quarantined;
  const many = quarantined > quarantine_counted; // no more were counted, of no reason
  const total = many ? (reason ? `${number(all)} or more` : `more than ${number(quarantine_counted)}`) : number(all);
  return h("span.soft", {}, `${number(records.length)} of ${total}`);
}

function headButtons(pipeline, filters, change) {
  const { reason } = filters;
  return [
    reason && button(pipeline, `Redrive ${reason}…`, "redrive-filtered", () => redrive(pipeline, change, reason)),
    dismissible(filters) &&
      button(pipeline, `Dismiss ${reason}…`, "dismiss-filtered", () => dismiss(pipeline, "dismiss", byReason(filters), change)),
  ];
}

function button(pipeline, name, key, onclick) {
  const { blocked_reason } = pipeline.actions.redrive;
  return h("button", { onclick, disabled: Boolean(blocked_reason), title: blocked_reason, "data-key": key }, name);
}

/** Whether the list is what a dismissal by reason would take: it knows neither a partition nor an end. */
const dismissible = ({ state, reason, partition, until }) => state === "unresolved" && reason && !partition && !until;

function byReason({ reason, since }) {
  const from = since ? new Date(`${since}Z`).toISOString() : null;
  const which = `every unresolved record that was refused for ${reason}${from ? `, quarantined since ${moment(from)}` : ""}`;
  return { name: reason, effect: `Dismisses ${which}: no redrive takes it until that is undone.`, reason, since: from };
}

function oneRecord({ partition, offset, state }) {
  const effect =
    state === "dismissed"
      ? "The record is unresolved again, and the next redrive takes it."
      : "The record stays in quarantine, and no redrive takes it until that is undone.";
  return { name: `${partition}:${number(offset)}`, effect, partition, offsets: `${offset}` };
}

function form(pipeline, filters, change) {
  const set = (name) => (event) => change({ [name]: event.target.value, pages: [], open: "" });
  const field = (text, input) => h("label.filter", {}, h("span", {}, text), input);
  const select = (name, choices, all, texts = {}) =>
    h(
      "select",
      { onchange: set(name), "data-key": `quarantine-${name}` },
      all && h("option", { value: "" }, all),
      choices.map((c) => h("option", { value: c, selected: filters[name] === c }, texts[c] ?? c)),
    );
  const input = (name, type, more = {}) =>
    h("input", { type, value: filters[name], onchange: set(name), "data-key": `quarantine-${name}`, ...more });
  const counts = Object.entries(pipeline.quarantine_codes).map(([code, count]) => [code, `${code} (${number(count)})`]);
  const codes = [...new Set([...counts.map(([code]) => code), filters.reason])].filter(Boolean).sort();
  return h(
    "div.filters",
    { role: "search", "aria-label": "Filter the records" },
    field("State", select("state", STATES)),
    field("Reason", select("reason", codes, "all reasons", filters.state === "unresolved" ? Object.fromEntries(counts) : {})),
    field("Partition", select("partition", pipeline.partitions.map((p) => `${p.partition}`).sort((a, b) => a - b), "all")),
    field("Quarantined since (UTC)", input("since", "datetime-local")),
    field("until (UTC)", input("until", "datetime-local")),
  );
}

function line(each, filters, change) {
  const isOpen = filters.open === `${each.quarantine_id}`;
  const toggle = h(
    "button.toggle",
    {
      onclick: () => change({ open: isOpen ? "" : `${each.quarantine_id}` }),
      "aria-expanded": String(isOpen),
      "data-key": `record-${each.quarantine_id}`,
    },
    h("span.arrow", { "aria-hidden": "true" }, isOpen ? "▾" : "▸"),
    ` ${each.partition}:${number(each.offset)}`,
  );
  const values = [
    toggle,
    [reasonLines(each.reasons), each.retried_by !== null && h("span.soft", {}, `also in redrive ${each.retried_by}`)],
    moment(each.timestamp),
    h("span", { title: moment(each.quarantined_at) }, ago(each.quarantined_at)),
    each.batch_id,
    each.value_bytes === null ? "null" : bytes(each.value_bytes),
  ];
  return row(COLUMNS, CELLS, values, { class: isOpen ? "open" : null });
}

function unfolded(pipeline, each, opened, change) {
  const body = opened?.quarantine_id === each.quarantine_id ? details(pipeline, opened, change) : h("p.soft", {}, "Reading…");
  return h("tr.unfolded", {}, h("td", { colspan: COLUMNS.length }, body));
}

function details(pipeline, record, change) {
  const name = `${record.partition}:${number(record.offset)}`;
  const at = `pipelines/${encodeURIComponent(pipeline.name)}/quarantine/${record.quarantine_id}?whole=true`;
  const whole = (part) => async () => (await read(at))[part];
  const dismissed = record.state === "dismissed" && `${record.dismissed_who}, ${moment(record.dismissed_at)}: ${record.dismissed_why}`;
  const facts = [
    ["State", [chip(record.state === "unresolved" ? "warn" : "plain", record.state), dismissed && ` ${dismissed}`, record.resolved_by !== null && ` by batch ${record.resolved_by}`]],
    ["Coordinates", `partition ${record.partition}, offset ${number(record.offset)}, topic id ${record.topic_id}`],
    ["Timestamp", moment(record.timestamp)],
    ["Quarantined", `${moment(record.quarantined_at)} by batch ${record.batch_id}`],
    record.schema_id !== null && ["Schema id", record.schema_id],
    ["Reasons", reasonLines(record.reasons)],
    record.retried_reasons.length > 0 && [`Reasons in redrive ${record.retried_by}`, reasonLines(record.retried_reasons)],
    ["Key", content(record.key, `Key of ${name}`, whole("key"))],
    ["Value", content(record.value, `Value of ${name}`, whole("value"), record.reasons.map(({ path }) => path))],
    record.headers.length > 0 && [`Headers (${number(record.header_count)})`, headers(record.headers)],
    record.state !== "resolved" && ["Decision", decision(pipeline, record, change)],
  ];
  return h(
    "dl.facts",
    {},
    facts.filter(Boolean).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}

const headers = (all) =>
  h("ul.reasons", {}, all.map(({ name, value }) => h("li", {}, h("b", {}, name), " ", valueLine(value, `Header ${name}`))));

function decision(pipeline, record, change) {
  const [action, name] = record.state === "dismissed" ? ["undo_dismissal", "Undo dismissal…"] : ["dismiss", "Dismiss…"];
  return button(pipeline, name, `dismiss-${record.quarantine_id}`, () => dismiss(pipeline, action, oneRecord(record), change));
}

// The batches, one line each; an expanded one shows its ranges, steps and transitions.

import { airflowLink, runPath } from "./airflow.js";
import { sheetChart } from "./charts.js";
import { chip, stateChip } from "./chips.js";
import { decide, replay, report } from "./dialogs.js";
import { h } from "./dom.js";
import { ago, duration, moment, number, plural, range, share } from "./format.js";
import { SHEET, sheetBar, sheetCounts, sheetLegend, waterfall } from "./sheet.js";
import { heads, row as tableRow, table } from "./tables.js";

const KINDS = ["head", "backfill", "replay", "redrive", "pruned"];
const STATES = ["planned", "staging", "staged", "validated", "rejected", "committed", "abandoned"];
const VERDICT_LEVEL = { passed: "good", approved: "warn", rejected: "bad" };
const COLUMNS = ["Batch", "State", "Ranges", "Balance sheet", "Duration", "Quality", "Planned", "Run"];
const CELLS = ["td.when", "td", "td", "td.wide", "td.when", "td.when", "td.when", "td.when"];

/** The section of batches. ``view``: filters, pages and expanded batches; ``page``: the API's answer. */
export function batches(pipeline, view, page, opened, refresh) {
  const rows = page.batches.flatMap((batch) => [
    line(batch, view, refresh),
    view.open.includes(`${batch.batch_id}`) && unfolded(pipeline, batch, opened.get(batch.batch_id), refresh),
  ]);
  const text = view.run_id ? "This run has no batch: there was nothing new, or it has not planned yet." : "No batch matches.";
  const none = h("tr", {}, h("td.soft", { colspan: COLUMNS.length }, text));
  return h(
    "section",
    {},
    h(
      "div.head",
      {},
      h("h2", {}, view.run_id ? "Batches of this run" : "Batches"),
      h(
        "div.buttons",
        {},
        filter(view, "kind", "all kinds", KINDS, refresh),
        filter(view, "state", "all states", STATES, refresh),
      ),
    ),
    sheetLegend(page.batches.map((batch) => batch.sheet)),
    !view.run_id && sheetChart(pipeline, page.batches, (id) => refresh({ toggle: id })),
    table("batches", COLUMNS, rows.length ? rows : none),
    pager(view, page, refresh),
  );
}

/** A select that filters a table. */
export function filter(view, name, all, choices, refresh) {
  const change = (event) => refresh({ [name]: event.target.value, pages: [] });
  const options = [
    h("option", { value: "" }, all),
    choices.map((c) => h("option", { value: c, selected: view[name] === c }, c)),
  ];
  return h("select", { onchange: change, "data-key": name, "aria-label": all }, options);
}

/** Newer and older pages. */
export function pager(view, page, refresh) {
  if (!view.pages.length && page.before === null) return null;
  const newer = () => refresh({ pages: view.pages.slice(0, -1) });
  const older = () => refresh({ pages: [...view.pages, page.before] });
  return h(
    "div.buttons.pager",
    {},
    h("button", { onclick: newer, disabled: !view.pages.length, "data-key": "newer" }, "Newer"),
    h("button", { onclick: older, disabled: page.before === null, "data-key": "older" }, "Older"),
  );
}

function line(batch, view, refresh) {
  const isOpen = view.open.includes(`${batch.batch_id}`);
  const toggle = h(
    "button.toggle",
    {
      onclick: () => refresh({ toggle: batch.batch_id }),
      "aria-expanded": String(isOpen),
      "data-key": `batch-${batch.batch_id}`,
    },
    h("span.arrow", {}, isOpen ? "▾" : "▸"),
    ` ${batch.batch_id}`,
  );
  const run =
    batch.dag_id &&
    batch.run_id &&
    h("a", { ...airflowLink(runPath(batch.dag_id, batch.run_id)), title: batch.run_id }, "run");
  const page =
    batch.report &&
    h("button.link", { onclick: () => report(batch.report), "data-key": `report-${batch.batch_id}` }, "report");
  const values = [
    [toggle, " ", h("span.soft", {}, batch.kind)],
    stateChip(batch.state),
    `${plural(batch.offsets, "offset")} in ${plural(batch.partitions, "partition")}`,
    sheet(batch.sheet, batch.state),
    h(
      "span",
      { title: batch.steps.map((s) => `${s.name} ${duration(s.seconds)}`).join("\n") },
      duration(batch.steps.reduce((sum, s) => sum + s.seconds, 0)),
    ),
    batch.verdict
      ? [chip(VERDICT_LEVEL[batch.verdict], batch.verdict), quarantined(batch.quarantined_share)]
      : "–",
    h("span", { title: moment(batch.planned_at) }, ago(batch.planned_at)),
    [run, run && page && " · ", page || (!run && "–")],
  ];
  return tableRow(COLUMNS, CELLS, values, { class: isOpen ? "open" : null });
}

const quarantined = (part) => part !== null && h("span.soft.num", {}, ` ${share(part)}`);

function sheet(counts, state) {
  if (!counts) return h("span.soft", {}, state === "abandoned" ? "nothing was committed" : "open");
  return [sheetBar(counts), sheetCounts(counts)];
}

function unfolded(pipeline, batch, details, refresh) {
  const body = details
    ? [
        facts(batch, pipeline.silence && pipeline.open_batch?.batch_id === batch.batch_id),
        buttons(pipeline, batch, details, refresh),
        details.waterfall && h("div.inner", {}, waterfall(details.waterfall)),
        ranges(details.ranges),
        events(details.events),
      ]
    : h("p.soft", {}, "Reading…");
  return h("tr.unfolded", {}, h("td", { colspan: COLUMNS.length }, body));
}

function facts(batch, silent) {
  const soFar = silent ? " since its claim, no sign of the attempt" : " so far";
  const step = (s) => h("li", {}, h("span.soft", {}, s.name), ` ${duration(s.seconds)}`, s.running ? soFar : "");
  const lines = [
    ...batch.reasons.map((text) => h("li.bad", {}, text)),
    ...batch.notes.map((text) => h("li", {}, text)),
  ];
  return [
    h(
      "ul.steps",
      {},
      batch.steps.map(step),
      batch.after && h("li", {}, h("span.soft", {}, "ahead of"), ` batch ${batch.after}, which is not committed yet`),
      batch.max_timestamp &&
        h(
          "li",
          {},
          h("span.soft", {}, "records of"),
          ` ${moment(batch.min_timestamp)} to ${moment(batch.max_timestamp)}`,
        ),
      batch.engine &&
        h(
          "li",
          {},
          h("span.soft", {}, "staged by"),
          ` ${batch.engine === "spark" ? "Spark" : "one process"} (${batch.engine_reason})`,
        ),
    ),
    lines.length > 0 && h("ul.lines", {}, lines),
  ];
}

function buttons(pipeline, batch, details, refresh) {
  const { blocked_reason } = pipeline.actions.ingest;
  const written = details.ranges.map((r) => `${r.partition}:${r.from_offset}-${r.until_offset}`).join("\n");
  const button = (name, act) =>
    h(
      "button",
      { onclick: act, disabled: Boolean(blocked_reason), title: blocked_reason, "data-key": `${name}-${batch.batch_id}` },
      name,
    );
  const again = batch.state === "committed" && button("Replay these ranges…", () => replay(pipeline, refresh, written));
  return h(
    "div.buttons",
    {},
    batch.decisions.map((action) =>
      button(`${action[0].toUpperCase()}${action.slice(1)}…`, () => decide(pipeline, action, batch.batch_id, refresh)),
    ),
    again,
    blocked_reason && h("span.soft", {}, blocked_reason),
  );
}

function ranges(rows) {
  const used = SHEET.filter((name) => rows.some((r) => r.sheet?.[name]));
  const largest = Math.max(...rows.map((r) => r.until_offset - r.from_offset));
  const row = (r) =>
    h(
      "tr",
      {},
      h("th.when", { scope: "row" }, range(r)),
      h("td.num", {}, number(r.until_offset - r.from_offset)),
      used.map((name) => h("td.num", {}, number(r.sheet?.[name]))),
      h("td.range-bar", {}, r.sheet && scaled(sheetBar(r.sheet), (r.until_offset - r.from_offset) / largest)),
    );
  const columns = ["Range", "Offsets", ...used];
  return h(
    "div.inner",
    { "data-scroll": `ranges-${rows[0]?.partition}`, tabindex: 0, role: "region", "aria-label": "Ranges" },
    h("table", {}, heads([...columns, "By partition"], columns.slice(1)), h("tbody", {}, rows.map(row))),
  );
}

/** A bar as long as its range is among the others. */
function scaled(bar, part) {
  bar.style.width = `${Math.max(part * 100, 2)}%`;
  return bar;
}

function events(rows) {
  const row = (e) =>
    h(
      "tr",
      {},
      h("td.when", {}, moment(e.at)),
      h("td.when", {}, e.from_state ? `${e.from_state} → ${e.to_state}` : e.to_state),
      h("td.when", {}, `epoch ${e.epoch}`),
      h("td.who", {}, e.who),
      h("td.why", {}, e.why ?? ""),
    );
  const columns = ["Time", "Transition", "Epoch", "Who", "Why"];
  return h(
    "div.inner",
    { tabindex: 0, role: "region", "aria-label": "Transitions" },
    h("table.transitions", {}, heads(columns), h("tbody", {}, rows.map(row))),
  );
}

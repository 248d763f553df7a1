// The balance sheet: its parts in one order and one palette, as a stacked bar, a legend, counts and a waterfall.

import { h, svg } from "./dom.js";
import { number, share } from "./format.js";

export const SHEET = ["inserted", "updated", "superseded", "duplicate", "deleted", "quarantined", "skipped", "gap"];

const MEANING = {
  inserted: "rows of new event ids",
  updated: "newer states of known events",
  superseded: "older than what the table has",
  duplicate: "the same state as the table has",
  deleted: "delete markers",
  quarantined: "refused, kept in quarantine",
  skipped: "tombstones that are ignored, or an approved loss",
  gap: "offsets without a record",
  offsets: "all offsets of the ranges",
  decoded: "records that became rows",
  written: "rows that changed the table",
};

const total = (counts) => SHEET.reduce((sum, name) => sum + counts[name], 0);
const MIN_LENGTH = 0.008; // so that one refused record of a million is seen

/** One bar over the whole width, in the parts that exist. */
export function sheetBar(counts) {
  const all = total(counts);
  const parts = SHEET.filter((name) => counts[name]).map((name) => [name, Math.max(counts[name] / all, MIN_LENGTH)]);
  const length = parts.reduce((sum, [, part]) => sum + part, 0);
  let x = 0;
  const rect = ([name, part]) => {
    const width = part / length;
    const place = { x: percent(x), y: 0, width: percent(width), height: "100%" };
    x += width;
    return svg(`rect.is-${name}.part`, place, svg("title", {}, described(name, counts[name], all)));
  };
  const label = parts.map(([name]) => described(name, counts[name], all)).join(", ");
  return svg("svg.bar", { role: "img", "aria-label": `balance sheet: ${label || "nothing"}` }, parts.map(rect));
}

const described = (name, count, all) => `${name} ${number(count)} (${share(count / all)})`;
const percent = (part) => `${(part * 100).toFixed(3)}%`;

/** Names and colours of the parts that one of these sheets has. */
export function sheetLegend(sheets) {
  const used = SHEET.filter((name) => sheets.some((counts) => counts?.[name]));
  return h(
    "div.legends",
    {},
    used.map((name) => h("span.legend", { title: MEANING[name] }, h(`i.dot.is-${name}`), name)),
  );
}

/** The counts in words. */
export function sheetCounts(counts) {
  const parts = SHEET.filter((name) => counts[name]).map((name) =>
    h(`span.count.${name}`, {}, h("b.num", {}, number(counts[name])), ` ${name}`),
  );
  return parts.length ? h("span.counts", {}, parts) : "nothing";
}

/** From the offsets in the ranges to the rows in the table, a bar for each step. */
export function waterfall(steps) {
  const all = steps[0].count;
  const row = (s) =>
    h(
      s.total ? "tr.total" : "tr",
      {},
      h("th", { scope: "row", title: MEANING[s.name] }, s.name),
      h("td.num", {}, s.total || s.count === 0 ? number(s.count) : `${taken(s, steps) ? "−" : ""}${number(s.count)}`),
      h("td.num.soft", {}, share(s.count / all)),
      h("td.waterfall-bar", {}, stepBar(s, all)),
    );
  return h(
    "table.waterfall",
    {},
    h("caption", {}, "From the offsets to the table"),
    h(
      "thead.offscreen-head",
      {},
      h("tr", {}, ["Step", "Records", "Share", "Bar"].map((name) => h("th", { scope: "col" }, name))),
    ),
    h("tbody", {}, steps.map(row)),
  );
}

/** Whether the step takes offsets away; those after the last total say what it consists of. */
const taken = (step, steps) => steps.slice(steps.indexOf(step)).some((later) => later.total);

function stepBar(s, all) {
  const width = Math.max((s.end - s.start) / all, s.count ? 0.004 : 0);
  const place = { x: percent(Math.min(s.start / all, 1 - width)), y: "10%", width: percent(width), height: "80%" };
  return svg("svg.bar", { "aria-hidden": "true" }, svg(`rect.is-${s.total ? "total" : s.name}`, place));
}

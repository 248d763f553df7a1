// A bar for each partition: lost, committed and pending offsets, and those in open transactions.

import { h, svg } from "./dom.js";
import { moment, number } from "./format.js";

const PARTS = [
  ["lost", "deleted before it was read"],
  ["committed", "committed"],
  ["waiting", "pending up to the last stable offset"],
  ["unstable", "in open transactions up to the high watermark"],
];
const FEW = 12;

/** The section of all partitions: a table while they are few, a grid of small bars when they are many. */
export function partitions(positions) {
  const shown = positions.length <= FEW ? table(positions) : grid(positions);
  const legend = PARTS.filter(([, text], n) => text && positions.some((p) => p.bar[n] > 0));
  return h(
    "section",
    {},
    h(
      "div.head",
      {},
      h("h2", {}, "Partitions"),
      h(
        "div",
        {},
        legend.map(([name, text]) => h("span.legend", {}, h(`i.dot.${name}`), text)),
      ),
    ),
    shown,
  );
}

function table(positions) {
  const heads = ["Partition", "", "Log start", "Cursor", "Last stable", "High watermark", "Lag"];
  const row = (p) =>
    h(
      "tr",
      {},
      h("td.num", { "data-label": "Partition" }, p.partition),
      h("td.wide", {}, bar(p)),
      cells(p).map(([name, value]) => h("td.num", { "data-label": name }, number(value))),
    );
  return h(
    "div.card.scroll",
    {},
    h(
      "table.stacks",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          heads.map((name, n) => h(n === 1 ? "th.wide" : "th.num", {}, name)),
        ),
      ),
      h("tbody", {}, positions.map(row)),
    ),
  );
}

function grid(positions) {
  const cell = (p) =>
    h(
      "div.partition",
      { title: tooltip(p) },
      h("span.num.soft", {}, p.partition),
      bar(p),
      h("span.num", {}, number(p.lag)),
    );
  return h("div.card.partitions", {}, positions.map(cell));
}

const cells = (p) => [
  ["Log start", p.log_start],
  ["Cursor", p.cursor],
  ["Last stable", p.last_stable],
  ["High watermark", p.high_watermark],
  ["Lag", p.lag],
];

const tooltip = (p) =>
  [
    `partition ${p.partition}`,
    ...cells(p).map(([name, value]) => `${name.toLowerCase()} ${number(value)}`),
    `complete up to ${moment(p.complete_to)}`,
  ].join("\n");

function bar(p) {
  let x = 0;
  const part = (length, n) => {
    const rect =
      length > 0 && svg(`rect.${PARTS[n][0]}`, { x: `${x * 100}%`, y: 0, width: `${length * 100}%`, height: "100%" });
    x += length;
    return rect;
  };
  return svg(
    "svg.bar",
    { role: "img", "aria-label": tooltip(p) },
    svg("title", {}, tooltip(p)),
    svg("rect.ground", { width: "100%", height: "100%" }),
    p.bar.map(part),
  );
}

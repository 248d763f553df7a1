// One bar a partition: what was lost, what is committed, what waits, and what open transactions hold back.

import { h, svg } from "./dom.js";
import { moment, number } from "./format.js";

const PARTS = [
  ["lost", "deleted before it was read"],
  ["committed", "committed"],
  ["waiting", "waits up to the last stable offset"],
  ["unstable", "in open transactions up to the high watermark"],
];
const FEW = 12;

/** The section of all partitions: a table while they are few, a grid of small bars when they are many. */
export function partitions(found) {
  const shown = found.length <= FEW ? table(found) : grid(found);
  const legend = PARTS.filter(([, text], n) => text && found.some((p) => p.bar[n] > 0));
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

function table(found) {
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
      h("tbody", {}, found.map(row)),
    ),
  );
}

function grid(found) {
  const cell = (p) =>
    h(
      "div.partition",
      { title: told(p) },
      h("span.num.soft", {}, p.partition),
      bar(p),
      h("span.num", {}, number(p.lag)),
    );
  return h("div.card.partitions", {}, found.map(cell));
}

const cells = (p) => [
  ["Log start", p.log_start],
  ["Cursor", p.cursor],
  ["Last stable", p.last_stable],
  ["High watermark", p.high_watermark],
  ["Lag", p.lag],
];

const told = (p) =>
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
    { role: "img", "aria-label": told(p) },
    svg("title", {}, told(p)),
    svg("rect.ground", { width: "100%", height: "100%" }),
    p.bar.map(part),
  );
}

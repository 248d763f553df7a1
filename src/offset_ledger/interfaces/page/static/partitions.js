// The partitions of a topic on one scale, the largest lag first; from twenty on as a heatmap of their lag.

import { h, svg } from "./dom.js";
import { moment, number, plural } from "./format.js";
import { row, table } from "./tables.js";

const PARTS = [
  ["lost", "deleted before it was read"],
  ["committed", "committed"],
  ["waiting", "pending up to the last stable offset"],
  ["unstable", "in open transactions up to the high watermark"],
];
const MANY = 20;
const MOST_LAGGING = 5;
const COLUMNS = ["Partition", "Log, on one scale", "Lag", "Log start", "Cursor", "Last stable", "High watermark"];
const CELLS = ["td.num", "td.wide", "td.num", "td.num", "td.num", "td.num", "td.num"];

/** The section of all partitions. ``positions`` come with the largest lag first. */
export function partitions({ partitions: positions, lag_steps }) {
  const few = positions.length < MANY;
  const listed = few ? positions : positions.slice(0, MOST_LAGGING);
  return h(
    "section",
    {},
    h("div.head", {}, h("h2", {}, "Partitions"), legend(listed)),
    !few && heatmap(positions, lag_steps),
    !few && h("h3", {}, `The ${MOST_LAGGING} with the largest lag`),
    table("partitions", COLUMNS, listed.map(line), COLUMNS.filter((name) => name !== COLUMNS[1])),
  );
}

function legend(positions) {
  const used = PARTS.filter((_, n) => positions.some((p) => p.bar[n] > 0));
  return h(
    "div.legends",
    {},
    used.map(([name, text]) => h("span.legend", {}, h(`i.dot.is-${name}`), text)),
  );
}

function line(p) {
  return row(COLUMNS, CELLS, [
    p.partition,
    bar(p),
    [number(p.lag), gauge(p)],
    number(p.log_start),
    number(p.cursor),
    number(p.last_stable),
    number(p.high_watermark),
  ]);
}

/** The lag as a share of the largest one. */
function gauge(p) {
  const part = h("i.is-waiting", {});
  part.style.width = `${p.lag ? Math.max(2, p.lag_length * 100) : 0}%`;
  return h("span.gauge", { "aria-hidden": "true" }, part);
}

const described = (p) =>
  [
    `partition ${p.partition}`,
    `lag ${number(p.lag)}`,
    `cursor ${number(p.cursor)}`,
    `log ${number(p.log_start)} to ${number(p.high_watermark)}`,
    `complete up to ${moment(p.complete_to)}`,
  ].join("\n");

/** The parts of the log; its length is its share of the longest one. */
function bar(p) {
  let x = 0;
  const part = (length, n) => {
    const place = { x: `${x * 100}%`, y: 0, width: `${length * 100}%`, height: "100%" };
    x += length;
    return length > 0 && svg(`rect.is-${PARTS[n][0]}`, place);
  };
  const label = { role: "img", "aria-label": described(p) };
  const picture = svg("svg.bar", label, svg("title", {}, described(p)), svg("rect.is-plain", { width: "100%", height: "100%" }), p.bar.map(part));
  picture.style.width = `${Math.max(4, p.length * 100)}%`;
  return picture;
}

/** A square for each partition, in the order of their numbers. */
function heatmap(positions, steps) {
  const cell = (p) =>
    h(
      `li.heat.heat-${p.step ?? "unknown"}`,
      { title: described(p) },
      h("span", {}, p.partition),
      h("span.offscreen-text", {}, `: lag ${number(p.lag)}`),
    );
  const ordered = positions.toSorted((a, b) => a.partition - b.partition);
  const behind = positions.filter((p) => p.lag).length;
  return h(
    "div.card.heatmap",
    {},
    h(
      "div.head",
      {},
      h("span.soft", {}, `Lag of ${plural(positions.length, "partition")}; ${number(behind)} behind`),
      heatLegend(steps, positions.some((p) => p.step === null)),
    ),
    h("ul.heats", { "aria-label": "Lag by partition" }, ordered.map(cell)),
  );
}

function heatLegend(steps, unknown) {
  const names = ["no lag", ...steps.map((limit) => `up to ${number(limit)}`)];
  return h(
    "div.legends",
    {},
    names.map((text, n) => h("span.legend", {}, h(`i.dot.heat-${n}`), text)),
    unknown && h("span.legend", {}, h("i.dot.heat-unknown"), "not known"),
  );
}

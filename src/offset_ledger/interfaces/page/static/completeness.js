// Which hours of each partition are in the table, with quarantine, gaps and what was read again.

import { h, svg } from "./dom.js";
import { moment, number, plural, tick } from "./format.js";
import { heads } from "./tables.js";

const COVERS = [
  ["table", "records in the table"],
  ["empty", "no records"],
  ["pending", "not complete yet"],
];
const QUARANTINED = ["quarantined", "with quarantined records"];
const MARKS = [
  ["gap", "with offsets without a record"],
  ["again", "read again"],
];
/** Where in a bar each cover is drawn, top and height: it can be told apart without its colour. */
const PLACES = { table: ["0", "100%"], empty: ["42%", "16%"], pending: ["25%", "50%"] };
const MANY = 50; // partitions that are shown at first
const TICKS = 6;
const DIGIT = 0.027; // of the narrowest bar
const SUMS = ["Records", "Quarantined", "Gap", "Read again", "Lag"];

/** The section. ``all``: whether every partition is shown; ``showAll`` shows them. */
export function completeness(answer, windows, all, showAll) {
  const lines = answer.partitions;
  const shown = all ? lines : lines.toSorted(leastComplete).slice(0, MANY).toSorted((a, b) => a.partition - b.partition);
  const rest = lines.length - shown.length;
  return h(
    "section",
    {},
    h("div.head", {}, h("h2", {}, "Completeness by record time"), windows),
    h("p.soft", {}, summary(answer)),
    legend(lines),
    h(
      "div.card.scroll",
      { tabindex: 0, role: "region", "aria-label": "Completeness by partition" },
      h(
        "table.timeline",
        {},
        timeHeads(answer),
        h("tbody", {}, shown.map((line) => timeline(line, answer))),
      ),
    ),
    rest > 0 &&
      h("button", { onclick: showAll, "data-key": "all-partitions" }, `Show ${plural(rest, "more partition")}`),
  );
}

const leastComplete = (a, b) => (b.lag ?? Infinity) - (a.lag ?? Infinity) || a.partition - b.partition;

function summary({ partitions, begin, step, steps, now }) {
  const behind = partitions.filter((line) => line.lag).length;
  const unknown = partitions.some((line) => line.lag === null);
  const read = partitions.reduce((sum, line) => sum + line.records, 0);
  const refused = partitions.reduce((sum, line) => sum + line.quarantined, 0);
  const end = now ?? new Date(Date.parse(begin) + steps * step * 1000).toISOString();
  const state = unknown
    ? "what has not been read yet is not known"
    : behind
      ? `${number(behind)} of ${plural(partitions.length, "partition")} are not complete`
      : `all of ${plural(partitions.length, "partition")} are ${refused ? "read completely" : "complete"}`;
  // A batch is counted where its newest record is, with all that it read, also from before.
  const loaded = refused ? ` Of ${plural(read, "record")} in the batches that end in this time, ${number(read - refused)} were loaded.` : "";
  const time = (at) => h("span.when", {}, moment(at, { seconds: false }));
  return [time(begin), " to ", time(end), `: ${state}.${loaded}`];
}

function legend(lines) {
  const runs = lines.flatMap((line) => line.runs);
  return h(
    "div.legends",
    {},
    COVERS.filter(([name]) => runs.some((run) => run.cover === name)).map(([name, text]) =>
      h("span.legend", {}, h(`i.dot.is-${name}`), text),
    ),
    [QUARANTINED, ...MARKS].filter(([name]) => runs.some((run) => run[name])).map(([name, text]) =>
      h("span.legend", {}, h(`i.dot.mark-${name}`), text),
    ),
    runs.some((run) => run.until_offset !== null) && h("span.legend", {}, "below a bar: offsets"),
  );
}

function timeHeads(answer) {
  const parts = heads(["Partition", "Record time", ...SUMS], ["Partition", ...SUMS]);
  parts.querySelectorAll("th")[1].append(axis(answer));
  return parts;
}

function axis({ begin, step, steps }) {
  const at = Array.from({ length: TICKS }, (_, n) => Math.round((n * steps) / TICKS));
  const label = (n) => tick(Date.parse(begin) / 1000 + n * step, step * Math.round(steps / TICKS));
  return h("div.axis", {}, at.map((n) => h("span", {}, label(n))));
}

function timeline(line, answer) {
  const cells = [line.records, line.quarantined, line.gap, line.again, line.lag];
  return h(
    "tr",
    {},
    h("th.num", { scope: "row" }, line.partition),
    h("td.time", {}, picture(line, answer), offsets(line, answer)),
    cells.map((value) => h("td.num", {}, number(value))),
  );
}

function picture(line, answer) {
  const label = `partition ${line.partition}: ${line.runs.map((run) => described(run, answer)).join("; ")}`;
  const marks = line.refused.map((mark) => refused(mark, answer));
  return svg("svg.bar", { role: "img", "aria-label": label }, line.runs.map((run) => drawn(run, answer)), marks);
}

/** The axis of the offsets, which are others in each partition. The picture's label has them too, so it is not read out. */
function offsets({ runs }, { steps }) {
  const at = (place, offset, anchor) =>
    svg("text", { x: `${place * 100}%`, y: "80%", "text-anchor": anchor }, number(offset));
  return svg(
    "svg.offsets",
    { "aria-hidden": "true" },
    ticksOf(runs, steps).map(({ place, offset, last }) => at(place, offset, last ? "end" : "start")),
  );
}

/** The first offset of as many runs as there is room for, and the last offset of all. */
function ticksOf(runs, steps) {
  const end = runs.findLast((run) => run.until_offset !== null);
  if (!end) return [];
  const begins = runs.filter((run) => run.from_offset !== null);
  const room = DIGIT * (2 + Math.max(...runs.map((run) => number(run.until_offset).length)));
  const last = { place: Math.max(end.end / steps, room), offset: end.until_offset - 1, last: true };
  const ticks = [];
  for (const run of begins) {
    const place = run.start / steps;
    const free = place >= (ticks.at(-1)?.place ?? -room) + room && place + 2 * room <= last.place;
    if (free) ticks.push({ place, offset: run.from_offset });
  }
  return [...ticks, last];
}

const across = (start, end, { steps }) => ({ x: `${(start / steps) * 100}%`, width: `${((end - start) / steps) * 100}%` });
const markAt = (n) => ({ y: `${n * 34}%`, height: "32%" });

/** The mark of neighbouring steps with quarantined records. */
function refused({ start, end, records }, answer) {
  const title = `${between(start, end, answer)}: ${plural(records, "record")} quarantined`;
  return svg("rect.mark-quarantined", { ...across(start, end, answer), ...markAt(0) }, svg("title", {}, title));
}

function drawn(run, answer) {
  const place = across(run.start, run.end, answer);
  const [top, height] = PLACES[run.cover];
  const mark = ([name], n) => run[name] > 0 && svg(`rect.mark-${name}`, { ...place, ...markAt(n + 1) });
  return svg(
    "g",
    {},
    svg("title", {}, described(run, answer)),
    svg(`rect.is-${run.cover}`, { ...place, y: top, height }),
    MARKS.map(mark),
  );
}

function between(start, end, { begin, step }) {
  const at = (n) => moment(new Date(Date.parse(begin) + n * step * 1000).toISOString(), { seconds: false, zone: false });
  return `${at(start)} to ${at(end)}`;
}

function described(run, answer) {
  const cover = COVERS.find(([name]) => name === run.cover)[1];
  const offsets = run.until_offset !== null && `offsets ${number(run.from_offset)} to ${number(run.until_offset - 1)}`;
  const counts = [
    run.records && plural(run.records, "record"),
    run.quarantined && `${number(run.quarantined)} quarantined`,
    run.gap && `${plural(run.gap, "offset")} without a record`,
    run.again && `${number(run.again)} read again`,
  ];
  return [between(run.start, run.end, answer), cover, offsets, ...counts].filter(Boolean).join(", ");
}

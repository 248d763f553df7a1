// All pipelines at a glance: how many are in which condition, and a line for each.

import { chip, stateChip } from "./chips.js";
import { h } from "./dom.js";
import { ago, moment, number, plural } from "./format.js";
import { row, table } from "./tables.js";
import { behind, dataLossDeadline, refusedShare } from "./views.js";

const COLUMNS = [
  "Pipeline",
  "Condition",
  "Lag in records",
  "Complete up to",
  "Quarantined",
  "Data-loss deadline",
  "Newest batches",
];
const CELLS = ["td.lead.when", "td", "td.when", "td.when", "td.when", "td.when", "td.when"];
const LEVELS = [
  ["unknown", "not known: a server does not answer"],
  ["bad", "stopped by a loss or an error"],
  ["warn", "waiting for a decision, or close to a loss"],
  ["plain", "at work, paused, behind, or with too much in quarantine"],
  ["good", "up to date"],
];
const MANY = 8; // pipelines that need no filter

/** ``view``: the ``level`` of condition that is shown, or all, and the words to ``search`` for; ``redraw`` shows it again. */
export function overview(pipelines, view, redraw) {
  if (!pipelines.length)
    return h(
      "p.notice",
      {},
      "There is no pipeline that you may see. A pipeline is a YAML file in dags/pipelines/; you see those whose DAG you may read.",
    );
  const words = view.search.trim().toLowerCase();
  const matching = (p) =>
    (!view.level || p.condition.level === view.level) &&
    (!words || `${p.name} ${p.topic} ${p.target}`.toLowerCase().includes(words));
  const shown = pipelines.filter(matching);
  const largest = Math.max(1, ...pipelines.map((p) => p.totals.lag ?? 0));
  return [
    h("div.head", {}, tiles(pipelines, view, redraw), pipelines.length > MANY && search(view, redraw)),
    table("pipelines", COLUMNS, shown.map((p) => line(p, largest))),
    shown.length < pipelines.length && h("p.soft", {}, `${shown.length} of ${plural(pipelines.length, "pipeline")}`),
  ];
}

function search(view, redraw) {
  const oninput = ({ target }) => {
    view.search = target.value;
    redraw();
  };
  const onfocus = ({ target }) => target.setSelectionRange(target.value.length, target.value.length);
  const name = "Filter by name, topic or table";
  return h("input.search", {
    type: "search",
    placeholder: name,
    "aria-label": name,
    "data-key": "search",
    value: view.search,
    oninput,
    onfocus,
  });
}

function tiles(pipelines, view, redraw) {
  const tile = ([level, text]) => {
    const count = pipelines.filter((p) => p.condition.level === level).length;
    const choose = () => {
      view.level = view.level === level ? "" : level;
      redraw();
    };
    return h(
      `button.tile.${level}`,
      {
        onclick: choose,
        "aria-pressed": String(view.level === level),
        disabled: !count,
        "data-key": `level-${level}`,
      },
      h("b.num", {}, number(count)),
      h("span", {}, text),
    );
  };
  return h("div.tiles", { role: "group", "aria-label": "Pipelines by condition" }, LEVELS.map(tile));
}

function line(p, largest) {
  return row(COLUMNS, CELLS, [
    [
      h("a.name", { href: `#${encodeURIComponent(p.name)}`, "data-key": p.name }, p.name),
      h("span.soft", {}, `${p.topic} → ${p.target}`),
    ],
    condition(p),
    h(
      "div",
      {},
      p.retired ? "–" : p.totals.lag === null ? "not known" : number(p.totals.lag),
      gauge((p.totals.lag ?? 0) / largest, "waiting"),
    ),
    freshness(p),
    quarantined(p),
    dataLossDeadline(p),
    h("div", {}, strip(p.recent), p.last_commit && second({ title: moment(p.last_commit) }, `commit ${ago(p.last_commit)}`)),
  ]);
}

/** A second line of a cell. */
const second = (attributes, ...text) => h("span.second.soft", attributes, text);

function freshness(p) {
  const at = p.totals.complete_to;
  if (!at) return p.retired ? "–" : "not known";
  const waiting =
    p.totals.lag === null
      ? "as of the last batch"
      : p.totals.lag === 0
        ? "nothing behind"
        : p.dated_long_ago
          ? behind(p).join(",")
          : `${behind(p)[0]} behind`;
  return h("div", {}, h("span", { title: moment(at) }, moment(at, { seconds: false })), second({}, waiting));
}

function condition(p) {
  const open = p.open_batch && !p.question && !p.condition.text.startsWith("batch");
  return [
    chip(p.condition.level, p.condition.text),
    p.question && p.question !== p.condition.text && [" ", chip("warn", p.question)],
    open && [" ", h("span.soft", {}, `batch ${p.open_batch.batch_id} `), stateChip(p.open_batch.state)],
  ];
}

/** How many records wait in quarantine; and what the last batch refused, against the share that the gate lets pass. */
function quarantined(p) {
  if (p.quarantined === null) return "not known";
  const waiting = `${number(p.quarantined)}${p.quarantined >= p.quarantine_counted ? "+" : ""} waiting`;
  if (p.quarantined_share === null) return p.quarantined ? waiting : "–";
  const over = p.quarantined_share > p.max_quarantined_share;
  const approved = over && p.judged_approved ? ", approved" : "";
  return h(
    "div",
    {},
    waiting,
    second({}, `batch ${p.judged_batch} refused `, over ? h("b.over", {}, refusedShare(p)) : refusedShare(p), approved),
    gauge(p.quarantined_share / (p.max_quarantined_share || 1), over ? "lost" : "quarantined"),
  );
}

/** How much of a whole, as a thin bar. */
function gauge(part, colour) {
  const bar = h(`i.is-${colour}`, {});
  bar.style.width = `${Math.min(100, Math.max(part > 0 ? 2 : 0, part * 100))}%`;
  return h("span.gauge", { "aria-hidden": "true" }, bar);
}

/** A square for each of the newest batches, the newest right. */
function strip(batches) {
  if (!batches.length) return "–";
  const counts = Object.entries(Object.groupBy(batches, (b) => b.state)).map(([state, all]) => `${all.length} ${state}`);
  const square = (b) => h(`i.${b.state}`, { title: `batch ${b.batch_id}, ${b.kind}, ${b.state}` });
  return h("span.strip", { role: "img", "aria-label": `newest batches: ${counts.join(", ")}` }, batches.map(square));
}

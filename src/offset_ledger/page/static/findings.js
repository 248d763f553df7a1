// What an audit said: the findings with the commands that mend them, what is gone, and the rules that passed.

import { chip } from "./batches.js";
import { copyButton } from "./copy.js";
import { h } from "./dom.js";
import { ago, moment, plural } from "./format.js";
import { row, table } from "./tables.js";

const LEVEL = { error: "bad", warning: "warn", info: "info", ok: "good" };
const CHANGE_LEVEL = { new: "warn", worse: "bad", better: "good", gone: "good" };
const FOUND = ["Severity", "Rule and what was found", "Mend it with", "Since"];
const FOUND_CELLS = ["td", "td.lead", "td.wide", "td.when"];
const COMMAND = /^(kafka-[a-z-]+\.sh|offset-ledger|echo) /; // what the audit's remedies begin with
const PASSED = ["Rule", "What was seen", "Since"];
const PASSED_CELLS = ["td.lead", "td.lead", "td.when"];

export const isFinding = (judged) => judged.severity !== null && judged.severity !== "ok";
export const severityChip = (severity, text = severity) => chip(LEVEL[severity] ?? "plain", text);
export const changeChip = (word, text = word) => chip(CHANGE_LEVEL[word] ?? "plain", text);

/** The findings of an audit, then what is gone since the one before. ``place`` tells several tables apart. */
export function findingsTable(judged, place, columns = FOUND) {
  const gone = judged.filter((each) => each.change === "gone");
  const values = [...judged.filter(isFinding).map((each) => finding(each, place)), ...gone.map(goneFinding)];
  const rows = values.map((each) => row(columns, FOUND_CELLS, each));
  return rows.length > 0 && table("findings", columns, rows);
}

/** The rules that an audit found kept. */
export function passedTable(judged) {
  const rows = judged
    .filter((each) => each.severity === "ok")
    .map((each) => row(PASSED, PASSED_CELLS, [h("b", {}, each.rule), each.found, time(each.since)]));
  return rows.length > 0 && table("passed", PASSED, rows);
}

/** The same in one line. */
export function passedLine(judged) {
  const rules = judged.filter((each) => each.severity === "ok").map((each) => each.rule);
  return h("p.soft", {}, `${plural(rules.length, "rule")} passed: ${rules.join(", ")}`);
}

/** The section of the ledger page: findings of the newest audit, and the way to the page of audits. */
export function newestFindings({ name, findings }) {
  if (!findings.length) return null;
  const broken = findings.filter(isFinding);
  const passed = `${plural(findings.length - broken.length, "rule")} passed`;
  return h(
    "section",
    {},
    h(
      "div.head",
      {},
      h("h2", {}, "Topic audit"),
      h(
        "span.soft",
        {},
        `${moment(findings[0].audited_at)} · ${passed} · `,
        h("a", { href: `audit#${encodeURIComponent(name)}`, "data-key": "audits" }, "all audits"),
      ),
    ),
    broken.length > 0 && findingsTable(broken, "newest", FOUND.slice(0, 3)),
  );
}

function finding(judged, place) {
  const { rule, severity, found, risk, remedy } = judged;
  const told = h("div", {}, h("b", {}, rule), " ", found, h("span.soft", {}, risk));
  const mends = remedy.split("\n").map((line, number) => mend(line, rule, `copy-${place}-${rule}-${number}`));
  return [severityChip(severity), told, h("div", {}, mends), history(judged)];
}

/** A line of a remedy: a command to copy, or words about the one below. */
function mend(line, rule, key) {
  if (!COMMAND.test(line)) return h("div.soft", {}, line);
  return h("div.command", {}, h("code", {}, line), copyButton(line, `what mends ${rule}`, key));
}

function history({ change, was, since }) {
  if (change === null) return h("span.soft", { title: moment(since) }, "in the first audit");
  const word = change !== "still" && changeChip(change, was && change !== "new" ? `${change}, was ${was}` : change);
  return change === "new" ? word : [word, word && " ", time(since)];
}

function goneFinding({ rule, found, was, since }) {
  const told = h("div", {}, h("b", {}, rule), " ", found, h("span.soft", {}, `was ${was} in the audit before`));
  return [changeChip("gone"), told, h("div", {}, "nothing to mend"), time(since)];
}

const time = (at) => (at ? h("span", { title: moment(at) }, ago(at)) : "–");

// The result of an audit: findings with the commands that fix them, findings that are gone, and the rules that passed.

import { pageLink } from "./airflow.js";
import { chip } from "./chips.js";
import { copyButton } from "./copy.js";
import { h } from "./dom.js";
import { ago, moment, plural } from "./format.js";
import { row, table } from "./tables.js";

const LEVEL = { error: "bad", warning: "warn", info: "info", ok: "good" };
const CHANGE_LEVEL = { new: "warn", worse: "bad", better: "good", gone: "good" };
const FINDINGS = ["Severity", "Rule and finding", "Fix", "Since"];
const FINDING_CELLS = ["td", "td.lead", "td.wide", "td.when"];
const COMMAND = /^(kafka-[a-z-]+\.sh|offset-ledger|echo) /; // how a command in a remedy starts
const PASSED = ["Rule", "Observed", "Since"];
const PASSED_CELLS = ["td.lead", "td.lead", "td.when"];

const isFinding = (result) => result.severity !== null && result.severity !== "ok";
export const severityChip = (severity, text = severity) => chip(LEVEL[severity] ?? "plain", text);
export const changeChip = (word, text = word) => chip(CHANGE_LEVEL[word] ?? "plain", text);

/** The findings of an audit, then those gone since the previous one. ``place`` makes the keys of several tables unique. */
export function findingsTable(results, place, columns = FINDINGS) {
  const gone = results.filter((each) => each.change === "gone");
  const values = [...results.filter(isFinding).map((each) => finding(each, place)), ...gone.map(goneFinding)];
  const rows = values.map((each) => row(columns, FINDING_CELLS, each));
  return rows.length > 0 && table("findings", columns, rows);
}

/** The rules that passed, folded. ``place`` distinguishes several of them. */
export function passed(results, place) {
  const rows = results
    .filter((each) => each.severity === "ok")
    .map((each) => row(PASSED, PASSED_CELLS, [h("b", {}, each.rule), each.found, time(each.since)]));
  const title = h("summary", { "data-key": `passed-${place}` }, `${plural(rows.length, "rule")} passed`);
  return rows.length > 0 && h("details", { "data-fold": `passed-${place}` }, title, table("passed", PASSED, rows));
}

/** The section of the ledger page: findings of the newest audit, and a link to the audit page. */
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
        h("a", { ...pageLink("audit", "offset-ledger-audit", name), "data-key": "audits" }, "all audits"),
      ),
    ),
    broken.length > 0 && findingsTable(broken, "newest", FINDINGS.slice(0, 3)),
  );
}

function finding(result, place) {
  const { rule, severity, found, risk, remedy } = result;
  const text = h("div", {}, h("b", {}, rule), " ", found, h("span.soft", {}, risk));
  const fix = remedy.split("\n").map((line, number) => fixLine(line, rule, `copy-${place}-${rule}-${number}`));
  return [severityChip(severity), text, h("div", {}, fix), history(result)];
}

/** A line of a remedy: a command to copy, or a remark about the next one. */
function fixLine(line, rule, key) {
  if (!COMMAND.test(line)) return h("div.soft", {}, line);
  return h("div.command", {}, h("code", {}, line), copyButton(line, `the fix of ${rule}`, key));
}

function history({ change, was, since }) {
  if (change === null) return h("span.soft", { title: moment(since) }, "in the first audit");
  const word = change !== "still" && changeChip(change, was && change !== "new" ? `${change}, was ${was}` : change);
  return change === "new" ? word : [word, word && " ", time(since)];
}

function goneFinding({ rule, found, was, since }) {
  const text = h("div", {}, h("b", {}, rule), " ", found, h("span.soft", {}, `was ${was} in the previous audit`));
  return [changeChip("gone"), text, h("div", {}, "nothing to fix"), time(since)];
}

const time = (at) => (at ? h("span", { title: moment(at) }, ago(at)) : "–");

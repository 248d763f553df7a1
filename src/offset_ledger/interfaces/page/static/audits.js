// The newest audit of every topic, the header of one pipeline, and its past audits.

import { airflowLink, pageLink, runPath } from "./airflow.js";
import { filter, pager } from "./batches.js";
import { auditNow } from "./dialogs.js";
import { h } from "./dom.js";
import { changeChip, findingsTable, passed, severityChip } from "./findings.js";
import { ago, moment, plural, since } from "./format.js";
import { row, table } from "./tables.js";
import { blockedReason, chip, notice } from "./chips.js";

const OVERVIEW = ["Pipeline and topic", "Newest audit", "Changed", "Audited", "By"];
const PAST = ["Audited", "Findings", "Changed", "By"];
const CELLS = ["td.lead", "td", "td", "td", "td"];
const NAMES = {
  error: ["error", "errors"],
  warning: ["warning", "warnings"],
  info: ["good to know", "good to know"],
  ok: ["passed", "passed"],
};
const WORDS = ["new", "worse", "better", "gone"];

const GRACE = 600; // seconds from when an audit is due until it is overdue

/** Why what an audit found need not be so now, or "": nobody can ask, or the next one is overdue. */
export function doubt({ broker_problem }, { audited_at }, due) {
  if (broker_problem) return "the brokers do not answer now";
  return due && audited_at < due && since(due) > GRACE ? `an audit has been due since ${moment(due)}` : "";
}

/** Every topic of every pipeline, with its newest audit; ``due`` is when the next one is. */
export function overview(pipelines, due) {
  if (!pipelines.length)
    return h("p.notice", {}, "There is no pipeline that you may see; you see those whose DAG you may read.");
  const rows = pipelines.flatMap((p) =>
    p.ledger_problem ? [unreadable(p)] : p.topics.map((topic) => newestRow(p, topic, due)),
  );
  return h("section", {}, table("newest", OVERVIEW, rows));
}

function newestRow(pipeline, topic, due) {
  const { newest } = topic;
  const href = address(pipeline, topic);
  const name = h("a.name", { href, "data-key": href }, pipeline.name);
  const values = newest
    ? [counts(newest, doubt(pipeline, newest, due)), changes(newest), when(newest), by(newest)]
    : [h("span.soft", {}, "never audited"), "–", "–", "–"];
  return row(OVERVIEW, CELLS, [[name, h("span.soft", {}, topicName(topic))], ...values]);
}

function unreadable({ name, topic, ledger_problem }) {
  const link = h("a.name", { href: `#${name}`, "data-key": name }, name);
  const problem = [severityChip("error", "its ledger cannot be read"), h("span.soft", {}, ledger_problem)];
  return h(
    "tr",
    {},
    h("td.lead", {}, link, h("span.soft", {}, topic)),
    h("td.lead", { colspan: OVERVIEW.length - 1 }, problem),
  );
}

/** Identifies a topic of a pipeline: it may be audited for the pipeline, and also without it. */
export const topicKey = ({ topic, own }) => (own ? topic : `${topic}/alone`);

/** The address of a pipeline's topic; neither name contains a slash. */
const address = ({ name }, topic) => `#${name}/${topicKey(topic)}`;

const topicName = ({ topic, own }) => (own ? topic : `${topic}, audited without the pipeline`);

/** The header of a pipeline: name, topics, button, and the metrics of the newest audit. */
export function head(pipeline, topic, { pipelines, action, due }, refresh) {
  const newest = topic?.newest;
  const links = [
    pipelines.length > 1 && h("a", { href: "#", "data-key": "back" }, "All topics"),
    h("a", { ...pageLink("./", "offset-ledger", pipeline.name), "data-key": "ledger" }, "Ledger"),
  ].filter(Boolean);
  return [
    h(
      "div.head",
      {},
      h(
        "div",
        {},
        h("div.soft.links", {}, links),
        h("h1", {}, `Topic audit of ${pipeline.name}`, newest && counts(newest, doubt(pipeline, newest, due))),
        pipeline.topics.length > 1
          ? h("div.buttons.group", {}, topicLinks(pipeline, topic))
          : h("div.soft", {}, pipeline.topic),
      ),
      auditButton(action, refresh),
    ),
    pipeline.ledger_problem && notice("bad", "The ledger cannot be read. ", pipeline.ledger_problem),
    pipeline.broker_problem && notice("unknown", "What was audited is last known. ", pipeline.broker_problem),
    newest && metrics(newest),
    topic && !newest && notice("plain", `This topic was never audited. ${toAudit(action)}: `, byHand(pipeline)),
  ];
}

/** The button that audits every topic now; if it is disabled, with the reason. */
export function auditButton(action, refresh) {
  const { dag_id, blocked_reason } = action;
  const press = () => auditNow(dag_id, refresh);
  const attributes = { onclick: press, disabled: Boolean(blocked_reason), title: blocked_reason, "data-key": "audit-now" };
  return h(
    "div",
    {},
    h("div.buttons", {}, h("button", attributes, "Audit now…")),
    blockedReason(action),
  );
}

const toAudit = ({ blocked_reason }) => (blocked_reason ? "To audit it" : "Audit it now, or");

const byHand = ({ name }) => h("code", {}, `offset-ledger kafka audit ${name}`);

function topicLinks(pipeline, chosen) {
  return pipeline.topics.map((topic) => {
    const href = address(pipeline, topic);
    return h("a.choice", { href, "aria-current": topic === chosen && "true", "data-key": href }, topicName(topic));
  });
}

function metrics(newest) {
  const all = Object.values(newest.counts).reduce((sum, count) => sum + count, 0);
  const values = [
    ["Errors", newest.counts.error],
    ["Warnings", newest.counts.warning],
    ["Good to know", newest.counts.info],
    ["Passed", newest.counts.ok, ` of ${plural(all, "rule")}`],
    ["Changed", changes(newest)],
    ["Audited", when(newest), [" by ", by(newest)]],
  ];
  return h(
    "dl.metrics.card",
    {},
    values.map(([name, value, more]) =>
      h("div", {}, h("dt", {}, name), h("dd", {}, value, more && h("span.of", {}, more))),
    ),
  );
}

/** The newest audit: its findings, and folded the rules that passed, both filtered by ``view``; ``old`` is the doubt. */
export function newestAudit(audit, old, view, refresh) {
  const rules = audit.rules.filter((each) => matches(each, view));
  const filtered = view.severity || view.rule;
  const clean = old ? `There was no finding ${ago(audit.audited_at)}; ${old}.` : "There is no finding.";
  const none = notice(filtered || old ? "plain" : "good", filtered ? "No finding matches." : clean);
  return h(
    "section",
    {},
    h("div.head", {}, h("h2", {}, "Findings"), filters(audit, view, refresh)),
    findingsTable(rules, "newest") || none,
    passed(rules, "newest"),
  );
}

function matches({ rule, severity, change, was }, view) {
  const severities = change === "gone" ? [severity, was] : [severity];
  return (!view.rule || rule === view.rule) && (!view.severity || severities.includes(view.severity));
}

function filters(audit, view, refresh) {
  const rules = audit.rules.map((each) => each.rule).sort();
  return h(
    "div.buttons",
    {},
    filter(view, "severity", "all severities", Object.keys(NAMES), refresh),
    filter(view, "rule", "all rules", rules, refresh),
  );
}

/** Past audits, one line each; an expanded one shows its findings. */
export function past(page, opened, view, refresh) {
  const rows = page.audits.flatMap((audit) => {
    const isOpen = view.open.includes(`${audit.audit_id}`);
    return [pastRow(audit, isOpen, refresh), isOpen && unfolded(opened.get(audit.audit_id))];
  });
  const none = h("tr", {}, h("td.soft", { colspan: PAST.length }, "No audit matches."));
  return h(
    "section",
    {},
    h("div.head", {}, h("h2", {}, "Audits"), filterText(view)),
    table("past", PAST, rows.length ? rows : none),
    pager(view, page, refresh),
  );
}

function filterText({ severity, rule }) {
  if (!severity && !rule) return null;
  const what = severity ? `where ${rule || "a rule"} was ${severity}` : `with a finding of ${rule}`;
  return h("span.soft", {}, `those ${what}`);
}

function pastRow(audit, isOpen, refresh) {
  const toggle = h(
    "button.toggle",
    {
      onclick: () => refresh({ toggle: audit.audit_id }),
      "aria-expanded": String(isOpen),
      "data-key": `audit-${audit.audit_id}`,
    },
    h("span.arrow", {}, isOpen ? "▾" : "▸"),
    ` ${moment(audit.audited_at)}`,
  );
  return row(PAST, CELLS, [toggle, counts(audit), changes(audit, true), by(audit)], { class: isOpen ? "open" : null });
}

function unfolded(audit) {
  const body = audit
    ? [findingsTable(audit.rules, audit.audit_id), passed(audit.rules, audit.audit_id)]
    : h("p.soft", {}, "Reading…");
  return h("tr.unfolded", {}, h("td", { colspan: PAST.length }, body));
}

/** Chips with the number of findings by severity, or that there is none; ``old`` is the doubt about them. */
function counts(audit, old = "") {
  const severities = ["error", "warning", "info"].filter((severity) => audit.counts[severity]);
  const passed = `${plural(audit.counts.ok, "rule")} passed`;
  if (!severities.length && old) return [chip("plain", `${passed} ${ago(audit.audited_at)}`), h("span.soft", {}, ` ${old}`)];
  if (!severities.length) return severityChip("ok", `clean: ${passed}`);
  return h(
    "span.chips",
    {},
    severities.map((severity) => severityChip(severity, plural(audit.counts[severity], ...NAMES[severity]))),
  );
}

function changes(audit, named = false) {
  if (audit.changes === null) return h("span.soft", {}, "first audit");
  const words = WORDS.filter((word) => audit.changes[word]);
  if (!words.length) return h("span.soft", {}, "nothing");
  const chips = words.map((word) => {
    const rules = audit.changes[word];
    return [changeChip(word, `${rules.length} ${word}`), named && h("span.soft", {}, rules.join(", "))];
  });
  const title = words.map((word) => `${word}: ${audit.changes[word].join(", ")}`).join("\n");
  return h("span.chips", { title }, chips);
}

const when = ({ audited_at }) => h("span", { title: moment(audited_at) }, ago(audited_at));

function by({ dag_id, run_id, who }) {
  if (!dag_id || !run_id) return who ?? "–";
  return h("a", { ...airflowLink(runPath(dag_id, run_id)), title: `${dag_id} ${run_id}` }, "run");
}

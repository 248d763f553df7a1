// The dialogs of the buttons. Each asks for a run's conf, triggers a DAG through Airflow's REST API, and shows the result.

import { airflowLink, read, runPath, trigger } from "./airflow.js";
import { focusOn, h } from "./dom.js";
import { number, plural } from "./format.js";

const RANGE = /^(\d+):(\d+)-(\d+)$/;

/** Replay a window of record timestamps or offset ranges. ``suggested``: the ranges to start with. */
export function replay(pipeline, done, suggested = "") {
  const by = h(
    "select",
    { name: "by" },
    h("option", { value: "window" }, "record timestamps"),
    h("option", { value: "ranges", selected: Boolean(suggested) }, "offset ranges"),
  );
  const offsets = field(
    "Ranges",
    h("textarea", { name: "ranges", rows: 4, placeholder: "0:100-200", spellcheck: "false" }, suggested),
    "partition:from-until, one on each line; until is exclusive",
  );
  const window = h(
    "div",
    {},
    h("div.pair", {}, field("Since (UTC)", moment("since")), field("Until (UTC)", moment("until"), "exclusive")),
    check("scan", "also late records (full scan)"),
  );
  const choose = () => {
    offsets.hidden = by.value !== "ranges";
    window.hidden = by.value !== "window";
  };
  by.addEventListener("change", choose);
  choose();
  const text = h("p.reads", { role: "status" }, "How many records that are is shown here before they are read.");
  const fields = [
    field("Read again by", by),
    window,
    offsets,
    field("Limit", h("input", { name: "limit", type: "number", min: 1, placeholder: "all records" })),
    field("Why", h("input", { name: "why", maxlength: 500 }), "stored with the batch"),
    check("fill", "fill columns that were added later"),
    check("dry_run", "only show the plan (dry run)"),
    text,
  ];
  const form = ask(
    `Replay ${pipeline.name}`,
    "Reads the records again and merges them; cursors do not move, and a newer row is never overwritten.",
    fields,
    "Replay",
    pipeline.actions.ingest.dag_id,
    (filled) => ({ ...topic(pipeline), ...replayConf(filled) }),
    done,
  );
  count(pipeline, form, text);
}

const TYPING = 400; // milliseconds

/** Let ``text`` say how many offsets the form's replay would read, whenever the form changes. */
function count(pipeline, form, text) {
  let timer;
  const ask = async () => {
    const mine = timer;
    const said = await counted(pipeline, new FormData(form)).catch((error) => [error.message]);
    if (mine === timer) text.replaceChildren(...said);
  };
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, TYPING);
  });
  if (new FormData(form).get("ranges")) ask();
}

async function counted(pipeline, form) {
  const { action, ranges, since, until, scan, limit } = replayConf(form);
  const given = Object.entries({ action, ranges, since, until, scan, limit }).filter(([, value]) => value);
  const found = await read(`pipelines/${encodeURIComponent(pipeline.name)}/replay?${new URLSearchParams(given)}`);
  if (!found.offsets) return [found.problem ?? found.notes];
  const counts = `${plural(found.offsets, "offset")} in ${plural(found.ranges.length, "partition")}`;
  return [h("b", {}, counts), `, ${number(found.committed)} read before. `, h("span.soft", {}, found.notes)];
}

/** Of a pipeline file with several topics the one that this pipeline reads. */
const topic = (pipeline) => (pipeline.name.includes("@") ? { topic: pipeline.topic } : {});

function replayConf(form) {
  const chosen =
    form.get("by") === "window"
      ? { action: "window", ...times(form), scan: form.has("scan") }
      : { action: "ranges", ranges: ranges(form.get("ranges")) };
  return {
    ...chosen,
    ...given("limit", integer(form.get("limit"))),
    fill: form.has("fill"),
    dry_run: form.has("dry_run"),
    ...given("why", text(form.get("why"))),
  };
}

function ranges(written) {
  const lines = written.split(/[\s,]+/).filter(Boolean);
  if (!lines.length) throw new Error("Give at least one range, such as 0:100-200.");
  for (const line of lines) {
    const match = RANGE.exec(line);
    if (!match) throw new Error(`“${line}” is not a range; write partition:from-until, such as 0:100-200.`);
    if (BigInt(match[2]) >= BigInt(match[3])) throw new Error(`“${line}” is empty; until must be above from.`);
  }
  const twice = lines.map((line) => line.split(":")[0]).find((partition, n, all) => all.indexOf(partition) !== n);
  if (twice) throw new Error(`Partition ${twice} has two ranges; give one for each partition.`);
  return lines.join("\n");
}

function times(form) {
  const [since, until] = ["since", "until"].map(
    (name) => form.get(name) && new Date(`${form.get(name)}Z`).toISOString(),
  );
  if (!since || !until) throw new Error("Give both times.");
  if (since >= until) throw new Error("Until must be after since.");
  return { since, until };
}

/** Retry records from quarantine. ``suggested``: the reason code to start with. */
export function redrive(pipeline, done, suggested = "") {
  const codes = Object.keys(pipeline.quarantine_codes ?? {}).sort();
  const known = h("datalist", { id: "reason-codes" }, codes.map((code) => h("option", { value: code })));
  const fields = [
    known,
    field(
      "Reason code",
      h("input", { name: "reason", placeholder: "all reasons", list: "reason-codes", value: suggested }),
      codes.length ? `in quarantine: ${codes.join(", ")}` : "nothing is in quarantine",
    ),
    field("Quarantined since (UTC)", moment("since")),
    field("Limit", h("input", { name: "limit", type: "number", min: 1, placeholder: "all records" })),
    field("Why", h("input", { name: "why", maxlength: 500 }), "stored with the batch"),
  ];
  const conf = (form) => ({
    ...topic(pipeline),
    reason: text(form.get("reason")),
    since: form.get("since") ? new Date(`${form.get("since")}Z`).toISOString() : null,
    limit: integer(form.get("limit")),
    why: text(form.get("why")),
  });
  ask(
    `Redrive ${pipeline.name}`,
    "Retries quarantined records with the current pipeline file and suite.",
    fields,
    "Redrive",
    pipeline.actions.redrive.dag_id,
    conf,
    done,
  );
}

const DECISIONS = {
  approve: ["Approve", "Commits exactly what was validated, although the quality gate rejected it."],
  abandon: ["Abandon", "Commits nothing of the batch. A head batch's offsets are planned again by the next run."],
};

/** Approve or abandon a batch. */
export function decide(pipeline, action, batchId, done) {
  const [verb, effect] = DECISIONS[action];
  const title = `${verb} batch ${batchId} of ${pipeline.name}`;
  askWhy(title, effect, verb, pipeline.actions.ingest.dag_id, { action, batch_id: batchId }, "the batch", done);
}

/** Dismiss quarantined records, or undo that. ``chosen``: their name for people, and the fields of the form. */
export function dismiss(pipeline, action, { name, effect, ...records }, done) {
  const verb = action === "dismiss" ? "Dismiss" : "Undo dismissal";
  const conf = { ...topic(pipeline), action, ...records };
  askWhy(`${verb}: ${name} of ${pipeline.name}`, effect, verb, pipeline.actions.redrive.dag_id, conf, "the decision", done);
}

/** A decision: it requires a reason, which is stored with ``what``. */
function askWhy(title, effect, verb, dagId, conf, what, done) {
  const why = h("textarea", { name: "why", rows: 3, required: true, maxlength: 500 });
  const withReason = (form) => {
    const reason = text(form.get("why"));
    if (!reason) throw new Error(`Give a reason; it is stored with ${what}.`);
    return { ...conf, why: reason };
  };
  ask(title, effect, [field("Why", why, `stored with ${what}, with your name`)], verb, dagId, withReason, done);
}

/** Audit every pipeline's topic now. */
export function auditNow(dagId, done) {
  const effect = "Checks the topic of every pipeline against the rules, in a task for each. The findings are shown here.";
  ask("Audit the topics now", effect, [], "Audit", dagId, () => ({}), done);
}

/** A quality report, in the theme of the page. */
export function report(path) {
  const frame = h("iframe", { src: `reports/${path}`, title: `Quality report ${path}` });
  frame.addEventListener("load", () => (frame.contentDocument.documentElement.dataset.theme = document.documentElement.dataset.theme));
  large("Quality report", frame);
}

/** Something large in a dialog over the page. */
export function large(title, content) {
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = h("dialog.large", { "aria-label": title }, h("div.head", {}, h("b", {}, title), close), content);
  open(dialog);
}

function ask(title, effect, fields, verb, dagId, conf, done) {
  const message = h("p.message", { role: "status" });
  const submit = h("button.primary", { type: "submit" }, verb);
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const form = h(
    "form",
    {},
    h("h2", {}, title),
    h("p.soft", {}, effect),
    fields,
    message,
    h("div.buttons", {}, close, submit),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    message.className = "message";
    try {
      const run = await trigger(dagId, conf(new FormData(form)));
      message.replaceChildren("Queued as ", h("a", airflowLink(runPath(dagId, run.dag_run_id)), run.dag_run_id), ".");
      message.classList.add("good");
      submit.remove();
      close.textContent = "Close";
      done();
    } catch (error) {
      message.textContent = error.message;
      message.classList.add("bad");
      submit.disabled = false;
    }
  });
  const dialog = h("dialog", { "aria-label": title }, form);
  open(dialog);
  return form;
}

function open(dialog) {
  const key = document.activeElement?.dataset?.key;
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (key) focusOn(document, key); // the page may have been drawn again, with another button
  });
  document.body.append(dialog);
  dialog.showModal();
}

const field = (name, input, hint) => h("label", {}, h("span", {}, name), input, hint && h("small.soft", {}, hint));
const check = (name, text) => h("label.check", {}, h("input", { name, type: "checkbox" }), text);
const moment = (name) => h("input", { name, type: "datetime-local", step: 1 });
const text = (value) => value?.trim() || null;
const integer = (value) => (value ? Number.parseInt(value, 10) : null);
const given = (name, value) => (value === null ? {} : { [name]: value });

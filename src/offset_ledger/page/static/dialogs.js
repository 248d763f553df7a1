// The dialogs of the buttons. Each asks what a run needs, triggers a DAG through Airflow's REST API, and says what came of it.

import { airflowLink, runPath, trigger } from "./airflow.js";
import { focusOn, h } from "./dom.js";

const RANGE = /^(\d+):(\d+)-(\d+)$/;

/** Offset ranges, or a window of record timestamps, again. ``suggested``: the ranges at first. */
export function replay(pipeline, done, suggested = "") {
  const by = h(
    "select",
    { name: "by" },
    h("option", { value: "ranges" }, "offset ranges"),
    h("option", { value: "window" }, "record timestamps"),
  );
  const offsets = field(
    "Ranges",
    h("textarea", { name: "ranges", rows: 4, placeholder: "0:100-200", spellcheck: "false" }, suggested),
    "partition:from-until, one a line; until is not read itself",
  );
  const window = h(
    "div",
    { hidden: true },
    h("div.pair", {}, field("Since (UTC)", moment("since")), field("Until (UTC)", moment("until"), "not read itself")),
    check("scan", "also the records that came late (full scan)"),
  );
  by.addEventListener("change", () => {
    offsets.hidden = by.value !== "ranges";
    window.hidden = by.value !== "window";
  });
  const fields = [
    field("Read again by", by),
    offsets,
    window,
    field("At most", h("input", { name: "limit", type: "number", min: 1, placeholder: "all records" })),
    field("Why", h("input", { name: "why", maxlength: 500 }), "kept with the batch"),
    check("dry_run", "only show the plan (dry run)"),
  ];
  ask(
    `Replay ${pipeline.name}`,
    "Reads the records again and merges them; cursors do not move, and a newer row is never overwritten.",
    fields,
    "Replay",
    pipeline.actions.ingest.dag_id,
    replayConf,
    done,
  );
}

function replayConf(form) {
  const chosen =
    form.get("by") === "window"
      ? { action: "window", ...times(form), scan: form.has("scan") }
      : { action: "ranges", ranges: ranges(form.get("ranges")) };
  return {
    ...chosen,
    ...given("limit", integer(form.get("limit"))),
    dry_run: form.has("dry_run"),
    ...given("why", text(form.get("why"))),
  };
}

function ranges(written) {
  const lines = written.split(/[\s,]+/).filter(Boolean);
  if (!lines.length) throw new Error("Give at least one range, such as 0:100-200.");
  for (const line of lines) {
    const found = RANGE.exec(line);
    if (!found) throw new Error(`“${line}” is not a range; write partition:from-until, such as 0:100-200.`);
    if (BigInt(found[2]) >= BigInt(found[3])) throw new Error(`“${line}” is empty; until must be above from.`);
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

/** Records from quarantine, tried again. */
export function redrive(pipeline, done) {
  const codes = pipeline.quarantine_codes ?? [];
  const known = h("datalist", { id: "reason-codes" }, codes.map((code) => h("option", { value: code })));
  const fields = [
    known,
    field(
      "Reason code",
      h("input", { name: "reason", placeholder: "all reasons", list: "reason-codes" }),
      codes.length ? `in quarantine: ${codes.join(", ")}` : "nothing is in quarantine",
    ),
    field("Quarantined since (UTC)", moment("since")),
    field("At most", h("input", { name: "limit", type: "number", min: 1, placeholder: "all records" })),
    field("Why", h("input", { name: "why", maxlength: 500 }), "kept with the batch"),
  ];
  const conf = (form) => ({
    reason: text(form.get("reason")),
    since: form.get("since") ? new Date(`${form.get("since")}Z`).toISOString() : null,
    limit: integer(form.get("limit")),
    why: text(form.get("why")),
  });
  ask(
    `Redrive ${pipeline.name}`,
    "Tries quarantined records again, with the pipeline and the suite as they are now.",
    fields,
    "Redrive",
    pipeline.actions.redrive.dag_id,
    conf,
    done,
  );
}

const DECISIONS = {
  approve: ["Approve", "Commits exactly what was judged, although the quality gate rejected it."],
  abandon: ["Abandon", "Gives the batch up. A head batch's offsets are planned again by the next run."],
};

/** Approve or abandon a batch; both need a why. */
export function decide(pipeline, action, batchId, done) {
  const [verb, means] = DECISIONS[action];
  const fields = [
    field(
      "Why",
      h("textarea", { name: "why", rows: 3, required: true, maxlength: 500 }),
      "kept with the batch, with your name",
    ),
  ];
  const conf = (form) => {
    const why = text(form.get("why"));
    if (!why) throw new Error("Say why; it is kept with the batch.");
    return { action, batch_id: batchId, why };
  };
  ask(`${verb} batch ${batchId} of ${pipeline.name}`, means, fields, verb, pipeline.actions.ingest.dag_id, conf, done);
}

/** Every pipeline's topic, audited now. */
export function auditNow(dagId, done) {
  const means = "Holds the topic of every pipeline against the rules, a task for each. What they find shows here.";
  ask("Audit the topics now", means, [], "Audit", dagId, () => ({}), done);
}

/** A quality report over the page, with a way back. */
export function report(path) {
  const frame = h("iframe", { src: `reports/${path}`, title: `Quality report ${path}` });
  const dialog = h(
    "dialog.report",
    { "aria-label": "Quality report" },
    h(
      "div.head",
      {},
      h("b", {}, "Quality report"),
      h("button", { type: "button", onclick: () => dialog.close() }, "Close"),
    ),
    frame,
  );
  open(dialog);
}

function ask(title, means, fields, verb, dagId, conf, done) {
  const told = h("p.told", { role: "status" });
  const submit = h("button.primary", { type: "submit" }, verb);
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const form = h(
    "form",
    {},
    h("h2", {}, title),
    h("p.soft", {}, means),
    fields,
    told,
    h("div.buttons", {}, close, submit),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    told.className = "told";
    try {
      const run = await trigger(dagId, conf(new FormData(form)));
      told.replaceChildren("Queued as ", h("a", airflowLink(runPath(dagId, run.dag_run_id)), run.dag_run_id), ".");
      told.classList.add("good");
      submit.remove();
      close.textContent = "Close";
      done();
    } catch (error) {
      told.textContent = error.message;
      told.classList.add("bad");
      submit.disabled = false;
    }
  });
  const dialog = h("dialog", { "aria-label": title }, form);
  open(dialog);
}

function open(dialog) {
  const key = document.activeElement?.dataset?.key;
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (key) focusOn(document, key); // the page may have been drawn again: the button is another one then
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

// The audit page: its filters, what it reads from the API, and its sections.

import { address, addressed, addressedView, followAddress, named, nameShown } from "./address.js";
import { read } from "./airflow.js";
import { auditButton, doubt, head, newestAudit, overview, past, topicKey } from "./audits.js";
import { h, toggled } from "./dom.js";
import { readings } from "./readings.js";

const LIMIT = 20;
const INITIAL = { severity: "", rule: "", pages: [], open: [] };
let view;

/** The topic that the address names after its pipeline, or the first. */
function chosenTopic(pipeline) {
  const key = addressed().slice(1).join("/");
  return pipeline.topics.find((each) => topicKey(each) === key) ?? pipeline.topics[0];
}

/** Everything that the page shows. */
async function readAll() {
  const answer = await read("audits");
  const pipeline = named(answer.pipelines);
  if (pipeline) nameShown(pipeline);
  const topic = pipeline && chosenTopic(pipeline);
  return { ...answer, ...(topic?.newest && (await readTopic(pipeline.name, topic))), name: pipeline?.name };
}

async function readTopic(name, topic) {
  const wanted = new URLSearchParams({ limit: LIMIT, topic: topic.topic, own: topic.own });
  for (const key of ["severity", "rule"]) if (view[key]) wanted.set(key, view[key]);
  if (view.pages.length) wanted.set("before", view.pages.at(-1));
  const at = `pipelines/${encodeURIComponent(name)}/audits`;
  const one = (audit) => read(`${at}/${audit.audit_id}`);
  const [page, newest] = await Promise.all([read(`${at}?${wanted}`), one(topic.newest)]);
  const opened = await Promise.all(page.audits.filter((audit) => view.open.includes(`${audit.audit_id}`)).map(one));
  return { page, newest, opened: new Map(opened.map((audit) => [audit.audit_id, audit])), topic: topicKey(topic) };
}

/** Change what the page shows, and read it. */
function refresh({ toggle, ...change } = {}) {
  Object.assign(view, change);
  if (toggle) view.open = toggled(view.open, `${toggle}`);
  address(view, INITIAL);
  return reading.refresh();
}

function draw(shown) {
  const pipeline = named(shown.pipelines);
  if (!pipeline) return [top(shown.action), overview(shown.pipelines, shown.due)];
  const topic = chosenTopic(pipeline);
  const known = shown.newest && shown.name === pipeline.name && shown.topic === topicKey(topic);
  return [
    head(pipeline, topic, shown, refresh),
    known && newestAudit(shown.newest, doubt(pipeline, shown.newest, shown.due), view, refresh),
    known && past(shown.page, shown.opened, view, refresh),
  ];
}

const top = (action) => h("div.head", {}, h("h1", {}, "Topic audit"), auditButton(action, refresh));

const reading = readings(document.getElementById("page"), readAll, draw);
const start = () => {
  view = addressedView(INITIAL);
  address(view, INITIAL);
  reading.show();
  reading.refresh();
};
followAddress(start);
start();

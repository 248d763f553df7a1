// The banner of a rejected batch: why, the report, the first records that it refused, and the decision.

import { read } from "./airflow.js";
import { report } from "./dialogs.js";
import { h } from "./dom.js";
import { moment, number } from "./format.js";
import { line, reasonLines } from "./record.js";
import { row, table } from "./tables.js";

const COLUMNS = ["Partition", "Offset", "Timestamp", "Reasons", "Value"];
const CELLS = ["td.num", "td.num", "td.when", "td", "td.wide"];

/** ``act`` makes the button of a decision; the records are shown where the ``whole`` banner is. */
export function rejection(p, act) {
  const { batch_id, reasons, records, masked } = p.rejection;
  const page =
    p.rejection.report &&
    h("button", { onclick: () => report(p.rejection.report), "data-key": "notice-report" }, "Report of the batch");
  const at = `pipelines/${encodeURIComponent(p.name)}/refused`;
  const whole = (each) => async () => (await read(`${at}/${each.partition}/${each.offset}`)).value;
  const rows = records.map((each) =>
    row(COLUMNS, CELLS, [
      each.partition,
      number(each.offset),
      moment(each.timestamp),
      reasonLines(each.reasons),
      line(each.value, `Value of ${each.partition}:${number(each.offset)}`, whole(each)),
    ]),
  );
  return h(
    "section.rejection",
    { "aria-label": "Rejected batch" },
    h(
      "div.notice.warn.head",
      {},
      h(
        "div",
        {},
        h("b", {}, `The quality gate rejected batch ${batch_id}. Nothing was merged. Approval required.`),
        h("ul.lines", {}, reasons.map((text) => h("li", {}, text))),
      ),
      h("div.buttons", {}, page, act("approve"), act("abandon")),
    ),
    p.whole && rows.length > 0 && [
      h(
        "p.soft",
        {},
        "Up to five of the records that it refused",
        masked && "; values are shown to users who may edit the DAG",
        ":",
      ),
      table("refused records", COLUMNS, rows, ["Partition", "Offset"]),
    ],
  );
}

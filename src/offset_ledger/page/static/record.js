// The bytes of a record and the reasons against it.

import { h } from "./dom.js";
import { bytes, number } from "./format.js";

const LINE = 160; // characters

/** Bytes as text or as hex; ``form``: a line of them, or all that there is. */
export function content(shown, form = "block") {
  if (!shown) return h("span.soft", {}, "null");
  if (shown.form === "masked") return h("span.soft", {}, `${bytes(shown.size)}, hidden`);
  if (form === "line") return h("code.line", {}, shown.text.slice(0, LINE), shown.text.length > LINE && "…");
  return [
    h("pre.bytes", { tabindex: 0 }, shown.text),
    h(
      "p.soft",
      {},
      shown.form === "hex" && "Not text, shown in hex. ",
      shown.shown < shown.size
        ? `The first ${number(shown.shown)} of ${number(shown.size)} bytes.`
        : `${number(shown.size)} bytes.`,
    ),
  ];
}

/** One line for each reason. */
export function reasonLines(reasons) {
  const line = ({ code, path, detail }) =>
    h("li", {}, h("b", {}, code), path && [" ", h("code", {}, path)], detail && h("span.soft", {}, ` ${detail}`));
  return h("ul.reasons", {}, reasons.map(line));
}

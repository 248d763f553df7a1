// The bytes of a record and the reasons against it.

import { copyButton } from "./copy.js";
import { large } from "./dialogs.js";
import { h } from "./dom.js";
import { bytes, number } from "./format.js";
import { indented } from "./json.js";

const LINE = 160; // characters

/**
 * Bytes as text or as hex, of what ``title`` says; ``whole`` reads all of them, where these may be the first ones.
 * Of a JSON document the values at these ``paths`` are marked.
 */
export function content(shown, title, whole, paths = []) {
  if (!shown) return h("span.soft", {}, "null");
  if (shown.form === "masked") return h("span.soft", {}, `${bytes(shown.size)}, hidden`);
  const open = async () => large(title, block(await whole(), title, paths));
  const more = whole && shown.shown < shown.size;
  return [block(shown, title, paths), more && h("button", { onclick: open, "data-key": `whole-${title}` }, "Open in full")];
}

/** The same in one line, which opens. */
export function line(shown, title, whole) {
  if (!shown?.text || shown.text.length <= LINE) return shown?.text ? h("code.line", {}, shown.text) : content(shown, title);
  const open = async () => large(title, block(whole && shown.shown < shown.size ? await whole() : shown, title));
  return h("button.link.line", { onclick: open, title: "Open in full", "data-key": title }, `${shown.text.slice(0, LINE)}…`);
}

const block = (shown, title, paths = []) => [
  h("pre.bytes", { tabindex: 0 }, (shown.form === "text" && indented(shown.text, paths)) || shown.text || '""'),
  h(
    "p.soft",
    {},
    copyButton(shown.text, title.toLowerCase(), `copy-${title}`),
    " ",
    shown.form === "hex" && "Not text, shown in hex. ",
    shown.shown < shown.size ? `The first ${number(shown.shown)} of ${number(shown.size)} bytes.` : `${number(shown.size)} bytes.`,
  ),
];

/** One line for each reason. */
export function reasonLines(reasons) {
  const line = ({ code, path, detail }) =>
    h("li", {}, h("b", {}, code), path && [" ", h("code", {}, path)], detail && h("span.soft", {}, ` ${detail}`));
  return h("ul.reasons", {}, reasons.map(line));
}

// A button that copies a text.

import { h } from "./dom.js";

const RESULT_SHOWN = 2000; // milliseconds

/** ``what`` completes the button's name for screen readers; ``key`` keeps the focus on it. */
export function copyButton(text, what, key) {
  const press = async ({ currentTarget: button }) => {
    button.textContent = (await copied(text, button)) ? "Copied" : "Not copied";
    setTimeout(() => (button.textContent = "Copy"), RESULT_SHOWN);
  };
  return h(
    "button",
    { type: "button", onclick: press, "aria-label": `Copy ${what}`, "aria-live": "polite", "data-key": key },
    "Copy",
  );
}

async function copied(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copiedFromField(text, button); // over plain http, browsers have no clipboard for scripts
  }
}

function copiedFromField(text, button) {
  const field = h("textarea.offscreen", { readonly: true }, text);
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  button.focus({ preventScroll: true });
  return done;
}

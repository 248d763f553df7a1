// A button that copies a text.

import { h } from "./dom.js";

const TOLD = 2000; // milliseconds for which the button says what came of it

/** ``what`` says to those who cannot see it what the button copies; ``key`` keeps the focus on it. */
export function copyButton(text, what, key) {
  const press = async ({ currentTarget: button }) => {
    button.textContent = (await copied(text, button)) ? "Copied" : "Not copied";
    setTimeout(() => (button.textContent = "Copy"), TOLD);
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

// Questions to the user, and messages about how an action ended.

import { byId, el } from "./text.js";

/** Asks the user to confirm; resolves to true for yes. */
export function askToConfirm({ title, text, yes, danger }) {
  const dialog = byId("confirm");
  byId("confirm-title").textContent = title;
  byId("confirm-text").replaceChildren(...text);
  byId("confirm-yes").textContent = yes;
  byId("confirm-yes").className = danger ? "danger" : "accent";
  return new Promise((resolve) => {
    const answer = (isYes) => {
      byId("confirm-yes").onclick = byId("confirm-no").onclick = dialog.onclose = null;
      dialog.close();
      resolve(isYes);
    };
    byId("confirm-yes").onclick = () => answer(true);
    byId("confirm-no").onclick = () => answer(false);
    // The close event of an earlier question may arrive when the next one is open.
    dialog.onclose = () => dialog.open || answer(false);
    dialog.showModal();
  });
}

let hideTimer = 0;

/** Says how an action ended. With a button, the message stays until the user closes it. */
export function toast(text, { bad = false, button = null } = {}) {
  const toast = byId("toast");
  const close = () => (toast.hidden = true);
  clearTimeout(hideTimer);
  toast.classList.toggle("bad", bad);
  toast.replaceChildren(el("p", {}, text));
  if (button) toast.append(button);
  toast.append(el("button", { type: "button", class: "plain", onclick: close }, "Close"));
  toast.hidden = false;
  if (!button) hideTimer = setTimeout(close, 10_000);
}

// Taking failed messages: the server claims them, the browser saves them as a file, and the server
// removes them only when the user says that the file is there.
//
// No script can know what became of a download, so this page asks the user. It gives the messages
// back when the user closes it without an answer; the server does so after a time limit.

import { toast } from "./dialogs.js";
import { act, Refused, session, urlOf } from "./server.js";
import { byId, count, el, many, setText } from "./text.js";

/** How often the page updates the time that is left, in ms. */
const TICK_MS = 1000;
/** The status of the server's answer when a take is over. */
const GONE = 410;
/** The button of each verdict. */
const BUTTONS = { remove: "taken-remove", put_back: "taken-back" };

/** Claims the messages, saves them and asks the user; resolves when the take is over. */
export async function take(look, what) {
  const begun = await (await act("/api/errors/take", { look, what })).json();
  const { take, missing } = begun;
  if (take === null) {
    toast(`took none: ${gone(missing)}`, { bad: true });
    return;
  }
  const path = `/api/errors/take/${take}`;
  const link = el("a", { href: urlOf(`${path}/file`), download: begun.file });
  link.click();
  await ask(begun, path, link);
}

const gone = (missing) => `${count(missing)} ${missing === 1 ? "was" : "were"} gone already`;

/** Opens the dialog until the server has removed the messages or put them back. */
function ask({ count: number, missing, file, answer_within_s }, path, link) {
  const dialog = byId("taken");
  const end = Date.now() + answer_within_s * 1000;
  const saved = `Saved ${many(number, "message")} as `;
  byId("taken-text").replaceChildren(saved, el("strong", {}, file), ". Is the file there?");
  const them = number === 1 ? "it" : "them";
  setText(byId("taken-back"), `Put ${them} back`);
  setText(byId("taken-remove"), `Remove ${them} from the store`);
  setText(byId("taken-missing"), missing ? `Of those you chose, ${gone(missing)}.` : "");
  setText(byId("taken-note"), "");
  const putBackOnLeave = () => {
    // The browser sends this even if the page is gone. If it fails, the server's time limit applies.
    fetch(urlOf(path), {
      method: "POST",
      keepalive: true,
      headers: { "content-type": "application/json", "x-csrf-token": session.csrf },
      body: JSON.stringify({ verdict: "put_back" }),
    }).catch(() => {});
  };
  return new Promise((resolve) => {
    const tick = () => {
      const left = Math.max(0, end - Date.now());
      const clock = `${Math.floor(left / 60_000)}:${String(Math.floor(left / 1000) % 60).padStart(2, "0")}`;
      setText(byId("taken-left"), clock);
      if (left === 0) over("no answer came in time: all of it is in the store again", true);
    };
    const timer = setInterval(tick, TICK_MS);
    const over = (text, bad) => {
      clearInterval(timer);
      removeEventListener("pagehide", putBackOnLeave);
      dialog.onclose = dialog.oncancel = null;
      dialog.close();
      toast(text, { bad });
      resolve();
    };
    const answer = async (verdict) => {
      setBusy(true);
      try {
        over(...summary(await (await act(path, { verdict })).json()));
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        if (error.status === GONE) {
          over(error.message, true);
          return;
        }
        // The take is still open: the user can save again, or answer again.
        setText(byId("taken-note"), `Could not: ${error.message}`);
        if (!dialog.open) dialog.showModal();
      } finally {
        setBusy(false);
      }
    };
    byId("taken-save").onclick = () => link.click();
    for (const [verdict, button] of Object.entries(BUTTONS)) {
      byId(button).onclick = () => answer(verdict);
    }
    // The escape key is no answer. If the browser closes the dialog all the same, the messages stay.
    dialog.oncancel = (event) => event.preventDefault();
    dialog.onclose = () => dialog.open || answer("put_back");
    addEventListener("pagehide", putBackOnLeave);
    tick();
    dialog.showModal();
  });
}

function setBusy(isBusy) {
  for (const button of Object.values(BUTTONS)) byId(button).disabled = isBusy;
}

/** How the take ended, and whether the user should worry. */
function summary({ removed, put_back, lost }) {
  const parts = [];
  if (removed && !put_back) parts.push(`took ${count(removed)}`);
  if (put_back) parts.push(`put back ${count(put_back)}`);
  if (removed && put_back) {
    parts.push(`${many(removed, "message")} had been removed before: only the file has ${removed === 1 ? "it" : "them"}`);
  }
  if (lost) {
    parts.push(`${many(lost, "message")} had returned to the store before you answered, and ${lost === 1 ? "is" : "are"} in the file as well`);
  }
  return [parts.join("; ") || "put back 0", lost > 0 || (removed > 0 && put_back > 0)];
}

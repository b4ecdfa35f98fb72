// Taking failed messages: the server holds them, the browser saves them as a file, and they leave
// the store only when the person has looked and says that the file is there.
//
// No script can know what became of a download. So this page asks, and it gives the messages back
// when it is closed without an answer; the server does so when the time is over.

import { act, here, Refused, session, toast } from "./talk.js";
import { byId, count, el, many, say } from "./text.js";

/** How often the time that is left is said anew, in ms. */
const TICK_MS = 1000;
/** What the server answers when a take is over. */
const GONE = 410;
/** The buttons by what they mean. */
const ANSWER = { remove: "taken-remove", put_back: "taken-back" };

/** Holds the messages, saves them and asks; resolves when the question is answered or over. */
export async function take(look, what) {
  const begun = await (await act("/api/errors/take", { look, what })).json();
  const { take, missing } = begun;
  if (take === null) {
    toast(`took none: ${gone(missing)}`, { bad: true });
    return;
  }
  const path = `/api/errors/take/${take}`;
  const save = el("a", { href: here(`${path}/file`), download: begun.file });
  save.click();
  await asked(begun, path, save);
}

const gone = (missing) => `${count(missing)} ${missing === 1 ? "was" : "were"} gone already`;

/** Shows the dialog until the messages are removed, put back, or returned by themselves. */
function asked({ count: number, missing, file, answer_within_s }, path, save) {
  const dialog = byId("taken");
  const end = Date.now() + answer_within_s * 1000;
  const saved = `Saved ${many(number, "message")} as `;
  byId("taken-text").replaceChildren(saved, el("strong", {}, file), ". Is the file there?");
  const them = number === 1 ? "it" : "them";
  say(byId("taken-back"), `Put ${them} back`);
  say(byId("taken-remove"), `Remove ${them} from the store`);
  say(byId("taken-missing"), missing ? `Of those you chose, ${gone(missing)}.` : "");
  say(byId("taken-note"), "");
  const leave = () => {
    // The page may be gone before an answer comes. Without one the server waits for the time's end.
    fetch(here(path), {
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
      say(byId("taken-left"), clock);
      if (left === 0) over("no answer came in time: all of it is in the store again", true);
    };
    const ticking = setInterval(tick, TICK_MS);
    const over = (text, bad) => {
      clearInterval(ticking);
      removeEventListener("pagehide", leave);
      dialog.onclose = dialog.oncancel = null;
      dialog.close();
      toast(text, { bad });
      resolve();
    };
    const answer = async (verdict) => {
      busy(true);
      try {
        over(...told(await (await act(path, { verdict })).json()));
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        if (error.status === GONE) {
          over(error.message, true);
          return;
        }
        // The messages are still held: the person can save again, or answer again.
        say(byId("taken-note"), `Could not: ${error.message}`);
        if (!dialog.open) dialog.showModal();
      } finally {
        busy(false);
      }
    };
    byId("taken-save").onclick = () => save.click();
    for (const [verdict, button] of Object.entries(ANSWER)) {
      byId(button).onclick = () => answer(verdict);
    }
    // Escape is no answer. A browser that closes the dialog all the same means to leave them.
    dialog.oncancel = (event) => event.preventDefault();
    dialog.onclose = () => dialog.open || answer("put_back");
    addEventListener("pagehide", leave);
    tick();
    dialog.showModal();
  });
}

function busy(is) {
  for (const button of Object.values(ANSWER)) byId(button).disabled = is;
}

/** How it ended, in words, and whether that is bad. */
function told({ removed, put_back, lost }) {
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

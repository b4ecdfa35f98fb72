// Failed messages: searches of the errors store, and actions on what a search has found.
//
// The server remembers what a search has found under a name, its `look`. An action on that search
// never touches a message that failed later.

import { askToConfirm, toast } from "./dialogs.js";
import { act, read, Refused, session } from "./server.js";
import { take } from "./take.js";
import { byId, count, el, escaped, escapedLines, isUnsafe, many, momentOf } from "./text.js";
import { safeNodes, setText, timeOf } from "./text.js";

/** A search begins this long after the last key, in ms. */
const TYPING_PAUSE_MS = 350;
/** A list has this many messages at first, and at most. */
const LIMITS = [50, 200];
/** At most this many reasons get a button. */
const MAX_REASONS = 24;

const ACTIONS = {
  take: { verb: "Take", done: "took", danger: false },
  retry: { verb: "Retry", done: "retried", danger: false },
  drop: { verb: "Drop", done: "dropped", danger: true },
};

/** The number of a message, behind that of its partition if the fleet has several. */
function numberOf({ partition, seq }) {
  return partition === undefined ? count(seq) : `${partition}.${count(seq)}`;
}

export class Failed {
  /** The latest search and its result; null before the first. */
  #search = null;
  #reason = null;
  #limit = LIMITS[0];
  #snapshot = null;
  /** Aborts the search that is under way. */
  #running = null;
  #typing = 0;
  #busy = false;

  constructor() {
    byId("search").addEventListener("input", () => {
      clearTimeout(this.#typing);
      this.#typing = setTimeout(() => this.search(), TYPING_PAUSE_MS);
    });
    byId("look-again").addEventListener("click", () => this.search());
    byId("more").addEventListener("click", () => {
      this.#limit = LIMITS[1];
      this.search();
    });
    for (const action of Object.keys(ACTIONS)) {
      byId(`${action}-all`).addEventListener("click", () => this.#do(action, null));
    }
    byId("message-close").addEventListener("click", () => byId("message").close());
  }

  /** The session is known: shows the buttons if actions are allowed. */
  begin() {
    byId("all").hidden = !session.actions;
    byId("no-actions").hidden = session.actions;
    if (!this.#search && !this.#running) this.search();
  }

  /** Takes a snapshot, which may have news since the search. */
  update(snapshot) {
    this.#snapshot = snapshot;
    // The first search may have failed because Redis was away.
    if (!this.#search && !this.#running) this.search();
    this.#updateSearchButton();
  }

  /** Searches the store. */
  async search() {
    clearTimeout(this.#typing);
    this.#running?.abort();
    const running = (this.#running = new AbortController());
    const wanted = { search: byId("search").value.trim(), limit: this.#limit };
    if (this.#reason !== null) wanted.reason = this.#reason;
    byId("look-again").setAttribute("aria-busy", "true");
    try {
      const found = await read(`/api/errors?${new URLSearchParams(wanted)}`, running.signal);
      this.#search = { ...found, wanted, at: this.#snapshot?.now_ms ?? Date.now(), ended: this.#endedAt(found) };
      this.#draw();
    } catch (error) {
      if (!(error instanceof Refused)) {
        if (error.name === "AbortError") return;
        throw error;
      }
      setText(byId("look"), `Could not look: ${error.message}`);
    }
    this.#running = null;
    byId("look-again").removeAttribute("aria-busy");
  }

  /** How many messages had failed at the time of the search: as many as in the latest snapshot, and
   * as many more as the store had grown by. */
  #endedAt({ total }) {
    if (!this.#snapshot) return null;
    const { failed, foreign, errors } = this.#snapshot;
    return failed + foreign + Math.max(0, total - errors);
  }

  #updateSearchButton() {
    if (!this.#search || !this.#snapshot) return;
    const { failed, foreign, errors } = this.#snapshot;
    this.#search.ended ??= this.#endedAt(this.#search);
    const newer = failed + foreign - this.#search.ended;
    const button = byId("look-again");
    // Others have taken some, or the counters began at 0 again.
    const changed = newer < 0 || errors < this.#search.total;
    button.classList.toggle("accent", newer > 0 || changed);
    const news = newer > 0 ? `${count(newer)} newer – look again` : "Changed – look again";
    setText(button, newer > 0 || changed ? news : "Look again");
  }

  #draw() {
    const { messages, matching, total, complete, at } = this.#search;
    const { search, reason } = this.#search.wanted;
    const narrowed = reason !== undefined || search !== "";
    const part = complete ? "" : ", the newest part of more";
    const listedOf = messages.length < matching ? `, the newest ${count(messages.length)} listed` : "";
    const of = narrowed ? `${count(matching)} of ${many(total, "message")}` : many(matching, "message");
    const found = matching || narrowed ? `${of}${listedOf}${part}` : "Nothing has failed";
    setText(byId("look"), `${found} · looked at ${timeOf(at)}`);
    byId("failed").replaceChildren(...messages.map((message) => this.#item(message)));
    byId("failed").scrollTop = 0;
    byId("more").hidden = messages.length >= matching || this.#limit === LIMITS[1];
    for (const [action, { verb }] of Object.entries(ACTIONS)) {
      const button = byId(`${action}-all`);
      button.disabled = matching === 0;
      setText(button, narrowed ? `${verb} these ${count(matching)}` : `${verb} all`);
    }
    this.#reasons();
    this.#updateSearchButton();
  }

  #reasons() {
    const groups = [...this.#search.groups];
    if (this.#reason !== null && !groups.some(({ reason }) => reason === this.#reason)) {
      groups.unshift({ reason: this.#reason, count: this.#search.matching });
    }
    const focused = document.activeElement?.dataset?.reason;
    const chip = (label, reason, number) => {
      const pressed = String(reason === this.#reason);
      const chip = el("button", { type: "button", title: label, "aria-pressed": pressed });
      if (reason !== null) chip.dataset.reason = reason;
      chip.append(el("span", { class: "foreign" }, label));
      if (number !== null) chip.append(el("b", {}, count(number)));
      chip.addEventListener("click", () => {
        // A second click clears the choice.
        this.#reason = reason === this.#reason ? null : reason;
        this.search();
      });
      return chip;
    };
    const chips = groups
      .filter(({ reason }) => reason !== "")
      .slice(0, MAX_REASONS)
      .map(({ reason, count }) => chip(escaped(reason), reason, count));
    if (groups.length) chips.unshift(chip("every reason", null, null));
    const left = groups.length - MAX_REASONS;
    const rest = left > 0 ? [el("span", { class: "quiet" }, `and ${many(left, "rarer reason")}`)] : [];
    byId("reasons").replaceChildren(...chips, ...rest);
    chips.find((chip) => focused !== undefined && chip.dataset.reason === focused)?.focus();
  }

  #item(message) {
    const { id, seq, at_ms, node, reason, attempt, text, cut } = message;
    const number = seq > 0 ? `#${numberOf(message)}` : "no message of this fleet";
    const meta = [number, momentOf(at_ms, this.#search.at), attempt > 1 ? `attempt ${attempt}` : null, ""];
    const who = el("span", { class: "foreign" }, ...safeNodes(node));
    const open = el(
      "button",
      { type: "button", class: "open", onclick: () => this.#open(message) },
      el("span", { class: "text foreign" }, ...(text ? safeNodes(text) : ["(empty)"]), cut ? "…" : ""),
      el("span", { class: "reason foreign" }, ...(reason ? safeNodes(reason) : ["(no reason)"])),
      el("span", { class: "meta quiet" }, meta.filter((part) => part !== null).join(" · "), who),
    );
    const item = el("li", { "data-id": id }, open);
    if (session.actions) {
      const buttons = Object.entries(ACTIONS).map(([action, { verb }]) => {
        const onclick = () => this.#do(action, message);
        const named = { class: `${action} plain`, "aria-label": `${verb} ${number}` };
        return el("button", { type: "button", ...named, onclick }, verb);
      });
      item.append(el("div", { class: "buttons" }, ...buttons));
    }
    return item;
  }

  async #open(preview) {
    const fact = (name, value) => el("div", {}, el("dt", {}, name), el("dd", { class: "foreign" }, ...value));
    const fill = (message, note) => {
      const { seq, at_ms, node, reason, attempt } = message;
      setText(byId("message-title"), seq > 0 ? `Message ${numberOf(message)}` : "Bytes that were no message");
      byId("message-facts").replaceChildren(
        fact("failed", [momentOf(at_ms, this.#search.at)]),
        fact("node", safeNodes(node)),
        fact("attempt", [String(attempt)]),
        fact("reason", safeNodes(reason)),
      );
      const { text, text_hex } = message;
      byId("message-text").replaceChildren(...safeNodes(text, { lines: true }));
      // A terminal must not obey what the user pastes into it.
      const unsafe = isUnsafe(text.replace(/[\n\t]/g, ""));
      setText(byId("message-copy"), text_hex ? "Copy as hex" : unsafe ? "Copy escaped" : "Copy");
      byId("message-copy").onclick = () => copy(text_hex ?? (unsafe ? escapedLines(text) : text));
      setText(byId("message-note"), note);
    };
    fill(preview, "Reading the whole message…");
    const dialog = byId("message");
    dialog.showModal();
    try {
      const look = new URLSearchParams({ look: this.#search.look });
      const message = await read(`/api/errors/${encodeURIComponent(preview.id)}?${look}`);
      const { text, text_hex, cut } = message;
      const size = text_hex
        ? `${many(text_hex.length / 2, "byte")} that are no UTF-8; � stands for what is no text`
        : many([...text].length, "character");
      if (dialog.open) fill(message, cut ? `${size}; the rest is cut off` : size);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      setText(byId("message-note"), `Only the beginning: ${error.message}`);
    }
  }

  /** The messages of an action, in words. */
  #describe(message) {
    const { matching, at, wanted, complete } = this.#search;
    const look = ` the look of ${timeOf(at)}`;
    if (message) return [message.seq > 0 ? `message ${numberOf(message)}` : "one record", ` of${look}.`];
    const quote = (text) => el("q", { class: "foreign" }, ...safeNodes(text));
    const which = [];
    if (wanted.reason !== undefined) which.push(" with the reason ", quote(wanted.reason));
    if (wanted.search) which.push(which.length ? " and matching " : " matching ", quote(wanted.search));
    const all = which.length ? "" : "all ";
    const part = complete ? "" : ", which is the newest part of the store";
    return [`${all}${many(matching, "message")}`, ...which, ` of${look}${part}.`];
  }

  /** Asks the user before an action. */
  #confirm(action, message) {
    const { verb, danger } = ACTIONS[action];
    const after = { retry: " Workers get them again.", drop: " They are gone for good." }[action];
    const number = message ? 1 : this.#search.matching;
    const title = `${verb} ${many(number, "message")}?`;
    const text = [`${verb} `, ...this.#describe(message), after];
    return askToConfirm({ title, text, yes: `${verb} ${count(number)}`, danger });
  }

  async #do(action, message) {
    if (this.#busy || !this.#search) return;
    const { look } = this.#search;
    // A take asks later, when the file is saved.
    if (action !== "take" && !(await this.#confirm(action, message))) return;
    this.#busy = true;
    document.body.classList.add("busy");
    try {
      const what = message ? { id: message.id } : "all";
      await (action === "take" ? take(look, what) : settle(action, look, what));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      const { soFar } = error;
      const done = soFar ? `; ${summary(ACTIONS[action].done, soFar.dropped + soFar.retried, soFar)}` : "";
      toast(`could not ${action}: ${error.message}${done}`, { bad: true });
    } finally {
      this.#busy = false;
      document.body.classList.remove("busy");
    }
    await this.search();
  }
}

async function settle(action, look, what) {
  const settled = await (await act("/api/errors/settle", { look, what, action })).json();
  toast(summary(ACTIONS[action].done, action === "retry" ? settled.retried : settled.dropped, settled));
}

function summary(done, number, { missing = 0, unfit = 0 }) {
  const parts = [`${done} ${count(number)}`];
  if (missing) parts.push(`${count(missing)} ${missing === 1 ? "was" : "were"} gone already`);
  if (unfit) parts.push(`${count(unfit)} cannot be retried`);
  return parts.join(", ");
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    setText(byId("message-note"), "Copied");
  } catch {
    // Browsers have no clipboard without TLS, so the page selects the text for the user to copy.
    getSelection().selectAllChildren(byId("message-text"));
    setText(byId("message-note"), "The browser does not allow it here: the text is selected, copy it by hand");
  }
}

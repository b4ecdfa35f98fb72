// Failed messages: a look at the store, and what may be done about those in it.
//
// A look is bounded: it shows and acts on what was there when it was taken. The server knows
// it by a token and never touches a failure that came later.

import { take } from "./take.js";
import { act, confirmed, read, Refused, session, toast } from "./talk.js";
import { byId, count, el, escaped, escapedLines, isUnsafe, many, momentOf } from "./text.js";
import { say, shown, timeOf } from "./text.js";

/** How long after the last key a search begins, in ms. */
const PAUSE_MS = 350;
/** How many messages are listed at first, and at most. */
const LIMITS = [50, 200];
/** Most reasons that get a button. */
const MOST_REASONS = 24;

const DOES = {
  take: { verb: "Take", done: "took", danger: false },
  retry: { verb: "Retry", done: "retried", danger: false },
  drop: { verb: "Drop", done: "dropped", danger: true },
};

export class Failed {
  #look = null;
  #reason = null;
  #limit = LIMITS[0];
  #snapshot = null;
  #asking = null;
  #pause = 0;
  #busy = false;

  constructor() {
    byId("search").addEventListener("input", () => {
      clearTimeout(this.#pause);
      this.#pause = setTimeout(() => this.again(), PAUSE_MS);
    });
    byId("look-again").addEventListener("click", () => this.again());
    byId("more").addEventListener("click", () => {
      this.#limit = LIMITS[1];
      this.again();
    });
    for (const action of Object.keys(DOES)) {
      byId(`${action}-all`).addEventListener("click", () => this.#do(action, null));
    }
    byId("message-close").addEventListener("click", () => byId("message").close());
  }

  /** Whether there may be buttons. */
  begin() {
    byId("all").hidden = !session.actions;
    byId("no-actions").hidden = session.actions;
    if (!this.#look && !this.#asking) this.again();
  }

  /** Takes a snapshot: is there more than in the look? */
  show(snapshot) {
    this.#snapshot = snapshot;
    // The first look may have come before Redis was there.
    if (!this.#look && !this.#asking) this.again();
    this.#tellNews();
  }

  /** Looks again. */
  async again() {
    clearTimeout(this.#pause);
    this.#asking?.abort();
    const asking = (this.#asking = new AbortController());
    const wanted = { search: byId("search").value.trim(), limit: this.#limit };
    if (this.#reason !== null) wanted.reason = this.#reason;
    byId("look-again").setAttribute("aria-busy", "true");
    try {
      const look = await read(`/api/errors?${new URLSearchParams(wanted)}`, asking.signal);
      this.#look = { ...look, wanted, at: this.#snapshot?.now_ms ?? Date.now(), ended: this.#endedAt(look) };
      this.#draw();
    } catch (error) {
      if (!(error instanceof Refused)) {
        if (error.name === "AbortError") return;
        throw error;
      }
      say(byId("look"), `Could not look: ${error.message}`);
    }
    this.#asking = null;
    byId("look-again").removeAttribute("aria-busy");
  }

  /** How many had failed when the look was taken: as many as in the latest snapshot, and as
   * many more as the store had grown by. */
  #endedAt({ total }) {
    if (!this.#snapshot) return null;
    const { failed, foreign, errors } = this.#snapshot;
    return failed + foreign + Math.max(0, total - errors);
  }

  #tellNews() {
    if (!this.#look || !this.#snapshot) return;
    const { failed, foreign, errors } = this.#snapshot;
    this.#look.ended ??= this.#endedAt(this.#look);
    const newer = failed + foreign - this.#look.ended;
    const button = byId("look-again");
    // Somebody else took some, or the counters began anew.
    const changed = newer < 0 || errors < this.#look.total;
    button.classList.toggle("accent", newer > 0 || changed);
    const news = newer > 0 ? `${count(newer)} newer – look again` : "Changed – look again";
    say(button, newer > 0 || changed ? news : "Look again");
  }

  #draw() {
    const { messages, matching, total, complete, at } = this.#look;
    const { search, reason } = this.#look.wanted;
    const narrowed = reason !== undefined || search !== "";
    const part = complete ? "" : ", the newest part of more";
    const shownOf = messages.length < matching ? `, the newest ${count(messages.length)} listed` : "";
    const of = narrowed ? `${count(matching)} of ${many(total, "message")}` : many(matching, "message");
    const found = matching || narrowed ? `${of}${shownOf}${part}` : "Nothing has failed";
    say(byId("look"), `${found} · looked at ${timeOf(at)}`);
    byId("failed").replaceChildren(...messages.map((message) => this.#item(message)));
    byId("failed").scrollTop = 0;
    byId("more").hidden = messages.length >= matching || this.#limit === LIMITS[1];
    for (const [action, { verb }] of Object.entries(DOES)) {
      const button = byId(`${action}-all`);
      button.disabled = matching === 0;
      say(button, narrowed ? `${verb} these ${count(matching)}` : `${verb} all`);
    }
    this.#reasons();
    this.#tellNews();
  }

  #reasons() {
    const groups = [...this.#look.groups];
    if (this.#reason !== null && !groups.some(({ reason }) => reason === this.#reason)) {
      groups.unshift({ reason: this.#reason, count: this.#look.matching });
    }
    const focused = document.activeElement?.dataset?.reason;
    const chip = (label, reason, number) => {
      const pressed = String(reason === this.#reason);
      const chip = el("button", { type: "button", title: label, "aria-pressed": pressed });
      if (reason !== null) chip.dataset.reason = reason;
      chip.append(el("span", { class: "foreign" }, label));
      if (number !== null) chip.append(el("b", {}, count(number)));
      chip.addEventListener("click", () => {
        // A second press lets go.
        this.#reason = reason === this.#reason ? null : reason;
        this.again();
      });
      return chip;
    };
    const chips = groups
      .filter(({ reason }) => reason !== "")
      .slice(0, MOST_REASONS)
      .map(({ reason, count }) => chip(escaped(reason), reason, count));
    if (groups.length) chips.unshift(chip("every reason", null, null));
    const left = groups.length - MOST_REASONS;
    const rest = left > 0 ? [el("span", { class: "quiet" }, `and ${many(left, "rarer reason")}`)] : [];
    byId("reasons").replaceChildren(...chips, ...rest);
    chips.find((chip) => focused !== undefined && chip.dataset.reason === focused)?.focus();
  }

  #item(message) {
    const { id, seq, at_ms, node, reason, attempt, text, cut } = message;
    const number = seq > 0 ? `#${count(seq)}` : "no message of this fleet";
    const meta = [number, momentOf(at_ms, this.#look.at), attempt > 1 ? `attempt ${attempt}` : null, ""];
    const who = el("span", { class: "foreign" }, ...shown(node));
    const open = el(
      "button",
      { type: "button", class: "open", onclick: () => this.#open(message) },
      el("span", { class: "text foreign" }, ...(text ? shown(text) : ["(empty)"]), cut ? "…" : ""),
      el("span", { class: "reason foreign" }, ...(reason ? shown(reason) : ["(no reason)"])),
      el("span", { class: "meta quiet" }, meta.filter((part) => part !== null).join(" · "), who),
    );
    const item = el("li", { "data-id": id }, open);
    if (session.actions) {
      const buttons = Object.entries(DOES).map(([action, { verb }]) => {
        const onclick = () => this.#do(action, message);
        const named = { class: `${action} plain`, "aria-label": `${verb} ${number}` };
        return el("button", { type: "button", ...named, onclick }, verb);
      });
      item.append(el("div", { class: "buttons" }, ...buttons));
    }
    return item;
  }

  async #open(glance) {
    const fact = (name, value) => el("div", {}, el("dt", {}, name), el("dd", { class: "foreign" }, ...value));
    const fill = (message, note) => {
      const { seq, at_ms, node, reason, attempt } = message;
      say(byId("message-title"), seq > 0 ? `Message ${count(seq)}` : "Bytes that were no message");
      byId("message-facts").replaceChildren(
        fact("failed", [momentOf(at_ms, this.#look.at)]),
        fact("node", shown(node)),
        fact("attempt", [String(attempt)]),
        fact("reason", shown(reason)),
      );
      const { text, text_hex } = message;
      byId("message-text").replaceChildren(...shown(text, { lines: true }));
      // What is pasted into a terminal must not be obeyed there.
      const unsafe = isUnsafe(text.replace(/[\n\t]/g, ""));
      say(byId("message-copy"), text_hex ? "Copy as hex" : unsafe ? "Copy escaped" : "Copy");
      byId("message-copy").onclick = () => copy(text_hex ?? (unsafe ? escapedLines(text) : text));
      say(byId("message-note"), note);
    };
    fill(glance, "Reading the whole message…");
    const dialog = byId("message");
    dialog.showModal();
    try {
      const look = new URLSearchParams({ look: this.#look.look });
      const message = await read(`/api/errors/${encodeURIComponent(glance.id)}?${look}`);
      const { text, text_hex, cut } = message;
      const size = text_hex
        ? `${many(text_hex.length / 2, "byte")} that are no UTF-8; � stands for what is no text`
        : many([...text].length, "character");
      if (dialog.open) fill(message, cut ? `${size}; the rest is cut off` : size);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      say(byId("message-note"), `Only the beginning: ${error.message}`);
    }
  }

  /** Which messages an action is about, in words. */
  #meant(message) {
    const { matching, at, wanted, complete } = this.#look;
    const look = ` the look of ${timeOf(at)}`;
    if (message) return [message.seq > 0 ? `message ${count(message.seq)}` : "one record", ` of${look}.`];
    const quote = (text) => el("q", { class: "foreign" }, ...shown(text));
    const which = [];
    if (wanted.reason !== undefined) which.push(" with the reason ", quote(wanted.reason));
    if (wanted.search) which.push(which.length ? " and matching " : " matching ", quote(wanted.search));
    const all = which.length ? "" : "all ";
    const part = complete ? "" : ", which is the newest part of the store";
    return [`${all}${many(matching, "message")}`, ...which, ` of${look}${part}.`];
  }

  /** Asks before something is done that cannot be undone. */
  #sure(action, message) {
    const { verb, danger } = DOES[action];
    const after = { retry: " Workers get them again.", drop: " They are gone for good." }[action];
    const number = message ? 1 : this.#look.matching;
    const title = `${verb} ${many(number, "message")}?`;
    const text = [`${verb} `, ...this.#meant(message), after];
    return confirmed({ title, text, yes: `${verb} ${count(number)}`, danger });
  }

  async #do(action, message) {
    if (this.#busy || !this.#look) return;
    const { look } = this.#look;
    // Taking asks by itself, when there is a file to ask about.
    if (action !== "take" && !(await this.#sure(action, message))) return;
    this.#busy = true;
    document.body.classList.add("busy");
    try {
      const what = message ? { id: message.id } : "all";
      await (action === "take" ? take(look, what) : settle(action, look, what));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      const { soFar } = error;
      const done = soFar ? `; ${told(DOES[action].done, soFar.dropped + soFar.retried, soFar)}` : "";
      toast(`could not ${action}: ${error.message}${done}`, { bad: true });
    } finally {
      this.#busy = false;
      document.body.classList.remove("busy");
    }
    await this.again();
  }
}

async function settle(action, look, what) {
  const settled = await (await act("/api/errors/settle", { look, what, action })).json();
  toast(told(DOES[action].done, action === "retry" ? settled.retried : settled.dropped, settled));
}

function told(done, number, { missing = 0, unfit = 0 }) {
  const parts = [`${done} ${count(number)}`];
  if (missing) parts.push(`${count(missing)} ${missing === 1 ? "was" : "were"} gone already`);
  if (unfit) parts.push(`${count(unfit)} cannot be retried`);
  return parts.join(", ");
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say(byId("message-note"), "Copied");
  } catch {
    // Without a secure context there is no clipboard: what is selected can be copied by hand.
    getSelection().selectAllChildren(byId("message-text"));
    say(byId("message-note"), "The browser does not allow it here: the text is selected, copy it by hand");
  }
}

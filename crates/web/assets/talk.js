// Talking to the server: the session, the events, requests that may change something.

import { byId, el } from "./text.js";

/** Longest wait before the stream is tried again after the server refused it, in ms. */
const AGAIN_MS = 3000;

/** What the server says of this session; asked for anew whenever the stream begins. */
export const session = { actions: false, csrf: "", login: false, fleet: "", place: "", version: "" };

/** The address of a path here. Who typed a proxy's password into the address has it in that of the
 * page, and browsers refuse to fetch such an address. */
export const here = (path) => new URL(path, location.origin);

/** Refused or not reachable, in words; `soFar` is what was done before, if anything, and `status`
 * what the server answered, if it did. */
export class Refused extends Error {
  constructor(words, soFar = null, status = null) {
    super(words);
    this.soFar = soFar;
    this.status = status;
  }
}

/** A request under /api; goes to the login page when the session has ended. */
async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(here(path), { ...options, redirect: "manual", cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("the server of this page does not answer");
  }
  if (response.status === 401 || response.type === "opaqueredirect") {
    location.assign("/login");
    throw new Refused("the session has ended");
  }
  if (!response.ok) {
    const told = await response.json().catch(() => ({}));
    const { status } = response;
    throw new Refused(told.error ?? `the server answered ${status}`, told.so_far, status);
  }
  return response;
}

/** Reads something. */
export const read = async (path, signal) => (await ask(path, { signal })).json();

/** Asks for a change, with the proof that this page asks. */
export const act = (path, body) =>
  ask(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-csrf-token": session.csrf },
    body: JSON.stringify(body),
  });

/**
 * Hears every reading: `begun` at the start of each connection, after the session is known,
 * `seen` with each event, `lost` when there is no connection.
 */
export function listen({ begun, seen, lost }) {
  let stream = null;
  const begin = async () => {
    try {
      Object.assign(session, await read("/api/session"));
    } catch {
      // Not there, or on the way to the login page.
      return later();
    }
    begun();
    stream = new EventSource(here("/api/events"));
    stream.addEventListener("seen", (event) => seen(JSON.parse(event.data)));
    // Connecting again goes through the session: the server may have been started anew.
    stream.addEventListener("error", later);
  };
  const later = () => {
    stream?.close();
    stream = null;
    lost();
    setTimeout(begin, AGAIN_MS * (0.3 + 0.7 * Math.random()));
  };
  begin();
}

/** Asks a person; true for yes. */
export function confirmed({ title, text, yes, danger }) {
  const dialog = byId("confirm");
  byId("confirm-title").textContent = title;
  byId("confirm-text").replaceChildren(...text);
  byId("confirm-yes").textContent = yes;
  byId("confirm-yes").className = danger ? "danger" : "accent";
  return new Promise((resolve) => {
    const answer = (is) => {
      byId("confirm-yes").onclick = byId("confirm-no").onclick = dialog.onclose = null;
      dialog.close();
      resolve(is);
    };
    byId("confirm-yes").onclick = () => answer(true);
    byId("confirm-no").onclick = () => answer(false);
    // The event of an earlier question may come when the next one is open already.
    dialog.onclose = () => dialog.open || answer(false);
    dialog.showModal();
  });
}

let hiding = 0;

/** Tells how something ended; with a button, it stays until it is closed. */
export function toast(text, { bad = false, button = null } = {}) {
  const toast = byId("toast");
  const close = () => (toast.hidden = true);
  clearTimeout(hiding);
  toast.classList.toggle("bad", bad);
  toast.replaceChildren(el("p", {}, text));
  if (button) toast.append(button);
  toast.append(el("button", { type: "button", class: "plain", onclick: close }, "Close"));
  toast.hidden = false;
  if (!button) hiding = setTimeout(close, 10_000);
}

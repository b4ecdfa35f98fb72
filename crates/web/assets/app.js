// The page: puts each reading of the fleet where it belongs, and says when it is old.

import { Charts } from "./charts.js";
import { Failed } from "./failed.js";
import { Nodes } from "./nodes.js";
import { Strip, tale } from "./strip.js";
import { act, listen, read, Refused, session, toast } from "./talk.js";
import { byId, colour, count, el, lasting, momentOf, plain, rate, say, shown, timeOf } from "./text.js";

/** Older than this, a reading is called stale, in ms. */
const STALE_MS = 3000;
/** Least time that is shown, in ms, however young the fleet is. */
const LEAST_MS = 30_000;
/** How often the clock of the page goes on, in ms. */
const TICK_MS = 500;

const strip = new Strip();
const charts = new Charts();
const nodes = new Nodes();
const failed = new Failed();

/** The latest event, when it came on this page's own clock, and whether none come any more. */
let seen = null;
let cameAt = 0;
let isLost = false;
/** The generator's last beat. */
let beatAt = 0;
/** How far back is shown. */
let minutes = 5;

/** How old the latest snapshot is, in ms. */
const age = () => (seen?.snapshot ? seen.age_ms + performance.now() - cameAt : 0);

/** Redis's clock at this moment, as far as the page knows it. */
const now = () => seen.snapshot.now_ms + age();

/** From when until when is shown: not longer than the fleet is old. */
function span() {
  const oldest = seen.snapshot.takeovers.at(-1);
  const born = oldest?.how === "first" ? Math.min(oldest.at_ms, now() - LEAST_MS) : 0;
  return [Math.max(now() - minutes * 60_000, born), now()];
}

/** Why what is shown is not the present; nothing if it is. */
function staleness() {
  if (seen === null && !isLost) return null;
  const snapshot = seen?.snapshot;
  const known = snapshot
    ? ` This is the last known state, from ${momentOf(snapshot.now_ms, Date.now())}.`
    : " Nothing is known yet.";
  const since = snapshot ? ` since ${timeOf(snapshot.now_ms)}` : "";
  if (isLost) return ["The server of this page does not answer; trying again.", known];
  if (seen.trouble) {
    const words = el("span", { class: "foreign" }, ...shown(seen.trouble.replace(/\.$/, "")));
    return [`Redis does not answer${since}: `, words, ".", known];
  }
  if (snapshot && age() > STALE_MS) return [`No reading has come${since}.`, known];
  return null;
}

function showState() {
  const why = staleness();
  document.body.classList.toggle("stale", why !== null);
  byId("stale").hidden = why === null;
  byId("live").hidden = why !== null;
  if (byId("stale").textContent !== plain(why ?? [])) byId("stale").replaceChildren(...(why ?? []));
  if (seen?.snapshot) say(byId("live-text"), `Live · ${timeOf(seen.snapshot.now_ms)} on Redis's clock`);
  showHealth(why !== null);
}

function showHealth(isStale) {
  const troubles = seen?.health.troubles ?? [];
  const known = seen?.snapshot && !isStale;
  const state = troubles.length && !isLost ? "ill" : known ? "well" : "unknown";
  byId("health").dataset.state = state;
  const text = { ill: troubles.join("; "), well: "All is well", unknown: "Not known" }[state];
  say(byId("health-text"), text);
}

function showGenerator({ generator, takeovers, nodes, now_ms, errors }, rates) {
  const { node, epoch, since_ms } = generator;
  const name = byId("generator");
  const holding = `${epoch} ${node}`;
  if (name.dataset.holding !== holding) {
    // Only a change that the page has seen is a handover; the first reading is none.
    const handover = name.dataset.holding !== undefined;
    name.dataset.holding = holding;
    name.replaceChildren(...(node === null ? ["none"] : shown(node)));
    byId("swatch").classList.toggle("nobody", node === null);
    if (node !== null) colour(byId("swatch"), node);
    if (handover && node !== null) play(name.parentElement, "handover");
    const [who, ...how] = takeovers.length ? tale(takeovers[0]) : ["\u00a0"];
    byId("before").replaceChildren(takeovers[0]?.node === node ? "It" : who, ...how);
  }
  const held = node === null ? "nobody holds the baton" : `has held the baton for ${lasting(now_ms - since_ms)}`;
  say(byId("since"), held);
  say(byId("epoch"), String(epoch));
  say(byId("per-s"), rate(rates[node] ?? 0));
  say(byId("alive"), count(nodes.filter(({ role }) => role !== "dead").length));
  say(byId("waiting"), count(errors));
  const beat = nodes.find((other) => other.node === node)?.seen_ms ?? beatAt;
  byId("beat").hidden = node === null;
  if (beat !== beatAt) play(byId("beat"), "beats");
  beatAt = beat;
}

/** Plays an animation from its beginning. */
function play(element, name) {
  element.classList.remove(name);
  void element.offsetWidth;
  element.classList.add(name);
}

function showBooks(snapshot) {
  const { balanced, counted, published, retried, done, pending, claimed, foreign } = snapshot;
  const state = !balanced ? "unbalanced" : counted ? "balanced" : "believed";
  byId("books").dataset.state = state;
  const text = {
    balanced: "every message is in exactly one place",
    unbalanced: "the two sides differ: messages are missing or counted twice",
    believed: "believed from the counters: too many wait to count them one by one",
  };
  say(byId("books-text"), text[state]);
  say(byId("equals"), balanced ? "=" : "≠");
  byId("equals").setAttribute("aria-label", balanced ? "equals" : "does not equal");
  const numbers = { published, retried, done, "failed-count": snapshot.failed, pending, claimed };
  for (const [id, number] of Object.entries(numbers)) say(byId(id), count(number));
  byId("foreign").hidden = foreign === 0;
  const strangers = "of the queue were no messages of this fleet; they are among the failed";
  say(byId("foreign"), `${foreign === 1 ? "1 entry" : `${count(foreign)} entries`} ${strangers}`);
}

function showWarnings({ warnings, server }) {
  const what = warnings.length ? "what can lose messages" : "nothing in its settings can lose messages";
  say(byId("server"), `${server.version}: ${what}`);
  const list = byId("warnings");
  const words = [...list.children].map((item) => item.textContent);
  if (words.join("\n") === warnings.join("\n")) return;
  list.replaceChildren(...warnings.map((warning) => el("li", {}, ...shown(warning))));
}

function show(event) {
  seen = event;
  cameAt = performance.now();
  isLost = false;
  showState();
  const { snapshot, rates, point } = event;
  if (!snapshot) return;
  if (point) charts.add(point);
  showTime();
  showGenerator(snapshot, rates);
  showBooks(snapshot);
  showWarnings(snapshot);
  nodes.show(snapshot, rates);
  failed.show(snapshot);
}

/** Everything that is drawn along the time. */
function showTime() {
  if (!seen?.snapshot) return;
  strip.show(seen.snapshot, span(), staleness() !== null);
  charts.draw(span());
}

/** Time goes on also when nothing is heard. */
function tick() {
  showState();
  if (staleness() !== null) showTime();
}

async function begun() {
  say(byId("fleet"), session.fleet);
  say(byId("place"), session.place);
  say(byId("version"), `Baton ${session.version}`);
  document.title = `${session.fleet} – Baton`;
  byId("logout").hidden = !session.login;
  failed.begin();
  try {
    charts.begin((await read("/api/trend")).points);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
  }
}

function lost() {
  isLost = true;
  showState();
}

function choose(chosen) {
  minutes = chosen;
  for (const button of document.querySelectorAll("[data-minutes]")) {
    button.setAttribute("aria-pressed", String(Number(button.dataset.minutes) === minutes));
  }
  showTime();
}

async function logOut() {
  try {
    await act("/logout", {});
    location.assign("/login");
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    toast(`could not log out: ${error.message}`, { bad: true });
  }
}

byId("logout").addEventListener("click", logOut);
for (const button of document.querySelectorAll("[data-minutes]")) {
  button.addEventListener("click", () => choose(Number(button.dataset.minutes)));
}
choose(minutes);
setInterval(tick, TICK_MS);
listen({ begun, seen: show, lost });

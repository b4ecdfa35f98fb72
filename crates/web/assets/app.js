// The page: writes each view of the fleet into the document, and says when the view is old.

import { Charts } from "./charts.js";
import { colour } from "./colours.js";
import { toast } from "./dialogs.js";
import { Failed } from "./failed.js";
import { Nodes } from "./nodes.js";
import { Partitions, partitionTroubles } from "./partitions.js";
import { act, listen, read, Refused, session } from "./server.js";
import { byId, count, duration, el, momentOf, rate, safeNodes, setText, textOf, timeOf } from "./text.js";
import { describeTakeover, Timeline } from "./timeline.js";

/** The page calls an older snapshot stale, in ms. */
const STALE_MS = 3000;
/** The timeline and the charts cover at least this time, however young the fleet is, in ms. */
const MIN_SPAN_MS = 30_000;
/** How often the page updates without an event, in ms. */
const TICK_MS = 500;

const timeline = new Timeline();
const charts = new Charts();
const nodes = new Nodes();
const failed = new Failed();
const partitions = new Partitions();

/** The latest event, its time on this page's clock, and whether the stream is broken. */
let latest = null;
let latestAt = 0;
let isDisconnected = false;
/** The generator's last beat. */
let beatAt = 0;
/** How far back the timeline and the charts go. */
let minutes = 5;

/** How old the latest snapshot is, in ms. */
const age = () => (latest?.snapshot ? latest.age_ms + performance.now() - latestAt : 0);

/** Redis's clock at this moment, as far as the page knows it. */
const now = () => latest.snapshot.now_ms + age();

/** The time that the timeline and the charts cover: not longer than the fleet is old. */
function span() {
  const oldest = latest.snapshot.takeovers.at(-1);
  const born = oldest?.how === "first" ? Math.min(oldest.at_ms, now() - MIN_SPAN_MS) : 0;
  return [Math.max(now() - minutes * 60_000, born), now()];
}

/** Why the document is not up to date; null if it is. */
function staleness() {
  if (latest === null && !isDisconnected) return null;
  const snapshot = latest?.snapshot;
  const known = snapshot
    ? ` This is the last known state, from ${momentOf(snapshot.now_ms, Date.now())}.`
    : " Nothing is known yet.";
  const since = snapshot ? ` since ${timeOf(snapshot.now_ms)}` : "";
  if (isDisconnected) return ["The server of this page does not answer; trying again.", known];
  if (latest.trouble) {
    const words = el("span", { class: "foreign" }, ...safeNodes(latest.trouble.replace(/\.$/, "")));
    return [`Redis does not answer${since}: `, words, ".", known];
  }
  if (snapshot && age() > STALE_MS) return [`No reading has come${since}.`, known];
  return null;
}

function renderState() {
  const why = staleness();
  document.body.classList.toggle("stale", why !== null);
  byId("stale").hidden = why === null;
  byId("live").hidden = why !== null;
  if (byId("stale").textContent !== textOf(why ?? [])) byId("stale").replaceChildren(...(why ?? []));
  if (latest?.snapshot) setText(byId("live-text"), `Live · ${timeOf(latest.snapshot.now_ms)} on Redis's clock`);
  renderHealth(why !== null);
}

function renderHealth(isStale) {
  const troubles = latest?.health.troubles ?? [];
  const known = latest?.snapshot && !isStale;
  const state = troubles.length && !isDisconnected ? "unhealthy" : known ? "well" : "unknown";
  byId("health").dataset.state = state;
  const text = { unhealthy: troubles.join("; "), well: "All is well", unknown: "Not known" }[state];
  setText(byId("health-text"), text);
}

function renderGenerator({ generator, takeovers, nodes, now_ms, errors }, rates) {
  const { node, epoch, since_ms } = generator;
  const name = byId("generator");
  const holding = `${epoch} ${node}`;
  if (name.dataset.holding !== holding) {
    // The first event is not a handover; a later change is.
    const handover = name.dataset.holding !== undefined;
    name.dataset.holding = holding;
    name.replaceChildren(...(node === null ? ["none"] : safeNodes(node)));
    byId("swatch").classList.toggle("no-holder", node === null);
    if (node !== null) colour(byId("swatch"), node);
    if (handover && node !== null) play(name.parentElement, "handover");
    const [who, ...how] = takeovers.length ? describeTakeover(takeovers[0]) : ["\u00a0"];
    byId("before").replaceChildren(takeovers[0]?.node === node ? "It" : who, ...how);
  }
  const held = node === null ? "nobody holds the baton" : `has held the baton for ${duration(now_ms - since_ms)}`;
  setText(byId("since"), held);
  setText(byId("epoch"), String(epoch));
  setText(byId("per-s"), rate(rates[node] ?? 0));
  setText(byId("alive"), count(nodes.filter(({ role }) => role !== "dead").length));
  setText(byId("waiting"), count(errors));
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

function renderBooks(snapshot) {
  const { balanced, counted, published, retried, done, pending, claimed, delayed, foreign, dropped } = snapshot;
  const lost = snapshot.void;
  const state = !balanced ? "unbalanced" : lost ? "lost" : counted ? "balanced" : "believed";
  byId("books").dataset.state = state;
  const text = {
    balanced: "every message is in exactly one place",
    lost: `some are lost; every other message is in one place${counted ? "" : ", by the counters"}`,
    unbalanced: "the two sides differ: messages are missing or counted twice",
    believed: "believed from the counters: too many wait to count them one by one",
  };
  setText(byId("books-text"), text[state]);
  setText(byId("equals"), balanced ? "=" : "≠");
  byId("equals").setAttribute("aria-label", balanced ? "equals" : "does not equal");
  const numbers = { published, retried, done, "failed-count": snapshot.failed, pending, claimed, delayed, void: lost };
  for (const [id, number] of Object.entries(numbers)) setText(byId(id), count(number));
  byId("void-part").hidden = byId("lost").hidden = lost === 0;
  setText(byId("lost"), lostWords(lost));
  byId("foreign").hidden = foreign === 0;
  const strangers = "of the queue were no messages of this fleet; they are among the failed";
  byId("dropped").hidden = dropped === 0;
  const because = "because of their age, or by hand";
  setText(byId("dropped"), `${count(dropped)} of the failed ${dropped === 1 ? "was" : "were"} dropped: ${because}`);
  byId("next-due").hidden = delayed === 0;
  setText(byId("next-due"), delayedWords(snapshot));
  setText(byId("foreign"), `${foreign === 1 ? "1 entry" : `${count(foreign)} entries`} ${strangers}`);
}

/** What was lost. */
function lostWords(lost) {
  const subject = lost === 1 ? "1 message that Redis acknowledged is" : `${count(lost)} messages that Redis acknowledged are`;
  return `${subject} lost: a failover, restart or flush forgot ${lost === 1 ? "it" : "them"}`;
}

/** How many messages wait for their next attempts, and when the first is due. */
function delayedWords({ delayed, next_due_ms, now_ms }) {
  const subject = delayed === 1 ? "1 waits for its next attempt" : `${count(delayed)} wait for their next attempts`;
  const left = next_due_ms - now_ms;
  const when = left < 0 ? "now" : left < 1000 ? "within a second" : `in ${duration(left)}`;
  return `${subject}, ${delayed === 1 ? "due" : "the first"} ${when}`;
}

/** What an operator has paused, and since when: a time that does not change, so it is read out once. */
function renderPaused({ paused }) {
  const parts = [
    ["the generator is paused since", paused.generator_since_ms],
    ["the workers are paused since", paused.workers_since_ms],
  ].filter(([, since_ms]) => since_ms !== null);
  byId("paused").hidden = parts.length === 0;
  const words = parts.map(([what, since_ms]) => `${what} ${momentOf(since_ms, Date.now())}`).join(", ");
  setText(byId("paused"), words && `${words[0].toUpperCase()}${words.slice(1)}. To go on: baton resume`);
}

function renderWarnings({ warnings, server, durability, ...fleet }) {
  const what = warnings.length ? "what can lose messages" : "nothing in its settings can lose messages";
  setText(byId("server"), `${server.version}: ${what}`);
  renderList(byId("warnings"), warnings);
  renderList(byId("troubles"), [
    ...fleet.source_troubles, ...fleet.publish_troubles, ...fleet.handler_troubles, ...fleet.durability_troubles,
    ...partitionTroubles(fleet),
  ]);
  byId("durability").hidden = durability.level === null;
  setText(byId("durability"), `Durability ${durability.level}: ${durability.promise}`);
  renderList(byId("replicas"), server.replication.map(replicaWords));
}

/** How a replica follows. */
function replicaWords({ address, state, behind_bytes, lag_s }) {
  const follows = state === "online" && lag_s !== null;
  const behind = `${count(behind_bytes)} bytes unacknowledged, last heard ${lag_s} s ago`;
  return `replica ${address}: ${follows ? behind : `does not follow yet (${state})`}`;
}

/** Writes sentences into a list, unless they are there already. */
function renderList(list, sentences) {
  const isSame = list.children.length === sentences.length
    && sentences.every((sentence, at) => list.children[at].dataset.sentence === sentence);
  if (isSame) return;
  list.replaceChildren(...sentences.map((sentence) => {
    const item = el("li", { class: "foreign" }, ...safeNodes(sentence));
    item.dataset.sentence = sentence;
    return item;
  }));
}

function onEvent(event) {
  latest = event;
  latestAt = performance.now();
  isDisconnected = false;
  renderState();
  const { snapshot, rates, point } = event;
  if (!snapshot) return;
  if (point) charts.add(point);
  renderTime();
  renderGenerator(snapshot, rates);
  renderBooks(snapshot);
  renderPaused(snapshot);
  renderWarnings(snapshot);
  nodes.update(snapshot, rates);
  partitions.update(snapshot);
  failed.update(snapshot);
}

/** Draws what has a time axis. */
function renderTime() {
  if (!latest?.snapshot) return;
  timeline.update(latest.snapshot, span(), staleness() !== null);
  charts.draw(span());
}

/** Time goes on without events, too. */
function tick() {
  renderState();
  if (staleness() !== null) renderTime();
}

async function onConnect() {
  setText(byId("fleet"), session.fleet);
  setText(byId("place"), session.place);
  setText(byId("version"), `Baton ${session.version}`);
  document.title = `${session.fleet} – Baton`;
  byId("logout").hidden = !session.login;
  failed.begin();
  try {
    charts.begin((await read("/api/trend")).points);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
  }
}

function onDisconnect() {
  isDisconnected = true;
  renderState();
}

function chooseSpan(chosen) {
  minutes = chosen;
  for (const button of document.querySelectorAll("[data-minutes]")) {
    button.setAttribute("aria-pressed", String(Number(button.dataset.minutes) === minutes));
  }
  renderTime();
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
  button.addEventListener("click", () => chooseSpan(Number(button.dataset.minutes)));
}
chooseSpan(minutes);
setInterval(tick, TICK_MS);
listen({ onConnect, onEvent, onDisconnect });

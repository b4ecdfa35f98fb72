// Requests to the server: the session, the events, reads and actions.

/** The longest wait before the page connects again, in ms. */
const MAX_RECONNECT_MS = 3000;

/** This session, according to the server. The page reads it again with each new stream. */
export const session = { actions: false, csrf: "", login: false, fleet: "", place: "", version: "" };

/** The URL of a path. The page's own URL may contain a proxy's password, and browsers refuse to fetch
 * such a URL. */
export const urlOf = (path) => new URL(path, location.origin);

/** The server refused a request or did not answer. `soFar` is what it had done by then, `status` the
 * status of its answer; both may be null. */
export class Refused extends Error {
  constructor(reason, soFar = null, status = null) {
    super(reason);
    this.soFar = soFar;
    this.status = status;
  }
}

/** Sends a request. Goes to the login page if the session has ended. */
async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(urlOf(path), { ...options, redirect: "manual", cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("the server of this page does not answer");
  }
  if (response.status === 401 || response.type === "opaqueredirect") {
    location.assign("/login");
    throw new Refused("the session has ended");
  }
  if (!response.ok) {
    const answer = await response.json().catch(() => ({}));
    const { status } = response;
    throw new Refused(answer.error ?? `the server answered ${status}`, answer.so_far, status);
  }
  return response;
}

/** Reads JSON. */
export const read = async (path, signal) => (await request(path, { signal })).json();

/** Requests an action, with the CSRF token of this session. */
export const act = (path, body) =>
  request(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-csrf-token": session.csrf },
    body: JSON.stringify(body),
  });

/**
 * Listens to the server's events. Calls `onConnect` when a stream begins and the session is known,
 * `onEvent` with each event, and `onDisconnect` when the stream breaks.
 */
export function listen({ onConnect, onEvent, onDisconnect }) {
  let stream = null;
  const connect = async () => {
    try {
      Object.assign(session, await read("/api/session"));
    } catch {
      // The server is away, or the browser is on its way to the login page.
      return reconnect();
    }
    onConnect();
    stream = new EventSource(urlOf("/api/events"));
    stream.addEventListener("seen", (event) => onEvent(JSON.parse(event.data)));
    // The page reads the session again, too: this may be another process.
    stream.addEventListener("error", reconnect);
  };
  const reconnect = () => {
    stream?.close();
    stream = null;
    onDisconnect();
    setTimeout(connect, MAX_RECONNECT_MS * (0.3 + 0.7 * Math.random()));
  };
  connect();
}

/** The page in the Studio's centre: link, workers and view, wired. */
import { errorFields } from "../engine/errors.js";
import { bestTier } from "../engine/features.js";
import { decodeFrame, encodeFrame } from "./frames.js";
import { PROTOCOL_VERSION } from "./messages.js";
import { Router } from "./router.js";
import { came, closed, connected, done, START, started } from "./state.js";
import { watchSurroundings } from "./surroundings.js";
import { makeView } from "./view.js";

/** @import { Header } from "./frames.js" */
/** @import { State } from "./state.js" */

const show = makeView();
let state = START;

/** @param {State} next */
function become(next) {
  state = next;
  show(state);
}

/** @param {string} name */
const startWorker = (name) => new Worker(new URL(name, import.meta.url), { type: "module" });

const surroundings = watchSurroundings();

/** The token stands in the query or in the fragment of the page's address. */
function readToken() {
  const from = (/** @type {string} */ part) => new URLSearchParams(part.slice(1)).get("token");
  return from(location.search) ?? from(location.hash);
}

/** @param {string} token */
function connect(token) {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const socket = new WebSocket(`${scheme}://${location.host}/link?token=${encodeURIComponent(token)}`);
  socket.binaryType = "arraybuffer";
  const send = (/** @type {Header} */ header, /** @type {Uint8Array[]} */ blobs = []) => {
    let frame;
    try {
      frame = encodeFrame(header, blobs);
    } catch (e) {
      frame = encodeFrame({ type: "error", id: header.id, ...errorFields(e) });
    }
    if (socket.readyState === WebSocket.OPEN) socket.send(frame);
  };
  const router = new Router({
    engine: () => startWorker("./engine_worker.js"),
    measurer: () => startWorker("./measure_worker.js"),
    send: (header, blobs) => {
      if (header.type === "token") become(came(state, header));
      send(header, blobs);
    },
    surroundings,
    bridge: `${scheme}://${location.host}/gpu?token=${encodeURIComponent(token)}`,
    onStart: (request) => become(started(state, request)),
    onDone: (request, reply) => become(done(state, request, reply)),
  });
  let opened = false;
  socket.addEventListener("open", () => {
    opened = true;
    send({ type: "hello", protocol: PROTOCOL_VERSION, user_agent: navigator.userAgent });
    if (!crossOriginIsolated)
      send({ type: "log", level: "warning", text: "The page is not cross-origin isolated: its timer is coarse." });
    if (!bestTier()) send({ type: "log", level: "error", text: "This browser has no Wasm SIMD: no kernel can run." });
    become(connected(state));
  });
  socket.addEventListener("message", ({ data }) => {
    try {
      router.receive(decodeFrame(data));
    } catch (e) {
      send({ type: "log", level: "error", text: errorFields(e).error });
    }
  });
  socket.addEventListener("close", () => {
    router.close();
    const why = opened
      ? "The link to the Studio is closed; nothing runs here any more."
      : "The Studio does not answer at this address. Open the page from the Studio again.";
    become(closed(state, why));
  });
}

const token = readToken();
if (token) connect(token);
else become(closed(state, "This address has no token. Open the page from NNJIT Studio, or with the nnjit command."));

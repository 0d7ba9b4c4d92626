/** The page's link to the Studio: its socket, and the router that answers over it. */
import { errorFields } from "../engine/errors.js";
import { bestTier } from "../engine/features.js";
import { decodeFrame, encodeFrame } from "./frames.js";
import { PROTOCOL_VERSION } from "./messages.js";
import { Router } from "./router.js";
import { watchSurroundings } from "./surroundings.js";

/** @import { Header } from "./frames.js" */

/**
 * @typedef {object} Follow
 * @property {() => void} opened
 * @property {(opened: boolean, event: CloseEvent) => void} closed
 * @property {(request: Header) => void} started
 * @property {(request: Header, reply: Header) => void} done
 * @property {(token: Header) => void} came a token of a text that is generated
 */

/** @param {string} name */
const startWorker = (name) => new Worker(new URL(name, import.meta.url), { type: "module" });

const surroundings = watchSurroundings();

/** @param {string} path of a socket of this page's server */
export const socketAddress = (path) => `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`;

/**
 * Serve the Studio over one socket, until it closes.
 * @param {string} address
 * @param {string} bridge where a GPU of the Studio's machine is, for pages of that machine
 * @param {Follow} follow
 * @returns {WebSocket}
 */
export function link(address, bridge, follow) {
  const socket = new WebSocket(address);
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
      if (header.type === "token") follow.came(header);
      send(header, blobs);
    },
    surroundings,
    bridge,
    onStart: follow.started,
    onDone: follow.done,
  });
  let opened = false;
  socket.addEventListener("open", () => {
    opened = true;
    send({ type: "hello", protocol: PROTOCOL_VERSION, user_agent: navigator.userAgent });
    if (!crossOriginIsolated)
      send({ type: "log", level: "warning", text: "The page is not cross-origin isolated: its timer is coarse." });
    if (!bestTier()) send({ type: "log", level: "error", text: "This browser has no Wasm SIMD: no kernel can run." });
    follow.opened();
  });
  socket.addEventListener("message", ({ data }) => {
    try {
      router.receive(decodeFrame(data));
    } catch (e) {
      send({ type: "log", level: "error", text: errorFields(e).error });
    }
  });
  socket.addEventListener("close", (event) => {
    router.close();
    follow.closed(opened, event);
  });
  return socket;
}

/** Web workers in Node: the part that the engine's team uses, over worker_threads. */
import { Worker as Thread } from "node:worker_threads";

const BOOT = `
const { parentPort, workerData } = require("node:worker_threads");
globalThis.postMessage = (data, { transfer } = {}) => parentPort.postMessage(data, transfer);
globalThis.addEventListener = (type, listener) => parentPort.on(type, (data) => listener({ data }));
import(workerData);
`;

export class WebWorker extends EventTarget {
  /** @type {Set<WebWorker>} that run now */
  static running = new Set();
  #thread;

  /** @param {URL} url */
  constructor(url) {
    super();
    this.#thread = new Thread(BOOT, { eval: true, workerData: url.href });
    WebWorker.running.add(this);
    this.#thread.on("message", (data) => this.dispatchEvent(Object.assign(new Event("message"), { data })));
    this.#thread.on("error", ({ message }) => this.dispatchEvent(Object.assign(new Event("error"), { message })));
    this.ended = new Promise((resolve) => this.#thread.on("exit", resolve)).then(() => WebWorker.running.delete(this));
  }

  /** @param {unknown} data @param {any[]} [transfer] */
  postMessage(data, transfer) {
    this.#thread.postMessage(data, transfer);
  }

  terminate() {
    this.#thread.terminate();
  }
}

/** Makes this process a cross-origin isolated page. */
export function isolate() {
  Object.assign(globalThis, { crossOriginIsolated: true, Worker: WebWorker });
}

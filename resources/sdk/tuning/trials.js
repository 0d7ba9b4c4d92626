/** The page's side of the disposable worker: one that hangs or falls is replaced. */
import { EngineError } from "../../engine/errors.js";

/** @import { Measured } from "../../engine/tuning/measured.js" */
/** @import { Request } from "./bench.js" */
/** @typedef {{answer: (request: Request) => Promise<Measured | null>, close: () => void}} Trials */
/** @typedef {{id: number, resolve: (value: Measured | null) => void, reject: (e: Error) => void, timer: ReturnType<typeof setTimeout>}} Waiting */

/** A measurement takes a tenth of it. */
const MOST_MS = 20_000;

/** @implements {Trials} */
export class WorkerTrials {
  /** @type {Worker | null} */ #worker = null;
  #calls = 0;
  /** @type {Waiting | null} */ #waiting = null;

  /** @param {number} [most_ms] after which a worker is ended */
  constructor(most_ms = MOST_MS) {
    this.most_ms = most_ms;
  }

  /** One request at a time. @param {Request} request @returns {Promise<Measured | null>} */
  answer(request) {
    this.#worker ??= this.#start();
    const id = ++this.#calls;
    const worker = this.#worker;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#end("The kernel did not come back."), this.most_ms);
      this.#waiting = { id, resolve, reject, timer };
      worker.postMessage({ id, request });
    });
  }

  /** Ends the worker; the next request gets a new one. */
  close() {
    this.#end("The tuning was stopped.");
  }

  #start() {
    const worker = new Worker(new URL("./trial_worker.js", import.meta.url), { type: "module" });
    worker.addEventListener("message", ({ data: { id, value, failure } }) => {
      if (id !== this.#waiting?.id) return;
      const { resolve, reject } = this.#settle();
      if (failure) reject(new EngineError(failure.error, failure.hint));
      else resolve(value);
    });
    worker.addEventListener("error", ({ message }) => {
      if (worker === this.#worker) this.#end(`The worker of the trials ended: ${message || "its script did not load"}.`);
    });
    return worker;
  }

  /** @param {string} why */
  #end(why) {
    this.#worker?.terminate();
    this.#worker = null;
    if (this.#waiting) this.#settle().reject(new EngineError(why));
  }

  #settle() {
    const waiting = /** @type {Waiting} */ (this.#waiting);
    this.#waiting = null;
    clearTimeout(waiting.timer);
    return waiting;
  }
}

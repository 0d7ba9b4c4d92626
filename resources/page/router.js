/**
 * Hands each request of the hub to its worker, strictly one after another, and
 * ends workers that have served their time or do not answer.
 */
import { EngineError, errorFields } from "./errors.js";
import { notMeasured } from "./measure.js";
import { checkRequest } from "./messages.js";

/** @typedef {import("./frames.js").Header} Header */
/** @typedef {import("./serve.js").Call} Call */
/** @typedef {import("./serve.js").Reply} Reply */
/** The part of a Worker that the router uses. */
/** @typedef {Pick<Worker, "postMessage" | "terminate" | "addEventListener" | "removeEventListener">} WorkerLike */
/**
 * @typedef {object} Workplace
 * @property {() => WorkerLike} engine starts an engine worker
 * @property {() => WorkerLike} measurer starts a measuring worker
 * @property {(header: Header, blobs: Uint8Array[]) => void} send to the hub
 * @property {(request: Header) => void} [onStart] tells the view what begins
 * @property {(request: Header, reply: Header) => void} [onDone] and how it ended
 */

export const KERNELS_PER_WORKER = 100;
const GRACE_MS = 10_000;

export class Router {
  /** @type {WorkerLike | null} */ #engine = null;
  /** @type {WorkerLike | null} */ #measurer = null;
  /** @type {Call | null} kept for the next measuring worker */ #fixture = null;
  /** @type {Map<number, Uint8Array>} blobs of the next fixture that no frame holds, by index */ #ahead = new Map();
  #kernels = 0;
  #closed = false;
  #queue = Promise.resolve();

  /** @param {Workplace} workplace */
  constructor(workplace) {
    this.place = workplace;
  }

  /**
   * @param {Call} call
   * @returns {Promise<void>} when its reply is sent
   */
  receive(call) {
    const served = this.#queue.then(() => this.#serve(call));
    this.#queue = served.catch(() => {}); // its caller hears of it; the next one has its turn
    return served;
  }

  /** Ends all workers; requests that wait get no answer. */
  close() {
    this.#closed = true;
    this.#engine?.terminate();
    this.#measurer?.terminate();
    this.#engine = this.#measurer = null;
  }

  /** @param {Call} call */
  async #serve(call) {
    if (this.#closed) return;
    const request = call.header;
    /** @type {Reply} */
    let reply;
    try {
      checkRequest(request, call.blobs);
      this.place.onStart?.(request);
      reply = await this.#route(call);
    } catch (e) {
      reply = { header: { type: "error", ...errorFields(e) } };
    }
    if (this.#closed) return;
    const header = { ...reply.header, id: request.id };
    this.place.send(header, reply.blobs ?? []);
    this.place.onDone?.(request, header);
  }

  /**
   * @param {Call} call
   * @returns {Promise<Reply>}
   */
  #route(call) {
    switch (call.header.type) {
      case "load":
        // a new worker gives the old model's memory back for certain
        this.#engine?.terminate();
        this.#engine = this.place.engine();
        return this.#ask(this.#engine, call, true);
      case "weights":
      case "register":
      case "infer":
        if (!this.#engine) throw new EngineError("No model is loaded.", "Load a plan first.");
        return this.#ask(this.#engine, call, true);
      case "probe":
      case "rates":
        return this.#probe(call);
      case "ahead":
        return Promise.resolve(this.#keepAhead(call));
      case "fixture":
        return this.#setFixture(call);
      default:
        return this.#measure(call);
    }
  }

  /**
   * @param {Call} call
   * @returns {Reply}
   */
  #keepAhead({ header: { blob, nbytes, offset }, blobs: [part] }) {
    if (offset === 0) this.#ahead.set(blob, new Uint8Array(nbytes));
    const whole = this.#ahead.get(blob);
    if (!whole || offset + part.length > whole.length)
      throw new EngineError(`The part of blob ${blob} at ${offset} belongs to nothing.`, "Send the parts in order.");
    whole.set(part, offset);
    return { header: { type: "ok" } };
  }

  /** @param {Call} request */
  async #setFixture(request) {
    this.#fixture = null;
    const call = { ...request, blobs: request.blobs.map((b, i) => this.#ahead.get(i) ?? b) };
    this.#ahead.clear();
    const reply = await this.#ask(this.#measuringWorker(), call, false);
    if (reply.header.type === "ok") this.#fixture = call;
    return reply;
  }

  /** @param {Call} call */
  async #probe(call) {
    const worker = this.place.measurer();
    try {
      return await ask(worker, call, [], Infinity);
    } finally {
      worker.terminate();
    }
  }

  /**
   * @param {Call} call
   * @returns {Promise<Reply>}
   */
  async #measure(call) {
    if (this.#kernels >= KERNELS_PER_WORKER) this.#endMeasurer();
    if (!this.#measurer && this.#fixture) {
      const again = await this.#ask(this.#measuringWorker(), this.#fixture, false);
      if (again.header.type === "error") return again;
    }
    this.#kernels++;
    const limit_ms = call.header.policy.max_ms * 3 + GRACE_MS;
    try {
      return await ask(this.#measuringWorker(), call, transferOf(call), limit_ms);
    } catch (e) {
      this.#endMeasurer();
      const { error, hint } = errorFields(e);
      return { header: { type: "measured", ...notMeasured(`${error} ${hint}`.trim()) } };
    }
  }

  #measuringWorker() {
    this.#measurer ??= this.place.measurer();
    return this.#measurer;
  }

  #endMeasurer() {
    this.#measurer?.terminate();
    this.#measurer = null;
    this.#kernels = 0;
  }

  /**
   * A worker that dies is dropped: the model or the fixture is gone with it.
   * @param {WorkerLike} worker
   * @param {Call} call
   * @param {boolean} transfer
   * @returns {Promise<Reply>}
   */
  async #ask(worker, call, transfer) {
    try {
      return await ask(worker, call, transfer ? transferOf(call) : [], Infinity);
    } catch (e) {
      if (worker === this.#engine) this.#engine = null;
      if (worker === this.#measurer) this.#endMeasurer();
      worker.terminate();
      throw e;
    }
  }
}

/** @param {Call} call */
const transferOf = ({ blobs }) => [...new Set(blobs.map((b) => b.buffer))];

/**
 * @param {WorkerLike} worker
 * @param {Call} call
 * @param {ArrayBuffer[]} transfer
 * @param {number} limit_ms
 * @returns {Promise<Reply>}
 */
function ask(worker, call, transfer, limit_ms) {
  return new Promise((resolve, reject) => {
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    const end = (/** @type {() => void} */ then) => {
      clearTimeout(timer);
      worker.removeEventListener("message", onMessage);
      worker.removeEventListener("error", onError);
      then();
    };
    const onMessage = (/** @type {any} */ event) => end(() => resolve(event.data));
    const onError = (/** @type {any} */ event) =>
      end(() => reject(new EngineError(`A worker of the page died: ${event.message || "it could not start"}.`)));
    if (limit_ms !== Infinity)
      timer = setTimeout(() => {
        end(() => reject(new EngineError(`The kernel did not end within ${limit_ms / 1000} s.`)));
      }, limit_ms);
    worker.addEventListener("message", onMessage);
    worker.addEventListener("error", onError);
    worker.postMessage(call, { transfer });
  });
}

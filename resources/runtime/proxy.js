/** A session in a worker of its own: the page's thread waits for nothing. */
import { EngineError } from "../engine/errors.js";
import { Tensor } from "../sdk/tensor.js";
import { buffers, parcels, toError } from "./calls.js";

/** @import { Options, Reason, Token } from "../engine/generation/generate.js" */
/** @import { Answer, Parcel } from "./calls.js" */
/** @import { Files } from "./files.js" */
/** @import { SessionOptions } from "./open.js" */
/** @typedef {{signal?: AbortSignal, transfer?: boolean}} RunOptions `transfer` hands the memory of the inputs over, instead of a copy */
/** @typedef {{resolve: (value: any) => void, reject: (error: Error) => void}} Waiting */

export class ProxySession {
  #worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  /** By the number of their call. @type {Map<number, Waiting>} */ #waiting = new Map();
  #calls = 0;
  #ended = "";
  /** Runs wait here, so that one that is aborted before its turn is never sent. @type {Promise<unknown>} */ #last = Promise.resolve();

  /** @param {SessionOptions["onProgress"]} onProgress */
  constructor(onProgress) {
    this.executionProvider = "";
    this.fallbackReason = "";
    this.verified = false;
    this.tier = "";
    this.threads = 0;
    this.memoryBytes = 0;
    this.manifest = /** @type {import("../types/engine.js").Manifest} */ ({});
    /** @type {string[]} */ this.inputNames = [];
    /** @type {string[]} */ this.outputNames = [];
    /** @type {{name: string, isTensor: boolean, type: string, shape: number[]}[]} */ this.inputMetadata = [];
    /** @type {{name: string, isTensor: boolean, type: string, shape: number[]}[]} */ this.outputMetadata = [];
    this.#worker.addEventListener("message", ({ data }) => this.#take(data, onProgress));
    this.#worker.addEventListener("error", ({ message }) => this.#end(`The worker of the session ended: ${message || "its script did not load"}.`));
  }

  /**
   * @param {string | URL | Files} source
   * @param {SessionOptions} options
   */
  static async create(source, { onProgress, ...options }) {
    const session = new ProxySession(onProgress);
    const from = typeof source === "string" || source instanceof URL ? new URL(source, globalThis.location?.href ?? import.meta.url).href : source;
    try {
      return Object.assign(session, await session.#call("create", [from, options]));
    } catch (e) {
      await session.release();
      throw e;
    }
  }

  /**
   * As the session of a page. A run that was aborted is left at once; one that has begun is
   * finished in the worker, for nobody.
   * @param {Record<string, Tensor>} feeds
   * @param {readonly string[] | Record<string, unknown> | null} [fetches]
   * @param {RunOptions} [options]
   * @returns {Promise<Record<string, Tensor>>}
   */
  async run(feeds, fetches, { signal, transfer = false } = {}) {
    signal?.throwIfAborted();
    const inputs = parcels(feeds);
    const result = this.#last.then(() => {
      signal?.throwIfAborted();
      return this.#call("run", [inputs, fetches ?? undefined], transfer ? buffers(inputs) : []);
    });
    this.#last = result.catch(() => {});
    const { outputs, facts } = await (signal ? Promise.race([result, aborted(signal)]) : result);
    Object.assign(this, facts); // a lost GPU changes them
    return Object.fromEntries(Object.entries(/** @type {Record<string, Parcel>} */ (outputs)).map(([name, { type, data, dims }]) => [name, new Tensor(type, data, dims)]));
  }

  /**
   * As the session of a page.
   * @param {Record<string, number>} [sizes]
   * @returns {Promise<number>}
   */
  warmUp(sizes) {
    return this.#call("warmUp", [sizes]);
  }

  /**
   * As the session of a page.
   * @param {Record<string, Tensor>} feeds
   * @param {number} [runs]
   */
  profile(feeds, runs = 10) {
    return this.#call("profile", [parcels(feeds), runs]);
  }

  /**
   * As the session of a page; each token is made when it is asked for.
   * @param {readonly (number | bigint)[] | BigInt64Array | Int32Array} ids
   * @param {Options} [options]
   * @returns {AsyncGenerator<Token, Reason>}
   */
  async *generate(ids, { signal, ...options } = {}) {
    const text = ++this.#calls;
    const cancel = () => void this.#call("cancel", [text]).catch(() => {}); // who waits for a token is told of an ended worker
    signal?.addEventListener("abort", cancel);
    await this.#call("generate", [text, ids, options]);
    if (signal?.aborted) cancel();
    try {
      for (;;) {
        const { done, value } = await this.#call("next", [text]);
        if (done) return value;
        yield value;
        if (signal?.aborted) return "cancelled";
      }
    } finally {
      signal?.removeEventListener("abort", cancel);
      if (!this.#ended) await this.#call("end", [text]);
    }
  }

  /** Ends the worker, whatever it does; calls that wait fail. */
  async release() {
    this.#end("The session was released.");
  }

  /** @param {string} call @param {any[]} args @param {Transferable[]} [transfer] @returns {Promise<any>} */
  #call(call, args, transfer = []) {
    if (this.#ended) return Promise.reject(new EngineError(this.#ended, "Create another session."));
    const id = ++this.#calls;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, call, args }, transfer);
    });
  }

  /** @param {Answer} answer @param {SessionOptions["onProgress"]} onProgress */
  #take(answer, onProgress) {
    if ("progress" in answer) return onProgress?.(answer.progress);
    const waiting = this.#waiting.get(answer.id);
    this.#waiting.delete(answer.id);
    if (answer.failure) waiting?.reject(toError(answer.failure));
    else waiting?.resolve(answer.value);
  }

  /** @param {string} reason */
  #end(reason) {
    this.#ended ||= reason;
    this.#worker.terminate();
    for (const { reject } of this.#waiting.values()) reject(new EngineError(this.#ended, "Create another session."));
    this.#waiting.clear();
  }
}

/** @param {AbortSignal} signal @returns {Promise<never>} */
const aborted = (signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));

/** The caller and its helpers: threads that work off a kernel's outer loop together. */
import { Choice } from "./choice.js";
import { CONTROL_BYTES, join, MAIL, MAX_POINTERS, publish, taken, takeFailure, wake, workOff } from "./control.js";
import { EngineError } from "./errors.js";
import { canShare, MAX_THREADS } from "./features.js";

/** @import { Run } from "../types/engine.js" */
/** @import { Control } from "./control.js" */
/** @typedef {Pick<Worker, "postMessage" | "terminate" | "addEventListener" | "removeEventListener">} Helper */

const ANSWER_MS = 20_000;
/** Longer than any chunk of a kernel takes; then its thread is lost. */
const LIMIT_MS = 30_000;

const startHelper = () => new Worker(new URL("./pool_worker.js", import.meta.url), { type: "module" });

export class Team {
  #control = /** @type {Control} */ (new Int32Array(new SharedArrayBuffer(CONTROL_BYTES)));
  /** @type {Helper[]} */ #helpers = [];
  /** @type {number[]} to be forgotten with the next message */ #dropped = [];
  #next_id = 1;
  #lost = "";
  #may_sleep = maySleep();
  #last = Promise.resolve();

  /** @param {number} limit_ms how long a helper may take for a chunk */
  constructor(limit_ms) {
    this.limit_ms = limit_ms;
  }

  /**
   * A team of `threads`, the caller among them. Workers end with their owner.
   * @param {number} threads at least 2
   * @param {{start?: () => Helper, limit_ms?: number}} [options]
   */
  static async start(threads, { start = startHelper, limit_ms = LIMIT_MS } = {}) {
    if (!(Number.isInteger(threads) && threads >= 2 && threads <= MAX_THREADS))
      throw new EngineError(`A team has 2 to ${MAX_THREADS} threads, not ${threads}.`);
    if (!canShare())
      throw new EngineError(
        "This page has no shared memory, so kernels run on one thread.",
        "Serve it with Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp.",
      );
    const team = new Team(limit_ms);
    try {
      for (let i = 1; i < threads; i++) {
        const helper = start();
        helper.addEventListener("error", (e) => void (team.#lost ||= died(e)));
        team.#helpers.push(helper);
      }
      await team.#post({ control: team.#control });
    } catch (e) {
      team.close();
      throw e;
    }
    return team;
  }

  /** Whether it is worth a kernel's while, which only its runs tell. */
  choice() {
    return new Choice();
  }

  get threads() {
    return this.#helpers.length + 1;
  }

  /** Whether a helper died or gave no answer: nothing runs on this team any more. */
  get lost() {
    return this.#lost !== "";
  }

  /** How many chunks each thread has taken so far, the caller first. */
  taken() {
    return taken(this.#control, this.threads);
  }

  /** Ends the helpers, whatever they do. */
  close() {
    for (const helper of this.#helpers) helper.terminate();
    this.#helpers = [];
    this.#lost ||= "The threads of the engine have ended.";
  }

  /**
   * Gives kernels to all helpers.
   * @param {WebAssembly.Memory} memory shared
   * @param {WebAssembly.Module[]} modules that import a shared memory
   * @returns {Promise<number[]>} an id for each
   */
  async add(memory, modules) {
    const add = modules.map((module) => ({ id: this.#next_id++, module }));
    await this.#post({ memory, add });
    return add.map(({ id }) => id);
  }

  /** @param {number[]} ids of kernels that will not run again */
  drop(ids) {
    this.#dropped.push(...ids);
  }

  /**
   * Runs the whole of a kernel. A trap in any thread is an error of this run
   * alone; a thread that does not answer in time is lost, and the team with it.
   *
   * @param {number} id
   * @param {Run} run the caller's own instance of it
   * @param {number[]} pointers
   * @param {number} extent
   */
  run(id, run, pointers, extent) {
    this.#alive();
    if (pointers.length > MAX_POINTERS) return run(...pointers, 0, extent);
    const control = this.#control;
    publish(control, id, pointers, extent, this.threads);
    /** @type {unknown} */
    let thrown = null;
    try {
      workOff(control, run, [...pointers, 0, 0]);
    } catch (e) {
      thrown = e;
    }
    if (!join(control, this.#may_sleep, this.limit_ms)) {
      this.#lost ||= silent(this.limit_ms);
      this.close();
      this.#alive();
    }
    const failure = takeFailure(control);
    if (thrown) throw thrown;
    if (failure) throw new EngineError(`A kernel failed in a thread of the engine: ${failure}.`);
  }

  #alive() {
    if (this.#lost) throw new EngineError(this.#lost, "Load the model again.");
  }

  /**
   * One message to every helper, answered by all, one after another.
   * @param {Record<string, unknown>} message
   */
  #post(message) {
    const posted = this.#last.then(async () => {
      this.#alive();
      const drop = this.#dropped.splice(0);
      const answers = this.#helpers.map(answerOf);
      // first the count: a helper that sees it leaves its loop and finds the message
      Atomics.add(this.#control, MAIL, 1);
      this.#helpers.forEach((helper, i) => helper.postMessage({ add: [], drop, number: i + 1, ...message }));
      wake(this.#control);
      await Promise.all(answers);
    });
    this.#last = posted.catch(() => {});
    return posted;
  }
}

/** @param {any} e */
const died = (e) => `A thread of the engine died: ${e.message || "it could not start"}.`;
/** @param {number} ms */
const silent = (ms) => `A thread of the engine gave no answer within ${ms / 1000} s.`;

/** @param {Helper} helper */
function answerOf(helper) {
  return new Promise((resolve, reject) => {
    const end = (/** @type {string} */ error) => {
      clearTimeout(timer);
      helper.removeEventListener("message", onMessage);
      helper.removeEventListener("error", onError);
      if (error) reject(new EngineError(error, "Allow workers from this origin (CSP worker-src 'self'), or use one thread."));
      else resolve(undefined);
    };
    const onMessage = (/** @type {any} */ { data }) => end(data.error && `A thread cannot link a kernel: ${data.error}.`);
    const onError = (/** @type {unknown} */ e) => end(died(e));
    const timer = setTimeout(() => end(silent(ANSWER_MS)), ANSWER_MS);
    helper.addEventListener("message", onMessage);
    helper.addEventListener("error", onError);
  });
}

/** Browsers forbid their main thread to sleep. */
function maySleep() {
  try {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 0);
    return true;
  } catch {
    return false;
  }
}

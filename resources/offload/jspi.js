/**
 * Waiting by JavaScript Promise Integration: the module is suspended while the GPU works.
 *
 * Exports that are named become asynchronous. A module cannot be suspended with JavaScript frames
 * on its stack, as of Emscripten's exceptions (`invoke_*`), nor in a call of another export: there
 * the loop runs as it is.
 */
import { Guard } from "./guard.js";
import { OffloadGpu } from "./gpu.js";
import { bind } from "./swap.js";

/** @import { GpuDevice } from "../types/gpu.js" */
/** @import { Job, Memory } from "./guard.js" */
/** @import { Plan } from "./plan.js" */
/** @typedef {{open?: () => Promise<GpuDevice>, remembered?: Memory, random?: () => number, always?: boolean}} Options */

export const hasJspi = () => "Suspending" in WebAssembly && "promising" in WebAssembly;

export class JspiRunner {
  /** @type {OffloadGpu | null} */ gpu = null;
  #suspendable = 0;
  #foreign = 0;

  /** @param {Guard} guard @param {Options["open"]} open */
  constructor(guard, open) {
    this.guard = guard;
    this.open = open;
  }

  /** Opens the device; without one all loops run as they are. */
  async start() {
    try {
      this.gpu = await OffloadGpu.open(this.open);
      this.guard.opened(this.gpu.facts);
    } catch {
      this.guard.closed("no-device");
    }
  }

  unable() {
    if (this.#foreign) return "js-frames";
    return this.#suspendable ? "" : "not-suspendable";
  }

  /** @param {Job} job */
  async run(job) {
    try {
      const gpu = /** @type {OffloadGpu} */ (this.gpu);
      return this.guard.ran(job, await gpu.run(job));
    } catch (e) {
      const answer = this.guard.failed(job, e);
      if (this.guard.unable) await this.start(); // a lost device costs this call alone
      return answer;
    }
  }

  /** A function of the page that the module calls: no suspension beyond it. @param {Function} given */
  imported(given) {
    return (/** @type {unknown[]} */ ...args) => this.#within(() => given(...args));
  }

  /** An export that is called as before. @param {Function} given */
  plain(given) {
    return (/** @type {unknown[]} */ ...args) => this.#within(() => given(...args));
  }

  /** An export that may be suspended: it returns a promise. @param {Function} given */
  promising(given) {
    const promise = /** @type {any} */ (WebAssembly).promising(given);
    return async (/** @type {unknown[]} */ ...args) => {
      this.#suspendable++;
      try {
        return await promise(...args);
      } finally {
        this.#suspendable--;
      }
    };
  }

  /** @template T @param {() => T} work */
  #within(work) {
    this.#foreign++;
    try {
      return work();
    } finally {
      this.#foreign--;
    }
  }
}

/**
 * Instantiates a rewritten module with a guard in its table.
 * @param {WebAssembly.Module} module
 * @param {Record<string, Record<string, any>>} imports
 * @param {Plan} plan
 * @param {string[]} entries exports that return promises from now on
 * @param {Options} [options]
 */
export async function instantiate(module, imports, plan, entries, options = {}) {
  if (!hasJspi()) throw new Error("This browser has no JavaScript Promise Integration: run the module in a worker (blocking.js).");
  /** @type {WebAssembly.Memory | undefined} */
  let memory = Object.values(imports).flatMap(Object.values).find((v) => v instanceof WebAssembly.Memory);
  const guard = new Guard(plan, () => /** @type {WebAssembly.Memory} */ (memory).buffer, options);
  const runner = new JspiRunner(guard, options.open);
  const wrap = (/** @type {any} */ v) => (typeof v === "function" && !(v instanceof /** @type {any} */ (WebAssembly).Suspending) ? runner.imported(v) : v);
  const wrapped = Object.fromEntries(Object.entries(imports).map(([space, given]) => [space, Object.fromEntries(Object.entries(given).map(([name, v]) => [name, wrap(v)]))]));
  const instance = await WebAssembly.instantiate(module, wrapped);
  memory ??= /** @type {WebAssembly.Memory | undefined} */ (Object.values(instance.exports).find((v) => v instanceof WebAssembly.Memory));
  if (!memory) throw new Error("The module has no memory that its page can reach.");
  bind(instance, guard, runner, (wait) => new /** @type {any} */ (WebAssembly).Suspending(wait));
  await runner.start();
  const outer = (/** @type {string} */ name, /** @type {any} */ v) => (typeof v !== "function" ? v : entries.includes(name) ? runner.promising(v) : runner.plain(v));
  const exports = /** @type {Record<string, any>} */ (Object.fromEntries(Object.entries(instance.exports).map(([name, v]) => [name, outer(name, v)])));
  return { exports, guard, runner, memory };
}

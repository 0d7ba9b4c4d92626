/**
 * Waiting in a worker: the module's thread blocks in `Atomics.wait` while another worker, which
 * owns the device, works. For browsers without JSPI and for modules that cannot be suspended; not
 * on a page's main thread, which may not block.
 */
import { LENGTH, MESSAGE_BYTES, STATE, WORDS } from "./channel.js";
import { Guard } from "./guard.js";
import { bytesOf } from "./memory.js";
import { bind } from "./swap.js";

/** @import { GpuSource } from "../types/gpu.js" */
/** @import { Job, Memory } from "./guard.js" */
/** @import { Plan } from "./plan.js" */
/** @import { Answer } from "./channel.js" */

/** Longer than this a kernel does not run; the loop then does. */
const PATIENCE_MS = 30_000;

export class BlockingRunner {
  #control = new Int32Array(new SharedArrayBuffer(4 * WORDS));
  #message = new Uint8Array(new SharedArrayBuffer(MESSAGE_BYTES));
  #worker = new Worker(new URL("gpu_worker.js", import.meta.url), { type: "module" });

  /** @param {Guard} guard */
  constructor(guard) {
    this.guard = guard;
  }

  /** Starts the other worker and its device; while this waits the thread does not block. @param {GpuSource | undefined} source */
  async start(source) {
    const facts = await new Promise((resolve) => {
      this.#worker.addEventListener("message", ({ data }) => resolve(data), { once: true });
      this.#worker.postMessage({ open: source, control: this.#control, message: this.#message });
    });
    this.#know(facts);
  }

  unable() {
    return "";
  }

  /** @param {Job} job */
  run(job) {
    const { nest, trial } = job;
    const sizes = nest.outputs.map(bytesOf);
    // Of the call, then of each image.
    const shared = [job, ...job.images].map(() => sizes.map((n) => new Uint8Array(new SharedArrayBuffer(n))));
    Atomics.store(this.#control, STATE, 0);
    // Of a plain memory the message takes a copy; a shared one is read where it is.
    const inputs = job.inputs.map((b) => (b.buffer instanceof SharedArrayBuffer ? b : b.slice()));
    this.#worker.postMessage({ job: { nest, inputs, trial, images: job.images.map((image) => ({ inputs: image.inputs })) }, outputs: shared });
    if (Atomics.wait(this.#control, STATE, 0, PATIENCE_MS) === "timed-out") return this.guard.failed(job, { code: "timeout", message: "The GPU does not answer." });
    const answer = this.#answer();
    if ("price" in answer) {
      const [outputs, ...tried] = shared.map((run) => run.map((b) => b.slice()));
      return this.guard.ran(job, { outputs, tried, price: answer.price });
    }
    const result = this.guard.failed(job, answer);
    if (answer.facts) this.#know(answer);
    return result;
  }

  /** Forces a loss of the device, for tests. */
  lose() {
    this.#worker.postMessage({ lose: true });
  }

  /** Ends the other worker. */
  end() {
    this.#worker.terminate();
  }

  /** @returns {Answer} */
  #answer() {
    const length = Atomics.load(this.#control, LENGTH);
    return JSON.parse(new TextDecoder().decode(this.#message.slice(0, length)));
  }

  /** @param {any} told */
  #know({ facts }) {
    if (!facts) return this.guard.closed("no-device");
    const { key, fixedMs, upMs, downMs } = facts;
    this.guard.opened({ key, floor: (up, down) => fixedMs + up * upMs + down * downMs });
  }
}

/**
 * Instantiates a rewritten module with a guard in its table; in a worker.
 * @param {WebAssembly.Module} module
 * @param {Record<string, Record<string, any>>} imports
 * @param {Plan} plan
 * @param {{source?: GpuSource, remembered?: Memory, random?: () => number, always?: boolean}} [options]
 */
export async function instantiate(module, imports, plan, options = {}) {
  const instance = await WebAssembly.instantiate(module, imports);
  const found = [...Object.values(imports).flatMap(Object.values), ...Object.values(instance.exports)];
  const memory = /** @type {WebAssembly.Memory | undefined} */ (found.find((v) => v instanceof WebAssembly.Memory));
  if (!memory) throw new Error("The module has no memory that its page can reach.");
  const guard = new Guard(plan, () => memory.buffer, options);
  const runner = new BlockingRunner(guard);
  bind(instance, guard, runner);
  await runner.start(options.source);
  return { exports: /** @type {Record<string, any>} */ (instance.exports), guard, runner, memory };
}

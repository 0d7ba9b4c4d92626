/** What may go wrong on a device later, and those that wait for it. */
import { Waits } from "../counters.js";
import { GpuError, lostError } from "../errors.js";
import { notice } from "./notice.js";

/** @import { GpuCounters } from "../../../types/gpu.js" */

const FILTERS = /** @type {const} */ (["validation", "out-of-memory", "internal"]);
/** Names of errors that may come of a loss, and how long after them it is told. */
const LOSS_NAMES = ["AbortError", "OperationError"];
const LOSS_MS = 500;

export class Watch {
  /** @type {Promise<GpuError | null>[]} not looked at yet */ #checks = [];
  /** @type {Set<(error: GpuError) => void>} of those that wait */ #waiting = new Set();
  /** @type {GpuError | null} why the device is no more */ gone = null;
  /** Whether that was our own wish. */
  destroyed = false;

  /** @param {GPUDevice} device @param {GpuCounters} counters */
  constructor(device, counters) {
    this.device = device;
    this.waits = new Waits(counters);
    device.addEventListener("uncapturederror", (event) => {
      event.preventDefault();
      this.#checks.push(Promise.resolve(errorOf(event.error)));
    });
    /** @type {Promise<{reason: string, message: string}>} */
    this.lost = device.lost.then(({ message }) => {
      const how = { reason: this.destroyed ? "destroyed" : "unknown", message };
      this.gone = lostError(how);
      for (const reject of this.#waiting) reject(this.gone);
      this.#waiting.clear();
      return how;
    });
  }

  alive() {
    if (this.gone) throw this.gone;
  }

  /**
   * Does something whose errors the next wait tells.
   * @template T
   * @param {() => T} make
   * @returns {T}
   */
  scoped(make) {
    for (const filter of FILTERS) this.device.pushErrorScope(filter);
    try {
      return make();
    } finally {
      const found = Promise.all(FILTERS.map(() => this.device.popErrorScope())).then(
        (errors) => errors.map((e) => e && errorOf(e)).find(Boolean) ?? null,
        () => null, // the device is lost, which is told otherwise
      );
      this.#checks.push(found);
    }
  }

  /**
   * Waits for what was submitted, and for what may have gone wrong in it.
   * @param {Promise<unknown>} finished
   * @param {boolean} [hurried] notices it at once
   */
  async wait(finished, hurried = true) {
    const checks = [...this.#checks];
    const { device } = this;
    const poke = () => {
      device.queue.onSubmittedWorkDone().catch(() => {});
      return !this.gone;
    };
    this.waits.begin();
    try {
      await this.orLost(hurried ? notice(finished, poke) : finished);
    } catch (e) {
      if (e instanceof GpuError) throw e;
      throw (await this.#first(checks)) ?? new GpuError("", `The GPU did not answer: ${/** @type {Error} */ (e).message}.`);
    } finally {
      this.waits.end();
    }
    const error = await this.#first(checks);
    if (error) throw error;
  }

  /**
   * Each error is told once, but to all that waited for it.
   * @param {Promise<GpuError | null>[]} checks
   */
  async #first(checks) {
    const errors = await this.orLost(Promise.all(checks));
    this.#checks = this.#checks.filter((check) => !checks.includes(check));
    return errors.find(Boolean) ?? null;
  }

  /**
   * @template T
   * @param {Promise<T>} promise
   * @returns {Promise<T>} rejects when the device is lost meanwhile
   */
  orLost(promise) {
    return new Promise((resolve, reject) => {
      if (this.gone) return reject(this.gone);
      this.#waiting.add(reject);
      promise
        .catch(async (e) => {
          // browsers reject what is under way just before they say that the device is lost
          if (LOSS_NAMES.includes(e?.name)) await Promise.race([this.lost, new Promise((r) => setTimeout(r, LOSS_MS))]);
          throw e;
        })
        .then(resolve, reject)
        .finally(() => this.#waiting.delete(reject));
    });
  }
}

/** @param {GPUError} error */
const errorOf = (error) =>
  "GPUOutOfMemoryError" in globalThis && error instanceof GPUOutOfMemoryError
    ? new GpuError("gpu-memory", "The GPU has no more memory.", "Use a smaller model, close other pages, or use the Wasm backend.")
    : new GpuError("gpu-kernel", `The GPU refuses the work: ${error.message}.`);

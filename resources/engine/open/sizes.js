/** The plans of an open model that were made, by size: the last ones are kept. */
import { EngineError } from "../errors.js";
import { layoutMemory, PAGE_BYTES } from "../plan.js";
import { Choices } from "./choices.js";
import { LOOPS } from "./loop.js";
import { everyVariant, planAt } from "./plan.js";
import { OpenModel } from "./model.js";
import { dimsOf } from "./size.js";
import { aheadOf, warmInputs } from "./warm.js";

/** @import { Loaded, Tensor } from "../../types/engine.js" */
/** @import { Dims } from "./size.js" */
/** @import { Stepped } from "./warm.js" */

const MOST = 128;

export class Sizes extends OpenModel {
  /** @type {Map<string, Loaded>} the one used last comes last */ #made = new Map();
  #choices = new Choices();
  /** Of linear memory: it keeps what the largest run took. */
  memoryBytes = 0;
  loops = LOOPS;

  /** A plan that calls every kernel. */
  get everyVariant() {
    return everyVariant(this.open);
  }

  /** Forgets what was made, because kernels have changed. */
  clear() {
    this.#made.clear();
  }

  /**
   * The plan for these inputs. The memory grows where a larger size comes, and stays.
   * @param {Tensor[]} inputs
   * @param {WebAssembly.Memory} memory
   * @returns {Loaded}
   */
  at(inputs, memory) {
    const dims = dimsOf(this.open, inputs);
    const key = Object.values(dims).join();
    const known = this.#made.get(key);
    if (known) {
      this.#made.delete(key);
      this.#made.set(key, known);
      return known;
    }
    const plan = planAt(this.open, dims);
    const { addresses, state, total_bytes, pages } = layoutMemory([plan]);
    const more = pages - memory.buffer.byteLength / PAGE_BYTES;
    try {
      if (more > 0) memory.grow(more);
    } catch {
      throw new EngineError(`The browser gives no ${Math.ceil(total_bytes / 2 ** 20)} MiB of memory for this size.`, "Use smaller inputs.");
    }
    this.memoryBytes = memory.buffer.byteLength;
    const made = { plan, memory, state, addresses: addresses[0], loops: LOOPS, choices: this.#choices, calls: null };
    for (const oldest of this.#made.keys()) if (this.#made.size >= MOST) this.#made.delete(oldest);
    this.#made.set(key, made);
    return made;
  }

  /** See {@link warmInputs}. @param {Partial<Dims>} given */
  warmInputs(given) {
    return warmInputs(this.open, given);
  }

  /** See {@link aheadOf}. @param {Stepped} engine */
  ahead(engine) {
    return aheadOf(engine, this.open);
  }

  /**
   * Bytes of linear memory that a size takes.
   * @param {Dims} dims
   */
  memoryAt(dims) {
    return layoutMemory([planAt(this.open, dims)]).pages * PAGE_BYTES;
  }
}

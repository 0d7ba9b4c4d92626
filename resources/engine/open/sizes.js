/** The plans of an open model, by size. */
import { EngineError } from "../errors.js";
import { layoutMemory, PAGE_BYTES } from "../plan.js";
import { Choices } from "./choices.js";
import { LOOPS } from "./loop.js";
import { everyVariant, planAt } from "./plan.js";
import { OpenModel } from "./model.js";
import { dimsOf } from "./size.js";
import { placer } from "./storage.js";
import { aheadOf, warmInputs } from "./warm.js";

/** @import { Loaded, Plan, Tensor } from "../../types/engine.js" */
/** @import { Dims } from "./size.js" */
/** @import { Stepped } from "./warm.js" */

/** @extends {OpenModel<Loaded>} */
export class Sizes extends OpenModel {
  #choices = new Choices();
  #place = placer(this.open);
  /** Of linear memory: it keeps what the largest run took. */
  memoryBytes = 0;
  loops = LOOPS;

  /** A plan that calls every kernel. */
  get everyVariant() {
    return this.#placed(everyVariant(this.open));
  }

  /** @param {Plan} plan */
  #placed(plan) {
    plan.arena_bytes = this.#place(plan.buffers);
    return plan;
  }

  /** Forgets what was made, because kernels have changed. */
  clear() {
    this.made.clear();
  }

  /**
   * The plan for these inputs. The memory grows where a larger size comes, and stays.
   * @param {Tensor[]} inputs
   * @param {WebAssembly.Memory} memory
   * @returns {Loaded}
   */
  at(inputs, memory) {
    const dims = dimsOf(this.open, inputs);
    return this.kept(dims, () => this.#make(dims, memory));
  }

  /** @param {Dims} dims @param {WebAssembly.Memory} memory @returns {Loaded} */
  #make(dims, memory) {
    const plan = this.#placed(planAt(this.open, dims));
    const { addresses, state, total_bytes, pages } = layoutMemory([plan]);
    const more = pages - memory.buffer.byteLength / PAGE_BYTES;
    try {
      if (more > 0) memory.grow(more);
    } catch {
      throw new EngineError(`The browser gives no ${Math.ceil(total_bytes / 2 ** 20)} MiB of memory for this size.`, "Use smaller inputs.");
    }
    this.memoryBytes = memory.buffer.byteLength;
    return { plan, memory, state, addresses: addresses[0], loops: LOOPS, choices: this.#choices, calls: null };
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
    return layoutMemory([this.#placed(planAt(this.open, dims))]).pages * PAGE_BYTES;
  }
}

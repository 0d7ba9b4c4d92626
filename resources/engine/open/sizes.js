/** The plans of an open model that were made, by size: the last ones are kept. */
import { EngineError } from "../errors.js";
import { layoutMemory, PAGE_BYTES } from "../plan.js";
import { everyVariant, planAt } from "./plan.js";
import { dimsOf, textOf } from "./size.js";
import { warmInputs } from "./warm.js";

/** @import { Loaded, OpenPlan, OpenPort, Tensor, TensorSpec } from "../../types/engine.js" */
/** @import { Dims } from "./size.js" */

const MOST = 128;

/** A dimension that is open is a text, as in ONNX Runtime. @param {OpenPort} port @returns {TensorSpec} */
const specOf = ({ name, dtype, shape }) => ({ name, dtype, shape: /** @type {any} */ (shape.map(textOf)) });

export class Sizes {
  /** @type {Map<string, Loaded>} the one used last comes last */ #made = new Map();
  #open;
  /** Of linear memory: it keeps what the largest run took. */
  memoryBytes = 0;

  /** @param {OpenPlan} open */
  constructor(open) {
    this.#open = open;
    this.dims = open.dims;
    this.inputs = open.inputs.map(specOf);
    this.outputs = open.outputs.map(specOf);
  }

  /** A plan that calls every kernel. */
  get everyVariant() {
    return everyVariant(this.#open);
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
    const dims = dimsOf(this.#open, inputs);
    const key = Object.values(dims).join();
    const known = this.#made.get(key);
    if (known) {
      this.#made.delete(key);
      this.#made.set(key, known);
      return known;
    }
    const plan = planAt(this.#open, dims);
    const { addresses, state, total_bytes, pages } = layoutMemory([plan]);
    const more = pages - memory.buffer.byteLength / PAGE_BYTES;
    try {
      if (more > 0) memory.grow(more);
    } catch {
      throw new EngineError(`The browser gives no ${Math.ceil(total_bytes / 2 ** 20)} MiB of memory for this size.`, "Use smaller inputs.");
    }
    this.memoryBytes = memory.buffer.byteLength;
    const made = { plan, memory, state, addresses: addresses[0], calls: null };
    for (const oldest of this.#made.keys()) if (this.#made.size >= MOST) this.#made.delete(oldest);
    this.#made.set(key, made);
    return made;
  }

  /** See {@link warmInputs}. @param {Partial<Dims>} given */
  warmInputs(given) {
    return warmInputs(this.#open, given);
  }

  /**
   * Bytes of linear memory that a size takes.
   * @param {Dims} dims
   */
  memoryAt(dims) {
    return layoutMemory([planAt(this.#open, dims)]).pages * PAGE_BYTES;
  }
}

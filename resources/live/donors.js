/** Functions and donors on a memory of their own: told apart, proven, and rated there. */
import { Cases } from "./prove.js";
import { Rate } from "./rates.js";

/** @import { Kernel } from "./images.js" */
/** @import { Proof } from "./prove.js" */
/** @import { Block } from "./recorder.js" */
/** @typedef {Record<string, Kernel>} Kernels by the names of a module's exports */

const CASES = 40;
const KINDS = ["zero", "add"];

export class Donors {
  #memory;
  #cases;
  /** @type {{kind: string, expected: Float32Array[]}[]} what the originals are, and leave in memory */
  #originals;
  /** @type {Map<string, Rate>} */
  #rates = new Map();

  /**
   * @param {Uint8Array<ArrayBuffer>} originals a module of functions that may be kernels, with a memory of its own
   * @param {string[]} functions their names there
   * @param {Uint8Array<ArrayBuffer>} reference a bit-exact donor, by which they are told apart
   * @param {number} [cases] of every proof
   */
  constructor(originals, functions, reference, cases = CASES) {
    const exports = /** @type {any} */ (new WebAssembly.Instance(new WebAssembly.Module(originals)).exports);
    this.#memory = /** @type {WebAssembly.Memory} */ (exports.memory);
    // Pages that nobody wrote are all the same page of zeros to the processor, whose caches then
    // judge wide tiles wrongly: up to a third slower than in a model.
    new Float32Array(this.#memory.buffer).fill(0.5);
    this.#cases = new Cases(this.#memory, cases);
    const known = this.#kernelsOf(new WebAssembly.Module(reference));
    this.#originals = functions.map((name) => this.#recognised(exports[name], known));
    const own = Object.fromEntries(functions.map((name, i) => [this.kinds[i], exports[name]]));
    this.#rates.set("original", new Rate(own, this.#memory.buffer.byteLength));
  }

  /** What the functions are, in their order; empty for one that is none of the kernels. */
  get kinds() {
    return this.#originals.map(({ kind }) => kind);
  }

  /** @param {Kernel} unknown @param {Kernels} known */
  #recognised(unknown, known) {
    try {
      const expected = this.#cases.expected(unknown);
      const is = (/** @type {string} */ kind) => this.#cases.prove(known[kind], expected, kind === "add").identical === this.#cases.count;
      return { kind: KINDS.find(is) ?? "", expected };
    } catch {
      return { kind: "", expected: [] }; // it took these calls for something else
    }
  }

  /** @param {WebAssembly.Module} module @returns {Kernels} */
  #kernelsOf(module) {
    return /** @type {any} */ (new WebAssembly.Instance(module, { env: { memory: this.#memory } }).exports);
  }

  /**
   * @param {string} name
   * @param {Uint8Array<ArrayBuffer>} bytes
   * @returns {Promise<Proof>} of all kernels of the module together
   */
  async add(name, bytes) {
    const kernels = this.#kernelsOf(await WebAssembly.compile(bytes));
    const recognised = this.#originals.filter(({ kind }) => kind);
    const proofs = recognised.map(({ kind, expected }) => this.#cases.prove(kernels[kind], expected, kind === "add"));
    this.#rates.set(name, new Rate(kernels, this.#memory.buffer.byteLength));
    return {
      cases: proofs.reduce((sum, { cases }) => sum + cases, 0),
      identical: proofs.reduce((sum, { identical }) => sum + identical, 0),
      worst: Math.max(...proofs.map(({ worst }) => worst)),
      error: proofs.map(({ error }) => error).join(""),
    };
  }

  /**
   * @param {string} name of a donor, or `original`
   * @param {Block[]} blocks
   * @param {number} sampleMs
   */
  #look(name, blocks, sampleMs) {
    const rate = this.#rates.get(name);
    if (!rate) throw new Error(`There is no donor ${name}.`);
    return rate.look(blocks, sampleMs, () => performance.now());
  }

  /** Ms of the products now. @param {string} name @param {Block[]} blocks @param {number} sampleMs */
  sample(name, blocks, sampleMs) {
    return this.#look(name, blocks, sampleMs).ms;
  }

  /** Ms of the products in the best moments until now. @param {string} name @param {Block[]} blocks @param {number} sampleMs */
  rate(name, blocks, sampleMs) {
    return this.#look(name, blocks, sampleMs).best;
  }
}

/** Donors on a memory of their own: proven against the originals there, warmed up, and rated. */
import { Cases } from "./prove.js";
import { rate, RATE_PAGES } from "./rates.js";

/** @import { Kernel } from "./images.js" */
/** @import { Proof } from "./prove.js" */
/** @import { Block } from "./recorder.js" */
/** @typedef {Record<string, Kernel>} Kernels by the names of a module's exports */

const CASES = 12;

/** @param {Kernels} kernels @param {string[]} names */
const only = (kernels, names) => names.map((name) => kernels[name]);

export class Donors {
  #memory;
  #names;
  #cases;
  /** @type {Float32Array[][]} what the originals leave, by kernel */
  #expected = [];
  /** @type {Map<string, Kernels>} */
  #kernels = new Map();

  /**
   * @param {Uint8Array<ArrayBuffer>} originals a module of the original functions, by the same names
   * @param {string[]} names
   * @param {boolean} shared whether the runtime's memory is
   */
  constructor(originals, names, shared) {
    this.#memory = new WebAssembly.Memory({ initial: RATE_PAGES, ...(shared ? { maximum: 65536, shared } : {}) });
    this.#names = names;
    this.#cases = new Cases(this.#memory, CASES);
    const kernels = this.#kernelsOf(new WebAssembly.Module(originals));
    this.#expected = only(kernels, names).map((kernel) => this.#cases.expected(kernel));
    this.#kernels.set("original", kernels);
  }

  /** @param {WebAssembly.Module} module @returns {Kernels} */
  #kernelsOf(module) {
    return /** @type {any} */ (new WebAssembly.Instance(module, { e: { m: this.#memory } }).exports);
  }

  /**
   * @param {string} name
   * @param {Uint8Array<ArrayBuffer>} bytes
   * @returns {Promise<Proof>} of all kernels of the module together
   */
  async add(name, bytes) {
    const kernels = this.#kernelsOf(await WebAssembly.compile(bytes));
    const proofs = only(kernels, this.#names).map((kernel, i) => this.#cases.prove(kernel, this.#expected[i], this.#names[i] === "add"));
    this.#kernels.set(name, kernels);
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
   * @returns {number} ms of the model's products
   */
  rate(name, blocks, sampleMs) {
    const kernels = this.#kernels.get(name);
    if (!kernels) throw new Error(`There is no donor ${name}.`);
    return rate(kernels, blocks, sampleMs, () => performance.now());
  }
}

/** What a model of any size tells of itself, and what was made for its last sizes. */
import { textOf } from "./size.js";

/** @import { OpenPlan, OpenPort, TensorSpec } from "../../types/engine.js" */
/** @import { Dims } from "./size.js" */

/** A dimension that is open is a text, as in ONNX Runtime. @param {OpenPort} port @returns {TensorSpec} */
const specOf = ({ name, dtype, shape }) => ({ name, dtype, shape: /** @type {any} */ (shape.map(textOf)) });

/** Sizes that are kept. */
const MOST = 128;

/** @template Made what is made for a size */
export class OpenModel {
  /** @type {Map<string, Made>} the one used last comes last */ made = new Map();

  /** @param {OpenPlan} open */
  constructor(open) {
    this.open = open;
    this.dims = open.dims;
    this.inputs = open.inputs.map(specOf);
    this.outputs = open.outputs.map(specOf);
  }

  /** @param {Dims} dims @param {() => Made} make for a size that is not kept */
  kept(dims, make) {
    const { made } = this;
    const key = this.dims.map(({ name }) => dims[name]).join();
    const one = made.get(key) ?? make();
    made.delete(key);
    const [oldest] = made.keys();
    if (made.size >= MOST) made.delete(oldest);
    made.set(key, one);
    return one;
  }
}

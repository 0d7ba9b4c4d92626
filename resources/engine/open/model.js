/** What a model of any size tells of itself. */
import { textOf } from "./size.js";

/** @import { OpenPlan, OpenPort, TensorSpec } from "../../types/engine.js" */

/** A dimension that is open is a text, as in ONNX Runtime. @param {OpenPort} port @returns {TensorSpec} */
const specOf = ({ name, dtype, shape }) => ({ name, dtype, shape: /** @type {any} */ (shape.map(textOf)) });

export class OpenModel {
  /** @param {OpenPlan} open */
  constructor(open) {
    this.open = open;
    this.dims = open.dims;
    this.inputs = open.inputs.map(specOf);
    this.outputs = open.outputs.map(specOf);
  }
}

/** Are the inputs those that a plan wants? */
import { EngineError } from "./errors.js";
import { specBytes } from "./plan.js";

/** @typedef {import("../types/engine.js").Tensor} Tensor */

/**
 * @param {import("../types/engine.js").Plan} plan
 * @param {Tensor[]} inputs in any order
 * @returns {{buffer: number, data: Uint8Array}[]} in the plan's
 */
export function feedsOf(plan, inputs) {
  const names = plan.inputs.map((p) => p.spec.name).join(", ");
  const extra = inputs.find((t) => !plan.inputs.some((p) => p.spec.name === t.name));
  if (extra) throw new EngineError(`The model has no input "${extra.name}".`, `Its inputs are ${names}.`);
  return plan.inputs.map(({ spec, buffer }) => {
    const tensor = inputs.find((t) => t.name === spec.name);
    if (!tensor) throw new EngineError(`The input "${spec.name}" is missing.`, `The model's inputs are ${names}.`);
    if (tensor.dtype !== spec.dtype)
      throw new EngineError(`The input "${spec.name}" has dtype ${tensor.dtype}, the model wants ${spec.dtype}.`);
    if (tensor.shape.length !== spec.shape.length || tensor.shape.some((d, i) => d !== spec.shape[i]))
      throw new EngineError(
        `The input "${spec.name}" has shape [${tensor.shape}], the model wants [${spec.shape}].`,
        "Shapes are fixed when the model is compiled.",
      );
    if (tensor.data.length !== specBytes(spec))
      throw new EngineError(`The input "${spec.name}" has ${tensor.data.length} bytes, its shape needs ${specBytes(spec)}.`);
    return { buffer, data: tensor.data };
  });
}

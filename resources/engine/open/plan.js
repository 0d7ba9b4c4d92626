/** Plans of a model whose sizes are open: one for each size that comes, made when it comes. */
import { EngineError } from "../errors.js";
import { aligned } from "../plan.js";
import { checkDims, scalarOf, valueOf } from "./size.js";

/** @import { OpenPlan, OpenPort, Plan, PlanBuffer, PlanPort, PlanStep } from "../../types/engine.js" */
/** @import { Dims } from "./size.js" */

/** What a plan for one size is. */
const SIZED_VERSION = 4;

/**
 * The plan for these sizes, without places in the arena: no kernel is compiled for it.
 * @param {OpenPlan} open
 * @param {Dims} dims
 * @returns {Plan}
 */
export function planAt(open, dims) {
  checkDims(open, dims);
  const chosen = new Map(Object.keys(open.kernels).map((name) => [name, variantAt(open, name, dims)]));
  /** @type {PlanStep[]} */
  const steps = withTrips(open, dims).map((step) => (step.op === "call" ? { ...step, .../** @type {any} */ (chosen.get(step.workload)) } : step));
  return sized(open, dims, steps);
}

/**
 * The plan of a GPU for these sizes: steps call kernels by the names that they have in the open plan,
 * and no two tensors share bytes, because the GPU's engine places them itself.
 * @param {OpenPlan} open
 * @param {Dims} dims
 * @returns {Plan}
 */
export function gpuPlanAt(open, dims) {
  checkDims(open, dims);
  const plan = sized(open, dims, open.gpu_steps ?? open.steps);
  for (const buffer of plan.buffers)
    if (buffer.region === "arena") {
      buffer.offset = plan.arena_bytes;
      plan.arena_bytes += aligned(buffer.nbytes);
    }
  return plan;
}

/**
 * A plan that calls every variant of each kernel: what kernels are registered for. It never runs.
 * @param {OpenPlan} open
 * @returns {Plan}
 */
export function everyVariant(open) {
  const steps = withTrips(open, open.example).flatMap((step) => {
    if (step.op !== "call") return [step];
    const { variants } = open.kernels[step.workload];
    return variants.map(({ workload, scalars }) => ({ ...step, workload, scalars: scalars.map(() => 0), extent: 1 }));
  });
  return sized(open, open.example, steps);
}

/** Without places in the arena. @param {OpenPlan} open @param {Dims} dims @param {PlanStep[]} steps @returns {Plan} */
function sized(open, dims, steps) {
  const port = (/** @type {OpenPort} */ { name, dtype, shape, most, ...rest }) => ({
    ...rest,
    most: most && valueOf(most, dims),
    spec: { name, dtype, shape: shape.map((n) => valueOf(n, dims)) },
  });
  const buffers = open.buffers.map((b) => (b.region === "weight" && typeof b.nbytes === "number" ? /** @type {PlanBuffer} */ (b) : { ...b, nbytes: valueOf(b.nbytes, dims) }));
  /** @type {PlanPort[]} */
  const inputs = open.inputs.map(port);
  const outputs = open.outputs.map(port);
  const { name, weights_bytes } = open;
  return { version: SIZED_VERSION, name, inputs, outputs, buffers, steps, weights_bytes, arena_bytes: 0 };
}

/** The steps, each loop with its count. @param {OpenPlan} open @param {Dims} dims @returns {PlanStep[]} */
function withTrips({ steps, trips = [] }, dims) {
  let next = 0;
  return steps.map((step) => (step.loop ? { ...step, loop: { ...step.loop, trips: valueOf(trips[next++], dims) } } : step));
}

/** @param {OpenPlan} open @param {string} name @param {Dims} dims */
function variantAt({ kernels }, name, dims) {
  const kernel = kernels[name];
  if (!kernel) throw new EngineError(`The plan has no kernel ${name}.`, "Export the model again.");
  const place = kernel.selectors.reduce((sum, [size, by]) => sum * by + (valueOf(size, dims) % by), 0);
  const { workload, scalars, extent } = kernel.variants[place];
  return { workload, scalars: scalars.map((s) => scalarOf(s, dims)), extent: valueOf(extent, dims) };
}

/**
 * The execution plan as JSON (nnjit_studio/model/plan.py): its checks, what is looked up in it, and
 * the layout of linear memory and weights that follows from it (docs/protocol.md).
 */
import { checkAppend } from "./append.js";
import { EngineError } from "./errors.js";
import { layoutBytes, WORD_BYTES } from "./repack.js";
import { ARRAYS } from "./arrays.js";

export { ARRAYS };

/** Of the format of plans, those that this engine reads. */
const PLAN_VERSIONS = [1, 2, 3, 4, 7];
/** A plan with formulas in place of numbers (engine/open). */
export const OPEN_VERSION = 6;
const OPERATIONS = ["call", "append", "return"];
const EDGES = ["loop", "end"];
export const PAGE_BYTES = 65536;

/** The name of the plan that runs when none is named. */
export const MAIN = "main";
/** The name of a decoder's plan that takes the first tokens of a prompt. */
export const PREFILL = "prefill";
/** The name of a decoder's plan that takes tokens behind those. */
export const EXTEND = "extend";

/** `[0, WEIGHTS_BASE)` is never used, so that a null pointer hits nothing. */
export const WEIGHTS_BASE = 1024;
export const ALIGNMENT_BYTES = 64;

/** @import { Layout, Loops, Plan, PlanBuffer, Registered, Tensor, TensorSpec, Weight } from "../types/engine.js" */

/**
 * The plan as a GPU runs it.
 * @param {Plan} plan
 * @returns {Plan}
 */
export const onGpu = (plan) => ({ ...plan, steps: plan.gpu_steps ?? plan.steps });

/** @param {number} n */
export const aligned = (n) => Math.ceil(n / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;

/**
 * Bytes of one element of a packable weight: a word, or a half of an f16 weight.
 * @param {PlanBuffer} buffer
 */
export function unitOf({ unit_bytes = WORD_BYTES }) {
  if (unit_bytes !== WORD_BYTES && unit_bytes !== 2) throw new EngineError(`The plan has weights of ${unit_bytes} bytes an element.`);
  return unit_bytes;
}

/** @param {TensorSpec} spec */
export function specBytes(spec) {
  const size = ARRAYS[spec.dtype]?.BYTES_PER_ELEMENT;
  if (!size) throw new EngineError(`Tensor ${spec.name} has the unknown dtype ${spec.dtype}.`);
  return spec.shape.reduce((n, d) => n * d, size);
}

/**
 * Refuses a plan that this engine cannot run in full.
 * @param {Plan} plan
 * @param {Loops | null} loops
 */
function checkPlan(plan, loops) {
  if (!PLAN_VERSIONS.includes(plan.version))
    throw new EngineError(
      `The plan has version ${plan.version}, this engine runs versions ${PLAN_VERSIONS.join(", ")}.`,
      "Use an engine and a plan of the same NNJIT Studio.",
    );
  const regions = /** @type {Record<string, number>} */ ({
    weight: plan.weights_bytes,
    arena: plan.arena_bytes,
    state: plan.state_bytes ?? 0,
    row: Infinity, // a loop's register: its place is that of another buffer
  });
  plan.buffers.forEach((b, i) => {
    const size = regions[b.region];
    if (size === undefined) throw new EngineError(`Buffer ${i} of the plan lies in the unknown region ${b.region}.`);
    if (b.offset < 0 || b.offset % ALIGNMENT_BYTES || b.nbytes < 0 || b.offset + b.nbytes > size)
      throw new EngineError(`Buffer ${i} of the plan is misaligned or outside its ${b.region} region.`);
    if (b.pack && layoutBytes(...b.pack, 0, unitOf(b)) > b.nbytes)
      throw new EngineError(`Buffer ${i} of the plan is too small for its ${b.pack.join(" x ")} weight.`);
  });
  for (const { spec, buffer, found } of [...plan.inputs, ...plan.outputs])
    if (!(specBytes(spec) <= plan.buffers[buffer]?.nbytes && (!found || (plan.buffers[found.count]?.nbytes >= 8 && found.axis in spec.shape))))
      throw new EngineError(`The buffer of ${spec.name} is missing or too small.`);
  for (const step of plan.steps) {
    if (!OPERATIONS.includes(step.op) && !(loops && EDGES.includes(step.op)))
      throw new EngineError(
        `The plan holds the instruction "${step.op}", which this engine does not know.`,
        "Use an engine of the Studio that wrote the plan.",
      );
    if (!step.args.every((a) => a in plan.buffers))
      throw new EngineError(`Step ${step.node || step.workload} of the plan names a buffer that does not exist.`);
    if (step.op === "append") checkAppend(step, plan);
    if (step.op === "loop") loops?.checkLoop(step.loop, plan, step.node);
  }
}

/**
 * Refuses plans that cannot run, or cannot lie in one memory: all have the same weights and state.
 * @param {Plan[]} plans at least one
 * @param {Loops | null} [loops] where they may have some
 */
export function checkPlans(plans, loops = null) {
  const [{ name, weights_bytes, state_bytes = 0 }] = plans;
  for (const plan of plans) {
    checkPlan(plan, loops);
    if (plan.weights_bytes !== weights_bytes || (plan.state_bytes ?? 0) !== state_bytes)
      throw new EngineError(`The plans of ${name} do not share their weights and state.`, "Export or import the model again.");
  }
}

/** The steps that run. @param {Plan} plan */
export function stepsOf({ steps }) {
  const end = steps.findIndex((s) => s.op === "return");
  return end < 0 ? steps : steps.slice(0, end);
}

/** @template T @param {Map<string, T>} plans @param {string} name @returns {T} */
export function named(plans, name) {
  const found = plans.get(name);
  if (found) return found;
  if (!plans.size) throw new EngineError("No model is loaded.", "Load a plan first.");
  throw new EngineError(`The model has no plan "${name}".`, `Its plans are ${[...plans.keys()].join(", ")}.`);
}

/** @param {Plan} plan @param {string} name */
export function outputOf({ outputs }, name) {
  const port = outputs.find((p) => p.spec.name === name);
  if (!port) throw new EngineError(`The model has no output "${name}".`);
  return port;
}

/** Different numbers of arguments that the plans give a workload, the smallest first. @param {Plan[]} plans @param {string} workload */
export function countsOf(plans, workload) {
  const calls = plans.flatMap(({ steps }) => steps.filter((s) => s.op === "call" && s.workload === workload));
  if (!calls.length) throw new EngineError(`The model has no workload ${workload}.`);
  return [...new Set(calls.map((s) => s.args.length + (s.scalars?.length ?? 0)))].sort((a, b) => a - b);
}

/** @param {Plan} plan that lacks a kernel @param {Map<string, unknown>} kernels by workload */
export function missing({ steps }, kernels) {
  const step = steps.find((s) => s.op === "call" && !kernels.has(s.workload));
  return new EngineError(`No kernel is registered for ${step?.workload ?? "the plan"}.`, "Register one for every workload.");
}

/**
 * @param {Plan} plan
 * @param {Tensor[]} inputs in any order
 * @returns {{buffer: number, data: Uint8Array}[]} in the plan's
 */
export function feedsOf(plan, inputs) {
  const names = plan.inputs.map((p) => p.spec.name).join(", ");
  const extra = inputs.find((t) => !plan.inputs.some((p) => p.spec.name === t.name));
  if (extra) throw new EngineError(`The model has no input "${extra.name}".`, `Its inputs are ${names}.`);
  return plan.inputs.map(({ spec, buffer, value, most }) => {
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
    if ((value ?? most) != null) checkElements(tensor, value, /** @type {number} */ (most));
    return { buffer, data: tensor.data };
  });
}

/**
 * @param {Tensor} tensor
 * @param {number | undefined} value that the plan was laid out for
 * @param {number} most of lengths of what another input has
 */
function checkElements({ name, dtype, data }, value, most) {
  for (const n of new ARRAYS[dtype](data.slice().buffer))
    if (n < (value ?? 0) || n > (value ?? most))
      throw new EngineError(`The input "${name}" is ${n}, the model was compiled for ${value ?? "0 to " + most}.`);
}

/** @param {Plan} plan @param {number} offset in the weights file @param {Uint8Array} bytes */
export function checkWeights({ weights_bytes }, offset, { length }) {
  if (!(offset >= 0) || offset + length > weights_bytes)
    throw new EngineError(`Weights at ${offset}..${offset + length} lie outside the ${weights_bytes} bytes of the plan.`);
}

/**
 * Panel width of every packable weight that a kernel reads.
 * @param {Plan[]} plans
 * @param {Map<string, Registered>} kernels by workload
 * @param {Map<number, Weight>} weights by offset
 * @returns {Map<Weight, number>} 0 is row-major
 */
export function wantedWidths(plans, kernels, weights) {
  /** @type {Map<Weight, number>} */
  const widths = new Map();
  for (const { steps, buffers } of plans)
    for (const { op, workload, args, node } of steps) {
      const header = kernels.get(workload)?.header;
      if (op !== "call" || !header) continue;
      const panels = new Map(header.panels);
      for (const arg of panels.keys())
        if (!(arg in args)) throw new EngineError(`The kernel of ${workload} has no argument ${arg} to pack.`);
      args.forEach((buffer, arg) => {
        const { pack, nbytes, offset } = buffers[buffer];
        const width = panels.get(arg) ?? 0;
        if (width && !pack) throw new EngineError(`The kernel of ${workload} wants panels in argument ${arg}, which is no packable weight.`);
        if (!pack) return;
        if (!(Number.isInteger(width) && width >= 0) || layoutBytes(...pack, width, unitOf(buffers[buffer])) > nbytes)
          throw new EngineError(`Panels of width ${width} do not fit into the weight of ${node || workload}.`);
        const weight = /** @type {Weight} */ (weights.get(offset));
        if ((widths.get(weight) ?? width) !== width)
          throw new EngineError(
            `Two kernels want the weight in buffer ${buffer} in panels of ${widths.get(weight)} and of ${width}.`,
            "Register kernels that agree on the width, or row-major ones.",
          );
        widths.set(weight, width);
      });
    }
  return widths;
}

/**
 * Weights, the arena that all plans use in turn, then their common state.
 * @param {Plan[]} plans with the same weights and state, at least one
 * @returns {Layout}
 */
export function layoutMemory(plans) {
  const [{ weights_bytes, state_bytes = 0 }] = plans;
  const arena = aligned(WEIGHTS_BASE + weights_bytes);
  const state = aligned(arena + Math.max(...plans.map((p) => p.arena_bytes)));
  const total_bytes = aligned(state + state_bytes);
  const pages = Math.ceil(total_bytes / PAGE_BYTES);
  if (pages > 65536)
    throw new EngineError(
      `The model needs ${Math.ceil(total_bytes / 2 ** 20)} MiB, but a page's memory ends at 4096 MiB.`,
      "Use a smaller model.",
    );
  const bases = /** @type {Record<string, number>} */ ({ weight: WEIGHTS_BASE, arena, state, row: 0 });
  const addresses = plans.map((p) => p.buffers.map((b) => bases[b.region] + b.offset));
  return { addresses, state, total_bytes, pages };
}

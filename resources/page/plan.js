/**
 * The execution plan as JSON (nnjit_studio/graph/plan.py), its checks, and the
 * layout of linear memory that follows from it (docs/protocol.md).
 */
import { EngineError } from "./errors.js";

export const ENGINE_VERSION = "0.1.0";
export const PLAN_VERSION = 1;
export const PAGE_BYTES = 65536;

/** `[0, WEIGHTS_BASE)` is never used, so that a null pointer hits nothing. */
export const WEIGHTS_BASE = 1024;
export const ALIGNMENT_BYTES = 64;

/** @type {Readonly<Record<string, number>>} */
export const DTYPE_BYTES = Object.freeze({ f32: 4, f16: 2, i64: 8, i32: 4, i8: 1, u8: 1, bool: 1 });

/** @typedef {{name: string, shape: number[], dtype: string}} TensorSpec */
/** @typedef {{spec: TensorSpec, buffer: number}} PlanPort */
/** @typedef {{region: string, offset: number, nbytes: number, pack: [number, number] | null}} PlanBuffer */
/** @typedef {{op: string, workload: string, args: number[], node: string}} PlanStep */
/**
 * @typedef {object} Plan
 * @property {number} version
 * @property {string} name
 * @property {PlanPort[]} inputs
 * @property {PlanPort[]} outputs
 * @property {PlanBuffer[]} buffers
 * @property {PlanStep[]} steps
 * @property {number} weights_bytes
 * @property {number} arena_bytes
 */
/**
 * Byte addresses in linear memory.
 * @typedef {object} Layout
 * @property {number[]} addresses of the plan's buffers
 * @property {number} scratch where a weight is repacked
 * @property {number} total_bytes
 * @property {number} pages
 */

/** @param {number} n */
export const aligned = (n) => Math.ceil(n / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;

/** @param {TensorSpec} spec */
export function specBytes(spec) {
  const size = DTYPE_BYTES[spec.dtype];
  if (size === undefined) throw new EngineError(`Tensor ${spec.name} has the unknown dtype ${spec.dtype}.`);
  return spec.shape.reduce((n, d) => n * d, size);
}

/**
 * Refuses a plan that this engine cannot run in full.
 * @param {Plan} plan
 */
export function checkPlan(plan) {
  if (plan.version !== PLAN_VERSION)
    throw new EngineError(
      `The plan has version ${plan.version}, this engine runs version ${PLAN_VERSION}.`,
      "Use an engine and a plan of the same NNJIT Studio.",
    );
  const regions = /** @type {Record<string, number>} */ ({ weight: plan.weights_bytes, arena: plan.arena_bytes });
  plan.buffers.forEach((b, i) => {
    const size = regions[b.region];
    if (size === undefined) throw new EngineError(`Buffer ${i} of the plan lies in the unknown region ${b.region}.`);
    if (b.offset < 0 || b.offset % ALIGNMENT_BYTES || b.nbytes < 0 || b.offset + b.nbytes > size)
      throw new EngineError(`Buffer ${i} of the plan is misaligned or outside its ${b.region} region.`);
    if (b.pack && b.pack[0] * b.pack[1] * 4 > b.nbytes)
      throw new EngineError(`Buffer ${i} of the plan is too small for its ${b.pack.join(" x ")} weight.`);
  });
  for (const { spec, buffer } of [...plan.inputs, ...plan.outputs])
    if (!(specBytes(spec) <= plan.buffers[buffer]?.nbytes))
      throw new EngineError(`The buffer of ${spec.name} is missing or too small.`);
  for (const step of plan.steps) {
    if (step.op !== "call" && step.op !== "return")
      throw new EngineError(
        `The plan holds the instruction "${step.op}", which this engine does not know.`,
        "Use an engine of the Studio that wrote the plan.",
      );
    if (!step.args.every((a) => a in plan.buffers))
      throw new EngineError(`Step ${step.node || step.workload} of the plan names a buffer that does not exist.`);
  }
}

/**
 * Weights, arena, then one scratch range as large as the largest packable weight.
 * @param {Plan} plan
 * @returns {Layout}
 */
export function layoutMemory(plan) {
  const arena = aligned(WEIGHTS_BASE + plan.weights_bytes);
  const scratch = aligned(arena + plan.arena_bytes);
  const largest = plan.buffers.reduce((n, b) => (b.pack ? Math.max(n, b.nbytes) : n), 0);
  const total_bytes = scratch + largest;
  const pages = Math.ceil(total_bytes / PAGE_BYTES);
  if (pages > 65536)
    throw new EngineError(
      `The model needs ${Math.ceil(total_bytes / 2 ** 20)} MiB, but a page's memory ends at 4096 MiB.`,
      "Use a smaller model.",
    );
  const addresses = plan.buffers.map((b) => (b.region === "weight" ? WEIGHTS_BASE : arena) + b.offset);
  return { addresses, scratch, total_bytes, pages };
}

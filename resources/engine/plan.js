/**
 * The execution plan as JSON (nnjit_studio/model/plan.py), its checks, and the
 * layout of linear memory that follows from it (docs/protocol.md).
 */
import { checkAppend } from "./append.js";
import { EngineError } from "./errors.js";
import { layoutBytes, WORD_BYTES } from "./repack.js";

export const ENGINE_VERSION = "0.1.0";
export const PLAN_VERSION = 3;
/** A plan without state, which the hub writes as version 1. */
const OLDEST_PLAN_VERSION = 1;
export const PAGE_BYTES = 65536;

/** `[0, WEIGHTS_BASE)` is never used, so that a null pointer hits nothing. */
export const WEIGHTS_BASE = 1024;
export const ALIGNMENT_BYTES = 64;

/** @type {Readonly<Record<string, number>>} */
export const DTYPE_BYTES = Object.freeze({ f32: 4, f16: 2, i64: 8, i32: 4, i8: 1, u8: 1, bool: 1 });

/** @typedef {import("../types/engine.js").Layout} Layout */
/** @typedef {import("../types/engine.js").Plan} Plan */
/** @typedef {import("../types/engine.js").PlanBuffer} PlanBuffer */
/** @typedef {import("../types/engine.js").TensorSpec} TensorSpec */

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
  const size = DTYPE_BYTES[spec.dtype];
  if (size === undefined) throw new EngineError(`Tensor ${spec.name} has the unknown dtype ${spec.dtype}.`);
  return spec.shape.reduce((n, d) => n * d, size);
}

/**
 * Refuses a plan that this engine cannot run in full.
 * @param {Plan} plan
 */
export function checkPlan(plan) {
  if (!(plan.version >= OLDEST_PLAN_VERSION && plan.version <= PLAN_VERSION))
    throw new EngineError(
      `The plan has version ${plan.version}, this engine runs versions ${OLDEST_PLAN_VERSION} to ${PLAN_VERSION}.`,
      "Use an engine and a plan of the same NNJIT Studio.",
    );
  const regions = /** @type {Record<string, number>} */ ({
    weight: plan.weights_bytes,
    arena: plan.arena_bytes,
    state: plan.state_bytes ?? 0,
  });
  plan.buffers.forEach((b, i) => {
    const size = regions[b.region];
    if (size === undefined) throw new EngineError(`Buffer ${i} of the plan lies in the unknown region ${b.region}.`);
    if (b.offset < 0 || b.offset % ALIGNMENT_BYTES || b.nbytes < 0 || b.offset + b.nbytes > size)
      throw new EngineError(`Buffer ${i} of the plan is misaligned or outside its ${b.region} region.`);
    if (b.pack && layoutBytes(...b.pack, 0, unitOf(b)) > b.nbytes)
      throw new EngineError(`Buffer ${i} of the plan is too small for its ${b.pack.join(" x ")} weight.`);
  });
  for (const { spec, buffer } of [...plan.inputs, ...plan.outputs])
    if (!(specBytes(spec) <= plan.buffers[buffer]?.nbytes))
      throw new EngineError(`The buffer of ${spec.name} is missing or too small.`);
  for (const step of plan.steps) {
    if (step.op !== "call" && step.op !== "return" && step.op !== "append")
      throw new EngineError(
        `The plan holds the instruction "${step.op}", which this engine does not know.`,
        "Use an engine of the Studio that wrote the plan.",
      );
    if (!step.args.every((a) => a in plan.buffers))
      throw new EngineError(`Step ${step.node || step.workload} of the plan names a buffer that does not exist.`);
    if (step.op === "append") checkAppend(step, plan);
  }
}

/**
 * Refuses plans that cannot lie in one memory: they must have the same weights and state.
 * @param {Plan} plan
 * @param {Plan} other
 */
export function checkTogether(plan, other) {
  if (other.weights_bytes !== plan.weights_bytes || (other.state_bytes ?? 0) !== (plan.state_bytes ?? 0))
    throw new EngineError(`The plans of ${plan.name} do not share their weights and state.`, "Export or import the model again.");
}

/**
 * Weights, the arena that all plans use in turn, then their common state.
 * @param {Plan} plan
 * @param {Plan[]} others with the same weights and state
 * @returns {Layout}
 */
export function layoutMemory(plan, others = []) {
  const plans = [plan, ...others];
  const arena = aligned(WEIGHTS_BASE + plan.weights_bytes);
  const state = aligned(arena + Math.max(...plans.map((p) => p.arena_bytes)));
  const total_bytes = aligned(state + (plan.state_bytes ?? 0));
  const pages = Math.ceil(total_bytes / PAGE_BYTES);
  if (pages > 65536)
    throw new EngineError(
      `The model needs ${Math.ceil(total_bytes / 2 ** 20)} MiB, but a page's memory ends at 4096 MiB.`,
      "Use a smaller model.",
    );
  const bases = /** @type {Record<string, number>} */ ({ weight: WEIGHTS_BASE, arena, state });
  const addresses = plans.map((p) => p.buffers.map((b) => bases[b.region] + b.offset));
  return { addresses, state, total_bytes, pages };
}

/** Where a plan's values lie on a GPU: buffers that values use one after another. */
import { EngineError } from "../errors.js";
import { stepsOf } from "../plan.js";

/** @import { Plan, PlanStep } from "../../types/engine.js" */
/** @import { Roles } from "./document.js" */
/** Steps from `first` to `last`, both included: what a step reads and writes is alive together. */
/** @typedef {{plan: number, buffer: number, nbytes: number, first: number, last: number}} Life */
/** @typedef {{slots: number[], places: Map<number, number>[]}} Placement `slots` are sizes, `places` of each plan the slot of an arena buffer */

/** Of an `append`: rows and slot are read, the cache is written. @type {Roles} */
const APPEND = { read: new Set([0, 2]), written: new Set([1]) };

/**
 * @param {PlanStep} step
 * @param {(workload: string) => Roles} roles of a workload's kernel
 */
export const rolesOfStep = (step, roles) => (step.op === "append" ? APPEND : roles(step.workload));

/**
 * When each arena buffer of a plan is alive. The plan is run in thought: what a step reads must
 * have been written under the same name, since names that share bytes get buffers of their own.
 *
 * @param {Plan} plan
 * @param {number} index of the plan
 * @param {(workload: string) => Roles} roles of a workload's kernel
 * @returns {Life[]}
 */
export function livesOf(plan, index, roles) {
  const steps = stepsOf(plan);
  /** @type {Map<number, Life>} */
  const lives = new Map();
  /** @type {Set<number>} buffers whose contents are whole */
  const whole = new Set();
  const inArena = (/** @type {number} */ b) => plan.buffers[b].region === "arena";
  const write = (/** @type {number} */ b, /** @type {number} */ at) => {
    const { offset, nbytes } = plan.buffers[b];
    for (const other of whole) {
      const { offset: o, nbytes: n } = plan.buffers[other];
      if (o < offset + nbytes && offset < o + n) whole.delete(other);
    }
    whole.add(b);
    const life = lives.get(b);
    if (life) life.last = Math.max(life.last, at);
    else lives.set(b, { plan: index, buffer: b, nbytes, first: at, last: at });
  };
  const read = (/** @type {number} */ b, /** @type {number} */ at, /** @type {string} */ who) => {
    const life = lives.get(b);
    if (!life || !whole.has(b))
      throw new EngineError(`${who} of the plan ${plan.name} reads buffer ${b} by another name than it was written by.`, "Run this model on the Wasm backend.");
    life.last = at;
  };
  for (const { buffer } of plan.inputs) if (inArena(buffer)) write(buffer, -1);
  steps.forEach((step, at) => {
    const { read: reads, written } = rolesOfStep(step, roles);
    step.args.forEach((b, i) => {
      if (reads.has(i) && inArena(b)) read(b, at, `Step ${step.node || step.workload}`);
    });
    step.args.forEach((b, i) => {
      if (!written.has(i)) return;
      if (plan.buffers[b].region === "weight")
        throw new EngineError(`Step ${step.node || step.workload} of the plan ${plan.name} writes into its weights.`);
      if (step.args.some((other, j) => other === b && reads.has(j)))
        throw new EngineError(`Step ${step.node || step.workload} of the plan ${plan.name} writes what it reads.`, "Run this model on the Wasm backend.");
      if (inArena(b)) write(b, at);
    });
  });
  for (const { buffer, spec } of plan.outputs) if (inArena(buffer)) read(buffer, steps.length, `The output ${spec.name}`);
  return [...lives.values()];
}

/**
 * Largest first, each into the first buffer that is free all its life (Pisarchyk and Lee,
 * "Efficient Memory Management for Deep Neural Net Inference", 2020: greedy by size for
 * shared objects). Plans run one after another and use the same buffers.
 *
 * @param {Life[]} lives of all plans
 * @param {number} plans
 * @returns {Placement}
 */
export function place(lives, plans) {
  /** @type {{nbytes: number, taken: Life[]}[]} */
  const slots = [];
  const places = Array.from({ length: plans }, () => /** @type {Map<number, number>} */ (new Map()));
  for (const life of [...lives].sort((a, b) => b.nbytes - a.nbytes || a.plan - b.plan || a.buffer - b.buffer)) {
    const clashes = (/** @type {Life} */ t) => t.plan === life.plan && t.first <= life.last && life.first <= t.last;
    let at = slots.findIndex(({ taken }) => !taken.some(clashes));
    if (at < 0) at = slots.push({ nbytes: life.nbytes, taken: [] }) - 1;
    slots[at].taken.push(life);
    places[life.plan].set(life.buffer, at);
  }
  return { slots: slots.map((s) => s.nbytes), places };
}

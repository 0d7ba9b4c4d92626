/** What follows from a set of kernels: the buffers that runs use, and each plan's calls on them. */
import { EngineError } from "../errors.js";
import { stepsOf } from "../plan.js";
import { appendRuns, kernelOfRun } from "./append.js";
import { whole, words } from "./commands.js";
import { callOf } from "./kernels.js";
import { livesOf, place, rolesOfStep } from "./memory.js";

/** @import { Plan, PlanStep } from "../../types/engine.js" */
/** @import { Binding, Dispatch, GpuBuf, GpuDevice } from "../../types/gpu.js" */
/** @import { GpuKernel } from "./kernels.js" */
/** @import { Store } from "./store.js" */
/** What was loaded; `blockBytes` of the block of sizes, where they are open. @typedef {{plans: Plan[], weights: Store, state: Store, blockBytes?: number}} Model */
/** One instruction of a plan; `workload` is empty for an append, `commands` for one that another does. @typedef {{workload: string, commands: Dispatch[]}} Call */
/**
 * `calls` of a plan are null while it lacks a kernel.
 * @typedef {{roles: string, arena: GpuBuf[], places: Map<number, number>[], scratch: GpuBuf[], block: GpuBuf | null, calls: (Call[] | null)[]}} Bound
 */

/**
 * Buffers and calls for these kernels; the buffers of now stay where the kernels' roles are the same
 * and they are large enough.
 * @param {GpuDevice} device
 * @param {Model} model
 * @param {Map<string, GpuKernel>} kernels by workload
 * @param {Bound | null} now
 * @returns {Promise<Bound | null>} null while every plan lacks a kernel
 */
export async function bind(device, model, kernels, now) {
  const { plans, blockBytes = 0 } = model;
  const ready = plans.map((plan) => stepsOf(plan).every((s) => s.op !== "call" || kernels.has(s.workload)));
  if (!ready.includes(true)) return null;
  const rolesOf = (/** @type {string} */ workload) => /** @type {GpuKernel} */ (kernels.get(workload)).roles;
  const roles = JSON.stringify([ready, [...kernels].map(([workload, k]) => [workload, [...k.roles.read].sort(), [...k.roles.written].sort()]).sort()]);
  const old = now?.roles === roles && (!blockBytes || holds(now, plans)) ? now : null;
  const lives = old ? [] : plans.flatMap((plan, i) => (ready[i] ? livesOf(plan, i, rolesOf) : []));
  const { slots, places } = old ? { slots: [], places: old.places } : place(lives, plans.length);
  /** @type {Bound} */
  const bound = { roles, arena: old ? [...old.arena] : [], places, scratch: [], block: null, calls: [] };
  const kept = blockBytes && !old ? (now?.arena ?? []) : [];
  try {
    for (const [i, nbytes] of slots.entries()) bound.arena.push(kept[i]?.nbytes >= nbytes ? kept[i] : device.createBuffer(nbytes, `arena ${i}`));
    bound.arena.push(...kept.slice(slots.length));
    if (blockBytes) bound.block = now?.block && now.block.nbytes >= blockBytes ? now.block : device.createBuffer(blockBytes, "sizes", true);
    addScratch(device, [...kernels.values()], now, bound);
    for (const index of plans.keys()) bound.calls.push(ready[index] ? await callsOf(device, model, index, kernels, bound) : null);
  } catch (e) {
    free(device, bound, now);
    throw e;
  }
  return bound;
}

/**
 * The same buffers and bind groups for other sizes of the same kernels.
 * @param {Bound} now
 * @param {{plan: Plan, kernels: Map<string, GpuKernel>}} sized kernels by workload
 * @returns {Bound | null} null where a buffer is too small
 */
export function resized(now, { plan, kernels }) {
  const fits = holds(now, [plan]) && [...kernels.values()].every(({ document }) => document.scratch.every((n, i) => n <= now.scratch[i].nbytes));
  return fits ? { ...now, calls: resizedCalls(now.calls, kernels) } : null;
}

/** Whether all buffers are as large as these plans want them. @param {Bound} now @param {Plan[]} plans */
const holds = ({ arena, places }, plans) => plans.every(({ buffers }, i) => [...places[i]].every(([b, at]) => buffers[b].nbytes <= arena[at].nbytes));

/**
 * The same calls on the same buffers, with the workgroups of other sizes.
 * @param {(Call[] | null)[]} calls of each plan
 * @param {Map<string, GpuKernel>} kernels by workload
 */
const resizedCalls = (calls, kernels) =>
  calls.map((each) => each && each.map(({ workload, commands }) => {
    const { dispatches } = /** @type {GpuKernel} */ (kernels.get(workload)).document;
    return { workload, commands: commands.map((command, i) => ({ ...command, workgroups: dispatches[i].workgroups })) };
  }));

/**
 * Scratch is for one call at a time, so all kernels use the same; it grows and stays.
 * @param {GpuDevice} device
 * @param {GpuKernel[]} kernels
 * @param {Bound | null} now
 * @param {Bound} next
 */
function addScratch(device, kernels, now, { scratch }) {
  const wanted = kernels.map((k) => k.document.scratch);
  for (let i = 0; i < Math.max(0, ...wanted.map((s) => s.length)); i++) {
    const nbytes = Math.max(...wanted.map((s) => s[i] ?? 0));
    const old = now?.scratch[i];
    scratch.push(old && old.nbytes >= nbytes ? old : device.createBuffer(nbytes, `scratch ${i}`));
  }
}

/**
 * @param {GpuDevice} device
 * @param {Model} model
 * @param {number} index of the plan
 * @param {Map<string, GpuKernel>} kernels
 * @param {Bound} bound
 */
async function callsOf(device, model, index, kernels, bound) {
  const kernelOf = (/** @type {string} */ workload) => /** @type {GpuKernel} */ (kernels.get(workload));
  const scratch = bound.scratch.map(whole);
  /** @type {Call[]} */
  const calls = [];
  const steps = stepsOf(model.plans[index]);
  const bindingsOf = (/** @type {PlanStep} */ step) => {
    const { read, written } = rolesOfStep(step, (name) => kernelOf(name).roles);
    return step.args.map((b, i) => (read.has(i) || written.has(i) ? where(model, index, b, bound) : null));
  };
  const runs = new Map(appendRuns(steps).map((run) => [run[0], run]));
  for (const step of steps) {
    if (step.append) {
      const run = runs.get(step);
      calls.push({ workload: "", commands: run ? [await appending(device, run, bindingsOf)] : [] });
    } else calls.push({ workload: step.workload, commands: callOf(kernelOf(step.workload), bindingsOf(step), scratch, bound.block) });
  }
  return calls;
}

/**
 * @param {GpuDevice} device
 * @param {PlanStep[]} run
 * @param {(step: PlanStep) => (Binding | null)[]} bindingsOf
 * @returns {Promise<Dispatch>}
 */
async function appending(device, run, bindingsOf) {
  const { workgroups, ...spec } = kernelOfRun(run);
  const each = run.map(bindingsOf);
  const bindings = /** @type {Binding[]} */ ([...each.flatMap((b) => b.slice(0, 2)), ...each[0].slice(2)]);
  return { op: "dispatch", pipeline: await device.pipeline(spec), bindings, workgroups };
}

/**
 * @param {GpuDevice} device
 * @param {Bound} bound
 * @param {Bound | null} kept whose buffers stay
 */
export function free(device, bound, kept) {
  const stays = new Set(kept ? buffersOf(kept) : []);
  for (const buffer of buffersOf(bound)) if (!stays.has(buffer)) device.destroyBuffer(buffer);
}

/** @param {Bound} bound */
export const buffersOf = ({ arena, scratch, block }) => [...arena, ...scratch, ...(block ? [block] : [])];

/**
 * Where a buffer of a plan lies.
 * @param {Model} model
 * @param {number} index of the plan
 * @param {number} buffer
 * @param {Bound | null} bound
 * @returns {Binding}
 */
export function where({ plans, weights, state }, index, buffer, bound) {
  const planned = plans[index].buffers[buffer];
  if (planned.region !== "arena") return whole((planned.region === "state" ? state : weights).find(planned));
  const at = bound?.places[index].get(buffer);
  if (!bound || at === undefined) throw new EngineError(`Buffer ${buffer} of the plan has no place yet.`, "Register a kernel for every workload.");
  // a whole buffer where sizes are open: the same bind groups do for all of them
  return bound.block ? whole(bound.arena[at]) : { buffer: bound.arena[at], offset: 0, size: words(planned.nbytes) };
}

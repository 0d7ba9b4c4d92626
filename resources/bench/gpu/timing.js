/** Samples of GPU time and of the page's time, contenders in turns. */
import { turns } from "../page.js";
import { idle, recorderOf } from "./record.js";

/** @import { Contender } from "./contenders.js" */
/** @import { Warmer } from "./warm.js" */
/** @typedef {"submit" | "pass"} Style */
/**
 * @typedef {object} GpuPolicy
 * @property {number} rounds samples of each contender and style
 * @property {number} sample_ms of GPU time that a sample should hold
 * @property {number} most_sample_ms of the page's time that a sample may take
 * @property {number} warm_ms the GPU is kept busy before each sample
 * @property {number} readbacks
 */
/**
 * `gpu_ms` and `wall_ms` of one product, one for each round; what a product took of passes,
 * dispatches and submits, in the mean.
 * @typedef {{calls: number, gpu_ms: number[], wall_ms: number[], passes: number, dispatches: number, submits: number}} Timed
 */

export const STYLES = /** @type {Style[]} */ (["submit", "pass"]);
const MOST_CALLS = 1024;
/** Of one recording: two stamps each. */
const MOST_PASSES = 2000;

/** @param {Contender} contender @param {Style} style @param {number} calls */
export async function recorded(contender, style, calls) {
  const recorder = recorderOf(contender.library ?? contender.name);
  recorder.start();
  await contender[style](calls);
  await idle(contender.device);
  return recorder.stop();
}

/**
 * @param {Contender} contender
 * @param {Style} style
 * @param {number} calls
 * @returns {Promise<number>} ms of the page's time for one, the wait at the end included
 */
async function wall(contender, style, calls) {
  const start = performance.now();
  await contender[style](calls);
  await idle(contender.device);
  return (performance.now() - start) / calls;
}

/**
 * How many products fill a sample; whole passes of `depth`.
 * @param {Contender} contender
 * @param {Style} style
 * @param {number} depth
 * @param {GpuPolicy} policy
 */
export async function callsFor(contender, style, depth, policy) {
  await wall(contender, style, depth);
  const ms = await wall(contender, style, depth);
  const { gpu_ms, passes } = await recorded(contender, style, depth);
  const wanted = policy.sample_ms / Math.max(gpu_ms / depth, 1e-4);
  const affordable = policy.most_sample_ms / Math.max(ms, 1e-4);
  const recordable = (MOST_PASSES * depth) / Math.max(1, passes) - depth;
  return Math.max(1, Math.ceil(Math.min(wanted, affordable, recordable, MOST_CALLS) / depth)) * depth;
}

/**
 * @param {Contender[]} contenders
 * @param {number} depth
 * @param {Warmer} warmer
 * @param {GpuPolicy} policy
 * @returns {Promise<Record<string, Record<Style, Timed>>>}
 */
export async function timeAll(contenders, depth, warmer, policy) {
  /** @type {Record<string, Record<Style, Timed>>} */
  const found = {};
  for (const style of STYLES) {
    const able = contenders.filter((c) => c[style]);
    for (const contender of able) {
      const calls = await callsFor(contender, style, depth, policy);
      (found[contender.name] ??= /** @type {any} */ ({}))[style] = { calls, gpu_ms: [], wall_ms: [], passes: 0, dispatches: 0, submits: 0 };
    }
    for (const contender of turns(able, policy.rounds)) {
      const timed = found[contender.name][style];
      await warmer.ready(policy.warm_ms);
      const taken = await recorded(contender, style, timed.calls);
      if (!taken.complete) throw new Error(`Not every pass of ${contender.name} was recorded.`);
      timed.gpu_ms.push(taken.gpu_ms / timed.calls);
      for (const what of /** @type {const} */ (["passes", "dispatches", "submits"])) timed[what] = taken[what] / timed.calls;
      await warmer.ready(policy.warm_ms);
      timed.wall_ms.push(await wall(contender, style, timed.calls));
    }
  }
  return found;
}

/**
 * One product with its result in the page's memory, as a page that needs it waits for it.
 * @param {Contender[]} contenders
 * @param {Warmer} warmer
 * @param {GpuPolicy} policy
 * @returns {Promise<Record<string, number[]>>} ms
 */
export async function readbacks(contenders, warmer, policy) {
  /** @type {Record<string, number[]>} */
  const found = Object.fromEntries(contenders.map((c) => [c.name, []]));
  for (const contender of turns(contenders, policy.readbacks)) {
    await warmer.ready(policy.warm_ms / 4);
    const start = performance.now();
    await contender.output();
    found[contender.name].push(performance.now() - start);
  }
  return found;
}

/**
 * What the libraries say themselves: a check of the clock that is common to all.
 * @param {Contender[]} contenders
 * @param {Warmer} warmer
 * @param {GpuPolicy} policy
 * @returns {Promise<Record<string, number[]>>} ms of one product in a pass, of those that have a clock
 */
export async function ownClocks(contenders, warmer, policy) {
  /** @type {Record<string, number[]>} */
  const found = {};
  for (const { name, own_ms } of contenders)
    for (let i = 0; own_ms && i < policy.readbacks; i++) {
      await warmer.ready(policy.warm_ms / 4);
      (found[name] ??= []).push(await own_ms());
    }
  return found;
}

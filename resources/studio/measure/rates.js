/** How fast tiny kernels run, each showing one property of the device (docs/protocol.md, `rates`). */
import { EngineError } from "../../engine/errors.js";
import { compileKernel, linkKernel } from "../../engine/kernel.js";
import { PAGE_BYTES } from "../../engine/plan.js";
import { Team } from "../../engine/team.js";
import { timeBatch } from "../../engine/tuning/timing.js";

/**
 * One measurement: the module at `kernel` runs `extent` iterations a call, or as
 * many as are timed well when that is 0, on `threads` threads.
 * @typedef {object} Item
 * @property {number} kernel
 * @property {number} extent
 * @property {number} threads
 * @property {number} chain_bytes of the addresses that it follows, 0 for none
 */
/** @import { Clock } from "../../engine/tuning/timing.js" */

/** Where the data of every kernel begins. */
export const BASE = 1024;
/** Places of a chain: lines of caches are this long or half of it. */
export const STRIDE_BYTES = 128;
/** A chain walks one such window after another, so that misses of the page table's cache are few. */
const WINDOW_BYTES = 64 * 1024;
const CALL_MS = 0.1;
const FIRST_ITERATIONS = 1024;
const MAX_BATCH = 2 ** 30;

/**
 * @param {{items: Item[], memory_bytes: number, rounds: number, sample_ms: number, warmup_ms: number}} request
 * @param {Uint8Array<ArrayBuffer>[]} modules
 * @param {{now: Clock, quantum_ms: number}} clock
 * @param {(threads: number) => Promise<Team>} [startTeam]
 * @returns {Promise<number[][]>} for each item ms of one iteration, one for each round
 */
export async function rates({ items, memory_bytes, rounds, sample_ms, warmup_ms }, modules, { now, quantum_ms }, startTeam = Team.start) {
  const threads = Math.max(1, ...items.map((item) => item.threads));
  const team = threads > 1 ? await startTeam(threads) : null;
  try {
    const pages = Math.ceil((BASE + memory_bytes) / PAGE_BYTES);
    const memory = new WebAssembly.Memory(team ? { initial: pages, maximum: pages, shared: true } : { initial: pages });
    new Uint8Array(memory.buffer).fill(0); // pages that nobody wrote are all one page of zeros
    const runs = await Promise.all(modules.map((bytes, i) => link(bytes, `kernel ${i}`, memory, team)));
    const target_ms = Math.max(sample_ms, 20 * quantum_ms);
    const warm = new Set();
    if (items.some((item) => item.threads > 1 && item.threads !== threads))
      throw new EngineError("Items of a request run on one thread or on the same number of them.");
    const timed = items.map((item) => {
      prepare(memory, item);
      const { solo, all } = runs[item.kernel];
      const iterations = item.extent || settle(solo, Math.max(CALL_MS, 2 * quantum_ms), now);
      const call = item.threads > 1 ? () => all(iterations) : () => solo(iterations);
      if (!warm.has(item.kernel)) warmUp(call, warmup_ms, now);
      warm.add(item.kernel);
      return { iterations, call, batch: 1 };
    });
    /** @type {number[][]} */
    const samples_ms = items.map(() => []);
    // Round by round: what disturbs the machine for a moment meets one sample of each.
    for (let round = 0; round < rounds; round++)
      for (const [i, each] of timed.entries()) {
        prepare(memory, items[i]);
        let ms = timeBatch(each.call, each.batch, now);
        for (; ms < target_ms && each.batch < MAX_BATCH; ms = timeBatch(each.call, each.batch, now)) each.batch *= 2;
        samples_ms[i].push(ms / each.batch / each.iterations);
      }
    return samples_ms;
  } finally {
    team?.close();
  }
}

/**
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @param {string} name
 * @param {WebAssembly.Memory} memory
 * @param {Team | null} team
 */
async function link(bytes, name, memory, team) {
  const module = await compileKernel(bytes, name, team !== null);
  const run = await linkKernel(module, memory, 0, name);
  const [id] = team ? await team.add(memory, [module]) : [0];
  return {
    solo: (/** @type {number} */ extent) => run(0, extent),
    all: (/** @type {number} */ extent) => team?.run(id, run, [], extent),
  };
}

/**
 * Iterations of a call that lasts long enough to be timed, and no longer: an
 * engine moves a function to its optimising tier only from one call to the next.
 * @param {(extent: number) => void} run
 * @param {number} call_ms
 * @param {Clock} now
 */
function settle(run, call_ms, now) {
  let iterations = FIRST_ITERATIONS;
  const call = () => run(iterations);
  // The shorter of two: a call that something interrupted is no long one.
  while (Math.min(timeBatch(call, 1, now), timeBatch(call, 1, now)) < call_ms && iterations < MAX_BATCH) iterations *= 2;
  return iterations;
}

/**
 * Calls it for a while: engines compile the fast code in the background.
 * @param {() => void} call
 * @param {number} warmup_ms
 * @param {Clock} now
 */
function warmUp(call, warmup_ms, now) {
  const start = now();
  do call();
  while (now() - start < warmup_ms);
}

/**
 * Writes the chain that an item follows.
 * @param {WebAssembly.Memory} memory
 * @param {Item} item
 */
function prepare(memory, { chain_bytes }) {
  if (!chain_bytes) return;
  const words = new Int32Array(memory.buffer);
  const chain = chainOf(chain_bytes);
  words[0] = chain[0];
  chain.forEach((place, i) => (words[place / 4] = chain[(i + 1) % chain.length]));
}

/**
 * Addresses of a closed walk over `bytes` in an order that no prefetcher guesses:
 * random within a window, window after window. Equal arguments give equal walks.
 * @param {number} bytes
 * @returns {number[]}
 */
export function chainOf(bytes) {
  let seed = 12345;
  const below = (/** @type {number} */ n) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * n);
  };
  const chain = [];
  for (let window = 0; window < bytes; window += WINDOW_BYTES) {
    const places = [];
    for (let at = window; at < Math.min(bytes, window + WINDOW_BYTES); at += STRIDE_BYTES) places.push(BASE + at);
    for (let i = places.length - 1; i > 0; i--) {
      const other = below(i + 1);
      [places[i], places[other]] = [places[other], places[i]];
    }
    chain.push(...places);
  }
  return chain;
}

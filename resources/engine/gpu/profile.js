/** How long each step takes on the GPU. */

/** @import { Command, GpuDevice } from "../../types/gpu.js" */

const STEPS_PER_FLUSH = 512;
const MIN_QUANTA = 20;
const MOST_REPEATS = 1000;
/** Without timestamps: waiting for the GPU to be noticed has to be small against it. */
const WALL_MS = 2;
/** What a step takes at least that the clock did not see. */
const UNSEEN_MS = 0.005;

/**
 * Each step's share of some runs, one pass of repetitions for each step. A step may be repeated:
 * it writes no buffer that it reads.
 *
 * @param {GpuDevice} device
 * @param {readonly (readonly Command[])[]} steps in their order
 * @param {{runs: number, least_ms: number}} options
 * @returns {Promise<{times: number[][], clock: "timestamp" | "wall"}>} ms of each step, for each run
 */
export async function profileSteps(device, steps, { runs, least_ms }) {
  const { available, quantum_ns } = device.timestamps;
  const target_ms = Math.max(least_ms, available ? (MIN_QUANTA * quantum_ns) / 1e6 : WALL_MS);
  const time = available ? stamped : byWall;
  const first = await time(device, steps, steps.map(() => 1));
  const repeats = first.map((ms) => Math.min(MOST_REPEATS, Math.max(1, Math.ceil(target_ms / Math.max(ms, UNSEEN_MS)))));
  /** @type {number[][]} */
  const times = [];
  for (let run = 0; run < runs; run++) times.push(await time(device, steps, repeats));
  return { times, clock: available ? "timestamp" : "wall" };
}

/**
 * @param {GpuDevice} device
 * @param {readonly (readonly Command[])[]} steps
 * @param {number[]} repeats
 */
async function stamped(device, steps, repeats) {
  /** @type {number[]} */
  const times = [];
  for (let begin = 0; begin < steps.length; begin += STEPS_PER_FLUSH) {
    const part = steps.slice(begin, begin + STEPS_PER_FLUSH);
    part.forEach((commands, i) => {
      device.encode([{ op: "stamp", index: 2 * i }]);
      for (let n = 0; n < repeats[begin + i]; n++) device.encode(commands);
      device.encode([{ op: "stamp", index: 2 * i + 1 }]);
    });
    const stamps = await device.readStamps(2 * part.length);
    part.forEach((_, i) => times.push(spanMs(stamps, 2 * i) / repeats[begin + i]));
  }
  return times;
}

/**
 * @param {GpuDevice} device
 * @param {readonly (readonly Command[])[]} steps
 * @param {number[]} repeats
 */
async function byWall(device, steps, repeats) {
  /** @type {number[]} */
  const times = [];
  await device.done();
  for (const [i, commands] of steps.entries()) {
    const start = performance.now();
    for (let n = 0; n < repeats[i]; n++) device.encode(commands);
    await device.done();
    times.push((performance.now() - start) / repeats[i]);
  }
  return times;
}

/**
 * Ms between a stamp and the next; clocks that were reset between them give 0.
 * @param {BigInt64Array} stamps
 * @param {number} index
 */
export const spanMs = (stamps, index) => Math.max(0, Number(stamps[index + 1] - stamps[index]) / 1e6);

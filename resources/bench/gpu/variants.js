/** One kernel in several settings: compiled side by side, timed in its place; the fastest. */
import { lacking } from "../../engine/gpu/document.js";
import { median } from "../page.js";

/** @import { Command, GpuDevice, GpuPipeline } from "../../types/gpu.js" */
/**
 * @typedef {object} Variant
 * @property {string} setting
 * @property {number} threads of a workgroup
 * @property {string[]} requires features of WebGPU, and with the prefix `wgsl:` of the language
 * @property {{code: string, entry: string, access: ("read" | "read_write")[], bindings: string[], workgroups: [number, number, number]}} dispatch
 */
/** @typedef {{setting: string, pipeline_ms: number, us: number[], error: string}} Tried `us` of one dispatch */
/** @typedef {{variant: Variant, pipeline: GpuPipeline}} Made */

const SIDE_BY_SIDE = 8;
/** Of GPU time that a sample should hold, and of the clock's steps. */
const SAMPLE_MS = 2;
const STEPS = 20;
const MOST_DISPATCHES = 2000;
const FINALISTS = 4;
const ROUNDS = 5;

/**
 * @param {GpuDevice} gpu
 * @param {Variant} variant
 * @returns {string} why the device cannot run it, or nothing
 */
export function refused(gpu, { threads, requires }) {
  if (threads > gpu.limits.maxComputeInvocationsPerWorkgroup) return `${threads} threads are more than the adapter's limit`;
  const [missing] = lacking(requires, gpu);
  return missing ? `the adapter has no ${missing}` : "";
}

/**
 * GPU time of commands that are repeated, by timestamps; without them by the page's clock.
 * @param {GpuDevice} gpu
 * @param {readonly Command[]} commands
 * @param {number} repeats
 * @returns {Promise<number>} ms of all repeats
 */
export async function timed(gpu, commands, repeats) {
  const all = Array.from({ length: repeats }, () => commands).flat();
  if (gpu.timestamps.available) {
    gpu.encode([{ op: "stamp", index: 0 }, ...all, { op: "stamp", index: 1 }]);
    const [begin, end] = await gpu.readStamps(2);
    return Number(end - begin) / 1e6;
  }
  await gpu.done();
  const start = performance.now();
  gpu.encode(all);
  await gpu.done();
  return performance.now() - start;
}

/**
 * How often commands are repeated so that a sample is long enough for the clock.
 * @param {GpuDevice} gpu
 * @param {readonly Command[]} commands
 */
async function repeatsFor(gpu, commands) {
  await timed(gpu, commands, 1);
  const ms = await timed(gpu, commands, 1);
  const wanted = Math.max(SAMPLE_MS, (STEPS * gpu.timestamps.quantum_ns) / 1e6);
  const most = Math.max(1, Math.floor(MOST_DISPATCHES / commands.length));
  return Math.min(most, Math.max(1, Math.ceil(wanted / Math.max(ms, 1e-3))));
}

/**
 * @param {GpuDevice} gpu
 * @param {readonly Variant[]} variants equal in what they compute
 * @param {(made: Made) => Command[]} commandsOf dispatches of the kernel, over more memory than a cache holds
 * @param {() => Promise<void>} ready brings the GPU's clock up before a sample: between two it sinks, and kernels would be compared at several
 * @returns {Promise<{best: Made, tried: Tried[]}>}
 */
export async function fastest(gpu, variants, commandsOf, ready) {
  /** @type {Tried[]} */
  const tried = [];
  /** @type {{made: Made, row: Tried, commands: Command[], repeats: number}[]} */
  const running = [];
  for (let first = 0; first < variants.length; first += SIDE_BY_SIDE) {
    const group = variants.slice(first, first + SIDE_BY_SIDE);
    const pipelines = await Promise.allSettled(
      group.map((variant) => {
        const why = refused(gpu, variant);
        return why ? Promise.reject(new Error(why)) : gpu.pipeline(variant.dispatch);
      }),
    );
    for (const [i, result] of pipelines.entries()) {
      /** @type {Tried} */
      const row = { setting: group[i].setting, pipeline_ms: 0, us: [], error: "" };
      tried.push(row);
      if (result.status === "rejected") {
        row.error = `${result.reason.message ?? result.reason}`.slice(0, 500);
        continue;
      }
      row.pipeline_ms = result.value.ms;
      const made = { variant: group[i], pipeline: result.value };
      running.push({ made, row, commands: commandsOf(made), repeats: 1 });
    }
  }
  if (!running.length) throw new Error(`No setting runs here: ${tried[0]?.error}.`);
  if (running.length > 1) {
    for (const one of running) one.repeats = await repeatsFor(gpu, one.commands);
    for (const one of running) await sample(gpu, one, ready);
    running.sort((a, b) => median(a.row.us) - median(b.row.us));
    for (let round = 0; round < ROUNDS; round++) for (const one of running.slice(0, FINALISTS)) await sample(gpu, one, ready);
    running.splice(FINALISTS);
    running.sort((a, b) => median(a.row.us) - median(b.row.us));
  }
  return { best: running[0].made, tried };
}

/** @param {GpuDevice} gpu @param {{row: Tried, commands: Command[], repeats: number}} one @param {() => Promise<void>} ready */
async function sample(gpu, { row, commands, repeats }, ready) {
  await ready();
  row.us.push(((await timed(gpu, commands, repeats)) * 1e3) / (repeats * commands.length));
}

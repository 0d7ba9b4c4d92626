/** What the disposable worker does: the bundle's own kernel says what is right, on random memory. */
import { EngineError } from "../../engine/errors.js";
import { compileKernel, linkKernel } from "../../engine/kernel.js";
import { fromHalf } from "../../engine/tuning/compare.js";
import { FixtureMemory } from "../../engine/tuning/fixture.js";
import { Bench } from "../../engine/tuning/measure.js";
import { timerQuantum } from "../../engine/tuning/timing.js";

/** @import { Measured } from "../../engine/tuning/measured.js" */
/** @import { MeasurePolicy } from "../../engine/tuning/timing.js" */
/** @import { KernelHeader, TrialArg, TrialMemory } from "../../types/engine.js" */
/** @typedef {{header: KernelHeader & {sha256: string}, bytes: Uint8Array<ArrayBuffer>}} Kernel */
/** @typedef {{trial: TrialMemory, own: Kernel, seed?: number} | {challenger: Kernel, incumbent: Kernel, policy: MeasurePolicy}} Request */

const SEED = 20_261_123;
/** Of the larger end: smaller magnitudes would let a missing term pass. */
const LEAST_SHARE = 0.25;

export class TrialBench {
  #now = () => performance.now();
  #bench = new Bench({ now: this.#now, quantum_ms: timerQuantum(this.#now) });

  /** @param {Request} request @returns {Promise<Measured | null>} null for a trial that begins */
  async answer(request) {
    if ("challenger" in request) return this.#bench.measure(request.challenger, request.incumbent, request.policy);
    await this.#begin(request.trial, request.own, request.seed);
    return null;
  }

  /** @param {TrialMemory} trial @param {Kernel} own the bundle's kernel of the workload @param {number} [seed] */
  async #begin({ workload, args, tolerance }, { header, bytes }, seed = SEED) {
    const random = randomBy(seed);
    const blobs = args.flatMap((arg) => (arg.role === "input" ? [inputOf(arg, random)] : []));
    let at = 0;
    const described = args.map(({ role, dtype, nbytes, pack }) => ({ role, dtype, nbytes, pack, blob: role === "input" ? at++ : null }));
    const written = args.flatMap(({ role }, i) => (role === "output" ? [i] : []));
    // with empty references: they are what this run leaves
    const none = written.map(() => ({ expected: blobs.length, bound: blobs.length }));
    const memory = new FixtureMemory({ workload, args: described, outputs: none }, [...blobs, new Uint8Array(0)]);
    const pointers = memory.pointers(header.panels);
    const run = await linkKernel(await compileKernel(bytes, workload), memory.memory, pointers.length, workload);
    memory.poison();
    run(...pointers, 0, header.parallel_extent);
    if (!memory.intact()) throw new EngineError(`The bundle's own kernel of ${workload} writes where it must not.`, "Export the bundle again.");
    const outputs = written.map((arg) => {
      const { expected, bound } = referenceOf(args[arg].dtype, memory.output(arg).slice(), tolerance);
      const index = blobs.push(expected, bound) - 2;
      return { expected: index, bound: index + 1 };
    });
    this.#bench.setFixture({ workload, args: described, outputs }, blobs);
  }
}

/**
 * What the outputs should be, and how far others may be from it.
 * @param {string} dtype
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @param {number} tolerance as a share of the root mean square
 */
function referenceOf(dtype, bytes, tolerance) {
  const floats = dtype === "f16" ? Float32Array.from(new Uint16Array(bytes.buffer), fromHalf) : dtype === "f32" ? new Float32Array(bytes.buffer) : null;
  if (floats && !floats.every(Number.isFinite)) throw new EngineError("The bundle's own kernel gives no numbers on random memory.", "Leave the workload untuned.");
  const count = floats?.length ?? bytes.length / (dtype === "i64" ? 8 : dtype === "i32" ? 4 : 1);
  const rms = floats ? Math.sqrt(floats.reduce((sum, x) => sum + x * x, 0) / count) : 0;
  const bound = new Float32Array(count).fill(floats ? Math.max(tolerance * rms, 2 ** -120) : 0.5);
  return { expected: floats ? new Uint8Array(floats.buffer) : bytes, bound: new Uint8Array(bound.buffer) };
}

/** @param {TrialArg} arg @param {() => number} random @returns {Uint8Array<ArrayBuffer>} */
function inputOf({ dtype, nbytes, low, high }, random) {
  const bytes = new Uint8Array(nbytes);
  const most = Math.max(Math.abs(low), Math.abs(high));
  const float = () => most * (LEAST_SHARE + (1 - LEAST_SHARE) * random()) * (low < 0 && random() < 0.5 ? -1 : 1);
  const int = () => low + Math.floor(random() * (high - low + 1));
  if (dtype === "f32") new Float32Array(bytes.buffer).forEach((_, i, all) => (all[i] = float()));
  else if (dtype === "f16") new Uint16Array(bytes.buffer).forEach((_, i, all) => (all[i] = toHalf(float())));
  else if (dtype === "i64") new BigInt64Array(bytes.buffer).forEach((_, i, all) => (all[i] = BigInt(int())));
  else if (dtype === "i32") new Int32Array(bytes.buffer).forEach((_, i, all) => (all[i] = int()));
  else bytes.forEach((_, i) => (bytes[i] = int()));
  return bytes;
}

const WORD = new Float32Array(1);
/** Truncated, and 0 below the normal range. @param {number} x */
function toHalf(x) {
  WORD[0] = x;
  const [bits] = new Uint32Array(WORD.buffer);
  const exponent = ((bits >>> 23) & 255) - 112;
  const sign = (bits >>> 16) & 0x8000;
  return exponent <= 0 ? sign : exponent >= 31 ? sign | 0x7bff : sign | (exponent << 10) | ((bits >>> 13) & 1023);
}

/** Mulberry32 (public domain): equal seeds, equal memory. @param {number} seed */
function randomBy(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

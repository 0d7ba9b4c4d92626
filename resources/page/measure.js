/** Is a kernel right, and how fast is it beside the incumbent? */
import { errorRatio } from "./compare.js";
import { EngineError, errorFields } from "./errors.js";
import { FixtureMemory } from "./fixture.js";
import { compileKernel, linkKernel } from "./kernel.js";
import { takeSamples } from "./timing.js";

/** @typedef {import("./kernel.js").KernelHeader} KernelHeader */
/** @typedef {import("./timing.js").MeasurePolicy} MeasurePolicy */
/** @typedef {{header: KernelHeader, bytes: Uint8Array<ArrayBuffer>}} Kernel */
/**
 * Fields of the reply `measured`; an infinite error ratio travels as "inf".
 * @typedef {object} Measured
 * @property {number[]} samples_ms
 * @property {number[]} incumbent_ms
 * @property {number} batch
 * @property {number | "inf"} error_ratio
 * @property {boolean} guard_ok
 * @property {boolean} stopped_early
 * @property {number} instantiate_ms
 * @property {string} error
 */

/**
 * A measurement without samples.
 * @param {string} error
 * @returns {Measured}
 */
export function notMeasured(error) {
  return {
    samples_ms: [],
    incumbent_ms: [],
    batch: 0,
    error_ratio: "inf",
    guard_ok: false,
    stopped_early: false,
    instantiate_ms: 0,
    error,
  };
}

/** Measures kernels of one workload at a time on its fixture. */
export class Bench {
  /** @type {FixtureMemory | null} */ #fixture = null;
  /** @type {Map<string, import("./timing.js").Incumbent>} by sha256 */ #incumbents = new Map();

  /** @param {{now: () => number, quantum_ms: number}} clock */
  constructor(clock) {
    this.clock = clock;
  }

  /**
   * @param {import("./fixture.js").FixtureHeader} header
   * @param {Uint8Array[]} blobs
   */
  setFixture(header, blobs) {
    this.#fixture = new FixtureMemory(header, blobs);
    this.#incumbents.clear();
  }

  /**
   * A challenger that cannot be compiled, traps, is wrong or writes where it
   * must not is an ordinary outcome and gets no samples.
   *
   * @param {Kernel} challenger
   * @param {Kernel | null} incumbent
   * @param {MeasurePolicy} policy
   * @returns {Promise<Measured>}
   */
  async measure(challenger, incumbent, policy) {
    const fixture = this.#fixture;
    if (fixture?.workload !== challenger.header.workload)
      throw new EngineError(`The page has no fixture of ${challenger.header.workload}.`, "Send the fixture first.");
    const result = notMeasured("");
    try {
      const start = this.clock.now();
      const run = await bind(fixture, challenger);
      result.instantiate_ms = this.clock.now() - start;
      fixture.poison();
      run();
      result.guard_ok = fixture.intact();
      const ratio = worstError(fixture);
      result.error_ratio = ratio === Infinity ? "inf" : ratio;
      if (ratio > 1 || !result.guard_ok) return result;
      const rival = incumbent && (await this.#incumbent(fixture, incumbent));
      return { ...result, ...takeSamples(run, rival, policy, this.clock) };
    } catch (e) {
      const { error, hint } = errorFields(e);
      return { ...result, error: `${error} ${hint}`.trim() };
    }
  }

  /**
   * @param {FixtureMemory} fixture
   * @param {Kernel} kernel
   */
  async #incumbent(fixture, kernel) {
    const key = kernel.header.sha256 ?? "";
    const known = this.#incumbents.get(key) ?? { run: await bind(fixture, kernel), batch: 0 };
    if (key) this.#incumbents.set(key, known);
    return known;
  }
}

/**
 * @param {FixtureMemory} fixture
 * @param {Kernel} kernel
 * @returns {Promise<() => void>}
 */
async function bind(fixture, { header, bytes }) {
  const pointers = fixture.pointers(header.panels);
  const module = await compileKernel(bytes, header.workload);
  const run = await linkKernel(module, fixture.memory, pointers.length, header.workload);
  return () => run(...pointers, 0, header.parallel_extent);
}

/** @param {FixtureMemory} fixture */
function worstError(fixture) {
  const ratios = fixture.outputs.map(({ arg, expected, bound }) => {
    const bounds = new Float32Array(bound.buffer, bound.byteOffset, bound.byteLength / 4);
    return errorRatio(fixture.args[arg].dtype, fixture.output(arg), expected, bounds);
  });
  return Math.max(0, ...ratios);
}

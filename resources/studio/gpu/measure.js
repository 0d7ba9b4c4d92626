/** Is a WGSL kernel right, and how fast is it beside the incumbent? */
import { EngineError, errorFields } from "../../engine/errors.js";
import { notMeasured } from "../measure/measure.js";
import { GpuError } from "../../engine/gpu/errors.js";
import { GpuFixture } from "./fixture.js";
import { callOf, Kernels } from "../../engine/gpu/kernels.js";
import { Sampler } from "./timing.js";

/** @typedef {import("../measure/measure.js").Kernel} Kernel */
/** @typedef {import("../measure/timing.js").MeasurePolicy} MeasurePolicy */
/** @typedef {import("../../engine/gpu/kernels.js").GpuKernel} GpuKernel */
/** @typedef {import("../../types/gpu.js").GpuBuf} GpuBuf */
/** A kernel on the fixture, with scratch of its own. @typedef {import("./timing.js").Timed & {kernel: GpuKernel, scratch: GpuBuf[]}} Bound */
/** @typedef {{guard_ok: boolean, error_ratio: number | "inf", instantiate_ms: number, pipeline_ms: number, digest: string}} Check */
/** The last challenger, which may be asked for again. @typedef {{sha256: string, check: Check, bound: Bound, right: boolean}} Challenger */
/**
 * As of Wasm, and what a GPU has more: `pipeline_ms` until its pipelines were compiled, `waited_ms`
 * for the GPU, `late_ms` of it after the GPU had finished, and `total_ms` of the request.
 * @typedef {import("../measure/measure.js").Measured & {gpu_clock: "timestamp" | "wall", pipeline_ms: number, wall_ms: number,
 *   waited_ms: number, late_ms: number, total_ms: number}} GpuMeasured
 */

export class GpuBench {
  /** @type {GpuFixture | null} */ #fixture = null;
  /** @type {Map<string, Bound>} by sha256 */ #incumbents = new Map();
  /** @type {Challenger | null} */ #challenger = null;
  /** @type {Map<string, Promise<GpuKernel | null>>} compiled ahead, by sha256 */ #prepared = new Map();
  #kernels;
  #sampler;

  /**
   * @param {import("../../types/gpu.js").GpuDevice} device it stays its owner's to destroy
   * @param {import("./timing.js").Clock} clock
   */
  constructor(device, clock) {
    this.device = device;
    this.#kernels = new Kernels(device);
    this.#sampler = new Sampler(device, clock);
  }

  /**
   * @param {import("../measure/fixture.js").FixtureHeader} header
   * @param {Uint8Array[]} blobs
   */
  async setFixture(header, blobs) {
    if (this.#challenger) this.#drop(this.#challenger.bound);
    for (const bound of this.#incumbents.values()) this.#drop(bound);
    this.#challenger = null;
    this.#incumbents.clear();
    this.#prepared.clear();
    this.#fixture?.destroy();
    this.#fixture = null;
    const fixture = new GpuFixture(this.device, header, blobs);
    await this.device.done(); // memory that is not there is told here
    this.#fixture = fixture;
  }

  /**
   * Has the pipelines of a kernel made while others are measured. What goes wrong is told when
   * it is measured itself.
   * @param {Kernel} kernel of the fixture's workload, or it is left out
   */
  prepare({ header, bytes }) {
    const { workload, sha256 = "" } = header;
    if (workload !== this.#fixture?.workload || !sha256 || this.#prepared.has(sha256)) return;
    this.#prepared.set(sha256, this.#kernels.compile(header, bytes, this.#fixture.args.length).catch(() => null));
  }

  /**
   * A challenger that does not compile, is wrong or writes where it must not is an ordinary
   * outcome and gets no samples; only a lost device is an error.
   *
   * @param {Kernel} challenger
   * @param {Kernel | null} incumbent
   * @param {MeasurePolicy} policy
   * @returns {Promise<GpuMeasured>}
   */
  async measure(challenger, incumbent, policy) {
    const fixture = this.#fixture;
    if (fixture?.workload !== challenger.header.workload)
      throw new EngineError(`The page has no fixture of ${challenger.header.workload}.`, "Send the fixture first.");
    const { counters } = this.device;
    const [start, waited] = [performance.now(), counters.waited_ms];
    const { gpu_clock } = this.#sampler;
    /** @type {GpuMeasured} */
    let result = { ...notMeasured(""), gpu_clock, pipeline_ms: 0, wall_ms: 0, waited_ms: 0, late_ms: 0, total_ms: 0 };
    try {
      const sha256 = challenger.header.sha256 ?? "";
      if (!sha256 || sha256 !== this.#challenger?.sha256) {
        this.#retire(incumbent);
        this.#challenger = await this.#check(fixture, challenger, policy);
      }
      const { check, bound, right } = this.#challenger;
      result = { ...result, ...check };
      if (right) {
        const rival = incumbent && (await this.#incumbent(fixture, incumbent));
        result = { ...result, ...(await this.#sampler.sample(bound, rival, policy)) };
      }
    } catch (e) {
      this.#retire(null);
      if (e instanceof GpuError && e.code === "gpu-lost") throw e;
      const { error, hint } = errorFields(this.#kernels.refuse(challenger.header, e));
      result = { ...result, error: `${error} ${hint}`.trim() };
    }
    return { ...result, waited_ms: counters.waited_ms - waited, total_ms: performance.now() - start };
  }

  /**
   * The last challenger makes room; if it is the incumbent now, it stays warm.
   * @param {Kernel | null} incumbent
   */
  #retire(incumbent) {
    const last = this.#challenger;
    this.#challenger = null;
    if (!last) return;
    if (last.right && last.sha256 && last.sha256 === incumbent?.header.sha256) this.#incumbents.set(last.sha256, last.bound);
    else this.#drop(last.bound);
  }

  /** @param {Bound} bound */
  #drop({ scratch }) {
    for (const buffer of scratch) this.device.destroyBuffer(buffer);
  }

  /**
   * @param {GpuFixture} fixture
   * @param {Kernel} kernel
   * @returns {Promise<Bound>}
   */
  async #bind(fixture, { header, bytes }) {
    const ahead = await this.#prepared.get(header.sha256 ?? "");
    const kernel = ahead ?? (await this.#kernels.compile(header, bytes, fixture.args.length));
    const input = [...kernel.roles.written].find((arg) => !fixture.written.has(arg));
    if (input !== undefined) throw new GpuError("gpu-kernel", `The kernel of ${header.workload} writes argument ${input}, an input.`, "", header.workload);
    const scratch = kernel.document.scratch.map((nbytes, i) => this.device.createBuffer(nbytes, `scratch ${i}`));
    const whole = scratch.map((buffer) => ({ buffer, offset: 0, size: buffer.nbytes }));
    return { kernel, scratch, commands: callOf(kernel, fixture.bindings, whole), batch: 0 };
  }

  /**
   * @param {GpuFixture} fixture
   * @param {Kernel} kernel
   * @param {MeasurePolicy} policy
   * @returns {Promise<Challenger>}
   */
  async #check(fixture, kernel, policy) {
    const start = performance.now();
    const bound = await this.#bind(fixture, kernel);
    const instantiate_ms = performance.now() - start;
    try {
      fixture.poison();
      this.device.encode(bound.commands);
      const { outputs, error_ratio, guard_ok } = await fixture.result();
      if (!guard_ok) fixture.restore();
      const check = {
        guard_ok,
        error_ratio: error_ratio === Infinity ? /** @type {const} */ ("inf") : error_ratio,
        instantiate_ms,
        pipeline_ms: bound.kernel.ms,
        digest: policy.digest ? await digestOf(outputs) : "",
      };
      return { sha256: kernel.header.sha256 ?? "", check, bound, right: error_ratio <= 1 && guard_ok };
    } catch (e) {
      this.#drop(bound);
      throw e;
    }
  }

  /**
   * @param {GpuFixture} fixture
   * @param {Kernel} kernel
   */
  async #incumbent(fixture, kernel) {
    const key = kernel.header.sha256 ?? "";
    const known = this.#incumbents.get(key);
    if (known) return known;
    const bound = await this.#bind(fixture, kernel);
    if (key) this.#incumbents.set(key, bound);
    return bound;
  }
}

/** @param {Uint8Array[]} outputs */
async function digestOf(outputs) {
  const all = await new Blob(outputs.map((o) => o.slice())).arrayBuffer();
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", all));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

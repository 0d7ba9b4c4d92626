/** Is a WGSL kernel right, and how fast is it compared with the incumbent? */
import { whole } from "../../engine/gpu/commands.js";
import { GpuError } from "../../engine/gpu/errors.js";
import { callOf, Kernels } from "../../engine/gpu/kernels.js";
import { fixtureOf, isAhead, judged, notMeasured, sentence, unlessSkipped } from "../../engine/tuning/measured.js";
import { Rivals } from "../../engine/tuning/rivals.js";
import { GpuFixture } from "./fixture.js";
import { Sampler } from "./timing.js";

/** @import { GpuKernel } from "../../engine/gpu/kernels.js" */
/** @import { GpuDevice } from "../../types/gpu.js" */
/** @import { FixtureHeader } from "../../engine/tuning/fixture.js" */
/** @import { Check, Kernel, Measured } from "../../engine/tuning/measured.js" */
/** @import { MeasurePolicy } from "../../engine/tuning/timing.js" */
/** @import { Clock, Timed } from "./timing.js" */
/** A kernel on the fixture, with scratch of its own. @typedef {Timed & {kernel: GpuKernel, drop: () => void}} Bound */
/**
 * As of Wasm, and what a GPU has more: `pipeline_ms` until its pipelines were compiled, `waited_ms`
 * for the GPU, `late_ms` of it after the GPU had finished, and `total_ms` of the request.
 * @typedef {Measured & {gpu_clock: "timestamp" | "wall", pipeline_ms: number, wall_ms: number,
 *   waited_ms: number, late_ms: number, total_ms: number}} GpuMeasured
 */

export class GpuBench {
  /** @type {GpuFixture | null} */ #fixture = null;
  /** @type {Rivals<Bound, Check & {pipeline_ms: number}>} */ #rivals = new Rivals();
  /** @type {Map<string, Promise<GpuKernel | null>>} compiled ahead, by sha256 */ #prepared = new Map();
  #kernels;
  #sampler;

  /**
   * @param {GpuDevice} device it stays its owner's to destroy
   * @param {Clock} clock
   */
  constructor(device, clock) {
    this.device = device;
    this.#kernels = new Kernels(device);
    this.#sampler = new Sampler(device, clock);
  }

  /** @param {FixtureHeader} header @param {Uint8Array[]} blobs */
  async setFixture(header, blobs) {
    this.#rivals.clear();
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
    const fixture = fixtureOf(this.#fixture, challenger);
    const { counters } = this.device;
    const [start, waited] = [performance.now(), counters.waited_ms];
    const { gpu_clock } = this.#sampler;
    /** @type {GpuMeasured} */
    let result = { ...notMeasured(""), gpu_clock, pipeline_ms: 0, wall_ms: 0, waited_ms: 0, late_ms: 0, total_ms: 0 };
    try {
      const { check, bound, right } = await this.#rivals.challenger(challenger, incumbent, () => this.#check(fixture, challenger, policy));
      result = { ...result, ...check };
      if (right) {
        const rival = incumbent && (await this.#rivals.incumbent(incumbent, () => this.#bind(fixture, incumbent)));
        const samples = await this.#sampler.sample(bound, rival, policy);
        result = { ...result, ...samples };
        if (isAhead(samples)) result = unlessSkipped(result, await this.#again(fixture, bound));
      }
    } catch (e) {
      this.#rivals.retire(null);
      if (e instanceof GpuError && e.code === "gpu-lost") throw e;
      result = { ...result, error: sentence(this.#kernels.refuse(challenger.header, e)) };
    }
    return { ...result, waited_ms: counters.waited_ms - waited, total_ms: performance.now() - start };
  }

  /**
   * How wrong the outputs are of one more run.
   * @param {GpuFixture} fixture
   * @param {Bound} bound
   */
  async #again(fixture, { commands }) {
    fixture.poisonOutputs();
    this.device.encode(commands);
    return (await fixture.result()).ratio;
  }

  /** @param {GpuFixture} fixture @param {Kernel} kernel @returns {Promise<Bound>} */
  async #bind(fixture, { header, bytes }) {
    const { device } = this;
    const ahead = await this.#prepared.get(header.sha256 ?? "");
    const kernel = ahead ?? (await this.#kernels.compile(header, bytes, fixture.args.length));
    const input = [...kernel.roles.written].find((arg) => !fixture.written.has(arg));
    if (input !== undefined) throw new GpuError("gpu-kernel", `The kernel of ${header.workload} writes argument ${input}, an input.`, "", header.workload);
    const scratch = kernel.document.scratch.map((nbytes, i) => device.createBuffer(nbytes, `scratch ${i}`));
    const drop = () => scratch.forEach((buffer) => device.destroyBuffer(buffer));
    return { kernel, commands: callOf(kernel, fixture.bindings, scratch.map(whole)), batch: 0, drop };
  }

  /** @param {GpuFixture} fixture @param {Kernel} kernel @param {MeasurePolicy} policy */
  async #check(fixture, kernel, policy) {
    const start = performance.now();
    const bound = await this.#bind(fixture, kernel);
    const instantiate_ms = performance.now() - start;
    try {
      fixture.poison();
      this.device.encode(bound.commands);
      const { outputs, ratio, guard_ok } = await fixture.result();
      if (!guard_ok) fixture.restore();
      const { check, right } = await judged(ratio, guard_ok, instantiate_ms, policy.digest ? outputs : null);
      return { bound, right, check: { ...check, pipeline_ms: bound.kernel.ms } };
    } catch (e) {
      bound.drop();
      throw e;
    }
  }
}

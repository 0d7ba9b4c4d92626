/** Timing of kernels on a GPU (docs/measuring.md, docs/webgpu.md). */
import { spanMs } from "../../engine/gpu/profile.js";
import { median } from "../../engine/quantile.js";
import { ClockWatch } from "./clock.js";

/** @import { Dispatch, GpuDevice } from "../../types/gpu.js" */
/** @import { MeasurePolicy, Samples } from "../../engine/tuning/timing.js" */
/** A kernel as it is timed; `batch` is 0 until it was warmed up. @typedef {{commands: readonly Dispatch[], batch: number}} Timed */
/**
 * `late_ms` is what was waited for the page to notice that the GPU had finished, `wall_ms` one
 * run of the challenger by the page's clock, 0 when it was not taken.
 * @typedef {Samples & {gpu_clock: "timestamp" | "wall", wall_ms: number, late_ms: number}} GpuSamples
 */
/** @typedef {{now: () => number, quantum_ms: number}} Clock */

/** The GPU's own clock needs no longer samples than this; shorter ones are waited for too often. */
const STAMPED_MS = 3;
/** By the page's clock a wait of some tenths of a ms is part of each sample. */
const WALL_MS = 10;
/** Of GPU work in one submission: others use the GPU too, and drivers end what takes seconds. */
const GROUP_MS = 60;
/** After such a rest the GPU's clocks have gone down. */
const REST_MS = 50;
const MOST_BATCH = 20_000;
/** A challenger's first batch, as a part of the incumbent's: it may be far slower. */
const FIRST_BATCH = 1 / 16;
/** The clock of a GPU that idled takes this long to rise. */
const RISE_MS = 300;

export class Sampler {
  /** What was waited although the GPU had finished. */
  late_ms = 0;
  #busy_until = -Infinity;
  /** @type {Promise<ClockWatch | null> | null} */ #watch = null;

  /**
   * @param {GpuDevice} device
   * @param {Clock} clock of the page
   */
  constructor(device, clock) {
    this.device = device;
    this.clock = clock;
  }

  /** @returns {"timestamp" | "wall"} */
  get gpu_clock() {
    return this.device.timestamps.available ? "timestamp" : "wall";
  }

  /**
   * How long a sample is to be.
   * @param {MeasurePolicy} policy
   */
  target({ min_sample_ms, min_quanta }) {
    const { available, quantum_ns } = this.device.timestamps;
    return available
      ? Math.max(Math.min(min_sample_ms, STAMPED_MS), (min_quanta * quantum_ns) / 1e6)
      : Math.max(min_sample_ms, WALL_MS, min_quanta * this.clock.quantum_ms);
  }

  /**
   * Some samples in one submission, each a batch of runs in a pass of its own.
   * @param {readonly {timed: Timed, runs: number}[]} samples
   * @returns {Promise<number[]>} ms of each whole sample
   */
  async take(samples) {
    const { device } = this;
    const stamped = device.timestamps.available;
    /** @type {number[]} */
    const times = [];
    this.clock.now(); // while a model serves, tuning may have to wait here
    for (const [i, { timed, runs }] of samples.entries()) {
      const start = performance.now();
      if (stamped) device.encode([{ op: "stamp", index: 2 * i }]);
      for (let n = 0; n < runs; n++) device.encode(timed.commands);
      if (stamped) {
        device.encode([{ op: "stamp", index: 2 * i + 1 }]);
        continue;
      }
      await device.done();
      times.push(performance.now() - start);
    }
    if (stamped) {
      const before = device.counters.waited_ms;
      const stamps = await device.readStamps(2 * samples.length);
      const waited = device.counters.waited_ms - before;
      samples.forEach((_, i) => times.push(spanMs(stamps, 2 * i)));
      this.late_ms += Math.max(0, waited - Number(stamps[2 * samples.length - 1] - stamps[0]) / 1e6);
    }
    this.#busy_until = performance.now();
    return times;
  }

  /**
   * As `take`, until the GPU's clock is where it was at its best, or has had the time to get there.
   * @param {readonly {timed: Timed, runs: number}[]} samples
   */
  async #takeSteady(samples) {
    const watch = await (this.#watch ??= ClockWatch.open(this.device));
    if (!watch) return this.take(samples);
    const latest = performance.now() + RISE_MS;
    for (;;) {
      const times = await this.take([...samples, { timed: watch.timed, runs: 1 }]);
      const look_ms = /** @type {number} */ (times.pop());
      if (watch.steady(look_ms)) return times;
      if (performance.now() < latest) continue;
      watch.settle(look_ms);
      return times;
    }
  }

  /**
   * Keeps the GPU at work until its clocks are up, and finds how many runs make a sample.
   * @param {Timed} timed
   * @param {MeasurePolicy} policy
   * @param {number} [runs] of its first batch
   */
  async warmUp(timed, policy, runs = 1) {
    const target_ms = this.target(policy);
    const rested = performance.now() - this.#busy_until > REST_MS;
    const least_ms = rested ? policy.warmup_ms : policy.warmup_ms / 3;
    const start = performance.now();
    let fastest = Infinity;
    for (;;) {
      const [ms] = await this.take([{ timed, runs }]);
      const spent = performance.now() - start;
      if (ms >= target_ms / 4 || runs === MOST_BATCH) fastest = Math.min(fastest, ms / runs);
      if ((fastest < Infinity && spent >= least_ms) || spent >= policy.max_ms / 4) {
        timed.batch = batchFor(target_ms, Math.min(fastest, ms / runs));
        return;
      }
      // half of what is left at a time: each end is a wait for the page to notice it
      const next_ms = Math.max(target_ms, (least_ms - spent) / 2);
      runs = ms > 0 ? Math.min(batchFor(next_ms, ms / runs), runs * 16) : Math.min(runs * 4, MOST_BATCH);
    }
  }

  /**
   * Interleaved samples, in the order C I I C C I I C ...
   *
   * @param {Timed} challenger
   * @param {Timed | null} incumbent
   * @param {MeasurePolicy} policy
   * @returns {Promise<GpuSamples>} ms of one run each; `batch` is the challenger's
   */
  async sample(challenger, incumbent, policy) {
    const start = this.clock.now();
    const late_before = this.late_ms;
    const target_ms = this.target(policy);
    if (!challenger.batch) await this.warmUp(challenger, policy, Math.max(1, Math.ceil(FIRST_BATCH * (incumbent?.batch ?? 0))));
    if (incumbent && !incumbent.batch) await this.warmUp(incumbent, policy);
    if (performance.now() - this.#busy_until > REST_MS) await this.warmUp(incumbent ?? challenger, policy);
    /** @type {number[]} */
    const samples_ms = [];
    /** @type {number[]} */
    const incumbent_ms = [];
    let stopped_early = false;
    let pairs = 0;
    for (let done = 0; done < policy.pairs && !stopped_early; done += pairs) {
      pairs = Math.min(2, policy.pairs);
      if (done) {
        if (this.clock.now() - start >= policy.max_ms) break;
        const pair_ms = challenger.batch * median(samples_ms) + (incumbent ? incumbent.batch * median(incumbent_ms) : 0);
        pairs = Math.min(policy.pairs - done, Math.max(1, Math.floor(GROUP_MS / pair_ms)));
      }
      const order = Array.from({ length: pairs }, (_, i) => [challenger, incumbent].map((_, j, two) => two[(i + done + j) % 2]))
        .flat()
        .flatMap((timed) => (timed ? [timed] : []));
      // the first of a submission meets a GPU that has just rested: it is nobody's
      const lead = { timed: order[order.length - 1], runs: Math.ceil(order[order.length - 1].batch / 2) };
      const times = (await this.#takeSteady([lead, ...order.map((timed) => ({ timed, runs: timed.batch }))])).slice(1);
      const short = new Set(order.filter((timed, i) => times[i] < target_ms / 2 && timed.batch < MOST_BATCH));
      if (short.size && !done && this.clock.now() - start < policy.max_ms) {
        // the clocks went up meanwhile
        for (const timed of short) timed.batch = batchFor(target_ms, Math.min(...times.filter((_, i) => order[i] === timed)) / timed.batch, timed.batch + 1);
        pairs = 0;
        continue;
      }
      order.forEach((timed, i) => (timed === challenger ? samples_ms : incumbent_ms).push(times[i] / timed.batch));
      stopped_early = done === 0 && incumbent !== null && samples_ms.length === 2 && Math.min(...samples_ms) > policy.early_stop_ratio * median(incumbent_ms);
    }
    const wall_ms = stopped_early ? 0 : await this.#wall(challenger);
    const { gpu_clock, late_ms } = this;
    return { samples_ms, incumbent_ms, batch: challenger.batch, stopped_early, gpu_clock, wall_ms, late_ms: late_ms - late_before };
  }

  /**
   * A cross-check of the GPU's clock: the same work by the page's.
   * @param {Timed} timed
   */
  async #wall({ commands, batch }) {
    const start = performance.now();
    for (let n = 0; n < batch; n++) this.device.encode(commands);
    await this.device.done();
    return (performance.now() - start) / batch;
  }
}

/**
 * @param {number} target_ms
 * @param {number} each_ms of one run
 */
const batchFor = (target_ms, each_ms, least = 1) => Math.min(MOST_BATCH, Math.max(least, Math.ceil(target_ms / Math.max(each_ms, 1e-6))));

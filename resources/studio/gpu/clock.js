/** Whether the GPU's clock is where it was at its best. */
import { whole } from "../../engine/gpu/commands.js";

/** Dependent multiply-adds take as many cycles as ever, whatever else there is to fetch. */
const UNROLLED = 64;
const TURNS = 256;
export const CHAIN_STEPS = UNROLLED * TURNS;
export const CHAIN = `@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(1) fn main() {
  var v = x[0]; let a = x[1]; let b = x[2];
  for (var i = 0u; i < ${TURNS}u; i++) { ${"v = fma(v, a, b); ".repeat(UNROLLED)} }
  x[3] = v;
}`;
/** What `x` holds: v, a, b and the result; v stays a normal number. */
export const CHAIN_VALUES = new Float32Array([0.5, 0.75, 0.125, 0]);
/** Of the fastest chain seen: slower means that the clock is down. */
export const STEADY = 1.1;

const LEAST_QUANTA = 20;

/** @import { Dispatch, GpuDevice } from "../../types/gpu.js" */

export class ClockWatch {
  #best_ms = Infinity;

  /**
   * @param {GpuDevice} device
   * @returns {Promise<ClockWatch | null>} null without a GPU, or a GPU's own clock, to watch
   */
  static async open(device) {
    if (!device.timestamps.available || device.info.is_fallback) return null;
    const buffer = device.createBuffer(CHAIN_VALUES.byteLength, "clock");
    device.write(buffer, 0, new Uint8Array(CHAIN_VALUES.buffer));
    const pipeline = await device.pipeline({ code: CHAIN, entry: "main", access: ["read_write"] });
    const bindings = [whole(buffer)];
    return new ClockWatch({ op: "dispatch", pipeline, bindings, workgroups: [1, 1, 1] }, device.timestamps.quantum_ns);
  }

  /** @param {Dispatch} look @param {number} quantum_ns */
  constructor(look, quantum_ns) {
    this.timed = { commands: [look], batch: 1 };
    this.least_ms = (LEAST_QUANTA * quantum_ns) / 1e6;
  }

  /**
   * @param {number} ms of a look; a clock too coarse for it tells nothing
   * @returns {boolean} whether the clock is up
   */
  steady(ms) {
    if (ms < this.least_ms) return true;
    this.#best_ms = Math.min(this.#best_ms, ms);
    return ms <= STEADY * this.#best_ms;
  }

  /** The clock will not get where it was: hot, or short of power. What it does now is its best.
   * @param {number} ms of the last look */
  settle(ms) {
    this.#best_ms = ms;
  }
}

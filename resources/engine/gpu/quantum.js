/** How fine the GPU's clock is. */
import { whole } from "./commands.js";

/** @import { GpuDevice } from "../../types/gpu.js" */

/** Long enough for coarse clocks to move while a few run. */
const CODE = `@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  var n = id.x + x[id.x];
  for (var i = 0u; i < 256u; i++) { n = n * 1664525u + 1013904223u; }
  x[id.x] = n;
}`;
const STAMPS = 128;
const MOST_ROUNDS = 12;
/** Rounds in a row in which nothing finer was seen, among clocks that did move. */
const SURE = 3;
const NBYTES = 4 * 64;

/** @param {bigint} a @param {bigint} b @returns {bigint} */
const gcd = (a, b) => (b ? gcd(b, a % b) : a);

/**
 * A device that knows how fine its timestamps are; it has none where their clock does not move.
 * @template {GpuDevice} Device
 * @param {Device} device
 */
export async function withClock(device) {
  if (!device.timestamps.available) return device;
  const quantum_ns = await timestampQuantum(device);
  device.timestamps = { ...device.timestamps, available: quantum_ns > 0, quantum_ns };
  return device;
}

/**
 * The largest step that all differences of many stamps are multiples of.
 *
 * @param {GpuDevice} device with timestamps
 * @returns {Promise<number>} ns; 0 when the clock does not move
 */
async function timestampQuantum(device) {
  const buffer = device.createBuffer(NBYTES, "quantum");
  const pipeline = await device.pipeline({ code: CODE, entry: "main", access: ["read_write"] });
  const bindings = [whole(buffer)];
  let quantum = 0n;
  let sure = 0;
  for (let round = 0; round < MOST_ROUNDS && sure < SURE; round++) {
    for (let i = 0; i < STAMPS; i += 2)
      device.encode([
        { op: "stamp", index: i },
        { op: "dispatch", pipeline, bindings, workgroups: [1, 1, 1] },
        { op: "stamp", index: i + 1 },
      ]);
    const stamps = await device.readStamps(STAMPS);
    const before = quantum;
    for (let i = 1; i < STAMPS; i++) {
      const step = stamps[i] - stamps[i - 1];
      quantum = gcd(quantum, step < 0n ? -step : step);
    }
    sure = quantum && quantum === before ? sure + 1 : 0;
  }
  device.destroyBuffer(buffer);
  return Number(quantum);
}

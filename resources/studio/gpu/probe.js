/** What a GPU is and what it can do at most. */
import { whole } from "../../engine/gpu/commands.js";
import { GpuError } from "../../engine/gpu/errors.js";
import { callOf, Kernels } from "../../engine/gpu/kernels.js";
import { sentence } from "../../engine/tuning/measured.js";
import { openGpu } from "./open.js";
import { Sampler } from "./timing.js";

/** @import { Dispatch, GpuDevice, GpuSource } from "../../types/gpu.js" */

const SAMPLES = 7;
/** Larger than the caches of a GPU; of a processor's too, but there it has to be quick. */
const COPY_BYTES = 2 ** 28;
const SOFTWARE_COPY_BYTES = 2 ** 25;
/** As many as a processor runs that plays a GPU: two thousand took two seconds of its time. */
const SOFTWARE_WORKGROUPS = 128;
const TINY_DISPATCHES = 1000;
const POLICY = { pairs: 1, min_sample_ms: 2, min_quanta: 20, warmup_ms: 100, early_stop_ratio: 3, max_ms: 2000 };

const COPY = `@group(0) @binding(0) var<storage, read> source: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> copy: array<vec4<u32>>;
@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.y * groups.x * 256u + id.x;
  if (i < arrayLength(&source)) { copy[i] = source[i]; }
}`;
const TINY = `@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(1) fn main() { x[0] += 1u; }`;

const NOTHING = {
  available: false,
  reason: "",
  vendor: "",
  architecture: "",
  device: "",
  description: "",
  driver: "",
  is_fallback: false,
  features: /** @type {string[]} */ ([]),
  language_features: /** @type {string[]} */ ([]),
  limits: /** @type {Record<string, number>} */ ({}),
  subgroup_min: 0,
  subgroup_max: 0,
  timestamp_quantum_ns: 0,
  peak_gflops: 0,
  copy_gbs: 0,
  dispatch_us: 0,
};

/**
 * @param {GpuSource} source
 * @param {Uint8Array | undefined} peak document of a kernel without arguments
 * @param {number} flops of one run of it
 */
export async function probeGpu(source, peak, flops) {
  const { implementation } = source;
  let device;
  try {
    device = await openGpu(source);
  } catch (e) {
    if (!(e instanceof GpuError) || e.code !== "gpu-unavailable") throw e;
    return { ...NOTHING, implementation, reason: sentence(e) };
  }
  try {
    const { info, features, limits, timestamps } = device;
    const peak_gflops = peak ? flops / (await peakMs(device, peak)) / 1e6 : 0;
    const rates = { peak_gflops, copy_gbs: await copyRate(device), dispatch_us: await dispatchUs(device) };
    return { ...NOTHING, ...info, available: true, features: [...features], limits, timestamp_quantum_ns: timestamps.available ? timestamps.quantum_ns : 0, ...rates };
  } finally {
    device.destroy();
  }
}

/**
 * Ms of one run: of some samples the best, which nothing disturbed. A processor that plays a GPU
 * takes up to a second for a run, has no clock to raise and says nothing of a GPU: one run has to do.
 * @param {GpuDevice} device
 * @param {readonly Dispatch[]} commands
 */
async function bestMs(device, commands) {
  const sampler = new Sampler(device, { now: () => performance.now(), quantum_ms: 0.1 });
  const software = device.info.is_fallback;
  const timed = { commands, batch: software ? 1 : 0 };
  if (!software) await sampler.warmUp(timed, POLICY);
  let best = Infinity;
  for (let i = 0; i < SAMPLES && (best === Infinity || !software); i++) {
    const [ms] = await sampler.take([{ timed, runs: timed.batch }]);
    if (ms > 0) best = Math.min(best, ms / timed.batch);
  }
  return best;
}

/**
 * Ms of one run of a peak kernel: one dispatch without arguments. Its workgroups all take the same
 * time, so on a processor that plays a GPU some of them tell it.
 * @param {GpuDevice} device
 * @param {Uint8Array} bytes its document
 */
export async function peakMs(device, bytes) {
  const kernel = await new Kernels(device).compile({ workload: "peak", settings: "", panels: [], parallel_extent: 1 }, bytes, 0);
  const scratch = kernel.document.scratch.map((nbytes) => device.createBuffer(nbytes, "peak"));
  const [command] = callOf(kernel, [], scratch.map(whole));
  const [x, y, z] = command.workgroups;
  const some = device.info.is_fallback ? Math.min(x, SOFTWARE_WORKGROUPS) : x;
  const ms = await bestMs(device, [{ ...command, workgroups: [some, y, z] }]);
  for (const buffer of scratch) device.destroyBuffer(buffer);
  return (ms * x) / some;
}

/**
 * @param {GpuDevice} device
 * @returns {Promise<number>} GB/s, bytes read and bytes written
 */
async function copyRate(device) {
  const { info, limits } = device;
  const wanted = info.is_fallback ? SOFTWARE_COPY_BYTES : COPY_BYTES;
  const nbytes = Math.floor(Math.min(wanted, limits.maxStorageBufferBindingSize, limits.maxBufferSize) / 4096) * 4096;
  const buffers = ["source", "copy"].map((label) => device.createBuffer(nbytes, label));
  const pipeline = await device.pipeline({ code: COPY, entry: "main", access: ["read", "read_write"] });
  const groups = nbytes / 4096;
  const rows = Math.ceil(groups / 65535);
  const bindings = buffers.map(whole);
  const ms = await bestMs(device, [{ op: "dispatch", pipeline, bindings, workgroups: [Math.ceil(groups / rows), rows, 1] }]);
  for (const buffer of buffers) device.destroyBuffer(buffer);
  return (2 * nbytes) / ms / 1e6;
}

/**
 * Of a kernel that does nothing worth mentioning, among many in one pass.
 * @param {GpuDevice} device
 */
async function dispatchUs(device) {
  const buffer = device.createBuffer(4, "tiny");
  const pipeline = await device.pipeline({ code: TINY, entry: "main", access: ["read_write"] });
  /** @type {Dispatch} */
  const one = { op: "dispatch", pipeline, bindings: [whole(buffer)], workgroups: [1, 1, 1] };
  const ms = await bestMs(device, Array.from({ length: TINY_DISPATCHES }, () => one));
  device.destroyBuffer(buffer);
  return (ms / TINY_DISPATCHES) * 1000;
}

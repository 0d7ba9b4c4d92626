/** A bundle on the browser's own WebGPU. */
import { EngineError } from "../../engine/errors.js";
import { GpuEngine } from "../../engine/gpu/engine.js";
import { openNative } from "../../engine/gpu/native/device.js";
import { onGpu } from "../../engine/plan.js";
import { check, fetchFile, streamFile } from "../bundle_fetch.js";

/** @import { Bundle, FileEntry, GpuKernelEntry, Plan } from "../../types/engine.js" */

/** Parts of the weights: a part ends where a word does. */
const PART_BYTES = 8 * 2 ** 20;

/** @param {Bundle} bundle */
export async function openOnGpu({ base, manifest, plan, others }) {
  const { gpu_kernels = [] } = manifest;
  const device = await openNative();
  try {
    const packed = device.info.language_features.includes("packed_4x8_integer_dot_product");
    const tier = packed && device.features.has("subgroups") ? "wgsl-subgroups" : "wgsl";
    const engine = new GpuEngine(device);
    await engine.load(onGpu(/** @type {Plan} */ (plan)), others);
    const [kernels] = await Promise.all([
      Promise.all(gpu_kernels.map((entry) => fetchWgsl(base, entry, tier))),
      uploadWeights(base, manifest.weights, engine),
    ]);
    const { memory_bytes } = await engine.register(kernels);
    return { engine, tier, threads: 1, memory_bytes, close: () => device.destroy() };
  } catch (e) {
    device.destroy();
    throw e;
  }
}

/**
 * @param {URL} base
 * @param {GpuKernelEntry} entry
 * @param {string} best tier of the device
 */
async function fetchWgsl(base, { tiers, workload, settings }, best) {
  const file = tiers[best] ?? tiers.wgsl;
  if (!file) throw new EngineError(`The bundle has no kernel of ${workload} that this GPU can run.`, "Export it with the wgsl tier.");
  return { workload, settings, panels: [], parallel_extent: 1, sha256: file.sha256, bytes: await fetchFile(base, file) };
}

/**
 * In parts of whole words, through a copy in the page that is compared with its hash.
 * @param {URL} base
 * @param {FileEntry} entry
 * @param {GpuEngine} engine
 */
async function uploadWeights(base, entry, engine) {
  const whole = new Uint8Array(entry.nbytes);
  let sent = 0;
  await streamFile(base, entry, async (at, bytes) => {
    whole.set(bytes, at);
    const ready = at + bytes.length;
    while (ready - sent >= PART_BYTES) {
      await engine.setWeights(sent, whole.subarray(sent, sent + PART_BYTES));
      sent += PART_BYTES;
    }
  });
  if (sent < entry.nbytes) await engine.setWeights(sent, whole.subarray(sent));
  await check(entry, whole);
}

/** A bundle on the browser's own WebGPU. */
import { Engine } from "../../engine/engine.js";
import { EngineError, script } from "../../engine/errors.js";
import { GpuEngine } from "../../engine/gpu/engine.js";
import { openNative } from "../../engine/gpu/native/device.js";
import { onGpu, OPEN_VERSION } from "../../engine/plan.js";
import { eachShard, fetchFile } from "../bundle_fetch.js";

/** @import { MixedEngine } from "../../engine/gpu/mixed/engine.js" */
/** @import { Bundle, FileEntry, GpuKernelEntry, OpenPlan, Plan } from "../../types/engine.js" */
/** @import { GpuDevice } from "../../types/gpu.js" */

/** Parts of the weights: a part ends where a word does. */
const PART_BYTES = 8 * 2 ** 20;

/** @param {Bundle} bundle */
export async function openOnGpu(bundle) {
  const { base, manifest, plan, others } = bundle;
  const { gpu_kernels = [] } = manifest;
  const device = await openNative();
  try {
    const packed = device.info.language_features.includes("packed_4x8_integer_dot_product");
    const tier = packed && device.features.has("subgroups") ? "wgsl-subgroups" : "wgsl";
    const whole = new GpuEngine(device);
    const engine = manifest.mixed ? await openMixed(bundle, manifest.mixed, whole) : whole;
    const sizes = plan.version === OPEN_VERSION ? await sizesOf(/** @type {OpenPlan} */ (plan), device) : null;
    if (engine === whole) await whole.load(sizes?.plan ?? onGpu(/** @type {Plan} */ (plan)), others, sizes);
    const [kernels] = await Promise.all([
      Promise.all(gpu_kernels.map((entry) => fetchWgsl(base, entry, tier))),
      eachShard(manifest.weights, async (entry, offset) => upload(engine, offset, await fetchFile(base, entry))),
    ]);
    const { memory_bytes } = await engine.register(kernels);
    return { engine, sizes, tier, threads: 1, memory_bytes, close: () => device.destroy() };
  } catch (e) {
    device.destroy();
    throw e;
  }
}

/** Only bundles for any size hold it. @param {OpenPlan} plan @param {GpuDevice} device */
async function sizesOf(plan, device) {
  const { GpuSizes } = await script(import("../../engine/gpu/open/sizes.js"));
  return new GpuSizes(plan, device);
}

/** Only bundles with such a plan hold it. @param {Bundle} bundle @param {FileEntry} file @param {GpuEngine} gpu */
async function openMixed(bundle, file, gpu) {
  const mixed = await script(import("./mixed/mixed.js"));
  return mixed.openMixed(bundle, file, gpu, new Engine());
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
 * In parts of whole words.
 * @param {GpuEngine | MixedEngine} engine
 * @param {number} offset
 * @param {Uint8Array<ArrayBuffer>} bytes that were compared with their hash
 */
async function upload(engine, offset, bytes) {
  for (let at = 0; at < bytes.length; at += PART_BYTES) await engine.setWeights(offset + at, bytes.subarray(at, at + PART_BYTES));
}

/** A bundle whose steps are divided between WebGPU and Wasm. */
import { EngineError } from "../../../engine/errors.js";
import { hasTier, TIERS } from "../../../engine/features.js";
import { MixedEngine } from "../../../engine/gpu/mixed/engine.js";
import { fetchFile } from "../../bundle_fetch.js";

/** @import { Bundle, FileEntry, KernelEntry, MixedPlan, NewKernel, Plan } from "../../../types/engine.js" */
/** @import { Engine } from "../../../engine/engine.js" */
/** @import { GpuEngine } from "../../../engine/gpu/engine.js" */

/** Which registers the kernels of Wasm with those of the GPU. */
class Divided extends MixedEngine {
  /** @type {NewKernel[]} */ ours = [];

  /** @param {NewKernel[]} kernels @param {{only?: boolean}} [options] */
  register(kernels, options) {
    return super.register([...kernels, ...this.ours], options);
  }
}

/**
 * The engine with its plan.
 * @param {Bundle} bundle
 * @param {FileEntry} file its segments
 * @param {GpuEngine} gpu without a model
 * @param {Engine} wasm without a model
 */
export async function openMixed({ base, manifest, plan }, file, gpu, wasm) {
  /** @type {MixedPlan} */
  const mixed = JSON.parse(new TextDecoder().decode(await fetchFile(base, file)));
  const engine = new Divided(gpu, wasm);
  await engine.load(/** @type {Plan} */ (plan), mixed);
  const steps = mixed.segments.filter((s) => s.device === "wasm").flatMap((s) => s.plan.steps);
  const ours = manifest.kernels.filter(({ workload }) => steps.some((s) => s.workload === workload));
  engine.ours = await Promise.all(ours.map((entry) => fetchWasm(base, entry)));
  return engine;
}

/** @param {URL} base @param {KernelEntry} entry @returns {Promise<NewKernel>} */
async function fetchWasm(base, { tiers, ...header }) {
  const tier = TIERS.find((each) => hasTier(each) && tiers[each]);
  if (!tier) throw new EngineError(`The bundle has no kernel of ${header.workload} that this browser can run.`, "Export it with the simd128 tier.");
  return { ...header, tier, bytes: await fetchFile(base, /** @type {FileEntry} */ (tiers[tier])) };
}

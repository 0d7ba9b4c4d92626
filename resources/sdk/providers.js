/** What can run a bundle: WebGPU and Wasm, each with the ladder of its tiers. */
import { Engine } from "../engine/engine.js";
import { EngineError } from "../engine/errors.js";
import { bestTier, hasTier, TIERS } from "../engine/features.js";
import { OPEN_VERSION } from "../engine/plan.js";
import { Team } from "../engine/team.js";
import { check, eachShard, fetchFile, streamFile } from "./bundle_fetch.js";

/** @import { GpuEngine } from "../engine/gpu/engine.js" */
/** @import { Sizes } from "../engine/open/sizes.js" */
/** @import { Bundle, KernelEntry, OpenPlan, Plan } from "../types/engine.js" */
/**
 * A model that is ready to run.
 * @typedef {{engine: Engine | GpuEngine, sizes?: Sizes | null, tier: string, threads: number, memory_bytes: number, close: () => void}} Opened
 */
/** What opened, why one before it did not, and what is left to try. @typedef {{opened: Opened, provider: string, reason: string, left: string[]}} Choice */

/** By the name of the execution provider. @type {Record<string, (bundle: Bundle, threads: number) => Promise<Opened>>} */
export const PROVIDERS = { webgpu: openOnGpu, wasm: openInWasm };

/**
 * The first provider that works here.
 * @param {string[]} names at least one
 * @param {Bundle} bundle
 * @param {number} threads of Wasm
 * @returns {Promise<Choice>}
 */
export async function openFirst(names, bundle, threads) {
  /** @type {string[]} */
  const reasons = [];
  for (let [provider, ...left] = names; ; [provider, ...left] = left)
    try {
      const opened = await PROVIDERS[provider](bundle, threads);
      return { opened, provider, reason: reasons.join(" "), left };
    } catch (e) {
      if (!left.length) throw e;
      reasons.push(e instanceof EngineError ? e.error : String(e));
    }
}

/** @param {Bundle} bundle @param {number} threads @returns {Promise<Opened>} */
async function openInWasm({ base, manifest, plan, others }, threads) {
  const tier = bestTier();
  if (!tier) throw new EngineError("This browser has no Wasm SIMD.", "Use Chrome 91, Firefox 89, Safari 16.4 or later.");
  const team = threads > 1 ? await Team.start(threads) : null;
  try {
    const engine = new Engine(team);
    const sizes = plan.version === OPEN_VERSION ? await sizesOf(/** @type {OpenPlan} */ (plan)) : null;
    const memory_bytes = engine.load(sizes?.everyVariant ?? /** @type {Plan} */ (plan), others, sizes);
    const [kernels] = await Promise.all([
      Promise.all(manifest.kernels.map((k) => fetchWasm(base, k))),
      eachShard(manifest.weights, async (entry, offset) => {
        await streamFile(base, entry, (at, bytes) => engine.setWeights(offset + at, bytes));
        if (entry.nbytes) await check(entry, engine.weights(entry.nbytes, offset));
      }),
    ]);
    await engine.register(kernels);
    const close = () => {
      team?.close();
      engine.dispose();
    };
    return { engine, sizes, tier, threads: team?.threads ?? 1, memory_bytes, close };
  } catch (e) {
    team?.close();
    throw e;
  }
}

/** Only bundles for any size hold it. @param {OpenPlan} plan */
async function sizesOf(plan) {
  const { Sizes } = await import("../engine/open/sizes.js");
  return new Sizes(plan);
}

/** @param {URL} base @param {KernelEntry} entry */
async function fetchWasm(base, { tiers, ...header }) {
  const file = TIERS.filter((tier) => hasTier(tier)).map((tier) => tiers[tier]).find(Boolean);
  if (!file) throw new EngineError(`The bundle has no kernel of ${header.workload} that this browser can run.`, "Export it with the simd128 tier.");
  return { ...header, bytes: await fetchFile(base, file) };
}

/** @param {Bundle} bundle @returns {Promise<Opened>} */
async function openOnGpu(bundle) {
  if (!bundle.manifest.gpu_kernels?.length) throw new EngineError("The bundle has no kernels for WebGPU.", "Export it with --webgpu.");
  const gpu = await import("./gpu/provider.js"); // only bundles with such kernels hold it
  return gpu.openOnGpu(bundle);
}

/** What can run a bundle: WebGPU and Wasm, each with the ladder of its tiers. */
import { Engine } from "../engine/engine.js";
import { EngineError, script } from "../engine/errors.js";
import { bestTier, hasTier, TIERS } from "../engine/features.js";
import { compileKernel } from "../engine/kernel.js";
import { OPEN_VERSION } from "../engine/plan.js";
import { check, eachShard, fetchFile, streamFile } from "./bundle_fetch.js";
import { Common } from "./common.js";

/** @import { GpuEngine } from "../engine/gpu/engine.js" */
/** @import { MixedEngine } from "../engine/gpu/mixed/engine.js" */
/** @import { GpuSizes } from "../engine/gpu/open/sizes.js" */
/** @import { Sizes } from "../engine/open/sizes.js" */
/** @import { Ahead } from "../engine/open/warm.js" */
/** @import { Team } from "../engine/team.js" */
/** @import { Bundle, KernelEntry, OpenPlan, Plan, ReadyKernel } from "../types/engine.js" */
/** @import { Share } from "./common.js" */
/**
 * A model that is ready to run.
 * @typedef {{engine: Engine | GpuEngine | MixedEngine, sizes?: Sizes | GpuSizes | null, ahead?: Ahead, tier: string, threads: number, memory_bytes: number, close: () => void}} Opened
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

/** Modules by the hash of their kernel. @type {Common<WebAssembly.Module>} */
const modules = new Common();
/** Threads by their number: models take turns on them. @type {Common<Team>} */
const teams = new Common((team) => team.close(), (team) => team.lost);

/** @param {Bundle} bundle @param {number} threads @returns {Promise<Opened>} */
async function openInWasm({ base, manifest, plan, others }, threads) {
  const tier = bestTier();
  if (!tier) throw new EngineError("This browser has no Wasm SIMD.", "Use Chrome 91, Firefox 89, Safari 16.4 or later.");
  /** @type {(() => void)[]} */
  const ends = [];
  const use = (/** @type {Share<any>} */ { value, leave }) => (ends.push(leave), value);
  const close = () => ends.splice(0).forEach((end) => end());
  try {
    /** @type {Team | null} */
    const team = threads > 1 ? await use(teams.take(String(threads), () => startTeam(threads))) : null;
    const engine = new Engine(team);
    ends.unshift(() => engine.dispose());
    const sizes = plan.version === OPEN_VERSION ? await sizesOf(/** @type {OpenPlan} */ (plan)) : null;
    const memory_bytes = engine.load(sizes?.everyVariant ?? /** @type {Plan} */ (plan), others, sizes);
    const [kernels] = await Promise.all([
      Promise.all(manifest.kernels.map((k) => compiled(base, k, team !== null, use))),
      eachShard(manifest.weights, async (entry, offset) => {
        await streamFile(base, entry, (at, bytes) => engine.setWeights(offset + at, bytes));
        if (entry.nbytes) await check(entry, engine.weights(entry.nbytes, offset));
      }),
    ]);
    await engine.register(kernels);
    return { engine, sizes, ahead: sizes?.ahead(engine), tier, threads: team?.threads ?? 1, memory_bytes, close };
  } catch (e) {
    close();
    throw e;
  }
}

/** Only pages with threads load them. @param {number} threads */
const startTeam = async (threads) => (await script(import("../engine/team.js"))).Team.start(threads);

/** Only bundles for any size hold it. @param {OpenPlan} plan */
async function sizesOf(plan) {
  const { Sizes } = await script(import("../engine/open/sizes.js"));
  return new Sizes(plan);
}

/**
 * A kernel, compiled as soon as it is there.
 * @param {URL} base
 * @param {KernelEntry} entry
 * @param {boolean} shared whether the memory that it will run in is
 * @param {(share: Share<WebAssembly.Module>) => Promise<WebAssembly.Module>} use
 * @returns {Promise<ReadyKernel>}
 */
async function compiled(base, { tiers, ...header }, shared, use) {
  const file = TIERS.filter((tier) => hasTier(tier)).map((tier) => tiers[tier]).find(Boolean);
  if (!file) throw new EngineError(`The bundle has no kernel of ${header.workload} that this browser can run.`, "Export it with the simd128 tier.");
  const make = async () => compileKernel(await fetchFile(base, file), header.workload, shared);
  const key = `${file.sha256} ${shared}`;
  return { ...header, module: await use(modules.take(key, make)) };
}

/** @param {Bundle} bundle @returns {Promise<Opened>} */
async function openOnGpu(bundle) {
  if (!bundle.manifest.gpu_kernels?.length) throw new EngineError("The bundle has no kernels for WebGPU.", "Export it with --webgpu, or use Wasm.");
  const gpu = await script(import("./gpu/provider.js")); // only bundles with such kernels hold it
  return gpu.openOnGpu(bundle);
}

/** Finds the browser's GPU and asks for all of it that a kernel could use. */
import { GpuError } from "../errors.js";

/** @import { GpuInfo } from "../../../types/gpu.js" */

/** The first answer of a fresh browser may be no: its GPU process is still settling. */
const PATIENCE_MS = 2000;
const PAUSE_MS = 200;
/** A browser whose GPU process fails again and again does not answer at all. */
const ANSWER_MS = 15000;

const FEATURES = ["timestamp-query", "subgroups", "subgroup-size-control", "shader-f16"];
const EXPERIMENTAL = "chromium-experimental-";

/** The limits that kernels meet; asking for less would be refusing them. */
export const LIMITS = [
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxStorageBuffersPerShaderStage",
  "maxBindingsPerBindGroup",
  "minStorageBufferOffsetAlignment",
  "maxComputeWorkgroupStorageSize",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX",
  "maxComputeWorkgroupSizeY",
  "maxComputeWorkgroupSizeZ",
  "maxComputeWorkgroupsPerDimension",
];

/** Software drivers that do not say so themselves. */
const SOFTWARE = /swiftshader|llvmpipe|lavapipe|softpipe|basic render|\bwarp\b/i;

/** @param {GPU | undefined} gpu @returns {Promise<GPUAdapter>} */
export async function findAdapter(gpu, now = () => performance.now()) {
  if (!gpu) throw new GpuError("gpu-unavailable", "This browser has no WebGPU here.", "Use a current Chrome, Chromium or Edge, or the Wasm backend.");
  const end = now() + PATIENCE_MS;
  let why = "";
  do {
    const asked = gpu.requestAdapter({ powerPreference: "high-performance" });
    const adapter = await answered(asked).catch((e) => void (why = String(e.message)));
    if (adapter) return adapter;
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  } while (now() < end);
  throw new GpuError(
    "gpu-unavailable",
    `This browser has WebGPU, but no adapter for it${why ? ` (${why})` : ""}.`,
    "Look at chrome://gpu, update the graphics driver, or use the Wasm backend.",
  );
}

/**
 * @template T
 * @param {Promise<T>} asked
 * @returns {Promise<T>}
 */
async function answered(asked) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const silence = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it does not answer within ${ANSWER_MS / 1000} s`)), ANSWER_MS);
  });
  try {
    return /** @type {T} */ (await Promise.race([asked, silence]));
  } finally {
    clearTimeout(timer);
  }
}

/** @param {GPUAdapter} adapter */
export function describe(adapter) {
  const { features, limits } = adapter;
  const wanted = [...features].filter((f) => FEATURES.includes(f) || f.startsWith(EXPERIMENTAL));
  const known = LIMITS.flatMap((name) => {
    const value = /** @type {any} */ (limits)[name];
    return typeof value === "number" ? [[name, value]] : [];
  });
  return { features: wanted, limits: /** @type {Record<string, number>} */ (Object.fromEntries(known)) };
}

/** @param {GPUAdapter} adapter @param {Iterable<string>} language_features @returns {GpuInfo} */
export function infoOf(adapter, language_features) {
  const info = /** @type {any} */ (adapter.info);
  const { vendor = "", architecture = "", device = "", description = "", driver = "" } = info;
  const flagged = info.isFallbackAdapter ?? /** @type {any} */ (adapter).isFallbackAdapter ?? false;
  return {
    vendor,
    architecture,
    device,
    description,
    driver,
    is_fallback: flagged || [architecture, device, description].some((text) => SOFTWARE.test(text)),
    implementation: "navigator",
    language_features: [...language_features],
    subgroup_min: info.subgroupMinSize ?? 0,
    subgroup_max: info.subgroupMaxSize ?? 0,
  };
}

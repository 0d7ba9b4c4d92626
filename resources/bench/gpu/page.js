/** What the GPU's benchmark pages share: their job, their reports, the adapter. */
import { findAdapter } from "../../engine/gpu/adapter.js";
import { GpuError } from "../../engine/gpu/errors.js";
import { openOurs } from "./contenders.js";
import { watchGpu } from "./record.js";
import { Warmer } from "./warm.js";

const RETRY_MS = 200;
const JOB_MS = 600_000;

export const file = (/** @type {string} */ path) => new URL(`../../files/${path}`, import.meta.url).href;
export const post = (/** @type {string} */ path, /** @type {BodyInit} */ body) => fetch(new URL(`../../${path}`, import.meta.url), { method: "POST", body });
const wait = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** @param {Record<string, unknown>} message */
export function report(message) {
  const log = /** @type {HTMLElement} */ (document.getElementById("log"));
  log.textContent += `${JSON.stringify(message).slice(0, 400)}\n`;
  return post("report", JSON.stringify(message));
}

/** @param {string} path @returns {Promise<Float32Array<ArrayBuffer>>} */
export const fetchFloats = async (path) => new Float32Array(await (await fetch(file(path))).arrayBuffer());

/** @returns {Promise<any>} what is to be done: written when the adapter is known */
async function fetchJob() {
  for (const start = performance.now(); performance.now() - start < JOB_MS; await wait(RETRY_MS)) {
    const response = await fetch(file("job.json"));
    if (response.ok) return response.json();
  }
  throw new Error("No job came.");
}

/**
 * Opens our GPU layer, tells of the adapter, and waits for the job.
 * @returns {Promise<{job: any, gpu: import("../../types/gpu.js").GpuDevice, device: any, warmer: Warmer}>}
 */
export async function begin() {
  watchGpu();
  if (!crossOriginIsolated) throw new Error("The page is not cross-origin isolated.");
  const { gpu, device } = await openOurs();
  const { info, features, limits, timestamps } = gpu;
  const warmer = await Warmer.open(await findAdapter(navigator.gpu));
  await report({
    type: "adapter",
    ...info,
    features: [...features],
    limits,
    timestamp_quantum_ns: timestamps.quantum_ns,
    user_agent: navigator.userAgent,
  });
  return { job: await fetchJob(), gpu, device, warmer };
}

/**
 * Runs a page to its end and reports how it ended.
 * @param {() => Promise<Record<string, unknown>>} work
 */
export async function conduct(work) {
  try {
    await report({ type: "done", ...(await work()) });
  } catch (e) {
    const why = e instanceof GpuError ? e.message : /** @type {Error} */ (e).stack;
    await report({ type: "error", error: `The benchmark page failed: ${why ?? e}` });
  }
}

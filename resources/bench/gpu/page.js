/** What the GPU's benchmark pages share: their job, their reports, the adapter. */
import { GpuError } from "../../engine/gpu/errors.js";
import { findAdapter } from "../../engine/gpu/native/adapter.js";
import { conduct, file, report } from "../page.js";
import { openOurs } from "./contenders.js";
import { watchGpu } from "./record.js";
import { Warmer } from "./warm.js";

/** @import { GpuDevice } from "../../types/gpu.js" */

const RETRY_MS = 200;
const JOB_MS = 600_000;

const wait = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));

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
 * @returns {Promise<{job: any, gpu: GpuDevice, device: any, warmer: Warmer}>}
 */
export async function begin() {
  watchGpu();
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
export const conductGpu = (work) =>
  conduct(
    async () => report({ type: "done", ...(await work()) }),
    (e) => (e instanceof GpuError ? e.message : (e.stack ?? e)),
  );

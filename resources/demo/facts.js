/** What runs the model, and what it takes. */
import { ENGINE_VERSION } from "../engine/version.js";
import { make } from "./dom.js";

/** @import { InferenceSession } from "../sdk/session.js" */

/** @param {number} nbytes */
export const mebibytes = (nbytes) => (nbytes < 2 ** 20 ? `${(nbytes / 1024).toFixed(1)} KiB` : `${(nbytes / 2 ** 20).toFixed(1)} MiB`);

/** Rows of the table of facts. @param {InferenceSession} session @param {number} firstMs from the page's start to the first answer */
export function factsOf({ manifest, tier, threads, memoryBytes, executionProvider, fallbackReason }, firstMs) {
  const onGpu = executionProvider === "webgpu";
  const used = onGpu ? (manifest.gpu_kernels ?? []) : manifest.kernels;
  const kernels = used.map((k) => (k.tiers[tier] ?? k.tiers.simd128 ?? k.tiers.wgsl)?.nbytes ?? 0);
  const one = crossOriginIsolated ? "" : " (more need the page's COOP and COEP headers)";
  /** @type {[string, string, boolean?][]} */
  const rows = [
    ["First answer", `${(firstMs / 1000).toFixed(2)} s after the page opened`],
    ["Engine", `nnjit ${ENGINE_VERSION}, ${onGpu ? "WebGPU" : "WebAssembly"}, ${tier}`],
    ["Threads", onGpu ? "on the GPU" : `${threads}${threads === 1 ? one : ""}`],
    ["Memory", mebibytes(memoryBytes)],
    ["Weights", mebibytes(manifest.weights.nbytes)],
    ["Kernels", `${kernels.length}, ${mebibytes(kernels.reduce((a, b) => a + b, 0))}`],
    ["Files", "every hash checked"],
  ];
  if (fallbackReason) rows.splice(2, 0, ["Not on WebGPU", fallbackReason, true]);
  return rows.flatMap(([name, text, warn]) => [make("dt", {}, name), make("dd", { className: warn ? "warn" : "" }, text)]);
}

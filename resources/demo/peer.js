/** ONNX Runtime Web on the same inputs, where the visitor asks and the owner put it next to the page. */
import { median } from "../engine/quantile.js";

/** @import { Tensor } from "../sdk/session.js" */

const FOLDER = new URL("ort/", document.baseURI);
const BUDGET_MS = 2000;
const MAX_RUNS = 20;

/**
 * @param {Record<string, Tensor>} feeds
 * @returns {Promise<{ms: number, runs: number, version: string}>}
 */
export async function timePeer(feeds) {
  const [library, model] = [new URL("ort.wasm.min.mjs", FOLDER).href, new URL("model.onnx", FOLDER).href];
  const found = await Promise.all([library, model].map((file) => fetch(file, { method: "HEAD" }).then((r) => r.ok, () => false)));
  if (found.includes(false)) throw new Error("The owner of this page did not put ONNX Runtime Web next to it: ort/ort.wasm.min.mjs with its .wasm, and ort/model.onnx.");
  const ort = await import(library);
  ort.env.wasm.wasmPaths = FOLDER.href;
  ort.env.wasm.numThreads = 1;
  const session = await ort.InferenceSession.create(model, { executionProviders: ["wasm"] });
  const inputs = Object.fromEntries(Object.entries(feeds).map(([name, { type, data, dims }]) => [name, new ort.Tensor(type, data, dims)]));
  await session.run(inputs); // warms up
  /** @type {number[]} */
  const times = [];
  const start = performance.now();
  while (times.length < MAX_RUNS && (!times.length || performance.now() - start < BUDGET_MS)) {
    const before = performance.now();
    await session.run(inputs);
    times.push(performance.now() - before);
  }
  await session.release();
  return { ms: median(times), runs: times.length, version: ort.env.versions.web };
}

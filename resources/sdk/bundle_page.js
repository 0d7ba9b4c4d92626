/** The demo page of a bundle: loads it, runs it, shows latency and outputs. */
import { median } from "../engine/quantile.js";
import { InferenceSession, Tensor } from "./session.js";

/** @typedef {{name: string, dtype: string, shape: number[], file: string}} Sample */

const BUDGET_MS = 2000;
const MAX_RUNS = 20;
const PREVIEW = 6;

/** @param {string} id */
const element = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** What tests and the curious may look at. @type {Record<string, unknown>} */
const shared = { session: null, lastInputs: null, lastOutputs: null, runsMs: [] };
Object.assign(globalThis, { nnjit: shared });

/** @param {"loading" | "running" | "done" | "failed"} state @param {string} text */
function enter(state, text) {
  document.body.dataset.state = state;
  document.title = `${state}: ${element("model").textContent}`;
  element("state").textContent = text;
}

/** @param {number} nbytes */
const mebibytes = (nbytes) => (nbytes < 2 ** 20 ? `${(nbytes / 1024).toFixed(1)} KiB` : `${(nbytes / 2 ** 20).toFixed(1)} MiB`);

/** @param {InferenceSession} session */
function describe({ manifest, tier, threads, verified, memoryBytes, executionProvider, fallbackReason }) {
  element("model").textContent = manifest.name;
  const onGpu = executionProvider === "webgpu";
  const used = onGpu ? (manifest.gpu_kernels ?? []) : manifest.kernels;
  const kernels = used.map((k) => (k.tiers[tier] ?? k.tiers.simd128 ?? k.tiers.wgsl)?.nbytes ?? 0);
  const badges = [
    [onGpu ? `WebGPU, ${tier}` : tier, true],
    ...(fallbackReason ? [[`not on WebGPU: ${fallbackReason}`, false]] : []),
    [crossOriginIsolated ? "cross-origin isolated" : "not isolated: one thread", true],
    [`${threads} thread${threads === 1 ? "" : "s"}`, true],
    [`weights ${mebibytes(manifest.weights.nbytes)}`, true],
    [`${kernels.length} kernel${kernels.length === 1 ? "" : "s"}, ${mebibytes(kernels.reduce((a, b) => a + b, 0))}`, true],
    [`memory ${mebibytes(memoryBytes)}`, true],
    [verified ? "hashes checked" : "hashes not checked: no secure context", verified],
  ];
  element("badges").replaceChildren(
    ...badges.map(([text, good]) => {
      const item = document.createElement("li");
      item.textContent = String(text);
      item.className = good ? "badge" : "badge warn";
      return item;
    }),
  );
}

/**
 * The shipped sample inputs, or zeros where there are none.
 * @param {InferenceSession} session
 * @returns {Promise<Record<string, Tensor>>}
 */
async function makeFeeds(session) {
  /** @type {Sample[]} */
  const samples = /** @type {any} */ (session.manifest).samples?.inputs ?? [];
  const files = await Promise.all(session.inputNames.map((name) => fetchSample(samples.find((s) => s.name === name))));
  element("feeds").textContent = files.every(Boolean) ? "on the sample inputs" : "on zeros";
  return Object.fromEntries(
    session.inputMetadata.map(({ name, type }, i) => {
      const { shape } = session.manifest.inputs[i];
      const size = shape.reduce((n, d) => n * d, 1);
      const zeros = new Tensor(type, Array(size).fill(0), shape);
      const bytes = files[i];
      return [name, bytes ? new Tensor(type, new zeros.data.constructor(bytes), shape) : zeros];
    }),
  );
}

/** @param {Sample | undefined} sample */
async function fetchSample(sample) {
  if (!sample) return null;
  const response = await fetch(sample.file);
  if (!response.ok) throw new Error(`The sample input ${sample.file} is missing.`);
  return response.arrayBuffer();
}

/** @param {Record<string, Tensor>} outputs */
function preview(outputs) {
  const lines = Object.entries(outputs).flatMap(([name, { type, dims, data }]) => {
    const title = document.createElement("p");
    title.className = "workload";
    title.textContent = `${name}  ${type} [${dims.join(", ")}]`;
    const values = document.createElement("p");
    values.className = "settings";
    const some = Array.from(data.slice(0, PREVIEW), (v) => (typeof v === "number" ? +v.toPrecision(5) : v));
    values.textContent = some.join(", ") + (data.length > PREVIEW ? ", …" : "");
    return [title, values];
  });
  element("outputs").replaceChildren(...lines);
  element("outputs").hidden = false;
}

/** @param {InferenceSession} session @param {Record<string, Tensor>} feeds */
async function run(session, feeds) {
  enter("running", "Running");
  /** @type {HTMLButtonElement} */ (element("run")).disabled = true;
  await new Promise((resume) => setTimeout(resume, 30)); // lets the page draw before it is busy
  const start = performance.now();
  let outputs = await session.run(feeds); // the first run warms up
  /** @type {number[]} */
  const runs_ms = [];
  while (runs_ms.length < MAX_RUNS && (!runs_ms.length || performance.now() - start < BUDGET_MS)) {
    const before = performance.now();
    outputs = await session.run(feeds);
    runs_ms.push(performance.now() - before);
  }
  Object.assign(shared, { lastInputs: feeds, lastOutputs: outputs, runsMs: runs_ms });
  const sorted = [...runs_ms].sort((a, b) => a - b);
  const middle = median(runs_ms);
  element("latency").textContent = middle >= 10 ? middle.toFixed(1) : middle.toFixed(2);
  element("unit").hidden = false;
  element("runs").textContent = `median of ${sorted.length} runs · ${sorted[0].toFixed(2)} to ${sorted[sorted.length - 1].toFixed(2)} ms`;
  preview(outputs);
  /** @type {HTMLButtonElement} */ (element("run")).disabled = false;
  enter("done", "Done");
}

/** @param {unknown} thrown */
function fail(thrown) {
  element("note").textContent = thrown instanceof Error ? thrown.message : String(thrown);
  element("note").hidden = false;
  enter("failed", "Failed");
}

async function main() {
  const manifest = await (await fetch("manifest.json")).json();
  const executionProviders = manifest.gpu_kernels ? ["webgpu", "wasm"] : ["wasm"];
  const session = await InferenceSession.create("manifest.json", { executionProviders, numThreads: 0 });
  shared.session = session;
  describe(session);
  const feeds = await makeFeeds(session);
  element("run").addEventListener("click", () => run(session, feeds).catch(fail));
  await run(session, feeds);
}

main().catch(fail);

/** One bundle for any size at many lengths, in turns with bundles for one length and with ONNX Runtime Web. */
import { conduct, fetchJob, file, report } from "../page.js";
import { interleave } from "../rounds.js";
import { openOnnxRuntime, openOurs } from "../sessions.js";

/** @import { Contender, Policy } from "../rounds.js" */
/** @import { Input, Opened } from "../sessions.js" */
/** @typedef {{dim: string, vocabulary: number, inputs: {name: string, ids: boolean, floats?: boolean, tree?: boolean, dims: (number | string)[]}[], output: string}} Model */

/** Modules and pipelines that the page has compiled, whoever asked. */
let compiled = 0;
const counted = { apply: (/** @type {any} */ made, /** @type {any} */ device, /** @type {any[]} */ given) => (compiled++, Reflect.apply(made, device, given)) };
if ("GPUDevice" in window)
  for (const name of /** @type {const} */ (["createComputePipeline", "createComputePipelineAsync"]))
    Object.assign(GPUDevice.prototype, { [name]: new Proxy(GPUDevice.prototype[name], counted) });
const { compile, Module } = WebAssembly;
Object.assign(WebAssembly, {
  compile: (/** @type {BufferSource} */ bytes) => (compiled++, compile(bytes)),
  Module: new Proxy(Module, { construct: (target, args) => (compiled++, Reflect.construct(target, args)) }),
});

/** Files of ONNX Runtime Web. @type {Record<string, string>} */
const BUILDS = { wasm: "ort.wasm.min.mjs", webgpu: "ort.webgpu.min.mjs" };

/**
 * @param {Model} model
 * @param {number} length
 * @returns {Input[]} ids, masks of ones, floats, and the children of each node of a tree
 */
const inputsAt = ({ inputs, dim, vocabulary }, length) =>
  inputs.map(({ name, ids, floats, tree, dims }) => {
    const shape = dims.map((d) => (d === dim ? length : Number(d)));
    const count = { length: shape.reduce((a, b) => a * b, 1) };
    if (floats) return { name, type: "float32", dims: shape, data: Float32Array.from(count, (_, i) => Math.sin(i)) };
    if (tree) return { name, type: "int64", dims: shape, data: children(length) };
    const data = BigInt64Array.from(count, (_, i) => BigInt(ids ? (i * 7919) % vocabulary : 1));
    return { name, type: "int64", dims: shape, data };
  });

/** Two for each node of a binary tree, whose leaves come first: -1 for none. @param {number} nodes an odd number */
function children(nodes) {
  const leaves = (nodes + 1) / 2;
  return BigInt64Array.from({ length: 2 * nodes }, (_, i) => BigInt(i < 2 * leaves ? -1 : i - 2 * leaves));
}

/** @param {string} name @param {Opened} opened @param {Input[]} inputs @param {string} output @returns {Contender} */
function contender(name, { session, feeds, threads }, inputs, output) {
  const given = feeds(inputs);
  const run = async () => (await session.run(given))[output];
  const call = async () => {
    const start = performance.now();
    (await run()).dispose();
    return performance.now() - start;
  };
  return { name, threads, call, output: async () => (await run()).data.slice(), release: () => session.release() };
}

/** @param {Float32Array} a @param {Float32Array} b */
const difference = (a, b) => a.reduce((most, x, i) => Math.max(most, Math.abs(x - b[i])), 0);

/** Calls of a length that has run, before a call of another one is timed: what came before has left the page and the GPU. */
const SETTLING_MS = 150;
/** Later calls of a length, each taken as the first was: one call alone may be far off on any machine. */
const AGAIN = 5;

/** @param {Contender} known */
async function settled(known) {
  const start = performance.now();
  while (performance.now() - start < SETTLING_MS) await known.call();
}

conduct(async () => {
  const job = await fetchJob();
  /** @type {{model: Model, provider: string, threads: number, policy: Policy, lengths: number[], fixed: Record<string, string>, storm: number[], warm: number, seconds?: number}} */
  const { model, provider, threads, policy, lengths, fixed, storm, warm, seconds = Infinity } = job;
  const any = await openOurs(file("any/manifest.json"), threads, provider);
  const ort = await openOnnxRuntime(file("model.onnx"), threads, { provider, build: BUILDS[provider] });
  const loaded = compiled;
  const start = performance.now();
  const warm_runs = await any.session.warmUp({ [model.dim]: warm });
  const warm_ms = performance.now() - start;
  const known = contender("known", any, inputsAt(model, warm), model.output);
  let own = 0;
  for (const length of lengths) {
    if (performance.now() > 1000 * seconds) break;
    const inputs = inputsAt(model, length);
    const ours = contender("any", any, inputs, model.output);
    await settled(known);
    const before = compiled;
    const first_ms = await ours.call();
    const again_ms = [];
    while (again_ms.length < AGAIN) {
      await settled(known);
      again_ms.push(await ours.call());
    }
    const got = await ours.output();
    own += compiled - before;
    const peers = [contender("ort", ort, inputs, model.output)];
    const one = fixed[length] ? await openOurs(file(fixed[length]), threads, provider) : null;
    if (one) peers.push(contender("fixed", one, inputs, model.output));
    const differences = [];
    for (const peer of peers) differences.push(difference(got, await peer.output()));
    const samples_ms = await interleave([ours, ...peers], policy);
    await one?.session.release();
    const memory = { any: any.session.memoryBytes, forecast: any.session.sizes.memoryAt({ [model.dim]: length }), fixed: one?.session.memoryBytes ?? 0 };
    await report({ type: "length", length, first_ms, again_ms, samples_ms, differences, memory });
  }
  const memory = [];
  const before = compiled;
  for (const [i, length] of storm.entries()) {
    await contender("any", any, inputsAt(model, length), model.output).call();
    if (i % 100 === 99) memory.push({ wasm: any.session.memoryBytes, heap: /** @type {any} */ (performance).memory?.usedJSHeapSize ?? 0 });
  }
  own += compiled - before;
  await report({ type: "done", loaded, warm_runs, warm_ms, compiled_in_runs: own, memory, user_agent: navigator.userAgent, versions: { ort: (await import("../sessions.js")).onnxRuntimeLoaded().env.versions.web } });
});

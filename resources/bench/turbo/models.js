/** The page of `nnjit turbo --check` and `nnjit bench turbo`: one model in ONNX Runtime Web, with each build of its module. */
import { conduct, fetchInputs, fetchJob, file, post, report } from "../page.js";
import { interleave } from "../rounds.js";

/** @import { Contender, Policy } from "../rounds.js" */
/** @typedef {{name: string, type: string, dims: number[], file: string}} Input */
/**
 * @typedef {object} Job
 * @property {string} script of ONNX Runtime Web, below `dist/`
 * @property {string} glue that belongs to the module, below `dist/`
 * @property {Record<string, string>} builds modules by name
 * @property {number} threads
 * @property {string} onnx
 * @property {Input[]} inputs
 * @property {Policy | null} policy of timing; without it outputs alone are wanted
 */

const dist = (/** @type {string} */ path) => new URL(`../../dist/${path}`, import.meta.url).href;

/** ONNX Runtime Web of its own, with that module. @param {Job} job @param {string} name */
async function open(job, name) {
  // The query makes it another copy of the library: one holds one module.
  const ort = await import(`${dist(job.script)}?${name}`);
  const wasmPaths = { mjs: dist(job.glue), wasm: file(job.builds[name]) };
  Object.assign(ort.env.wasm, { wasmPaths, numThreads: job.threads });
  const session = await ort.InferenceSession.create(file(job.onnx), { executionProviders: ["wasm"], graphOptimizationLevel: "all" });
  return { ort, session };
}

/** @param {any} ort @param {Job} job */
async function feedsOf(ort, job) {
  const read = await fetchInputs(job);
  return Object.fromEntries(read.map(({ name, type, dims, data }) => [name, new ort.Tensor(type, data, dims)]));
}

/** Runs, reads the first value of every output. @param {any} session @param {any} feeds */
async function runAndRead(session, feeds) {
  let read = 0;
  for (const output of Object.values(await session.run(feeds))) {
    read += Number(output.data[0]);
    output.dispose();
  }
  return read;
}

await conduct(async () => {
  /** @type {Job} */
  const job = await fetchJob();
  /** @type {Contender[]} */
  const contenders = [];
  /** @type {Record<string, {name: string, type: string, dims: number[]}[]>} */
  const outputs = {};
  let versions = {};
  for (const name of Object.keys(job.builds)) {
    const { ort, session } = await open(job, name);
    versions = { "onnxruntime-web": ort.env.versions.web };
    const feeds = await feedsOf(ort, job);
    outputs[name] = [];
    for (const [output, tensor] of Object.entries(await session.run(feeds))) {
      if (!ArrayBuffer.isView(tensor.data)) throw new Error(`The output ${output} is no array of numbers.`);
      await post(`upload/${name}-${outputs[name].length}`, /** @type {any} */ (tensor.data));
      outputs[name].push({ name: output, type: tensor.type, dims: tensor.dims });
      tensor.dispose();
    }
    contenders.push({
      name,
      threads: ort.env.wasm.numThreads,
      call: () => runAndRead(session, feeds),
      output: async () => new Float32Array(),
      release: () => session.release(),
    });
  }
  const samples_ms = job.policy ? await interleave(contenders, job.policy) : {};
  for (const contender of contenders) await contender.release();
  const threads = contenders.map((c) => c.threads);
  await report({ type: "row", samples_ms, outputs, threads, versions, user_agent: navigator.userAgent });
});

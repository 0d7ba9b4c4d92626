/** The page of `nnjit bench kernels`: takes its job, measures shape after shape, reports. */
import { liteRt, onnxRuntime, ours, tensorFlow, versions } from "./contenders.js";
import { conduct, fetchBytes, fetchJob, file, post, report } from "./page.js";
import { interleave, warmUp } from "./rounds.js";

/** @import { Shape } from "./contenders.js" */
/** @import { Policy } from "./rounds.js" */
/** @typedef {{name: string, dims: number[], file: string, constant: boolean}} InputFile */
/**
 * @typedef {object} Job
 * @property {number} threads
 * @property {string[]} peers
 * @property {Policy} policy
 * @property {(Omit<Shape, "inputs"> & {inputs: InputFile[]})[]} shapes
 */

const PEERS = { ort: onnxRuntime, tfjs: tensorFlow, litert: liteRt };
/** @param {Job["shapes"][number]} shape @returns {Promise<Shape>} */
async function fetchShape(shape) {
  const inputs = shape.inputs.map(async (input) => ({ ...input, data: new Float32Array(await fetchBytes(input.file)) }));
  return { ...shape, inputs: await Promise.all(inputs), manifest: file(shape.manifest), onnx: file(shape.onnx), tflite: file(shape.tflite) };
}

/** @param {Job} job @param {number} index */
async function makeContenders(job, index) {
  const shape = await fetchShape(job.shapes[index]);
  const mine = await ours(shape, job.threads);
  const peers = await Promise.all(job.peers.map((p) => PEERS[/** @type {keyof typeof PEERS} */ (p)](shape, job.threads)));
  return { tier: mine.tier, contenders: [mine, ...peers] };
}

/**
 * Runs everything once around before anything counts: a large module like ONNX Runtime's
 * waits long for the optimising compiler, and its baseline code is as steady as the fast one.
 * @param {Job} job
 * @param {number} index
 */
async function rehearse(job, index) {
  const { contenders } = await makeContenders(job, index);
  for (const contender of contenders) {
    await warmUp(contender, job.policy, () => performance.now());
    await contender.release();
  }
  await report({ type: "rehearsed", index });
}

/** @param {Job} job @param {number} index */
async function measure(job, index) {
  const { tier, contenders } = await makeContenders(job, index);
  for (const contender of contenders) {
    const output = new Float32Array(await contender.output());
    await post(`upload/${index}-${contender.name}`, output);
  }
  const samples_ms = await interleave(contenders, job.policy);
  for (const contender of contenders) await contender.release();
  const threads = Object.fromEntries(contenders.map((c) => [c.name, c.threads]));
  await report({ type: "row", index, tier, threads, samples_ms });
}

await conduct(async () => {
  /** @type {Job} */
  const job = await fetchJob();
  for (const index of job.shapes.keys()) await rehearse(job, index);
  for (const index of job.shapes.keys()) await measure(job, index);
  await report({ type: "done", user_agent: navigator.userAgent, versions: versions() });
});

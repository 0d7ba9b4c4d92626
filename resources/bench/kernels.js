/** The page of `nnjit bench kernels`: takes its job, measures shape after shape, reports. */
import { onnxRuntime, ours, tensorFlow, versions } from "./contenders.js";
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

const PEERS = { ort: onnxRuntime, tfjs: tensorFlow };
const file = (/** @type {string} */ path) => new URL(`../files/${path}`, import.meta.url).href;
const post = (/** @type {string} */ path, /** @type {BodyInit} */ body) => fetch(new URL(`../${path}`, import.meta.url), { method: "POST", body });

/** @param {Record<string, unknown>} message */
function report(message) {
  const log = /** @type {HTMLElement} */ (document.getElementById("log"));
  log.textContent += `${JSON.stringify(message).slice(0, 400)}\n`;
  return post("report", JSON.stringify(message));
}

/**
 * @param {Job["shapes"][number]} shape
 * @returns {Promise<Shape>}
 */
async function fetchShape(shape) {
  const inputs = shape.inputs.map(async (input) => {
    const response = await fetch(file(input.file));
    return { ...input, data: new Float32Array(await response.arrayBuffer()) };
  });
  return { ...shape, inputs: await Promise.all(inputs), manifest: file(shape.manifest), onnx: file(shape.onnx) };
}

/**
 * @param {Job} job
 * @param {number} index
 */
async function makeContenders(job, index) {
  const shape = await fetchShape(job.shapes[index]);
  const mine = await ours(shape, job.threads);
  const peers = await Promise.all(job.peers.map((p) => PEERS[/** @type {"ort" | "tfjs"} */ (p)](shape, job.threads)));
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

/**
 * @param {Job} job
 * @param {number} index
 */
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

try {
  /** @type {Job} */
  const job = await (await fetch(file("job.json"))).json();
  if (!crossOriginIsolated) throw new Error("The page is not cross-origin isolated.");
  for (const index of job.shapes.keys()) await rehearse(job, index);
  for (const index of job.shapes.keys()) await measure(job, index);
  await report({ type: "done", user_agent: navigator.userAgent, versions: versions() });
} catch (e) {
  await report({ type: "error", error: `The benchmark page failed: ${/** @type {Error} */ (e).stack ?? e}` });
}

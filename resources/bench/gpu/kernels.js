/** The page of `nnjit bench kernels --backend webgpu`: ours and the peers, shape after shape. */
import { fetchBytes, file, post, report } from "../page.js";
import { onnxRuntimeProduct, OurProduct, tensorFlowProduct } from "./contenders.js";
import { begin, conductGpu } from "./page.js";
import { versions } from "./peers.js";
import { sweep } from "./sweep.js";
import { ownClocks, readbacks, timeAll } from "./timing.js";

/** @import { Shape } from "./contenders.js" */
/** @import { GpuPolicy } from "./timing.js" */
/**
 * @typedef {object} Job
 * @property {("ort" | "tfjs")[]} peers
 * @property {GpuPolicy} policy
 * @property {{spec: string, folder: string, dtype: "float32" | "float16", inputs: {name: string, dims: number[]}[], out_bytes: number, depth: number}[]} shapes
 */

const floats = async (/** @type {string} */ path) => new Float32Array(await fetchBytes(path));
const PEERS = { ort: onnxRuntimeProduct, tfjs: tensorFlowProduct };

/** @param {Job["shapes"][number]} shape @returns {Promise<Shape>} */
async function fetchShape({ folder, ...shape }) {
  return {
    ...shape,
    inputs: await Promise.all(shape.inputs.map(async (i) => ({ ...i, data: await floats(`${folder}/${i.name}.bin`) }))),
    reference: await floats(`${folder}/reference.bin`),
    candidates: await (await fetch(file(`${folder}/candidates.json`))).json(),
    one: file(`${folder}/one.onnx`),
    many: file(`${folder}/many.onnx`),
  };
}

/** @param {Job} job @param {number} index @param {Awaited<ReturnType<typeof begin>>} opened */
async function measure(job, index, { gpu, device, warmer }) {
  const shape = await fetchShape(job.shapes[index]);
  const product = new OurProduct(gpu, shape);
  const { best, ...found } = await sweep(product, device, warmer, job.policy, (tried) => report({ type: "tried", index, tried }));
  const contenders = [best];
  /** @type {Record<string, string>} */
  const failed = {};
  for (const name of job.peers)
    try {
      contenders.push(await PEERS[name](shape));
    } catch (e) {
      failed[name] = `${/** @type {Error} */ (e).message ?? e}`;
    }
  product.spoil();
  for (const contender of contenders) await post(`upload/${index}-${contender.name}`, new Float32Array(await contender.output()));
  warmer.chain_ns = [];
  const timed = await timeAll(contenders, shape.depth, warmer, job.policy);
  const readback_ms = await readbacks(contenders, warmer, job.policy);
  const own_ms = await ownClocks(contenders, warmer, job.policy);
  for (const contender of contenders) await contender.release();
  await report({ type: "row", index, ...found, failed, timed, readback_ms, own_ms, chain_ns: warmer.chain_ns });
}

await conductGpu(async () => {
  const opened = await begin();
  for (const index of opened.job.shapes.keys()) await measure(opened.job, index, opened);
  return { versions: versions() };
});

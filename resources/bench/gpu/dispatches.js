/** The page of `nnjit bench dispatches`: a chain of tiny additions, ours and the peers in turns. */
import { whole } from "../../engine/gpu/commands.js";
import { file, report, turns } from "../page.js";
import { begin, conductGpu } from "./page.js";
import { onnxRuntime, tensorFlow, versions } from "./peers.js";
import { dispatched } from "./record.js";

/** @import { GpuDevice } from "../../types/gpu.js" */

/** @typedef {{peers: ("ort" | "tfjs")[], count: number, rounds: number, warm_ms: number, warmups: number}} Job */
/**
 * Adds 1 to four numbers `count` times, each time by a dispatch of its own.
 * @typedef {object} Chain
 * @property {string} name
 * @property {() => Promise<{queued_ms: number, values: Float32Array}>} run `queued_ms` when the last call had returned
 */

const START = new Float32Array([0, 1, 2, 3]);
const ADD = `@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> y: array<vec4<f32>>;
@compute @workgroup_size(1) fn main() { y[0] = x[0] + vec4<f32>(1.0); }`;

/** @param {GpuDevice} gpu @param {number} count @returns {Promise<Chain>} */
async function ours(gpu, count) {
  const [first, ...others] = Array.from({ length: 65 }, (_, i) => gpu.createBuffer(START.byteLength, `chain${i}`));
  gpu.write(first, 0, new Uint8Array(START.buffer));
  const pipeline = await gpu.pipeline({ code: ADD, entry: "main", access: ["read", "read_write"] });
  const at = (/** @type {number} */ i) => (i ? others[(i - 1) % others.length] : first);
  return {
    name: "ours",
    run: async () => {
      const start = performance.now();
      for (let i = 0; i < count; i++)
        gpu.encode([{ op: "dispatch", pipeline, bindings: [whole(at(i)), whole(at(i + 1))], workgroups: [1, 1, 1] }]);
      const result = gpu.read(at(count), 0, START.byteLength);
      const queued_ms = performance.now() - start;
      return { queued_ms, values: new Float32Array((await result).buffer) };
    },
  };
}

/** @param {number} count @returns {Promise<Chain>} */
async function tensorFlowChain(count) {
  const { tf } = await tensorFlow();
  tf.env().set("WEBGPU_CPU_FORWARD", false); // else it adds so few numbers on the processor
  const [first, one] = [tf.tensor1d(START), tf.tensor1d(new Float32Array(4).fill(1))];
  return {
    name: "tfjs",
    run: async () => {
      const start = performance.now();
      let value = first;
      for (let i = 0; i < count; i++) {
        const next = tf.add(value, one);
        if (i) value.dispose();
        value = next;
      }
      const result = value.data();
      const queued_ms = performance.now() - start;
      const values = await result;
      value.dispose();
      return { queued_ms, values };
    },
  };
}

/** @returns {Promise<Chain>} of one model of as many nodes */
async function onnxRuntimeChain() {
  const { ort, device, session } = await onnxRuntime();
  const opened = await session(file("chain.onnx"), { graphOptimizationLevel: "disabled" });
  const buffer = device.createBuffer({ size: START.byteLength, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC });
  device.queue.writeBuffer(buffer, 0, START);
  const feeds = { in0: ort.Tensor.fromGpuBuffer(buffer, { dataType: "float32", dims: [4] }) };
  return {
    name: "ort",
    run: async () => {
      const start = performance.now();
      const { out0 } = await opened.run(feeds);
      const result = out0.getData();
      const queued_ms = performance.now() - start;
      const values = await result;
      out0.dispose();
      return { queued_ms, values };
    },
  };
}

const PEERS = { ort: onnxRuntimeChain, tfjs: tensorFlowChain };

/** @param {Chain} chain @param {number} count */
async function sample(chain, count) {
  const before = dispatched();
  const start = performance.now();
  const { queued_ms, values } = await chain.run();
  const ms = performance.now() - start;
  const dispatches = dispatched() - before;
  if (dispatches < count) throw new Error(`${chain.name} made ${dispatches} dispatches, not ${count}.`);
  if (START.some((x, i) => values[i] !== x + count)) throw new Error(`${chain.name} computed ${values}.`);
  return { ms, queued_ms };
}

await conductGpu(async () => {
  const { job, gpu, warmer } = await begin();
  const { peers, count, rounds, warm_ms, warmups } = /** @type {Job} */ (job);
  const chains = [await ours(gpu, count)];
  for (const name of peers) chains.push(await PEERS[name](count));
  for (const chain of chains) for (let i = 0; i < warmups; i++) await sample(chain, count);
  /** @type {Record<string, {ms: number[], queued_ms: number[]}>} */
  const samples = Object.fromEntries(chains.map((c) => [c.name, { ms: [], queued_ms: [] }]));
  for (const chain of turns(chains, rounds)) {
    await warmer.ready(warm_ms);
    const { ms, queued_ms } = await sample(chain, count);
    samples[chain.name].ms.push(ms);
    samples[chain.name].queued_ms.push(queued_ms);
  }
  await report({ type: "row", samples });
  return { versions: versions() };
});

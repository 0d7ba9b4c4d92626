/** A decoder's buffers on the GPU: weights made there from their seed, or streamed from a file. */
import { whole } from "../../engine/gpu/commands.js";

/** @import { GpuBuf, GpuDevice } from "../../types/gpu.js" */
/** @import { Variant } from "./variants.js" */
/** @typedef {{name: string, nbytes: number, kind: "" | "words" | "scales" | "gains" | "rope", seed: number, exponent: number, offset: number}} PlanBuffer */
/**
 * @typedef {object} Plan what `nnjit_studio/bench/llm/decoder/plan.py` writes
 * @property {{layers: number, width: number, heads: number, head: number, hidden: number, vocabulary: number, context: number, theta: number}} config
 * @property {number} weight_bytes
 * @property {number} file_bytes
 * @property {{grid_x: number, threads: number, kinds: Record<string, Variant["dispatch"]>}} fill
 * @property {PlanBuffer[]} buffers
 * @property {Record<string, Variant[]>} kernels
 * @property {{kernel: string, names: Record<string, string>}[]} steps of one token
 * @property {{kernel: string, names: Record<string, string>}[]} prefill of `prefill_rows` tokens of a prompt
 * @property {number} prefill_rows
 */

const CHUNK_BYTES = 32 * 2 ** 20;
/** The GPU process holds what was written until the GPU took it: wait after so much. */
const MOST_PENDING_BYTES = 256 * 2 ** 20;

/**
 * All buffers, those with weights still zeroed.
 * @param {GpuDevice} gpu
 * @param {Plan} plan
 * @returns {Map<string, GpuBuf>}
 */
export function createBuffers(gpu, plan) {
  const buffers = new Map(plan.buffers.map((b) => [b.name, gpu.createBuffer(b.nbytes, b.name)]));
  const { context, head, theta } = plan.config;
  const half = head / 2;
  const turns = new Float32Array(context * head);
  for (let position = 0; position < context; position++)
    for (let i = 0; i < half; i++) {
      const angle = position * theta ** (-i / half);
      turns[2 * (position * half + i)] = Math.cos(angle);
      turns[2 * (position * half + i) + 1] = Math.sin(angle);
    }
  gpu.write(/** @type {GpuBuf} */ (buffers.get("rope")), 0, new Uint8Array(turns.buffer));
  return buffers;
}

/**
 * Makes the seeded weights on the GPU.
 * @param {GpuDevice} gpu
 * @param {Plan} plan
 * @param {Map<string, GpuBuf>} buffers
 */
export async function makeWeights(gpu, plan, buffers) {
  const { grid_x, threads, kinds } = plan.fill;
  for (const { name, nbytes, kind, seed, exponent } of plan.buffers) {
    if (!seed) continue;
    const pipeline = await gpu.pipeline(kinds[kind]);
    const filled = /** @type {GpuBuf} */ (buffers.get(name));
    const params = gpu.createBuffer(16, "params");
    gpu.write(params, 0, new Uint8Array(new Int32Array([nbytes / 4, seed, exponent, 0]).buffer));
    const rows = Math.ceil(nbytes / 4 / (threads * grid_x));
    const bindings = [params, filled].map(whole);
    gpu.encode([{ op: "dispatch", pipeline, bindings, workgroups: [grid_x, rows, 1] }]);
    gpu.destroyBuffer(params);
  }
  await gpu.done();
}

/**
 * Streams the weights from a file, a few chunks at a time; no more of it is ever held.
 * @param {GpuDevice} gpu
 * @param {Plan} plan
 * @param {Map<string, GpuBuf>} buffers
 * @param {string} url of a file that is served in ranges
 */
export async function streamWeights(gpu, plan, buffers, url) {
  let pending = 0;
  for (const { name, nbytes, seed, offset } of plan.buffers) {
    if (!seed) continue;
    const buffer = /** @type {GpuBuf} */ (buffers.get(name));
    for (let at = 0; at < nbytes; at += CHUNK_BYTES) {
      const end = Math.min(at + CHUNK_BYTES, nbytes);
      const response = await fetch(url, { headers: { Range: `bytes=${offset + at}-${offset + end - 1}` }, cache: "no-store" });
      if (response.status !== 206) throw new Error(`The weights file was not served in ranges (${response.status}).`);
      const bytes = new Uint8Array(await response.arrayBuffer());
      if (bytes.length !== end - at) throw new Error(`The weights file ends before ${name}.`);
      gpu.write(buffer, at, bytes);
      pending += bytes.length;
      if (pending < MOST_PENDING_BYTES) continue;
      await gpu.done();
      pending = 0;
    }
  }
  await gpu.done();
}

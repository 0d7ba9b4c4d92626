/** The page of `nnjit bench gemv4`: chains of 4-bit products of one row, ours and MatMulNBits. */
import { whole } from "../../engine/gpu/commands.js";
import { fetchBytes, file, post, report } from "../page.js";
import { begin, conductGpu } from "./page.js";
import { onnxRuntime, versions } from "./peers.js";
import { timeAll } from "./timing.js";
import { fastest } from "./variants.js";

/** @import { Dispatch, GpuBuf, GpuDevice } from "../../types/gpu.js" */
/** @import { Contender } from "./contenders.js" */
/** @import { Made, Variant } from "./variants.js" */
/**
 * @typedef {object} Chain
 * @property {string} folder
 * @property {"f32" | "f16"} type of the scales; the peer's also of its activations
 * @property {[number, number][]} matrices K and N of each; the next one reads what this one made
 * @property {Record<string, Variant[]>} variants by `KxN`
 * @property {{name: string, one: string, chain: string, data: string}[]} peers ONNX models of the first product and of all
 */

const ELEMENT = { f32: { dataType: "float32", nbytes: 4 }, f16: { dataType: "float16", nbytes: 2 } };
const bytesOf = async (/** @type {string} */ path) => new Uint8Array(await fetchBytes(path));

/** Ours: the chain's buffers, and for each matrix the commands of a variant. */
class OurChain {
  /** @type {{words: GpuBuf, scales: GpuBuf, x: GpuBuf, y: GpuBuf}[]} */
  parts = [];

  /** @param {GpuDevice} gpu @param {Chain} chain */
  constructor(gpu, chain) {
    this.gpu = gpu;
    this.chain = chain;
  }

  async load() {
    const { folder, type, matrices } = this.chain;
    const filled = async (/** @type {string} */ name) => {
      const bytes = await bytesOf(`${folder}/${name}`);
      const buffer = this.gpu.createBuffer(bytes.length, name);
      this.gpu.write(buffer, 0, bytes);
      return buffer;
    };
    let x = await filled("x.f32");
    for (const [i, [, n]] of matrices.entries()) {
      const y = this.gpu.createBuffer(n * 4, `y${i}`);
      this.parts.push({ words: await filled(`words${i}`), scales: await filled(`scales${i}.${type}`), x, y });
      x = y;
    }
  }

  /** @param {number} index @param {Made} made @returns {Dispatch} */
  command(index, { variant: { dispatch }, pipeline }) {
    const part = /** @type {Record<string, GpuBuf>} */ (this.parts[index]);
    const bindings = dispatch.bindings.map((name) => whole(part[name]));
    return { op: "dispatch", pipeline, bindings, workgroups: dispatch.workgroups };
  }

  /** @param {number} index */
  async read(index) {
    const { y } = this.parts[index];
    return this.gpu.read(y, 0, y.nbytes);
  }

  release() {
    const [{ x }] = this.parts;
    for (const buffer of [x, ...this.parts.flatMap(({ words, scales, y }) => [words, scales, y])]) this.gpu.destroyBuffer(buffer);
  }
}

/**
 * @param {OurChain} ours
 * @param {Dispatch[]} commands
 * @param {any} device
 * @returns {Contender}
 */
function ourContender(ours, commands, device) {
  const { gpu } = ours;
  return {
    name: "ours",
    device,
    submit: async (n) => {
      for (let i = 0; i < n; i++)
        for (const command of commands) {
          gpu.encode([command]);
          gpu.flush();
        }
    },
    pass: async (n) => {
      for (let i = 0; i < n; i++) {
        gpu.encode(commands);
        gpu.flush();
      }
    },
    output: async () => new Float32Array(),
    release: () => ours.release(),
  };
}

/**
 * @param {Chain} chain
 * @param {Chain["peers"][number]} peer
 * @returns {Promise<Contender & {first: () => Promise<any>, last: () => Promise<any>}>}
 */
async function peerContender(chain, peer) {
  const { ort, device, session } = await onnxRuntime();
  const data = await bytesOf(peer.data);
  const externalData = [{ path: "weights.bin", data }];
  const [one, all] = [await session(file(peer.one), { externalData }), await session(file(peer.chain), { externalData })];
  const x = await bytesOf(`${chain.folder}/x.${chain.type}`);
  const buffer = device.createBuffer({ size: x.length, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC });
  device.queue.writeBuffer(buffer, 0, x);
  const { dataType, nbytes } = ELEMENT[chain.type];
  const feeds = { x: ort.Tensor.fromGpuBuffer(buffer, { dataType, dims: [1, x.length / nbytes] }) };
  const run = async (/** @type {any} */ opened) => {
    const { y } = await opened.run(feeds);
    const values = await y.getData();
    y.dispose();
    return values;
  };
  return {
    name: peer.name,
    library: "ort",
    device,
    submit: async (n) => {
      for (let i = 0; i < n; i++) (await all.run(feeds)).y.dispose();
    },
    pass: /** @type {any} */ (undefined), // it makes a pass of each product
    output: async () => new Float32Array(),
    first: () => run(one),
    last: () => run(all),
    release: async () => {
      await one.release();
      await all.release();
      buffer.destroy();
    },
  };
}

/** @param {number} index @param {Awaited<ReturnType<typeof begin>>} opened */
async function measure(index, opened) {
  const { gpu, device, warmer, job } = opened;
  /** @type {Chain} */
  const chain = job.chains[index];
  const ours = new OurChain(gpu, chain);
  await ours.load();
  /** @type {Record<string, Awaited<ReturnType<typeof fastest>>>} */
  const found = {};
  for (const [size, variants] of Object.entries(chain.variants)) {
    const indices = [...chain.matrices.keys()].filter((i) => chain.matrices[i].join("x") === size);
    await warmer.ready(job.policy.warm_ms);
    const ready = () => warmer.ready(job.policy.warm_ms / 4);
    found[size] = await fastest(gpu, variants, (made) => indices.map((i) => ours.command(i, made)), ready);
  }
  const commands = chain.matrices.map((size, i) => ours.command(i, found[size.join("x")].best));
  const mine = ourContender(ours, commands, device);
  for (const { y } of ours.parts) gpu.write(y, 0, new Uint8Array(y.nbytes).fill(0xff));
  gpu.encode(commands);
  await post(`upload/${index}-ours-first`, await ours.read(0));
  await post(`upload/${index}-ours-last`, await ours.read(commands.length - 1));
  const contenders = [mine];
  /** @type {Record<string, string>} */
  const failed = {};
  for (const peer of chain.peers)
    try {
      const contender = await peerContender(chain, peer);
      await post(`upload/${index}-${peer.name}-first`, await contender.first());
      await post(`upload/${index}-${peer.name}-last`, await contender.last());
      contenders.push(contender);
    } catch (e) {
      failed[peer.name] = `${/** @type {Error} */ (e).message ?? e}`;
    }
  const timed = await timeAll(contenders, 1, warmer, job.policy);
  for (const contender of contenders) await contender.release();
  const kernels = Object.entries(found).map(([size, { best, tried }]) => ({ size, setting: best.variant.setting, tried }));
  await report({ type: "row", index, kernels, failed, timed });
}

await conductGpu(async () => {
  const opened = await begin();
  for (const index of opened.job.chains.keys()) await measure(index, opened);
  return { versions: versions() };
});

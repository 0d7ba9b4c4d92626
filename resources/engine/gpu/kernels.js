/** Kernels on a device: documents with their pipelines, and those that are refused. */
import { words } from "./commands.js";
import { BLOCK, checkFits, parseDocument, rolesOf } from "./document.js";
import { GpuError } from "./errors.js";

/** @import { KernelHeader } from "../../types/engine.js" */
/** @import { Binding, Dispatch, GpuBuf, GpuDevice, GpuPipeline } from "../../types/gpu.js" */
/** @import { KernelDocument, Roles } from "./document.js" */
/**
 * `pipelines` one for each dispatch; `ms` until all were compiled; `block` is its part of the block of sizes.
 * @typedef {{header: KernelHeader, document: KernelDocument, pipelines: GpuPipeline[],
 *   roles: Roles, ms: number, block?: {offset: number, size: number}}} GpuKernel
 */

export class Kernels {
  /** @type {Map<string, string>} why, by sha256 */ #refused = new Map();

  /** @param {GpuDevice} device */
  constructor(device) {
    this.device = device;
  }

  /**
   * Compiles a kernel; several at once do so side by side. One that fails is refused from then on.
   * @param {KernelHeader} header
   * @param {Uint8Array} bytes its document
   * @param {number} args how many it is given
   * @param {(bytes: Uint8Array, workload: string) => KernelDocument} [parse]
   * @returns {Promise<GpuKernel>}
   */
  async compile(header, bytes, args, parse = parseDocument) {
    const { workload, sha256 = "" } = header;
    const why = this.#refused.get(sha256);
    if (why) throw new GpuError("gpu-kernel", `The kernel of ${workload} was refused before: ${why}`, "Compile it with other settings.", workload);
    try {
      const document = parse(bytes, workload);
      checkFits(document, workload, args, this.device);
      const start = performance.now();
      const pipelines = await Promise.all(document.dispatches.map(({ code, entry, access }) => this.device.pipeline({ code, entry, access })));
      return { header, document, pipelines, roles: rolesOf(document), ms: performance.now() - start };
    } catch (e) {
      throw this.refuse(header, e);
    }
  }

  /**
   * Remembers a kernel that did harm.
   * @param {KernelHeader} header
   * @param {unknown} e what happened
   * @returns {unknown} the error with the workload's name, where the kernel is to blame
   */
  refuse({ workload, sha256 }, e) {
    if (!(e instanceof GpuError) || e.code !== "gpu-kernel") return e;
    if (sha256) this.#refused.set(sha256, e.error);
    return e.workload ? e : new GpuError("gpu-kernel", `The kernel of ${workload}: ${e.error}`, e.hint || "Compile it with other settings.", workload);
  }
}

/**
 * The dispatches of one call.
 * @param {GpuKernel} kernel
 * @param {readonly (Binding | null)[]} args null where it has no role
 * @param {readonly Binding[]} scratch at least as many and as large as the kernel's
 * @param {GpuBuf | null} [sizes] the block of all kernels, where sizes are open; buffers are bound as they are then
 * @returns {Dispatch[]}
 */
export function callOf({ document, pipelines, block }, args, scratch, sizes = null) {
  return document.dispatches.map(({ workgroups, bindings }, i) => ({
    op: "dispatch",
    pipeline: pipelines[i],
    bindings: bindings.map((name) => {
      if (name === BLOCK) return /** @type {Binding} */ ({ buffer: sizes, ...block });
      const index = Number(name.slice(1));
      if (name[0] === "a") return /** @type {Binding} */ (args[index]);
      return sizes ? scratch[index] : { ...scratch[index], size: words(document.scratch[index]) };
    }),
    workgroups,
  }));
}

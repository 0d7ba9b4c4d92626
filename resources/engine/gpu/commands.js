/** What commands to a GPU are made of; refused is what a GPU would refuse later, when nobody knows any more whose it is. */
import { GpuError } from "./errors.js";

/** @import { Access, Binding, Copy, GpuBuf, GpuTimestamps, PipelineSpec, Stamp } from "../../types/gpu.js" */

/** @param {GpuBuf} buffer @param {number} offset @param {number} nbytes */
export function checkRange(buffer, offset, nbytes) {
  if (!(/** @type {any} */ (buffer).alive)) throw new GpuError("", `The buffer ${buffer.label} is gone.`);
  if (offset % 4 || nbytes % 4 || !(offset >= 0 && nbytes >= 0 && offset + nbytes <= buffer.nbytes))
    throw new GpuError("", `Bytes ${offset} to ${offset + nbytes} are no words of the buffer ${buffer.label} of ${buffer.nbytes} bytes.`);
}

/** @param {readonly number[]} workgroups @param {Record<string, number>} limits */
export function checkWorkgroups(workgroups, { maxComputeWorkgroupsPerDimension: most }) {
  for (const n of workgroups)
    if (!(n >= 0 && n <= most)) throw new GpuError("gpu-kernel", `The kernel wants ${n} workgroups in a row, this GPU allows ${most}.`);
}

/**
 * @param {readonly Binding[]} bindings
 * @param {readonly Access[]} access
 * @param {Record<string, number>} limits
 */
export function checkBindings(bindings, access, { minStorageBufferOffsetAlignment, maxStorageBufferBindingSize }) {
  if (bindings.length !== access.length) throw new GpuError("gpu-kernel", `The kernel has ${access.length} bindings, not ${bindings.length}.`);
  for (const { buffer, offset, size } of bindings) {
    checkRange(buffer, offset, size);
    if (size > maxStorageBufferBindingSize)
      throw new GpuError("gpu-kernel", `The kernel binds ${size} bytes of ${buffer.label}, this GPU allows ${maxStorageBufferBindingSize}.`);
    if (offset % minStorageBufferOffsetAlignment)
      throw new GpuError("gpu-kernel", `The buffer ${buffer.label} cannot be bound at ${offset}.`);
  }
  checkApart(bindings, access);
}

/** Of a new buffer: whole words, at least one. @param {number} nbytes @param {Record<string, number>} limits */
export function bufferBytes(nbytes, { maxBufferSize }) {
  if (!(nbytes >= 0 && nbytes <= maxBufferSize))
    throw new GpuError("gpu-memory", `A buffer of ${nbytes} bytes is over this GPU's limit of ${maxBufferSize}.`, "Use a smaller model, or the Wasm backend.");
  return words(nbytes);
}

/** @param {readonly Access[]} access @param {Record<string, number>} limits */
export function checkAccess(access, { maxStorageBuffersPerShaderStage: most = Infinity }) {
  if (access.length > most) throw new GpuError("gpu-kernel", `The kernel binds ${access.length} buffers, this GPU allows ${most}.`);
}

/** @param {Copy} copy */
export function checkCopy({ from, fromOffset, to, toOffset, nbytes }) {
  checkRange(from, fromOffset, nbytes);
  checkRange(to, toOffset, nbytes);
  if (from === to) throw new GpuError("", `The buffer ${from.label} cannot be copied to itself.`);
}

/** @param {Stamp} stamp @param {GpuTimestamps} timestamps */
export function checkStamp({ index }, { slots }) {
  if (!(index >= 0 && index < slots)) throw new GpuError("", `There is no stamp ${index}.`);
}

/** @param {number} count @param {GpuTimestamps} timestamps */
export function checkStamps(count, { available, slots }) {
  if (!available) throw new GpuError("", "This GPU has no timestamps.");
  if (!(count >= 1 && count <= slots)) throw new GpuError("", `There are ${slots} stamps, not ${count}.`);
}

/** What a pipeline is known by. @param {PipelineSpec} spec */
export const keyOf = ({ access, entry, code }) => `${access.join()};${entry};${code}`;

/** @param {GpuBuf} buffer @returns {Binding} */
export const whole = (buffer) => ({ buffer, offset: 0, size: buffer.nbytes });

/** @param {number} nbytes */
export const words = (nbytes) => Math.max(4, Math.ceil(nbytes / 4) * 4);

/** @param {readonly Binding[]} bindings @param {readonly Access[]} access */
function checkApart(bindings, access) {
  bindings.forEach((a, i) => {
    if (access[i] !== "read_write") return;
    const other = bindings.findIndex((b, j) => j !== i && b.buffer === a.buffer);
    if (other < 0) return;
    const b = bindings[other];
    const apart = access[other] !== "read" && (a.offset + a.size <= b.offset || b.offset + b.size <= a.offset);
    if (!apart) throw new GpuError("gpu-kernel", `The kernel writes the buffer ${a.buffer.label}, which it is also given as binding ${other}.`);
  });
}

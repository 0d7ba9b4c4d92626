/** The kernel document of a WGSL kernel (docs/webgpu.md). */
import { GpuError } from "./errors.js";

/** @import { Access, GpuInfo } from "../../types/gpu.js" */
/** @typedef {{code: string, entry: string, workgroups: [number, number, number], bindings: string[], access: Access[]}} DocumentDispatch */
/** @typedef {{version: number, scratch: number[], requires: string[], dispatches: DocumentDispatch[]}} KernelDocument */

const VERSION = 1;
const LANGUAGE = "wgsl:";
/** The uniform block of sizes, as a document calls it. */
export const BLOCK = "z";

/**
 * @param {Uint8Array} bytes
 * @param {string} workload for messages
 * @returns {KernelDocument} whose shape is checked, not its WGSL
 */
export const parseDocument = (bytes, workload) => checkDocument(readDocument(bytes, workload, VERSION), workload);

/**
 * The JSON of a document of this version.
 * @param {Uint8Array} bytes
 * @param {string} workload for messages
 * @param {number} version
 * @returns {any}
 */
export function readDocument(bytes, workload, version) {
  let found;
  try {
    found = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw unfit(workload, "it is not JSON");
  }
  if (found?.version !== version) throw unfit(workload, `it has version ${found?.version}, this page reads ${version}`);
  return found;
}

/**
 * @param {any} found
 * @param {string} workload for messages
 * @param {boolean} [sized] whether it may read a block of sizes
 * @returns {KernelDocument}
 */
export function checkDocument(found, workload, sized = false) {
  const { scratch, requires, dispatches } = found;
  const words = Array.isArray(scratch) && scratch.every((n) => Number.isSafeInteger(n) && n > 0);
  const names = Array.isArray(requires) && requires.every((r) => typeof r === "string");
  if (!words || !names || !Array.isArray(dispatches) || !dispatches.length) throw unfit(workload, "a field is missing");
  for (const d of dispatches) {
    const { code, entry, workgroups, bindings, access } = d ?? {};
    const whole = Array.isArray(workgroups) && workgroups.length === 3 && workgroups.every((n) => Number.isSafeInteger(n) && n >= 0);
    const bound = Array.isArray(bindings) && Array.isArray(access) && bindings.length === access.length;
    if (typeof code !== "string" || typeof entry !== "string" || !whole || !bound) throw unfit(workload, "a dispatch lacks a field");
    const isBlock = (/** @type {number} */ i) => sized && bindings[i] === BLOCK && access[i] === "uniform";
    if (!access.every((a, i) => a === "read" || a === "read_write" || isBlock(i))) throw unfit(workload, "an access is unknown");
    const lost = bindings.find((name, i) => !isBlock(i) && !/^[as]\d+$/.test(name) || (name[0] === "s" && !(Number(name.slice(1)) in scratch)));
    if (lost !== undefined) throw unfit(workload, `the binding ${lost} is nothing`);
  }
  return found;
}

/**
 * Refuses a kernel that this device cannot run, or that takes other arguments than it is given.
 * @param {KernelDocument} document
 * @param {string} workload
 * @param {number} args how many it is given
 * @param {{features: Set<string>, info: GpuInfo}} device
 */
export function checkFits({ requires, dispatches }, workload, args, device) {
  const lacks = lacking(requires, device);
  if (lacks.length)
    throw new GpuError("gpu-kernel", `The kernel of ${workload} needs ${lacks.join(", ")}, which this GPU has not.`, "Compile it for the plain tier.", workload);
  const beyond = dispatches.flatMap((d) => d.bindings).find((name) => name[0] === "a" && Number(name.slice(1)) >= args);
  if (beyond) throw unfit(workload, `it binds ${beyond}, but is given ${args} arguments`);
}

/**
 * What a device has not, of features of WebGPU and, with the prefix `wgsl:`, of its language.
 * @param {string[]} requires
 * @param {{features: Set<string>, info: GpuInfo}} device
 */
export const lacking = (requires, { features, info }) =>
  requires.filter((name) => !(name.startsWith(LANGUAGE) ? info.language_features.includes(name.slice(LANGUAGE.length)) : features.has(name)));

/** What a kernel does with its arguments, by index; one that is in neither is not used at all. @typedef {{read: Set<number>, written: Set<number>}} Roles */

/**
 * Outputs and workspaces are written, though they may be read too.
 * @param {KernelDocument} document
 * @returns {Roles}
 */
export function rolesOf({ dispatches }) {
  /** @type {Record<Access, Set<number>>} */
  const by = { read: new Set(), read_write: new Set(), uniform: new Set() };
  for (const { bindings, access } of dispatches)
    bindings.forEach((name, i) => name[0] === "a" && by[access[i]].add(Number(name.slice(1))));
  return { read: new Set([...by.read].filter((arg) => !by.read_write.has(arg))), written: by.read_write };
}

/** @param {string} workload @param {string} why */
const unfit = (workload, why) => new GpuError("gpu-kernel", `The kernel document of ${workload} is refused: ${why}.`, "Compile the kernel again.", workload);

/** From the bytes of a kernel to its `run` function; one set of bytes for both kinds of memory. */
import { EngineError } from "./errors.js";

/** @import { KernelHeader, NewKernel, ReadyKernel, Run } from "../types/engine.js" */

const MAGIC = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0];
const IMPORTS = 2;
const ENV_MEMORY = [3, 0x65, 0x6e, 0x76, 6, 0x6d, 0x65, 0x6d, 0x6f, 0x72, 0x79, 2]; // "env" "memory", a memory
const UNSHARED = 0; // limits: a minimum alone
const SHARED = 3; // limits: shared, with minimum and maximum
const MAX_PAGES = [0x80, 0x80, 0x04]; // 65536, the largest: any memory's own maximum fits

/** What is known of a kernel beside its code. @param {NewKernel | ReadyKernel} kernel @returns {KernelHeader} */
export function headerOf(kernel) {
  const { bytes: _, module: __, ...header } = /** @type {Partial<NewKernel & ReadyKernel>} */ (kernel);
  return /** @type {KernelHeader} */ (header);
}

/**
 * @param {BufferSource} bytes
 * @param {string} name for messages
 * @param {boolean} [shared] whether the memory that it will run in is
 * @returns {Promise<WebAssembly.Module>}
 */
export async function compileKernel(bytes, name, shared = false) {
  let module;
  try {
    module = await WebAssembly.compile(shared ? importShared(bytes, name) : bytes);
  } catch (e) {
    if (e instanceof EngineError) throw e;
    throw new EngineError(`The module of ${name} is not valid here: ${/** @type {Error} */ (e).message}.`);
  }
  const imports = WebAssembly.Module.imports(module);
  const [only] = imports;
  if (imports.length !== 1 || only.module !== "env" || only.name !== "memory" || only.kind !== "memory") {
    const list = imports.map((i) => `${i.module}.${i.name}`).join(", ") || "nothing";
    throw new EngineError(`The module of ${name} imports ${list}.`, "A kernel imports env.memory and nothing else.");
  }
  const exports = WebAssembly.Module.exports(module);
  if (!exports.some((e) => e.name === "run" && e.kind === "function"))
    throw new EngineError(`The module of ${name} exports no function "run".`);
  return module;
}

/**
 * @param {WebAssembly.Module} module
 * @param {WebAssembly.Memory} memory
 * @param {number} pointers how many arguments come before `begin, end`
 * @param {string} name for messages
 * @returns {Promise<Run>}
 */
export async function linkKernel(module, memory, pointers, name) {
  let instance;
  try {
    instance = await WebAssembly.instantiate(module, { env: { memory } });
  } catch (e) {
    throw new EngineError(`The module of ${name} does not link: ${/** @type {Error} */ (e).message}.`);
  }
  const run = /** @type {Run} */ (instance.exports.run);
  if (run.length !== pointers + 2)
    throw new EngineError(
      `The kernel of ${name} takes ${run.length} parameters, the plan passes ${pointers} pointers, begin and end.`,
    );
  return run;
}

/**
 * The module with its `env.memory` imported as shared. Only the section of the
 * imports changes, so that function bodies stay those that were measured and hashed.
 *
 * @param {BufferSource} source a kernel whose only import is an unshared `env.memory`
 * @param {string} name for messages
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function importShared(source, name) {
  const bytes = ArrayBuffer.isView(source)
    ? new Uint8Array(source.buffer, source.byteOffset, source.byteLength)
    : new Uint8Array(source);
  const refuse = (/** @type {string} */ why) => new EngineError(`The module of ${name} cannot share its memory: ${why}.`);
  if (!MAGIC.every((b, i) => bytes[i] === b)) throw refuse("it is no Wasm module of version 1");
  /** @type {{begin: number, end: number, payload: number} | null} */
  let found = null;
  for (let at = MAGIC.length; at < bytes.length; ) {
    const id = bytes[at];
    const size = unsigned(bytes, at + 1);
    if (!size || size.next + size.value > bytes.length) throw refuse("a section goes past its end");
    const end = size.next + size.value;
    if (id === IMPORTS) {
      if (found) throw refuse("it has two import sections");
      found = { begin: at, end, payload: size.next };
    }
    at = end;
  }
  if (!found) throw refuse("it imports nothing");
  const limits = found.payload + 1 + ENV_MEMORY.length;
  if (bytes[found.payload] !== 1 || !ENV_MEMORY.every((b, i) => bytes[limits - ENV_MEMORY.length + i] === b))
    throw refuse("it imports something else than env.memory alone");
  if (bytes[limits] !== UNSHARED) throw refuse("its import is shared or bounded already");
  const minimum = unsigned(bytes, limits + 1);
  if (minimum?.next !== found.end) throw refuse("its import section is malformed");
  const payload = [1, ...ENV_MEMORY, SHARED, ...bytes.subarray(limits + 1, found.end), ...MAX_PAGES];
  const section = [IMPORTS, payload.length, ...payload]; // at most 25 bytes: its length is one byte
  const result = new Uint8Array(found.begin + section.length + bytes.length - found.end);
  result.set(bytes.subarray(0, found.begin));
  result.set(section, found.begin);
  result.set(bytes.subarray(found.end), found.begin + section.length);
  return result;
}

/**
 * An unsigned LEB128 of at most 32 bits.
 * @param {Uint8Array} bytes
 * @param {number} at
 * @returns {{value: number, next: number} | null} null when it does not end
 */
function unsigned(bytes, at) {
  let value = 0;
  for (let i = 0; i < 5 && at + i < bytes.length; i++) {
    value += (bytes[at + i] & 0x7f) * 2 ** (7 * i);
    if (bytes[at + i] < 0x80) return { value, next: at + i + 1 };
  }
  return null;
}

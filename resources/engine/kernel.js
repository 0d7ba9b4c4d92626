/** From the bytes of a kernel to its `run` function. */
import { EngineError } from "./errors.js";
import { importShared } from "./shared.js";

/** @import { Run } from "../types/engine.js" */

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

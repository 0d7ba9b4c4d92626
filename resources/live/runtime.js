/**
 * An instance of a rewritten runtime in one thread, and the kernels that the thread has bound.
 *
 * Nothing here throws while the runtime calls it: an exception would unwind through code that
 * does not expect one. What cannot be bound is the original function.
 */
import { CHOSEN, MAILBOX, ORIGINAL, SLOTS, TABLE } from "./layout.js";

/**
 * What all threads share.
 * @typedef {object} Control
 * @property {WebAssembly.Memory} memory
 * @property {WebAssembly.Module} dispatch
 * @property {string[]} names exports of a kernel's module, in the order of the table
 */
/**
 * @typedef {object} Runtime
 * @property {WebAssembly.Memory} memory of the runtime
 * @property {Function[]} originals
 */

const { Instance, Memory, Module, Table } = WebAssembly;

/**
 * The memory of an instance, imported or its own. Names change with each release, types do not.
 * @param {WebAssembly.Instance} instance
 * @param {WebAssembly.Imports | undefined} imports
 * @returns {WebAssembly.Memory | undefined}
 */
function memoryOf(instance, imports) {
  const given = Object.values(imports ?? {}).flatMap((module) => Object.values(module));
  return [...given, ...Object.values(instance.exports)].find((value) => value instanceof Memory);
}

/**
 * @param {Control} control
 * @param {number} slot
 * @returns {Uint8Array<ArrayBuffer> | null} a copy of the slot's module; null while it has none
 */
export function moduleIn({ memory }, slot) {
  const words = new Uint32Array(memory.buffer);
  const box = (MAILBOX + 8 * slot) / 4;
  const address = Atomics.load(words, box);
  return address ? new Uint8Array(memory.buffer, address, words[box + 1]).slice() : null;
}

/**
 * Puts dispatchers into the table of an instance, so that the chosen slot is called from now on.
 * @param {WebAssembly.Instance} instance
 * @param {WebAssembly.Imports | undefined} imports
 * @param {Control} control
 * @returns {Runtime | null} null for an instance that is not of a rewritten runtime
 */
export function attach(instance, imports, control) {
  const table = instance.exports[TABLE];
  const memory = memoryOf(instance, imports);
  if (!(table instanceof Table) || !memory || table.length !== SLOTS * control.names.length) return null;
  const originals = control.names.map((_, k) => table.get(SLOTS * k));
  /** @type {Map<number, WebAssembly.Exports>} */
  const bound = new Map();
  const sync = (/** @type {number} */ place) => {
    const [kernel, slot] = [Math.trunc(place / SLOTS), place % SLOTS];
    let found = originals[kernel];
    try {
      const bytes = bound.has(slot) ? null : moduleIn(control, slot);
      if (bytes) bound.set(slot, new Instance(new Module(bytes), { env: { memory } }).exports);
      found = bound.get(slot)?.[control.names[kernel]] ?? found;
    } catch (e) {
      console.warn(`The kernel in slot ${slot} cannot be bound; the original runs instead.`, e);
    }
    table.set(place, found);
  };
  const dispatch = new Instance(control.dispatch, { e: { table, control: control.memory, sync } }).exports;
  originals.forEach((original, k) => table.set(SLOTS * k + ORIGINAL, original));
  originals.forEach((_, k) => table.set(SLOTS * k, dispatch[`dispatch${k}`]));
  return { memory, originals };
}

/**
 * Chooses the slot that all threads call from their next call on.
 * @param {Control} control
 * @param {number} slot
 */
export function choose({ memory, names }, slot) {
  const words = new Int32Array(memory.buffer);
  names.forEach((_, k) => Atomics.store(words, CHOSEN / 4 + k, slot));
}

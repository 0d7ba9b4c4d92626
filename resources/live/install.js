/** The page's side: installed before the runtime's library is loaded, it finds what that makes. */
import { watchInstances } from "./hook.js";
import { CHOSEN, FIRST_FREE, MAILBOX, MODULES, ORIGINAL, PAGES, SLOTS } from "./layout.js";
import { attach, choose } from "./runtime.js";

/** @import { Control, Runtime } from "./runtime.js" */

const PAGE_BYTES = 65536;

/** What a page does with the runtimes that it holds. */
export class Live {
  /** @type {Runtime[]} */
  runtimes = [];
  #slot = FIRST_FREE;
  #free = MODULES;

  /** @param {Control} control */
  constructor(control) {
    this.control = control;
  }

  /**
   * Gives a kernel to all threads, each of which binds it when it first calls it.
   *
   * A slot is written once: a thread may come to it minutes later.
   * @param {Uint8Array} bytes of a module that imports the runtime's memory as `env.memory`
   * @returns {number} its slot
   */
  publish(bytes) {
    if (this.#slot === SLOTS || this.#free + bytes.length > PAGES * PAGE_BYTES)
      throw new Error(`No room is left for another kernel after ${this.#slot - FIRST_FREE}. Load the page again.`);
    const slot = this.#slot++;
    const words = new Uint32Array(this.control.memory.buffer);
    new Uint8Array(this.control.memory.buffer).set(bytes, this.#free);
    words[(MAILBOX + 8 * slot) / 4 + 1] = bytes.length;
    Atomics.store(words, (MAILBOX + 8 * slot) / 4, this.#free);
    this.#free += (bytes.length + 7) & ~7;
    return slot;
  }

  /**
   * Calls this slot's kernels from now on. Between two inferences where results differ: a switch
   * within one would mix them.
   * @param {number} slot
   */
  choose(slot) {
    choose(this.control, slot);
  }

  /** @returns {number} the slot that is called now */
  get chosen() {
    return Atomics.load(new Int32Array(this.control.memory.buffer), CHOSEN / 4);
  }
}

/** Module workers get our script in front of theirs, and what the threads share. @param {Control} control */
function watchWorkers(control) {
  const ours = new URL("worker.js", import.meta.url).href;
  globalThis.Worker = new Proxy(Worker, {
    construct(target, [url, options], newTarget) {
      if (options?.type !== "module" || !crossOriginIsolated) return Reflect.construct(target, [url, options], newTarget);
      const theirs = new URL(url, location.href).href;
      const both = [ours, theirs].map((script) => `import ${JSON.stringify(script)};`).join("\n");
      const blob = URL.createObjectURL(new Blob([both], { type: "text/javascript" }));
      const worker = Reflect.construct(target, [blob, options], newTarget);
      worker.postMessage({ nnjitControl: control });
      return worker;
    },
  });
}

/**
 * @param {BufferSource} dispatch the module of dispatchers and stubs
 * @param {string[]} names of a kernel module's exports, in the order of the table
 * @returns {Promise<Live>}
 */
export async function install(dispatch, names) {
  const memory = new WebAssembly.Memory({ initial: PAGES, maximum: PAGES, shared: true });
  const control = { memory, dispatch: await WebAssembly.compile(dispatch), names };
  const live = new Live(control);
  live.choose(ORIGINAL);
  watchWorkers(control);
  watchInstances((instance, imports) => {
    const runtime = attach(instance, imports, control);
    if (runtime) live.runtimes.push(runtime);
  });
  return live;
}
